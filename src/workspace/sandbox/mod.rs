//! What confines a command: bubblewrap, else Landlock with seccomp, else nothing — and which of them is in force is said.
//!
//! A backend counts only after it has really run `true`: user namespaces may be switched off, a container may filter the
//! calls, a kernel may be old. A command never runs unconfined because its sandbox failed to start: it fails and says so.
//!
//! | backend | protects `.git/hooks`, our settings inside a writable root | network off covers |
//! |---|---|---|
//! | bubblewrap | yes, by read-only mounts | everything but Unix sockets on disk |
//! | Landlock + seccomp | no (rights cannot be subtracted): those commands keep asking | IP sockets, and `connect` of any kind |
//! | Seatbelt (macOS; not tested by us) | yes | everything |
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

mod bubblewrap;
#[cfg(target_os = "linux")]
mod confine;
mod denial;
#[cfg(target_os = "macos")]
mod seatbelt;

pub(super) use denial::denial;

/// How much a command may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Not confined.
    Off,
    /// Its temporary folder alone.
    ReadOnly,
    /// The roots, the caches of common tools, its temporary folder.
    #[default]
    WorkspaceWrite,
}

/// What can confine a command on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    Bubblewrap(PathBuf),
    Landlock,
    Seatbelt(PathBuf),
    None,
}

impl Backend {
    /// For people and the model.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Bubblewrap(_) => "bubblewrap",
            Backend::Landlock => "landlock",
            Backend::Seatbelt(_) => "seatbelt",
            Backend::None => "none",
        }
    }
    /// Whether it can keep `.git/hooks` and the like read-only inside a writable folder.
    pub fn protects_inside_roots(&self) -> bool {
        matches!(self, Backend::Bubblewrap(_) | Backend::Seatbelt(_))
    }
}

/// The confinement of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub backend: Backend,
    /// Folders that it may write to, canonical.
    pub writable: Vec<PathBuf>,
    /// Inside those, what stays read-only where the backend can.
    pub protected: Vec<PathBuf>,
    pub network: bool,
}

/// How a confined command is started.
pub(super) struct Plan {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// What it is told on its stdin, where it confines itself before it becomes the command.
    pub stdin: Option<Vec<u8>>,
}

/// What the helper is told when it confines itself.
#[derive(Serialize, Deserialize)]
struct Confined {
    policy: Policy,
    argv: Vec<String>,
}

/// The command line that runs `argv` under the policy. Never falls back to running it unconfined.
pub(super) fn wrap(policy: Option<&Policy>, argv: Vec<OsString>) -> std::io::Result<Plan> {
    let plain = |mut argv: std::collections::VecDeque<OsString>| {
        let program = argv.pop_front().ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(Plan { program: program.into(), arguments: argv.into(), stdin: None })
    };
    match policy {
        None => plain(argv.into()),
        Some(policy) => match &policy.backend {
            Backend::None => plain(argv.into()),
            Backend::Bubblewrap(program) => Ok(Plan {
                program: program.clone(),
                arguments: bubblewrap::arguments(policy, argv),
                stdin: None,
            }),
            Backend::Landlock => {
                let argv = argv.into_iter().map(|a| a.into_string()).collect::<Result<Vec<_>, _>>();
                let argv = argv.map_err(|_| std::io::ErrorKind::InvalidInput)?;
                let line = serde_json::to_vec(&Confined { policy: policy.clone(), argv })?;
                Ok(Plan {
                    program: super::process::own_binary(),
                    arguments: vec![super::process::HELPER.into(), "exec".into()],
                    stdin: Some(line),
                })
            }
            #[cfg(target_os = "macos")]
            Backend::Seatbelt(program) => Ok(Plan {
                program: program.clone(),
                arguments: seatbelt::arguments(policy, argv),
                stdin: None,
            }),
            #[cfg(not(target_os = "macos"))]
            Backend::Seatbelt(_) => Err(std::io::ErrorKind::Unsupported.into()),
        },
    }
}

/// In the helper: confines this process as its stdin says, and becomes the command. Returns only what went wrong.
#[cfg(target_os = "linux")]
pub(super) fn exec_confined(stdin: &mut dyn Read) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    let mut line = Vec::new();
    let prepared = stdin.read_to_end(&mut line).and_then(|_| {
        let confined: Confined = serde_json::from_slice(&line)?;
        let null = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        confine::confine(&confined.policy)?;
        Ok(confined.argv)
    });
    match prepared {
        Ok(argv) if !argv.is_empty() => Command::new(&argv[0]).args(&argv[1..]).exec(),
        Ok(_) => std::io::ErrorKind::InvalidInput.into(),
        Err(e) => e,
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) fn exec_confined(_: &mut dyn Read) -> std::io::Error {
    std::io::ErrorKind::Unsupported.into()
}

/// The best backend that works here, found once by running `true` in each. `helper` is our own binary.
pub fn probe(helper: &Path) -> &'static Backend {
    static FOUND: OnceLock<Backend> = OnceLock::new();
    FOUND.get_or_init(|| candidates().into_iter().find(|b| works(b, helper)).unwrap_or(Backend::None))
}

/// Every backend of this system with whether it works, for `doctor`.
pub fn survey(helper: &Path) -> Vec<(Backend, bool)> {
    candidates().into_iter().map(|b| (b.clone(), works(&b, helper))).collect()
}

fn candidates() -> Vec<Backend> {
    let mut all = Vec::new();
    if cfg!(target_os = "linux") {
        all.extend(find("bwrap").map(Backend::Bubblewrap));
        all.push(Backend::Landlock);
    }
    if cfg!(target_os = "macos") {
        all.push(Backend::Seatbelt("/usr/bin/sandbox-exec".into()));
    }
    all
}

/// Where a program lies: never in a folder that is not absolute, which a workspace could fill.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).filter(|p| p.is_absolute()).map(|p| p.join(name)).find(|p| p.is_file())
}

/// Runs `true` in it, without network and without a place to write.
fn works(backend: &Backend, helper: &Path) -> bool {
    let policy =
        Policy { backend: backend.clone(), writable: Vec::new(), protected: Vec::new(), network: false };
    let Ok(mut plan) = wrap(Some(&policy), vec!["/bin/sh".into(), "-c".into(), "true".into()]) else {
        return false;
    };
    if plan.stdin.is_some() {
        plan.program = helper.to_path_buf();
    }
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    if let (Some(mut stdin), Some(line)) = (child.stdin.take(), &plan.stdin) {
        let _ = std::io::Write::write_all(&mut stdin, line);
    }
    wait_at_most(&mut child, std::time::Duration::from_secs(3))
}

fn wait_at_most(child: &mut std::process::Child, limit: std::time::Duration) -> bool {
    let end = std::time::Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if std::time::Instant::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Folders that tools keep between runs: to build without them would mean to download everything again.
pub(super) fn tool_caches(home: &Path) -> Vec<PathBuf> {
    const CACHES: &[&str] = &[
        ".cache",
        ".cargo/registry",
        ".cargo/git",
        ".cargo/.package-cache",
        ".cargo/.package-cache-mutate",
        ".cargo/.global-cache",
        ".npm",
        ".yarn",
        ".pnpm-store",
        ".local/share/pnpm/store",
        ".bun/install/cache",
        ".gradle",
        ".m2",
        ".nuget",
        ".ivy2",
        ".sbt",
        ".rustup/tmp",
        ".rustup/downloads",
        "go/pkg",
        "Library/Caches",
    ];
    CACHES.iter().filter_map(|c| std::fs::canonicalize(home.join(c)).ok()).collect()
}

#[cfg(test)]
mod tests;
