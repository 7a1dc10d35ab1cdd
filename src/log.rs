//! The log: what is kept of a session, append-only and ours (not ACP's, not a provider's).
//!
//! The editor's view, the model's context and the database rows are three projections of it.
//! Everything ever sent to a model is an entry, so a request can be rebuilt from the log alone (I14).
mod mode;
mod usage;

pub use mode::Mode;
pub use usage::{Cost, Usage};

use crate::{clock::Millis, id::*};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// One entry with its place in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Counts from 0, without gaps.
    pub seq: u64,
    pub at: Millis,
    pub entry: Entry,
}

/// What can happen in a session. Variants are added, never changed in meaning: old databases are read for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// The fixed head of every request that follows: system prompt and tools, byte for byte.
    Frame {
        system: Arc<str>,
        tools: Vec<ToolSpec>,
    },
    /// A prompt. `volatile` is context that rides with it to the model and is not shown (time, dirty files, rejects).
    User {
        id: MessageId,
        parts: Vec<Part>,
        #[serde(default)]
        state: PromptState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volatile: Option<String>,
    },
    /// Words of the user that reached a running turn.
    Steer {
        id: MessageId,
        text: String,
    },
    /// Words of ours to the model that no person sees: after an empty reply, before the last word, on a repeat.
    Nudge {
        text: String,
    },
    /// A reply of the model. `interrupted`: it was cut off; its calls were dropped.
    Assistant {
        id: MessageId,
        blocks: Vec<Block>,
        #[serde(default)]
        interrupted: bool,
        /// `provider/model` that wrote it.
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A call is about to have its effect; durable before it does (I19). `plan` tells how to recognise the outcome.
    Began {
        call: CallId,
        plan: Vec<Planned>,
        /// The card as it was shown then, for a replay without a result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<Box<Card>>,
    },
    /// Files that a call changed, for undo; right before its `Result`.
    Touched {
        call: CallId,
        files: Vec<Touched>,
    },
    /// A card of ours, for what the person asked for and no model called (`/undo`). Never shown to the model.
    Action {
        call: CallId,
        name: String,
        outcome: Outcome,
        card: Card,
    },
    /// How a call ended: exactly one per call (I10).
    Result {
        call: CallId,
        outcome: Outcome,
        /// What the model reads, whole and bounded.
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// The card as the person saw it last.
        card: Card,
    },
    Settings {
        settings: Settings,
    },
    Plan {
        items: Vec<PlanItem>,
    },
    /// An answer of ours to the person, as to `/help`: shown as a message, never sent to the model.
    Said {
        id: MessageId,
        text: String,
    },
    /// Said to the person, never to the model.
    Notice {
        id: MessageId,
        severity: Severity,
        title: String,
        #[serde(default)]
        text: String,
    },
    /// The results of these calls are shown to the model as pruned from here on.
    Prune {
        calls: Vec<CallId>,
    },
    /// The entries before `covers` are shown to the model as this text from here on.
    Summary {
        id: MessageId,
        covers: u64,
        text: String,
    },
    /// The conversation goes on as if the entries from `to` on had not been.
    Rewind {
        to: u64,
    },
    /// How a turn ended, for the audit.
    Ended {
        stop: String,
        requests: u32,
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        detail: Option<String>,
        /// How often each tool was called.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tools: BTreeMap<String, u32>,
    },
    /// A request beside the conversation, for the audit: what for, which `provider/model` answered, what it used.
    Side {
        task: String,
        model: String,
        #[serde(default)]
        usage: Usage,
    },
    /// A permission that was asked and how it was answered, for the audit: the id of the option, `allow_some` where only
    /// some hunks were accepted, `cancelled`, `withdrawn` (the turn was cancelled meanwhile) or `failed`.
    Asked {
        call: CallId,
        answer: String,
    },
}

/// Whether a prompt reached the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    #[default]
    Sent,
    /// Cancelled while it was queued, or a command that we answer: shown at load, never sent to a model.
    Withdrawn,
    /// A command that was answered here (`/help`): shown at load, never sent to a model.
    Local,
}

/// A part of a prompt, or of what a tool gives back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    Image(Image),
    /// A file or other resource that the prompt points at.
    Link {
        uri: String,
        name: String,
        #[serde(default)]
        mime: Option<String>,
    },
    /// A resource whose text came with the prompt.
    Embedded {
        uri: String,
        #[serde(default)]
        mime: Option<String>,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    pub mime: String,
    /// Base64.
    pub data: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// A block of a model's reply, in the order it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// `native` is the provider's own form (signature, encrypted reasoning), replayed byte for byte to the same dialect.
    Thinking {
        id: MessageId,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    Text {
        text: String,
    },
    Call(Call),
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub id: CallId,
    /// The provider's id; where it gave none, ours.
    pub provider_id: String,
    pub name: String,
    /// The arguments as JSON text: always an object, repaired where that was unambiguous.
    pub args: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// What a running tool knows of its call.
#[derive(Clone, Debug)]
pub struct CallIdent {
    pub session: SessionId,
    pub id: CallId,
}

/// A provider's opaque form of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// The dialect that wrote it; only that dialect replays it.
    pub dialect: String,
    pub value: Value,
}

/// What a `Began` call meant to do, to compare with the disk after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Planned {
    /// SHA-256, in hexadecimal, of the bytes before (`None`: no file) and after (`None`: deleted).
    File {
        path: PathBuf,
        old: Option<String>,
        new: Option<String>,
    },
    Command {
        text: String,
    },
    Reach {
        host: String,
    },
}

/// A file that a call changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Absolute.
    pub path: PathBuf,
    pub before: FileState,
    pub after: FileState,
    /// Unix permissions before, where there was a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The folders that were made for it, canonical, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<PathBuf>,
}

/// What was in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    Absent,
    /// It was there, and was not read: too large, or a secret by its name.
    Unknown,
    /// `bytes`: SHA-256 in hexadecimal, the id of the snapshot where one was kept. `text`: that of the text, decoded,
    /// without byte-order mark, with LF, where it is another.
    Content {
        bytes: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    Failed,
    /// The person or the policy said no.
    Denied,
    Cancelled,
    /// It began, and whether it took effect could not be told.
    Unknown,
}

/// The card of a call as the editor shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// One line, at most 200 characters.
    pub title: String,
    pub kind: ToolKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    SwitchMode,
    #[default]
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Absolute.
    pub path: PathBuf,
    /// Counts from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What stands in a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Shown {
    Text {
        text: String,
    },
    /// `old` is `None` for a new file; `new` is empty for a deleted one.
    Diff {
        path: PathBuf,
        #[serde(default)]
        old: Option<Arc<str>>,
        new: Arc<str>,
    },
    /// The output of a command, as the terminal shows it (head and tail where it was long).
    Terminal {
        id: String,
        output: String,
        #[serde(default)]
        exit: Option<Exit>,
        #[serde(default)]
        cwd: Option<PathBuf>,
    },
    Image(Image),
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    #[serde(default)]
    pub code: Option<i32>,
    #[serde(default)]
    pub signal: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanItem {
    pub content: String,
    pub status: PlanStatus,
    #[serde(default)]
    pub priority: Priority,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub schema: Value,
}

/// What is chosen for a session; changeable at any time, read at each step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub mode: Mode,
    /// `provider/model`; `None`: what the configuration says.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub effort: Option<String>,
}
impl Default for Settings {
    fn default() -> Self {
        Settings { mode: Mode::Ask, model: None, effort: None }
    }
}
