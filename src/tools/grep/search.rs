//! The search itself: files in order, a batch at a time over all cores, until there is enough.
use super::super::{
    ToolError,
    blocking::Stop,
    display,
    walk::{self, Base},
};
use crate::workspace::text::Text;
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, LineIter, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use std::{collections::HashMap, io, path::PathBuf};

/// The most matching lines (or files, where only those are wanted) in one result.
pub(super) const MATCHES: usize = 200;
/// Files in one batch.
const BATCH: usize = 512;
/// The most characters shown of a line.
const WIDTH: usize = 400;

/// What is searched for.
pub(super) struct Query {
    matcher: RegexMatcher,
    multi_line: bool,
    context: usize,
    files_only: bool,
}

/// A whole search.
pub(super) struct Search {
    pub query: Query,
    pub include: Option<GlobMatcher>,
    pub hidden: bool,
    /// Text of the editor that is not on disk yet, by path.
    pub dirty: HashMap<PathBuf, Text>,
    pub bases: Vec<Base>,
}

/// What was found, in the order of the walk.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub files: Vec<FileHits>,
    /// How many files were looked into.
    pub searched: usize,
    /// Whether it ended before everything was searched.
    pub more: bool,
}

#[derive(Debug, Default)]
pub(super) struct FileHits {
    pub path: PathBuf,
    /// Which of the search's bases it is under.
    pub base: usize,
    pub lines: Vec<HitLine>,
    pub matches: usize,
}

#[derive(Debug)]
pub(super) struct HitLine {
    pub number: u64,
    pub matched: bool,
    pub text: String,
}

impl Query {
    pub(super) fn new(
        pattern: &str,
        literal: bool,
        ignore_case: bool,
        context: usize,
        files_only: bool,
    ) -> Result<Self, ToolError> {
        if pattern.is_empty() {
            return Err(ToolError::BadArguments("the pattern is empty: use `glob` to list files".into()));
        }
        let multi_line = pattern.contains('\n') || (!literal && pattern.contains("\\n"));
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(ignore_case)
            .fixed_strings(literal)
            .multi_line(true)
            .crlf(!multi_line)
            .size_limit(10 << 20)
            .dfa_size_limit(10 << 20);
        if !multi_line {
            builder.line_terminator(Some(b'\n'));
        }
        let matcher = builder.build(pattern).map_err(|e| {
            let text = e.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").trim();
            ToolError::BadArguments(format!(
                "the pattern is not a valid regular expression: {}. Escape special characters with a backslash, or set \
                 `literal` to search for it as it stands",
                display::one_line(reason, 200)
            ))
        })?;
        Ok(Query { matcher, multi_line, context, files_only })
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .multi_line(self.multi_line)
            .before_context(if self.files_only { 0 } else { self.context })
            .after_context(if self.files_only { 0 } else { self.context })
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(64 << 20))
            .build()
    }
}

impl Search {
    /// Runs it on this thread and helpers of its own.
    pub(super) fn run(&self, stop: &Stop) -> Found {
        let mut found = Found::default();
        for (base, of) in self.bases.iter().enumerate() {
            let wanted = |file: &PathBuf| match (&self.include, file.strip_prefix(&of.real)) {
                // A file that was named is searched whatever its name is.
                (Some(glob), Ok(rest)) if !rest.as_os_str().is_empty() => glob.is_match(rest),
                _ => true,
            };
            let mut files = walk::files(of, self.hidden, stop).filter(wanted).peekable();
            while files.peek().is_some() {
                let batch: Vec<PathBuf> = files.by_ref().take(BATCH).collect();
                found.searched += batch.len();
                self.batch(base, &batch, stop, &mut found);
                if found.more || stop.is_set() {
                    return found;
                }
            }
        }
        found
    }

    /// Searches a batch on all cores; the result has the batch's order.
    fn batch(&self, base: usize, batch: &[PathBuf], stop: &Stop, found: &mut Found) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let share = batch.len().div_ceil(cores).max(16);
        let parts: Vec<Vec<FileHits>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                batch.chunks(share).map(|part| scope.spawn(move || self.part(base, part, stop))).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_default()).collect()
        });
        let mut room = MATCHES.saturating_sub(self.counted(&found.files));
        for mut file in parts.into_iter().flatten() {
            if room == 0 {
                found.more = true;
                return;
            }
            if self.query.files_only {
                room -= 1;
            } else {
                found.more |= file.matches > room;
                file.keep(room);
                room -= file.matches;
            }
            found.files.push(file);
        }
    }

    fn counted(&self, files: &[FileHits]) -> usize {
        if self.query.files_only { files.len() } else { files.iter().map(|f| f.matches).sum() }
    }

    fn part(&self, base: usize, files: &[PathBuf], stop: &Stop) -> Vec<FileHits> {
        let mut searcher = self.query.searcher();
        let mut hits = Vec::new();
        for path in files {
            if stop.is_set() {
                break;
            }
            if let Some(mut file) = self.file(&mut searcher, path, stop) {
                file.base = base;
                file.path.clone_from(path);
                hits.push(file);
            }
        }
        hits
    }

    /// The hits in one file; `None` where there are none, or it is binary or cannot be read.
    fn file(&self, searcher: &mut Searcher, path: &PathBuf, stop: &Stop) -> Option<FileHits> {
        let mut sink =
            Hits { query: &self.query, stop, file: FileHits::default(), foreign: false, binary: false };
        match self.dirty.get(path) {
            Some(text) => {
                searcher.search_slice(&self.query.matcher, text.content().as_bytes(), &mut sink).ok()?
            }
            None => searcher.search_path(&self.query.matcher, path, &mut sink).ok()?,
        }
        if sink.foreign {
            let text = std::fs::read(path).ok().and_then(|bytes| Text::from_bytes(&bytes).ok())?;
            sink.file = FileHits::default();
            searcher.search_slice(&self.query.matcher, text.content().as_bytes(), &mut sink).ok()?;
        }
        (sink.file.matches > 0 && !sink.binary).then_some(sink.file)
    }
}

impl FileHits {
    /// Drops what is beyond the first `matches` matching lines.
    fn keep(&mut self, matches: usize) {
        if self.matches <= matches {
            return;
        }
        let beyond = self.lines.iter().enumerate().filter(|(_, l)| l.matched).nth(matches).map(|(n, _)| n);
        self.lines.truncate(beyond.unwrap_or(self.lines.len()));
        self.matches = matches;
    }
}

/// Collects the lines of one file.
struct Hits<'a> {
    query: &'a Query,
    stop: &'a Stop,
    file: FileHits,
    /// Whether a line is not UTF-8: the file has a legacy encoding.
    foreign: bool,
    binary: bool,
}

impl Hits<'_> {
    fn push(&mut self, number: u64, bytes: &[u8], matched: bool) {
        let text = String::from_utf8_lossy(bytes);
        self.foreign |= matches!(text, std::borrow::Cow::Owned(_));
        let text = text.trim_end_matches(['\n', '\r']);
        let text = if matched { around(text, &self.query.matcher) } else { display::cut(text, WIDTH) };
        self.file.lines.push(HitLine { number, matched, text });
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.query.files_only {
            self.file.matches += 1;
            return Ok(false);
        }
        let first = found.line_number().unwrap_or(0);
        for (n, line) in LineIter::new(b'\n', found.bytes()).enumerate() {
            self.push(first + n as u64, line, true);
            self.file.matches += 1;
        }
        Ok(self.file.matches <= MATCHES && !self.stop.is_set())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.push(found.line_number().unwrap_or(0), found.bytes(), false);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A long line cut to what is around its match.
fn around(line: &str, matcher: &RegexMatcher) -> String {
    use grep_matcher::Matcher;
    if line.len() <= WIDTH {
        return line.to_owned();
    }
    let at = matcher.find(line.as_bytes()).ok().flatten().map_or(0, |m| m.start());
    let mut from = at.saturating_sub(WIDTH / 3);
    while !line.is_char_boundary(from) {
        from -= 1;
    }
    let start = if from > 0 { "…" } else { "" };
    format!("{start}{}", display::cut(&line[from..], WIDTH))
}
