//! What was last seen of each file: on both sides, and by the model (invariant I16).
//!
//! Where the editor's text and the disk's differ, the pair seen before tells why: only the editor's changed → unsaved work,
//! the buffer is the truth; only the disk's changed → the buffer is stale, the disk is the truth; both changed, and the
//! disk does not hold what was seen in the buffer → nobody can tell, and nothing is written. Texts are compared in canonical form (decoded, no byte-order
//! mark, LF), since editors normalise.
use super::{
    editor::{EditorSide, Sides},
    text::Text,
};
use crate::effects::{Change, WsPath};
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

type Digest = [u8; 32];

fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

/// Which side holds the text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    /// There is none on either side.
    Missing,
    /// Both sides say the same, or there is only the disk's.
    Clean,
    /// The editor has unsaved work.
    Buffer,
    /// The editor has not noticed that the file changed.
    Disk,
    /// Unsaved work in the editor, and another change on disk.
    Conflict,
}

/// One look at both sides.
#[derive(Clone, Debug)]
struct Pair {
    editor: Option<Digest>,
    disk: Option<Digest>,
    truth: Truth,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    pair: Option<Pair>,
    /// The text that the model last saw or wrote. `Some(None)`: it knows that there is no file.
    seen: Option<Option<Digest>>,
    dirty: Option<(WsPath, Text)>,
}

/// A file as it is now, judged by what was seen before.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub text: Option<Text>,
    pub truth: Truth,
    pub sides: Sides,
}

/// How far the stamp of a file may lie behind the clock: Linux takes that of its last tick (up to 10 ms), FAT counts two
/// seconds.
const STAMPS: Duration = Duration::from_secs(2);

/// What one session has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    files: Mutex<HashMap<PathBuf, Entry>>,
    first_command: Mutex<Option<SystemTime>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of another holder leaves data that is valid at every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    /// A command is about to run: from now on the disk may change without the editor knowing.
    pub fn command_starts(&self) {
        lock(&self.first_command).get_or_insert_with(SystemTime::now);
    }

    /// Judges a look at both sides, and remembers it.
    pub fn judge(&self, path: &WsPath, sides: Sides) -> Now {
        let mut files = lock(&self.files);
        let entry = files.entry(path.real().to_path_buf()).or_default();
        let disk = sides.disk_text().map(|t| digest(&t.canonical()));
        let buffer = match &sides.editor {
            EditorSide::Text(text) => Some(Text::from_editor(text.clone())),
            _ => None,
        };
        let editor = buffer.as_ref().map(|t| digest(&t.canonical()));
        let truth = match (editor, disk) {
            (None, None) => Truth::Missing,
            (None, Some(_)) => Truth::Clean,
            (Some(e), Some(d)) if e == d => Truth::Clean,
            _ => self.differ(entry.pair.as_ref(), editor, disk, &sides),
        };
        entry.pair = Some(Pair { editor, disk, truth });
        let text = match truth {
            Truth::Missing => None,
            Truth::Clean | Truth::Disk => sides.disk_text().cloned(),
            // The disk's encoding stays the file's, also while its text is ahead in the editor.
            Truth::Buffer | Truth::Conflict => buffer.map(|b| adopt(b, sides.disk_text())),
        };
        entry.dirty = match (truth, &text) {
            (Truth::Buffer | Truth::Conflict, Some(text)) => Some((path.clone(), text.clone())),
            _ => None,
        };
        Now { text, truth, sides }
    }

    fn differ(
        &self,
        before: Option<&Pair>,
        editor: Option<Digest>,
        disk: Option<Digest>,
        sides: &Sides,
    ) -> Truth {
        let Some(before) = before else {
            // Never seen: unsaved work, unless a command of this session wrote the file.
            let written = sides.snapshot().and_then(|s| s.stamp.modified());
            let since = lock(&self.first_command).and_then(|first| first.checked_sub(STAMPS));
            let ours = since.zip(written).is_some_and(|(since, at)| at >= since);
            return if ours { Truth::Conflict } else { Truth::Buffer };
        };
        match (editor == before.editor, disk == before.disk, before.truth) {
            (true, true, Truth::Clean | Truth::Missing) => Truth::Buffer,
            (true, true, truth) => truth,
            (_, _, Truth::Conflict) => Truth::Conflict,
            (true, false, Truth::Buffer) => Truth::Conflict,
            (true, false, _) => Truth::Disk,
            (false, true, Truth::Disk) => Truth::Conflict,
            (false, true, _) => Truth::Buffer,
            // The person saved what was seen in the buffer, and typed on. Anything else on the disk may be somebody else's.
            (false, false, _) if disk == before.editor => Truth::Buffer,
            (false, false, _) => Truth::Conflict,
        }
    }

    /// The model has now seen this text (`None`: that there is no file).
    pub fn saw(&self, path: &WsPath, text: Option<&Text>) {
        let mut files = lock(&self.files);
        let entry = files.entry(path.real().to_path_buf()).or_default();
        entry.seen = Some(text.map(|t| digest(&t.canonical())));
    }

    /// A write ended in a way that is not known: nothing that was seen of the file holds.
    pub fn forget(&self, path: &Path) {
        lock(&self.files).remove(path);
    }

    /// Remembers both sides right after our own write of `new`, and what is there now. `through_editor`: which side was
    /// written.
    pub fn wrote(&self, path: &WsPath, sides: Sides, new: &Text, through_editor: bool) -> Now {
        let mut now = self.judge(path, sides);
        if matches!(now.truth, Truth::Buffer | Truth::Disk | Truth::Conflict) {
            let wanted = new.canonical();
            let buffer = match &now.sides.editor {
                EditorSide::Text(text) => Some(Text::from_editor(text.clone())),
                _ => None,
            };
            let in_buffer = buffer.as_ref().is_some_and(|b| b.canonical() == wanted);
            let on_disk = now.sides.disk_text().is_some_and(|d| d.canonical() == wanted);
            // Not saved yet, or formatted and not saved; else its buffer has not noticed the write.
            let truth = if through_editor && (in_buffer || !on_disk) { Truth::Buffer } else { Truth::Disk };
            now.text = match truth {
                Truth::Buffer => buffer.map(|b| adopt(b, Some(new))),
                _ => now.sides.disk_text().cloned(),
            };
            now.truth = truth;
            if let Some(entry) = lock(&self.files).get_mut(path.real()) {
                if let Some(pair) = &mut entry.pair {
                    pair.truth = truth;
                }
                entry.dirty = match (truth, &now.text) {
                    (Truth::Buffer, Some(text)) => Some((path.clone(), text.clone())),
                    _ => None,
                };
            }
        }
        self.saw(path, now.text.as_ref());
        now
    }

    /// Whether the model saw the file, and whether that text is still there.
    pub fn compare(&self, path: &WsPath, now: &Now) -> super::Freshness {
        let seen = lock(&self.files).get(path.real()).and_then(|e| e.seen);
        let Some(seen) = seen else { return super::Freshness::NeverSeen };
        let text = now.text.as_ref().map(|t| digest(&t.canonical()));
        if seen == text {
            return super::Freshness::Unchanged;
        }
        super::Freshness::Changed(describe(seen.is_some(), now))
    }

    /// Whether the text on disk is neither what was last found there nor what the model saw.
    pub fn disk_changed(&self, path: &WsPath, disk: Option<&Text>) -> bool {
        let now = disk.map(|t| digest(&t.canonical()));
        let files = lock(&self.files);
        let Some(entry) = files.get(path.real()) else { return false };
        entry.seen.is_some_and(|seen| seen != now) && entry.pair.as_ref().is_none_or(|pair| pair.disk != now)
    }

    /// Whether the model saw the file at all.
    pub fn is_seen(&self, path: &Path) -> bool {
        lock(&self.files).get(path).is_some_and(|e| e.seen.is_some())
    }

    /// The files that the model saw.
    pub fn files(&self) -> Vec<PathBuf> {
        lock(&self.files).iter().filter(|(_, e)| e.seen.is_some()).map(|(path, _)| path.clone()).collect()
    }

    pub fn dirty(&self) -> Vec<(WsPath, Text)> {
        lock(&self.files).values().filter_map(|e| e.dirty.clone()).collect()
    }
}

/// What happened to a file, in a few words for the model.
fn describe(existed: bool, now: &Now) -> String {
    match (&now.text, now.truth) {
        (None, _) => "it has been deleted".into(),
        (Some(_), _) if !existed => "it has been created meanwhile".into(),
        (_, Truth::Buffer) => "its text in the editor is another one (unsaved changes)".into(),
        (_, Truth::Conflict) => CONFLICT.into(),
        _ => "its text on disk is another one".into(),
    }
}

pub(super) const CONFLICT: &str = "it has unsaved changes in the editor and was also changed on disk, so neither can be \
     written without losing the other; the person has to save or reload it in the editor";

/// The editor's text as a text of this file: in its encoding, and with its line endings where the editor normalised them.
pub(super) fn adopt(buffer: Text, disk: Option<&Text>) -> Text {
    match disk {
        Some(disk) if disk.content().contains('\r') && !buffer.content().contains('\r') => {
            disk.rewrite(buffer.content())
        }
        Some(disk) => disk.with_content(buffer.content()),
        None => buffer,
    }
}

static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// Locks files for the length of a read-modify-write, in one order for all, also between sessions.
pub(super) async fn lock_paths(paths: &[&Path]) -> Vec<tokio::sync::OwnedMutexGuard<()>> {
    let mut paths: Vec<&Path> = paths.to_vec();
    paths.sort_unstable();
    paths.dedup();
    let locks: Vec<_> = {
        let mut table = lock(&LOCKS);
        table.retain(|_, weak| weak.strong_count() > 0);
        let get = |path: &&Path| match table.get(*path).and_then(Weak::upgrade) {
            Some(lock) => lock,
            None => {
                let lock = Arc::new(tokio::sync::Mutex::new(()));
                table.insert(path.to_path_buf(), Arc::downgrade(&lock));
                lock
            }
        };
        paths.iter().map(get).collect()
    };
    let mut held = Vec::new();
    for lock in locks {
        held.push(lock.lock_owned().await);
    }
    held
}

/// Lines around a change that count as part of its hunk: what a diff shows of the neighbourhood.
const CONTEXT: usize = 3;

/// Carries a change over to the text that is there now, where that differs from the planned `old` only outside the
/// change's hunks (their context lines included). `None`: something inside changed, or the change is not of one text.
pub fn rebase(change: &Change, now: &Text) -> Option<Change> {
    let Change::Write { path, old: Some(old), new } = change else { return None };
    let (old_text, new_text, now_text) = (old.content(), new.content(), now.content());
    let ours = edits(old_text, new_text);
    let theirs = edits(old_text, now_text);
    let near = |a: &Edit<'_>, b: &Edit<'_>| {
        a.at.start.saturating_sub(CONTEXT) < b.at.end.max(b.at.start + 1)
            && b.at.start < a.at.end.saturating_add(CONTEXT)
    };
    if ours.iter().any(|a| theirs.iter().any(|b| near(a, b))) {
        return None;
    }
    let mut all: Vec<Edit<'_>> = ours.into_iter().chain(theirs).collect();
    all.sort_by_key(|e| e.at.start);
    let lines: Vec<&str> = old_text.split_inclusive('\n').collect();
    let mut merged = String::with_capacity(new_text.len().max(now_text.len()));
    let mut from = 0;
    for edit in &all {
        merged.extend(lines.get(from..edit.at.start)?.iter().copied());
        merged.push_str(edit.with);
        from = edit.at.end;
    }
    merged.extend(lines.get(from..)?.iter().copied());
    Some(Change::Write { path: path.clone(), old: Some(now.clone()), new: now.with_content(merged) })
}

/// Lines of the old text, and what stands in their place.
struct Edit<'a> {
    at: Range<usize>,
    with: &'a str,
}

fn edits<'a>(old: &str, new: &'a str) -> Vec<Edit<'a>> {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let mut starts = vec![0];
    for line in &new_lines {
        starts.push(starts.last().copied().unwrap_or(0) + line.len());
    }
    similar::capture_diff_slices(similar::Algorithm::Myers, &old_lines, &new_lines)
        .into_iter()
        .filter(|op| op.tag() != similar::DiffTag::Equal)
        .map(|op| Edit {
            at: op.old_range(),
            with: &new[starts[op.new_range().start]..starts[op.new_range().end]],
        })
        .collect()
}

#[cfg(test)]
mod tests;
