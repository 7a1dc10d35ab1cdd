//! The two threads that own the connections: one writes, one reads. Neither is a runtime worker.
use super::{
    StoreError,
    file::{FileId, Mover},
    migrate, salvage,
};
use rusqlite::Connection;
use std::{
    fs::File,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::oneshot;

/// The answer to a call. The call is queued already: dropping this abandons the answer, not the work.
#[must_use = "the work is queued, but only awaiting tells whether it was done"]
#[derive(Debug)]
pub struct Reply<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Future for Reply<T> {
    type Output = Result<T, StoreError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|r| r.unwrap_or(Err(StoreError::Closed)))
    }
}

impl<T> Reply<T> {
    /// Lets the work go on without waiting for its answer.
    pub fn detach(self) {}
    /// Waits on a plain thread.
    ///
    /// # Panics
    /// On a runtime worker, which must not block.
    pub fn wait(self) -> Result<T, StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

/// Told whether the transaction was committed; answers the caller.
type After = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Whether the work itself was done, and whom to tell.
type Write = Box<dyn FnOnce(Result<&Connection, StoreError>) -> (Result<(), StoreError>, After) + Send>;
/// Answers the caller; `false`: it would fail for damage, and is asked again with what could be saved.
type Read = Box<dyn FnMut(Result<&Connection, StoreError>, Pass) -> bool + Send>;

/// Which connection a read is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// The database itself; damage is not the answer yet.
    First,
    /// What could be saved of it.
    Salvaged,
    /// There is nothing more to try.
    Last,
}

enum Op {
    Write(Write),
    /// Opens the database, so that it exists and is up to date.
    Open(Sender<Result<(), StoreError>>),
    /// Answers when all that was queued before is done.
    Flush(oneshot::Sender<Result<(), StoreError>>),
    /// As a flush, and closes the database once the reader has: the second is cut off when that thread ends.
    Close(oneshot::Sender<Result<(), StoreError>>, Option<Receiver<()>>),
}

/// Where the files are.
#[derive(Debug)]
pub(super) struct Files {
    pub database: PathBuf,
    pub locks: PathBuf,
    pub sessions: PathBuf,
}

impl Files {
    /// SQLite's write-ahead log.
    pub(super) fn log(&self) -> PathBuf {
        let mut name = self.database.clone().into_os_string();
        name.push("-wal");
        name.into()
    }
}

/// The queues of both threads. A thread starts with its first call and ends when the last handle is gone.
pub(super) struct Threads {
    pub files: Arc<Files>,
    writer: Mutex<Option<Sender<Op>>>,
    reader: Mutex<Option<Reading>>,
}

/// The reader's queue, and what is cut off when its thread has ended.
struct Reading {
    queue: Sender<Read>,
    ended: Receiver<()>,
}

/// At most this many calls share a transaction.
const BATCH: usize = 64;
/// How long the end of the process waits for a read that is under way.
const LAST_READ: Duration = Duration::from_millis(20);
/// Enough for SQLite and for JSON of 128 levels.
const STACK: usize = 1 << 20;

impl Threads {
    pub fn new(files: Files) -> Self {
        Self { files: Arc::new(files), writer: Mutex::new(None), reader: Mutex::new(None) }
    }

    /// Queues work for the writer. All of it happens or none: an error rolls back what the work did.
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Reply<T> {
        let (tx, rx) = oneshot::channel();
        let write: Write = Box::new(move |conn| {
            let done = conn.and_then(work);
            let outcome = done.as_ref().map(drop).map_err(Clone::clone);
            let after: After = Box::new(move |commit| {
                let answer = done.and_then(|value| commit.map(|()| value));
                if let Ok(value) = &answer {
                    committed(value);
                }
                // The caller may be gone.
                let _ = tx.send(answer);
            });
            (outcome, after)
        });
        self.to_writer(Op::Write(write));
        Reply(rx)
    }

    /// Queues work for the reader, which sees all that was committed before.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection, bool) -> Result<T, StoreError> + Send + 'static,
    ) -> Reply<T> {
        let (tx, rx) = oneshot::channel();
        let mut tx = Some(tx);
        let read: Read = Box::new(move |conn, pass| {
            let answer = conn.and_then(|conn| work(conn, pass == Pass::Salvaged));
            if pass == Pass::First && answer.as_ref().is_err_and(StoreError::is_damage) {
                return false;
            }
            // The caller may be gone.
            drop(tx.take().map(|tx| tx.send(answer)));
            true
        });
        let mut slot = self.reader.lock().unwrap_or_else(|p| p.into_inner());
        let reading = slot.get_or_insert_with(|| {
            let ((queue, jobs), (alive, ended)) = (channel(), channel());
            let (writer, files) = (self.writer(), self.files.clone());
            let reader = Reader { files, writer, conn: None, saved: None, raw: None };
            start("store-read", move || {
                reader.run(&jobs);
                drop(alive);
            });
            Reading { queue, ended }
        });
        // A thread that did not start answers by dropping the job: `StoreError::Closed`.
        let _ = reading.queue.send(read);
        Reply(rx)
    }

    /// Ends the reader and closes the database, behind all that is queued. What comes later opens it again.
    pub fn close(&self) -> Reply<()> {
        let (tx, rx) = oneshot::channel();
        // Its queue ends here: the thread does what is in it and goes.
        let reading = self.reader.lock().unwrap_or_else(|p| p.into_inner()).take();
        self.to_writer(Op::Close(tx, reading.map(|r| r.ended)));
        Reply(rx)
    }

    pub fn flush(&self) -> Reply<()> {
        let (tx, rx) = oneshot::channel();
        self.to_writer(Op::Flush(tx));
        Reply(rx)
    }

    fn to_writer(&self, op: Op) {
        let _ = self.writer().send(op);
    }

    fn writer(&self) -> Sender<Op> {
        let mut slot = self.writer.lock().unwrap_or_else(|p| p.into_inner());
        slot.get_or_insert_with(|| {
            let (queue, ops) = channel();
            let files = self.files.clone();
            start("store-write", move || Writer { files, conn: None, mover: Mover::default() }.run(&ops));
            queue
        })
        .clone()
    }
}

pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(run) {
        tracing::error!(%error, name, "a thread of the store did not start");
    }
}

struct Writer {
    files: Arc<Files>,
    conn: Option<(Connection, FileId)>,
    mover: Mover,
}

impl Writer {
    fn run(mut self, ops: &Receiver<Op>) {
        while let Ok(first) = ops.recv() {
            let mut writes = Vec::new();
            let mut next = Some(first);
            while let Some(op) = next.take() {
                match op {
                    Op::Write(write) => writes.push(write),
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
        }
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
        let begun = self.open().and_then(|conn| exec(conn, &file, "BEGIN IMMEDIATE").map(|()| conn));
        let conn = match begun {
            Ok(conn) => conn,
            Err(error) => {
                for write in writes {
                    let (_, after) = write(Err(error.clone()));
                    after(Err(error.clone()));
                }
                return;
            }
        };
        let mut waiting: Vec<After> = Vec::with_capacity(writes.len());
        // One alone is undone with its transaction.
        let apart = writes.len() > 1;
        for write in writes {
            run_one(conn, &file, write, apart, &mut waiting);
        }
        if waiting.is_empty() {
            if !conn.is_autocommit() {
                let _ = exec(conn, &file, "ROLLBACK");
            }
            return;
        }
        let committed = exec(conn, &file, "COMMIT");
        if committed.is_err() && !conn.is_autocommit() {
            let _ = exec(conn, &file, "ROLLBACK");
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

struct Reader {
    files: Arc<Files>,
    writer: Sender<Op>,
    conn: Option<(Connection, FileId)>,
    /// What could be saved of a damaged file, and of which state of it.
    saved: Option<(Stamp, Connection)>,
    /// The damaged file, never closed: that would end SQLite's locks on it.
    raw: Option<ManuallyDrop<File>>,
}

/// Sizes and times of the database and its log: whether they changed.
type Stamp = [Option<(u64, std::time::SystemTime)>; 2];

impl Reader {
    fn run(mut self, jobs: &Receiver<Read>) {
        while let Ok(mut job) = jobs.recv() {
            if catch_unwind(AssertUnwindSafe(|| self.one(&mut job))).is_err() {
                tracing::error!("a read of the store panicked");
            }
        }
    }

    fn one(&mut self, job: &mut Read) {
        let error = match self.open() {
            Ok(conn) => {
                if job(Ok(conn), Pass::First) {
                    return;
                }
                None
            }
            Err(error) if error.is_damage() => Some(error),
            Err(error) => {
                job(Err(error), Pass::Last);
                return;
            }
        };
        match (self.save(), error) {
            (Ok(conn), _) => job(Ok(conn), Pass::Salvaged),
            (Err(_), Some(error)) | (Err(error), None) => job(Err(error), Pass::Last),
        };
    }

    fn open(&mut self) -> Result<&Connection, StoreError> {
        self.conn.take_if(|(_, id)| id.has_gone(&self.files.database));
        match self.conn {
            Some((ref conn, _)) => Ok(conn),
            None => {
                let conn = open_for_reading(&self.writer, &self.files)?;
                let id = FileId::of(&self.files.database);
                Ok(&self.conn.insert((conn, id)).0)
            }
        }
    }

    /// A copy of what can be read of the damaged file, made anew when that has changed.
    fn save(&mut self) -> Result<&Connection, StoreError> {
        let stamp = self.stamp();
        if self.saved.as_ref().is_some_and(|(of, _)| *of != stamp) {
            self.saved = None;
        }
        let file = &self.files.database;
        if self.raw.is_none() {
            let open = File::open(file).map_err(|e| StoreError::io(file, e))?;
            self.raw = Some(ManuallyDrop::new(open));
        }
        match (&self.raw, &mut self.saved) {
            (_, Some((_, conn))) => Ok(conn),
            (None, None) => Err(StoreError::Closed),
            (Some(raw), saved) => {
                let conn = salvage::rebuild(file, raw)?;
                Ok(&saved.insert((stamp, conn)).1)
            }
        }
    }

    fn stamp(&self) -> Stamp {
        [self.files.database.clone(), self.files.log()].map(|file| {
            let about = std::fs::metadata(file).ok()?;
            Some((about.len(), about.modified().ok()?))
        })
    }
}

/// Has the writer make or migrate the database; where that fails only for writing, reads what is there.
fn open_for_reading(writer: &Sender<Op>, files: &Files) -> Result<Connection, StoreError> {
    let (tell, told) = channel();
    let _ = writer.send(Op::Open(tell));
    match told.recv().unwrap_or(Err(StoreError::Closed)) {
        Ok(()) => migrate::open_reader(&files.database),
        Err(error) if error.leaves_reading() && files.database.exists() => {
            migrate::open_reader(&files.database).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}
