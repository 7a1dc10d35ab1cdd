//! How a change of files is shown: the diff in the card, the lines around it for the model.
use super::{ToolError, display};
use crate::{
    effects::Change,
    log::{Location, Shown},
    workspace::{
        ApplyError, Reader, Written, WsError,
        text::{Text, lines},
    },
};
use std::{fmt::Write as _, ops::Range};

/// The most lines of a snippet.
const LINES: usize = 20;
/// Lines of context on each side of a change.
const CONTEXT: usize = 2;
/// The most characters of a line in a snippet.
const WIDTH: usize = 300;

impl From<ApplyError> for ToolError {
    fn from(e: ApplyError) -> Self {
        match e.error {
            WsError::Unknown { .. } => ToolError::Unknown(e.to_string()),
            WsError::Cancelled if e.landed.is_empty() => ToolError::Cancelled,
            WsError::Changed { .. } if e.landed.is_empty() => ToolError::Changed(e.to_string()),
            _ => ToolError::Failed(e.to_string()),
        }
    }
}

/// The diffs of a card: exactly what is written, byte-order mark and line endings included. A move is a deletion and a new file,
/// as v1 of the protocol has no other word for it.
pub(crate) fn diffs(changes: &[Change]) -> Vec<Shown> {
    let diff = |path: &std::path::Path, old: Option<&Text>, new: Option<&Text>| Shown::Diff {
        path: path.to_owned(),
        old: old.map(|t| t.shown().as_ref().into()),
        new: new.map_or_else(|| "".into(), |t| t.shown().as_ref().into()),
    };
    let mut shown = Vec::new();
    for change in changes {
        match change {
            Change::Write { path, old, new } => shown.push(diff(path.as_path(), old.as_ref(), Some(new))),
            Change::Delete { path, old } => shown.push(diff(path.as_path(), Some(old), None)),
            Change::Move { from, to, old, new } => {
                shown.push(diff(from.as_path(), Some(old), None));
                shown.push(diff(to.as_path(), None, Some(new)));
            }
        }
    }
    shown
}

/// Where the editor should look: the first changed line of each file that is there afterwards.
pub(crate) fn locations(changes: &[Change]) -> Vec<Location> {
    let at = |change: &Change| {
        let line = match change {
            Change::Write { old: Some(old), new, .. } | Change::Move { old, new, .. } => first_line(old, new),
            Change::Write { .. } => 1,
            Change::Delete { .. } => return None,
        };
        Some(Location { path: change.path().as_path().to_owned(), line: Some(line) })
    };
    changes.iter().filter_map(at).collect()
}

fn first_line(old: &Text, new: &Text) -> u32 {
    let same = lines(old.content())
        .zip(lines(new.content()))
        .take_while(|(a, b)| (a.text, a.ending) == (b.text, b.ending));
    let line = same.count() + 1;
    u32::try_from(line.min(lines(new.content()).count().max(1))).unwrap_or(u32::MAX)
}

/// The changed lines of `new` with some context, numbered as `read` does, at most [`LINES`] lines.
pub(crate) fn snippet(old: &Text, new: &Text) -> String {
    let before: Vec<_> = lines(old.content()).map(|l| l.text).collect();
    let after: Vec<_> = lines(new.content()).map(|l| l.text).collect();
    let mut out = String::new();
    let (mut room, mut end, mut left) = (LINES, 0, Vec::new());
    for changed in hunks(&before, &after) {
        let from = changed.start.saturating_sub(CONTEXT).max(end);
        let to = (changed.end + CONTEXT).min(after.len());
        if room == 0 || (to - from.min(to) > room && room < LINES) {
            left.push(changed.start + 1);
            continue;
        }
        if from > end && !out.is_empty() {
            out.push_str("…\n");
        }
        let shown = (to - from.min(to)).min(room);
        for (n, line) in after.iter().enumerate().skip(from).take(shown) {
            let _ = writeln!(out, "{}\t{}", n + 1, display::cut(line, WIDTH));
        }
        if from + shown < to {
            let _ = writeln!(out, "… ({} more)", display::count(to - from - shown, "line"));
        }
        room -= shown;
        end = from + shown;
    }
    if !left.is_empty() {
        let named: Vec<_> = left.iter().take(20).map(usize::to_string).collect();
        let _ = writeln!(
            out,
            "… (more changes at lines {}{})",
            named.join(", "),
            if left.len() > 20 { ", …" } else { "" }
        );
    }
    out
}

/// The changed ranges of lines in `after`, counted from 0; an empty range is a place where lines went.
fn hunks(before: &[&str], after: &[&str]) -> Vec<Range<usize>> {
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let tail =
        before[head..].iter().rev().zip(after[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    // A full diff of two large and different texts takes seconds; one hunk says enough.
    if old.len().saturating_mul(new.len()) > 4_000_000 {
        return std::iter::once(head..after.len() - tail).collect();
    }
    similar::capture_diff_slices(similar::Algorithm::Myers, old, new)
        .into_iter()
        .filter(|op| op.tag() != similar::DiffTag::Equal)
        .map(|op| op.new_range().start + head..op.new_range().end + head)
        .collect()
}

/// The changes as they landed: carried over to text that had changed meanwhile, where that was so.
pub(crate) fn landed(planned: &[Change], written: &[Written]) -> Vec<Change> {
    let landed = |(n, change): (usize, &Change)| {
        written.get(n).and_then(|w| w.rebased.as_ref()).unwrap_or(change).clone()
    };
    planned.iter().enumerate().map(landed).collect()
}

/// What the model is told when a file is not just as it was planned: changed meanwhile, formatted on save, a remark.
pub(crate) fn remarks(name: &str, written: &Written) -> Vec<String> {
    let mut out = Vec::new();
    if written.rebased.is_some() {
        out.push(format!("{name} had changed elsewhere since this was planned; those changes are kept"));
    }
    if written.drift.is_some() {
        out.push(format!(
            "something (a formatter on save?) changed {name} right after the write: leave that as it is"
        ));
    }
    out.extend(written.note.clone());
    out
}

/// One line on a freshness that the model should know of.
pub(crate) async fn stale(ws: &dyn Reader, path: &crate::effects::WsPath) -> Option<String> {
    match ws.freshness(path).await {
        crate::workspace::Freshness::Changed(what) => Some(what),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: Range<usize>) -> String {
        range.map(|n| format!("l{n}\n")).collect()
    }

    #[test]
    fn a_snippet_shows_changed_lines_with_context() {
        let old = Text::new_utf8(numbered(1..101));
        let new = old.with_content(old.content().replace("l50\n", "A\nB\n").replace("l90\n", ""));
        assert_eq!(
            snippet(&old, &new),
            "48\tl48\n49\tl49\n50\tA\n51\tB\n52\tl51\n53\tl52\n…\n89\tl88\n90\tl89\n91\tl91\n92\tl92\n"
        );
        assert_eq!(snippet(&old, &old), "");
    }

    #[test]
    fn a_snippet_is_short() {
        let old = Text::new_utf8(numbered(1..1001));
        let all = old.with_content(old.content().replace('l', "m"));
        assert_eq!(snippet(&old, &all).lines().count(), LINES + 1);
        let spread = old.with_content(old.content().replace("0\n", "0!\n"));
        let text = snippet(&old, &spread);
        assert!(text.lines().count() <= LINES + 6, "{text}");
        assert!(text.contains("more changes at lines"), "{text}");
    }

    #[test]
    fn the_location_is_the_first_changed_line() {
        let old = Text::new_utf8("a\nb\nc\n");
        for (new, line) in [("a\nB\nc\n", 2), ("a\nb\n", 2), ("a\nb\nc\nd\n", 4), ("", 1)] {
            assert_eq!(first_line(&old, &old.with_content(new)), line, "{new:?}");
        }
    }
}
