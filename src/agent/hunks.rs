//! Review by hunk: the agent numbers the hunks of a change, and writes only those that were accepted.
use super::port::Hunk;
use crate::effects::{Change, Effects, WsPath};
use crate::workspace::text::Text;
use similar::{DiffOp, TextDiff};

/// The hunks of all writes of a plan. Deletions, moves and new files are one hunk each.
pub fn of(effects: &Effects) -> Vec<Hunk> {
    effects.writes.iter().enumerate().flat_map(|(n, change)| of_change(n, change)).collect()
}

fn of_change(n: usize, change: &Change) -> Vec<Hunk> {
    let lines = |text: &str| text.lines().count() as u32 + 1;
    match change {
        Change::Write { path, old: Some(old), new } => {
            let (old, new) = (old.shown(), new.shown());
            let diff = TextDiff::from_lines(old.as_ref(), new.as_ref());
            changed(diff.ops())
                .enumerate()
                .map(|(k, op)| {
                    let (a, b) = (op.old_range(), op.new_range());
                    hunk(
                        n,
                        k,
                        path,
                        (a.start as u32 + 1, a.end as u32 + 1),
                        (b.start as u32 + 1, b.end as u32 + 1),
                    )
                })
                .collect()
        }
        Change::Write { path, old: None, new } => vec![hunk(n, 0, path, (1, 1), (1, lines(&new.shown())))],
        Change::Delete { path, old } => vec![hunk(n, 0, path, (1, lines(&old.shown())), (1, 1))],
        Change::Move { to, old, new, .. } => {
            vec![hunk(n, 0, to, (1, lines(&old.shown())), (1, lines(&new.shown())))]
        }
    }
}

fn hunk(change: usize, k: usize, path: &WsPath, old_lines: (u32, u32), new_lines: (u32, u32)) -> Hunk {
    Hunk { id: format!("h{change}.{k}"), path: path.as_path().to_owned(), old_lines, new_lines }
}

fn changed(ops: &[DiffOp]) -> impl Iterator<Item = &DiffOp> {
    ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }))
}

/// What is left of a plan.
pub enum Accepted {
    All(Effects),
    Some { effects: Effects, note: String },
    None,
}

/// Narrows a plan to the accepted hunks. Ids that were not offered accept nothing.
pub fn accept(mut effects: Effects, accepted: &[String]) -> Accepted {
    let (mut left_out, mut kept) = (Vec::new(), Vec::new());
    for (n, change) in effects.writes.drain(..).enumerate() {
        let hunks = of_change(n, &change);
        let refused: Vec<&Hunk> = hunks.iter().filter(|h| !accepted.contains(&h.id)).collect();
        left_out.extend(refused.iter().map(|h| {
            format!(
                "{} lines {}–{}",
                h.path.display(),
                h.new_lines.0,
                h.new_lines.1.saturating_sub(1).max(h.new_lines.0)
            )
        }));
        if refused.is_empty() {
            kept.push(change);
        } else if refused.len() < hunks.len()
            && let Change::Write { path, old: Some(old), new } = change
        {
            let new = only(&old, &new, |k| accepted.contains(&format!("h{n}.{k}")));
            kept.push(Change::Write { path, old: Some(old), new });
        }
    }
    if kept.is_empty() {
        return Accepted::None;
    }
    effects.writes = kept;
    if left_out.is_empty() {
        return Accepted::All(effects);
    }
    let note = format!("\n\n[The user accepted only a part. Not written: {}.]", left_out.join("; "));
    Accepted::Some { effects, note }
}

/// The new text with only some of its hunks.
fn only(old: &Text, new: &Text, accept: impl Fn(usize) -> bool) -> Text {
    let (old_text, new_text) = (old.shown(), new.shown());
    let diff = TextDiff::from_lines(old_text.as_ref(), new_text.as_ref());
    let (mut out, mut k) = (String::new(), 0);
    for op in diff.ops() {
        let take_new = match op {
            DiffOp::Equal { .. } => false,
            _ => {
                k += 1;
                accept(k - 1)
            }
        };
        if take_new {
            op.new_range().filter_map(|i| diff.new_slice(i)).for_each(|l| out.push_str(l));
        } else {
            op.old_range().filter_map(|i| diff.old_slice(i)).for_each(|l| out.push_str(l));
        }
    }
    let content = out.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(out);
    old.with_content(content)
}
