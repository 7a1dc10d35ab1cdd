//! What can go wrong with the store, each with what to do about it.
use crate::id::SessionId;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// An error of the store. Cloned, because one failed opening answers every call that waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no session {0}")]
    NotFound(SessionId),
    #[error("session {0} exists already")]
    Exists(SessionId),
    /// Entries must follow each other without a gap; another writer got in between, or an append was repeated.
    #[error("session {session}: entry {got} cannot be appended, the next one is {expected}")]
    Sequence { session: SessionId, expected: u64, got: u64 },
    #[error("the cursor is not one of this list; start again without a cursor")]
    Cursor,
    #[error("the search has no words; give at least one word or number")]
    EmptySearch,
    #[error("{size} bytes are more than the {limit} that are kept of one file")]
    TooLarge { size: u64, limit: u64 },
    #[error("a value cannot be stored: {0}")]
    Encode(String),
    #[error(
        "{} was written by a newer hermes-editor (schema {found}, this one knows {known}); update hermes-editor, or set HERMES_EDITOR_HOME to another folder",
        file.display()
    )]
    Newer { file: PathBuf, found: i64, known: i64 },
    #[error(
        "{} is not a hermes-editor database and was left untouched; move it away, or set HERMES_EDITOR_HOME to another folder",
        file.display()
    )]
    Foreign { file: PathBuf },
    #[error(
        "{} is damaged ({detail}); what is readable still loads. Keep a copy, move it away to start a new one",
        file.display()
    )]
    Damaged { file: PathBuf, detail: String },
    #[error("{} cannot be written; check the permissions of the file and its folder", file.display())]
    ReadOnly { file: PathBuf },
    #[error("there is no space left for {}; free some and try again", file.display())]
    Full { file: PathBuf },
    #[error("{} is held by another process; try again, or end that process", file.display())]
    Busy { file: PathBuf },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: Arc<std::io::Error> },
    #[error("{}: {error}", file.display())]
    Sqlite { file: PathBuf, error: Arc<rusqlite::Error> },
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Sorts an error of SQLite by what a person can do about it.
    pub(super) fn sqlite(file: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as C;
        let file = file.to_owned();
        match error.sqlite_error_code() {
            Some(C::NotADatabase) => Self::Foreign { file },
            Some(C::DatabaseCorrupt) => Self::Damaged { file, detail: error.to_string() },
            Some(C::ReadOnly | C::CannotOpen | C::PermissionDenied) => Self::ReadOnly { file },
            Some(C::DiskFull) => Self::Full { file },
            Some(C::DatabaseBusy | C::DatabaseLocked | C::FileLockingProtocolFailed) => Self::Busy { file },
            _ => Self::Sqlite { file, error: Arc::new(error) },
        }
    }
    pub(super) fn io(path: &Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let file = path.to_owned();
        match error.kind() {
            K::PermissionDenied | K::ReadOnlyFilesystem => Self::ReadOnly { file },
            K::StorageFull | K::QuotaExceeded => Self::Full { file },
            _ => Self::Io { path: file, error: Arc::new(error) },
        }
    }
    /// Whether the file itself is what is wrong: its rows may still be read one by one.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Foreign { .. })
    }
    /// Whether reading may still work although writing does not.
    pub fn leaves_reading(&self) -> bool {
        matches!(self, Self::ReadOnly { .. } | Self::Full { .. } | Self::Busy { .. } | Self::Damaged { .. })
    }
}
