//! Reads the text of a patch, with the usual slips of models: a missing end marker, code fences, a here-document around it,
//! padded markers, blank context lines without their space, CR LF.

use super::PatchError;

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Creates a file, or replaces its text.
    Add {
        /// The path as given.
        path: String,
        /// The text, with LF endings.
        text: String,
    },
    /// Deletes a file.
    Delete {
        /// The path as given.
        path: String,
    },
    /// Changes or moves a file, or both.
    Update {
        /// The path as given.
        path: String,
        /// Where it goes.
        move_to: Option<String>,
        /// The changes, in order.
        hunks: Vec<Hunk>,
    },
}

impl FileOp {
    /// The paths it names, for a caller that resolves them before [`super::simulate`].
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (path, other) = match self {
            FileOp::Add { path, .. } | FileOp::Delete { path } => (path, None),
            FileOp::Update { path, move_to, .. } => (path, move_to.as_mut()),
        };
        std::iter::once(path).chain(other)
    }
}

/// One place to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// The lines named by `@@`, outermost first.
    pub anchors: Vec<String>,
    /// It has a unified-diff header with line numbers.
    pub numbered: bool,
    /// Its lines.
    pub lines: Vec<HunkLine>,
    /// How many blank lines at its end have no prefix: they may be context or mere spacing.
    pub loose: usize,
    /// It ends at the end of the file.
    pub end_of_file: bool,
    /// `\ No newline at end of file` follows its last line.
    pub unterminated: bool,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It stays.
    Context,
    /// It goes.
    Remove,
    /// It is new.
    Add,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// What happens to it.
    pub kind: Kind,
    /// The line without its prefix.
    pub text: String,
    /// A context line as it stands: what it says if its prefix was forgotten.
    pub whole: Option<String>,
}

impl Hunk {
    fn new(line: usize) -> Self {
        Hunk { line, ..Hunk::default() }
    }

    fn is_new(&self) -> bool {
        self.lines.is_empty() && !self.end_of_file
    }
}

enum Marker<'a> {
    Begin,
    End,
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    Move(&'a str),
    EndOfFile,
    Unknown,
}

/// Reads a patch.
///
/// # Errors
/// [`PatchError`] names the line that cannot be read.
pub fn parse(patch: &str) -> Result<Vec<FileOp>, PatchError> {
    let lines: Vec<_> = patch.split('\n').map(|l| l.strip_suffix('\r').unwrap_or(l)).collect();
    let body = envelope(&lines)?;
    let mut reader = Reader { ops: Vec::new(), inside: true, pending_blank: 0, last: body.end };
    for (i, line) in lines.iter().enumerate().take(body.end).skip(body.start) {
        reader.line(i + 1, line, &lines[i + 1..body.end])?;
    }
    reader.finish()
}

/// The lines between which the patch is: from its first marker, without a fence or the end of a here-document after it.
fn envelope(lines: &[&str]) -> Result<std::ops::Range<usize>, PatchError> {
    let begins = |l: &&str| matches!(marker(l.trim()), Some(Marker::Begin));
    let names_file =
        |l: &&str| matches!(marker(l.trim()), Some(Marker::Add(_) | Marker::Update(_) | Marker::Delete(_)));
    let start = lines
        .iter()
        .position(begins)
        .or_else(|| lines.iter().position(names_file))
        .ok_or(PatchError::NoPatch)?;
    let before = &lines[..start];
    let fenced =
        before.iter().any(|l| l.trim_start().starts_with("```") || l.trim_start().starts_with("~~~"));
    let word = before.iter().rev().find_map(|l| l.split_once("<<")).map(|(_, word)| {
        word.trim_start_matches('-').trim().trim_matches(['\'', '"']).split_whitespace().next().unwrap_or("")
    });
    let mut end = lines.len();
    while end > start {
        let line = lines[end - 1].trim();
        let fence = fenced && (line == "```" || line == "~~~");
        let closes = word
            .is_some_and(|w| !w.is_empty() && line.trim_matches(['\'', '"']) == w.trim_matches(['\'', '"']));
        if !(line.is_empty() || fence || closes) {
            break;
        }
        end -= 1;
    }
    Ok(start..end)
}

/// The marker on a line that begins with `***`.
fn marker(line: &str) -> Option<Marker<'_>> {
    let rest = line.trim_end().strip_prefix("*** ")?.trim_start();
    let after = |words: &str| {
        let head = rest.get(..words.len())?;
        head.eq_ignore_ascii_case(words).then(|| unquoted(&rest[words.len()..]))
    };
    let is = |words: &str| rest.eq_ignore_ascii_case(words);
    Some(if is("Begin Patch") {
        Marker::Begin
    } else if is("End Patch") {
        Marker::End
    } else if is("End of File") {
        Marker::EndOfFile
    } else if let Some(path) = after("Add File:") {
        Marker::Add(path)
    } else if let Some(path) = after("Delete File:") {
        Marker::Delete(path)
    } else if let Some(path) = after("Update File:") {
        Marker::Update(path)
    } else if let Some(path) = after("Move to:") {
        Marker::Move(path)
    } else {
        Marker::Unknown
    })
}

fn unquoted(path: &str) -> &str {
    let path = path.trim();
    ['`', '"']
        .into_iter()
        .find_map(|q| path.strip_prefix(q)?.strip_suffix(q).filter(|p| !p.is_empty()))
        .unwrap_or(path)
}

struct Reader {
    ops: Vec<FileOp>,
    /// Between a begin and an end marker.
    inside: bool,
    /// Blank lines of an added file that may turn out to be spacing.
    pending_blank: usize,
    /// The last line of the patch, from 1.
    last: usize,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, following: &[&str]) -> Result<(), PatchError> {
        let in_hunk = matches!(self.ops.last(), Some(FileOp::Update { hunks, .. }) if !hunks.is_empty());
        // Within a hunk a padded marker is a context line, but for the end marker on the very last line.
        let found = if !in_hunk {
            marker(line.trim())
        } else if line.starts_with("***") {
            marker(line)
        } else {
            marker(line.trim()).filter(|m| number == self.last && matches!(m, Marker::End))
        };
        match found {
            Some(found) => self.marker(number, &found),
            None if !self.inside => Ok(()),
            None => self.content(number, line, following),
        }
    }

    fn marker(&mut self, number: usize, marker: &Marker<'_>) -> Result<(), PatchError> {
        let named = |path: &str| {
            let bad =
                PatchError::BadLine { line: number, what: "names no file: put the path after the colon" };
            if path.is_empty() { Err(bad) } else { Ok(path.to_owned()) }
        };
        self.inside = !matches!(marker, Marker::End);
        if !matches!(marker, Marker::Move(_) | Marker::EndOfFile | Marker::Unknown) {
            self.close()?;
        }
        match marker {
            Marker::Begin | Marker::End => {}
            Marker::Add(path) => self.ops.push(FileOp::Add { path: named(path)?, text: String::new() }),
            Marker::Delete(path) => self.ops.push(FileOp::Delete { path: named(path)? }),
            Marker::Update(path) => {
                self.ops.push(FileOp::Update { path: named(path)?, move_to: None, hunks: Vec::new() });
            }
            Marker::Move(path) => match self.ops.last_mut() {
                Some(FileOp::Update { move_to: target @ None, .. }) => *target = Some(named(path)?),
                _ => return Err(PatchError::BadHeader { line: number }),
            },
            Marker::EndOfFile => match self.ops.last_mut() {
                Some(FileOp::Update { hunks, .. }) => {
                    if let Some(hunk) = hunks.last_mut() {
                        hunk.end_of_file = true;
                    }
                }
                Some(FileOp::Add { .. }) => {}
                _ => return Err(PatchError::BadHeader { line: number }),
            },
            Marker::Unknown => return Err(PatchError::BadHeader { line: number }),
        }
        Ok(())
    }

    fn content(&mut self, number: usize, line: &str, following: &[&str]) -> Result<(), PatchError> {
        let wrong = |what| Err(PatchError::BadLine { line: number, what });
        match self.ops.last_mut() {
            None if line.trim().is_empty() => Ok(()),
            None => wrong(
                "stands before the first file: begin with `*** Add File:`, `*** Update File:` or `*** Delete File:`",
            ),
            Some(FileOp::Delete { .. }) if line.trim().is_empty() || line.starts_with(['-', '@']) => Ok(()),
            Some(FileOp::Delete { .. }) => wrong("follows `*** Delete File:`, which takes no lines"),
            Some(FileOp::Add { text, .. }) => {
                if let Some(added) = line.strip_prefix('+') {
                    text.push_str(&"\n".repeat(std::mem::take(&mut self.pending_blank)));
                    text.push_str(added);
                    text.push('\n');
                } else if line.trim().is_empty() {
                    self.pending_blank += 1;
                } else if line.starts_with("\\ No newline") {
                    text.pop();
                } else if !(text.is_empty() && line.starts_with("@@")) {
                    return wrong("belongs to an added file, whose every line must begin with `+`");
                }
                Ok(())
            }
            Some(FileOp::Update { hunks, .. }) => {
                update_line(hunks, number, line, following);
                Ok(())
            }
        }
    }

    /// Ends the file in hand.
    fn close(&mut self) -> Result<(), PatchError> {
        self.pending_blank = 0;
        let Some(FileOp::Update { path, move_to, hunks }) = self.ops.last_mut() else { return Ok(()) };
        for hunk in hunks.iter_mut() {
            let bare = |l: &&HunkLine| l.kind == Kind::Context && l.text.is_empty() && l.whole.is_none();
            hunk.loose = hunk.lines.iter().rev().take_while(bare).count();
        }
        let spacing = |h: &Hunk| h.lines.len() == h.loose && h.anchors.is_empty();
        if hunks.len() > 1 || move_to.is_some() {
            hunks.retain(|h| !spacing(h));
        }
        if move_to.is_none() && hunks.iter().all(spacing) {
            return Err(PatchError::EmptyUpdate { path: path.clone() });
        }
        match hunks.iter().find(|h| h.lines.is_empty()) {
            Some(hunk) => Err(PatchError::BadLine {
                line: hunk.line,
                what: "is an `@@` without lines after it: add lines that begin with ' ', '-' or '+'",
            }),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Vec<FileOp>, PatchError> {
        self.close()?;
        if self.ops.is_empty() { Err(PatchError::Empty) } else { Ok(self.ops) }
    }
}

fn update_line(hunks: &mut Vec<Hunk>, number: usize, line: &str, following: &[&str]) {
    let fresh = hunks.is_empty();
    let header = if fresh { line.trim_start() } else { line };
    if let Some(rest) = header.strip_prefix("@@") {
        if !hunks.last().is_some_and(Hunk::is_new) {
            hunks.push(Hunk::new(number));
        }
        if let Some(hunk) = hunks.last_mut() {
            anchor(hunk, rest.trim());
        }
        return;
    }
    if fresh && (line.trim().is_empty() || is_file_header(line, following)) {
        return;
    }
    if hunks.last().is_none_or(|h| h.end_of_file) {
        if line.trim().is_empty() {
            return;
        }
        hunks.push(Hunk::new(number));
    }
    let Some(hunk) = hunks.last_mut() else { return };
    if line.starts_with("\\ No newline") {
        hunk.unterminated = hunk.lines.last().is_some_and(|l| l.kind != Kind::Remove);
        return;
    }
    hunk.unterminated = false;
    let (kind, text, whole) = match line.as_bytes().first() {
        Some(b'+') => (Kind::Add, &line[1..], None),
        Some(b'-') => (Kind::Remove, &line[1..], None),
        Some(b' ') => (Kind::Context, &line[1..], Some(line.to_owned())),
        _ => (Kind::Context, line, None),
    };
    hunk.lines.push(HunkLine { kind, text: text.to_owned(), whole });
}

/// The `--- a/x` and `+++ b/x` lines of a unified diff, at the head of an update.
fn is_file_header(line: &str, following: &[&str]) -> bool {
    let next = |i: usize, prefix| following.get(i).is_some_and(|l: &&str| l.starts_with(prefix));
    (line.starts_with("--- ") && next(0, "+++ ") && next(1, "@@"))
        || (line.starts_with("+++ ") && next(0, "@@"))
}

/// What follows `@@`: line numbers, which are not trusted, or a line of the file to look behind.
fn anchor(hunk: &mut Hunk, text: &str) {
    if let Some(rest) = text.strip_prefix('-')
        && let Some((old, rest)) = rest.split_once(" +")
    {
        let numbers = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit() || b == b',');
        let new = rest.split_whitespace().next().unwrap_or("");
        if numbers(old.trim()) && numbers(new.trim_end_matches('@')) {
            hunk.numbered = true;
            return;
        }
    }
    let text = text.strip_suffix("@@").unwrap_or(text).trim();
    if !text.is_empty() {
        hunk.anchors.push(text.to_owned());
    }
}
