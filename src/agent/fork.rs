//! Forks: a new session with what another one has said.
use super::{
    hermes::{Hermes, OpenError, Opening},
    recover,
    session::Session,
};
use crate::{
    id::{MessageId, SessionId},
    log::{Block, Entry, Stored},
    store::{Parent, SessionHead, StoreError},
};
use std::sync::Arc;

/// Why a session could not be forked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForkError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the session has no message of that id")]
    Message,
}

/// What the title of a fork ends with.
const FORKED: &str = " (fork)";

/// Where a fork from this message ends, as the number of the first entry that it does not have: a prompt itself, or
/// what follows a message of the model and the results of its calls. `None`: there is no such message.
fn message_end(entries: &[Stored], message: &MessageId) -> Option<u64> {
    let at = entries.iter().position(|s| match &s.entry {
        Entry::User { id, .. } | Entry::Steer { id, .. } | Entry::Notice { id, .. } => id == message,
        Entry::Assistant { id, blocks, .. } => {
            id == message || blocks.iter().any(|b| matches!(b, Block::Thinking { id, .. } if id == message))
        }
        _ => false,
    })?;
    let calls: Vec<&str> = match &entries[at].entry {
        Entry::User { .. } | Entry::Steer { .. } => return Some(entries[at].seq),
        Entry::Assistant { blocks, .. } => blocks
            .iter()
            .filter_map(|b| match b {
                Block::Call(call) => Some(call.id.as_str()),
                _ => None,
            })
            .collect(),
        _ => vec![],
    };
    let last = entries[at..]
        .iter()
        .rev()
        .find(|s| matches!(&s.entry, Entry::Result { call, .. } if calls.contains(&call.as_str())));
    Some(last.map_or(entries[at].seq, |s| s.seq) + 1)
}

impl Hermes {
    /// A new session with what another one has said; `upto`: from that message (see `message_end`). The source is read
    /// from the store, so it may be open anywhere. Calls that are under way there are closed here.
    pub async fn fork(
        &self,
        from: &SessionId,
        upto: Option<&MessageId>,
        opening: Opening,
    ) -> Result<Arc<Session>, ForkError> {
        let stored = |e| match e {
            StoreError::NotFound(id) => OpenError::Unknown(id),
            e => OpenError::Store(e),
        };
        let source = self.store.load(from.clone()).await.map_err(stored)?;
        let seq = match upto {
            None => source.next,
            Some(id) => message_end(&source.entries, id).ok_or(ForkError::Message)?,
        };
        let id = SessionId::new();
        let mut head = SessionHead::new(id.clone(), opening.folders.cwd.clone());
        head.roots = opening.folders.additional.clone();
        head.origin = opening.origin;
        head.settings = source.head.settings.clone();
        head.title = source.head.title.map(|t| if t.ends_with(FORKED) { t } else { t + FORKED });
        head.parent = Some(Parent { session: from.clone(), seq });
        self.store.fork(from.clone(), Some(seq), head).await.map_err(stored)?;
        let loaded = self.store.load(id.clone()).await.map_err(stored)?;
        let session = Arc::new(self.session(loaded.head, opening, loaded.entries, loaded.next)?);
        let mut journal = session.journal().await;
        let closing = recover::forked(journal.entries(), &session);
        if let Err(e) = journal.append(closing).await {
            tracing::warn!("what a fork left open could not be closed: {e}");
        }
        drop(journal);
        self.slot_or_new(&id).put(Some(session.clone()));
        Ok(session)
    }
}
