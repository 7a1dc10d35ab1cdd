//! A summary without a model, for when the one that was asked fails: what the log itself says, in order.
use super::ledger::{ended, shortened};
use crate::{
    agent::context::View,
    log::{Block, Entry, Outcome, Stored},
};
use std::fmt::Write as _;

/// Steps that are named.
const STEPS: usize = 60;
/// Bytes of a failed result.
const FAILURE: usize = 300;

/// What was said and done below `covers`, in at most `bytes`. `earlier`: the summary that this one follows.
pub fn digest(entries: &[Stored], covers: u64, earlier: Option<&str>, bytes: usize) -> String {
    let view = View::of(entries);
    let told: Vec<&Stored> = entries.iter().filter(|s| s.seq < covers && !view.is_hidden(s.seq)).collect();
    let mut out = String::from("(Made from the log, without a model.)\n");
    if let Some(earlier) = earlier {
        let _ = writeln!(out, "\n## Earlier\n{}", shortened(earlier, bytes / 3));
    }
    let last = told.iter().rev().find_map(|s| match &s.entry {
        Entry::Assistant { blocks, .. } => text(blocks),
        _ => None,
    });
    let steps = steps(&told, bytes / 3);
    if !steps.is_empty() {
        let _ = writeln!(out, "\n## What was said and done (oldest first)\n{steps}");
    }
    if let Some(last) = last {
        let _ = writeln!(out, "\n## Your last words before the cut\n{}", shortened(&last, bytes / 4));
    }
    shortened(&out, bytes)
}

fn text(blocks: &[Block]) -> Option<String> {
    let text: String = blocks
        .iter()
        .filter_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!text.trim().is_empty()).then_some(text)
}

/// One line for each reply and each call, the newest that fit.
fn steps(told: &[&Stored], bytes: usize) -> String {
    let mut lines = Vec::new();
    for stored in told.iter().rev() {
        match &stored.entry {
            Entry::Assistant { blocks, .. } => {
                let said = text(blocks);
                lines.extend(said.map(|said| format!("- said: {}", shortened(first_line(&said), 160))));
            }
            Entry::Result { outcome, card, text, .. } => {
                let mut line = format!("- {}: {}", shortened(&card.title, 160), ended(card, *outcome));
                if *outcome != Outcome::Ok {
                    let _ = write!(line, " ({})", shortened(&text.replace('\n', " "), FAILURE));
                }
                lines.push(line);
            }
            _ => {}
        }
    }
    let mut left = bytes;
    let mut kept: Vec<String> = Vec::new();
    for line in lines.into_iter().take(STEPS) {
        if line.len() > left {
            break;
        }
        left -= line.len();
        kept.push(line);
    }
    kept.reverse();
    kept.join("\n")
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default()
}
