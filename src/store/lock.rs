//! The lock that a process holds on a session while it may write to it.
//!
//! An OS lock, not a row: it ends with the process, however that ends.
use super::{StoreError, migrate::private_folder};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Held while the session is live for writing; dropping it lets another process in.
#[derive(Debug)]
pub struct SessionLock {
    file: File,
    path: PathBuf,
}

/// Why a session could not be locked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LockError {
    /// Another process (or another handle of this one) has it. It may be read, or forked.
    #[error("the session is open in another process{}; fork it to go on here", pid.map(|p| format!(" ({p})")).unwrap_or_default())]
    Held { pid: Option<u32> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionLock {
    pub(super) fn acquire(path: &Path) -> Result<Self, LockError> {
        let mut file = match open_locked(path)? {
            Some(file) => file,
            None => return Err(LockError::Held { pid: read_pid(path) }),
        };
        // For the message of the other process alone; the lock itself does not depend on it.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Removed while it is still locked; whoever opened it meanwhile sees that the name is gone and tries again. Left
        // where std cannot tell one file of a name from the next (see `same_file`).
        if cfg!(unix) {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Waits for a lock that is only ever held for moments.
pub(super) fn exclusive(path: &Path, limit: Duration) -> Result<SessionLock, StoreError> {
    let start = Instant::now();
    loop {
        match SessionLock::acquire(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Store(error)) => return Err(error),
            Err(LockError::Held { .. }) if start.elapsed() > limit => {
                return Err(StoreError::Busy { file: path.to_owned() });
            }
            Err(LockError::Held { .. }) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The file, locked; `None` where another holds it.
fn open_locked(path: &Path) -> Result<Option<File>, StoreError> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|e| StoreError::io(path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path, error)),
        }
        if same_file(&file, path) {
            return Ok(Some(file));
        }
    }
}

/// Whether the name still leads to the file that was locked: its last holder may just have removed it.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
/// Lock files are never removed here.
#[cfg(not(unix))]
fn same_file(_: &File, _: &Path) -> bool {
    true
}

fn read_pid(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
