//! Effects: what a tool call will do, planned before anything happens.
//!
//! They decide permission (what is asked, with the real diff), parallelism (reads share, all else is alone),
//! what the editor follows, and what the diff is.
use crate::workspace::text::Text;
use std::{fmt, path::PathBuf, sync::Arc};

/// Where a path lies, as the guard resolved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Inside the session's root of that index (0 = the cwd).
    Root(usize),
    /// Inside our own session folder (spilled results): readable, never through the client.
    SessionFolder,
    /// Anywhere else.
    Outside,
}

/// A path that the guard resolved: absolute, symbolic links followed, and where it lies.
///
/// Only `workspace::guard` makes one, so holding it means that containment was checked (I15). Two spellings of one file
/// (through a link, or through a linked root) are equal.
#[derive(Clone)]
pub struct WsPath {
    /// As the client spells it: below the root as `session/new` named it. Its buffers know files by this name.
    pub(crate) absolute: Arc<PathBuf>,
    /// What the disk has: every link followed, the last component's too. Containment is about this one.
    pub(crate) real: Arc<PathBuf>,
    pub(crate) place: Place,
    /// Why a write here always asks (`.git/hooks`, our own config, editor tasks, shell start-up files).
    pub(crate) protected: Option<&'static str>,
    /// Whether its name says that it holds secrets (`.env`, private keys).
    pub(crate) secret: bool,
}

impl WsPath {
    /// The absolute path as the editor knows it, for everything that is shown or sent to the client.
    pub fn as_path(&self) -> &std::path::Path {
        &self.absolute
    }
    /// The canonical path, for the disk. Outside the roots it is the same as [`WsPath::as_path`].
    pub fn real(&self) -> &std::path::Path {
        &self.real
    }
    pub fn place(&self) -> Place {
        self.place
    }
    pub fn protected(&self) -> Option<&'static str> {
        self.protected
    }
    pub fn is_secret(&self) -> bool {
        self.secret
    }
    pub fn in_roots(&self) -> bool {
        matches!(self.place, Place::Root(_))
    }
}

impl PartialEq for WsPath {
    fn eq(&self, other: &Self) -> bool {
        self.real == other.real
    }
}
impl Eq for WsPath {}
impl std::hash::Hash for WsPath {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.real.hash(state);
    }
}

impl fmt::Display for WsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.absolute.display().fmt(f)
    }
}
impl fmt::Debug for WsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.absolute.display(), self.place)
    }
}

/// One file operation. The question, the diff, the write and the undo are all made of it.
#[derive(Clone, Debug)]
pub enum Change {
    /// Create (`old` is `None`) or replace the text of a file. `old` is what was there when the change was planned.
    Write {
        path: WsPath,
        old: Option<Text>,
        new: Text,
    },
    Delete {
        path: WsPath,
        old: Text,
    },
    /// Move, with an edit on the way where `new` differs from `old`.
    Move {
        from: WsPath,
        to: WsPath,
        old: Text,
        new: Text,
    },
}

impl Change {
    /// The path where the result of the change lies.
    pub fn path(&self) -> &WsPath {
        match self {
            Change::Write { path, .. } | Change::Delete { path, .. } => path,
            Change::Move { to, .. } => to,
        }
    }
    /// All paths that the change touches.
    pub fn paths(&self) -> impl Iterator<Item = &WsPath> {
        let (a, b) = match self {
            Change::Write { path, .. } | Change::Delete { path, .. } => (path, None),
            Change::Move { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(a).chain(b)
    }
}

/// A shell command as it will run.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The text handed to the shell, whole.
    pub text: String,
    pub cwd: WsPath,
    /// The command's own limit; all it started is killed when it ends.
    pub timeout: std::time::Duration,
    pub verdict: Verdict,
    /// One line: why the verdict is what it is.
    pub why: String,
    /// How it was read: what a remembered permission may cover, and whether one covers it. `None`: not to be remembered.
    pub assessment: Option<Arc<Assessment>>,
    pub background: bool,
    /// To run outside the sandbox, after the sandbox stopped it: always a question.
    pub unconfined: bool,
}

pub use crate::permit::shell::{Assessment, Verdict};

/// What a call will do. Empty: nothing outside our own memory.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    pub reads: Vec<WsPath>,
    pub writes: Vec<Change>,
    pub runs: Option<Command>,
    /// Hosts or MCP servers that it reaches.
    pub reaches: Vec<String>,
}

impl Effects {
    pub fn read(path: WsPath) -> Self {
        Effects { reads: vec![path], ..Effects::default() }
    }
    /// A pure read may run beside others; everything else runs alone (see *Segments* in ARCHITECTURE.md).
    pub fn is_pure_read(&self) -> bool {
        self.writes.is_empty() && self.runs.is_none() && self.reaches.is_empty()
    }
}
