//! What replaces a match: the new text, with the file's own bytes wherever the edit changes nothing.

use super::{
    indent::{Rule, indent, is_blank},
    view::{Level, fold, trim_line},
};
use crate::workspace::text::{LineEnding, lines};

/// The pieces of a text between its line endings: one more than there are endings.
pub(crate) fn pieces(text: &str) -> Vec<(&str, &str)> {
    let mut out: Vec<_> = lines(text).map(|l| (l.text, l.ending)).collect();
    if out.last().is_none_or(|(_, ending)| !ending.is_empty()) {
        out.push(("", ""));
    }
    out
}

/// The text that takes the place of `region`.
///
/// `old` and `new` have LF endings; `old` has as many lines as `region`. Lines that are in both keep the bytes they have in
/// `region`; new lines take the line ending of the region, else `newline`. With a rule, the indentation of new lines follows
/// it; with `bare_start`, the first line's indentation is outside the region. `None`: the rule says nothing about a new line.
pub(crate) fn splice(
    region: &str,
    old: &str,
    new: &str,
    newline: &str,
    level: Level,
    rule: Option<&Rule>,
    bare_start: bool,
) -> Option<String> {
    let ending = LineEnding::dominant(region).unwrap_or(newline);
    if level == Level::Exact && rule.is_none() && LineEnding::of(region) != LineEnding::Mixed {
        return Some(if ending == "\n" { new.to_owned() } else { new.replace('\n', ending) });
    }
    let there = pieces(region);
    let before: Vec<_> = old.split('\n').collect();
    let after: Vec<_> = new.split('\n').collect();
    debug_assert_eq!(there.len(), before.len());
    let twins = crate::workspace::text::align(&before, &after);
    if bare_start && twins.iter().enumerate().any(|(j, twin)| twin.is_some_and(|i| (i == 0) != (j == 0))) {
        return None;
    }
    let pairs =
        if level == Level::Unicode { changed_pairs(&twins, before.len()) } else { vec![None; after.len()] };
    let mut out = String::with_capacity(region.len() + new.len());
    for (j, line) in after.iter().enumerate() {
        let twin = twins[j].and_then(|i| there.get(i));
        match (twin, pairs[j], rule) {
            (Some((raw, _)), _, _) => out.push_str(raw),
            (None, Some(i), _) => out.push_str(&kept_characters(there.get(i)?.0, before[i], line)),
            // A shift leaves lines without text alone; a change of unit is one for all white space.
            (None, None, Some(rule)) if !(is_blank(line) && rule.is_shift()) => {
                let sent = indent(line);
                out.push_str(&rule.map(sent)?);
                out.push_str(&line[sent.len()..]);
            }
            _ => out.push_str(line),
        }
        if j + 1 < after.len() {
            let own = twin.map(|(_, ending)| *ending).filter(|e| !e.is_empty());
            out.push_str(own.unwrap_or(ending));
        }
    }
    Some(out)
}

/// For each new line that takes the place of exactly one old line, that line: blocks of changed lines of equal length are
/// paired in order.
fn changed_pairs(twins: &[Option<usize>], old_len: usize) -> Vec<Option<usize>> {
    let mut out = vec![None; twins.len()];
    let (mut i, mut j) = (0, 0);
    while j < twins.len() {
        let end = (j..twins.len()).find(|k| twins[*k].is_some()).unwrap_or(twins.len());
        let next = twins.get(end).copied().flatten().unwrap_or(old_len);
        if end - j == next.saturating_sub(i) {
            for k in 0..end - j {
                out[j + k] = Some(i + k);
            }
        }
        i = next + 1;
        j = end + 1;
    }
    out
}

/// `new`, with the file's characters for those that it begins and ends with in common with `old`. `raw` is the line that
/// `old` stands for, character for character.
fn kept_characters(raw: &str, old: &str, new: &str) -> String {
    let same: Vec<_> = trim_line(raw, Level::Unicode).chars().collect();
    let before: Vec<_> = trim_line(old, Level::Unicode).chars().collect();
    let body = trim_line(new, Level::Unicode);
    let after: Vec<_> = body.chars().collect();
    if same.len() != before.len() || same.iter().zip(&before).any(|(a, b)| fold(*a) != fold(*b)) {
        return new.to_owned();
    }
    let head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let room = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let mut out: String = same[..head].iter().collect();
    out.extend(&after[head..after.len() - tail]);
    out.extend(&same[same.len() - tail..]);
    out.push_str(&new[body.len()..]);
    out
}
