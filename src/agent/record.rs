//! What a call does to files is recorded: a snapshot before the write, what is there after it. Undo is made of it.
use super::session::Session;
use crate::{
    effects::{Change, Command, Verdict, WsPath},
    log::{FileState, Touched},
    workspace::{
        ApplyError, Freshness, OutputSink, Ran, Reader, Workspace, Written, WsError,
        census::{Census, Changed, Content},
        jobs::Jobs,
        text::Text,
    },
};
use async_trait::async_trait;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// A session's workspace for one call.
pub struct Recorded<'a> {
    session: &'a Session,
    files: Mutex<Vec<Touched>>,
}

impl<'a> Recorded<'a> {
    pub fn new(session: &'a Session) -> Self {
        Recorded { session, files: Mutex::default() }
    }

    /// What was recorded.
    pub fn take(&self) -> Vec<Touched> {
        std::mem::take(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, files: impl IntoIterator<Item = Touched>) {
        let changed = files.into_iter().filter(|t| t.before != t.after || t.before == FileState::Unknown);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).extend(changed);
    }

    fn inner(&self) -> &dyn Workspace {
        &*self.session.workspace
    }

    /// Keeps contents. That they cannot be kept must not keep the call from running: undo then says that it cannot.
    /// What holds a secret of ours is not kept: the store must not have it.
    async fn keep(&self, mut contents: Vec<Vec<u8>>) {
        let secrets = self.inner().secrets();
        contents.retain(|c| !secrets.is_in(c));
        if !contents.is_empty()
            && let Err(e) = self.session.keep.snapshot(&self.session.id, contents).await
        {
            tracing::warn!("what files were before a change could not be kept: {e}");
        }
    }

    /// What is in a file now.
    async fn state(&self, path: &WsPath) -> FileState {
        match self.inner().read(path).await {
            Ok(text) => state(text.as_ref()),
            Err(_) => FileState::Unknown,
        }
    }

    async fn census(&self) -> Census {
        let mut memory =
            std::mem::take(&mut *self.session.census.lock().unwrap_or_else(PoisonError::into_inner));
        let (roots, extra) = (self.inner().roots().to_vec(), self.inner().seen_files());
        let walk = tokio::task::spawn_blocking(move || (Census::take(&roots, &extra, &mut memory), memory));
        let Ok((mut census, memory)) = walk.await else { return Census::default() };
        *self.session.census.lock().unwrap_or_else(PoisonError::into_inner) = memory;
        self.keep(std::mem::take(&mut census.fresh)).await;
        census
    }
}

/// The state of a file that has this text.
pub fn state(text: Option<&Text>) -> FileState {
    let Some(text) = text else { return FileState::Absent };
    match text.to_bytes() {
        Ok(bytes) => content(Content::of(&bytes)),
        Err(_) => FileState::Unknown,
    }
}

fn content(content: Content) -> FileState {
    let Content { bytes, text } = content;
    FileState::Content { text: (text != bytes).then_some(text), bytes }
}

/// (path, what was there, what will be) of each file that a change touches.
fn sides(change: &Change) -> Vec<(&WsPath, Option<&Text>, Option<&Text>)> {
    match change {
        Change::Write { path, old, new } => vec![(path, old.as_ref(), Some(new))],
        Change::Delete { path, old } => vec![(path, Some(old), None)],
        Change::Move { from, to, old, new } if from == to => vec![(to, Some(old), Some(new))],
        Change::Move { from, to, old, new } => vec![(from, Some(old), None), (to, None, Some(new))],
    }
}

/// What is asked of the disk before a change.
#[derive(Default)]
struct Before {
    mode: Option<u32>,
    made: Vec<PathBuf>,
}

impl Before {
    fn of(path: &WsPath) -> Self {
        Before { mode: mode(path), made: missing_above(path) }
    }
}

fn mode(path: &WsPath) -> Option<u32> {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;
    let meta = path.real().symlink_metadata().ok()?;
    #[cfg(unix)]
    return Some(meta.mode());
    #[cfg(not(unix))]
    return (!meta.is_dir()).then_some(0);
}

/// The folders above a path that do not exist, the innermost first.
fn missing_above(path: &WsPath) -> Vec<PathBuf> {
    let above = path.real().ancestors().skip(1);
    above.take_while(|folder| folder.symlink_metadata().is_err()).map(Path::to_path_buf).collect()
}

fn touched(changed: Changed) -> Touched {
    let state = |side: Option<Option<Content>>| match side {
        None => FileState::Absent,
        Some(None) => FileState::Unknown,
        Some(Some(c)) => content(c),
    };
    Touched {
        path: changed.path,
        before: state(changed.before),
        after: state(changed.after),
        mode: changed.mode,
        made: changed.made,
    }
}

#[async_trait]
impl Reader for Recorded<'_> {
    fn resolve(&self, path: &str) -> Result<WsPath, WsError> {
        self.inner().resolve(path)
    }
    async fn read(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        self.inner().read(path).await
    }
    async fn read_bytes(&self, path: &WsPath, limit: u64) -> Result<Vec<u8>, WsError> {
        self.inner().read_bytes(path, limit).await
    }
    fn saw(&self, path: &WsPath, text: &Text) {
        self.inner().saw(path, text);
    }
    async fn freshness(&self, path: &WsPath) -> Freshness {
        self.inner().freshness(path).await
    }
    fn roots(&self) -> &[PathBuf] {
        self.inner().roots()
    }
    fn cwd(&self) -> PathBuf {
        self.inner().cwd()
    }
    fn search_path(&self) -> std::ffi::OsString {
        self.inner().search_path()
    }
    fn runs_in_editor(&self) -> bool {
        self.inner().runs_in_editor()
    }
    fn dirty(&self) -> Vec<(WsPath, Text)> {
        self.inner().dirty()
    }
    fn seen_files(&self) -> Vec<PathBuf> {
        self.inner().seen_files()
    }
    fn grant(&self, path: &WsPath) {
        self.inner().grant(path);
    }
}

#[async_trait]
impl Workspace for Recorded<'_> {
    async fn apply(&self, changes: &[Change]) -> Result<Vec<Written>, ApplyError> {
        let all: Vec<_> = changes.iter().flat_map(sides).collect();
        let olds = all.iter().filter_map(|(_, old, _)| old.and_then(|t| t.to_bytes().ok()));
        self.keep(olds.collect()).await;
        let before: Vec<Before> = all.iter().map(|(path, ..)| Before::of(path)).collect();
        let applied = self.inner().apply(changes).await;
        // Nothing was written: what is there now is somebody else's, and not for us to take back.
        if matches!(&applied, Err(ApplyError { error: WsError::Changed { .. }, landed }) if landed.is_empty())
        {
            return applied;
        }
        let Ok(written) = &applied else {
            for ((path, old, _), Before { mode, made }) in all.into_iter().zip(before) {
                let after = self.state(path).await;
                let path = path.as_path().to_owned();
                self.note([Touched { path, before: state(old), after, mode, made }]);
            }
            return applied;
        };
        let mut before = before.into_iter();
        for (change, written) in changes.iter().zip(written) {
            let change = written.rebased.as_ref().unwrap_or(change);
            if let Some(Change::Write { old: Some(old), .. }) = &written.rebased {
                self.keep(old.to_bytes().into_iter().collect()).await;
            }
            for (path, old, new) in sides(change) {
                let after = new.map(|new| written.drift.as_ref().unwrap_or(new));
                let Before { mode, made } = before.next().unwrap_or_default();
                self.note([Touched {
                    path: path.as_path().to_owned(),
                    before: state(old),
                    after: state(after),
                    mode,
                    made,
                }]);
            }
        }
        applied
    }

    async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        if command.verdict == Verdict::ReadOnly {
            return self.inner().run(command, sink, cancel).await;
        }
        let before = self.census().await;
        let ran = self.inner().run(command, sink, cancel).await;
        let after = self.census().await;
        self.note(before.changes(&after).into_iter().map(touched));
        ran
    }

    async fn spill(&self, name: &str, text: &str) -> Result<PathBuf, WsError> {
        self.inner().spill(name, text).await
    }
    fn jobs(&self) -> Option<&Jobs> {
        self.inner().jobs()
    }
}
