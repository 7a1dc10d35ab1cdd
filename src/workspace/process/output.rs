//! The output of a command for the model: what a terminal would show in the end, head and tail kept, the whole spilled.
use std::{
    collections::VecDeque,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

/// Kept of the beginning, and of the end, in bytes.
pub(super) const HEAD: usize = 24 * 1024;
pub(super) const TAIL: usize = 24 * 1024;
/// The largest spill file, in bytes.
const SPILL_LIMIT: u64 = 50 * 1024 * 1024;
/// A line longer than this is passed on in pieces, in bytes.
const LINE_LIMIT: usize = 64 * 1024;

/// Collects output in bounded memory.
pub(in crate::workspace) struct Collector {
    screen: Screen,
    kept: Kept,
}

impl Collector {
    /// `spill` is the file that takes the whole when it does not fit; it is created only then.
    pub fn new(spill: PathBuf) -> Self {
        Collector { screen: Screen::default(), kept: Kept::new(spill) }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &mut self.kept;
        self.screen.push(bytes, &mut |text| kept.push(text));
    }

    /// All output is there: the last line counts, ended or not.
    pub fn finish(&mut self) {
        let kept = &mut self.kept;
        self.screen.finish(&mut |text| kept.push(text));
    }

    /// Head and tail, with a note between of what is left out; and the spill file, where there is one.
    pub fn render(&self) -> (String, Option<PathBuf>) {
        (self.kept.render(self.screen.unfinished()), self.kept.spilled())
    }

    /// What came after the first `seen` bytes, as far as it is still kept, and how much there is now.
    pub fn since(&self, seen: u64) -> (String, u64) {
        self.kept.since(seen, self.screen.unfinished())
    }
}

/// Head, tail and spill file of a text.
struct Kept {
    head: String,
    tail: VecDeque<u8>,
    total: u64,
    lines: u64,
    spill: PathBuf,
    file: Option<File>,
    spilled: u64,
}

impl Kept {
    fn new(spill: PathBuf) -> Self {
        Kept { head: String::new(), tail: VecDeque::new(), total: 0, lines: 0, spill, file: None, spilled: 0 }
    }

    fn push(&mut self, text: &str) {
        self.total += text.len() as u64;
        self.lines += text.bytes().filter(|b| *b == b'\n').count() as u64;
        let room = floor(text, HEAD - self.head.len());
        // Once something went to the tail, the head is closed: a shorter character must not slip in behind.
        let room = if self.tail.is_empty() { room } else { 0 };
        let (first, rest) = text.split_at(room);
        self.head.push_str(first);
        if rest.is_empty() {
            return;
        }
        if self.file.is_none() && self.tail.len() + rest.len() > TAIL {
            self.start_spill();
        }
        self.write_spill(rest.as_bytes());
        let bytes = rest.as_bytes();
        self.tail.extend(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
    }

    fn start_spill(&mut self) {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        self.file = options.open(&self.spill).ok();
        let head = std::mem::take(&mut self.head);
        self.write_spill(head.as_bytes());
        self.head = head;
        let tail = std::mem::take(&mut self.tail);
        let (a, b) = tail.as_slices();
        self.write_spill(a);
        self.write_spill(b);
        self.tail = tail;
    }

    fn write_spill(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = usize::try_from(SPILL_LIMIT - self.spilled).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk costs the spilled copy, not the command.
        match file.write_all(&bytes[..room]) {
            Ok(()) => self.spilled += room as u64,
            Err(_) => self.spilled = SPILL_LIMIT,
        }
    }

    fn spilled(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|_| self.spill.clone())
    }

    fn tail_text(&self, skip: usize) -> String {
        let bytes: Vec<u8> = self.tail.iter().skip(skip).copied().collect();
        let start = bytes.iter().position(|b| b & 0xC0 != 0x80).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    fn render(&self, unfinished: &str) -> String {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        if left_out == 0 {
            return format!("{}{}{unfinished}", self.head, self.tail_text(0));
        }
        // Cut at line ends where that costs little.
        let head = match self.head.rfind('\n') {
            Some(end) if end > HEAD / 2 => &self.head[..=end],
            _ => &self.head,
        };
        let tail = self.tail_text(0);
        let tail = match tail.find('\n') {
            Some(end) if end < TAIL / 2 => &tail[end + 1..],
            _ => &tail,
        };
        let out = self.total - (head.len() + tail.len()) as u64;
        let whole = self.spilled().map(|p| whole(&p, self.spilled)).unwrap_or_default();
        let gap = if head.ends_with('\n') { "" } else { "\n" };
        format!(
            "{head}{gap}[… {out} of {} bytes ({} lines in all) are left out here{whole} …]\n{tail}{unfinished}",
            self.total, self.lines
        )
    }

    fn since(&self, seen: u64, unfinished: &str) -> (String, u64) {
        if seen == 0 {
            return (self.render(unfinished), self.total);
        }
        let new = self.total.saturating_sub(seen);
        let in_tail = usize::try_from(new).unwrap_or(usize::MAX);
        let text = if self.tail.is_empty() {
            self.head.get(usize::try_from(seen).unwrap_or(usize::MAX)..).unwrap_or_default().to_owned()
        } else if in_tail <= self.tail.len() {
            self.tail_text(self.tail.len() - in_tail)
        } else {
            format!("[… earlier output is left out …]\n{}", self.tail_text(0))
        };
        (format!("{text}{unfinished}"), self.total)
    }
}

fn whole(path: &Path, size: u64) -> String {
    let cut = if size >= SPILL_LIMIT { ", its beginning," } else { "" };
    format!("; the whole{cut} is in {}", path.display())
}

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// What a terminal would show, line by line: escape sequences and control characters gone, a carriage return overwrites.
#[derive(Default)]
struct Screen {
    line: String,
    /// Where the next character goes, in characters; `None`: behind the last.
    cursor: Option<usize>,
    state: State,
    /// The beginning of a character that is not whole yet.
    partial: Vec<u8>,
}

#[derive(Default, Clone, PartialEq)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC [ …`: the parameters so far.
    Csi(String),
    /// `ESC ] …`, `ESC P …`: until BEL or ESC \. `true`: an ESC was seen in it.
    Until(bool),
    /// `ESC ( B` and the like: one more character.
    Charset,
}

impl Screen {
    fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(&str)) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            self.partial.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.partial);
            &joined
        };
        let mut rest = bytes;
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.text(text, out),
                Err(e) => {
                    let (good, bad) = rest.split_at(e.valid_up_to());
                    self.text(std::str::from_utf8(good).unwrap_or_default(), out);
                    match e.error_len() {
                        Some(len) => {
                            self.text("\u{fffd}", out);
                            rest = &bad[len..];
                        }
                        None => {
                            self.partial = bad.to_vec();
                            return;
                        }
                    }
                }
            }
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(&str)) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text("\u{fffd}", out);
        }
        if !self.line.is_empty() {
            out(&std::mem::take(&mut self.line));
        }
        self.cursor = None;
    }

    fn unfinished(&self) -> &str {
        &self.line
    }

    fn text(&mut self, text: &str, out: &mut dyn FnMut(&str)) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                let plain = rest.find(|c: char| c.is_control() && c != '\t').unwrap_or(rest.len());
                let (shown, tail) = rest.split_at(plain);
                self.put(shown);
                rest = tail;
            }
            if let Some(c) = rest.chars().next() {
                rest = &rest[c.len_utf8()..];
                self.control(c, out);
            }
            if self.line.len() > LINE_LIMIT {
                out(&std::mem::take(&mut self.line));
                self.cursor = None;
            }
        }
    }

    fn put(&mut self, shown: &str) {
        let Some(cursor) = self.cursor else { return self.line.push_str(shown) };
        if shown.is_empty() {
            return;
        }
        let width = shown.chars().count();
        let at = |n: usize| self.line.char_indices().nth(n).map_or(self.line.len(), |(i, _)| i);
        let (from, to) = (at(cursor), at(cursor + width));
        self.line.replace_range(from..to, shown);
        self.cursor =
            (to < self.line.len() || cursor + width < self.line.chars().count()).then_some(cursor + width);
    }

    fn control(&mut self, c: char, out: &mut dyn FnMut(&str)) {
        match std::mem::take(&mut self.state) {
            State::Text => self.plain_control(c, out),
            State::Escape => {
                self.state = match c {
                    '[' => State::Csi(String::new()),
                    ']' | 'P' | 'X' | '^' | '_' => State::Until(false),
                    '(' | ')' | '*' | '+' | '#' | '%' | ' ' => State::Charset,
                    _ => State::Text,
                };
            }
            State::Charset => {}
            State::Csi(mut parameters) => match c {
                '\u{40}'..='\u{7e}' => self.csi(&parameters, c),
                // A line end or an escape inside means that the sequence was broken off.
                '\n' | '\u{1b}' => self.plain_control(c, out),
                _ if parameters.len() < 64 => {
                    parameters.push(c);
                    self.state = State::Csi(parameters);
                }
                _ => {}
            },
            State::Until(escape) => {
                let ends = c == '\u{7}' || c == '\u{9c}' || (escape && c == '\\');
                if !ends {
                    self.state = State::Until(c == '\u{1b}');
                }
            }
        }
    }

    fn plain_control(&mut self, c: char, out: &mut dyn FnMut(&str)) {
        match c {
            '\n' => {
                self.line.push('\n');
                out(&std::mem::take(&mut self.line));
                self.cursor = None;
            }
            '\r' => self.cursor = (!self.line.is_empty()).then_some(0),
            '\u{8}' => {
                let at = self.cursor.unwrap_or_else(|| self.line.chars().count());
                self.cursor = (!self.line.is_empty()).then(|| at.saturating_sub(1));
            }
            '\u{1b}' => self.state = State::Escape,
            _ => {}
        }
    }

    /// Erase in line; every other sequence only moves or colours.
    fn csi(&mut self, parameters: &str, last: char) {
        if last != 'K' {
            return;
        }
        let count = self.line.chars().count();
        let cursor = self.cursor.unwrap_or(count);
        match parameters {
            "" | "0" => {
                let at = self.line.char_indices().nth(cursor).map_or(self.line.len(), |(i, _)| i);
                self.line.truncate(at);
                self.cursor = None;
            }
            "2" => {
                self.line.clear();
                self.cursor = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
