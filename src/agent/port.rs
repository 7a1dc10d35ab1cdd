//! The port to the person: what the turn shows and asks, in no protocol's words. `acp` implements it over the wire.
use crate::{effects::Effects, id::*, log::*, permit::Scope};
use async_trait::async_trait;
use serde_json::Value;
use std::path::PathBuf;

/// What a person sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A prompt of the person, at replay.
    User {
        id: MessageId,
        parts: Vec<Part>,
    },
    Text {
        id: MessageId,
        text: String,
    },
    Thought {
        id: MessageId,
        text: String,
    },
    /// A card appears, `pending` unless it is a replay of an ended call.
    Call(Box<CallOpened>),
    CallChanged(Box<CallChanged>),
    Plan(Vec<PlanItem>),
    /// Mode, model and their choices changed.
    Settings,
    Title(String),
    /// Tokens in the window and its size; `cost`: US dollars of the session, where they are known.
    Usage {
        used: u64,
        size: u64,
        cost: Option<f64>,
    },
    Notice {
        id: MessageId,
        severity: Severity,
        title: String,
        text: String,
    },
    /// The model's view is being shortened. `InProgress`, then exactly one of the others under the same id.
    Compaction {
        id: MessageId,
        status: CompactionStatus,
        /// `Completed`: the summary; `Failed`: why.
        text: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionStatus {
    InProgress,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CallOpened {
    pub id: CallId,
    pub name: String,
    pub card: Card,
    pub raw_input: Value,
    pub status: CallStatus,
}

/// Only what changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallChanged {
    pub id: CallId,
    pub status: Option<CallStatus>,
    pub title: Option<String>,
    pub locations: Option<Vec<Location>>,
    /// Replaces the card's content whole.
    pub shown: Option<Vec<Shown>>,
    /// Output to append to the card's terminal.
    pub terminal: Option<TerminalChunk>,
    /// The terminal of the client's own that the output is in, from here on.
    pub attached: Option<String>,
}

/// A piece of a command's live output.
#[derive(Clone, Debug, PartialEq)]
pub struct TerminalChunk {
    pub id: String,
    pub cwd: Option<PathBuf>,
    /// New output, valid UTF-8 at its edges.
    pub data: String,
    /// The whole output so far (bounded), for clients that only replace content.
    pub so_far: String,
    pub exit: Option<Exit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// A question about one call, under the same id as its card.
#[derive(Clone, Debug)]
pub struct Question {
    pub call: CallId,
    pub card: Card,
    pub raw_input: Value,
    pub effects: Effects,
    /// Why it is asked; may be empty.
    pub why: String,
    /// In the order they are shown. An answer with an id that was not offered is [`Answer::Failed`].
    pub options: Vec<Choice>,
    /// The hunks of the diff, for a client that answers by hunk.
    pub hunks: Vec<Hunk>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub id: &'static str,
    /// In words that tell the scope.
    pub name: String,
    pub allow: bool,
    pub scope: Scope,
}

/// One hunk of a change under review.
#[derive(Clone, Debug, PartialEq)]
pub struct Hunk {
    /// Unique in the question.
    pub id: String,
    pub path: PathBuf,
    /// Lines from 1, end exclusive, in the old and in the new text.
    pub old_lines: (u32, u32),
    pub new_lines: (u32, u32),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Yes {
        scope: Scope,
        /// `Some`: only these hunks; `None`: all.
        hunks: Option<Vec<String>>,
        comment: Option<String>,
    },
    No {
        comment: Option<String>,
    },
    /// The client cancelled the question: the turn ends `cancelled`.
    Gone,
    /// The question could not be asked (error, connection lost): a no, with the reason.
    Failed(String),
}

/// What the client can show; everything else is degraded or dropped by the implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub hunk_review: bool,
    pub compaction: bool,
    pub notices: bool,
    pub usage: bool,
}

/// The other side of a session.
#[async_trait]
pub trait Editor: Send + Sync {
    /// Queued, in order, when it returns. Never fails: a lost connection cancels the turn elsewhere.
    async fn update(&self, session: &SessionId, update: Update);
    /// Waits for the person. Dropping it withdraws the question.
    async fn ask(&self, session: &SessionId, question: Question) -> Answer;
    fn features(&self) -> Features;
}
