//! The workspace as one call may use it: its permitted effects, and reading inside the roots (invariant I13).
use super::{
    ApplyError, Freshness, OutputSink, Ran, Reader, Workspace, Written, WsError, jobs::Jobs, text::Text,
};
use crate::effects::{Change, Command, Effects, WsPath};
use async_trait::async_trait;
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A view of a workspace that refuses what was not declared and permitted.
pub struct Narrowed<'a> {
    inner: &'a dyn Workspace,
    effects: &'a Effects,
}

impl<'a> Narrowed<'a> {
    /// `effects` have been permitted, by the policy or by a person: reading them is granted from here on.
    pub fn new(inner: &'a dyn Workspace, effects: &'a Effects) -> Self {
        for path in effects.reads.iter().chain(effects.writes.iter().flat_map(Change::paths)) {
            inner.grant(path);
        }
        Narrowed { inner, effects }
    }

    fn declared_write(&self, change: &Change) -> bool {
        self.effects.writes.iter().any(|permitted| {
            std::mem::discriminant(permitted) == std::mem::discriminant(change)
                && permitted.paths().eq(change.paths())
                && new_text(permitted) == new_text(change)
        })
    }

    fn undeclared(&self, path: &WsPath) -> WsError {
        tracing::error!("a call touched a path that it had not declared");
        debug_assert!(false, "undeclared effect");
        WsError::OutsideRoots { path: path.to_string(), why: "this call has no permission for it".into() }
    }
}

fn new_text(change: &Change) -> Option<&Text> {
    match change {
        Change::Write { new, .. } | Change::Move { new, .. } => Some(new),
        Change::Delete { .. } => None,
    }
}

#[async_trait]
impl Reader for Narrowed<'_> {
    fn resolve(&self, path: &str) -> Result<WsPath, WsError> {
        self.inner.resolve(path)
    }
    async fn read(&self, path: &WsPath) -> Result<Option<Text>, WsError> {
        self.inner.read(path).await
    }
    async fn read_bytes(&self, path: &WsPath, limit: u64) -> Result<Vec<u8>, WsError> {
        self.inner.read_bytes(path, limit).await
    }
    fn saw(&self, path: &WsPath, text: &Text) {
        self.inner.saw(path, text);
    }
    async fn freshness(&self, path: &WsPath) -> Freshness {
        self.inner.freshness(path).await
    }
    fn roots(&self) -> &[PathBuf] {
        self.inner.roots()
    }
    fn cwd(&self) -> PathBuf {
        self.inner.cwd()
    }
    fn search_path(&self) -> std::ffi::OsString {
        self.inner.search_path()
    }
    fn runs_in_editor(&self) -> bool {
        self.inner.runs_in_editor()
    }
    fn seen_files(&self) -> Vec<PathBuf> {
        self.inner.seen_files()
    }
    fn dirty(&self) -> Vec<(WsPath, Text)> {
        self.inner.dirty()
    }
}

#[async_trait]
impl Workspace for Narrowed<'_> {
    async fn apply(&self, changes: &[Change]) -> Result<Vec<Written>, ApplyError> {
        if let Some(other) = changes.iter().find(|c| !self.declared_write(c)) {
            return Err(ApplyError { error: self.undeclared(other.path()), landed: Vec::new() });
        }
        self.inner.apply(changes).await
    }
    async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        if self.effects.runs.as_ref() != Some(command) {
            return Err(self.undeclared(&command.cwd));
        }
        self.inner.run(command, sink, cancel).await
    }
    async fn spill(&self, name: &str, text: &str) -> Result<PathBuf, WsError> {
        self.inner.spill(name, text).await
    }
    fn jobs(&self) -> Option<&Jobs> {
        self.inner.jobs()
    }
}
