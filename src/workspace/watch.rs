//! A hint which files changed outside: marks, set by a thread of the watcher. What counts is always read again.
//!
//! Only the folders of files that the model saw are watched, each by itself; the watcher starts with the first of them.
use super::freshness::lock;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// As many folders are watched; the rest is found out when it is read again.
const FOLDERS: usize = 512;
/// As many marks are kept.
const MARKS: usize = 4096;

/// The watched folders of one session.
#[derive(Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    marks: Arc<Mutex<HashSet<PathBuf>>>,
}

#[derive(Default)]
enum State {
    #[default]
    NotStarted,
    /// The system has no watcher for us (a limit, a network disk).
    Unavailable,
    Watching {
        watcher: RecommendedWatcher,
        folders: HashSet<PathBuf>,
    },
}

impl Watch {
    /// The model has seen this file (canonical path).
    pub fn add(&self, file: &Path) {
        let Some(folder) = file.parent() else { return };
        let mut state = lock(&self.state);
        if matches!(*state, State::NotStarted) {
            *state = match notify::recommended_watcher(marking(self.marks.clone())) {
                Ok(watcher) => State::Watching { watcher, folders: HashSet::new() },
                Err(_) => State::Unavailable,
            };
        }
        let State::Watching { watcher, folders } = &mut *state else { return };
        if folders.len() < FOLDERS && !folders.contains(folder) {
            // A folder that is gone in this moment is no loss: its files are read again anyway.
            let _ = watcher.watch(folder, RecursiveMode::NonRecursive);
            folders.insert(folder.to_path_buf());
        }
    }

    /// What may have changed since the last call, our own writes included.
    pub fn take(&self) -> HashSet<PathBuf> {
        std::mem::take(&mut lock(&self.marks))
    }
}

/// What the watcher's thread does: mark.
fn marking(marks: Arc<Mutex<HashSet<PathBuf>>>) -> impl FnMut(notify::Result<notify::Event>) {
    move |event| {
        let Ok(event) = event else { return };
        if event.kind.is_access() {
            return;
        }
        let mut marks = lock(&marks);
        for path in event.paths {
            if marks.len() < MARKS {
                marks.insert(path);
            }
        }
    }
}
