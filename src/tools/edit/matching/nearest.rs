//! The place in a file that is most like a text that is not in it. It is shown to the model and never edited.

use super::{
    indent::{described, indent},
    view::fold,
};
use crate::workspace::text::{Line, lines};
use std::{collections::HashMap, fmt};

/// Lines shown.
const SHOWN: usize = 12;
/// Characters shown of a line.
const WIDTH: usize = 160;
/// Lines compared letter by letter.
const COMPARED: usize = 4_000;
/// Below this likeness (0 to 1) nothing is shown.
const LIKE: f64 = 0.5;

/// A place in the file, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    rows: Vec<Row>,
    more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    number: usize,
    file: String,
    /// What was sent instead, where it differs, and how.
    differs: Option<(String, Option<String>)>,
}

impl Nearest {
    /// The number of its first line, from 1.
    pub fn first_line(&self) -> usize {
        self.rows.first().map_or(1, |r| r.number)
    }
}

/// The place most like `old`: where most of its lines stand, else where its longest line has its like.
pub(crate) fn nearest(content: &str, old: &str) -> Option<Nearest> {
    let file: Vec<_> = lines(content).collect();
    let sent: Vec<_> = old.trim_matches('\n').split('\n').collect();
    let at = by_lines(&file, &sent).or_else(|| by_letters(&file, &sent))?;
    let rows = sent
        .iter()
        .enumerate()
        .filter_map(|(i, sent)| {
            let line = usize::try_from(at + i as isize).ok().filter(|n| *n < file.len())?;
            Some(row(line + 1, file[line].text, sent))
        })
        .collect::<Vec<_>>();
    // Where the text goes on beyond what is shown, the first difference must still be seen.
    let first = rows.iter().position(|r| r.differs.is_some()).unwrap_or(0);
    let skip = if first >= SHOWN { first - SHOWN / 2 } else { 0 };
    let more = rows.len().saturating_sub(skip + SHOWN);
    Some(Nearest { rows: rows.into_iter().skip(skip).take(SHOWN).collect(), more })
}

/// The offset at which most lines of `sent` stand in `file`, white space aside; long and rare lines count for more.
fn by_lines(file: &[Line<'_>], sent: &[&str]) -> Option<isize> {
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in sent.iter().enumerate().filter(|(_, l)| l.trim().len() > 2) {
        wanted.entry(line.trim()).or_default().push(j);
    }
    let mut votes: HashMap<isize, usize> = HashMap::new();
    for (i, line) in file.iter().enumerate() {
        for j in wanted.get(line.text.trim()).into_iter().flatten().take(8) {
            *votes.entry(i as isize - *j as isize).or_default() += line.text.trim().len().min(40);
        }
    }
    votes.into_iter().max_by_key(|(at, votes)| (*votes, std::cmp::Reverse(*at))).map(|(at, _)| at)
}

fn by_letters(file: &[Line<'_>], sent: &[&str]) -> Option<isize> {
    let (j, wanted) = sent.iter().map(|l| clipped(l.trim())).enumerate().max_by_key(|(_, l)| l.len())?;
    let length = wanted.chars().count();
    let letters = counted(&wanted);
    let mut best: Option<(f64, usize)> = None;
    let mut compared = 0;
    for (i, line) in file.iter().enumerate() {
        let text = clipped(line.text.trim());
        let longer = text.chars().count().max(length);
        // Letters that one of the two has more of must all be changed: what cannot be better is not compared.
        let apart = letters.iter().zip(counted(&text)).map(|(a, b)| a.abs_diff(b)).sum::<usize>() / 2;
        let bound = 1.0 - apart as f64 / longer.max(1) as f64;
        if compared >= COMPARED || bound < LIKE || best.is_some_and(|(like, _)| bound <= like) {
            continue;
        }
        compared += 1;
        let like = strsim::normalized_levenshtein(&text, &wanted);
        if like >= LIKE && best.is_none_or(|(l, _)| like > l) {
            best = Some((like, i));
        }
    }
    best.map(|(_, i)| i as isize - j as isize)
}

/// How often each byte occurs, with few bytes sharing a count.
fn counted(text: &str) -> [usize; 64] {
    let mut counts = [0; 64];
    text.bytes().for_each(|b| counts[usize::from(b % 64)] += 1);
    counts
}

fn clipped(line: &str) -> String {
    line.chars().take(WIDTH).collect()
}

fn row(number: usize, file: &str, sent: &str) -> Row {
    let differs = (file != sent).then(|| (sent.to_owned(), difference(file, sent)));
    Row { number, file: file.to_owned(), differs }
}

/// The difference of two lines in words, where their letters do not show it.
fn difference(file: &str, sent: &str) -> Option<String> {
    let folded = |s: &str| s.trim().chars().map(fold).collect::<String>();
    if file.trim() == sent.trim() {
        let (has, was) = (indent(file), indent(sent));
        return Some(if has == was {
            "white space at the end of the line".to_owned()
        } else {
            format!("the file has {} in front, old has {}", described(has), described(was))
        });
    }
    if folded(file) == folded(sent) {
        return Some("typographic quotes, dashes or spaces".to_owned());
    }
    let at = file.chars().zip(sent.chars()).take_while(|(a, b)| a == b).count();
    let from = |s: &str| s.chars().nth(at).map_or("the end of the line".to_owned(), |c| format!("{c:?}"));
    Some(format!("column {}: the file has {}, old has {}", at + 1, from(file), from(sent)))
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let mark = if row.differs.is_some() { '>' } else { ' ' };
            writeln!(f, "{mark} {:>5}\t{}", row.number, shortened(&row.file))?;
            if let Some((sent, how)) = &row.differs {
                writeln!(f, "    old:\t{}", shortened(sent))?;
                if let Some(how) = how {
                    writeln!(f, "        \t({how})")?;
                }
            }
        }
        if self.more > 0 {
            writeln!(f, "        \t(and {} more lines)", self.more)?;
        }
        Ok(())
    }
}

fn shortened(line: &str) -> String {
    let mut out = clipped(line);
    if out.len() < line.len() {
        out.push('…');
    }
    out
}
