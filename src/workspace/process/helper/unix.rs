//! The helper on Unix: it ends the command and all that it started.
//!
//! It is a *subreaper* (prctl(2)): whatever the command starts, daemons that left its session included, becomes its child
//! when its parent ends, so it can end all of them. It does so when the command is over, when it is told to, and when its
//! pipe from the agent closes. It leads a session of its own without a terminal, so a signal to the agent's group does not
//! reach it.
use super::{
    super::{tree, waiting::Patience},
    CANCEL, Report, Spec,
};
use crate::{log::Exit, workspace::sandbox};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, AsRawFd, OwnedFd},
    io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    process::{Pid, Signal, WaitOptions},
};
use std::{
    ffi::OsString,
    io::{Read, Seek, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// From the first signal to the last, when the command is cancelled or out of time.
const CANCEL_GRACE: Duration = Duration::from_millis(300);
/// The same, when the agent goes.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// What the shell left behind may end by itself: the last process of a pipeline often outlives it by a moment.
const SETTLE: Duration = Duration::from_millis(200);
/// After SIGKILL; what is still there then hangs in the kernel.
const GIVE_UP: Duration = Duration::from_secs(3);
/// Above what scripts use by number.
const STATE_FD: i32 = 200;
/// Of the shell's last folder and environment.
const STATE_LIMIT: u64 = 512 * 1024;

pub(super) fn run() -> std::io::Result<Report> {
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _signals = outlive_signals();
    let mut control = Control::new()?;
    let Some(spec) = control.spec()? else { return Ok(Report::default()) };
    let state = state_file();
    let child = start(&spec, state.as_ref())?;
    let shell = Pid::from_child(&child);
    let mut report = Report::default();
    let mut grace = None;
    let pidfd = tree::pidfd(shell);
    let mut patience = spec.patience.map(Duration::from_millis).map(Patience::new);
    loop {
        if let Some(exit) = reap(shell) {
            report.exit = exit;
            break;
        }
        // A pidfd tells at once; the time-out only collects what daemons of the command left.
        let wait = if pidfd.is_some() { Duration::from_millis(500) } else { Duration::from_millis(10) };
        let wait = patience.as_ref().map_or(wait, |p| wait.min(p.pause()));
        if let Some(asked) = control.wait(pidfd.as_ref(), wait)? {
            grace = Some(asked);
            break;
        }
        report.waiting = patience.as_mut().and_then(|p| p.ends(shell));
        if report.waiting.is_some() {
            grace = Some(CANCEL_GRACE);
            break;
        }
    }
    if grace.is_none() && !wait_alone(SETTLE, shell, &mut report, &mut || {}) {
        report.leftovers = tree::names(&tree::descendants(shell));
    }
    end_all(grace.unwrap_or(CANCEL_GRACE), shell, &mut report);
    if grace.is_none() {
        report.state = state.and_then(read_state).unwrap_or_default();
    }
    Ok(report)
}

/// SIGTERM and its like must not end the helper before it has ended the command; the agent's end is what counts.
fn outlive_signals() -> Option<impl Sized> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let streams = {
        let _in = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()]
            .map(signal)
    };
    Some((streams, runtime))
}

/// The agent's end of the pipe on stdin.
struct Control {
    input: std::io::Stdin,
}

impl Control {
    fn new() -> std::io::Result<Self> {
        Ok(Control { input: std::io::stdin() })
    }

    /// The first line. `None`: the agent went before it said what to run.
    fn spec(&mut self) -> std::io::Result<Option<Spec>> {
        // Byte by byte through the descriptor: what follows the line is not part of it, and must not sit in a buffer that
        // `poll` does not see.
        let mut line = Vec::new();
        let mut chunk = [0u8; 1];
        loop {
            match rustix::io::read(&self.input, &mut chunk) {
                Ok(0) => return Ok(None),
                Ok(_) if chunk[0] == b'\n' => break,
                Ok(_) => line.push(chunk[0]),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }

    /// Waits for a word of the agent, the shell's end, or `at_most`. Returns the grace of an end that is asked for.
    fn wait(&mut self, pidfd: Option<&OwnedFd>, at_most: Duration) -> std::io::Result<Option<Duration>> {
        let limit = Timespec::try_from(at_most).map_err(|_| Errno::INVAL)?;
        let mut fds = vec![PollFd::new(&self.input, PollFlags::IN)];
        if let Some(pidfd) = pidfd {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        match poll(&mut fds, Some(&limit)) {
            Err(Errno::INTR) => return Ok(None),
            other => other?,
        };
        if fds[0].revents().is_empty() {
            return Ok(None);
        }
        let mut byte = [0u8; 1];
        match rustix::io::read(&self.input, &mut byte) {
            Ok(1) if byte[0] == CANCEL => Ok(Some(CANCEL_GRACE)),
            Ok(0) => Ok(Some(SHUTDOWN_GRACE)),
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(_) => Ok(Some(SHUTDOWN_GRACE)),
        }
    }
}

/// Collects what has ended; the shell's end, if it is among it.
fn reap(shell: Pid) -> Option<Exit> {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == shell {
            return Some(exit_of(status));
        }
    }
    None
}

fn exit_of(status: rustix::process::WaitStatus) -> Exit {
    Exit { code: status.exit_status(), signal: status.terminating_signal().map(tree::signal_name) }
}

/// Collects everything that has ended; whether nothing of the command is left. As all is reparented to us, no child means
/// no descendant.
fn alone(shell: Pid, report: &mut Report) -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == shell => report.exit = exit_of(status),
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Waits until nothing is left, at most `limit`; does `each` before each pause. A machine that is so busy that it hardly
/// comes to look waits for a few looks more.
fn wait_alone(limit: Duration, shell: Pid, report: &mut Report, each: &mut dyn FnMut()) -> bool {
    const LOOKS: u32 = 16;
    let (end, mut looks) = (Instant::now() + limit, 0);
    let mut pause = Duration::from_micros(500);
    loop {
        each();
        if alone(shell, report) {
            return true;
        }
        looks += 1;
        if Instant::now() >= end && looks >= LOOKS {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Ends every descendant: SIGTERM, `grace`, then SIGKILL until none is left.
fn end_all(grace: Duration, shell: Pid, report: &mut Report) {
    if alone(shell, report) {
        return;
    }
    let (mut told, began) = (tree::Told::default(), Instant::now());
    if wait_alone(grace, shell, report, &mut || told.end(shell, began.elapsed() > grace / 2)) {
        return;
    }
    let mut kill = || tree::signal(&tree::descendants(shell), Signal::KILL);
    if !wait_alone(GIVE_UP, shell, report, &mut kill) {
        report.survivors = tree::names(&tree::descendants(shell));
    }
}

/// A file that the shell can write its last state to, inherited by number.
fn state_file() -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    let file = rustix::fs::memfd_create("hermes-state", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    #[cfg(not(target_os = "linux"))]
    let file = OwnedFd::from(tempfile::tempfile().ok()?);
    let high = fcntl_dupfd_cloexec(&file, STATE_FD).ok()?;
    fcntl_setfd(&high, FdFlags::empty()).ok()?;
    Some(high)
}

fn read_state(fd: OwnedFd) -> Option<String> {
    let mut file = std::fs::File::from(fd);
    file.rewind().ok()?;
    let mut bytes = Vec::new();
    file.take(STATE_LIMIT + 1).read_to_end(&mut bytes).ok()?;
    // Half an environment is none.
    if bytes.len() as u64 > STATE_LIMIT {
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn start(spec: &Spec, state: Option<&OwnedFd>) -> std::io::Result<std::process::Child> {
    let output = std::io::stdout();
    let errors = output.as_fd().try_clone_to_owned()?;
    let mut argv: Vec<OsString> = vec![spec.shell.clone().into()];
    argv.extend(spec.arguments.iter().map(OsString::from));
    argv.push(spec.text.clone().into());
    argv.push(match state {
        Some(fd) => format!("/dev/fd/{}", fd.as_raw_fd()).into(),
        None => "/dev/null".into(),
    });
    argv.push(spec.last_words.clone().into());
    let plan = sandbox::wrap(spec.sandbox.as_ref(), argv)?;
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).stdout(Stdio::inherit()).stderr(errors).process_group(0);
    match plan.stdin {
        None => {
            command.stdin(Stdio::null());
            command.spawn()
        }
        Some(line) => {
            let mut child = command.stdin(Stdio::piped()).spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // It ends early only when it fails, and then says why on the command's output.
                let _ = stdin.write_all(&line);
            }
            Ok(child)
        }
    }
}
