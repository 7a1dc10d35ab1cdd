//! Why an edit is not made, in words that say what to do next.

use super::{
    nearest::{self, Nearest},
    search,
    view::{Level, View},
};
use crate::workspace::text::lines;
use std::fmt;

/// Line numbers named in one refusal.
const LISTED: usize = 10;

/// An edit that is refused. Nothing of its call is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which edit of the call, from 1.
    pub edit: usize,
    /// How many edits the call has.
    pub of: usize,
    /// Why.
    pub why: Why,
}

/// Why an edit is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// `old` is nowhere in the file.
    NotFound {
        /// The most similar place, to be shown only.
        nearest: Option<Nearest>,
    },
    /// `old` is nowhere in the file, and `new` is there already.
    AlreadyThere {
        /// The first line of `new` in the file, from 1.
        line: usize,
    },
    /// `old` is in several places.
    Ambiguous {
        /// The lines where it begins, from 1; the first few.
        lines: Vec<usize>,
        /// How many places there are; a lower bound above 1000.
        places: usize,
    },
    /// `old` is empty and the file is not.
    Empty,
    /// `old` and `new` say the same, or the file stays as it is.
    NoChange,
    /// An earlier edit of the call changed the text that `old` names.
    Overlap,
    /// New lines would stand left of the place they belong to.
    Outdented {
        /// The line of the match, from 1.
        line: usize,
    },
    /// Line numbers or escapes can be taken out in ways that give different results.
    Unclear,
}

impl std::error::Error for Refusal {}

impl Why {
    pub(super) fn ambiguous(content: &str, starts: impl ExactSizeIterator<Item = usize>) -> Self {
        let places = starts.len();
        let mut listed: Vec<_> = starts.take(LISTED).map(|at| line_of(content, at)).collect();
        listed.dedup();
        Why::Ambiguous { lines: listed, places }
    }
}

/// The line of a byte, from 1.
pub(crate) fn line_of(content: &str, at: usize) -> usize {
    let before = &content[..at];
    // Between the CR and the LF of one ending there is no line.
    lines(before).filter(|l| !l.ending.is_empty()).count() + 1
}

/// What to say about a text that no rung finds.
pub(super) fn not_found(content: &str, exact: &View<'_>, old: &str, new: &str) -> Why {
    let telling = new.trim().chars().count() >= 8;
    let there = if telling { search::occurrences(exact, new, Level::Exact, true) } else { Vec::new() };
    match there.first() {
        Some(hit) => Why::AlreadyThere { line: line_of(content, hit.range.start) },
        None => Why::NotFound { nearest: nearest::nearest(content, old) },
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of > 1 {
            write!(f, "edit {} of {}: ", self.edit, self.of)?;
        }
        write!(f, "{}", self.why)?;
        if self.of > 1 {
            f.write_str("\nNone of the edits was applied.")?;
        }
        Ok(())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotFound { nearest: None } => f.write_str(
                "old is not in the file, and nothing in it is like it. Read the file, then send old as it stands there.",
            ),
            Why::NotFound { nearest: Some(nearest) } => write!(
                f,
                "old is not in the file. The nearest place (not changed) begins at line {}:\n{nearest}\
                 Send old as it stands in the file, or read the file again if it should have been there.",
                nearest.first_line()
            ),
            Why::AlreadyThere { line } => write!(
                f,
                "old is not in the file, but new is there already, at line {line}: the edit seems to be made. Read the file \
                 before you change it again."
            ),
            Why::Ambiguous { lines, places } => {
                let numbers: Vec<_> = lines.iter().map(usize::to_string).collect();
                let more = if *places > lines.len() { ", …" } else { "" };
                write!(
                    f,
                    "old is in the file {places} times (lines {}{more}). Add surrounding lines to old and new so that it \
                     names one place, or set replace_all to change every one.",
                    numbers.join(", ")
                )
            }
            Why::Empty => f.write_str(
                "old is empty, but the file is not. Put the text to replace in old; to insert, put the line before it in \
                 both strings; to replace the whole file, use write.",
            ),
            Why::NoChange => f.write_str(
                "the edit changes nothing: old and new say the same. Line endings are kept as the file has them.",
            ),
            Why::Overlap => f.write_str(
                "an earlier edit of this call changed the text that old names. Edits apply one after another: write old as \
                 it is after the earlier ones, or join the two edits.",
            ),
            Why::Outdented { line } => write!(
                f,
                "the indentation is unclear: old was sent without all of the white space in front of it at line {line}, and the \
                 lines that follow in new do not fit it. Send whole lines, with their indentation, in old and new."
            ),
            Why::Unclear => f.write_str(
                "old is only found once line numbers or backslashes are taken out, and that can be done in ways that give \
                 different results. Send both strings exactly as the text is to be, without line numbers.",
            ),
        }
    }
}
