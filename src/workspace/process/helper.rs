//! The process under which each command runs: our own binary, started again with [`HELPER`] as its first argument.
//!
//! Its stdin is a pipe from the agent: one line with the [`Spec`], then bytes ([`CANCEL`]). Its stdout is the command's
//! output. Its stderr is where the [`Report`] goes, one JSON line. When the pipe closes, which also happens when the agent
//! is killed, it ends the command. How is each system's own: `helper/unix.rs`, `helper/windows.rs`.
use crate::{log::Exit, workspace::sandbox};
use serde::{Deserialize, Serialize};
use std::{io::Write, path::PathBuf, process::ExitCode};

#[cfg_attr(unix, path = "helper/unix.rs")]
#[cfg_attr(windows, path = "helper/windows.rs")]
mod system;
use system::run;

/// The first argument that makes the binary a helper; the second is `run` or `exec`.
pub const HELPER: &str = "__helper";

/// The byte that ends the command early.
pub(super) const CANCEL: u8 = b'k';
/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::workspace) struct Spec {
    pub shell: PathBuf,
    /// Arguments before the command's text.
    pub arguments: Vec<String>,
    /// The command; the path of the file for the shell's last state follows it.
    pub text: String,
    /// Follows that path: what the shell does there beside naming its folder.
    pub last_words: String,
    pub sandbox: Option<sandbox::Policy>,
    /// How long it may wait for somebody to type, in milliseconds. `None`: as long as it likes.
    #[serde(default)]
    pub patience: Option<u64>,
}

/// How it ended.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::workspace) struct Report {
    pub exit: Exit,
    /// Why nothing was run at all.
    pub failed: Option<String>,
    /// Processes that outlived the shell and were ended.
    pub leftovers: Vec<String>,
    /// Processes that could not be ended.
    pub survivors: Vec<String>,
    /// Who waited for somebody to type, and where; it was ended for that.
    #[serde(default)]
    pub waiting: Option<String>,
    /// The folder the shell ended in, on a line; then perhaps a NUL and its environment, NUL-ended each.
    pub state: String,
}

/// The helper's `main`: the binary calls it when its first argument is [`HELPER`], before anything else.
pub fn helper_main() -> ExitCode {
    match std::env::args().nth(2).as_deref() {
        Some("run") => {
            let report =
                run().unwrap_or_else(|e| Report { failed: Some(e.to_string()), ..Report::default() });
            if let Ok(mut line) = serde_json::to_vec(&report) {
                line.push(b'\n');
                // The agent may be gone; there is nobody to tell then.
                let _ = std::io::stderr().write_all(&line);
            }
            ExitCode::SUCCESS
        }
        Some("exec") => {
            let error = sandbox::exec_confined(&mut std::io::stdin());
            let _ = writeln!(std::io::stderr(), "hermes-editor: the command could not be started: {error}");
            ExitCode::from(126)
        }
        _ => ExitCode::from(64),
    }
}
