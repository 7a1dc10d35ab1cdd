//! The files of an open database: whether they are still ours, and the write-ahead log that must not grow for ever.
use super::thread::{Files, start};
use rusqlite::{Connection, OpenFlags};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Which file a name led to when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(Option<(u64, u64)>);

impl FileId {
    pub fn of(file: &Path) -> Self {
        Self(std::fs::metadata(file).ok().map(|about| identity(&about)))
    }

    /// Whether the name leads elsewhere by now. SQLite would go on writing to a file that nobody finds any more.
    pub fn has_gone(self, file: &Path) -> bool {
        let gone = self.0.is_some() && FileId::of(file) != self;
        if gone {
            let file = file.display();
            tracing::error!(
                "{file} was removed or replaced while it was open; the one of that name is used now"
            );
        }
        gone
    }
}

#[cfg(unix)]
fn identity(about: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (about.dev(), about.ino())
}
/// SQLite's handle keeps the file from being removed or replaced there; when it was made is enough.
#[cfg(windows)]
fn identity(about: &std::fs::Metadata) -> (u64, u64) {
    (0, std::os::windows::fs::MetadataExt::creation_time(about))
}

/// So many bytes of the log are moved into the database at a time.
const PIECE: u64 = 4 << 20;
/// A log of this size is moved at once, whoever waits: the thread beside did not keep up.
const MOST: u64 = 64 << 20;

/// Moves the log into the database on a thread and a connection of its own: no append waits for it.
#[derive(Default)]
pub(super) struct Mover {
    runs: Arc<AtomicBool>,
    /// The size of the log at the last time.
    moved: u64,
}

impl Mover {
    /// Whether [`Mover::look`] would do something.
    pub fn is_due(&self, files: &Files) -> bool {
        let size = log_size(files);
        size - self.moved.min(size) > PIECE && !self.runs.load(Ordering::Acquire)
    }

    /// To be called after each transaction, where others may have to wait.
    pub fn look(&mut self, files: &Arc<Files>, conn: &Connection) {
        let size = log_size(files);
        // It was begun anew.
        self.moved = self.moved.min(size);
        if !self.is_due(files) {
            return;
        }
        self.moved = size;
        if size > MOST {
            return checkpoint(conn, "TRUNCATE");
        }
        self.runs.store(true, Ordering::Release);
        let (files, runs) = (files.clone(), Running(self.runs.clone()));
        start("store-move", move || {
            let _runs = runs;
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            if let Ok(conn) = Connection::open_with_flags(&files.database, flags)
                && conn.busy_timeout(Duration::ZERO).is_ok()
                && conn.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256").is_ok()
            {
                checkpoint(&conn, "PASSIVE");
            }
        });
    }
}

fn log_size(files: &Files) -> u64 {
    std::fs::metadata(files.log()).map_or(0, |about| about.len())
}

/// Readers and other processes may hold it up; then the next one does it.
fn checkpoint(conn: &Connection, how: &str) {
    if let Err(error) = conn.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(())) {
        tracing::debug!(%error, "the write-ahead log was not moved");
    }
}

/// Says that it is over, also where the thread did not start.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
