//! Whether a command waits for somebody to type: nobody will. It has no terminal from us, but may make one (`script`,
//! `ssh -tt`, pty modules) or find one of the machine's.
use super::tree::{self, Process};
use rustix::process::Pid;
use std::time::{Duration, Instant};

/// Looks at a command from time to time.
pub(super) struct Patience {
    limit: Duration,
    next: Instant,
    /// Since when nothing has moved, and what the processes and their processor time were then.
    still: Option<(Instant, Vec<(i32, u64)>)>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Patience { limit, next: Instant::now() + limit / 4, still: None }
    }

    /// How long may pass before the next look.
    pub(super) fn pause(&self) -> Duration {
        (self.limit / 8).max(Duration::from_millis(10))
    }

    /// Who waits, and where; once nothing of the command has moved for the whole of the limit, and one of its processes
    /// reads a terminal. What works elsewhere meanwhile, or has been typed to by another, is no such case.
    pub(super) fn ends(&mut self, shell: Pid) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + self.limit / 8;
        let all = tree::descendants(shell);
        let Some(reader) = all.iter().find_map(|p| terminal_of(p).map(|at| format!("{} reads {at}", p.name)))
        else {
            self.still = None;
            return None;
        };
        let state: Vec<_> = all.iter().map(|p| (p.number(), p.ticks)).collect();
        match &self.still {
            Some((since, before)) if *before == state => (now - *since >= self.limit).then_some(reader),
            _ => {
                self.still = Some((now, state));
                None
            }
        }
    }
}

/// The terminal that a process is reading, or waiting to read.
#[cfg(target_os = "linux")]
fn terminal_of(process: &Process) -> Option<String> {
    let pid = process.number();
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let call = Call::parse(&call)?;
    call.descriptors(pid).into_iter().find_map(|fd| {
        let file = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        is_terminal(&file).then(|| file.display().to_string())
    })
}
#[cfg(not(target_os = "linux"))]
fn terminal_of(_: &Process) -> Option<String> {
    None
}

/// A pseudo-terminal or one of the machine's, not the side that a program drives.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn is_terminal(file: &std::path::Path) -> bool {
    let name = file.to_string_lossy();
    name.strip_prefix("/dev/pts/").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        || name.starts_with("/dev/tty")
        || name == "/dev/console"
}

/// A system call that a process is in, as `/proc/N/syscall` has it (proc(5)).
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Read(u64),
    /// `pollfd`s: where they lie, and how many.
    Poll(u64, u64),
    /// A set of bits: where it lies, and how many.
    Select(u64, u64),
}

#[cfg(target_os = "linux")]
impl Call {
    fn parse(line: &str) -> Option<Call> {
        let mut parts = line.split_ascii_whitespace();
        let number: i64 = parts.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
        let (a, b) = (argument()?, argument()?);
        #[cfg(target_arch = "x86_64")]
        const NUMBERS: [&[i64]; 3] = [&[0, 19], &[7, 271], &[23, 270]];
        // The generic table (aarch64, riscv64).
        #[cfg(not(target_arch = "x86_64"))]
        const NUMBERS: [&[i64]; 3] = [&[63, 65], &[73], &[72]];
        match NUMBERS.iter().position(|n| n.contains(&number))? {
            0 => Some(Call::Read(a)),
            1 => Some(Call::Poll(a, b)),
            _ => Some(Call::Select(b, a)),
        }
    }

    fn descriptors(&self, pid: i32) -> Vec<u64> {
        const MOST: u64 = 64;
        match *self {
            Call::Read(fd) => vec![fd],
            Call::Poll(at, count) => {
                let bytes = memory(pid, at, count.min(MOST) * 8);
                let to_read = |b: &&[u8]| b.len() == 8 && b[4] & 1 != 0;
                let fd = |b: &[u8]| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
                bytes.chunks(8).filter(to_read).filter_map(|b| fd(b).try_into().ok()).collect()
            }
            Call::Select(at, count) => {
                let count = count.min(MOST);
                let bytes = memory(pid, at, count.div_ceil(8));
                let set = |fd: &u64| bytes.get((fd / 8) as usize).is_some_and(|b| b >> (fd % 8) & 1 == 1);
                (0..count).filter(set).collect()
            }
        }
    }
}

/// What lies there in a process that we may look into; nothing elsewhere.
#[cfg(target_os = "linux")]
fn memory(pid: i32, at: u64, size: u64) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; size as usize];
    let read = std::fs::File::open(format!("/proc/{pid}/mem")).and_then(|f| f.read_exact_at(&mut bytes, at));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn calls_and_terminals_are_known_by_their_names() {
        let read = if cfg!(target_arch = "x86_64") { "0" } else { "63" };
        assert_eq!(
            Call::parse(&format!("{read} 0x3 0x7ff0 0x1 0x0 0x0 0x0 0x7f 0x7e\n")),
            Some(Call::Read(3))
        );
        for line in ["running\n", "-1 0x7ff 0x7fe\n", "61 0x1 0x2 0x3 0x0 0x0 0x0 0x1 0x2\n", ""] {
            assert_eq!(Call::parse(line), None, "{line}");
        }
        for (name, expected) in [
            ("/dev/pts/3", true),
            ("/dev/tty", true),
            ("/dev/tty1", true),
            ("/dev/pts/ptmx", false),
            ("/dev/ptmx", false),
            ("/dev/null", false),
            ("pipe:[1]", false),
        ] {
            assert_eq!(is_terminal(std::path::Path::new(name)), expected, "{name}");
        }
    }
}
