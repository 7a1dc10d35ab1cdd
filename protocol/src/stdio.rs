//! The real stdin and stdout, taken away from everything else in the process (I1).
//!
//! One OS thread reads and one writes. tokio's stdin parks a thread in `read` that cannot be stopped, and takes EAGAIN
//! of a non-blocking pipe for an error; editors do hand over non-blocking pipes.

use crate::{
    lines::{Line, Lines},
    outbox::Outbox,
    peer::Peer,
    trace::{Direction, Trace},
    transport::{READ, READS, Reader, Transport, Writer, record},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, fcntl_dupfd_cloexec, read, write},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
};
use tokio::sync::{mpsc, oneshot};

/// The streams to the client, owned.
#[derive(Debug)]
pub struct Stdio {
    input: OwnedFd,
    output: OwnedFd,
}

impl Stdio {
    /// Takes stdin and stdout: from now on fd 0 is empty and fd 1 is stderr, so that neither a stray print nor a child
    /// process can write into the protocol or read from it. Call it before anything that may print or spawn.
    ///
    /// # Errors
    /// Where one of the three streams is closed, or the process is out of descriptors.
    pub fn take() -> io::Result<Stdio> {
        let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Stdio { input, output })
    }

    /// Any other pair of descriptors.
    pub fn from_fds(input: OwnedFd, output: OwnedFd) -> Stdio {
        Stdio { input, output }
    }
}

impl Transport {
    /// Starts the two threads. `trace` records what passes.
    ///
    /// # Errors
    /// Where the process is out of descriptors or threads.
    pub fn stdio(stdio: Stdio, trace: Option<Trace>) -> io::Result<Transport> {
        let Stdio { input, output } = stdio;
        let (tx, lines) = mpsc::channel(READS);
        let (done, written) = oneshot::channel();
        let (wake_end, wake) = io::pipe()?;
        let outbox = Arc::new(Outbox::new());
        let (out, out_trace) = (outbox.clone(), trace.clone());
        thread::Builder::new()
            .name("acp-reader".into())
            .spawn(move || run_reader(&input, &wake_end.into(), &tx, &trace))?;
        thread::Builder::new().name("acp-writer".into()).spawn(move || {
            run_writer(&output, &out, out_trace);
            _ = done.send(());
        })?;
        let peer = Peer::new(outbox.clone());
        let reader = Reader::Thread { _wake: wake.into() };
        Ok(Transport { lines, writer: Writer(outbox.clone()), outbox, peer, written, reader })
    }
}

/// Ends at the end of input, when nobody takes lines any more, or when the other end of `wake` is closed.
fn run_reader(input: &OwnedFd, wake: &OwnedFd, tx: &mpsc::Sender<Vec<Line>>, trace: &Option<Trace>) {
    let (mut cutter, mut buffer) = (Lines::default(), vec![0; READ]);
    loop {
        // Polled before each read: the read then cannot block, so the thread can always be woken.
        let mut fds = [PollFd::new(input, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => tracing::warn!(%error, "waiting for the editor failed"),
        }
        let mut lines = Vec::new();
        let ended = match read(input, &mut buffer[..]) {
            Ok(0) => true,
            Ok(n) => {
                cutter.feed(&buffer[..n], &mut lines);
                false
            }
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(error) => {
                tracing::warn!(%error, "reading from the editor failed");
                true
            }
        };
        if ended {
            cutter.finish(&mut lines);
        }
        record(trace, &lines);
        if !lines.is_empty() && tx.blocking_send(lines).is_err() || ended {
            return;
        }
    }
}

/// Ends when the outbox is closed and empty, or the client takes no more.
fn run_writer(output: &OwnedFd, outbox: &Outbox, trace: Option<Trace>) {
    while let Some(batch) = outbox.take() {
        if let Some(trace) = &trace {
            trace.record(Direction::Out, &batch.bytes);
        }
        if let Err(error) = write_all(output, &batch.bytes) {
            if error == Errno::PIPE {
                tracing::debug!("the editor has closed its end");
            } else {
                tracing::warn!(%error, "writing to the editor failed");
            }
            return outbox.abandon();
        }
        outbox.written(&batch);
    }
}

/// Writes all, however little the pipe takes at once.
fn write_all(output: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(&output, bytes) {
            // Not for a pipe or socket; looping on it would not end.
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&output, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
