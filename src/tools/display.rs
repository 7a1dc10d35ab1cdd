//! How tools name things to people and models: one-line titles, short paths, sizes.
use crate::{effects::WsPath, workspace::Reader};
use std::{fmt::Write as _, time::Duration};

/// The longest title of a card, in characters.
pub(crate) const TITLE: usize = 200;

/// The first line of `text` that has any, at most `max` characters; `…` says that there is more. Control characters and those that
/// reorder or hide text are written as escapes, so that what a person reads is what is there.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default().trim_end();
    let mut out = String::with_capacity(first.len());
    let mut count = 0;
    for c in first.chars() {
        let mut piece = String::new();
        if deceives(c) {
            piece.extend(c.escape_default())
        } else {
            piece.push(c)
        }
        let width = piece.chars().count();
        if count + width > max.saturating_sub(1) {
            out.push('…');
            return out;
        }
        count += width;
        out.push_str(&piece);
    }
    if first.len() < text.len() {
        out.push_str(if count + 1 < max { " …" } else { "…" });
    }
    out
}

/// Characters that a title must not carry as they are: controls, direction marks and invisible ones.
fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A path as it is shown: relative to the session's folder where it lies in it, else absolute.
pub(crate) fn path(ws: &dyn Reader, path: &WsPath) -> String {
    let inside = ws.roots().first().and_then(|root| path.real().strip_prefix(root).ok());
    match inside {
        Some(p) if p.as_os_str().is_empty() => ".".into(),
        Some(p) => p.display().to_string(),
        None => path.to_string(),
    }
}

/// A path that the model wrote, as [`path`] shows it; where it does not resolve, as it was written.
pub(crate) fn named(ws: &dyn Reader, written: &str) -> String {
    let shown = match ws.resolve(written) {
        Ok(p) => path(ws, &p),
        Err(_) => written.to_owned(),
    };
    one_line(&shown, TITLE - 40)
}

/// A size in bytes for people: `812 B`, `1.2 KB`, `3.4 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration for people: `80 ms`, `2.4 s`, `3 min 5 s`.
pub(crate) fn duration(d: Duration) -> String {
    let ms = d.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", d.as_secs_f64()),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// `1 line`, `2 lines`.
pub(crate) fn count(n: usize, one: &str) -> String {
    match (n, one) {
        (1, one) => format!("1 {one}"),
        (n, "match") => format!("{n} matches"),
        (n, "entry") => format!("{n} entries"),
        (n, one) => format!("{n} {one}s"),
    }
}

/// A line cut to `max` characters, with a note of how much was left out.
pub(crate) fn cut(line: &str, max: usize) -> String {
    match line.char_indices().nth(max) {
        None => line.to_owned(),
        Some((at, _)) => {
            let mut out = line[..at].to_owned();
            let _ = write!(out, "… ({} more characters)", line[at..].chars().count());
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_and_shows_what_is_there() {
        for (text, max, want) in [
            ("cargo test", 200, "cargo test"),
            ("  cargo test\n", 200, "cargo test"),
            ("cat <<EOF\nbody\nEOF", 200, "cat <<EOF …"),
            ("a\tb\x1b[31m", 200, "a\\tb\\u{1b}[31m"),
            ("rm \u{202e}txt", 200, "rm \\u{202e}txt"),
            ("abcdef", 4, "abc…"),
            ("", 10, ""),
        ] {
            assert_eq!(one_line(text, max), want, "{text:?}");
        }
        let long = one_line(&"é".repeat(500), TITLE);
        assert_eq!(long.chars().count(), TITLE);
        assert!(one_line(&format!("{}\nx", "a".repeat(199)), TITLE).chars().count() <= TITLE);
    }

    #[test]
    fn sizes_and_times_are_for_people() {
        for (n, want) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (1_234_567, "1.2 MB"), (999_999, "1.0 MB")]
        {
            assert_eq!(size(n), want);
        }
        for (ms, want) in [(80, "80 ms"), (2400, "2.4 s"), (185_000, "3 min 5 s")] {
            assert_eq!(duration(Duration::from_millis(ms)), want);
        }
        assert_eq!(cut("abcdé", 5), "abcdé");
        assert_eq!(cut("abcdéf", 4), "abcd… (2 more characters)");
    }
}
