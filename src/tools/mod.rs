//! Tools: what the model can do. Each is its arguments, a title, a plan (effects) and a run.
//!
//! A new tool: `x.rs` with `impl Tool`, `x.md` (what the model reads), one line in [`builtin`], calls in
//! `fixtures/tools/x/`. Permission, parallelism, diff, locations, cancellation and replay follow from `plan` and `Output`.
pub mod arguments;
mod blocking;
#[cfg(test)]
mod calls;
#[cfg(test)]
pub(crate) mod cases;
mod changed;
mod close;
mod display;
pub mod edit;
mod erased;
#[cfg(test)]
pub(crate) mod fake;
mod glob;
mod grep;
mod jobs;
mod list;
mod nearest;
pub mod patch;
mod read;
mod terminal;
mod todo;
mod walk;
mod write;

pub use erased::erase;
pub use nearest::{nearest, unknown};

/// The tool that waits for jobs: the same call again is no repetition while the job goes on.
pub const WAITS: &str = <jobs::Jobs as Tool>::NAME;

use crate::{
    effects::Effects,
    log::{CallIdent, Image, Location, PlanItem, Shown, ToolKind, ToolSpec},
    workspace::{Reader, Workspace},
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What is told to the model when a call does not do what it asked: text that says what to do next.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{0}")]
    BadArguments(String),
    /// The tool ran and what was asked did not happen.
    #[error("{0}")]
    Failed(String),
    /// A file was not what it was when the change was planned, so nothing was written.
    #[error("{0}")]
    Changed(String),
    #[error("cancelled")]
    Cancelled,
    /// It began; whether it took effect is not known.
    #[error("{0}")]
    Unknown(String),
}
impl From<crate::workspace::WsError> for ToolError {
    fn from(e: crate::workspace::WsError) -> Self {
        match e {
            crate::workspace::WsError::Cancelled => ToolError::Cancelled,
            crate::workspace::WsError::Unknown { .. } => ToolError::Unknown(e.to_string()),
            e => ToolError::Failed(e.to_string()),
        }
    }
}

/// What a call may use while it runs.
pub struct Cx<'a> {
    pub call: &'a CallIdent,
    pub workspace: &'a dyn Workspace,
    pub cancel: CancellationToken,
    /// Live progress of this call's card.
    pub progress: Arc<dyn Progress>,
    /// Whether the current model takes images.
    pub images: bool,
}

/// Takes what a running call shows; coalesced by the turn to at most 30 updates a second; never blocks.
pub trait Progress: Send + Sync {
    /// Raw output of a command, to be appended to the card's terminal.
    fn terminal(&self, bytes: &[u8]);
    /// The command runs in this terminal of the editor. Done when the card shows it.
    fn attach(&self, _terminal: &str) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What a call gives back.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// For the model. The turn bounds it and spills the rest.
    pub text: String,
    /// For the card; empty: the text in a fence.
    pub shown: Vec<Shown>,
    /// Replaces the planned locations where it is not empty.
    pub locations: Vec<Location>,
    pub images: Vec<Image>,
    /// The new plan, for ACP's `plan` update.
    pub plan: Option<Vec<PlanItem>>,
    /// The tool ran, and what it did failed (a non-zero exit): the card is `failed`, the model reads `text`.
    pub failed: bool,
    /// Why the sandbox seems to have stopped it: the person is asked whether it may run again without.
    pub denied: Option<String>,
}
impl Output {
    pub fn text(text: impl Into<String>) -> Self {
        Output { text: text.into(), ..Output::default() }
    }
}

/// A tool with typed arguments. Unknown fields are ignored; missing and wrong ones are named to the model.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    const NAME: &'static str;
    const KIND: ToolKind;
    /// What the model reads of it: `include_str!("x.md")`.
    const DOC: &'static str;
    /// One line, at most 200 characters (cut by the caller); as a person would say it.
    fn title(&self, args: &Self::Args, ws: &dyn Reader) -> String;
    /// Absolute paths that the editor follows, known from the arguments alone.
    fn locations(&self, _args: &Self::Args, _ws: &dyn Reader) -> Vec<Location> {
        Vec::new()
    }
    /// What it will do. May read inside the roots; changes nothing.
    async fn plan(&self, args: &Self::Args, ws: &dyn Reader) -> Result<Effects, ToolError>;
    /// Does it: `effects` is the plan as it was permitted (hunks that were not accepted are gone from it).
    async fn run(&self, args: Self::Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError>;
}

/// A call whose arguments parsed: the only thing that can be planned and run.
pub trait Prepared: Send + Sync {
    fn title(&self, ws: &dyn Reader) -> String;
    fn locations(&self, ws: &dyn Reader) -> Vec<Location>;
    fn plan<'a>(&'a self, ws: &'a dyn Reader) -> BoxFuture<'a, Result<Effects, ToolError>>;
    fn run<'a>(self: Box<Self>, effects: Effects, cx: Cx<'a>) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a;
}

/// A tool with its argument type erased.
pub trait DynTool: Send + Sync {
    fn name(&self) -> &str;
    fn kind(&self) -> ToolKind;
    fn spec(&self) -> ToolSpec;
    /// Checks the arguments; the error names the field that is wrong and what was expected.
    fn prepare(&self, args: Value) -> Result<Box<dyn Prepared>, ToolError>;
}

pub type Tools = Vec<Arc<dyn DynTool>>;

/// The tools that every session has.
pub fn builtin() -> Tools {
    with_terminal(terminal::Terminal::default())
}

/// [`builtin`], with another time-out for commands that name none.
pub fn builtin_with(command_timeout: std::time::Duration) -> Tools {
    with_terminal(terminal::Terminal { timeout: command_timeout })
}

fn with_terminal(terminal: terminal::Terminal) -> Tools {
    vec![
        erase(read::Read),
        erase(write::Write),
        erase(edit::Edit),
        erase(patch::ApplyPatch),
        erase(list::List),
        erase(glob::Glob),
        erase(grep::Grep),
        erase(terminal),
        erase(jobs::Jobs),
        erase(todo::Todo),
    ]
}

#[cfg(test)]
mod tests;
