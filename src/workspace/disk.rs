//! Local files: bounded reads, atomic writes.
//!
//! Every path here is canonical ([`crate::effects::WsPath::real`]); nothing follows a link that was put in the way after the
//! guard looked. How that is done, and what a write keeps, is each system's own: `disk/unix.rs`, `disk/windows.rs`.
use super::WsError;
use std::path::{Path, PathBuf};

#[cfg_attr(unix, path = "disk/unix.rs")]
#[cfg_attr(windows, path = "disk/windows.rs")]
mod system;
pub(super) use system::{create_parents, delete, read, rename, restore, set_mode, write};

/// The largest file, in bytes, that is read as text.
pub(super) const TEXT_LIMIT: u64 = 10 * 1024 * 1024;

/// A file as it was read, with what tells whether it is still that file.
#[derive(Clone, Debug)]
#[cfg_attr(windows, allow(dead_code))] // owners and other names, which std does not tell there
pub(super) struct Snapshot {
    pub bytes: Vec<u8>,
    pub stamp: Stamp,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u64,
}

/// Which version of a file is there: cheap to ask again right before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// When the content last changed.
    pub fn modified(&self) -> Option<std::time::SystemTime> {
        let (seconds, nanos) = self.modified;
        let since = std::time::Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        std::time::SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

/// Why a file operation failed; the caller adds the path as the client spells it.
#[derive(Debug)]
pub(super) enum DiskError {
    IsFolder,
    NotText(String),
    /// Another version is there than the one that the operation was planned on.
    Changed(String),
    Io(String),
}

impl DiskError {
    pub fn at(self, path: impl ToString) -> WsError {
        let path = path.to_string();
        match self {
            DiskError::IsFolder => WsError::IsFolder { path },
            DiskError::NotText(why) => WsError::NotText { path, why },
            DiskError::Changed(what) => WsError::Changed { path, what },
            DiskError::Io(why) => WsError::Io { path, why },
        }
    }
}
impl From<std::io::Error> for DiskError {
    fn from(e: std::io::Error) -> Self {
        DiskError::Io(e.to_string())
    }
}
/// What a write found and did beside the content.
#[derive(Debug, Default)]
pub(super) struct Note {
    /// Other names of the same file, which changed with it.
    pub other_names: u64,
}

fn too_large(size: u64, limit: u64) -> DiskError {
    DiskError::NotText(format!(
        "has {size} bytes, more than the {limit} that can be taken at once: look at parts of it with a command"
    ))
}

fn parent_and_name(path: &Path) -> Option<(&Path, &std::ffi::OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// Takes back what [`create_parents`] made, as far as it is still empty.
pub(super) fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests;
