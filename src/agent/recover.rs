//! After a crash: what a log left open is closed, so that the next prompt is valid and nothing lies.
use super::session::{Folders, Session};
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
pub fn closing(entries: &[Stored], draft: Option<Draft>, session: &Session) -> Vec<Entry> {
    let mut out = Vec::new();
    if let Some(draft) = draft {
        let mut blocks = Vec::new();
        if !draft.thinking.is_empty() {
            blocks.push(Block::Thinking {
                id: crate::id::MessageId::new(),
                text: draft.thinking.clone(),
                native: None,
            });
        }
        if !draft.text.is_empty() {
            blocks.push(Block::Text { text: draft.text.clone() });
        }
        if !blocks.is_empty() {
            let (id, model) = (draft.message.clone(), String::new());
            out.push(Entry::Assistant { id, blocks, interrupted: true, model, usage: None });
        }
    }
    // A draft belongs behind the results of the calls before it; there are none open then, since a reply is only
    // asked for when all calls have their result.
    out.splice(0..0, open_calls(entries, session));
    out
}

fn open_calls(entries: &[Stored], session: &Session) -> Vec<Entry> {
    let mut ended: HashSet<&str> = HashSet::new();
    let mut began: HashMap<&str, &[Planned]> = HashMap::new();
    for stored in entries {
        match &stored.entry {
            Entry::Result { call, .. } => _ = ended.insert(call.as_str()),
            Entry::Began { call, plan } => _ = began.insert(call.as_str(), plan),
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
    open.map(|call| result(call, began.get(call.id.as_str()).copied(), session)).collect()
}

/// A result for a call without one. What had begun is compared with the disk.
fn result(call: &Call, began: Option<&[Planned]>, session: &Session) -> Entry {
    let (outcome, text) = match began.map(what_happened) {
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
    };
    let mut card = super::call::card(session, call);
    card.shown = vec![Shown::Text { text: text.into() }];
    let planned = locations(began);
    if !planned.is_empty() {
        card.locations = planned;
    }
    Entry::Result { call: call.id.clone(), outcome, text: text.into(), images: vec![], card }
}

fn locations(began: Option<&[Planned]>) -> Vec<Location> {
    began
        .unwrap_or_default()
        .iter()
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
