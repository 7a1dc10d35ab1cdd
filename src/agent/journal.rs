//! The log of one session while it is open: appended here, durable before anything is reported (I19).
use crate::{
    clock::Millis,
    id::{MessageId, SessionId},
    log::{Block, Entry, Settings, Stored},
    permit::Grant,
};
use async_trait::async_trait;
use std::collections::HashSet;

/// Where a log is kept. The store implements it; tests keep it in memory.
#[async_trait]
pub trait Keep: Send + Sync {
    /// Durable when it returns.
    async fn append(&self, session: &SessionId, entries: Vec<Stored>) -> Result<(), KeepError>;
    /// Checkpoints the text of a reply that is being streamed; never waits. The next append replaces it.
    fn draft(&self, session: &SessionId, id: &MessageId, text: &str, thinking: &str);
    /// The permissions remembered for the session's project.
    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, KeepError>;
    /// Remembers a permission for the session's project.
    async fn grant(&self, session: &SessionId, grant: Grant) -> Result<(), KeepError>;
    /// Keeps contents of files for undo, found again by the SHA-256 of their bytes. Durable when it returns.
    async fn snapshot(&self, session: &SessionId, contents: Vec<Vec<u8>>) -> Result<(), KeepError>;
    /// A content that was kept; `None`: it never was, or was dropped for newer ones.
    async fn content(&self, sha256: &str) -> Option<Vec<u8>>;
    /// The session's title, once there is one. Never waits.
    fn title(&self, session: &SessionId, title: &str);
    /// What is chosen for the session now. Never waits.
    fn settings(&self, session: &SessionId, settings: &Settings);
    /// How many tokens models turned out to take, as far as it was learned lately, in any session.
    async fn windows(&self) -> Result<Vec<(String, u64)>, KeepError>;
    /// Remembers such a number. Never waits.
    fn window(&self, model: &str, tokens: u64);
}

/// The store would not take it: a full disk, a lost file. The turn ends; what was kept before stays.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the session could not be saved: {0}")]
pub struct KeepError(pub String);

/// The entries of an open session, in memory and kept.
pub struct Journal {
    session: SessionId,
    entries: Vec<Stored>,
    next: u64,
    provider_ids: HashSet<String>,
    keep: std::sync::Arc<dyn Keep>,
}

impl Journal {
    /// `next`: the number of the next entry, which is not that of the last readable one where entries are damaged.
    pub fn new(session: SessionId, entries: Vec<Stored>, next: u64, keep: std::sync::Arc<dyn Keep>) -> Self {
        let mut journal = Journal { session, entries: Vec::new(), next, provider_ids: HashSet::new(), keep };
        entries.iter().for_each(|s| journal.note_ids(&s.entry));
        journal.entries = entries;
        journal
    }

    pub fn entries(&self) -> &[Stored] {
        &self.entries
    }

    pub fn keep(&self) -> &dyn Keep {
        &*self.keep
    }

    /// Appends, durably. On an error nothing was appended.
    pub async fn append(&mut self, entries: Vec<Entry>) -> Result<(), KeepError> {
        if entries.is_empty() {
            return Ok(());
        }
        let (first, at) = (self.next, Millis::now());
        let stored: Vec<Stored> = entries
            .into_iter()
            .enumerate()
            .map(|(i, entry)| Stored { seq: first + i as u64, at, entry })
            .collect();
        self.keep.append(&self.session, stored.clone()).await?;
        stored.iter().for_each(|s| self.note_ids(&s.entry));
        self.next += stored.len() as u64;
        self.entries.extend(stored);
        Ok(())
    }

    /// A provider's call id that no earlier call of this session has: some servers start again at every reply, and
    /// strict ones refuse an id used twice.
    pub fn unique_provider_id(&mut self, given: Option<String>, ours: &str) -> String {
        let id = match given {
            Some(id) if !id.is_empty() && !self.provider_ids.contains(&id) => id,
            _ => ours.to_owned(),
        };
        self.provider_ids.insert(id.clone());
        id
    }

    fn note_ids(&mut self, entry: &Entry) {
        if let Entry::Assistant { blocks, .. } = entry {
            self.provider_ids.extend(blocks.iter().filter_map(|b| match b {
                Block::Call(call) => Some(call.provider_id.clone()),
                _ => None,
            }));
        }
    }
}
