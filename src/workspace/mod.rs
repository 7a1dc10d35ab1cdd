//! The workspace: the session's folders, as the editor and the disk have them together.
//!
//! Per file the *side rule*: where the client reads and writes, the editor's buffers are the truth for both; where it
//! only reads, we read from it and write to disk; else the disk. See `design` in ARCHITECTURE.md and I15–I18.
mod apply;
pub mod census;
mod disk;
mod editor;
#[cfg(test)]
mod fake;
mod freshness;
pub mod guard;
pub mod jobs;
mod narrow;
pub mod process;
pub mod sandbox;
mod session;
pub mod terminals;
pub mod text;
mod watch;

pub use freshness::rebase;
pub use narrow::Narrowed;
pub use session::{NoBuffers, SessionWorkspace, Setup};

use crate::{
    effects::{Change, Command, WsPath},
    log::Exit,
};
use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use std::{path::Path, sync::Arc, time::Duration};
use text::Text;
use tokio_util::sync::CancellationToken;

/// Failures of the workspace, told to the model (it can act) and shown in the card.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WsError {
    #[error("{path} does not exist{}", hint.as_deref().map(|h| format!(" ({h})")).unwrap_or_default())]
    NotFound { path: String, hint: Option<String> },
    #[error("{path} is a folder: use `list`")]
    IsFolder { path: String },
    #[error("{path} is outside the workspace: {why}")]
    OutsideRoots { path: String, why: String },
    /// Binary, too large, or an encoding that would not survive.
    #[error("{path}: {why}")]
    NotText { path: String, why: String },
    /// What is there is not what the change was planned on (I16).
    #[error("{path} changed since it was read: {what}. Read it again, then repeat the change")]
    Changed { path: String, what: String },
    /// The editor answered with an error, or not in time; nothing was written behind its back.
    #[error("the editor could not {what} {path}: {why}")]
    Editor { what: &'static str, path: String, why: String },
    /// The write was sent and its outcome is not known.
    #[error(
        "the editor did not confirm the write of {path} in time: it may have been applied. Read the file to see"
    )]
    Unknown { path: String },
    #[error("{path}: {why}")]
    Io { path: String, why: String },
    #[error("cancelled")]
    Cancelled,
}

/// The editor's side of files, where the client has one. Implemented over the wire by `acp`, by fakes in tests.
#[async_trait]
pub trait Buffers: Send + Sync {
    fn can_read(&self) -> bool;
    fn can_write(&self) -> bool;
    /// The whole text of the buffer or file as the editor has it, unsaved changes included.
    async fn read(&self, path: &Path) -> Result<String, BufferError>;
    async fn write(&self, path: &Path, text: &str) -> Result<(), BufferError>;
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum BufferError {
    /// The editor does not know the file (-32002).
    #[error("not found")]
    NotFound,
    /// No answer within the deadline. For a write: the outcome is unknown.
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}

/// What the editor does for a session.
pub struct EditorSide {
    pub buffers: Arc<dyn Buffers>,
    /// Where it offers terminals.
    pub terminals: Option<Arc<dyn terminals::Terminals>>,
}

/// What a program said that was asked while planning.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub code: i32,
    pub output: Vec<u8>,
    /// On its standard error, the beginning.
    pub errors: String,
}

/// Reading, for planning: inside the roots (or folders granted by a question); changes nothing.
#[async_trait]
pub trait Reader: Send + Sync {
    /// Resolves what a model wrote (relative to the cwd, absolute, `~`, `file://`) through the guard.
    /// A path that does not exist yet resolves by its nearest existing parent.
    fn resolve(&self, path: &str) -> Result<WsPath, WsError>;
    /// The text as the side rule has it, and whether it is there at all.
    async fn read(&self, path: &WsPath) -> Result<Option<Text>, WsError>;
    /// The bytes on disk (images, size checks).
    async fn read_bytes(&self, path: &WsPath, limit: u64) -> Result<Vec<u8>, WsError>;
    /// Remembers that the model has now seen this text of the file (freshness).
    fn saw(&self, path: &WsPath, text: &Text);
    /// Whether the model has seen the file in this session, and whether what it saw is still there.
    async fn freshness(&self, path: &WsPath) -> Freshness;
    /// The session's roots: the cwd first. Canonical.
    fn roots(&self) -> &[std::path::PathBuf];
    /// The folder that a command starts in (carried from command to command).
    fn cwd(&self) -> std::path::PathBuf;
    /// The `PATH` of a command that runs unasked: the session's own. Exports of earlier commands do not reach those.
    fn search_path(&self) -> std::ffi::OsString {
        std::env::var_os("PATH").unwrap_or_default()
    }
    /// Whether commands run in terminals of the editor, outside the sandbox; background ones never do.
    fn runs_in_editor(&self) -> bool {
        false
    }
    /// Asks a program that only reads, in the environment of a command that runs unasked. `None`: it could not be started,
    /// was killed, said too much, or did not end in time.
    async fn query(&self, _program: &Path, _folder: &Path, _args: &[String], _input: &str) -> Option<Said> {
        None
    }
    /// Files whose editor text is known to differ from the disk, with that text (for `grep`, commands).
    fn dirty(&self) -> Vec<(WsPath, Text)>;
    /// Canonical paths of the files that the model saw.
    fn seen_files(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
    /// Records that a person, or the policy, allowed this path to be read: outside the roots, or secret-like.
    /// Until then [`Reader::read`] refuses such a file, so that no error text can tell what is in it.
    fn grant(&self, _path: &WsPath) {}
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The model never read or wrote it here.
    NeverSeen,
    Unchanged,
    /// Changed outside since the model saw it; a word on how.
    Changed(String),
}

/// How a write landed.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// What is there now, where it is not what was written (format on save): told to the model, not fought.
    pub drift: Option<Text>,
    /// The change as it was applied, where the file had changed outside the approved hunks and the change was carried
    /// over to the new text: the card's diff is this one.
    pub rebased: Option<Change>,
    /// A remark for the model, e.g. that other names (hard links) of the file changed with it.
    pub note: Option<String>,
}

/// The workspace as a call may use it: narrowed to its permitted effects (I13).
#[async_trait]
pub trait Workspace: Reader {
    /// Applies the changes in order, all or nothing: if a later one fails, the earlier are restored while they are
    /// still ours; else the error names exactly what landed. Refuses a change whose `old` is no longer there (I16).
    async fn apply(&self, changes: &[Change]) -> Result<Vec<Written>, ApplyError>;
    /// Starts a command under the re-exec subreaper. Its output goes to `sink` as it comes.
    async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError>;
    /// Keeps a long result in the session folder; returns the path that `read` takes.
    async fn spill(&self, name: &str, text: &str) -> Result<std::path::PathBuf, WsError>;
    /// Our own secrets, which nothing may show or keep.
    fn secrets(&self) -> crate::secret::Redactor {
        crate::secret::Redactor::default()
    }
    /// How a command would be confined, in words for the question about it; `None` where that has been said.
    async fn confinement(&self, _command: &Command) -> Option<String> {
        None
    }
    /// Files that the model saw and whose text on disk is another one since, as far as the system's watcher noticed, each
    /// with a word on how; each is told once. A hint: every write checks for itself, whatever this says.
    async fn changed_outside(&self) -> Vec<(WsPath, String)> {
        Vec::new()
    }
    /// The commands that run in the background, where this workspace can have any.
    fn jobs(&self) -> Option<&jobs::Jobs> {
        None
    }
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}{}", if landed.is_empty() { String::new() } else { format!(" (already written and not restored: {})", landed.join(", ")) })]
pub struct ApplyError {
    pub error: WsError,
    /// Paths whose change is in force in spite of the error.
    pub landed: Vec<String>,
}

/// Takes the live output of a command; must not block.
pub trait OutputSink: Send + Sync {
    /// Raw bytes as the process wrote them, stdout and stderr joined.
    fn output(&self, bytes: &[u8]);
    /// The command's output is in this terminal of the editor. Done when the card shows it.
    fn attach(&self, _terminal: &str) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

/// How a command ended.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    pub exit: Exit,
    /// Head and tail of the output, joined, with a note of what was left out between.
    pub output: String,
    /// Where the whole output was spilled, when it was cut.
    pub spilled: Option<std::path::PathBuf>,
    pub timed_out: bool,
    pub cancelled: bool,
    pub took: Duration,
    /// The folder the command ended in, where it changed it.
    pub cwd: Option<std::path::PathBuf>,
    /// The sandbox in force, for the result and the card.
    pub sandbox: &'static str,
    /// Why the sandbox seems to have stopped it, where it does: the person may be asked once to run it without.
    pub denied: Option<String>,
    /// Who of it waited for somebody to type, and where; it was ended for that.
    pub waiting: Option<String>,
    /// Names of processes that it left behind and that were ended with it.
    pub leftovers: Vec<String>,
    /// Remarks for the model: the folder was reset, the time-out, exports that were not kept, the job's number.
    pub notes: Vec<String>,
    /// The job's number, where the command was started in the background and goes on.
    pub job: Option<u32>,
}
