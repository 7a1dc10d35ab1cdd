//! Lines and their endings.

use std::borrow::Cow;
use std::collections::HashMap;

/// The line endings of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// Every line ends with LF.
    Lf,
    /// Every line ends with CR LF.
    Crlf,
    /// Every line ends with CR.
    Cr,
    /// More than one kind.
    Mixed,
    /// No line ending at all.
    None,
}

#[derive(Default)]
struct Counts {
    lf: usize,
    crlf: usize,
    cr: usize,
    first: Option<&'static str>,
}

impl Counts {
    fn of(text: &str) -> Self {
        let mut counts = Counts::default();
        if !text.contains('\r') {
            counts.lf = text.bytes().filter(|b| *b == b'\n').count();
            counts.first = (counts.lf > 0).then_some("\n");
            return counts;
        }
        for line in lines(text) {
            match line.ending {
                "\n" => counts.lf += 1,
                "\r\n" => counts.crlf += 1,
                "\r" => counts.cr += 1,
                _ => continue,
            }
            counts.first.get_or_insert(match line.ending {
                "\n" => "\n",
                "\r\n" => "\r\n",
                _ => "\r",
            });
        }
        counts
    }
}

impl LineEnding {
    /// The endings found in `text`.
    pub fn of(text: &str) -> Self {
        let counts = Counts::of(text);
        match (counts.lf > 0, counts.crlf > 0, counts.cr > 0) {
            (false, false, false) => LineEnding::None,
            (true, false, false) => LineEnding::Lf,
            (false, true, false) => LineEnding::Crlf,
            (false, false, true) => LineEnding::Cr,
            _ => LineEnding::Mixed,
        }
    }

    /// The most frequent ending of `text`, the first one of equals.
    pub(crate) fn dominant(text: &str) -> Option<&'static str> {
        let counts = Counts::of(text);
        let most = counts.lf.max(counts.crlf).max(counts.cr);
        let first = counts.first?;
        [(first, usize::MAX), ("\n", counts.lf), ("\r\n", counts.crlf), ("\r", counts.cr)]
            .into_iter()
            .find(|(ending, count)| match *count {
                usize::MAX => most == counts.count(ending),
                n => n == most,
            })
            .map(|(ending, _)| ending)
    }
}

impl Counts {
    fn count(&self, ending: &str) -> usize {
        match ending {
            "\n" => self.lf,
            "\r\n" => self.crlf,
            _ => self.cr,
        }
    }
}

/// One line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its ending.
    pub text: &'a str,
    /// `"\n"`, `"\r\n"`, `"\r"`, or `""` for an unterminated last line.
    pub ending: &'a str,
    /// The byte offset of the line.
    pub start: usize,
}

/// The lines of `text`. LF, CR LF and a lone CR end a line; a text that ends with one has no empty line after it.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let bytes = text.as_bytes();
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= bytes.len() {
            return None;
        }
        let rest = &bytes[start..];
        let len = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
        let ending = match &rest[len..] {
            [b'\r', b'\n', ..] => 2,
            [] => 0,
            _ => 1,
        };
        let line =
            Line { text: &text[start..start + len], ending: &text[start + len..start + len + ending], start };
        start += len + ending;
        Some(line)
    })
}

/// `text` with every line ending made LF.
pub(crate) fn to_lf(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(with_ending(text, "\n"))
}

/// `text` with every line ending made `ending`.
pub(super) fn with_ending(text: &str, ending: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in lines(text) {
        out.push_str(line.text);
        if !line.ending.is_empty() {
            out.push_str(ending);
        }
    }
    out
}

/// `new` in place of `old`: lines that are in both keep the ending they have in `old`, others get `ending`.
pub(super) fn rewrite_mixed(old: &str, new: &str, ending: &str) -> String {
    let before: Vec<_> = lines(old).collect();
    let after: Vec<_> = lines(new).collect();
    let olds: Vec<_> = before.iter().map(|l| l.text).collect();
    let news: Vec<_> = after.iter().map(|l| l.text).collect();
    let mut out = String::with_capacity(new.len() + after.len());
    for (line, twin) in after.iter().zip(align(&olds, &news)) {
        out.push_str(line.text);
        if line.ending.is_empty() {
            continue;
        }
        let own = twin.map(|i| before[i].ending).filter(|e| !e.is_empty());
        out.push_str(own.unwrap_or(ending));
    }
    out
}

/// For each line of `new`, the index of the line of `old` that it continues, by a line diff. Above a size where a diff would
/// take long, lines that occur once on both sides anchor the alignment instead.
pub(crate) fn align(old: &[&str], new: &[&str]) -> Vec<Option<usize>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (mid_old, mid_new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut out: Vec<Option<usize>> = (0..head).map(Some).collect();
    let middle = if mid_old.len().saturating_mul(mid_new.len()) <= 4_000_000 {
        diffed(mid_old, mid_new)
    } else {
        anchored(mid_old, mid_new)
    };
    out.extend(middle.into_iter().map(|m| m.map(|i| i + head)));
    out.extend((old.len() - tail..old.len()).map(Some));
    out
}

fn diffed(old: &[&str], new: &[&str]) -> Vec<Option<usize>> {
    let mut out = vec![None; new.len()];
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, old, new) {
        if let similar::DiffOp::Equal { old_index, new_index, len } = op {
            for i in 0..len {
                out[new_index + i] = Some(old_index + i);
            }
        }
    }
    out
}

fn anchored(old: &[&str], new: &[&str]) -> Vec<Option<usize>> {
    let mut places: HashMap<&str, (usize, usize)> = HashMap::new();
    for (i, line) in old.iter().enumerate() {
        let place = places.entry(line).or_insert((i, 0));
        place.1 += 1;
    }
    let mut next = 0;
    let mut out = Vec::with_capacity(new.len());
    for line in new {
        let unique = places.get(line).filter(|(i, n)| *n == 1 && *i >= next).map(|(i, _)| *i);
        let found = unique.or_else(|| (old.get(next) == Some(line)).then_some(next));
        if let Some(i) = found {
            next = i + 1;
        }
        out.push(found);
    }
    out
}
