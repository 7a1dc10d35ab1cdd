//! What is Unix about a file that only its owner may read.
use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Which file this is: a rename gives another one.
pub(super) type Stamp = (u64, u64, i64, i64, u64);

pub(super) fn stamp(about: &Metadata) -> Stamp {
    (about.dev(), about.ino(), about.mtime(), about.mtime_nsec(), about.len())
}

/// Whether others can read it.
pub(super) fn is_exposed(about: &Metadata) -> bool {
    about.mode() & 0o077 != 0
}

/// What is made with these is its owner's alone.
pub(super) fn private(folder: &mut DirBuilder, file: &mut OpenOptions) {
    folder.mode(0o700);
    file.mode(0o600);
}

/// Brings what happened to the names in a folder to the disk.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
