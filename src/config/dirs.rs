//! Where configuration, data and logs live.
use etcetera::BaseStrategy;
use std::path::{Path, PathBuf};

/// The name of our folder in each of the system's.
const NAME: &str = "hermes-editor";
/// Moves configuration, data and state under one folder.
pub const HOME_VAR: &str = "HERMES_EDITOR_HOME";

/// Our folders. None is made before something is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDirs {
    /// `config.toml`.
    pub config: PathBuf,
    /// The database, session folders, locks.
    pub data: PathBuf,
    /// Logs.
    pub state: PathBuf,
}

/// There is neither `HERMES_EDITOR_HOME` nor a home folder.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no home folder was found; set {HOME_VAR} to a folder of your own")]
pub struct NoHome;

impl DataDirs {
    /// From the environment: XDG on Linux, `~/Library` on macOS, `%APPDATA%` on Windows, or `HERMES_EDITOR_HOME`.
    pub fn from_env() -> Result<Self, NoHome> {
        if let Some(home) = std::env::var_os(HOME_VAR).filter(|h| !h.is_empty()) {
            return Ok(Self::under(&std::path::absolute(&home).unwrap_or_else(|_| home.into())));
        }
        let system = etcetera::base_strategy::choose_native_strategy().map_err(|_| NoHome)?;
        let data = system.data_dir().join(NAME);
        Ok(Self {
            config: system.config_dir().join(NAME),
            state: system.state_dir().map(|s| s.join(NAME)).unwrap_or_else(|| data.join("state")),
            data,
        })
    }
    /// All of them under one folder.
    pub fn under(home: &Path) -> Self {
        Self { config: home.join("config"), data: home.join("data"), state: home.join("state") }
    }
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }
    pub fn database(&self) -> PathBuf {
        self.data.join("sessions.db")
    }
    /// The lists of models that providers gave.
    pub fn model_lists(&self) -> PathBuf {
        self.data.join("models.json")
    }
    /// What was chosen last.
    pub fn choices(&self) -> PathBuf {
        self.data.join("choices.json")
    }
    /// One folder per session: results that were too long for the conversation.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }
    pub fn locks(&self) -> PathBuf {
        self.data.join("locks")
    }
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }
}
