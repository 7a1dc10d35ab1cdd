//! Hermes: the store, the models and the live sessions of this process.
use super::{
    journal::{Journal, Keep, KeepError},
    recover,
    search::SessionSearch,
    session::{Folders, Instruction, Limits, Models, Parts, Session},
    slot::Slot,
};
use crate::{
    id::{MessageId, SessionId},
    log::{Settings, Stored},
    permit::{Grant, Grants},
    store::{BlobId, Filter, LockError, Origin, Page, SessionHead, Store, StoreError},
    tools::{Tools, erase},
    workspace::{EditorSide, Workspace},
};
use async_trait::async_trait;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the agent is made of; handed in so that tests can replace each part.
pub struct Hermes {
    pub store: Store,
    pub models: Arc<dyn Models>,
    pub limits: Limits,
    /// The mode and model that a new session starts with.
    pub settings: Settings,
    pub workspaces: Box<dyn Workspaces>,
    slots: Mutex<HashMap<SessionId, Arc<Slot>>>,
}

/// Makes the workspace and the tools of a session.
pub trait Workspaces: Send + Sync {
    fn open(
        &self,
        folders: &Folders,
        spill: PathBuf,
        editor: EditorSide,
    ) -> Result<Arc<dyn Workspace>, OpenError>;
    fn tools(&self) -> Tools;
    /// Texts of the project for the system prompt (`AGENTS.md`).
    fn instructions(&self, folders: &Folders) -> Vec<Instruction>;
}

/// Makes the editor's side of files for a session, once its id is known.
pub type MakeEditorSide = Box<dyn FnOnce(&SessionId) -> EditorSide + Send>;

/// How a session is opened.
pub struct Opening {
    pub folders: Folders,
    /// From the client: joins or replaces the identity part of the system prompt.
    pub instructions: Vec<Instruction>,
    pub editor: MakeEditorSide,
    /// Who makes a session with it.
    pub origin: Origin,
}

/// Why a session could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no session {0}")]
    Unknown(SessionId),
    #[error(transparent)]
    Store(StoreError),
    #[error("{0}")]
    Workspace(String),
}

impl Hermes {
    pub fn new(
        store: Store,
        models: Arc<dyn Models>,
        limits: Limits,
        settings: Settings,
        workspaces: Box<dyn Workspaces>,
    ) -> Self {
        Hermes { store, models, limits, settings, workspaces, slots: Mutex::default() }
    }

    /// The slot of a session that is live here or being opened.
    pub fn slot(&self, id: &SessionId) -> Option<Arc<Slot>> {
        self.slots().get(id).cloned()
    }

    /// The slot of a session that a request is about to open.
    pub fn slot_or_new(&self, id: &SessionId) -> Arc<Slot> {
        self.slots().entry(id.clone()).or_default().clone()
    }

    /// The live session of that id.
    pub fn live(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.slot(id)?.session()
    }

    /// Forgets a slot that holds no session and for which nobody waits.
    pub fn tidy(&self, id: &SessionId) {
        let mut slots = self.slots();
        if slots.get(id).is_some_and(|slot| slot.session().is_none() && !slot.is_busy()) {
            slots.remove(id);
        }
    }

    /// A new session. Its row is written behind the answer; the first append waits for it.
    pub fn create(&self, opening: Opening) -> Result<Arc<Session>, OpenError> {
        let id = SessionId::new();
        let mut head = SessionHead::new(id.clone(), opening.folders.cwd.clone());
        head.roots = opening.folders.additional.clone();
        head.origin = opening.origin;
        head.settings = self.settings.clone();
        (head.settings.model, head.settings.effort) = self.models.initial();
        let session = Arc::new(self.session(head.clone(), opening, vec![], 0)?);
        self.store.create(head).detach();
        self.slot_or_new(&id).put(Some(session.clone()));
        Ok(session)
    }

    /// Opens a stored session, or the live one; for the holder of its turnstile.
    pub async fn open(&self, id: &SessionId, slot: &Slot, opening: Opening) -> Result<Opened, OpenError> {
        if let Some(session) = slot.session()
            && session.folders == opening.folders
            && session.is_writable()
        {
            return Ok(Opened { session, notices: vec![] });
        }
        if slot.session().is_some() {
            // Reopened with other folders: what was said stays, the workspace is made anew. One that another process
            // held is read again: it may have gone on there, and it may be free now.
            self.close(slot);
            self.store.flush().await.map_err(OpenError::Store)?;
        }
        let loaded = match self.store.load(id.clone()).await {
            Ok(loaded) => loaded,
            Err(StoreError::NotFound(_)) => return Err(OpenError::Unknown(id.clone())),
            Err(e) => return Err(OpenError::Store(e)),
        };
        let mut notices = recover::notices(&loaded, &opening.folders);
        let mut head = loaded.head.clone();
        if head.cwd != opening.folders.cwd || head.roots != opening.folders.additional {
            (head.cwd, head.roots) = (opening.folders.cwd.clone(), opening.folders.additional.clone());
            self.store.set_folders(id.clone(), head.cwd.clone(), head.roots.clone()).detach();
        }
        let draft = loaded.draft;
        let session = Arc::new(self.session(head, opening, loaded.entries, loaded.next)?);
        if session.is_writable() {
            let mut journal = session.journal().await;
            let closing = recover::closing(journal.entries(), draft.as_ref(), &session);
            if let Err(e) = journal.append(closing).await {
                notices.push(format!("What the last turn left open could not be closed: {e}"));
            }
        }
        slot.put(Some(session.clone()));
        Ok(Opened { session, notices })
    }

    pub(super) fn session(
        &self,
        head: SessionHead,
        opening: Opening,
        entries: Vec<Stored>,
        next: u64,
    ) -> Result<Session, OpenError> {
        let id = head.id.clone();
        let editor = (opening.editor)(&id);
        let workspace = self.workspaces.open(&opening.folders, self.store.spill_dir(&id), editor)?;
        let (lock, held) = match self.store.lock(&id) {
            Ok(lock) => (Some(lock), None),
            Err(e @ LockError::Held { .. }) => (None, Some(e.to_string())),
            // A lock that cannot be taken for another reason must not cost the session; the store checks each append.
            Err(LockError::Store(e)) => {
                tracing::warn!("the session could not be locked: {e}");
                (None, None)
            }
        };
        let mut tools = self.workspaces.tools();
        tools.push(erase(SessionSearch { store: self.store.clone(), folder: head.cwd.clone() }));
        let unwritten = (next == 0).then(|| head.clone());
        let keep: Arc<dyn Keep> = Arc::new(Kept::new(self.store.clone(), head.cwd.clone(), unwritten));
        let mut instructions = self.workspaces.instructions(&opening.folders);
        instructions.splice(0..0, opening.instructions);
        Ok(Session::new(Parts {
            id: id.clone(),
            folders: opening.folders,
            workspace,
            tools,
            models: self.models.clone(),
            journal: Journal::new(id, entries, next, keep.clone()),
            keep,
            limits: self.limits,
            instructions,
            settings: head.settings,
            grants: Grants::default(),
            lock,
            held,
            titled: head.title.is_some(),
        }))
    }

    /// The sessions that are live here.
    pub fn all_live(&self) -> Vec<Arc<Session>> {
        self.slots().values().filter_map(|slot| slot.session()).collect()
    }

    pub async fn list(&self, cwd: Option<PathBuf>, cursor: Option<String>) -> Result<Page, StoreError> {
        self.store.heads(Filter { cwd, cursor, ..Filter::default() }).await
    }

    /// Frees a live session; for the holder of its turnstile.
    pub fn close(&self, slot: &Slot) {
        slot.put(None);
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was opened.
pub struct Opened {
    pub session: Arc<Session>,
    /// What the person should know of how it was opened.
    pub notices: Vec<String>,
}

/// A session's log in the store.
pub(super) struct Kept {
    store: Store,
    folder: PathBuf,
    /// A session without entries yet. Its row may have failed to be written behind the answer to `session/new`; the
    /// first append then tries it again, and tells why it cannot be.
    unwritten: Mutex<Option<SessionHead>>,
}

impl Kept {
    pub(super) fn new(store: Store, folder: PathBuf, unwritten: Option<SessionHead>) -> Self {
        Kept { store, folder, unwritten: Mutex::new(unwritten) }
    }

    fn unwritten(&self) -> MutexGuard<'_, Option<SessionHead>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, error: &StoreError) -> KeepError {
        match error {
            // It was there when it was opened.
            StoreError::NotFound(_) => KeepError(format!(
                "it is no longer in {}: the file or the session was removed or replaced while it was open. Start a new \
                 session to go on; what stands here is not kept",
                self.store.file().display()
            )),
            e => KeepError(e.to_string()),
        }
    }

    /// The first entries of a session, and its row where that is not there.
    async fn begin(
        &self,
        session: &SessionId,
        head: SessionHead,
        entries: Vec<Stored>,
    ) -> Result<(), StoreError> {
        match self.store.append(session.clone(), entries.clone()).await {
            Err(StoreError::NotFound(_)) => {
                self.store.create(head).await?;
                self.store.append(session.clone(), entries).await
            }
            done => done,
        }
    }
}

#[async_trait]
impl Keep for Kept {
    async fn append(&self, session: &SessionId, entries: Vec<Stored>) -> Result<(), KeepError> {
        let head = self.unwritten().clone();
        let done = match head {
            Some(head) => self.begin(session, head, entries).await,
            None => self.store.append(session.clone(), entries).await,
        };
        done.map_err(|e| self.failure(&e))?;
        self.unwritten().take();
        Ok(())
    }
    fn draft(&self, session: &SessionId, id: &MessageId, text: &str, thinking: &str) {
        self.store.draft(session.clone(), id.clone(), text.to_owned(), thinking.to_owned()).detach();
    }
    async fn grants(&self, _: &SessionId) -> Result<Vec<Grant>, KeepError> {
        self.store.grants(self.folder.clone()).await.map_err(|e| KeepError(e.to_string()))
    }
    async fn grant(&self, _: &SessionId, grant: Grant) -> Result<(), KeepError> {
        self.store.add_grant(self.folder.clone(), grant).await.map_err(|e| KeepError(e.to_string()))
    }
    async fn snapshot(&self, session: &SessionId, contents: Vec<Vec<u8>>) -> Result<(), KeepError> {
        self.store.put_blobs(session.clone(), contents).await.map_err(|e| KeepError(e.to_string()))
    }
    async fn content(&self, sha256: &str) -> Option<Vec<u8>> {
        self.store.get_blob(BlobId::parse(sha256)?).await.ok().flatten()
    }
    fn title(&self, session: &SessionId, title: &str) {
        if let Some(head) = self.unwritten().as_mut() {
            head.title = Some(title.to_owned());
        }
        self.store.set_title(session.clone(), Some(title.to_owned())).detach();
    }
    fn settings(&self, session: &SessionId, settings: &Settings) {
        if let Some(head) = self.unwritten().as_mut() {
            head.settings = settings.clone();
        }
        self.store.set_settings(session.clone(), settings.clone()).detach();
    }
    async fn windows(&self) -> Result<Vec<(String, u64)>, KeepError> {
        self.store.windows().await.map_err(|e| KeepError(e.to_string()))
    }
    fn window(&self, model: &str, tokens: u64) {
        self.store.set_window(model.to_owned(), tokens).detach();
    }
}
