//! Opening the database file: permissions, pragmas, recognition and the migrations over `user_version`.
use super::{StoreError, lock};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{DirBuilder, OpenOptions},
    path::Path,
    time::Duration,
};

/// Marks our files (`PRAGMA application_id`): "HmEd".
pub(super) const APPLICATION: i64 = 0x486d_4564;
/// Each brings the schema one version further. Released ones are never edited.
const MIGRATIONS: &[&str] = &[include_str!("sql/0001_init.sql"), include_str!("sql/0002_windows.sql")];
/// The newest schema this program knows.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;
/// How long a statement waits for a lock of another process.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Opens the file for writing; makes it (0600, its folder 0700) or brings it up to date where needed.
pub(super) fn open_writer(file: &Path, locks: &Path) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(file, e);
    make_file(file)?;
    let conn = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(sql)?;
    conn.busy_timeout(BUSY).map_err(sql)?;
    if conn.is_readonly("main").map_err(sql)? {
        return Err(StoreError::ReadOnly { file: file.to_owned() });
    }
    let ready = recognise(&conn, file)? == VERSION
        && conn.pragma_query_value(None, "journal_mode", |r| r.get::<_, String>(0)).map_err(sql)? == "wal";
    if !ready {
        // The change to WAL does not wait for other processes as statements do, so only one does it at a time.
        let _one = lock::exclusive(&locks.join("migrate"), BUSY)?;
        migrate(&conn, file)?;
    }
    pragmas(&conn).map_err(sql)?;
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 1048576;").map_err(sql)?;
    Ok(conn)
}

/// Opens the file for reading alone. The file must exist and be of our version.
pub(super) fn open_reader(file: &Path) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(file, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags).map_err(sql)?;
    conn.busy_timeout(BUSY).map_err(sql)?;
    let conn = match recognise(&conn, file) {
        // In a folder that cannot be written there is no place for the shared memory of WAL: read the file as it is.
        Err(StoreError::ReadOnly { .. }) => {
            let uri = format!("file:{}?immutable=1", uri_path(file));
            let conn = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(sql)?;
            recognise(&conn, file)?;
            conn
        }
        other => {
            other?;
            conn
        }
    };
    pragmas(&conn).map_err(sql)?;
    Ok(conn)
}

/// Small caches: an idle agent keeps little, and entries are read once.
fn pragmas(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(48);
    conn.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -1024; PRAGMA mmap_size = 0;
         PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST; PRAGMA trusted_schema = OFF;",
    )
}

/// The schema version of our database (0: an empty file), or why it is none of ours.
fn recognise(conn: &Connection, file: &Path) -> Result<i64, StoreError> {
    let sql = |e| StoreError::sqlite(file, e);
    let number = |name| conn.pragma_query_value(None, name, |r| r.get::<_, i64>(0)).map_err(sql);
    // One snapshot: another process may be making the database in this moment.
    let _read = conn.is_autocommit().then(|| conn.unchecked_transaction()).transpose().map_err(sql)?;
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION {
        let tables: i64 =
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)).map_err(sql)?;
        if application != 0 || version != 0 || tables != 0 {
            return Err(StoreError::Foreign { file: file.to_owned() });
        }
    }
    if version > VERSION {
        return Err(StoreError::Newer { file: file.to_owned(), found: version, known: VERSION });
    }
    Ok(version)
}

/// The newest schema, for a database that is empty.
pub(super) fn schema(conn: &Connection) -> rusqlite::Result<()> {
    MIGRATIONS.iter().try_for_each(|step| conn.execute_batch(step))
}

/// Runs what is missing, all in one transaction: a crash in between leaves the old schema.
fn migrate(conn: &Connection, file: &Path) -> Result<(), StoreError> {
    let sql = |e| StoreError::sqlite(file, e);
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(sql)?;
    conn.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
    let done = recognise(conn, file).and_then(|from| {
        for step in MIGRATIONS.iter().skip(from as usize) {
            conn.execute_batch(step).map_err(sql)?;
        }
        conn.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT"
        ))
        .map_err(sql)
    });
    if done.is_err() && !conn.is_autocommit() {
        // The first error is what counts.
        let _ = conn.execute_batch("ROLLBACK");
    }
    done
}

/// Makes the folder and an empty file, readable to their owner alone; what exists is left as it is.
fn make_file(file: &Path) -> Result<(), StoreError> {
    if file.exists() {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map_err(|e| StoreError::io(file, e)).map(drop)
}

/// Makes a folder (0700) and those above it.
pub(super) fn private_folder(folder: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|e| StoreError::io(folder, e))
}

/// The path as SQLite's URI form wants it (<https://www.sqlite.org/uri.html>).
fn uri_path(file: &Path) -> String {
    file.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
