//! What is Windows about the file of credentials: it has the access list of the user's own data folder, and no other.
use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    os::windows::fs::MetadataExt,
    path::Path,
};

/// Which file this is: when it was made and written, and its size.
pub(super) type Stamp = (u64, u64, u64);

pub(super) fn stamp(about: &Metadata) -> Stamp {
    (about.creation_time(), about.last_write_time(), about.file_size())
}

/// std cannot read access lists.
pub(super) fn is_exposed(_: &Metadata) -> bool {
    false
}

/// The folder is below the user's profile, which other users cannot read.
pub(super) fn private(_: &mut DirBuilder, _: &mut OpenOptions) {}

/// Folders cannot be synced; NTFS journals their changes.
pub(super) fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
