//! The editor's view: the other projection of the log. What a person sees after a restart is what they saw live.
use super::port::{CallOpened, CallStatus, CompactionStatus, Update};
use crate::log::{Block, Call, Card, Entry, Outcome, Shown, Stored};
use std::collections::HashMap;

/// What a call without a result is shown as: it was running when the process ended.
pub const INTERRUPTED: &str = "Interrupted: the agent ended before this was done.";

/// The whole conversation as updates, one per stored message, card or plan, in order.
pub fn replay(entries: &[Stored]) -> Vec<Update> {
    updates(entries).collect()
}

/// As [`replay`], one after the other: a long conversation is not held twice.
pub fn updates(entries: &[Stored]) -> impl Iterator<Item = Update> {
    let cards = Cards::of(entries);
    entries.iter().flat_map(move |stored| shown(&stored.entry, &cards))
}

fn shown(entry: &Entry, cards: &Cards<'_>) -> Vec<Update> {
    match entry {
        Entry::User { id, parts, .. } => vec![Update::User { id: id.clone(), parts: parts.clone() }],
        Entry::Steer { id, text } => {
            let parts = vec![crate::log::Part::Text { text: text.clone() }];
            vec![Update::User { id: id.clone(), parts }]
        }
        Entry::Assistant { id, blocks, interrupted, .. } => {
            blocks.iter().filter_map(|block| self::block(id, block, *interrupted, cards)).collect()
        }
        Entry::Action { call, name, outcome, card } => {
            let status = if *outcome == Outcome::Ok { CallStatus::Completed } else { CallStatus::Failed };
            vec![Update::Call(Box::new(CallOpened {
                id: call.clone(),
                name: name.clone(),
                card: card.clone(),
                raw_input: serde_json::Value::Null,
                status,
            }))]
        }
        Entry::Said { id, text } => vec![Update::Text { id: id.clone(), text: text.clone() }],
        Entry::Summary { id, text, .. } => vec![Update::Compaction {
            id: id.clone(),
            status: CompactionStatus::Completed,
            text: Some(text.clone()),
        }],
        Entry::Plan { items } => vec![Update::Plan(items.clone())],
        Entry::Notice { id, severity, title, text } => vec![Update::Notice {
            id: id.clone(),
            severity: *severity,
            title: title.clone(),
            text: text.clone(),
        }],
        _ => vec![],
    }
}

/// What is known of the calls' cards.
struct Cards<'a> {
    results: HashMap<&'a str, (&'a Outcome, &'a Card)>,
    began: HashMap<&'a str, &'a Card>,
}

impl<'a> Cards<'a> {
    fn of(entries: &'a [Stored]) -> Self {
        let (mut results, mut began) = (HashMap::new(), HashMap::new());
        for stored in entries {
            match &stored.entry {
                Entry::Result { call, outcome, card, .. } => {
                    results.insert(call.as_str(), (outcome, card));
                }
                Entry::Began { call, card: Some(card), .. } => {
                    began.insert(call.as_str(), &**card);
                }
                _ => {}
            }
        }
        Cards { results, began }
    }
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
