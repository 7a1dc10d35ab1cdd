//! After a crash: what a log left open is closed, so that the next prompt is valid and nothing lies.
use super::{
    call::unrun_card,
    session::{Folders, Session},
};
use crate::{
    log::*,
    store::{Draft, GapKind, Loaded},
};
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// The entries that close what the last process left open: the streamed text it had checkpointed, as an interrupted
/// reply, and a result for each call that has none.
pub fn closing(entries: &[Stored], draft: Option<&Draft>, session: &Session) -> Vec<Entry> {
    // A draft belongs behind the results of the calls before it; there are none open then, since a reply is only
    // asked for when all calls have their result.
    let mut out = open_calls(entries, session, crashed);
    out.extend(draft.and_then(unfinished));
    out
}

/// The entries that close, in a fork, the calls that were under way in the session that it is from.
pub fn forked(entries: &[Stored], session: &Session) -> Vec<Entry> {
    open_calls(entries, session, |_| {
        let text = "the session was forked while this call was open: it goes on in the other session, and what came of \
                    it is not known here";
        (Outcome::Unknown, text)
    })
}

/// A streamed text as far as it was kept.
fn unfinished(draft: &Draft) -> Option<Entry> {
    let mut blocks = Vec::new();
    if !draft.thinking.is_empty() {
        let (id, text) = (crate::id::MessageId::new(), draft.thinking.clone());
        blocks.push(Block::Thinking { id, text, native: None });
    }
    if !draft.text.is_empty() {
        blocks.push(Block::Text { text: draft.text.clone() });
    }
    let (id, model) = (draft.message.clone(), String::new());
    (!blocks.is_empty()).then_some(Entry::Assistant { id, blocks, interrupted: true, model, usage: None })
}

/// What a call left in the log before its effect.
struct Began<'a> {
    plan: &'a [Planned],
    card: Option<&'a Card>,
}

fn open_calls(
    entries: &[Stored],
    session: &Session,
    judge: fn(Option<&[Planned]>) -> (Outcome, &'static str),
) -> Vec<Entry> {
    let mut ended: HashSet<&str> = HashSet::new();
    let mut began: HashMap<&str, Began<'_>> = HashMap::new();
    for stored in entries {
        match &stored.entry {
            Entry::Result { call, .. } => _ = ended.insert(call.as_str()),
            Entry::Began { call, plan, card } => {
                began.insert(call.as_str(), Began { plan, card: card.as_deref() });
            }
            _ => {}
        }
    }
    let calls = entries.iter().flat_map(|s| match &s.entry {
        Entry::Assistant { blocks, interrupted: false, .. } => blocks.as_slice(),
        _ => &[],
    });
    let open = calls.filter_map(|b| match b {
        Block::Call(call) if !ended.contains(call.id.as_str()) => Some(call),
        _ => None,
    });
    let close = |call: &Call| {
        let began = began.get(call.id.as_str());
        let (outcome, text) = judge(began.map(|b| b.plan));
        result(call, outcome, text, card(session, call, began))
    };
    open.map(close).collect()
}

/// The card as it was shown last: with its diff where it had begun.
fn card(session: &Session, call: &Call, began: Option<&Began<'_>>) -> Card {
    match began {
        Some(Began { card: Some(card), .. }) => (*card).clone(),
        Some(Began { plan, card: None }) => {
            let mut card = unrun_card(session, call);
            if card.locations.is_empty() {
                card.locations = locations(plan);
            }
            card
        }
        None => unrun_card(session, call),
    }
}

/// A result for a call without one.
fn result(call: &Call, outcome: Outcome, text: &str, mut card: Card) -> Entry {
    if outcome != Outcome::Ok || card.shown.is_empty() {
        card.shown.push(Shown::Text { text: text.into() });
    }
    Entry::Result { call: call.id.clone(), outcome, text: text.into(), images: vec![], card }
}

/// What became of a call when the process ended. What had begun is compared with the disk.
fn crashed(began: Option<&[Planned]>) -> (Outcome, &'static str) {
    match began.map(what_happened) {
        None => {
            (Outcome::Cancelled, "interrupted before it began: the agent's process ended. Nothing was done")
        }
        Some(Happened::All) => (
            Outcome::Ok,
            "the agent's process ended right after this; the change is on disk, checked afterwards",
        ),
        Some(Happened::Nothing) => (
            Outcome::Failed,
            "the agent's process ended before this took effect; the file is as it was before",
        ),
        Some(Happened::Unknown) => (
            Outcome::Unknown,
            "the agent's process ended while this was under way: whether it took effect is not known. Look before you \
             repeat it",
        ),
    }
}

fn locations(plan: &[Planned]) -> Vec<Location> {
    plan.iter()
        .filter_map(|p| match p {
            Planned::File { path, .. } => Some(Location { path: path.clone(), line: None }),
            _ => None,
        })
        .collect()
}

enum Happened {
    All,
    Nothing,
    Unknown,
}

fn what_happened(plan: &[Planned]) -> Happened {
    let (mut all, mut nothing) = (true, true);
    for planned in plan {
        let Planned::File { path, old, new } = planned else { return Happened::Unknown };
        let now = hash(path);
        all &= now == *new;
        nothing &= now == *old;
    }
    match (all, nothing) {
        (true, _) => Happened::All,
        (_, true) => Happened::Nothing,
        _ => Happened::Unknown,
    }
}

fn hash(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect())
}

/// What the person should know of how a session was opened.
pub fn notices(loaded: &Loaded, folders: &Folders) -> Vec<String> {
    let mut out = Vec::new();
    if loaded.head.cwd != folders.cwd {
        out.push(format!(
            "This session was made in {}; it goes on in {}.",
            loaded.head.cwd.display(),
            folders.cwd.display()
        ));
    }
    if !loaded.damaged.is_empty() {
        let newer = loaded.damaged.iter().filter(|g| matches!(g.kind, GapKind::Unknown(_))).count();
        let lost = loaded.damaged.len() - newer;
        if lost > 0 {
            out.push(format!("{lost} entries of this session are damaged and are left out."));
        }
        if newer > 0 {
            out.push(format!("{newer} entries were written by a newer version and are left out."));
        }
    }
    out
}
