//! The workspace of one session: guard, both sides of files, what was seen of them, and commands.
use super::{
    ApplyError, Buffers, Freshness, OutputSink, Ran, Reader, Said, Workspace, Written, WsError, apply, disk,
    editor,
    freshness::{Now, Seen, lock},
    guard::Guard,
    jobs::Jobs,
    process,
    terminals::Terminals,
    text::Text,
    watch::Watch,
};
use crate::effects::{Change, Command, Place, WsPath};
use async_trait::async_trait;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

/// What a session's workspace is made of.
pub struct Setup {
    /// The session's cwd, then its additional folders, absolute, as the client named them.
    pub roots: Vec<PathBuf>,
    /// Our own folder for this session: spilled results, its temporary folder. Created where it is missing.
    pub session_folder: PathBuf,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// The editor's side of files; [`NoBuffers`] where the client has none.
    pub buffers: Arc<dyn Buffers>,
    pub process: process::Settings,
}

/// The client has no `fs` methods: everything is on disk.
pub struct NoBuffers;

#[async_trait]
impl Buffers for NoBuffers {
    fn can_read(&self) -> bool {
        false
    }
    fn can_write(&self) -> bool {
        false
    }
    async fn read(&self, _: &Path) -> Result<String, super::BufferError> {
        Err(super::BufferError::NotFound)
    }
    async fn write(&self, _: &Path, _: &str) -> Result<(), super::BufferError> {
        Err(super::BufferError::NotFound)
    }
}

/// The folders of one session, as the editor and the disk have them together.
pub struct SessionWorkspace {
    guard: Guard,
    buffers: Arc<dyn Buffers>,
    pub(super) seen: Seen,
    /// Canonical paths that a person, or the policy, allowed beside the roots.
    granted: Mutex<HashSet<PathBuf>>,
    pub(super) shell: process::Shell,
    watch: Watch,
    runs: Runs,
}

/// Who runs commands.
enum Runs {
    Agent,
    Editor(Arc<dyn Terminals>),
    /// The setting says the editor, which has no terminals; whether that was told.
    Missing(AtomicBool),
}

impl SessionWorkspace {
    /// # Errors
    /// A root that is no folder, or a session folder that cannot be created.
    pub fn new(setup: Setup) -> Result<Self, WsError> {
        make_private(&setup.session_folder).map_err(|e| WsError::Io {
            path: setup.session_folder.display().to_string(),
            why: format!("{e}; make the data folder writable, or set HERMES_EDITOR_HOME to another"),
        })?;
        let guard = Guard::new(&setup.roots, &setup.session_folder, setup.home)?;
        let shell = process::Shell::new(setup.process, guard.clone());
        Ok(SessionWorkspace {
            guard,
            buffers: setup.buffers,
            seen: Seen::default(),
            granted: Mutex::default(),
            shell,
            watch: Watch::default(),
            runs: Runs::Agent,
        })
    }

    /// Commands are to run in the editor's terminals, if it has any.
    #[must_use]
    pub fn in_editor(mut self, terminals: Option<Arc<dyn Terminals>>) -> Self {
        self.runs = terminals.map_or_else(|| Runs::Missing(false.into()), Runs::Editor);
        self
    }

    /// A word on commands that we run although the setting says the editor.
    pub(super) fn run_here(&self) -> Option<String> {
        match &self.runs {
            Runs::Agent => None,
            Runs::Editor(_) => Some("background commands run outside the editor's terminals".into()),
            Runs::Missing(told) if told.swap(true, Ordering::Relaxed) => None,
            Runs::Missing(_) => {
                Some("the editor offers no terminals: commands run without them, as by default".into())
            }
        }
    }

    /// That a path still leads where it led when it was resolved.
    pub(super) fn check_place(&self, path: &WsPath) -> Result<(), WsError> {
        if self.guard.resolve_path(path.as_path())?.real() == path.real() {
            return Ok(());
        }
        let what = "a folder on the way to it leads somewhere else now".to_owned();
        Err(WsError::Changed { path: path.to_string(), what })
    }

    /// The model knows this file: its folder is watched.
    pub(super) fn knows(&self, path: &WsPath) {
        self.watch.add(path.real());
    }

    pub(super) fn buffers(&self) -> &dyn Buffers {
        &*self.buffers
    }

    /// Fetches both sides of a file and judges them by what was seen before.
    pub(super) async fn look(&self, path: &WsPath) -> Result<Now, WsError> {
        let sides = editor::fetch(path, self.buffers()).await?;
        Ok(self.seen.judge(path, sides))
    }

    pub(super) fn is_granted(&self, path: &WsPath) -> bool {
        lock(&self.granted).contains(path.real())
    }

    /// Whether a file's content needs a person's word before anything of it may be told.
    fn withheld(&self, path: &WsPath) -> bool {
        (path.place() == Place::Outside || path.is_secret()) && !self.is_granted(path)
    }

    fn refuse_withheld(&self, path: &WsPath) -> Result<(), WsError> {
        if !self.withheld(path) || path.real().symlink_metadata().is_err() {
            return Ok(());
        }
        let shown = path.to_string();
        Err(if path.is_secret() {
            WsError::Io {
                path: shown,
                why: "by its name it holds secrets: use `read` first, so that the person is asked".into(),
            }
        } else {
            WsError::OutsideRoots { path: shown, why: "use `read` first, so that the person is asked".into() }
        })
    }

    /// Ends everything that still runs for this session, in the background too.
    pub async fn close(&self) {
        self.shell.jobs().close().await;
    }
}

#[async_trait]
impl Reader for SessionWorkspace {
    fn resolve(&self, path: &str) -> Result<WsPath, WsError> {
        self.guard.resolve(path)
    }

    async fn read(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        self.refuse_withheld(path)?;
        Ok(self.look(path).await?.text)
    }

    async fn read_bytes(&self, path: &WsPath, limit: u64) -> Result<Vec<u8>, WsError> {
        self.refuse_withheld(path)?;
        let real = path.real().to_path_buf();
        let read = editor::blocking(move || disk::read(&real, limit)).await.map_err(|e| e.at(path))?;
        read.map(|s| s.bytes).ok_or_else(|| WsError::NotFound { path: path.to_string(), hint: None })
    }

    fn saw(&self, path: &WsPath, text: &Text) {
        self.seen.saw(path, Some(text));
        self.knows(path);
    }

    async fn freshness(&self, path: &WsPath) -> Freshness {
        if !self.seen.is_seen(path.real()) {
            return Freshness::NeverSeen;
        }
        match self.look(path).await {
            Ok(now) => self.seen.compare(path, &now),
            Err(e) => Freshness::Changed(e.to_string()),
        }
    }

    fn roots(&self) -> &[PathBuf] {
        self.guard.roots()
    }

    fn cwd(&self) -> PathBuf {
        self.shell.cwd()
    }

    fn search_path(&self) -> std::ffi::OsString {
        self.shell.search_path()
    }

    fn runs_in_editor(&self) -> bool {
        matches!(self.runs, Runs::Editor(_))
    }

    async fn query(&self, program: &Path, folder: &Path, args: &[String], input: &str) -> Option<Said> {
        self.shell.query(program, folder, args, input).await
    }

    fn dirty(&self) -> Vec<(WsPath, Text)> {
        self.seen.dirty()
    }

    fn seen_files(&self) -> Vec<PathBuf> {
        self.seen.files()
    }

    fn grant(&self, path: &WsPath) {
        lock(&self.granted).insert(path.real().to_path_buf());
    }
}

#[async_trait]
impl Workspace for SessionWorkspace {
    async fn apply(&self, changes: &[Change]) -> Result<Vec<Written>, ApplyError> {
        apply::apply(self, changes).await
    }

    async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        self.seen.command_starts();
        match &self.runs {
            Runs::Editor(terminals) if !command.background => {
                self.shell.run_in_editor(&**terminals, command, sink, cancel).await
            }
            _ => {
                let mut ran = self.shell.run(command, sink, cancel).await?;
                ran.notes.extend(self.run_here());
                Ok(ran)
            }
        }
    }

    async fn spill(&self, name: &str, text: &str) -> Result<PathBuf, WsError> {
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .take(80)
            .collect();
        let path = self.guard.session_folder().join(format!("{name}.txt"));
        let (target, text) = (path.clone(), text.to_owned());
        let write = move || -> Result<(), disk::DiskError> {
            let old = disk::read(&target, u64::MAX - 1)?;
            disk::write(&target, text.as_bytes(), old.as_ref())?;
            Ok(())
        };
        editor::blocking(write).await.map_err(|e| e.at(path.display()))?;
        Ok(path)
    }

    async fn confinement(&self, command: &Command) -> Option<String> {
        match &self.runs {
            Runs::Editor(_) if !command.background => None,
            _ => Some(self.shell.confinement_words(command).await),
        }
    }

    async fn changed_outside(&self) -> Vec<(WsPath, String)> {
        let mut changed = Vec::new();
        for real in self.watch.take() {
            if !self.seen.is_seen(&real) {
                continue;
            }
            let Ok(path) = self.guard.resolve_path(&real) else { continue };
            // The disk alone: what is unsaved in the editor is told of elsewhere.
            match editor::fetch_disk(&path).await {
                Ok(disk) if !self.seen.disk_changed(&path, disk.as_ref().map(|(_, text)| text)) => {}
                Ok(None) => changed.push((path, "it has been deleted".into())),
                Ok(Some(_)) => changed.push((path, "its text on disk is another one".into())),
                Err(e) => changed.push((path, e.to_string())),
            }
        }
        changed.sort_by(|(a, _), (b, _)| a.real().cmp(b.real()));
        changed
    }

    fn secrets(&self) -> crate::secret::Redactor {
        self.shell.secrets()
    }
    fn jobs(&self) -> Option<&Jobs> {
        Some(self.shell.jobs())
    }
}

/// Creates a folder for us alone.
pub(super) fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests;
