//! What holds of every patch, for the tests and the fuzz target `patch`.
use super::{PatchError, VirtualChange, parse, simulate, touched};
use crate::workspace::text::Text;
use std::collections::BTreeMap;

pub(super) type Tree = BTreeMap<String, Text>;

pub(super) fn run(patch: &str, files: &Tree) -> Result<Vec<VirtualChange>, PatchError> {
    let ops = parse(patch)?;
    let known = touched(&ops);
    simulate(&ops, &|path: &str| {
        assert!(known.contains(&path), "{path} was not announced");
        Ok::<_, String>(files.get(path).cloned())
    })
}

/// Writes the changes as a disk would, in order.
pub(super) fn written(changes: &[VirtualChange], files: &Tree) -> Tree {
    let mut tree = files.clone();
    for change in changes {
        match change {
            VirtualChange::Write { path, old, new } => {
                assert_eq!(tree.get(path), old.as_ref(), "{path}");
                tree.insert(path.clone(), new.clone());
            }
            VirtualChange::Delete { path, old } => assert_eq!(tree.remove(path).as_ref(), Some(old)),
            VirtualChange::Move { from, to, old, new } => {
                assert_eq!(tree.remove(from).as_ref(), Some(old));
                tree.insert(to.clone(), new.clone());
            }
        }
    }
    tree
}

/// `bytes`: a patch and the files `a`, `b` and `c`, with NULs between. It is refused in words, or its changes can be written
/// one after the other.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let all = String::from_utf8_lossy(bytes);
    let mut parts = all.split('\0');
    let patch = parts.next().unwrap_or_default();
    let files: Tree =
        ["a", "b", "c"].iter().zip(parts).map(|(n, t)| ((*n).to_owned(), Text::new_utf8(t))).collect();
    match run(patch, &files) {
        Ok(changes) => {
            assert!(!changes.is_empty());
            written(&changes, &files);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
