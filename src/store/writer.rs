//! The connection that writes: its queue, its thread, and its transactions.
//!
//! What is brief is done on the thread of the caller where the queue is empty: two changes of thread take longer than the
//! work itself.
use super::{
    StoreError,
    file::{FileId, Mover},
    migrate,
    thread::{Files, start},
};
use rusqlite::Connection;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// Told whether the transaction was committed; answers the caller.
pub(super) type After = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Whether the work itself was done, and whom to tell.
pub(super) type Write =
    Box<dyn FnOnce(Result<&Connection, StoreError>) -> (Result<(), StoreError>, After) + Send>;
pub(super) enum Op {
    Write(Write),
    /// Looks whether the log is long.
    Look,
    /// Opens the database, so that it exists and is up to date.
    Open(Sender<Result<(), StoreError>>),
    /// Answers when all that was queued before is done.
    Flush(oneshot::Sender<Result<(), StoreError>>),
    /// As a flush, and closes the database once the reader has: the second is cut off when that thread ends.
    Close(oneshot::Sender<Result<(), StoreError>>, Option<Receiver<()>>),
}

/// At most this many calls share a transaction.
const BATCH: usize = 64;
/// How long the end of the process waits for a read that is under way.
const LAST_READ: Duration = Duration::from_millis(20);

/// The queue to the writer. Its thread ends when the last one is gone.
#[derive(Clone)]
pub(super) struct Queue {
    ops: Sender<Op>,
    shared: Arc<Shared>,
}

struct Shared {
    writer: Mutex<Writer>,
    /// Calls that are in the queue or being done.
    queued: AtomicUsize,
}

impl Queue {
    pub fn start(files: Arc<Files>) -> Self {
        let (queue, ops) = channel();
        let writer = Mutex::new(Writer { files, conn: None, mover: Mover::default() });
        let shared = Arc::new(Shared { writer, queued: AtomicUsize::new(0) });
        let own = shared.clone();
        start("store-write", move || own.run(&ops));
        Queue { ops: queue, shared }
    }

    pub fn send(&self, op: Op) {
        self.shared.queued.fetch_add(1, Ordering::AcqRel);
        // A thread that did not start answers by dropping the call: `StoreError::Closed`.
        if self.ops.send(op).is_err() {
            self.shared.queued.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Does a write on this thread, unless something else comes first or another process is in the way: then it comes back.
    pub fn at_once(&self, write: Write) -> Result<(), Write> {
        let idle = || self.shared.queued.load(Ordering::Acquire) == 0;
        if !idle() {
            return Err(write);
        }
        let Ok(writer) = self.shared.writer.try_lock() else { return Err(write) };
        // Looked at again with the lock: what this caller queued before is done before.
        if !idle() || !writer.begin_at_once() {
            return Err(write);
        }
        writer.run_begun(vec![write]);
        let long = writer.mover.is_due(&writer.files);
        drop(writer);
        if long {
            self.send(Op::Look);
        }
        Ok(())
    }
}

impl Shared {
    fn run(&self, ops: &Receiver<Op>) {
        while let Ok(first) = ops.recv() {
            let done = self.writer.lock().unwrap_or_else(|p| p.into_inner()).batch(first, ops);
            self.queued.fetch_sub(done, Ordering::AcqRel);
        }
    }
}

struct Writer {
    files: Arc<Files>,
    conn: Option<(Connection, FileId)>,
    mover: Mover,
}

impl Writer {
    /// Does what is in the queue, its writes in one transaction; how many calls that were.
    fn batch(&mut self, first: Op, ops: &Receiver<Op>) -> usize {
        let (mut writes, mut done) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(op) = next.take() {
            done += 1;
            match op {
                Op::Write(write) => writes.push(write),
                Op::Look => {}
                Op::Open(tell) => drop(tell.send(self.open().map(drop))),
                Op::Flush(tell) => {
                    self.commit(std::mem::take(&mut writes));
                    // The caller may be gone.
                    let _ = tell.send(Ok(()));
                }
                Op::Close(tell, reader) => {
                    self.commit(std::mem::take(&mut writes));
                    // The log is moved by who closes last and may write: not by the reader.
                    let _ = reader.map(|ended| ended.recv_timeout(LAST_READ));
                    self.conn = None;
                    let _ = tell.send(Ok(()));
                }
            }
            if writes.len() < BATCH {
                next = ops.try_recv().ok();
            }
        }
        self.commit(writes);
        if let Some((conn, _)) = &self.conn {
            self.mover.look(&self.files, conn);
        }
        done
    }

    /// Begins a transaction if that takes no time: on a connection that is open, with no other process in the way.
    fn begin_at_once(&self) -> bool {
        let file = &self.files.database;
        let Some((conn, id)) = &self.conn else { return false };
        if *id != FileId::of(file) || conn.busy_timeout(Duration::ZERO).is_err() {
            return false;
        }
        let begun = exec(conn, file, "BEGIN IMMEDIATE").is_ok();
        conn.busy_timeout(migrate::BUSY).is_ok() && begun
    }

    /// The connection; an opening that failed is tried again at the next call, since its cause may be gone.
    fn open(&mut self) -> Result<&Connection, StoreError> {
        self.conn.take_if(|(_, id)| id.has_gone(&self.files.database));
        match self.conn {
            Some((ref conn, _)) => Ok(conn),
            None => {
                let conn = migrate::open_writer(&self.files.database, &self.files.locks)?;
                let id = FileId::of(&self.files.database);
                Ok(&self.conn.insert((conn, id)).0)
            }
        }
    }

    /// Runs the calls in one transaction; each that fails is undone alone.
    fn commit(&mut self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let file = self.files.database.clone();
        let begun = self.open().and_then(|conn| exec(conn, &file, "BEGIN IMMEDIATE"));
        match begun {
            Ok(()) => self.run_begun(writes),
            Err(error) => {
                for write in writes {
                    let (_, after) = write(Err(error.clone()));
                    after(Err(error.clone()));
                }
            }
        }
    }

    /// The calls, in the transaction that is open.
    fn run_begun(&self, writes: Vec<Write>) {
        let file = &self.files.database;
        let Some((conn, _)) = &self.conn else { return };
        let mut waiting: Vec<After> = Vec::with_capacity(writes.len());
        // One alone is undone with its transaction.
        let apart = writes.len() > 1;
        for write in writes {
            run_one(conn, file, write, apart, &mut waiting);
        }
        if waiting.is_empty() {
            if !conn.is_autocommit() {
                let _ = exec(conn, file, "ROLLBACK");
            }
            return;
        }
        let committed = exec(conn, file, "COMMIT");
        if committed.is_err() && !conn.is_autocommit() {
            let _ = exec(conn, file, "ROLLBACK");
        }
        for after in waiting {
            after(committed.clone());
        }
    }
}

/// Runs one call inside the open transaction; `apart`: under a savepoint of its own.
fn run_one(conn: &Connection, file: &Path, write: Write, apart: bool, waiting: &mut Vec<After>) {
    if conn.is_autocommit() {
        // An earlier call of the batch lost the transaction (full disk); those before it were told.
        if let Err(error) = exec(conn, file, "BEGIN IMMEDIATE") {
            write(Err(error.clone())).1(Err(error));
            return;
        }
    }
    if apart && let Err(error) = exec(conn, file, "SAVEPOINT one") {
        write(Err(error.clone())).1(Err(error));
        return;
    }
    // A panic answers by dropping the sender: `StoreError::Closed`.
    let done = catch_unwind(AssertUnwindSafe(|| write(Ok(conn))));
    let failed = !matches!(&done, Ok((Ok(()), _)));
    if conn.is_autocommit() {
        let lost = match &done {
            Ok((Err(error), _)) => error.clone(),
            _ => StoreError::Closed,
        };
        for after in waiting.drain(..) {
            after(Err(lost.clone()));
        }
    } else if !apart {
        // Committed or undone with the transaction.
    } else if failed {
        let _ = exec(conn, file, "ROLLBACK TO one; RELEASE one");
    } else if let Err(error) = exec(conn, file, "RELEASE one") {
        if let Ok((_, after)) = done {
            after(Err(error));
        }
        return;
    }
    match done {
        Ok((Ok(()), after)) if !conn.is_autocommit() => waiting.push(after),
        Ok((Ok(()), after)) => after(Err(StoreError::Closed)),
        Ok((Err(error), after)) => after(Err(error)),
        Err(_) => tracing::error!("a call of the store panicked; its transaction was undone"),
    }
}

fn exec(conn: &Connection, file: &Path, sql: &str) -> Result<(), StoreError> {
    let run = || {
        for one in sql.split(';') {
            conn.prepare_cached(one)?.execute([])?;
        }
        Ok(())
    };
    run().map_err(|e| StoreError::sqlite(file, e))
}
