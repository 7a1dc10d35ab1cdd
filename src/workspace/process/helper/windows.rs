//! The helper on Windows: it runs bash, and ends it with what it started by `taskkill /T`.
//!
//! That follows parents, so what outlives the shell that started it is not found any more and stays: there is no subreaper,
//! and a job object needs `unsafe`. The command goes to bash in a file, since bash would expand patterns in an argument of
//! its own and Windows bounds an argument to 32 KiB. Exports are not carried on: bash has its own spelling of `PATH`.
use super::{CANCEL, Report, Spec};
use crate::log::Exit;
use std::{
    io::{self, BufRead, Read},
    os::windows::io::AsHandle,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// Between two looks whether the shell has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Of the shell's last folder.
const STATE_LIMIT: u64 = 64 * 1024;

pub(super) fn run() -> io::Result<Report> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Ok(Report::default());
    }
    let spec: Spec = serde_json::from_str(&line)?;
    if spec.sandbox.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let orders = orders()?;
    let folder = tempfile::Builder::new().prefix("hermes-command-").tempdir()?;
    let state = folder.path().join("state");
    let mut child = start(&spec, folder.path(), &state)?;
    let mut report = Report::default();
    loop {
        if let Some(status) = child.try_wait()? {
            report.exit = Exit { code: status.code(), signal: None };
            report.state = read_state(&state).unwrap_or_default();
            return Ok(report);
        }
        match orders.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if !end_tree(&child) {
        report.survivors = vec!["what the shell started (taskkill failed)".into()];
    }
    // It may have ended by itself in this moment.
    let _ = child.kill();
    report.exit = Exit { code: child.wait()?.code(), signal: None };
    Ok(report)
}

/// Tells when the command is to end: at [`CANCEL`], and when the agent's end of the pipe is closed.
fn orders() -> io::Result<mpsc::Receiver<()>> {
    let (tell, orders) = mpsc::channel();
    thread::Builder::new().name("orders".into()).spawn(move || {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(1) if byte[0] != CANCEL) {}
        _ = tell.send(());
    })?;
    Ok(orders)
}

fn start(spec: &Spec, folder: &Path, state: &Path) -> io::Result<Child> {
    let (script, state) = (folder.join("command.sh"), slashes(state));
    // In the trap's own quotes.
    if state.contains(['\'', '"', '$', '`']) {
        return Err(io::Error::other(
            "the temporary folder's name has a quote in it: set TMP to another folder",
        ));
    }
    std::fs::write(
        &script,
        format!("trap '{{ command pwd -W; }} 2>/dev/null >\"{state}\"' EXIT\n{}\n", spec.text),
    )?;
    let errors = io::stdout().as_handle().try_clone_to_owned()?;
    let mut command = Command::new(&spec.shell);
    command.args(["--noprofile", "--norc"]).arg(slashes(&script));
    command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(errors).spawn()
}

/// As bash for Windows takes a path.
fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Ends the shell and everything below it; whether that worked.
fn end_tree(child: &Child) -> bool {
    let system = std::env::var_os("SystemRoot").map_or_else(|| PathBuf::from("C:\\Windows"), PathBuf::from);
    let mut taskkill = Command::new(system.join("System32").join("taskkill.exe"));
    taskkill.args(["/T", "/F", "/PID", &child.id().to_string()]);
    taskkill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    taskkill.status().is_ok_and(|status| status.success())
}

fn read_state(file: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(STATE_LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}
