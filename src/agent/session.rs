//! A session: its log, settings, workspace and tools.
use super::{
    compact::Windows,
    journal::{Journal, Keep},
    side::Side,
};
use crate::{
    id::SessionId,
    log::Settings,
    model::{ModelError, ModelInfo, Provider},
    permit::{Grant, Grants},
    store::SessionLock,
    tools::Tools,
    workspace::Workspace,
};
use futures_util::{FutureExt, future::BoxFuture};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// The models that a session can use.
pub trait Models: Send + Sync {
    /// The provider behind `provider/model`; `None`: the default one.
    fn provider(&self, model: Option<&str>) -> Result<Arc<dyn Provider>, ModelError>;
    /// What can be chosen; never waits.
    fn choices(&self) -> Vec<ModelInfo>;
    /// The default's id, if there is one.
    fn default_id(&self) -> Option<String>;
    /// What to ask where the chosen model cannot answer, in this order: `provider/model`.
    fn fallback(&self) -> Vec<String> {
        Vec::new()
    }
    /// The model for work beside the conversation; `None`: the session's own, or none at all.
    fn side(&self, _: Side) -> Option<Arc<dyn Provider>> {
        None
    }
    /// Learns what is in force at a server nearby before its model is asked; a moment at most.
    fn prepare(&self, _: Option<&str>) -> BoxFuture<'_, Prepared> {
        std::future::ready(Prepared::default()).boxed()
    }
    /// Asks for the lists of models that are missing or old. Whether there is other choice now.
    fn refresh(&self, _: Option<&str>) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }
    /// Takes what was chosen in a session as what new ones begin with.
    fn remember(&self, _: &Settings) {}
    /// The model and the effort that new sessions begin with; `None`: the default.
    fn initial(&self) -> (Option<String>, Option<String>) {
        (None, None)
    }
}

/// What was learned before a model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// There is other choice now, or another default.
    pub changed: bool,
    /// What a person should know before relying on the model.
    pub caution: Option<String>,
}

/// The folders of a session, absolute and existing.
#[derive(Clone, Debug, PartialEq)]
pub struct Folders {
    pub cwd: PathBuf,
    pub additional: Vec<PathBuf>,
}

/// Bounds of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Model requests of one turn before the last word.
    pub iterations: u32,
    /// Bytes of one tool result that the model reads; the rest is spilled.
    pub result_bytes: usize,
    /// How long failing requests are tried again before the first delta.
    pub retry_budget: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { iterations: 90, result_bytes: 32 * 1024, retry_budget: Duration::from_secs(20) }
    }
}

/// What stays the same while a session is open, plus what may be changed from outside its turn.
pub struct Session {
    pub id: SessionId,
    /// The folders as the client named them.
    pub folders: Folders,
    pub workspace: Arc<dyn Workspace>,
    pub tools: Tools,
    pub models: Arc<dyn Models>,
    pub keep: Arc<dyn Keep>,
    pub limits: Limits,
    /// What the client or the user adds to the system prompt.
    pub instructions: Vec<Instruction>,
    /// How much each model turned out to take.
    pub(super) windows: Windows,
    settings: watch::Sender<Settings>,
    grants: Mutex<Grants>,
    /// Held while this process may write the session.
    lock: Mutex<Option<SessionLock>>,
    /// Why it may not: another process has it.
    held: Option<String>,
    prompted: std::sync::atomic::AtomicBool,
    /// Names of the MCP servers that the client asked for and that were not started.
    unserved: Mutex<Vec<String>>,
    /// It has a title, which its first prompt does not replace.
    titles: std::sync::atomic::AtomicU32,
    /// What was last told of the model's server.
    told: Mutex<String>,
    /// What the user says to the turn that runs.
    pub steering: super::steer::Steering,
    /// Whether what is remembered beside the session was read.
    settled: std::sync::atomic::AtomicBool,
    /// What was read of the roots before commands.
    pub(super) census: Mutex<crate::workspace::census::Memory>,
    /// The conversation. Only who holds the turnstile of the session's slot locks it, so it never waits.
    journal: tokio::sync::Mutex<Journal>,
}

/// A text that joins the system prompt, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// A file's path, or `editor`.
    pub source: String,
    pub text: String,
    /// Replaces the identity part instead of joining it (ACP `systemPrompt` with mode `override`).
    pub replaces: bool,
    /// What the person should know: that the file was left out (and so the text is empty), or cut.
    pub note: Option<String>,
}

/// The parts of a new [`Session`].
pub struct Parts {
    pub id: SessionId,
    pub folders: Folders,
    pub workspace: Arc<dyn Workspace>,
    pub tools: Tools,
    pub models: Arc<dyn Models>,
    pub keep: Arc<dyn Keep>,
    pub limits: Limits,
    pub instructions: Vec<Instruction>,
    pub settings: Settings,
    pub grants: Grants,
    pub journal: Journal,
    pub lock: Option<SessionLock>,
    pub held: Option<String>,
    pub titled: bool,
}

impl Session {
    pub fn new(parts: Parts) -> Self {
        Session {
            id: parts.id,
            folders: parts.folders,
            workspace: parts.workspace,
            tools: parts.tools,
            models: parts.models,
            keep: parts.keep,
            limits: parts.limits,
            instructions: parts.instructions,
            windows: Windows::default(),
            settings: watch::Sender::new(parts.settings),
            grants: Mutex::new(parts.grants),
            lock: Mutex::new(parts.lock),
            held: parts.held,
            prompted: false.into(),
            unserved: Mutex::default(),
            titles: u32::from(parts.titled).into(),
            told: Mutex::default(),
            steering: Default::default(),
            settled: false.into(),
            census: Mutex::default(),
            journal: tokio::sync::Mutex::new(parts.journal),
        }
    }

    pub fn settings(&self) -> Settings {
        self.settings.borrow().clone()
    }

    /// Changes the settings; they are read at the turn's next step. Whether anything changed.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) -> bool {
        self.settings.send_if_modified(|settings| {
            let before = settings.clone();
            change(settings);
            *settings != before
        })
    }

    pub fn grants(&self) -> Grants {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn grant(&self, grant: Grant) {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).add(grant);
    }

    /// True once: in the first turn of this process.
    pub fn first_turn(&self) -> bool {
        !self.prompted.swap(true, std::sync::atomic::Ordering::Relaxed)
    }

    /// The client asked for these MCP servers; they are told once, in the next turn.
    pub fn set_unserved(&self, names: Vec<String>) {
        *self.unserved.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    pub(super) fn take_unserved(&self) -> Vec<String> {
        std::mem::take(&mut *self.unserved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It has a title from now on.
    pub fn entitle(&self) {
        self.titles.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) fn is_titled(&self) -> bool {
        self.entitled() > 0
    }

    /// How often it was given a title.
    pub(super) fn entitled(&self) -> u32 {
        self.titles.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether this was not the last thing that was told of the model's server; it is now.
    pub(super) fn is_news(&self, text: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *told, text.to_owned()) != text
    }

    /// Puts in force, once, what is remembered beside the session: the project's permissions, and how much the models
    /// take. It is read for the first turn, not before.
    pub(super) async fn settle(&self) {
        if self.settled.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        match self.keep.grants(&self.id).await {
            Ok(grants) => grants.into_iter().for_each(|grant| self.grant(grant)),
            Err(e) => tracing::warn!("the permissions of the project could not be read: {e}"),
        }
        match self.keep.windows().await {
            Ok(windows) => self.windows.restore(windows),
            Err(e) => tracing::warn!("what was learned of the models could not be read: {e}"),
        }
    }

    /// Whether this process may write the session.
    pub fn is_writable(&self) -> bool {
        self.held.is_none()
    }

    /// Why it may not.
    pub fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    /// Lets others write the session. The lock must not last as long as the last `Arc` of a session that was closed:
    /// work behind a response may keep one for a moment, and the session may be opened again at once.
    pub(super) fn release(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The conversation; for the holder of the turnstile.
    pub async fn journal(&self) -> tokio::sync::MutexGuard<'_, Journal> {
        self.journal.lock().await
    }
}

/// The longest title, in characters.
const TITLE: usize = 200;

/// A title as it is kept: one line, without control characters. `None`: nothing of it can be seen.
pub fn one_line_title(text: &str) -> Option<String> {
    let unseen =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
    let words: Vec<&str> = text.split(unseen).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    let short = match line.char_indices().nth(TITLE - 1) {
        Some((at, last)) if at + last.len_utf8() < line.len() => format!("{}…", line[..at].trim_end()),
        _ => line,
    };
    (!short.is_empty()).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::{TITLE, one_line_title};
    use crate::{
        agent::{slot::Slot, tests::Stage},
        config::DataDirs,
        store::Store,
    };
    use std::sync::Arc;

    #[test]
    fn a_closed_session_lets_others_write_while_something_still_has_it() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&DataDirs::under(home.path())).unwrap();
        let session = Arc::new(Stage::new([]).session);
        let lock = store.lock(&session.id).unwrap();
        *session.lock.lock().unwrap() = Some(lock);
        let slot = Slot::default();
        slot.put(Some(session.clone()));
        assert!(store.lock(&session.id).is_err());
        slot.put(None);
        assert!(store.lock(&session.id).is_ok());
    }

    #[test]
    fn a_title_is_one_visible_line() {
        for (given, kept) in [
            ("  Fix\n the\tbug ", Some("Fix the bug")),
            ("", None),
            (" \u{200b}\u{7}\n", None),
            ("🙂", Some("🙂")),
        ] {
            assert_eq!(one_line_title(given).as_deref(), kept, "{given:?}");
        }
        let long = one_line_title(&"é".repeat(300)).unwrap();
        assert!(long.chars().count() == TITLE && long.ends_with('…'));
        assert_eq!(one_line_title(&"é".repeat(TITLE)).unwrap().chars().count(), TITLE);
    }
}
