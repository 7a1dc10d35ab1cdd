//! What is kept word for word beside every summary, by us and not by a model: it cannot be forgotten or made up.
use super::measure::of_bytes;
use crate::{
    agent::context::View,
    log::{Card, Entry, Outcome, Part, PlanItem, PlanStatus, PromptState, Shown, Stored, ToolKind},
};
use std::{collections::HashSet, fmt::Write as _, path::Path};

/// Paths of each list that are named.
const PATHS: usize = 60;
/// Commands that are named.
const COMMANDS: usize = 20;
/// Bytes of the output of the last failed command.
const FAILURE: usize = 1_200;

/// The facts of the entries below `covers`, in at most about `budget` tokens. `whole` says where the last prompt was
/// saved, if it is too long to be repeated.
pub fn ledger(entries: &[Stored], covers: u64, budget: u64, whole: Option<&Path>) -> String {
    let view = View::of(entries);
    let told: Vec<&Stored> = entries.iter().filter(|s| !view.is_rewound(s.seq)).collect();
    let bytes = usize::try_from(budget.saturating_mul(4)).unwrap_or(usize::MAX);
    let mut out = String::new();
    requests(&told, covers, bytes * 6 / 10, whole, &mut out);
    plan(&told, &mut out);
    files(&told, bytes / 5, &mut out);
    commands(&told, covers, bytes / 5, &mut out);
    out
}

/// The text of the newest prompt below `covers`, if it does not fit into the ledger.
pub fn too_long(entries: &[Stored], covers: u64, budget: u64) -> Option<String> {
    let view = View::of(entries);
    let text = entries.iter().rev().filter(|s| s.seq < covers && !view.is_rewound(s.seq)).find_map(said)?;
    (of_bytes(text.len()) > budget * 3 / 10).then_some(text)
}

/// What the user said in an entry, as one text.
pub fn said(stored: &Stored) -> Option<String> {
    match &stored.entry {
        Entry::User { parts, state: PromptState::Sent, .. } => Some(words(parts)),
        Entry::Steer { text, .. } => Some(text.clone()),
        _ => None,
    }
}

fn words(parts: &[Part]) -> String {
    let each = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Image(_) => "[an image]".into(),
        Part::Link { uri, .. } => format!("[file {uri}]"),
        Part::Embedded { uri, text, .. } => format!("[text of {uri}]\n{}", shortened(text, 2_000)),
    });
    each.collect::<Vec<_>>().join("\n")
}

/// The first request and the newest ones word for word, until the budget is used up; of those between, the beginnings.
fn requests(told: &[&Stored], covers: u64, bytes: usize, whole: Option<&Path>, out: &mut String) {
    let all: Vec<String> = told.iter().filter(|s| s.seq < covers).filter_map(|s| said(s)).collect();
    let Some(newest) = all.last() else { return };
    let mut kept = vec![(all.len(), shortened(newest, bytes / 2))];
    let reserve = bytes / 4;
    let mut left = (bytes - reserve).saturating_sub(kept[0].1.len());
    if all.len() > 1 {
        let first = shortened(&all[0], left / 2);
        left = left.saturating_sub(first.len());
        for (i, text) in all.iter().enumerate().skip(1).rev().skip(1) {
            let text = shortened(text, bytes / 8);
            if text.len() > left {
                break;
            }
            left -= text.len();
            kept.push((i + 1, text));
        }
        let between = 1..kept.last().map_or(1, |(n, _)| n - 1);
        kept.extend(beginnings(&all, between, reserve + left));
        kept.push((1, first));
    }
    kept.reverse();
    out.push_str("## Requests of the user, word for word\n");
    let mut next = 1;
    for (n, text) in kept {
        if n > next {
            let _ = writeln!(out, "({} more between these are not repeated here)", n - next);
        }
        next = n + 1;
        let _ = writeln!(out, "{n}. {text}");
    }
    if let Some(path) = whole {
        let _ = writeln!(out, "(The whole of the last one is in {}: `read` it in parts.)", path.display());
    }
}

/// How the requests between begin, the newest first, as many as fit; with their numbers.
fn beginnings(all: &[String], between: std::ops::Range<usize>, bytes: usize) -> Vec<(usize, String)> {
    const SHORTEST: usize = 32;
    const LONGEST: usize = 200;
    // What stands around the words of each: its number and the mark of the cut.
    const AROUND: usize = 10;
    let each = (bytes / between.len().max(1)).saturating_sub(AROUND).clamp(SHORTEST, LONGEST);
    let fit = bytes / (each + AROUND);
    let begin = |i: usize| {
        let text = all[i].split_whitespace().collect::<Vec<_>>().join(" ");
        let end = text.floor_char_boundary(each);
        if end == text.len() { text } else { format!("{} […]", &text[..end]) }
    };
    between.rev().take(fit).map(|i| (i + 1, begin(i))).collect()
}

fn plan(told: &[&Stored], out: &mut String) {
    let items = told.iter().rev().find_map(|s| match &s.entry {
        Entry::Plan { items } => Some(items.as_slice()),
        _ => None,
    });
    let Some(items) = items.filter(|items| !items.is_empty()) else { return };
    out.push_str("\n## The plan as it stands\n");
    for PlanItem { content, status, .. } in items {
        let mark = match status {
            PlanStatus::Pending => ' ',
            PlanStatus::InProgress => '>',
            PlanStatus::Completed => 'x',
        };
        let _ = writeln!(out, "- [{mark}] {}", shortened(content, 300));
    }
}

fn files(told: &[&Stored], bytes: usize, out: &mut String) {
    let (mut changed, mut read) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for stored in told.iter().rev() {
        let Entry::Result { outcome: Outcome::Ok, card, .. } = &stored.entry else { continue };
        let (list, changes) = match card.kind {
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => (&mut changed, true),
            ToolKind::Read => (&mut read, false),
            _ => continue,
        };
        for path in paths(card) {
            if seen.insert((path, changes)) {
                list.push(path.display().to_string());
            }
        }
    }
    for (title, list) in [("Files changed in this session", changed), ("Files read", read)] {
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {title} (newest first)");
        let mut left = bytes / 2;
        let fits = list.iter().take(PATHS).take_while(|path| {
            let fits = path.len() < left;
            left = left.saturating_sub(path.len());
            fits
        });
        let shown: Vec<&String> = fits.collect();
        shown.iter().for_each(|path| {
            let _ = writeln!(out, "- {path}");
        });
        if shown.len() < list.len() {
            let _ = writeln!(out, "- and {} more", list.len() - shown.len());
        }
    }
}

fn paths(card: &Card) -> impl Iterator<Item = &Path> {
    let diffs = card.shown.iter().filter_map(|s| match s {
        Shown::Diff { path, .. } => Some(path.as_path()),
        _ => None,
    });
    diffs.chain(card.locations.iter().map(|l| l.path.as_path()))
}

fn commands(told: &[&Stored], covers: u64, bytes: usize, out: &mut String) {
    let ran: Vec<(&Card, Outcome, &str)> = told
        .iter()
        .rev()
        .filter(|s| s.seq < covers)
        .filter_map(|s| match &s.entry {
            Entry::Result { card, outcome, text, .. } if card.kind == ToolKind::Execute => {
                Some((card, *outcome, text.as_str()))
            }
            _ => None,
        })
        .collect();
    let Some((last, outcome, output)) = ran.first() else { return };
    out.push_str("\n## Commands that ran (newest first)\n");
    let mut left = bytes / 2;
    for (card, outcome, _) in ran.iter().take(COMMANDS) {
        let line = format!("- {}: {}", shortened(&card.title, 200), ended(card, *outcome));
        if line.len() > left {
            break;
        }
        left -= line.len();
        let _ = writeln!(out, "{line}");
    }
    if ended(last, *outcome) != "ok" {
        let from = output.ceil_char_boundary(output.len().saturating_sub(FAILURE.min(bytes / 2)));
        let _ = writeln!(out, "The newest of them ended so:\n{}", output[from..].trim());
    }
}

/// How a call ended, in a word.
pub fn ended(card: &Card, outcome: Outcome) -> String {
    let exit = card.shown.iter().find_map(|s| match s {
        Shown::Terminal { exit: Some(exit), .. } => exit.code,
        _ => None,
    });
    match (outcome, exit) {
        (Outcome::Ok | Outcome::Failed, Some(code)) if code != 0 => format!("exit {code}"),
        (Outcome::Ok, _) => "ok".into(),
        (Outcome::Failed, _) => "failed".into(),
        (Outcome::Denied, _) => "not allowed".into(),
        (Outcome::Cancelled, _) => "cancelled".into(),
        (Outcome::Unknown, _) => "not known how it ended".into(),
    }
}

/// At most about `bytes` of a text: its start and its end.
pub fn shortened(text: &str, bytes: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(bytes * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - bytes / 3).max(head);
    format!("{} [… {} bytes …] {}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Millis, id::MessageId};

    #[test]
    fn no_request_is_forgotten_while_there_is_room_for_how_it_begins() {
        let said = |n: usize| format!("REQ{n:02} is about {}", "the same long thing ".repeat(8));
        let entries: Vec<Stored> = (1..=60)
            .map(|n| {
                let parts = vec![Part::Text { text: said(n) }];
                let entry =
                    Entry::User { id: MessageId::new(), parts, state: PromptState::Sent, volatile: None };
                Stored { seq: n as u64, at: Millis::now(), entry }
            })
            .collect();
        let kept = ledger(&entries, 61, 2_500, None);
        for n in 1..=60 {
            assert!(kept.contains(&format!("{n}. REQ{n:02} is about the same")), "{n}\n{kept}");
        }
        assert!(kept.contains(said(60).trim()) && !kept.contains("not repeated"), "{kept}");
        // With too little room the oldest of those between are counted.
        let kept = ledger(&entries, 61, 700, None);
        assert!(kept.len() < 3_500 && kept.contains("more between these are not repeated here"), "{kept}");
        assert!(
            kept.contains("1. REQ01") && kept.contains("60. REQ60") && kept.contains("59. REQ59"),
            "{kept}"
        );
    }
}
