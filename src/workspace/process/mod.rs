//! Commands.
use super::{OutputSink, Ran, WsError, jobs::Jobs};
use crate::effects::Command;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

/// How commands run.
#[derive(Clone, Debug, Default)]
pub struct Settings {}

pub struct Shell {
    cwd: PathBuf,
    jobs: Jobs,
}
impl Shell {
    pub(super) fn new(_settings: Settings, roots: &[PathBuf], _session_folder: &Path) -> Self {
        Shell { cwd: roots[0].clone(), jobs: Jobs {} }
    }
    pub(super) fn cwd(&self) -> PathBuf {
        self.cwd.clone()
    }
    pub(super) fn jobs(&self) -> &Jobs {
        &self.jobs
    }
    pub(super) async fn run(
        &self,
        c: &Command,
        _: Arc<dyn OutputSink>,
        _: CancellationToken,
    ) -> Result<Ran, WsError> {
        Err(WsError::Io { path: c.cwd.to_string(), why: "commands are not available".into() })
    }
}
