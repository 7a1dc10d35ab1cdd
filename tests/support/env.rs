//! A world per test: folders of its own, an environment of its own, a model of its own.
use super::model_server::ModelServer;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::{Child, Command};

pub const BIN: &str = env!("CARGO_BIN_EXE_hermes-editor");

/// Removed when dropped.
pub struct World {
    _dir: tempfile::TempDir,
    /// All folders are below it.
    pub base: PathBuf,
    /// The session's folder.
    pub cwd: PathBuf,
    /// `$HOME`.
    pub home: PathBuf,
    pub model: ModelServer,
    /// What the agent is started with, besides `PATH`.
    pub env: BTreeMap<String, String>,
    config: String,
}

impl World {
    pub async fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (cwd, home, temp) = (base.join("w"), base.join("h"), base.join("t"));
        std::fs::create_dir_all(&temp).unwrap();
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        let model = ModelServer::start().await;
        let env = [
            ("HOME", home.display().to_string()),
            ("HERMES_EDITOR_HOME", home.join("own").display().to_string()),
            ("OPENAI_BASE_URL", model.url()),
            ("OPENAI_MODEL", "scripted".into()),
            ("SHELL", "/bin/sh".into()),
            ("LANG", "C.UTF-8".into()),
            // What a killed agent leaves behind goes with the test.
            ("TMPDIR", temp.display().to_string()),
        ];
        let env = env.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let mut world = World { _dir: dir, base, cwd, home, model, env, config: String::new() };
        // The sandbox differs from machine to machine, and a login shell says what it likes.
        world.configure("sandbox.mode = \"off\"");
        world.configure("terminal.login_shell = false");
        // What else runs on this machine must not matter.
        world.configure("probe_local = false");
        world
    }

    /// Adds a line to `config.toml`.
    pub fn configure(&mut self, line: &str) {
        self.config.push_str(line);
        self.config.push('\n');
        let folder = self.home.join("own/config");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), &self.config).unwrap();
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.cwd.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The text of a file; `None` where there is none.
    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.cwd.join(path)).ok()
    }

    /// The real binary, to be started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(&self.env)
            .current_dir(&self.base)
            .kill_on_drop(true);
        command
    }

    /// The real binary, with pipes. Its log goes to a file, so that a failing test can show it.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap()
    }

    pub fn log(&self) -> PathBuf {
        self.base.join("stderr.log")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.cwd.join(path)
    }

    /// A path as the client writes it: below the session's folder unless it is absolute.
    pub fn absolute(&self, path: &str) -> PathBuf {
        if Path::new(path).is_absolute() { path.into() } else { self.cwd.join(path) }
    }
}
