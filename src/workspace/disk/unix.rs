//! Files on Unix: atomic writes that keep mode, owner, links and extended attributes.
//!
//! Every path here is canonical ([`crate::effects::WsPath::real`]), so its folder is opened without following any link
//! (`openat2` with `RESOLVE_NO_SYMLINKS`): whoever puts a link in the way after the guard looked gets an error, not a write.
use super::{DiskError, Note, Snapshot, Stamp, parent_and_name, remove_folders, too_large};
use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Uid},
    io::Errno,
};
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
};

impl Stamp {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)] // the fields' types differ between systems
    fn of(stat: &fs::Stat) -> Self {
        Stamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        }
    }
}

impl From<Errno> for DiskError {
    fn from(e: Errno) -> Self {
        std::io::Error::from(e).into()
    }
}

/// Reads a whole regular file; `None` where there is none.
pub(in crate::workspace) fn read(path: &Path, limit: u64) -> Result<Option<Snapshot>, DiskError> {
    // Without O_NONBLOCK, opening a FIFO that nobody writes to would never return.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let Some((folder, name)) = parent_and_name(path) else { return Err(DiskError::IsFolder) };
    let folder = match open_folder(folder) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(link_error(e)),
    };
    let file = match fs::openat(&folder, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::NXIO) => return Err(DiskError::NotText("is a socket or device, not a file".into())),
        Err(e) => return Err(link_error(e)),
    };
    let stat = fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(DiskError::IsFolder),
        _ => return Err(DiskError::NotText("is a device, socket or pipe, not a file".into())),
    }
    let stamp = Stamp::of(&stat);
    if stamp.size > limit {
        return Err(too_large(stamp.size, limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0));
    // Files in /proc say size 0 and have content, so the bound is on what is read.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64, limit));
    }
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    Ok(Some(Snapshot {
        bytes,
        stamp,
        mode: (stat.st_mode as u32) & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        links: stat.st_nlink as u64,
    }))
}

fn link_error(e: Errno) -> DiskError {
    match e {
        Errno::LOOP => DiskError::Changed("a symbolic link has taken its place".into()),
        e => e.into(),
    }
}

/// Opens a folder by its canonical path, following no link at all.
fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // A folder that may be passed but not listed is enough here.
    #[cfg(target_os = "linux")]
    let flags = flags | OFlags::PATH;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(fs::CWD, path, flags, Mode::empty(), resolve) {
            // Kernels before 5.6, and containers whose filter does not know the call, have no openat2.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
    }
    // Component by component, each without following: the same guarantee, more calls.
    let mut at = fs::openat(fs::CWD, "/", flags, Mode::empty())?;
    for piece in path.components().filter(|c| matches!(c, std::path::Component::Normal(_))) {
        at = fs::openat(&at, piece.as_os_str(), flags, Mode::empty())?;
    }
    Ok(at)
}

/// Writes the whole file: replaces the version `old`, or creates it where that is `None`.
///
/// Replaced by a rename of a new file in the same folder. Written in place where a rename would break something: other
/// hard links, an owner that cannot be kept, a folder that cannot be written to.
pub(in crate::workspace) fn write(
    path: &Path,
    bytes: &[u8],
    old: Option<&Snapshot>,
) -> Result<Note, DiskError> {
    let (folder, name) = parent_and_name(path).ok_or(DiskError::IsFolder)?;
    if let Some(old) = old
        && old.mode & 0o222 == 0
    {
        return Err(DiskError::Io("is read-only: change its mode first if it is meant to be edited".into()));
    }
    let folder = open_folder(folder).map_err(link_error)?;
    let Some(old) = old else {
        create(&folder, name, bytes)?;
        return Ok(Note::default());
    };
    if old.links > 1 {
        in_place(&folder, name, bytes, old)?;
        return Ok(Note { other_names: old.links - 1 });
    }
    match replace(&folder, name, bytes, old) {
        Err(Replace::CannotKeep) => in_place(&folder, name, bytes, old)?,
        Err(Replace::Failed(e)) => return Err(e),
        Ok(()) => {}
    }
    Ok(Note::default())
}

enum Replace {
    /// A new file could not take this one's place as it is.
    CannotKeep,
    Failed(DiskError),
}
impl<E: Into<DiskError>> From<E> for Replace {
    fn from(e: E) -> Self {
        Replace::Failed(e.into())
    }
}

/// A new file beside the target; removed when it is dropped without having been moved.
struct Temp<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    moved: bool,
}

impl<'a> Temp<'a> {
    fn new(folder: &'a OwnedFd, bytes: &[u8], mode: Mode) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = format!(".hermes-{}.tmp", uuid::Uuid::now_v7().simple());
        let file = File::from(fs::openat(folder, name.as_str(), flags, mode)?);
        let mut temp = Temp { folder, name, file, moved: false };
        let written = temp.file.write_all(bytes).and_then(|()| temp.file.sync_all());
        written.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        Ok(temp)
    }
}
impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.moved {
            let _ = fs::unlinkat(self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

fn create(folder: &OwnedFd, name: &std::ffi::OsStr, bytes: &[u8]) -> Result<(), DiskError> {
    let taken = || DiskError::Changed("it has been created meanwhile".into());
    // The umask of the person decides the mode, as for any file that a program creates.
    let mut temp = Temp::new(folder, bytes, Mode::from_raw_mode(0o666))?;
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::RenameFlags;
        match fs::renameat_with(folder, temp.name.as_str(), folder, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                temp.moved = true;
                return Ok(());
            }
            Err(Errno::EXIST) => return Err(taken()),
            // Some file systems cannot; a link cannot replace either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(e) => return Err(e.into()),
        }
    }
    match fs::linkat(folder, temp.name.as_str(), folder, name, AtFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(taken()),
        Err(_) if fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
            fs::renameat(folder, temp.name.as_str(), folder, name)?;
            temp.moved = true;
            Ok(())
        }
        Err(_) => Err(taken()),
    }
}

fn replace(folder: &OwnedFd, name: &std::ffi::OsStr, bytes: &[u8], old: &Snapshot) -> Result<(), Replace> {
    let mut temp = match Temp::new(folder, bytes, Mode::from_raw_mode(0o600)) {
        Ok(temp) => temp,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Err(Replace::CannotKeep),
        Err(e) => return Err(e.into()),
    };
    let new = fs::fstat(&temp.file)?;
    if (new.st_uid, new.st_gid) != (old.uid, old.gid) {
        let owner = fs::fchown(&temp.file, Some(Uid::from_raw(old.uid)), Some(Gid::from_raw(old.gid)));
        if owner.is_err() {
            return Err(Replace::CannotKeep);
        }
    }
    // After the owner: changing that clears set-user-id bits.
    #[allow(clippy::unnecessary_cast)] // 16 bits on macOS
    fs::fchmod(&temp.file, Mode::from_raw_mode(old.mode as fs::RawMode))?;
    if !copy_attributes(folder, name, &temp.file) {
        return Err(Replace::CannotKeep);
    }
    check(folder, name, old)?;
    fs::renameat(folder, temp.name.as_str(), folder, name)?;
    temp.moved = true;
    Ok(())
}

/// Refuses when another version is there than `old`.
fn check(folder: &OwnedFd, name: &std::ffi::OsStr, old: &Snapshot) -> Result<(), DiskError> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if Stamp::of(&stat) == old.stamp => Ok(()),
        Ok(_) => Err(DiskError::Changed("it was written to in this moment by another program".into())),
        Err(Errno::NOENT) => Err(DiskError::Changed("it has been deleted".into())),
        Err(e) => Err(e.into()),
    }
}

fn in_place(folder: &OwnedFd, name: &std::ffi::OsStr, bytes: &[u8], old: &Snapshot) -> Result<(), DiskError> {
    check(folder, name, old)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::from(fs::openat(folder, name, flags, Mode::empty()).map_err(link_error)?);
    let put = |file: &mut File, bytes: &[u8]| -> std::io::Result<()> {
        std::io::Seek::rewind(file)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    put(&mut file, bytes).map_err(|e| {
        // A full disk must not leave half a file: the old bytes fit a moment ago.
        let restored = put(&mut file, &old.bytes).is_ok();
        let end = if restored { "nothing was changed" } else { "the file may be damaged" };
        DiskError::Io(format!("{e}; {end}"))
    })
}

/// Copies access lists and other extended attributes; `false` where one cannot be kept.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn copy_attributes(folder: &OwnedFd, name: &std::ffi::OsStr, to: &File) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(from) = fs::openat(folder, name, flags, Mode::empty()) else { return false };
    let mut names = vec![0u8; 16 * 1024];
    let Ok(len) = fs::flistxattr(&from, &mut names[..]) else { return true };
    let mut value = vec![0u8; 64 * 1024];
    for key in names[..len].split(|b| *b == 0).filter(|k| !k.is_empty()) {
        // The system labels new files itself.
        if key.starts_with(b"security.") || key == b"com.apple.provenance" {
            continue;
        }
        let Ok(size) = fs::fgetxattr(&from, key, &mut value[..]) else { return false };
        if fs::fsetxattr(to, key, &value[..size], fs::XattrFlags::empty()).is_err() {
            return false;
        }
    }
    true
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn copy_attributes(_: &OwnedFd, _: &std::ffi::OsStr, _: &File) -> bool {
    true
}

/// Gives a file back its mode, where an editor's way to save has lost it.
pub(in crate::workspace) fn set_mode(path: &Path, mode: u32) -> Result<(), DiskError> {
    let (folder, name) = parent_and_name(path).ok_or(DiskError::IsFolder)?;
    let folder = open_folder(folder).map_err(link_error)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::openat(&folder, name, flags, Mode::empty()).map_err(link_error)?;
    #[allow(clippy::unnecessary_cast)] // 16 bits on macOS
    Ok(fs::fchmod(&file, Mode::from_raw_mode(mode as fs::RawMode))?)
}

/// Puts a deleted file back, with its mode.
pub(in crate::workspace) fn restore(path: &Path, old: &Snapshot) -> Result<(), DiskError> {
    let (folder, name) = parent_and_name(path).ok_or(DiskError::IsFolder)?;
    let folder = open_folder(folder).map_err(link_error)?;
    create(&folder, name, &old.bytes)?;
    let file = fs::openat(&folder, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    let _ = fs::fchown(&file, Some(Uid::from_raw(old.uid)), Some(Gid::from_raw(old.gid)));
    #[allow(clippy::unnecessary_cast)] // 16 bits on macOS
    fs::fchmod(&file, Mode::from_raw_mode(old.mode as fs::RawMode))?;
    Ok(())
}

/// Deletes the version `old`.
pub(in crate::workspace) fn delete(path: &Path, old: &Snapshot) -> Result<(), DiskError> {
    let (folder, name) = parent_and_name(path).ok_or(DiskError::IsFolder)?;
    let folder = open_folder(folder).map_err(link_error)?;
    check(&folder, name, old)?;
    Ok(fs::unlinkat(&folder, name, AtFlags::empty())?)
}

/// Moves the version `old`. Never replaces another file; a change of case alone is a move like any other.
pub(in crate::workspace) fn rename(from: &Path, to: &Path, old: &Snapshot) -> Result<(), DiskError> {
    let (from_folder, from_name) = parent_and_name(from).ok_or(DiskError::IsFolder)?;
    let (to_folder, to_name) = parent_and_name(to).ok_or(DiskError::IsFolder)?;
    let from_folder = open_folder(from_folder).map_err(link_error)?;
    let to_folder = open_folder(to_folder).map_err(link_error)?;
    check(&from_folder, from_name, old)?;
    if let Ok(there) = fs::statat(&to_folder, to_name, AtFlags::SYMLINK_NOFOLLOW) {
        let there = Stamp::of(&there);
        let same = (there.device, there.inode) == (old.stamp.device, old.stamp.inode);
        // On a disk that folds case the new name finds the file itself; two hard links are two names of one file.
        if !same || old.links > 1 {
            return Err(DiskError::Changed("there is already a file of that name".into()));
        }
        return Ok(fs::renameat(&from_folder, from_name, &to_folder, to_name)?);
    }
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    match fs::renameat_with(&from_folder, from_name, &to_folder, to_name, fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        Err(Errno::EXIST) => return Err(DiskError::Changed("there is already a file of that name".into())),
        other => return Ok(other?),
    }
    Ok(fs::renameat(&from_folder, from_name, &to_folder, to_name)?)
}

/// Creates the folders that lead to a file, following no link; returns those that were missing, outermost first.
pub(in crate::workspace) fn create_parents(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let Some(parent) = path.parent() else { return Ok(Vec::new()) };
    let missing: Vec<&Path> = parent.ancestors().take_while(|p| p.symlink_metadata().is_err()).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        let made_one = parent_and_name(folder).ok_or(Errno::INVAL).and_then(|(above, name)| {
            let above = open_folder(above)?;
            fs::mkdirat(&above, name, Mode::from_raw_mode(0o777))
        });
        match made_one {
            Ok(()) => made.push(folder.to_path_buf()),
            Err(Errno::EXIST) => {}
            Err(e) => {
                remove_folders(&made);
                return Err(link_error(e));
            }
        }
    }
    Ok(made)
}
