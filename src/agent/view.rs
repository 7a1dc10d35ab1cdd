//! The editor's view: the other projection of the log. What a person sees after a restart is what they saw live.
use super::port::{CallOpened, CallStatus, CompactionStatus, Update};
use crate::log::{Block, Call, Card, Entry, Outcome, Shown, Stored};
use std::collections::HashMap;

/// What a call without a result is shown as: it was running when the process ended.
pub const INTERRUPTED: &str = "Interrupted: the agent ended before this was done.";

/// The whole conversation as updates, one per stored message, card or plan, in order.
pub fn replay(entries: &[Stored]) -> Vec<Update> {
    let results: HashMap<&str, (&Outcome, &Card)> = entries
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::Result { call, outcome, card, .. } => Some((call.as_str(), (outcome, card))),
            _ => None,
        })
        .collect();
    let began: HashMap<&str, &Card> = entries
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::Began { call, card: Some(card), .. } => Some((call.as_str(), &**card)),
            _ => None,
        })
        .collect();
    let cards = Cards { results, began };
    let mut out = Vec::new();
    for stored in entries {
        match &stored.entry {
            Entry::User { id, parts, .. } => out.push(Update::User { id: id.clone(), parts: parts.clone() }),
            Entry::Steer { id, text } => out.push(Update::User {
                id: id.clone(),
                parts: vec![crate::log::Part::Text { text: text.clone() }],
            }),
            Entry::Assistant { id, blocks, interrupted, .. } => {
                for block in blocks {
                    out.extend(self::block(id, block, *interrupted, &cards));
                }
            }
            Entry::Action { call, name, outcome, card } => {
                let status = if *outcome == Outcome::Ok { CallStatus::Completed } else { CallStatus::Failed };
                out.push(Update::Call(Box::new(CallOpened {
                    id: call.clone(),
                    name: name.clone(),
                    card: card.clone(),
                    raw_input: serde_json::Value::Null,
                    status,
                })));
            }
            Entry::Said { id, text } => out.push(Update::Text { id: id.clone(), text: text.clone() }),
            Entry::Summary { id, text, .. } => out.push(Update::Compaction {
                id: id.clone(),
                status: CompactionStatus::Completed,
                text: Some(text.clone()),
            }),
            Entry::Plan { items } => out.push(Update::Plan(items.clone())),
            Entry::Notice { id, severity, title, text } => out.push(Update::Notice {
                id: id.clone(),
                severity: *severity,
                title: title.clone(),
                text: text.clone(),
            }),
            _ => {}
        }
    }
    out
}

/// What is known of the calls' cards.
struct Cards<'a> {
    results: HashMap<&'a str, (&'a Outcome, &'a Card)>,
    began: HashMap<&'a str, &'a Card>,
}

fn block(id: &crate::id::MessageId, block: &Block, interrupted: bool, cards: &Cards<'_>) -> Option<Update> {
    match block {
        Block::Text { text } if text.is_empty() => None,
        Block::Text { text } => Some(Update::Text { id: id.clone(), text: text.clone() }),
        Block::Thinking { text, .. } if text.is_empty() => None,
        Block::Thinking { id, text, .. } => Some(Update::Thought { id: id.clone(), text: text.clone() }),
        Block::Call(_) if interrupted => None,
        Block::Call(call) => Some(Update::Call(Box::new(card(call, cards)))),
    }
}

/// A call's card as it ended.
fn card(call: &Call, cards: &Cards<'_>) -> CallOpened {
    let raw_input = serde_json::from_str(&call.args).unwrap_or_default();
    let (status, card) = match cards.results.get(call.id.as_str()).copied() {
        Some((Outcome::Ok, card)) => (CallStatus::Completed, card.clone()),
        Some((_, card)) => (CallStatus::Failed, card.clone()),
        None => {
            let unknown = || Card { title: call.name.clone(), ..Card::default() };
            let mut card = cards.began.get(call.id.as_str()).map_or_else(unknown, |card| (*card).clone());
            card.shown.push(Shown::Text { text: INTERRUPTED.into() });
            (CallStatus::Failed, card)
        }
    };
    CallOpened { id: call.id.clone(), name: call.name.clone(), card, raw_input, status }
}
