//! Commands: each under a helper of its own ([`helper`]), its output bounded ([`output`]), its environment silenced
//! ([`environment`]); folder and exports carried from one to the next.
mod child;
pub(crate) mod environment;
mod helper;
mod login;
mod output;
pub(crate) mod query;
mod shell;
mod temp;
mod terminal;
#[cfg(unix)]
mod tree;
#[cfg(unix)]
mod waiting;

pub(super) use child::{Ended, Running};
pub use helper::{HELPER, helper_main};
pub(super) use output::Collector;
pub(crate) use shell::{find as find_shell, refusal as shell_refusal};

use super::{OutputSink, Ran, WsError, freshness::lock, guard::Guard, jobs::Jobs, sandbox};
use crate::{
    effects::{Command, Verdict, WsPath},
    secret::Redactor,
};
use environment::{Carried, Env};
use helper::Spec;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The shell's text. `$1` is the command, `$2` the file that takes folder and environment at its end, `$3` what writes the
/// environment (nothing, where the command cannot have changed it: that is a process less). All are gone before the
/// command runs. `eval` keeps its text as it was written; the blank keeps a leading `-` from being an option.
const SCRIPT: &str = r#"trap '{ command pwd; '"$3"' } 2>/dev/null >"'"$2"'"' EXIT
_hermes=$1; shift 3; eval " $_hermes""#;
const ENVIRONMENT: &str = r#"command printf "\0"; command -p env -0;"#;

/// Words without which a command leaves the environment of its shell as it was.
const EXPORTING: &[&str] = &[
    "export", "declare", "typeset", "readonly", "unset", "source", ". ", "eval", "set -", "shopt", "read",
    "local",
];

/// The longest command text, in bytes: the kernel takes 128 KiB in one argument.
const TEXT_LIMIT: usize = 100 * 1024;

/// Shown to what looks for its own name, and the binary that helpers are started from.
pub(super) fn own_binary() -> PathBuf {
    if cfg!(target_os = "linux") {
        // Always the running one, even if an update has replaced the file.
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_else(|_| "hermes-editor".into())
}

/// How commands run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the editor gave the agent.
    pub env: Vec<(OsString, OsString)>,
    /// Names of variables that commands must not see: keys of the configured providers.
    pub strip: Vec<String>,
    /// Values that commands must not see, whatever variable holds them.
    pub secrets: Redactor,
    /// The binary that understands [`HELPER`].
    pub helper: PathBuf,
    /// How long a login shell may take that fills the gaps of the environment before the first command; `None`: none is
    /// asked.
    pub login_shell: Option<Duration>,
    /// The shell; `None`: bash, else sh.
    pub shell: Option<PathBuf>,
    pub sandbox: sandbox::Mode,
    /// The network for commands that run unasked, and for those that a person approved.
    pub network_unasked: bool,
    pub network_approved: bool,
    /// Folders that commands may write to beside the roots.
    pub writable: Vec<PathBuf>,
    /// How long a command may wait for somebody to type, with nothing else of it moving, before it is ended. Not of
    /// background commands.
    pub patience: Duration,
}

/// See [`Settings::patience`].
const PATIENCE: Duration = Duration::from_secs(8);

impl Default for Settings {
    fn default() -> Self {
        Settings {
            env: std::env::vars_os().collect(),
            strip: Vec::new(),
            secrets: Redactor::default(),
            helper: own_binary(),
            login_shell: None,
            shell: None,
            sandbox: sandbox::Mode::default(),
            network_unasked: false,
            network_approved: true,
            writable: Vec::new(),
            patience: PATIENCE,
        }
    }
}

/// The commands of one session.
pub struct Shell {
    settings: Settings,
    guard: Guard,
    base: Env,
    /// `base`, with what a login shell adds.
    filled: tokio::sync::OnceCell<Env>,
    program: PathBuf,
    cwd: Mutex<PathBuf>,
    carried: Mutex<Carried>,
    temp: OnceLock<Option<temp::Temp>>,
    jobs: Jobs,
}

/// What a command needs to start, apart from its folder.
struct Prepared {
    spec: Spec,
    env: Env,
    confined: Confined,
}

/// How a command was confined.
#[derive(Clone, Debug)]
pub(super) struct Confined {
    /// For people and the model.
    pub name: &'static str,
    policy: Option<sandbox::Policy>,
    cwd: PathBuf,
}

impl Shell {
    pub(super) fn new(settings: Settings, guard: Guard) -> Self {
        let base = environment::base(&settings);
        let program = settings.shell.clone().unwrap_or_else(find_shell);
        let cwd = guard.first_root().to_path_buf();
        Shell {
            settings,
            guard,
            base,
            filled: tokio::sync::OnceCell::new(),
            program,
            cwd: Mutex::new(cwd),
            carried: Mutex::default(),
            temp: OnceLock::new(),
            jobs: Jobs::default(),
        }
    }

    fn base(&self) -> &Env {
        self.filled.get().unwrap_or(&self.base)
    }

    /// Asks the login shell, once, before the first command. Who is dropped meanwhile leaves it to the next.
    async fn fill(&self) {
        if let Some(limit) = self.settings.login_shell {
            let places = (self.guard.first_root(), self.guard.roots(), self.guard.session_folder());
            self.filled.get_or_init(|| login::filled(&self.base, &self.settings, places, limit)).await;
        }
    }

    /// The folder that the next command starts in, as the client spells it.
    pub(super) fn cwd(&self) -> PathBuf {
        lock(&self.cwd).clone()
    }

    /// The `PATH` of a command that runs unasked.
    pub(super) fn search_path(&self) -> std::ffi::OsString {
        self.base().get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default()
    }

    pub(super) fn secrets(&self) -> Redactor {
        self.settings.secrets.clone()
    }

    pub(super) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(super) async fn run(
        &self,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        self.check(command)?;
        let prepared = self.prepare(command).await;
        let running = Running::start(
            &self.settings.helper,
            &prepared.spec,
            &shell::folder(&command.cwd),
            &prepared.env,
        )
        .await
        .map(|running| running.redacted(&self.settings.secrets))
        .map_err(|e| failed(&command.cwd, e))?;
        let collector = Arc::new(Mutex::new(Collector::new(self.spill_path())));
        if command.background {
            return Ok(self.jobs.adopt(command, running, (collector, sink, cancel), prepared.confined).await);
        }
        let ended = running
            .finish(sink, &collector, Some(command.timeout), cancel)
            .await
            .map_err(|e| failed(&command.cwd, e))?;
        let state = ended.report.state.clone();
        let mut ran =
            conclude(ended, &collector, &prepared.confined).map_err(|why| failed(&command.cwd, why))?;
        self.carry(command, &prepared.env, &state, &mut ran);
        Ok(ran)
    }

    /// Whether a command can be run at all.
    fn check(&self, command: &Command) -> Result<(), WsError> {
        if command.text.len() > TEXT_LIMIT || command.text.contains('\0') {
            let why = "the command is too long, or has a NUL character: write it to a file and run that";
            return Err(WsError::Io { path: command.cwd.to_string(), why: why.into() });
        }
        if let Some(why) = shell::refusal(&self.program) {
            return Err(failed(&command.cwd, why));
        }
        if command.cwd.real().is_dir() {
            return Ok(());
        }
        self.reset_cwd();
        Err(WsError::NotFound {
            path: command.cwd.to_string(),
            hint: Some(format!("commands start in {} again", self.cwd().display())),
        })
    }

    /// The file for the whole output of a command, where it has to be cut.
    fn spill_path(&self) -> PathBuf {
        self.guard.session_folder().join(format!("command-{}.txt", uuid::Uuid::now_v7().simple()))
    }

    async fn prepare(&self, command: &Command) -> Prepared {
        self.fill().await;
        let (policy, name) = self.confinement(command).await;
        let mut env = environment::of(self.base(), &lock(&self.carried), command.verdict, &command.text);
        env.insert("PWD".into(), command.cwd.as_path().into());
        if let Some(temp) = self.temp() {
            env.insert("TMPDIR".into(), temp.into());
        }
        let exports = may_export(command);
        let bash = self.program.file_name().is_some_and(|n| n == "bash" || n == "bash.exe");
        let options: &[&str] = if bash { &["--noprofile", "--norc", "-c"] } else { &["-c"] };
        let arguments = options.iter().copied().chain([SCRIPT, if bash { "bash" } else { "sh" }]);
        let spec = Spec {
            shell: self.program.clone(),
            arguments: arguments.map(str::to_owned).collect(),
            text: command.text.clone(),
            last_words: if exports { ENVIRONMENT.into() } else { String::new() },
            sandbox: policy.clone(),
            patience: (!command.background).then_some(self.settings.patience.as_millis() as u64),
        };
        Prepared { spec, env, confined: Confined { name, policy, cwd: command.cwd.real().to_path_buf() } }
    }

    /// A temporary folder of this session's commands alone.
    fn temp(&self) -> Option<&Path> {
        self.temp.get_or_init(|| temp::Temp::new().ok()).as_ref().map(temp::Temp::path)
    }

    async fn confinement(&self, command: &Command) -> (Option<sandbox::Policy>, &'static str) {
        if self.settings.sandbox == sandbox::Mode::Off || command.unconfined {
            return (None, "off");
        }
        let helper = self.settings.helper.clone();
        // It runs programs; once, with the first command.
        let backend = match tokio::task::spawn_blocking(move || sandbox::probe(&helper)).await {
            Ok(backend) => backend,
            Err(_) => &sandbox::Backend::None,
        };
        if *backend == sandbox::Backend::None {
            return (None, "none");
        }
        let unasked = command.verdict == Verdict::ReadOnly;
        let mut writable: Vec<PathBuf> =
            self.temp().and_then(|t| t.canonicalize().ok()).into_iter().collect();
        if self.settings.sandbox == sandbox::Mode::WorkspaceWrite && !unasked {
            writable.extend(self.guard.roots().iter().cloned());
            writable.extend(self.settings.writable.iter().filter_map(|p| p.canonicalize().ok()));
            let home = self.base().get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
            writable.extend(home.iter().flat_map(|h| sandbox::tool_caches(h)));
        }
        let network = if unasked { self.settings.network_unasked } else { self.settings.network_approved };
        let policy = sandbox::Policy {
            backend: backend.clone(),
            writable,
            protected: self.guard.protected_paths(),
            network,
        };
        (Some(policy), backend.name())
    }

    /// For the question about a command.
    pub(super) async fn confinement_words(&self, command: &Command) -> String {
        match self.confinement(command).await {
            (Some(policy), name) => {
                let network = if policy.network { "" } else { ", without the network" };
                format!("it runs in the sandbox ({name}{network})")
            }
            (None, "off") => "no sandbox confines it: the settings switch it off".into(),
            (None, _) => "no sandbox confines it: none works on this machine".into(),
        }
    }

    fn reset_cwd(&self) {
        *lock(&self.cwd) = self.guard.first_root().to_path_buf();
    }

    /// Takes over the folder and the exports that the shell ended with.
    fn carry(&self, command: &Command, given: &Env, state: &str, ran: &mut Ran) {
        let Some((folder, env)) = environment::parse_state(state) else { return };
        match self.guard.resolve_path(Path::new(folder)) {
            Ok(path) if path.in_roots() => {
                if path != command.cwd {
                    ran.cwd = Some(path.as_path().to_path_buf());
                }
                *lock(&self.cwd) = path.as_path().to_path_buf();
            }
            _ => {
                self.reset_cwd();
                let root = self.guard.first_root().display();
                ran.notes
                    .push(format!("{folder} is outside the workspace: the next command starts in {root}"));
            }
        }
        let Some(env) = env else { return };
        if lock(&self.carried).take(given, self.base(), &env).is_err() {
            ran.notes.push("the exported variables are too large to be kept for later commands".into());
        }
    }
}

/// Whether its shell may end with another environment, which later commands are to have.
fn may_export(command: &Command) -> bool {
    cfg!(unix)
        && command.verdict != Verdict::ReadOnly
        && !command.background
        && EXPORTING.iter().any(|word| command.text.contains(word))
}

fn failed(cwd: &WsPath, why: impl std::fmt::Display) -> WsError {
    WsError::Io { path: cwd.to_string(), why: format!("the command could not be run: {why}") }
}

/// What is told of a command that has ended.
pub(super) fn conclude(
    ended: Ended,
    collector: &Mutex<Collector>,
    confined: &Confined,
) -> Result<Ran, String> {
    let Ended { report, timed_out, cancelled, took } = ended;
    if let Some(why) = report.failed {
        return Err(why);
    }
    let (output, spilled) = lock(collector).render();
    let denied = match &confined.policy {
        Some(policy) if !timed_out && !cancelled && report.waiting.is_none() => {
            super::sandbox::denial(&report.exit, &output, policy, &confined.cwd)
        }
        _ => None,
    };
    let mut notes = Vec::new();
    if !report.survivors.is_empty() {
        notes.push(format!("these processes could not be ended: {}", report.survivors.join(", ")));
    }
    Ok(Ran {
        exit: report.exit,
        output,
        spilled,
        timed_out,
        cancelled,
        took,
        cwd: None,
        sandbox: confined.name,
        denied,
        waiting: report.waiting,
        leftovers: report.leftovers,
        notes,
        job: None,
    })
}
