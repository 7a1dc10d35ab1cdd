//! The two threads that own the connections: one writes, one reads. Neither is a runtime worker.
use super::{
    StoreError,
    file::FileId,
    migrate, salvage,
    writer::{After, Op, Queue, Write},
};
use rusqlite::Connection;
use std::{
    fs::File,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll},
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
    writer: Mutex<Option<Queue>>,
    reader: Mutex<Option<Reading>>,
}

/// The reader's queue, and what is cut off when its thread has ended.
struct Reading {
    queue: Sender<Read>,
    ended: Receiver<()>,
}

/// Enough for SQLite and for JSON of 128 levels.
const STACK: usize = 1 << 20;

impl Threads {
    pub fn new(files: Files) -> Self {
        Self { files: Arc::new(files), writer: Mutex::new(None), reader: Mutex::new(None) }
    }

    /// Queues work for the writer. All of it happens or none: an error rolls back what the work did. `brief`: it is done
    /// at once, on this thread, where nothing else is to be done before.
    pub fn write<T: Send + 'static>(
        &self,
        brief: bool,
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
        let queue = self.writer();
        match if brief { queue.at_once(write) } else { Err(write) } {
            Ok(()) => {}
            Err(write) => queue.send(Op::Write(write)),
        }
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
        self.writer().send(Op::Close(tx, reading.map(|r| r.ended)));
        Reply(rx)
    }

    pub fn flush(&self) -> Reply<()> {
        let (tx, rx) = oneshot::channel();
        self.writer().send(Op::Flush(tx));
        Reply(rx)
    }

    fn writer(&self) -> Queue {
        let mut slot = self.writer.lock().unwrap_or_else(|p| p.into_inner());
        slot.get_or_insert_with(|| Queue::start(self.files.clone())).clone()
    }
}

pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(run) {
        tracing::error!(%error, name, "a thread of the store did not start");
    }
}

struct Reader {
    files: Arc<Files>,
    writer: Queue,
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
fn open_for_reading(writer: &Queue, files: &Files) -> Result<Connection, StoreError> {
    let (tell, told) = channel();
    writer.send(Op::Open(tell));
    match told.recv().unwrap_or(Err(StoreError::Closed)) {
        Ok(()) => migrate::open_reader(&files.database),
        Err(error) if error.leaves_reading() && files.database.exists() => {
            migrate::open_reader(&files.database).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}
