//! A small workspace for tests: a temporary folder on disk with buffers, freshness and scripted commands in memory.
//!
//! It resolves by the letter (no symbolic links), knows one root, and checks what is there before it writes, as the real one does.
use super::{Cx, DynTool, Output, Progress, ToolError};
use crate::{
    effects::{Change, Command, Effects, Place, WsPath},
    log::{CallIdent, Exit},
    workspace::{
        ApplyError, Freshness, OutputSink, Ran, Reader, Said, Workspace, Written, WsError, text::Text,
    },
};
use async_trait::async_trait;
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio_util::sync::CancellationToken;

pub(crate) type Formatter = fn(&str) -> String;

/// See the module.
pub(crate) struct Fake {
    folder: tempfile::TempDir,
    roots: Vec<PathBuf>,
    /// Unsaved text of the editor; wins over the disk.
    pub(crate) buffers: Mutex<BTreeMap<PathBuf, String>>,
    seen: Mutex<BTreeMap<PathBuf, Text>>,
    /// What the next commands give; without any, they print nothing and exit 0.
    pub(crate) results: Mutex<VecDeque<Ran>>,
    /// The commands that ran.
    pub(crate) ran: Mutex<Vec<Command>>,
    /// Applied to what is written, as a formatter on save would.
    pub(crate) formatter: Mutex<Option<Formatter>>,
    pub(crate) cwd: Mutex<Option<PathBuf>>,
    /// What a command does to the folder.
    pub(crate) on_run: Mutex<Option<fn(&Path)>>,
    pub(crate) secrets: Mutex<crate::secret::Redactor>,
    /// What changed outside, until it is told.
    pub(crate) changed: Mutex<Vec<&'static str>>,
    /// The process dies in the next write.
    pub(crate) death: Mutex<Option<Death>>,
    /// It did.
    pub(crate) died: tokio::sync::Notify,
}

/// When a process dies that writes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Before,
    /// With half of the bytes on disk.
    Half,
    After,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir(&root).unwrap();
        Fake {
            folder,
            roots: vec![root],
            buffers: Mutex::default(),
            seen: Mutex::default(),
            results: Mutex::default(),
            ran: Mutex::default(),
            formatter: Mutex::default(),
            cwd: Mutex::default(),
            on_run: Mutex::default(),
            secrets: Mutex::default(),
            death: Mutex::default(),
            died: tokio::sync::Notify::new(),
            changed: Mutex::default(),
        }
    }
    pub(crate) fn root(&self) -> &Path {
        &self.roots[0]
    }
    /// Puts a file on disk, folders included.
    pub(crate) fn file(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }
    /// As [`Fake::file`], and the model has read it.
    pub(crate) fn seen(&self, path: &str) -> &Self {
        let path = self.root().join(path);
        let text = Text::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
        self.seen.lock().unwrap().insert(path, text);
        self
    }
    /// Prepares, plans and runs one call, as a turn that allows everything.
    pub(crate) async fn call(&self, tool: &dyn DynTool, args: Value) -> Result<Output, ToolError> {
        let prepared = tool.prepare(args)?;
        let effects = prepared.plan(self).await?;
        prepared.run(effects, self.cx(&CallIdent { session: "s_1".into(), id: "t_1".into() })).await
    }
    pub(crate) async fn plan(&self, tool: &dyn DynTool, args: Value) -> Result<Effects, ToolError> {
        tool.prepare(args)?.plan(self).await
    }
    pub(crate) fn cx<'a>(&'a self, call: &'a CallIdent) -> Cx<'a> {
        Cx {
            call,
            workspace: self,
            cancel: CancellationToken::new(),
            progress: Arc::new(Silent),
            images: true,
        }
    }

    fn text(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        if let Some(buffer) = self.buffers.lock().unwrap().get(path.as_path()) {
            return Ok(Some(Text::from_editor(buffer.clone())));
        }
        self.disk(path)
    }
    fn disk(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        let named = path.to_string();
        if path.as_path().is_dir() {
            return Err(WsError::IsFolder { path: named });
        }
        match std::fs::read(path.as_path()) {
            Ok(bytes) => match Text::from_bytes(&bytes) {
                Ok(text) => Ok(Some(text)),
                Err(e) => Err(WsError::NotText { path: named, why: e.to_string() }),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(WsError::Io { path: named, why: e.to_string() }),
        }
    }
    async fn die(&self) -> ! {
        self.died.notify_one();
        std::future::pending().await
    }
    fn put(&self, path: &WsPath, old: Option<&Text>, new: Option<&Text>) -> Result<Written, WsError> {
        if self.text(path)?.as_ref() != old {
            return Err(WsError::Changed { path: path.to_string(), what: "its text is another".into() });
        }
        let Some(new) = new else {
            std::fs::remove_file(path.as_path()).unwrap();
            self.seen.lock().unwrap().remove(path.as_path());
            return Ok(Written::default());
        };
        let formatter = *self.formatter.lock().unwrap();
        let there = formatter.map_or(new.clone(), |f| new.with_content(f(new.content())));
        std::fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
        let mut buffers = self.buffers.lock().unwrap();
        match buffers.get_mut(path.as_path()) {
            Some(buffer) => *buffer = there.shown().into_owned(),
            None => std::fs::write(path.as_path(), there.to_bytes().unwrap()).unwrap(),
        }
        self.seen.lock().unwrap().insert(path.as_path().to_owned(), there.clone());
        Ok(Written { drift: (there != *new).then_some(there), ..Written::default() })
    }
}

struct Silent;
impl Progress for Silent {
    fn terminal(&self, _: &[u8]) {}
}

#[async_trait]
impl Reader for Fake {
    fn resolve(&self, path: &str) -> Result<WsPath, WsError> {
        let mut absolute = self.roots[0].clone();
        for part in Path::new(path).components() {
            match part {
                Component::ParentDir => {
                    absolute.pop();
                }
                Component::CurDir => {}
                part => absolute.push(part),
            }
        }
        let place = match absolute.starts_with(&self.roots[0]) {
            true => Place::Root(0),
            false if absolute.starts_with(self.folder.path().join("session")) => Place::SessionFolder,
            false => Place::Outside,
        };
        let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let protected = absolute.ends_with(".git/config").then_some("it starts programs");
        let secret = name.starts_with(".env") || name.ends_with(".pem");
        let absolute = Arc::new(absolute);
        Ok(WsPath { real: absolute.clone(), absolute, place, protected, secret })
    }
    async fn read(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        self.text(path)
    }
    async fn read_bytes(&self, path: &WsPath, limit: u64) -> Result<Vec<u8>, WsError> {
        let mut bytes = std::fs::read(path.as_path())
            .map_err(|e| WsError::Io { path: path.to_string(), why: e.to_string() })?;
        bytes.truncate(limit as usize);
        Ok(bytes)
    }
    fn saw(&self, path: &WsPath, text: &Text) {
        self.seen.lock().unwrap().insert(path.as_path().to_owned(), text.clone());
    }
    async fn freshness(&self, path: &WsPath) -> Freshness {
        let seen = self.seen.lock().unwrap().get(path.as_path()).cloned();
        match (seen, self.text(path).ok().flatten()) {
            (None, _) => Freshness::NeverSeen,
            (Some(seen), Some(now)) if seen == now => Freshness::Unchanged,
            (Some(_), Some(_)) => Freshness::Changed("its text is another now".into()),
            (Some(_), None) => Freshness::Changed("it is gone".into()),
        }
    }
    fn roots(&self) -> &[PathBuf] {
        &self.roots
    }
    fn cwd(&self) -> PathBuf {
        self.cwd.lock().unwrap().clone().unwrap_or_else(|| self.roots[0].clone())
    }
    async fn query(&self, program: &Path, folder: &Path, args: &[String], input: &str) -> Option<Said> {
        let env = std::env::vars_os().collect();
        crate::workspace::process::query::ask(&env, program, folder, args, input).await
    }
    fn dirty(&self) -> Vec<(WsPath, Text)> {
        let buffers = self.buffers.lock().unwrap();
        buffers
            .iter()
            .map(|(p, text)| (self.resolve(&p.to_string_lossy()).unwrap(), Text::from_editor(text.clone())))
            .collect()
    }
}

#[async_trait]
impl Workspace for Fake {
    async fn apply(&self, changes: &[Change]) -> Result<Vec<Written>, ApplyError> {
        let death = self.death.lock().unwrap().take();
        match (death, changes) {
            (Some(Death::Before), _) => self.die().await,
            (Some(Death::Half), [Change::Write { path, new, .. }, ..]) => {
                let bytes = new.to_bytes().unwrap();
                std::fs::write(path.as_path(), &bytes[..bytes.len() / 2]).unwrap();
                self.die().await
            }
            _ => {}
        }
        let mut done = Vec::new();
        for (n, change) in changes.iter().enumerate() {
            let result = match change {
                Change::Write { path, old, new } => self.put(path, old.as_ref(), Some(new)),
                Change::Delete { path, old } => self.put(path, Some(old), None),
                Change::Move { from, to, old, new } => {
                    self.put(from, Some(old), None).and_then(|_| self.put(to, None, Some(new)))
                }
            };
            let landed = || changes[..n].iter().map(|c| c.path().to_string()).collect();
            done.push(result.map_err(|error| ApplyError { error, landed: landed() })?);
        }
        if death == Some(Death::After) {
            self.die().await
        }
        Ok(done)
    }
    async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        _cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        self.ran.lock().unwrap().push(command.clone());
        let effect = *self.on_run.lock().unwrap();
        effect.iter().for_each(|effect| effect(self.root()));
        let ok = || Ran { exit: Exit { code: Some(0), signal: None }, sandbox: "none", ..Ran::default() };
        let ran = self.results.lock().unwrap().pop_front().unwrap_or_else(ok);
        sink.output(ran.output.as_bytes());
        Ok(ran)
    }
    async fn changed_outside(&self) -> Vec<(WsPath, String)> {
        let changed = std::mem::take(&mut *self.changed.lock().unwrap());
        changed.into_iter().map(|path| (self.resolve(path).unwrap(), "it has been deleted".into())).collect()
    }
    fn secrets(&self) -> crate::secret::Redactor {
        self.secrets.lock().unwrap().clone()
    }
    async fn spill(&self, name: &str, text: &str) -> Result<PathBuf, WsError> {
        let folder = self.folder.path().join("session");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        Ok(folder.join(name))
    }
}
