//! Applies the hunks of one update to the text of its file.

use super::{Hunk, HunkLine, Kind};
use crate::tools::edit::matching::{
    Level, Nearest, Rule, explained, indent, is_blank, line_key, nearest, whole_lines,
};
use crate::workspace::text::{Line, LineEnding, Text, lines};
use std::fmt;
use std::ops::Range;

/// A hunk that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkError {
    /// The file.
    pub path: String,
    /// Which hunk of the update, from 1.
    pub hunk: usize,
    /// How many hunks it has.
    pub of: usize,
    /// The line of the patch where the hunk begins, from 1.
    pub line: usize,
    /// Why.
    pub why: HunkWhy,
}

/// Why a hunk does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkWhy {
    /// Its context and removed lines are nowhere in the file.
    NotFound {
        /// The most similar place, to be shown only.
        nearest: Option<Nearest>,
    },
    /// What it would make is there already.
    AlreadyThere {
        /// The first line, from 1.
        line: usize,
    },
    /// It fits several places.
    Ambiguous {
        /// Their first lines, from 1; the first few.
        lines: Vec<usize>,
        /// How many places there are.
        places: usize,
    },
    /// It only fits where an earlier hunk has been.
    Overlap,
    /// It has nothing but new lines, and the line named by `@@` is not there, or not once.
    NoAnchor {
        /// How often the line is there.
        times: usize,
    },
    /// It has nothing but new lines, and is not the last hunk or has line numbers.
    NoContext,
    /// Its new lines cannot be indented as the file is.
    Outdented,
}

impl std::error::Error for HunkError {}

impl fmt::Display for HunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} of {} for {} (line {} of the patch): ", self.hunk, self.of, self.path, self.line)?;
        match &self.why {
            HunkWhy::NotFound { nearest: None } => f.write_str(
                "its context and removed lines are not in the file, and nothing in it is like them. Read the file first.",
            )?,
            HunkWhy::NotFound { nearest: Some(nearest) } => write!(
                f,
                "its context and removed lines are not in the file. The nearest place (not changed) begins at line {}:\n\
                 {nearest}Send these lines as they stand in the file.",
                nearest.first_line()
            )?,
            HunkWhy::AlreadyThere { line } => write!(
                f,
                "what it would make is in the file already, at line {line}. Read the file, then leave this hunk out."
            )?,
            HunkWhy::Ambiguous { lines, places } => {
                let listed: Vec<_> = lines.iter().map(usize::to_string).collect();
                let more = if *places > lines.len() { ", …" } else { "" };
                write!(
                    f,
                    "it fits {places} places (lines {}{more}). Add context lines, or name the enclosing line: `@@ fn name`.",
                    listed.join(", ")
                )?;
            }
            HunkWhy::Overlap => f.write_str("it only fits lines that an earlier hunk covers. Join the two hunks.")?,
            HunkWhy::NoAnchor { times: 0 } => f.write_str(
                "it has no context, and the line named by `@@` is not in the file. Add a context line to insert at.",
            )?,
            HunkWhy::NoAnchor { times } => write!(
                f,
                "it has no context, and the line named by `@@` is in the file {times} times. Add context lines."
            )?,
            HunkWhy::NoContext => f.write_str(
                "it has only new lines, which without context go to the end of the file, as the last hunk. To insert \
                 elsewhere add a context line; line numbers are not used.",
            )?,
            HunkWhy::Outdented => f.write_str(
                "it fits a place with another indentation, but its new lines cannot follow it. Send the lines with the \
                 indentation of the file.",
            )?,
        }
        f.write_str("\nNo file was changed.")
    }
}

/// Where a hunk goes.
struct Placed<'h> {
    at: Range<usize>,
    lines: &'h [HunkLine],
    rule: Option<Rule>,
    unterminated: bool,
}

/// The text with all hunks applied. The file's lines keep their bytes; new lines take the line ending around them.
pub(super) fn apply(path: &str, text: &Text, hunks: &[Hunk]) -> Result<Text, HunkError> {
    let content = text.content();
    let file: Vec<_> = lines(content).collect();
    let mut placed: Vec<Placed<'_>> = Vec::with_capacity(hunks.len());
    let mut place = Place { file: &file, content, taken: Vec::new(), cursor: 0, shared: 0 };
    for (i, hunk) in hunks.iter().enumerate() {
        let found = place.find(hunk, i + 1 == hunks.len()).map_err(|why| HunkError {
            path: path.to_owned(),
            hunk: i + 1,
            of: hunks.len(),
            line: hunk.line,
            why,
        })?;
        place.advance(&found);
        placed.push(found);
    }
    share_unit(&mut placed, &file);
    placed.sort_by_key(|p| p.at.start);
    Ok(text.with_content(rebuilt(text, &file, &placed)))
}

/// A change of unit that one hunk proves (tabs sent as spaces) holds for the new lines of those that leave it open.
fn share_unit(placed: &mut [Placed<'_>], file: &[Line<'_>]) {
    let mut units = placed.iter().filter_map(|p| p.rule.as_ref()).filter(|r| !r.is_shift());
    let Some(unit) = units.next().cloned() else { return };
    if !units.all(|other| *other == unit) {
        return;
    }
    for hunk in placed.iter_mut().filter(|p| p.rule.is_none()) {
        let same = |l: &&str| is_blank(l) || unit.map(indent(l)).as_deref() == Some(indent(l));
        let open = file[hunk.at.clone()].iter().all(|l| same(&l.text));
        let maps = |l: &HunkLine| l.kind != Kind::Add || unit.map(indent(&l.text)).is_some();
        if open && hunk.lines.iter().all(maps) {
            hunk.rule = Some(unit.clone());
        }
    }
}

fn telling(lines: &[HunkLine]) -> bool {
    lines.iter().any(|l| l.kind == Kind::Add && l.text.trim().len() > 3)
}

struct Place<'f> {
    file: &'f [Line<'f>],
    content: &'f str,
    /// Lines that hunks have changed: between its first and last change, no other hunk may go.
    taken: Vec<Range<usize>>,
    /// The line after the last hunk.
    cursor: usize,
    /// The line after the last change of the last hunk: its closing context may open the next hunk too.
    shared: usize,
}

impl<'f> Place<'f> {
    fn advance(&mut self, placed: &Placed<'_>) {
        let changed = changed(placed);
        self.cursor = placed.at.end;
        self.shared = changed.end;
        self.taken.push(changed);
    }

    fn find<'h>(&self, hunk: &'h Hunk, last: bool) -> Result<Placed<'h>, HunkWhy> {
        if hunk.lines.iter().all(|l| l.kind == Kind::Add) {
            return self.insertion(hunk, last);
        }
        for level in [None, Some(Level::Exact), Some(Level::Trailing), Some(Level::Unicode)] {
            let readings: Vec<_> = (0..=hunk.loose)
                .map(|drop| &hunk.lines[..hunk.lines.len() - drop])
                .map(|kept| (kept, kept.iter().filter(|l| l.kind != Kind::Add).collect::<Vec<_>>()))
                .filter(|(_, old)| !old.is_empty())
                .map(|(kept, old)| (kept, old.len(), self.fitting(&old, level)))
                .filter(|(_, _, fits)| !fits.is_empty())
                .collect();
            // A place after the last hunk goes before one that is elsewhere.
            let later = |(_, _, fits): &&(_, usize, Vec<usize>)| fits.iter().any(|at| *at >= self.cursor);
            if let Some((kept, len, fits)) = readings.iter().find(later).or(readings.first()) {
                let start = self.choose(hunk, fits, *len)?;
                self.is_new(kept, start)?;
                return Ok(self.placed(hunk, kept, start..start + len, None));
            }
        }
        self.reindented(hunk)?.ok_or_else(|| self.not_found(hunk))
    }

    /// Refuses a hunk that only adds lines which stand at its place already: it seems to be applied a second time.
    fn is_new(&self, kept: &[HunkLine], start: usize) -> Result<(), HunkWhy> {
        let stands =
            |(i, line): (usize, &HunkLine)| self.file.get(start + i).is_some_and(|f| f.text == line.text);
        let adds = kept.iter().all(|l| l.kind != Kind::Remove) && telling(kept);
        if adds && kept.iter().enumerate().all(stands) {
            return Err(HunkWhy::AlreadyThere { line: start + 1 });
        }
        Ok(())
    }

    fn placed<'h>(
        &self,
        hunk: &Hunk,
        lines: &'h [HunkLine],
        at: Range<usize>,
        rule: Option<Rule>,
    ) -> Placed<'h> {
        let unterminated = hunk.unterminated && at.end == self.file.len();
        Placed { at, lines, rule, unterminated }
    }

    /// Where the lines stand. Without a level: exactly as sent; at the exact level a context line may lack its prefix.
    fn fitting(&self, old: &[&HunkLine], level: Option<Level>) -> Vec<usize> {
        let sent: Vec<_> = old.iter().map(|l| l.text.as_str()).collect();
        let keys: Vec<_> = sent.iter().map(|l| line_key(l, level.unwrap_or(Level::Exact))).collect();
        whole_lines(self.file, &sent, |file, sent, i| match level {
            None => file == sent,
            Some(Level::Exact) => file == sent || old[i].whole.as_deref() == Some(file),
            Some(level) => line_key(file, level) == keys[i],
        })
    }

    /// The one place of `fits` that is meant: at the end where the hunk says so, after the lines that `@@` names, and after
    /// the hunk before it.
    fn choose(&self, hunk: &Hunk, fits: &[usize], len: usize) -> Result<usize, HunkWhy> {
        let free = |at: &usize| !self.taken.iter().any(|t| t.start < at + len && *at < t.end);
        let at_end: Vec<_> =
            fits.iter().copied().filter(|at| hunk.end_of_file && at + len == self.file.len()).collect();
        let fits = if at_end.is_empty() { fits } else { at_end.as_slice() };
        let fits: Vec<_> = fits.iter().copied().filter(free).collect();
        if fits.is_empty() {
            return Err(HunkWhy::Overlap);
        }
        let from = |line: usize| fits.iter().copied().filter(|at| *at >= line).collect::<Vec<_>>();
        let mut after = from(self.cursor);
        if after.is_empty() {
            after = from(self.shared);
        }
        // A single place before the last hunk is still a single place.
        let after = if after.is_empty() { fits } else { after };
        let anchored = self.anchored(hunk, &after);
        let left = if anchored.is_empty() { &after } else { &anchored };
        match left.as_slice() {
            [one] => Ok(*one),
            many => Err(ambiguous(many)),
        }
    }

    /// For each place where the anchors of the hunk stand, the first of `fits` there or later.
    fn anchored(&self, hunk: &Hunk, fits: &[usize]) -> Vec<usize> {
        let mut found: Vec<usize> =
            self.anchors(hunk).into_iter().filter_map(|a| fits.iter().copied().find(|at| *at >= a)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The lines where the last anchor of the hunk stands after the ones before it.
    fn anchors(&self, hunk: &Hunk) -> Vec<usize> {
        let mut ends: Option<Vec<usize>> = None;
        for anchor in &hunk.anchors {
            let here = self.naming(anchor);
            ends = Some(match ends {
                None => here,
                Some(before) => {
                    let mut next: Vec<_> =
                        before.iter().filter_map(|b| here.iter().copied().find(|at| at > b)).collect();
                    next.dedup();
                    next
                }
            });
        }
        let all = ends.unwrap_or_default();
        let later: Vec<_> = all.iter().copied().filter(|at| *at >= self.shared).collect();
        if later.is_empty() { all } else { later }
    }

    /// The lines that an anchor names: those it equals, else those it begins.
    fn naming(&self, anchor: &str) -> Vec<usize> {
        let wanted = line_key(anchor.trim(), Level::Unicode);
        let matching = |same: &dyn Fn(&str) -> bool| {
            let keyed = self.file.iter().map(|l| line_key(l.text.trim(), Level::Unicode));
            keyed.enumerate().filter(|(_, l)| same(l)).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let equal = matching(&|line| line == wanted);
        if equal.is_empty() { matching(&|line| line.starts_with(wanted.as_ref())) } else { equal }
    }

    /// A hunk of new lines only. Without an anchor it goes to the end of the file, where only the last hunk can go.
    fn insertion<'h>(&self, hunk: &'h Hunk, last: bool) -> Result<Placed<'h>, HunkWhy> {
        let at_end = hunk.anchors.is_empty() && (hunk.end_of_file || (last && !hunk.numbered));
        let at = if self.file.is_empty() || at_end {
            self.file.len()
        } else if hunk.anchors.is_empty() {
            return Err(HunkWhy::NoContext);
        } else {
            match self.anchors(hunk).as_slice() {
                [one] => one + 1,
                many => return Err(HunkWhy::NoAnchor { times: many.len() }),
            }
        };
        Ok(self.placed(hunk, &hunk.lines, at..at, None))
    }

    fn reindented<'h>(&self, hunk: &'h Hunk) -> Result<Option<Placed<'h>>, HunkWhy> {
        let kept = &hunk.lines[..hunk.lines.len() - hunk.loose];
        let sent: Vec<_> = kept.iter().filter(|l| l.kind != Kind::Add).map(|l| l.text.as_str()).collect();
        if sent.iter().all(|l| is_blank(l)) {
            return Ok(None);
        }
        let white = [' ', '\t'];
        let mut fits =
            whole_lines(self.file, &sent, |f, s, _| f.trim_matches(white) == s.trim_matches(white));
        let rules = |at: usize| match explained(&self.file[at..at + sent.len()], &sent) {
            Some((rules, false)) => rules,
            _ => Vec::new(),
        };
        fits.retain(|at| !rules(*at).is_empty());
        if fits.is_empty() {
            return Ok(None);
        }
        let at = self.choose(hunk, &fits, sent.len())?;
        // Rules that explain the old lines alike must agree on the new ones.
        let added = |rule: &Rule| {
            let new = kept.iter().filter(|l| l.kind == Kind::Add && !is_blank(&l.text));
            new.map(|l| rule.map(indent(&l.text))).collect::<Option<Vec<_>>>()
        };
        let mut found = rules(at).into_iter().filter_map(|r| Some((added(&r)?, r)));
        match found.next() {
            Some((lines, rule)) if found.all(|(other, _)| other == lines) => {
                Ok(Some(self.placed(hunk, kept, at..at + sent.len(), Some(rule))))
            }
            _ => Err(HunkWhy::Outdented),
        }
    }

    fn not_found(&self, hunk: &Hunk) -> HunkWhy {
        let kept = &hunk.lines[..hunk.lines.len() - hunk.loose];
        let side = |not: Kind| {
            let side: Vec<_> = kept.iter().filter(|l| l.kind != not).map(|l| l.text.as_str()).collect();
            side
        };
        let new = side(Kind::Remove);
        let there = if telling(kept) { whole_lines(self.file, &new, |f, s, _| f == s) } else { Vec::new() };
        match there.first() {
            Some(at) => HunkWhy::AlreadyThere { line: at + 1 },
            None => HunkWhy::NotFound { nearest: nearest(self.content, &side(Kind::Add).join("\n")) },
        }
    }
}

fn ambiguous(places: &[usize]) -> HunkWhy {
    HunkWhy::Ambiguous { lines: places.iter().take(10).map(|at| at + 1).collect(), places: places.len() }
}

/// The lines of the file from the first to the last that the hunk changes; empty, where it only inserts, between two lines.
fn changed(placed: &Placed<'_>) -> Range<usize> {
    let mut at = placed.at.start;
    let mut found: Option<Range<usize>> = None;
    for line in placed.lines {
        let next = at + usize::from(line.kind != Kind::Add);
        if line.kind != Kind::Context {
            let start = found.as_ref().map_or(at, |f| f.start);
            found = Some(start..next);
        }
        at = next;
    }
    found.unwrap_or(placed.at.start..placed.at.start)
}

/// The file's lines with the hunks in their places, in order.
fn rebuilt(text: &Text, file: &[Line<'_>], placed: &[Placed<'_>]) -> String {
    let content = text.content();
    let mut out = Output { lines: Vec::new(), kept: 0 };
    let mut next = 0;
    for hunk in placed {
        let region = file.get(hunk.at.clone()).unwrap_or_default();
        let bytes = region
            .first()
            .zip(region.last())
            .map_or(0..0, |(a, z)| a.start..z.start + z.text.len() + z.ending.len());
        let ending = LineEnding::dominant(&content[bytes]).unwrap_or(text.newline());
        let mut at = hunk.at.start;
        for line in hunk.lines {
            match line.kind {
                Kind::Add => {
                    out.keep(file.get(next..at).unwrap_or_default());
                    next = next.max(at);
                    let sent = indent(&line.text);
                    let rule = hunk.rule.as_ref().filter(|_| !is_blank(&line.text));
                    let indented = rule.and_then(|r| r.map(sent)).map(|i| i + &line.text[sent.len()..]);
                    out.lines.push((indented.unwrap_or_else(|| line.text.clone()), ending));
                }
                Kind::Context => at += 1,
                Kind::Remove => {
                    out.keep(file.get(next..at).unwrap_or_default());
                    at += 1;
                    next = next.max(at);
                }
            }
        }
    }
    out.keep(&file[next.min(file.len())..]);
    let unterminated = placed.iter().any(|p| p.unterminated) || (!text.final_newline() && out.kept > 0);
    out.finish(text.newline(), unterminated)
}

struct Output<'f> {
    lines: Vec<(String, &'f str)>,
    /// Lines of the file among them.
    kept: usize,
}

impl<'f> Output<'f> {
    fn keep(&mut self, file: &[Line<'f>]) {
        self.kept += file.len();
        self.lines.extend(file.iter().map(|l| (l.text.to_owned(), l.ending)));
    }

    fn finish(self, newline: &str, unterminated: bool) -> String {
        let mut out = String::new();
        let last = self.lines.len().saturating_sub(1);
        for (i, (line, ending)) in self.lines.iter().enumerate() {
            out.push_str(line);
            if i < last || !unterminated {
                out.push_str(if ending.is_empty() { newline } else { ending });
            }
        }
        out
    }
}
