//! Stdin and stdout on Windows: one OS thread reads and one writes, over handles of their own.
//!
//! The standard handles themselves cannot be replaced without `unsafe`. What keeps I1 here: the handles are duplicated as
//! not inheritable, every child is given streams of its own, and the lint `print_stdout` refuses prints in this project.
//! A blocking read of a pipe cannot be given up either, so the reader may outlive [`serve`](crate::serve), until the process
//! ends; it sends nothing then.

use crate::{
    lines::{Line, Lines},
    outbox::Outbox,
    peer::Peer,
    trace::{Direction, Trace},
    transport::{READ, READS, Reader, Transport, Writer, record},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::windows::io::{AsHandle, OwnedHandle},
    sync::Arc,
    thread,
};
use tokio::sync::{mpsc, oneshot};

/// The streams to the client, owned.
#[derive(Debug)]
pub struct Stdio {
    input: OwnedHandle,
    output: OwnedHandle,
}

impl Stdio {
    /// Takes stdin and stdout. Call it before anything that may print or spawn.
    ///
    /// # Errors
    /// Where one of the streams is closed, or the process is out of handles.
    pub fn take() -> io::Result<Stdio> {
        let input = io::stdin().as_handle().try_clone_to_owned()?;
        let output = io::stdout().as_handle().try_clone_to_owned()?;
        Ok(Stdio { input, output })
    }

    /// Any other pair of handles.
    pub fn from_handles(input: OwnedHandle, output: OwnedHandle) -> Stdio {
        Stdio { input, output }
    }
}

impl Transport {
    /// Starts the two threads. `trace` records what passes.
    ///
    /// # Errors
    /// Where the process is out of threads.
    pub fn stdio(stdio: Stdio, trace: Option<Trace>) -> io::Result<Transport> {
        let (input, output) = (File::from(stdio.input), File::from(stdio.output));
        let (tx, lines) = mpsc::channel(READS);
        let (done, written) = oneshot::channel();
        let outbox = Arc::new(Outbox::new());
        let (out, out_trace) = (outbox.clone(), trace.clone());
        thread::Builder::new().name("acp-reader".into()).spawn(move || run_reader(input, &tx, &trace))?;
        thread::Builder::new().name("acp-writer".into()).spawn(move || {
            run_writer(output, &out, out_trace);
            _ = done.send(());
        })?;
        let peer = Peer::new(outbox.clone());
        Ok(Transport {
            lines,
            writer: Writer(outbox.clone()),
            outbox,
            peer,
            written,
            reader: Reader::Blocked,
        })
    }
}

/// Ends at the end of input, or with the first line that nobody takes any more.
fn run_reader(mut input: File, tx: &mpsc::Sender<Vec<Line>>, trace: &Option<Trace>) {
    let (mut cutter, mut buffer) = (Lines::default(), vec![0; READ]);
    loop {
        let mut lines = Vec::new();
        let ended = match input.read(&mut buffer) {
            Ok(0) => true,
            Ok(n) => {
                cutter.feed(&buffer[..n], &mut lines);
                false
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // How a pipe ends here.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
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
fn run_writer(mut output: File, outbox: &Outbox, trace: Option<Trace>) {
    while let Some(batch) = outbox.take() {
        if let Some(trace) = &trace {
            trace.record(Direction::Out, &batch.bytes);
        }
        if let Err(error) = output.write_all(&batch.bytes) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                tracing::debug!("the editor has closed its end");
            } else {
                tracing::warn!(%error, "writing to the editor failed");
            }
            return outbox.abandon();
        }
        outbox.written(&batch);
    }
}
