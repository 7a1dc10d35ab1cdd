//! What lies in the roots before and after a command, so that what it changed is known, and can be taken back.
//!
//! A walk over sizes and times, `.gitignore` respected and `.git` never entered, bounded in files and in time. Of small
//! files the content is read too, once for each state of them: only what was read before a command can be put back.
use super::{guard, text::Text};
use ignore::WalkBuilder;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fs::Metadata,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// As many files are looked at.
const FILES: usize = 20_000;
/// So long a walk may take.
const TIME: Duration = Duration::from_millis(250);
/// Content is read of files up to this many bytes,
const SMALL: u64 = 512 << 10;
/// of so many bytes in one walk.
const CONTENT: u64 = 16 << 20;
/// Files that a command only moved or uncovered are named up to this many.
const OLDER: usize = 20;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    /// Kept by a move, which keeps the time of the last change, too.
    created: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, i64, i64),
    mode: u32,
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Stamp {
            size: meta.len(),
            modified: meta.modified().ok(),
            created: meta.created().ok(),
            #[cfg(unix)]
            inode: (meta.ino(), meta.ctime(), meta.ctime_nsec()),
            #[cfg(unix)]
            mode: meta.mode(),
            #[cfg(not(unix))]
            mode: 0,
        }
    }
}

/// The clock that local file systems take their stamps from, which advances by ticks.
#[cfg(target_os = "linux")]
fn clock() -> SystemTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec)) else {
        return SystemTime::now();
    };
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
}
#[cfg(not(target_os = "linux"))]
fn clock() -> SystemTime {
    SystemTime::now()
}

/// The content of a file, by its digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// SHA-256 of the bytes, in hexadecimal.
    pub bytes: String,
    /// SHA-256 of the canonical text: decoded, no byte-order mark, LF. That of the bytes where they are no text.
    pub text: String,
}

impl Content {
    pub fn of(bytes: &[u8]) -> Self {
        let raw = hex(bytes);
        let text = Text::from_bytes(bytes).map_or_else(|_| raw.clone(), |t| hex(t.canonical().as_bytes()));
        Content { bytes: raw, text }
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// What earlier walks read, so that a file that did not change is not read again.
#[derive(Debug, Default)]
pub struct Memory {
    read: HashMap<PathBuf, (Stamp, Content)>,
}

/// The roots at one moment.
#[derive(Debug, Default)]
pub struct Census {
    files: HashMap<PathBuf, (Stamp, Option<Content>)>,
    folders: HashSet<PathBuf>,
    /// Every file was seen.
    complete: bool,
    /// When the walk was over, by the clock of file systems.
    over: Option<SystemTime>,
    /// Contents that were read now, to be kept.
    pub fresh: Vec<Vec<u8>>,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: PathBuf,
    /// `None`: there was no file. `Some(None)`: what was in it is not known.
    pub before: Option<Option<Content>>,
    pub after: Option<Option<Content>>,
    /// Permissions before.
    pub mode: Option<u32>,
    /// Folders that were not there before, the innermost first.
    pub made: Vec<PathBuf>,
}

impl Census {
    /// Walks the roots (canonical paths); `extra`: files to look at besides, ignored ones among them. Blocks.
    pub fn take(roots: &[PathBuf], extra: &[PathBuf], memory: &mut Memory) -> Census {
        let mut census = Census { complete: true, ..Census::default() };
        let (end, mut room) = (Instant::now() + TIME, CONTENT);
        for path in extra {
            census.look(path, memory, &mut room);
        }
        for root in roots {
            let walk = WalkBuilder::new(root)
                .hidden(false)
                .require_git(false)
                .git_global(false)
                .follow_links(false)
                .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
                .build();
            for entry in walk.filter_map(Result::ok) {
                if census.files.len() + census.folders.len() >= FILES || Instant::now() > end {
                    census.complete = false;
                    return census;
                }
                match entry.file_type() {
                    Some(kind) if kind.is_file() => census.look(entry.path(), memory, &mut room),
                    Some(kind) if kind.is_dir() => _ = census.folders.insert(entry.into_path()),
                    _ => {}
                }
            }
        }
        census.over = Some(clock());
        census
    }

    fn look(&mut self, path: &Path, memory: &mut Memory, room: &mut u64) {
        if self.files.contains_key(path) {
            return;
        }
        let Ok(meta) = std::fs::symlink_metadata(path) else { return };
        if !meta.is_file() {
            return;
        }
        let stamp = Stamp::of(&meta);
        let known = memory.read.get(path).filter(|(of, _)| *of == stamp).map(|(_, content)| content.clone());
        // What looks like a secret is not copied anywhere.
        let readable = stamp.size <= SMALL.min(*room) && !guard::is_secret_name(path);
        let content = known.or_else(|| {
            let bytes = readable.then(|| std::fs::read(path).ok()).flatten()?;
            *room = room.saturating_sub(bytes.len() as u64);
            let content = Content::of(&bytes);
            self.fresh.push(bytes);
            memory.read.insert(path.to_owned(), (stamp.clone(), content.clone()));
            Some(content)
        });
        self.files.insert(path.to_owned(), (stamp, content));
    }

    /// What changed from this census to a later one, by path.
    pub fn changes(&self, later: &Census) -> Vec<Changed> {
        let mut out = Vec::new();
        for (path, (stamp, content)) in &self.files {
            let mode = Some(stamp.mode);
            match later.files.get(path) {
                Some((after, _)) if after == stamp => {}
                Some((_, after)) if after.is_some() && after == content => {}
                Some((_, after)) => out.push(Changed {
                    path: path.clone(),
                    before: Some(content.clone()),
                    after: Some(after.clone()),
                    mode,
                    made: vec![],
                }),
                // A walk that broke off did not come to it; whether it is there is asked for itself.
                None if path.symlink_metadata().is_ok_and(|m| m.is_file()) => {}
                // A link or a folder has taken its place.
                None if path.symlink_metadata().is_ok() => out.push(Changed {
                    path: path.clone(),
                    before: Some(content.clone()),
                    after: Some(None),
                    mode,
                    made: vec![],
                }),
                None => out.push(Changed {
                    path: path.clone(),
                    before: Some(content.clone()),
                    after: None,
                    mode,
                    made: vec![],
                }),
            }
        }
        // What a walk that broke off had not seen may have been there before.
        if self.complete {
            let gone: Vec<Content> = out
                .iter()
                .filter(|c: &&Changed| c.after.is_none())
                .filter_map(|c| c.before.clone().flatten())
                .collect();
            let new = later.files.iter().filter(|(path, _)| !self.files.contains_key(*path));
            let mut older = 0;
            out.extend(new.filter_map(|(path, (stamp, content))| {
                let made = self.is_younger(stamp) || content.as_ref().is_some_and(|c| gone.contains(c));
                older += usize::from(!made);
                (made || older <= OLDER).then(|| Changed {
                    path: path.clone(),
                    before: None,
                    after: Some(content.clone().filter(|_| made)),
                    mode: None,
                    made: self.missing_above(path),
                })
            }));
        }
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    /// Whether a file was made since this walk: one that was only moved, or that was ignored before, is older, and may be
    /// all that there is of it.
    fn is_younger(&self, stamp: &Stamp) -> bool {
        let born = stamp.created.or(stamp.modified);
        self.over.zip(born).is_none_or(|(over, born)| born >= over)
    }

    /// The folders above a path that were not there; none where it lies outside of what was walked.
    fn missing_above(&self, path: &Path) -> Vec<PathBuf> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let known = above.iter().position(|folder| self.folders.contains(*folder)).unwrap_or(0);
        above[..known].iter().map(|folder| folder.to_path_buf()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(changes: &[Changed]) -> Vec<String> {
        let name = |c: &Changed| c.path.file_name().unwrap().to_string_lossy().into_owned();
        changes.iter().map(name).collect()
    }

    #[test]
    fn what_changed_is_found_and_what_was_there_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, text) in [
            (".gitignore", "*.log\n"),
            ("a", "one"),
            ("gone", "g"),
            ("x.log", "l"),
            (".env", "KEY=1"),
            ("same", "s"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        fs::create_dir(at(".git")).unwrap();
        fs::write(at(".git/index"), "i").unwrap();
        fs::write(at("big"), vec![b'x'; SMALL as usize + 1]).unwrap();
        let (roots, mut memory) = (vec![dir.path().to_owned()], Memory::default());
        let before = Census::take(&roots, &[], &mut memory);
        assert!(before.complete);
        assert_eq!(before.fresh.len(), 4, "no ignored, secret, large file, nothing of .git");
        for (name, text) in
            [("a", "two"), ("new", "n"), ("x.log", "m"), (".env", "KEY=2"), (".git/index", "j")]
        {
            fs::write(at(name), text).unwrap();
        }
        fs::write(at("big"), vec![b'y'; SMALL as usize + 2]).unwrap();
        fs::remove_file(at("gone")).unwrap();
        fs::write(at("same"), "s").unwrap();
        fs::create_dir_all(at("deep/er")).unwrap();
        fs::write(at("deep/er/z"), "z").unwrap();
        let after = Census::take(&roots, &[], &mut memory);
        let changes = before.changes(&after);
        assert_eq!(names(&changes), [".env", "a", "big", "z", "gone", "new"]);
        assert_eq!((&changes[3].made, &changes[5].made), (&vec![at("deep/er"), at("deep")], &vec![]));
        let known = |text: &str| Some(Some(Content::of(text.as_bytes())));
        assert_eq!((&changes[0].before, &changes[0].after), (&Some(None), &Some(None)));
        assert_eq!((&changes[1].before, &changes[1].after), (&known("one"), &known("two")));
        assert_eq!((&changes[4].before, &changes[4].after), (&known("g"), &None));
        assert_eq!((&changes[5].before, &changes[5].after), (&None, &known("n")));
        assert_eq!(Census::take(&roots, &[], &mut memory).fresh.len(), 0, "nothing is read twice");
    }

    #[test]
    fn an_ignored_file_that_was_seen_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".gitignore"), "out\n").unwrap();
        let out = dir.path().join("out");
        fs::write(&out, "1").unwrap();
        let (roots, mut memory) = (vec![dir.path().to_owned()], Memory::default());
        let before = Census::take(&roots, std::slice::from_ref(&out), &mut memory);
        fs::write(&out, "22").unwrap();
        let after = Census::take(&roots, std::slice::from_ref(&out), &mut memory);
        assert_eq!(names(&before.changes(&after)), ["out"]);
    }

    #[test]
    fn texts_are_compared_without_their_form() {
        let (lf, crlf) = (Content::of(b"a\nb\n"), Content::of(b"\xef\xbb\xbfa\r\nb\r\n"));
        assert_eq!(lf.text, crlf.text);
        assert_ne!(lf.bytes, crlf.bytes);
        let binary = Content::of(b"\0\x01\x02\xff");
        assert_eq!(binary.bytes, binary.text);
    }

    #[test]
    fn what_is_older_than_the_command_is_not_its_work() {
        let root = tempfile::tempdir().unwrap();
        let roots = [root.path().canonicalize().unwrap()];
        let path = |name: &str| roots[0].join(name);
        fs::write(path(".gitignore"), "notes.txt\n").unwrap();
        fs::write(path("notes.txt"), "mine").unwrap();
        fs::write(path("a.txt"), "moved").unwrap();
        fs::write(path("big.txt"), vec![b'x'; (SMALL + 1) as usize]).unwrap();
        fs::write(path("linked.txt"), "behind a link").unwrap();
        let mut memory = Memory::default();
        let mut before = Census::take(&roots, &[], &mut memory);
        // All of this is older, however short the ticks of the clock.
        before.over = Some(SystemTime::now() + Duration::from_secs(60));
        fs::write(path(".gitignore"), "").unwrap();
        fs::rename(path("a.txt"), path("b.txt")).unwrap();
        fs::rename(path("big.txt"), path("big2.txt")).unwrap();
        fs::remove_file(path("linked.txt")).unwrap();
        fs::create_dir(path("linked.txt")).unwrap();
        let after = Census::take(&roots, &[], &mut memory);
        let changes = before.changes(&after);
        // `b.txt` is what stood in `a.txt`; the big file's only copy and the person's notes are left alone.
        let all = [".gitignore", "a.txt", "b.txt", "big.txt", "big2.txt", "linked.txt", "notes.txt"];
        assert_eq!(names(&changes), all);
        let unknown = changes.iter().filter(|c| c.after == Some(None)).cloned().collect::<Vec<_>>();
        assert_eq!(names(&unknown), ["big2.txt", "linked.txt", "notes.txt"]);
        // What was made since is the command's.
        before.over = Some(SystemTime::UNIX_EPOCH);
        let notes = before.changes(&after).pop().unwrap();
        assert_eq!(notes.after, Some(Some(Content::of(b"mine"))));
    }
}
