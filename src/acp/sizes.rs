//! What we send stays under 1 MiB a line: texts, diffs and arguments are shortened where they are larger, and say so.
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::{borrow::Cow, time::Duration};

/// A diff whose old and new text together are longer is sent as an extract.
pub const DIFF: usize = 256 * 1024;
/// The longest text in one piece of content.
pub const TEXT: usize = 128 * 1024;
/// The longest chunk of a message; more is sent as several chunks of the same message.
pub const CHUNK: usize = 128 * 1024;
/// The longest image, in Base64.
pub const IMAGE: usize = 700 * 1024;
/// The longest `rawInput`.
const RAW: usize = 64 * 1024;
/// The longest string in a `rawInput` that was too long.
const RAW_STRING: usize = 4 * 1024;
/// Lines around a change in an extract.
const CONTEXT: usize = 3;

/// A text, cut in the middle where it is too long.
pub fn text(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(TEXT / 4 * 3)];
    let tail = &text[text.ceil_char_boundary(text.len() - TEXT / 4)..];
    format!("{head}\n[… {} bytes not shown …]\n{tail}", text.len() - head.len() - tail.len())
}

/// The pieces of a message that may be long; together they are the text, byte for byte.
pub fn chunks(mut text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    while text.len() > CHUNK {
        let (piece, rest) = text.split_at(text.floor_char_boundary(CHUNK));
        out.push(piece);
        text = rest;
    }
    out.push(text);
    out
}

/// A tool's arguments; long strings in them are shortened where the whole is too long.
pub fn raw(value: &Value) -> Value {
    let size = serde_json::to_string(value).map_or(usize::MAX, |s| s.len());
    if size <= RAW { value.clone() } else { shorten(value) }
}

fn shorten(value: &Value) -> Value {
    match value {
        Value::String(s) if s.len() > RAW_STRING => {
            let head = &s[..s.floor_char_boundary(RAW_STRING)];
            Value::String(format!("{head}… ({} bytes in all)", s.len()))
        }
        Value::Array(items) => Value::Array(items.iter().take(100).map(shorten).collect()),
        Value::Object(fields) => fields.iter().take(100).map(|(k, v)| (k.clone(), shorten(v))).collect(),
        other => other.clone(),
    }
}

/// The changed parts of a large change with three lines around them, as (old, new, note).
pub fn extract(old: &str, new: &str) -> (String, String, String) {
    let diff = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(old, new);
    let (mut a, mut b) = (String::new(), String::new());
    let mut cut = false;
    for group in diff.grouped_ops(CONTEXT) {
        if !a.is_empty() || !b.is_empty() {
            [&mut a, &mut b].into_iter().for_each(|side| side.push_str("⋯\n"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = change.value();
            if a.len() + b.len() + line.len() > DIFF {
                cut = true;
                break;
            }
            if change.tag() != ChangeTag::Insert {
                a.push_str(line);
            }
            if change.tag() != ChangeTag::Delete {
                b.push_str(line);
            }
        }
    }
    let more = if cut { ", and not all of it" } else { "" };
    let note = format!(
        "This diff is an extract: the file is too large to be shown whole ({} bytes before, {} after{more}). \
         The file itself is written in full.",
        old.len(),
        new.len()
    );
    (a, b, note)
}

/// `text` without a copy where it is short.
pub fn short(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        text.into()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(max)]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_to_the_text() {
        let long = "añ🙂".repeat(60_000);
        let pieces = chunks(&long);
        assert!(pieces.len() > 1 && pieces.iter().all(|p| p.len() <= CHUNK));
        assert_eq!(pieces.concat(), long);
        assert_eq!(chunks(""), [""]);
    }

    #[test]
    fn a_large_change_is_shown_as_its_changed_parts() {
        let old: String = (0..40_000).map(|i| format!("line {i}\n")).collect();
        let new = old.replace("line 20000\n", "changed\n");
        let (a, b, note) = extract(&old, &new);
        assert_eq!(a.lines().count(), 7);
        assert!(a.contains("line 20000\n") && b.contains("changed\n") && !b.contains("line 20000\n"));
        assert!(note.contains("extract"));
    }

    #[test]
    fn long_arguments_are_shortened_by_string() {
        let value = serde_json::json!({"path": "a", "content": "x".repeat(RAW)});
        let raw = raw(&value);
        assert_eq!(raw["path"], "a");
        assert!(raw["content"].as_str().unwrap().ends_with("bytes in all)"));
    }
}
