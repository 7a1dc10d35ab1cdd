//! Files on Windows, with what std offers: a new file beside the target takes its place by a rename.
//!
//! No handle of a folder can be held as on Unix, so a folder's canonical path is asked for again right before each change.
//! A file's identity is when it was made, when it was written and its size. Not kept: other hard links (the new file has
//! one name), access lists set on the file itself, alternate streams.
use super::{DiskError, Note, Snapshot, Stamp, parent_and_name, remove_folders, too_large};
use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{ErrorKind, Read, Write},
    os::windows::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Modes as [`Snapshot`] has them: Windows knows the one bit.
const WRITABLE: u32 = 0o644;
const READ_ONLY: u32 = 0o444;

impl Stamp {
    fn of(about: &Metadata) -> Self {
        let since = about.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = since.unwrap_or_default();
        Stamp {
            device: 0,
            inode: about.creation_time(),
            size: about.file_size(),
            modified: (since.as_secs().cast_signed(), i64::from(since.subsec_nanos())),
        }
    }
}

/// Reads a whole regular file; `None` where there is none.
pub(in crate::workspace) fn read(path: &Path, limit: u64) -> Result<Option<Snapshot>, DiskError> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(e) if missing(&e) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    if about.is_dir() {
        return Err(DiskError::IsFolder);
    }
    folder_of(path)?;
    if about.is_symlink() {
        return Err(linked());
    }
    if !about.is_file() {
        return Err(DiskError::NotText("is a device, not a file".into()));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if missing(&e) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let about = file.metadata()?;
    let stamp = Stamp::of(&about);
    if stamp.size > limit {
        return Err(too_large(stamp.size, limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64, limit));
    }
    let mode = if about.permissions().readonly() { READ_ONLY } else { WRITABLE };
    Ok(Some(Snapshot { bytes, stamp, mode, uid: 0, gid: 0, links: 1 }))
}

fn missing(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn linked() -> DiskError {
    DiskError::Changed("a symbolic link has taken its place".into())
}

/// The folder and the name, once the folder is seen to be still the one that the guard resolved: no link or junction in it.
fn folder_of(path: &Path) -> Result<(&Path, &OsStr), DiskError> {
    let (folder, name) = parent_and_name(path).ok_or(DiskError::IsFolder)?;
    if folder.canonicalize()? == folder { Ok((folder, name)) } else { Err(linked()) }
}

/// Writes the whole file: replaces the version `old`, or creates it where that is `None`.
pub(in crate::workspace) fn write(
    path: &Path,
    bytes: &[u8],
    old: Option<&Snapshot>,
) -> Result<Note, DiskError> {
    if old.is_some_and(|old| old.mode == READ_ONLY) {
        let why = "is read-only: change its attribute first if it is meant to be edited";
        return Err(DiskError::Io(why.into()));
    }
    let temp = beside(path, bytes)?;
    match old {
        None => temp.persist_noclobber(path).map_err(|e| taken(e.error))?,
        Some(old) => {
            check(path, old)?;
            temp.persist(path).map_err(|e| e.error)?
        }
    };
    Ok(Note::default())
}

/// A new file in the same folder, on disk; removed when it is dropped without having been moved.
fn beside(path: &Path, bytes: &[u8]) -> Result<tempfile::NamedTempFile, DiskError> {
    let (folder, _) = folder_of(path)?;
    let mut temp = tempfile::Builder::new().prefix(".hermes-").suffix(".tmp").tempfile_in(folder)?;
    temp.write_all(bytes)?;
    temp.as_file().sync_all()?;
    Ok(temp)
}

fn taken(e: std::io::Error) -> DiskError {
    match e.kind() {
        ErrorKind::AlreadyExists => DiskError::Changed("it has been created meanwhile".into()),
        _ => e.into(),
    }
}

/// Refuses when another version is there than `old`, or the way to it has changed.
fn check(path: &Path, old: &Snapshot) -> Result<(), DiskError> {
    folder_of(path)?;
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => Err(linked()),
        Ok(about) if Stamp::of(&about) == old.stamp => Ok(()),
        Ok(_) => Err(DiskError::Changed("it was written to in this moment by another program".into())),
        Err(e) if missing(&e) => Err(DiskError::Changed("it has been deleted".into())),
        Err(e) => Err(e.into()),
    }
}

/// Gives a file back its read-only attribute, where an editor's way to save has lost it.
pub(in crate::workspace) fn set_mode(path: &Path, mode: u32) -> Result<(), DiskError> {
    folder_of(path)?;
    let about = fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return Err(linked());
    }
    let mut permissions = about.permissions();
    permissions.set_readonly(mode & 0o222 == 0);
    Ok(fs::set_permissions(path, permissions)?)
}

/// Puts a deleted file back, with its read-only attribute.
pub(in crate::workspace) fn restore(path: &Path, old: &Snapshot) -> Result<(), DiskError> {
    write(path, &old.bytes, None)?;
    if old.mode == READ_ONLY { set_mode(path, READ_ONLY) } else { Ok(()) }
}

/// Deletes the version `old`.
pub(in crate::workspace) fn delete(path: &Path, old: &Snapshot) -> Result<(), DiskError> {
    check(path, old)?;
    Ok(fs::remove_file(path)?)
}

/// Moves the version `old`. Never replaces another file; a change of case alone is a move like any other.
pub(in crate::workspace) fn rename(from: &Path, to: &Path, old: &Snapshot) -> Result<(), DiskError> {
    let there = || DiskError::Changed("there is already a file of that name".into());
    folder_of(to)?;
    check(from, old)?;
    if fs::symlink_metadata(to).is_ok() {
        // The new name finds the file itself where only its case differs.
        let same = to.canonicalize().is_ok_and(|found| found == from);
        return if same { Ok(fs::rename(from, to)?) } else { Err(there()) };
    }
    // A second name cannot replace a file that appears in this moment, as a rename would.
    match fs::hard_link(from, to) {
        Ok(()) => Ok(fs::remove_file(from)?),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(there()),
        // FAT and some shares have no hard links.
        Err(_) if fs::symlink_metadata(to).is_err() => Ok(fs::rename(from, to)?),
        Err(_) => Err(there()),
    }
}

/// Creates the folders that lead to a file; returns those that were missing, outermost first.
pub(in crate::workspace) fn create_parents(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let Some(parent) = path.parent() else { return Ok(Vec::new()) };
    let missing: Vec<&Path> = parent.ancestors().take_while(|p| p.symlink_metadata().is_err()).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        let made_one = folder_of(folder).and_then(|_| match fs::create_dir(folder) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.into()),
        });
        match made_one {
            Ok(true) => made.push(folder.to_path_buf()),
            Ok(false) => {}
            Err(e) => {
                remove_folders(&made);
                return Err(e);
            }
        }
    }
    Ok(made)
}
