//! Finding the text that an edit means, without guessing.
//!
//! What a model sends is compared with the file on a ladder of rungs, from the exact text down to differences that one rule
//! explains ([`Rung`]). The first rung that finds the text decides: it must find it once (or everywhere, where all places
//! are asked for), else the edit is refused with what to do next ([`Refusal`]). There is no similarity ratio: text that
//! differs in a letter is other text. Only the match is replaced, and inside it lines that the edit does not change keep
//! their bytes.

mod fuzz;
mod indent;
mod nearest;
mod refusal;
mod repair;
mod search;
mod splice;
mod view;

#[doc(hidden)]
pub use fuzz::fuzz;
pub use indent::Rule;
pub(crate) use indent::{indent, is_blank};
pub use nearest::Nearest;
pub(crate) use nearest::nearest;
pub use refusal::{Refusal, Why};
pub(crate) use search::{explained, whole_lines};
pub(crate) use view::{Level, line_key};

use crate::workspace::text::{Text, lines};
use search::Hit;
use std::borrow::Cow;
use std::ops::Range;
use view::View;

/// One replacement in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text to find.
    pub old: String,
    /// What takes its place, literally.
    pub new: String,
    /// Replace every place, not exactly one.
    pub replace_all: bool,
}

/// How the text was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rung {
    /// As sent; line endings aside.
    Exact,
    /// Without the line numbers of a listing.
    Unnumbered,
    /// With escapes undone.
    Unescaped,
    /// With other white space at the ends of lines.
    TrailingSpace,
    /// With typographic quotes, dashes or spaces.
    Unicode,
    /// With another indentation.
    Indentation(Rule),
}

impl Rung {
    /// What to tell the model about a match that was not exact.
    pub fn note(&self) -> Option<String> {
        let what = match self {
            Rung::Exact => return None,
            Rung::Unnumbered => "after the line numbers were taken out of both strings".to_owned(),
            Rung::Unescaped => "after one level of escaping was undone in both strings".to_owned(),
            Rung::TrailingSpace => "apart from white space at the ends of lines".to_owned(),
            Rung::Unicode => {
                "apart from typographic quotes, dashes or spaces; the file's own were kept".to_owned()
            }
            Rung::Indentation(rule) => {
                format!("apart from indentation ({rule}); the new text was indented likewise")
            }
        };
        Some(format!("old matched {what}"))
    }
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// How the text was found.
    pub rung: Rung,
    /// Where the new text is in the result, in bytes.
    pub places: Vec<Range<usize>>,
}

impl Applied {
    /// The first and last line of each place, from 1, in the text that resulted.
    pub fn lines(&self, result: &Text) -> Vec<(usize, usize)> {
        let starts: Vec<_> = lines(result.content()).map(|l| l.start).collect();
        let line = |at: usize| starts.partition_point(|s| *s <= at).max(1);
        self.places.iter().map(|p| (line(p.start), line(p.end.saturating_sub(1).max(p.start)))).collect()
    }
}

/// The result of a call: the whole text, and what each edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The file as it will be.
    pub text: Text,
    /// One for each edit, in order.
    pub applied: Vec<Applied>,
}

/// Applies `edits` one after another, each to the result of those before it; all of them or none.
///
/// # Errors
/// [`Refusal`] names the first edit that cannot be applied without guessing, and what to do about it.
pub fn apply(text: &Text, edits: &[Replacement]) -> Result<Edited, Refusal> {
    let (edited, habits) = sequence(text, edits, &Habits::default())?;
    let exact = edited.applied.iter().any(|a| a.rung == Rung::Exact);
    if exact && !(habits.unit.is_none() && habits.readings.is_empty()) {
        return Ok(sequence(text, edits, &habits)?.0);
    }
    Ok(edited)
}

/// What edits of a call prove about how it was written, and what therefore holds for those of its edits that match exactly
/// because their old text leaves it open.
#[derive(Default)]
struct Habits {
    /// A change of unit: tabs sent as spaces, or the like.
    unit: Option<Rule>,
    /// The ways to undo escapes that fit every edit that needs it.
    readings: Vec<&'static str>,
}

impl Habits {
    fn of(steps: &[Step]) -> Self {
        let mut units = steps.iter().filter_map(|s| match &s.rung {
            Rung::Indentation(rule) if !rule.is_shift() => Some(rule),
            _ => None,
        });
        let first = units.next();
        let unit = first.filter(|rule| units.all(|other| other == *rule)).cloned();
        let mut escaped = steps.iter().filter(|s| s.rung == Rung::Unescaped).map(|s| &s.readings);
        let mut readings = escaped.next().cloned().unwrap_or_default();
        escaped.for_each(|other| readings.retain(|r| other.contains(r)));
        Habits { unit, readings }
    }
}

fn sequence(text: &Text, edits: &[Replacement], habits: &Habits) -> Result<(Edited, Habits), Refusal> {
    let mut content = Cow::Borrowed(text.content());
    let mut applied: Vec<Applied> = Vec::with_capacity(edits.len());
    let mut steps = Vec::with_capacity(edits.len());
    let newline = text.newline();
    for (i, edit) in edits.iter().enumerate() {
        let refused = |why| Refusal { edit: i + 1, of: edits.len(), why };
        let step = step(&content, edit, newline, habits).map_err(|why| {
            let moved = i > 0
                && matches!(why, Why::NotFound { .. } | Why::AlreadyThere { .. })
                && step(text.content(), edit, newline, habits).is_ok();
            refused(if moved { Why::Overlap } else { why })
        })?;
        let (next, places) = spliced(&content, &step.splices);
        if next == content {
            return Err(refused(Why::NoChange));
        }
        for earlier in &mut applied {
            earlier.places.iter_mut().for_each(|p| *p = shifted(p, &step.splices));
        }
        applied.push(Applied { rung: step.rung.clone(), places });
        steps.push(step);
        content = Cow::Owned(next);
    }
    Ok((Edited { text: text.with_content(content.into_owned()), applied }, Habits::of(&steps)))
}

type Splice = (Range<usize>, String);

struct Step {
    splices: Vec<Splice>,
    rung: Rung,
    /// The ways to undo escapes that led here.
    readings: Vec<&'static str>,
}

impl Step {
    fn new(splices: Vec<Splice>, rung: Rung) -> Self {
        Step { splices, rung, readings: Vec::new() }
    }
}

fn spliced(content: &str, splices: &[Splice]) -> (String, Vec<Range<usize>>) {
    let mut out =
        String::with_capacity(content.len() + splices.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut places = Vec::with_capacity(splices.len());
    let mut from = 0;
    for (range, new) in splices {
        out.push_str(&content[from..range.start]);
        places.push(out.len()..out.len() + new.len());
        out.push_str(new);
        from = range.end;
    }
    out.push_str(&content[from..]);
    (out, places)
}

/// Where `place` is after `splices`.
fn shifted(place: &Range<usize>, splices: &[Splice]) -> Range<usize> {
    let at = |offset: usize, end: bool| {
        let mut to = offset;
        for (range, new) in splices {
            if range.end <= offset {
                to = to + new.len() - range.len();
            } else if range.start < offset {
                to = to + range.start + if end { new.len() } else { 0 } - offset;
                break;
            }
        }
        to
    };
    let (start, end) = (at(place.start, false), at(place.end, true));
    start..end.max(start)
}

/// One edit of `content`, on the first rung that finds its text.
fn step(content: &str, edit: &Replacement, newline: &str, habits: &Habits) -> Result<Step, Why> {
    let (old, new) = lf(&edit.old, &edit.new);
    if old == new {
        return Err(Why::NoChange);
    }
    if old.is_empty() {
        let step = Step::new(vec![(0..0, edit.new.clone())], Rung::Exact);
        return if content.is_empty() { Ok(step) } else { Err(Why::Empty) };
    }
    let search = Search { content, newline, habits, all: edit.replace_all };
    let exact = View::new(content, Level::Exact);
    let found = match search.at(&exact, Level::Exact, &old, &new, Rung::Exact)? {
        Some(step) => Some(step),
        None => search.repaired(&exact, &old, &new)?,
    };
    if let Some(step) = found {
        return Ok(step);
    }
    for (level, rung) in [(Level::Trailing, Rung::TrailingSpace), (Level::Unicode, Rung::Unicode)] {
        if let Some(step) = search.at(&View::new(content, level), level, &old, &new, rung)? {
            return Ok(step);
        }
    }
    match search.reindented(&old, &new)? {
        Some(step) => Ok(step),
        None => Err(refusal::not_found(content, &exact, &old, &new)),
    }
}

/// Both texts with LF endings. A lone CR is a line ending if `old` has one; in `new` alone it is a character.
fn lf<'a>(old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let plain = |text: &'a str| {
        if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { Cow::from(text) }
    };
    let (old, new) = (plain(old), plain(new));
    if old.contains('\r') {
        (old.replace('\r', "\n").into(), new.replace('\r', "\n").into())
    } else {
        (old, new)
    }
}

struct Search<'a> {
    content: &'a str,
    newline: &'a str,
    habits: &'a Habits,
    all: bool,
}

impl Search<'_> {
    fn at(
        &self,
        view: &View<'_>,
        level: Level,
        old: &str,
        new: &str,
        rung: Rung,
    ) -> Result<Option<Step>, Why> {
        let hits = search::occurrences(view, old, level, self.all);
        if hits.is_empty() {
            return Ok(None);
        }
        self.unique(&hits)?;
        if rung == Rung::Exact
            && let Some(step) = self.by_habit(&hits, old, new)?
        {
            return Ok(Some(step));
        }
        let mut splices = Vec::with_capacity(hits.len());
        for hit in &hits {
            if let Some(line) = self.outdented(hit, old, new) {
                return Err(Why::Outdented { line });
            }
            splices.push((hit.range.clone(), self.replaced(hit, level, old, new)?));
        }
        Ok(Some(Step::new(splices, rung)))
    }

    /// An exact match whose old text leaves open what the habits of the call settle.
    fn by_habit(&self, hits: &[Hit], old: &str, new: &str) -> Result<Option<Step>, Why> {
        if let Some(step) = self.in_unit(hits, old, new) {
            return Ok(Some(step));
        }
        if old.contains('\\') {
            return Ok(None);
        }
        let readings = &self.habits.readings;
        let mut plain: Vec<_> = readings.iter().filter_map(|r| repair::unescaped_new(old, new, r)).collect();
        plain.dedup();
        match plain.as_slice() {
            [] if readings.is_empty() => Ok(None),
            [same] if same == new => Ok(None),
            [plain] => {
                let splice =
                    |hit: &Hit| Ok((hit.range.clone(), self.replaced(hit, Level::Exact, old, plain)?));
                let splices = hits.iter().map(splice).collect::<Result<_, Why>>()?;
                Ok(Some(Step::new(splices, Rung::Unescaped)))
            }
            _ => Err(Why::Unclear),
        }
    }

    fn in_unit(&self, hits: &[Hit], old: &str, new: &str) -> Option<Step> {
        let rule = self.habits.unit.as_ref()?;
        let same = |l: &str| is_blank(l) || rule.map(indent(l)).as_deref() == Some(indent(l));
        let mut fresh = new.split('\n').skip(1).filter(|l| !is_blank(l) && !old.split('\n').any(|o| o == *l));
        if !indent(new).is_empty() || !old.split('\n').all(same) || fresh.all(same) {
            return None;
        }
        let splice = |hit: &Hit| {
            let hit = Hit { rules: vec![rule.clone()], ..hit.clone() };
            Some((hit.range.clone(), self.replaced(&hit, Level::Exact, old, new).ok()?))
        };
        let splices = hits.iter().map(splice).collect::<Option<Vec<_>>>()?;
        Some(Step::new(splices, Rung::Indentation(rule.clone())))
    }

    /// The readings of `old` without line numbers or escapes that occur as they are. Several are good if they agree.
    fn repaired(&self, view: &View<'_>, old: &str, new: &str) -> Result<Option<Step>, Why> {
        let numbers = repair::unnumbered(old, new).into_iter().map(|pair| (pair, Rung::Unnumbered, None));
        let undone = |r: &'static str| Some((repair::unescaped(old, new, r)?, Rung::Unescaped, Some(r)));
        let mut found: Option<Step> = None;
        for ((old, new), rung, reading) in numbers.chain(repair::READINGS.into_iter().filter_map(undone)) {
            if old == new || old.trim().is_empty() {
                continue;
            }
            let Some(mut step) = self.at(view, Level::Exact, &old, &new, rung)? else { continue };
            step.readings.extend(reading);
            match &mut found {
                Some(other) if other.splices != step.splices => return Err(Why::Unclear),
                Some(other) => other.readings.append(&mut step.readings),
                None => found = Some(step),
            }
        }
        Ok(found)
    }

    fn reindented(&self, old: &str, new: &str) -> Result<Option<Step>, Why> {
        let hits = search::reindented(self.content, old);
        let Some(rule) = hits.first().and_then(|h| h.rules.first()).cloned() else { return Ok(None) };
        self.unique(&hits)?;
        let mut splices: Vec<Splice> = Vec::with_capacity(hits.len());
        for hit in &hits {
            if splices.last().is_some_and(|(range, _)| range.end > hit.range.start) {
                continue;
            }
            splices.push((hit.range.clone(), self.replaced(hit, Level::Trailing, old, new)?));
        }
        Ok(Some(Step::new(splices, Rung::Indentation(rule))))
    }

    fn unique(&self, hits: &[Hit]) -> Result<(), Why> {
        if self.all || hits.len() == 1 {
            return Ok(());
        }
        Err(Why::ambiguous(self.content, hits.iter().map(|h| h.range.start)))
    }

    /// The text for one place.
    fn replaced(&self, hit: &Hit, level: Level, old: &str, new: &str) -> Result<String, Why> {
        let (old, new) = if hit.unterminated {
            (old.strip_suffix('\n').unwrap_or(old), new.strip_suffix('\n').unwrap_or(new))
        } else {
            (old, new)
        };
        let region = &self.content[hit.range.clone()];
        let outdented = || Why::Outdented { line: refusal::line_of(self.content, hit.range.start) };
        // The range begins after the first line's indentation, which the new text must not bring either.
        if hit.bare_start && !indent(new).is_empty() {
            return Err(outdented());
        }
        let with = |rule| splice::splice(region, old, new, self.newline, level, rule, hit.bare_start);
        if hit.rules.is_empty() {
            return with(None).ok_or_else(outdented);
        }
        // Rules that explain the old lines alike must agree on the new ones.
        let mut texts = hit.rules.iter().filter_map(|rule| with(Some(rule)));
        let text = texts.next().ok_or_else(outdented)?;
        if texts.all(|other| other == text) { Ok(text) } else { Err(outdented()) }
    }

    /// The line of a match whose new text would not fit its place: one line was sent without its indentation, and the lines
    /// that would follow it have less than it has, or open a block whose body would not be deeper. They may be meant as they
    /// are or relative to it.
    fn outdented(&self, hit: &Hit, old: &str, new: &str) -> Option<usize> {
        let before = &self.content[..hit.range.start];
        let line_start = before.rfind(['\n', '\r']).map_or(0, |i| i + 1);
        let place = &before[line_start..];
        let proven = old.split('\n').skip(1).any(|l| !is_blank(l));
        if proven || place.is_empty() || !is_blank(place) || old.starts_with('\n') {
            return None;
        }
        let mut following = new.split('\n').skip(1).filter(|l| !is_blank(l));
        if !indent(old).is_empty() {
            // Part of the indentation was sent: more lines may be meant to be as far in, or where they were sent.
            return following.next().map(|_| refusal::line_of(self.content, hit.range.start));
        }
        let opens = new.split('\n').next().is_some_and(|l| l.trim_end().ends_with(['{', '(', '[', ':']));
        let level = following
            .clone()
            .next()
            .is_some_and(|l| indent(l) == place && !l.trim_start().starts_with(['}', ')', ']']));
        let left = following.any(|l| !indent(l).starts_with(place));
        (left || (opens && level)).then(|| refusal::line_of(self.content, hit.range.start))
    }
}

#[cfg(test)]
mod tests;
