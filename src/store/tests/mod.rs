//! What several of the store's tests need.
mod basics;
mod blobs;
mod damage;
mod files;
mod kill;
mod lists;
mod props;
mod search;

use super::*;
use crate::{
    clock::Millis,
    id::CallId,
    log::{Block, Card, Entry, Outcome, Part, PromptState, Shown, Usage},
};
use serde_json::{Value, json};
use std::fs;

/// A store in a folder of its own.
pub(super) struct Place {
    pub root: tempfile::TempDir,
    pub dirs: DataDirs,
    pub store: Store,
}

impl Place {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(&root.path().join("home"));
        Self { store: Store::open(&dirs).unwrap(), dirs, root }
    }
    /// A second handle on the same files, as another process would have it.
    pub fn other(&self) -> Store {
        Store::open(&self.dirs).unwrap()
    }
    /// A session in the folder of the test.
    pub fn session(&self) -> SessionId {
        let id = SessionId::new();
        self.store.create(SessionHead::new(id.clone(), self.root.path().to_owned())).wait().unwrap();
        id
    }
    /// The database, opened beside the store.
    pub fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dirs.database()).unwrap()
    }
}

pub(super) fn at(seq: u64, entry: Entry) -> Stored {
    Stored { seq, at: Millis(1_000 + seq as i64), entry }
}

pub(super) fn user(text: &str) -> Entry {
    let parts = vec![Part::Text { text: text.into() }];
    Entry::User { id: MessageId::new(), parts, state: PromptState::Sent, volatile: None }
}

pub(super) fn assistant(text: &str) -> Entry {
    Entry::Assistant {
        id: MessageId::new(),
        blocks: vec![Block::Text { text: text.into() }],
        interrupted: false,
        model: "demo/demo".into(),
        usage: None,
    }
}

pub(super) fn result(text: &str, shown: Vec<Shown>) -> Entry {
    Entry::Result {
        call: CallId::new(),
        outcome: Outcome::Ok,
        text: text.into(),
        images: Vec::new(),
        card: Card { title: "read a.rs".into(), shown, ..Card::default() },
    }
}

pub(super) fn diff(old: &str, new: &str) -> Shown {
    Shown::Diff { path: "/w/a.rs".into(), old: Some(old.into()), new: new.into() }
}

/// `count` entries of a conversation, with long and short texts.
pub(super) fn conversation(from: u64, count: u64) -> Vec<Stored> {
    let long = |seq: u64| format!("line {seq} of a file\n").repeat(200);
    (from..from + count)
        .map(|seq| {
            let entry = match seq % 4 {
                0 => user(&format!("prompt {seq}")),
                1 => assistant(&format!("answer {seq}")),
                2 => result(&long(seq), vec![diff(&long(seq), &long(seq + 4))]),
                _ => Entry::Ended {
                    stop: "end_turn".into(),
                    requests: 2,
                    usage: Usage::default(),
                    detail: None,
                    tools: Default::default(),
                },
            };
            at(seq, entry)
        })
        .collect()
}
