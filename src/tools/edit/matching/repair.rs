//! Two slips in how a model quotes a file: line numbers copied from a listing, and text escaped once too often. Both are
//! undone in the old and the new text alike, or not at all.

/// The separators that listings put after a line number, longest first.
const SEPARATORS: [&str; 6] = ["\t", "|", "→", ": ", ":", "  "];

/// Both strings without line numbers, one reading for each separator that explains every line of `old`.
pub(super) fn unnumbered(old: &str, new: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for separator in SEPARATORS {
        if let Some(pair) = strip_numbers(old, new, separator)
            && !found.contains(&pair)
        {
            found.push(pair);
        }
    }
    found
}

fn strip_numbers(old: &str, new: &str, separator: &str) -> Option<(String, String)> {
    let mut previous = None;
    let mut plain = Vec::new();
    for line in old.trim_end_matches('\n').split('\n') {
        let (number, rest) = numbered(line, separator)?;
        if previous.is_some_and(|p: usize| p + 1 != number) {
            return None;
        }
        previous = Some(number);
        plain.push(rest);
    }
    let old_tail = &old[old.trim_end_matches('\n').len()..];
    let body = new.trim_end_matches('\n');
    let lines: Vec<_> = body.split('\n').map(|l| (l, numbered(l, separator))).collect();
    let count = lines.iter().filter(|(_, n)| n.is_some()).count();
    let plain_new = if count == 0 {
        body.to_owned()
    } else if lines.iter().all(|(l, n)| n.is_some() || l.trim().is_empty()) {
        let stripped: Vec<_> = lines.iter().map(|(l, n)| n.map_or(*l, |(_, rest)| rest)).collect();
        stripped.join("\n")
    } else {
        return None;
    };
    Some((plain.join("\n") + old_tail, plain_new + &new[body.len()..]))
}

/// `"   12|text"` as 12 and `text`.
fn numbered<'a>(line: &'a str, separator: &str) -> Option<(usize, &'a str)> {
    let digits = line.trim_start_matches(' ');
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = digits[..digits.len() - rest.len()].parse().ok()?;
    // A blank line's listing may have lost the white space after the number.
    let rest = rest
        .strip_prefix(separator)
        .or_else(|| (rest.is_empty() && separator.trim().is_empty()).then_some(""))?;
    Some((number, rest))
}

/// The ways to undo escapes: all of them, only quotes, or only line breaks and tabs.
pub(super) const READINGS: [&str; 3] = ["ntr\"'\\/`", "\"'`", "ntr"];

/// Both strings with the escapes of one reading undone, if `old` has any.
pub(super) fn unescaped(old: &str, new: &str, reading: &str) -> Option<(String, String)> {
    let pair = (unescape(old, reading), unescape(new, reading));
    (pair.0 != old && !splits_a_string(old, new, &pair.1)).then_some(pair)
}

/// `new` with the escapes of one reading undone, where `old` has none to prove it.
pub(super) fn unescaped_new(old: &str, new: &str, reading: &str) -> Option<String> {
    let plain = unescape(new, reading);
    (!splits_a_string(old, new, &plain)).then_some(plain)
}

fn unescape(text: &str, escapes: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let next = chars.clone().next();
        match next {
            Some(e) if c == '\\' && escapes.contains(e) => {
                chars.next();
                out.push(match e {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    e => e,
                });
            }
            // A pair that is not undone here is passed over whole: in `\\n` the `n` is no escape.
            Some('\\') if c == '\\' => {
                chars.next();
                out.push_str("\\\\");
            }
            _ => out.push(c),
        }
    }
    out
}

/// Whether undoing a line break cuts a quoted string in two: then it was meant as an escape of the language.
fn splits_a_string(old: &str, new: &str, plain: &str) -> bool {
    if plain.matches('\n').count() == new.matches('\n').count() {
        return false;
    }
    let odd =
        |text: &str, quote: char| text.split('\n').filter(|l| l.matches(quote).count() % 2 == 1).count();
    ['"', '`'].into_iter().any(|quote| {
        let whole = new.matches(quote).count() % 2 == 0 && old.matches(quote).count() % 2 == 0;
        whole && odd(plain, quote) > 0
    })
}
