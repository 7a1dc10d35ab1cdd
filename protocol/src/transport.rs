//! The two ends of a connection: lines in, frames out, each moved by its own thread or task.

use crate::{
    lines::Line,
    lines::Lines,
    outbox::Outbox,
    peer::Peer,
    trace::{Direction, Trace},
};
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

/// Reads that may wait for `serve`, each the lines of one read: it never waits itself, so two are enough.
pub(crate) const READS: usize = 2;
/// Bytes read at once.
pub(crate) const READ: usize = 64 * 1024;

/// A connection that is being read and written, for [`serve`](crate::serve).
#[derive(Debug)]
pub struct Transport {
    pub(crate) lines: mpsc::Receiver<Vec<Line>>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) peer: Peer,
    /// Resolves once the writer has ended.
    pub(crate) written: oneshot::Receiver<()>,
    /// Dropped (with whatever it holds), the reader stops.
    pub(crate) reader: Reader,
    /// Dropped, the writer stops after what is queued.
    pub(crate) writer: Writer,
}

/// Closes the outbox when dropped, so that the writer ends even where `serve` was dropped half way.
#[derive(Debug)]
pub(crate) struct Writer(pub(crate) Arc<Outbox>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What keeps the reader going.
#[derive(Debug)]
pub(crate) enum Reader {
    #[cfg(unix)]
    Thread {
        _wake: std::os::fd::OwnedFd,
    },
    /// A thread that cannot be woken from a blocking read; it ends with the input or the process.
    #[cfg(windows)]
    Blocked,
    Task {
        _stop: tokio_util::sync::DropGuard,
    },
}

impl Transport {
    /// Runs over any pair of asynchronous streams, with a task for each. For tests and for clients in the same process;
    /// the real one is [`Transport::stdio`].
    pub fn over(
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
        trace: Option<Trace>,
    ) -> Transport {
        let (tx, lines) = mpsc::channel(READS);
        let (done, written) = oneshot::channel();
        let outbox = Arc::new(Outbox::new());
        let stop = CancellationToken::new();
        tokio::spawn(read(input, tx, stop.clone(), trace.clone()));
        let out = outbox.clone();
        tokio::spawn(async move {
            if write(output, &out, trace).await.is_err() {
                out.abandon();
            }
            _ = done.send(());
        });
        let peer = Peer::new(outbox.clone());
        Transport {
            lines,
            writer: Writer(outbox.clone()),
            outbox,
            peer,
            written,
            reader: Reader::Task { _stop: stop.drop_guard() },
        }
    }

    /// The client at the other end.
    pub fn peer(&self) -> Peer {
        self.peer.clone()
    }
}

async fn read(
    mut input: impl AsyncRead + Unpin,
    tx: mpsc::Sender<Vec<Line>>,
    stop: CancellationToken,
    trace: Option<Trace>,
) {
    let (mut cutter, mut buffer) = (Lines::default(), vec![0; READ]);
    loop {
        let read = tokio::select! { biased;
            () = stop.cancelled() => return,
            read = input.read(&mut buffer) => read,
        };
        let mut lines = Vec::new();
        let ended = match read {
            Ok(0) => true,
            Ok(n) => {
                cutter.feed(&buffer[..n], &mut lines);
                false
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => false,
            Err(error) => {
                tracing::warn!(%error, "reading from the editor failed");
                true
            }
        };
        if ended {
            cutter.finish(&mut lines);
        }
        record(&trace, &lines);
        if !lines.is_empty() && tx.send(lines).await.is_err() || ended {
            return;
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    outbox: &Outbox,
    trace: Option<Trace>,
) -> std::io::Result<()> {
    while let Some(batch) = outbox.take_async().await {
        if let Some(trace) = &trace {
            trace.record(Direction::Out, &batch.bytes);
        }
        output.write_all(&batch.bytes).await?;
        output.flush().await?;
        outbox.written(&batch);
    }
    Ok(())
}

/// Writes the lines of one read into the trace.
pub(crate) fn record(trace: &Option<Trace>, lines: &[Line]) {
    let Some(trace) = trace else { return };
    for line in lines {
        match line {
            Line::Whole(bytes) => trace.record(Direction::In, bytes),
            Line::TooLong(line) => trace.note(&format!("a line of {} bytes was not read", line.bytes)),
        }
    }
}
