//! A diff as people read it: unified, three lines of context, coloured.
use super::{style::Style, text::visible};
use similar::{ChangeTag, TextDiff};
use std::path::Path;

/// The unified diff of one file, each line ended. `old` is `None` for a new file. Paths below `base` are shown
/// relative to it.
pub fn unified(path: &Path, old: Option<&str>, new: &str, base: &Path, style: Style) -> String {
    let name = path.strip_prefix(base).unwrap_or(path).display().to_string();
    let name = visible(&name);
    let from = if old.is_none() { "/dev/null" } else { name.as_ref() };
    let mut out = format!("{}\n", style.bold(&format!("--- {from}")));
    out.push_str(&format!("{}\n", style.bold(&format!("+++ {name}"))));
    let diff = TextDiff::from_lines(old.unwrap_or_default(), new);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        out.push_str(&format!("{}\n", style.cyan(&hunk.header().to_string())));
        for change in hunk.iter_changes() {
            let line = visible(change.value().trim_end_matches(['\n', '\r'])).into_owned();
            let line = match change.tag() {
                ChangeTag::Delete => style.red(&format!("-{line}")),
                ChangeTag::Insert => style.green(&format!("+{line}")),
                ChangeTag::Equal => format!(" {line}"),
            };
            out.push_str(&line);
            out.push('\n');
            if change.missing_newline() {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    }
    out.push_str(&ending_note(old, new, style));
    out
}

/// Line endings are not seen in a diff, so a change of them is said.
fn ending_note(old: Option<&str>, new: &str, style: Style) -> String {
    let Some(old) = old else { return String::new() };
    match (old.contains("\r\n"), new.contains("\r\n")) {
        (false, true) => style.yellow("(line endings change from LF to CRLF)") + "\n",
        (true, false) => style.yellow("(line endings change from CRLF to LF)") + "\n",
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(old: Option<&str>, new: &str) -> String {
        unified(Path::new("/w/a/b.txt"), old, new, Path::new("/w"), Style::default())
    }

    #[test]
    fn shapes() {
        assert_eq!(
            plain(Some("one\ntwo\nthree\n"), "one\n2\nthree\n"),
            "--- a/b.txt\n+++ a/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        );
        assert_eq!(plain(None, "new\n"), "--- /dev/null\n+++ a/b.txt\n@@ -0,0 +1 @@\n+new\n");
        assert_eq!(
            plain(Some("a"), "b"),
            "--- a/b.txt\n+++ a/b.txt\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
        );
        assert!(plain(Some("a\n"), "a\r\n").ends_with("(line endings change from LF to CRLF)\n"));
        assert!(plain(Some("a\n"), "\u{1b}[2K\n").contains("+\\u{1b}[2K\n"), "escapes are shown");
    }

    #[test]
    fn colours() {
        let out = unified(Path::new("/w/x"), Some("a\n"), "b\n", Path::new("/w"), Style { color: true });
        assert!(out.contains("\u{1b}[31m-a\u{1b}[0m\n") && out.contains("\u{1b}[32m+b\u{1b}[0m\n"));
    }
}
