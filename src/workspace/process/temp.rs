//! The temporary folder of a session's commands. It goes with the session; where the agent was killed, the next one finds
//! that nobody holds it any more, and removes it.
use std::{fs::File, path::Path, sync::Once};
use tempfile::TempDir;

/// Short, since Unix sockets in it have names of at most 108 bytes.
const PREFIX: &str = "hermes-";
/// Locked for as long as the session lives. It has its name only once it is locked.
const OWNER: &str = ".owner";

/// A folder for one session, held.
pub(super) struct Temp {
    folder: TempDir,
    _held: Option<File>,
}

impl Temp {
    /// Makes one in the system's folder for such, and once in this process removes what killed agents left there.
    pub(super) fn new() -> std::io::Result<Temp> {
        static SWEEP: Once = Once::new();
        // On a thread of its own: what is left can be large.
        SWEEP.call_once(|| drop(std::thread::spawn(|| sweep(&std::env::temp_dir()))));
        Temp::within(&std::env::temp_dir())
    }

    fn within(place: &Path) -> std::io::Result<Temp> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // A file system without locks costs the sweep alone.
        let held = hold(folder.path()).ok();
        Ok(Temp { folder, _held: held })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn hold(folder: &Path) -> std::io::Result<File> {
    let unlocked = folder.join(".owner-new");
    let file = File::create_new(&unlocked)?;
    file.try_lock()?;
    std::fs::rename(unlocked, folder.join(OWNER))?;
    Ok(file)
}

/// Removes folders whose holder is gone. Others' cannot be opened or removed, and stay.
fn sweep(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && entry.file_type().is_ok_and(|t| t.is_dir()) && is_left(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left(folder: &Path) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(folder.join(OWNER)) else { return false };
    #[cfg(unix)]
    let own = std::os::unix::fs::MetadataExt::uid(&meta) == rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let own = true;
    own && meta.is_file() && File::open(folder.join(OWNER)).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_swept_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (living, killed) = (Temp::within(place.path()).unwrap(), Temp::within(place.path()).unwrap());
        let left = killed.path().to_owned();
        std::fs::create_dir_all(left.join("a/b")).unwrap();
        // As a kill leaves it: the lock goes, the folder stays.
        let Temp { folder, _held } = killed;
        drop(_held);
        let _ = folder.keep();
        let others = ["hermes-demo-x", "hermes-new", "other"].map(|name| place.path().join(name));
        for other in &others {
            std::fs::create_dir(other).unwrap();
        }
        sweep(place.path());
        assert!(!left.exists() && living.path().join(OWNER).exists() && others.iter().all(|o| o.exists()));
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
