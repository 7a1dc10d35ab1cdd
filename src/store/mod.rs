//! The store: sessions, their entries, grants and blobs in one SQLite file.
//!
//! One thread has the connection that writes, one the connection that reads (I19). [`Store`] is a handle to both:
//! every call is queued at once, in the order of the calls, and answered by a [`Reply`]. A short append is done by its
//! caller where nothing is queued, which takes some 50 µs instead of two changes of thread. Opening is lazy: nothing is
//! touched before the first call. A write that was answered is committed in WAL mode with `synchronous=NORMAL`: it
//! survives the death of the process; a loss of power may drop the newest ones, never damage older ones.
mod blobs;
mod entries;
mod error;
mod file;
mod grants;
mod lock;
mod migrate;
mod salvage;
mod search;
mod sessions;
#[cfg(test)]
mod tests;
mod thread;
mod windows;
mod writer;

pub use blobs::{BlobId, SNAPSHOT_LIMIT, SNAPSHOTS_LIMIT};
pub use entries::{Draft, Gap, GapKind, Loaded};
pub use error::StoreError;
pub use lock::{LockError, SessionLock};
pub use search::{Hit, Line, Search};
pub use sessions::{Filter, Origin, Page, Parent, SessionHead};
pub use thread::Reply;

use crate::{
    config::DataDirs,
    id::{MessageId, SessionId},
    log::{Settings, Stored},
    permit::Grant,
};
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use thread::{Files, Threads};

/// A handle to the store; clones share it.
#[derive(Clone)]
pub struct Store(Arc<Threads>);

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.0.files.database).finish()
    }
}

impl Store {
    /// A store in these folders. Nothing is opened yet: what is wrong with the file is the answer of each call, and
    /// of [`Store::check`].
    pub fn open(dirs: &DataDirs) -> Result<Store, StoreError> {
        let files = Files { database: dirs.database(), locks: dirs.locks(), sessions: dirs.sessions() };
        Ok(Store(Arc::new(Threads::new(files))))
    }

    /// The database file.
    pub fn file(&self) -> &Path {
        &self.0.files.database
    }

    /// Opens the file for writing, and makes it where there is none.
    pub fn check(&self) -> Reply<()> {
        self.0.write(false, |_| Ok(()), |()| ())
    }

    /// Answers when all that was queued before is done.
    pub fn flush(&self) -> Reply<()> {
        self.0.flush()
    }

    /// Does what is queued and closes the database: all of it is in one file then, unless another process has it open.
    /// Calls that come later open it again.
    pub fn close(&self) -> Reply<()> {
        self.0.close()
    }

    /// Adds a session without entries.
    pub fn create(&self, head: SessionHead) -> Reply<()> {
        self.writing(move |cx| cx.create(&head))
    }

    /// Adds a session with the entries of another that come before `upto` (`None`: all), as they are stored: also
    /// those that this version cannot read. Its `parent` tells where it came from.
    pub fn fork(&self, from: SessionId, upto: Option<u64>, head: SessionHead) -> Reply<()> {
        self.writing(move |cx| cx.fork(&from, upto, &head))
    }

    /// What is known of a session beside its entries; `None`: there is no such session.
    pub fn head(&self, id: SessionId) -> Reply<Option<SessionHead>> {
        self.reading(move |cx| cx.head(&id))
    }

    /// Sessions, the newest first.
    pub fn heads(&self, filter: Filter) -> Reply<Page> {
        self.reading(move |cx| cx.heads(&filter))
    }

    pub fn set_title(&self, id: SessionId, title: Option<String>) -> Reply<()> {
        self.writing(move |cx| cx.set_title(&id, title.as_deref()))
    }

    pub fn set_settings(&self, id: SessionId, settings: Settings) -> Reply<()> {
        self.writing(move |cx| cx.set_settings(&id, &settings))
    }

    /// The folders of the session, where it is loaded with others than it was made with.
    pub fn set_folders(&self, id: SessionId, cwd: PathBuf, roots: Vec<PathBuf>) -> Reply<()> {
        self.writing(move |cx| cx.set_folders(&id, &cwd, &roots))
    }

    /// What the agent keeps of a session beside its settings; a JSON object.
    pub fn set_meta(&self, id: SessionId, meta: serde_json::Value) -> Reply<()> {
        self.writing(move |cx| cx.set_meta(&id, &meta))
    }

    /// Moves the session to the front of the lists. Prompts and ends of turns do so by themselves.
    pub fn touch(&self, id: SessionId) -> Reply<()> {
        self.writing(move |cx| cx.touch(&id, crate::clock::Millis::now()))
    }

    /// Removes a session with all that belongs to it. `false`: there was none, which is no error.
    pub fn delete(&self, id: SessionId) -> Reply<bool> {
        let (folder, lock) = (self.spill_dir(&id), self.0.files.locks.join(file_name(&id)));
        let files = self.0.files.clone();
        self.0.write(
            false,
            move |conn| Cx { conn, files: &files, salvaged: false }.delete(&id),
            move |_| {
                // What cannot be removed now is found by nobody: the rows that named it are gone.
                let _ = std::fs::remove_dir_all(folder);
                drop(SessionLock::acquire(&lock));
            },
        )
    }

    /// Adds entries; answers when they are committed. Their numbers must follow the last one of the session. A reply
    /// of the model (`Assistant`) ends the draft in the same transaction.
    pub fn append(&self, id: SessionId, entries: Vec<Stored>) -> Reply<()> {
        let (files, brief) = (self.0.files.clone(), entries::are_brief(&entries));
        let append = move |conn: &_| Cx { conn, files: &files, salvaged: false }.append(&id, &entries);
        self.0.write(brief, append, |()| ())
    }

    /// All of a session. Never writes. What cannot be read is left out and named in `damaged`.
    pub fn load(&self, id: SessionId) -> Reply<Loaded> {
        self.reading(move |cx| cx.load(&id))
    }

    /// Keeps the reply that is being streamed, as far as it came: one per session, replaced each time.
    pub fn draft(&self, id: SessionId, message: MessageId, text: String, thinking: String) -> Reply<()> {
        let draft = Draft { message, text, thinking, at: crate::clock::Millis::now() };
        self.writing(move |cx| cx.draft(&id, &draft))
    }

    pub fn clear_draft(&self, id: SessionId) -> Reply<()> {
        self.writing(move |cx| cx.clear_draft(&id))
    }

    /// Keeps a snapshot of a file for a session. The oldest snapshots of the session go when they are together more
    /// than [`SNAPSHOTS_LIMIT`].
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] above [`SNAPSHOT_LIMIT`].
    pub fn put_blob(&self, id: SessionId, bytes: Vec<u8>) -> Reply<BlobId> {
        self.writing(move |cx| cx.put_snapshot(&id, &bytes))
    }

    /// Keeps snapshots of many files, as [`Store::put_blob`] does. One above [`SNAPSHOT_LIMIT`] is left out.
    pub fn put_blobs(&self, id: SessionId, contents: Vec<Vec<u8>>) -> Reply<()> {
        self.writing(move |cx| cx.put_snapshots(&id, &contents))
    }

    /// The bytes of a blob; `None` where it was dropped or is damaged.
    pub fn get_blob(&self, blob: BlobId) -> Reply<Option<Vec<u8>>> {
        self.reading(move |cx| cx.blob(blob))
    }

    /// What was allowed for ever in a folder.
    pub fn grants(&self, folder: PathBuf) -> Reply<Vec<Grant>> {
        self.reading(move |cx| cx.grants(&folder))
    }

    /// All folders with their grants.
    pub fn all_grants(&self) -> Reply<Vec<(PathBuf, Vec<Grant>)>> {
        self.reading(move |cx| cx.all_grants())
    }

    pub fn add_grant(&self, folder: PathBuf, grant: Grant) -> Reply<()> {
        self.writing(move |cx| cx.add_grant(&folder, &grant))
    }

    /// Takes back one grant, or (`None`) all of the folder; tells how many there were.
    pub fn revoke(&self, folder: PathBuf, grant: Option<Grant>) -> Reply<usize> {
        self.writing(move |cx| cx.revoke(&folder, grant.as_ref()))
    }

    /// How many tokens models (`provider/model`) turned out to take, as far as it was learned in the last week.
    pub fn windows(&self) -> Reply<Vec<(String, u64)>> {
        self.reading(move |cx| cx.windows(crate::clock::Millis::now()))
    }

    pub fn set_window(&self, model: String, tokens: u64) -> Reply<()> {
        self.writing(move |cx| cx.set_window(&model, tokens, crate::clock::Millis::now()))
    }

    /// Entries that contain all the words, the best first, each with those around it.
    pub async fn search(&self, search: Search) -> Result<Vec<Hit>, StoreError> {
        // What was appended since is indexed first, in pieces, so that appends of others get in between. Where the
        // database cannot be written, the index is searched as it is.
        while self.writing(|cx| cx.index(search::PIECE)).await.unwrap_or(false) {}
        self.reading(move |cx| cx.search(&search)).await
    }

    /// Takes the session for writing. Blocks for a moment at most.
    pub fn lock(&self, id: &SessionId) -> Result<SessionLock, LockError> {
        SessionLock::acquire(&self.0.files.locks.join(file_name(id)))
    }

    /// The file, for what is said about it.
    pub fn database(&self) -> &std::path::Path {
        &self.0.files.database
    }

    /// The folder of the session for what was too long for its conversation. It is not made here.
    pub fn spill_dir(&self, id: &SessionId) -> PathBuf {
        self.0.files.sessions.join(file_name(id))
    }

    fn writing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Reply<T> {
        let files = self.0.files.clone();
        self.0.write(false, move |conn| work(&Cx { conn, files: &files, salvaged: false }), |_| ())
    }

    fn reading<T: Send + 'static>(
        &self,
        work: impl Fn(&Cx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Reply<T> {
        let files = self.0.files.clone();
        self.0.read(move |conn, salvaged| work(&Cx { conn, files: &files, salvaged }))
    }
}

/// What the queries need, on either thread.
struct Cx<'a> {
    conn: &'a rusqlite::Connection,
    files: &'a Files,
    /// The connection is to what could be saved of a damaged file.
    salvaged: bool,
}

impl Cx<'_> {
    fn sql(&self, error: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.files.database, error)
    }
    /// Runs a statement; tells how many rows it changed.
    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, StoreError> {
        self.conn.prepare_cached(sql).and_then(|mut s| s.execute(params)).map_err(|e| self.sql(e))
    }
    /// The first row of a query, if there is one.
    fn one<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        row: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        use rusqlite::OptionalExtension;
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_row(params, row).optional())
            .map_err(|e| self.sql(e))
    }
    /// All rows of a query.
    fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.query_map(params, row)?.collect())
            .map_err(|e| self.sql(e))
    }
}

/// The name of a session's files. Ids come from outside: one that is not plainly a name is hashed.
fn file_name(id: &SessionId) -> String {
    let id = id.as_str();
    let plain = (1..=100).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { id.to_owned() } else { format!("x-{}", BlobId::of(id.as_bytes())) }
}

/// The first 8 bytes of the SHA-256 over number, time and text: tells a damaged row from an intact one.
fn checksum(seq: i64, at: i64, text: &str) -> i64 {
    let hash = Sha256::new().chain_update(seq.to_le_bytes()).chain_update(at.to_le_bytes());
    let digest = hash.chain_update(text.as_bytes()).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_le_bytes(first)
}

fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Encode(e.to_string()))
}

/// The folder with symbolic links followed; as it is where it does not exist (any more).
fn canonical(folder: &Path) -> String {
    std::fs::canonicalize(folder).as_deref().unwrap_or(folder).to_string_lossy().into_owned()
}
