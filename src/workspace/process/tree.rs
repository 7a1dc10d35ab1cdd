//! The processes below this one, read from `/proc`.
use rustix::{fd::OwnedFd, process::Pid, process::Signal};
use std::collections::HashMap;

/// A descendant, with what tells it from a later process of the same number.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: Pid,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    started: u64,
    /// Another one after each exec(2): where its stack begins.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    image: u64,
    /// Processor time, in clock ticks.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) ticks: u64,
    pub(super) name: String,
}

impl Process {
    pub(super) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

/// Who was told to end, so that nobody is told twice — but for who became another program since: between fork(2) and
/// exec(2) a shell's child still has the shell's answer to a signal, and forgets it with the exec.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<(i32, u64), u64>);

impl Told {
    /// SIGTERM for everything below this process that has not had it. `newcomers`: also for what was started since the
    /// first time, which may be what tidies up (`trap 'rm lock' TERM`).
    pub(super) fn end(&mut self, shell: Pid, newcomers: bool) {
        let first = self.0.is_empty();
        let mut all = descendants(shell);
        all.retain(|p| match self.0.get(&(p.number(), p.started)) {
            Some(image) => *image != p.image,
            None => first || newcomers,
        });
        signal(&all, Signal::TERM);
        // A stopped process gets to see it only when it is continued.
        signal(&all, Signal::CONT);
        self.0.extend(all.iter().map(|p| ((p.number(), p.started), p.image)));
    }
}

/// Everything below this process that has not ended, nearest first.
#[cfg(target_os = "linux")]
pub(super) fn descendants(_shell: Pid) -> Vec<Process> {
    struct Row {
        parent: i32,
        process: Process,
        ended: bool,
    }
    let mut rows = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let Some((stat, pid)) = read_stat(number).zip(Pid::from_raw(number)) else { continue };
        let process =
            Process { pid, started: stat.started, image: stat.image, ticks: stat.ticks, name: stat.name };
        rows.push(Row { parent: stat.parent, process, ended: stat.ended });
    }
    let mut found: Vec<Process> = Vec::new();
    let mut level = vec![rustix::process::getpid().as_raw_nonzero().get()];
    // Breadth first; a zombie has no children, since they are reparented when it ends.
    while !level.is_empty() {
        let mut next = Vec::new();
        for row in rows.iter().filter(|r| level.contains(&r.parent) && !r.ended) {
            next.push(row.process.pid.as_raw_nonzero().get());
            found.push(row.process.clone());
        }
        level = next;
    }
    found
}

/// Elsewhere there is no subreaper and no `/proc`: the shell's process group is all that can be ended.
#[cfg(not(target_os = "linux"))]
pub(super) fn descendants(shell: Pid) -> Vec<Process> {
    let alive = rustix::process::test_kill_process_group(shell).is_ok();
    alive
        .then(|| Process { pid: shell, started: 0, image: 0, ticks: 0, name: "process group".into() })
        .into_iter()
        .collect()
}

#[cfg(target_os = "linux")]
struct Stat {
    name: String,
    parent: i32,
    started: u64,
    image: u64,
    ticks: u64,
    ended: bool,
}

#[cfg(target_os = "linux")]
/// `/proc/N/stat`, proc(5): the name stands in parentheses and may hold any of them itself.
fn read_stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ended = matches!(*fields.first()?, "Z" | "X" | "x");
    // Counted from the third.
    let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
    Some(Stat {
        name,
        parent: fields.get(1)?.parse().ok()?,
        started: number(19)?,
        image: number(25).unwrap_or(0),
        ticks: number(11).unwrap_or(0) + number(12).unwrap_or(0),
        ended,
    })
}

/// Sends a signal to each, if it is still the same process: its number is looked up again while a pidfd holds it.
#[cfg(target_os = "linux")]
pub(super) fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        let fd = pidfd(process.pid);
        let number = process.pid.as_raw_nonzero().get();
        if read_stat(number).is_none_or(|s| s.started != process.started) {
            continue;
        }
        // It may have ended in this moment, or be another user's (sudo): nothing to do about either here.
        let _ = match fd {
            Some(fd) => rustix::process::pidfd_send_signal(fd, signal),
            None => rustix::process::kill_process(process.pid, signal),
        };
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        let _ = rustix::process::kill_process_group(process.pid, signal);
    }
}

/// A descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
pub(super) fn pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}
#[cfg(not(target_os = "linux"))]
pub(super) fn pidfd(_: Pid) -> Option<OwnedFd> {
    None
}

/// Their names with their numbers, for the model: at most ten.
pub(super) fn names(processes: &[Process]) -> Vec<String> {
    processes.iter().take(10).map(|p| format!("{} ({})", p.name, p.pid.as_raw_nonzero())).collect()
}

/// The name of a signal by its number, as signal(7) has it.
pub(super) fn signal_name(number: i32) -> String {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::SYS, "SIGSYS"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
    ];
    match known.iter().find(|(signal, _)| signal.as_raw() == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("signal {number}"),
    }
}
