use super::*;
use rustix::fs;

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("a");
    (dir, path)
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let mut all: Vec<_> = entries.flatten().map(|e| e.file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Whoever was faster wins, and nothing of ours is left.
#[test]
fn another_version_is_never_replaced() {
    let (_dir, path) = place();
    std::fs::write(&path, "one").unwrap();
    let old = read(&path, 100).unwrap().unwrap();
    std::fs::write(&path, "other").unwrap();
    let to = path.with_file_name("b");
    let results = [
        write(&path, b"two", Some(&old)).map(|_| ()),
        write(&path, b"two", None).map(|_| ()),
        delete(&path, &old),
        rename(&path, &to, &old),
    ];
    for result in results {
        assert!(matches!(result, Err(DiskError::Changed(_))), "{result:?}");
    }
    assert_eq!(
        (std::fs::read_to_string(&path).unwrap().as_str(), names(&path)),
        ("other", vec!["a".to_owned()])
    );
    let now = read(&path, 100).unwrap().unwrap();
    std::fs::write(&to, "taken").unwrap();
    assert!(matches!(rename(&path, &to, &now), Err(DiskError::Changed(_))));
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "taken");
}

#[test]
fn reads_are_bounded() {
    let (_dir, path) = place();
    std::fs::write(&path, "0123456789").unwrap();
    assert_eq!(read(&path, 10).unwrap().unwrap().bytes.len(), 10);
    assert!(matches!(read(&path, 9), Err(DiskError::NotText(_))));
    assert!(read(&path.join("below"), 9).unwrap().is_none());
    assert!(read(&path.with_file_name("none"), 9).unwrap().is_none());
    // It says that it is empty, and never ends.
    #[cfg(target_os = "linux")]
    {
        let endless = format!("/proc/{}/status", std::process::id());
        assert!(matches!(read(Path::new(&endless), 10), Err(DiskError::NotText(_))));
    }
}

#[test]
fn in_place_writes_shorten_and_keep_the_inode() {
    use std::os::unix::fs::MetadataExt;
    let (_dir, path) = place();
    std::fs::write(&path, "a long text").unwrap();
    std::fs::hard_link(&path, path.with_file_name("b")).unwrap();
    let before = path.metadata().unwrap().ino();
    let old = read(&path, 100).unwrap().unwrap();
    assert_eq!(write(&path, b"short", Some(&old)).unwrap().other_names, 1);
    assert_eq!(std::fs::read_to_string(path.with_file_name("b")).unwrap(), "short");
    assert_eq!(
        (path.metadata().unwrap().ino(), names(&path)),
        (before, vec!["a".to_owned(), "b".to_owned()])
    );
}

#[test]
#[cfg(target_os = "linux")]
fn extended_attributes_are_kept() {
    let (_dir, path) = place();
    std::fs::write(&path, "one").unwrap();
    if fs::setxattr(&path, "user.note", b"kept", fs::XattrFlags::empty()).is_err() {
        eprintln!("skipped: this file system has no extended attributes");
        return;
    }
    let old = read(&path, 100).unwrap().unwrap();
    write(&path, b"two", Some(&old)).unwrap();
    let mut value = [0u8; 16];
    let size = fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..size], b"kept");
}

#[test]
fn folders_are_made_and_taken_back_while_empty() {
    let (_dir, path) = place();
    let deep = path.join("b/c");
    let made = create_parents(&deep).unwrap();
    assert_eq!(made, [path.clone(), path.join("b")]);
    assert!(create_parents(&deep).unwrap().is_empty());
    std::fs::write(path.join("file"), "").unwrap();
    remove_folders(&made);
    assert!(path.exists() && !path.join("b").exists());
    assert!(create_parents(&path.join("file/x/y")).is_err());
}
