//! Where a text occurs.

use super::{
    indent::{Rule, indent, is_blank},
    view::{Level, View, line_key, trim_line},
};
use crate::workspace::text::{Line, lines};
use std::ops::Range;

/// Places looked at before a search says "many".
const ENOUGH: usize = 1000;

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The bytes of the text.
    pub range: Range<usize>,
    /// The match ends with a line ending that the last line of the file does not have.
    pub unterminated: bool,
    /// How the indentation of the place follows from what was sent: each rule that explains it.
    pub rules: Vec<Rule>,
    /// The first line's indentation was not sent, and is not in the range.
    pub bare_start: bool,
}

impl Hit {
    fn at(range: Range<usize>) -> Self {
        Hit { range, unterminated: false, rules: Vec::new(), bare_start: false }
    }
}

/// The places where `old` occurs at this level: overlapping ones too, unless `all` asks for those that can be replaced
/// together.
pub(super) fn occurrences(view: &View<'_>, old: &str, level: Level, all: bool) -> Vec<Hit> {
    let key: Vec<_> = old.split('\n').map(|l| line_key(l, level)).collect();
    let key = key.join("\n");
    if key.is_empty() || (level > Level::Exact && key.trim().is_empty()) {
        return Vec::new();
    }
    let last = old.rsplit('\n').next().unwrap_or_default();
    let to_line_end = trim_line(last, level).len() < last.len();
    let text = view.text();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(&key).map(|i| i + from) {
        let end = at + key.len();
        if !to_line_end || text[end..].is_empty() || text[end..].starts_with('\n') {
            found.push(Hit::at(view.start(at)..view.end(end, to_line_end)));
        }
        if !all && found.len() > ENOUGH {
            break;
        }
        from = if all { end } else { at + text[at..].chars().next().map_or(1, char::len_utf8) };
    }
    // A last line of blanks is a line, which the file does not have; a line ending that it lacks is none.
    if let Some(cut) = key.strip_suffix('\n')
        && old.ends_with('\n')
        && !cut.is_empty()
        && !text.ends_with('\n')
        && text.ends_with(cut)
        && (!all || text.len() - cut.len() >= from)
    {
        let range = view.start(text.len() - cut.len())..view.end(text.len(), true);
        found.push(Hit { unterminated: true, ..Hit::at(range) });
    }
    found
}

/// The places where every line of `old` stands with another indentation that one rule explains.
pub(super) fn reindented(text: &str, old: &str) -> Vec<Hit> {
    let (body, terminated) = match old.strip_suffix('\n') {
        Some(body) => (body, true),
        None => (old, false),
    };
    let sent: Vec<_> = body.split('\n').collect();
    let file: Vec<_> = lines(text).collect();
    let mut found = Vec::new();
    for at in aligned(&file, &sent) {
        let block = &file[at..at + sent.len()];
        let Some((rules, bare_start)) = explained(block, &sent) else { continue };
        let (Some(first), Some(last)) = (block.first(), block.last()) else { continue };
        let start = first.start + if bare_start { indent(first.text).len() } else { 0 };
        let text_end = last.start + trim_line(last.text, Level::Trailing).len();
        let end = if terminated { last.start + last.text.len() + last.ending.len() } else { text_end };
        found.push(Hit {
            unterminated: terminated && last.ending.is_empty(),
            rules,
            bare_start,
            ..Hit::at(start..end)
        });
        if found.len() > ENOUGH {
            break;
        }
    }
    found
}

/// Where the lines of `sent` stand one after another, white space at their two ends aside.
fn aligned<'f>(file: &'f [Line<'_>], sent: &'f [&str]) -> impl Iterator<Item = usize> + 'f {
    let key = sent.iter().position(|l| !is_blank(l));
    let windows = (file.len() + 1).saturating_sub(sent.len());
    (0..windows).filter(move |at| {
        let Some(key) = key else { return false };
        let same = |i: usize| content(file[at + i].text) == content(sent[i]);
        same(key) && (0..sent.len()).all(same)
    })
}

fn content(line: &str) -> &str {
    line.trim_matches([' ', '\t'])
}

/// The rules for a block, and whether its first line was sent without its indentation.
pub(crate) fn explained(block: &[Line<'_>], sent: &[&str]) -> Option<(Vec<Rule>, bool)> {
    let pairs: Vec<_> = block
        .iter()
        .zip(sent)
        .filter(|(_, s)| !is_blank(s))
        .map(|(f, s)| (indent(s), indent(f.text)))
        .collect();
    let rules = Rule::all(&pairs);
    if !rules.is_empty() {
        return Some((rules, false));
    }
    let ((sent_first, file_first), rest) = pairs.split_first()?;
    let bare = sent_first.is_empty() && !file_first.is_empty() && !is_blank(sent.first()?);
    let units = Rule::units(rest);
    (bare && !units.is_empty()).then_some((units, true))
}

/// The places where `same` holds for each line of `file` and the line of `sent` beside it, whose index it is told.
pub(crate) fn whole_lines(
    file: &[Line<'_>],
    sent: &[&str],
    same: impl Fn(&str, &str, usize) -> bool,
) -> Vec<usize> {
    let windows = (file.len() + 1).saturating_sub(sent.len());
    (0..windows)
        .filter(|at| (0..sent.len()).all(|i| same(file[at + i].text, sent[i], i)))
        .take(ENOUGH)
        .collect()
}
