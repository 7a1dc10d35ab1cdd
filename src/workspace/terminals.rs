//! The editor's terminals, where the setting says that commands run in them: a port, as [`super::Buffers`] is for files.
use crate::log::Exit;
use async_trait::async_trait;
use std::{path::PathBuf, time::Duration};

/// What is started in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub program: String,
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// How much output the editor is to keep, in bytes; it drops the beginning.
    pub output_limit: u64,
}

/// What a terminal shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// As the command wrote it, escape sequences included.
    pub output: String,
    /// The beginning is gone.
    pub truncated: bool,
    /// Where the command has ended.
    pub exit: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError {
    /// No answer within the deadline.
    #[error("it did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}

/// Makes terminals. Implemented over the wire by `acp`, by fakes in tests.
#[async_trait]
pub trait Terminals: Send + Sync {
    /// Starts a command. Where nobody waits for the answer any more, the terminal is released as soon as it comes.
    async fn create(&self, start: Start) -> Result<Box<dyn Terminal>, TerminalError>;
}

/// A terminal of the editor. It is released exactly once: by [`Terminal::release`], else when it is dropped. A release
/// ends what still runs in it (ACP v1, *Terminals*).
#[async_trait]
pub trait Terminal: Send + Sync {
    fn id(&self) -> &str;
    async fn output(&self) -> Result<Screen, TerminalError>;
    /// Waits for the command's end, at most `limit`.
    async fn wait(&self, limit: Duration) -> Result<Exit, TerminalError>;
    /// Ends the command; what it has shown stays readable.
    async fn kill(&self) -> Result<(), TerminalError>;
    async fn release(self: Box<Self>) -> Result<(), TerminalError>;
}
