//! Which lines of a file are shown, and how.
use super::super::{ToolError, display};
use crate::workspace::text::{Encoding, Line, LineEnding, Text, lines};
use std::fmt::Write as _;

/// The most lines in one result.
pub(super) const LINES: usize = 2000;
/// The most bytes of lines in one result.
pub(super) const BYTES: usize = 45_000;
/// The most characters shown of one line.
pub(super) const WIDTH: usize = 2000;

/// A part of a file, as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// From 1; negative: from the end.
    pub offset: i64,
    pub limit: usize,
    /// Characters left out at the start of each line.
    pub skip: usize,
}

/// The text of a result, and the line that it starts with.
#[derive(Debug)]
pub(super) struct Part {
    pub text: String,
    pub first: u32,
}

impl Window {
    pub(super) fn new(offset: Option<i64>, limit: Option<u64>, column: Option<u64>) -> Self {
        let limit = limit.map_or(LINES, |n| usize::try_from(n).unwrap_or(LINES).clamp(1, LINES));
        let skip = column.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1));
        let offset = offset.unwrap_or(1);
        Window { offset: if offset == 0 { 1 } else { offset }, limit, skip }
    }

    /// ` (10–40)` for the title; nothing for a whole file.
    pub(super) fn named(&self, limit: Option<u64>) -> String {
        match (self.offset, limit) {
            (1, None) => String::new(),
            (n, _) if n < 0 => {
                format!(" (last {})", display::count(self.offset.unsigned_abs() as usize, "line"))
            }
            (from, None) => format!(" (from line {from})"),
            (from, Some(_)) if self.limit == 1 => format!(" (line {from})"),
            (from, Some(_)) => format!(" ({from}–{})", from.saturating_add(self.limit as i64 - 1)),
        }
    }

    /// The lines of `text` in this window.
    pub(super) fn of(self, text: &Text, name: &str) -> Result<Part, ToolError> {
        let total = lines(text.content()).count();
        let mut out = header(text);
        if total == 0 {
            out.push_str("(the file is empty)");
            return Ok(Part { text: out, first: 1 });
        }
        let first = match usize::try_from(self.offset) {
            Ok(from) => from - 1,
            Err(_) => total.saturating_sub(usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        if first >= total {
            let lines = display::count(total, "line");
            return Err(ToolError::Failed(format!(
                "offset {} is past the end: {name} has {lines}",
                self.offset
            )));
        }
        let mut shown = Lines { skip: self.skip, ..Lines::default() };
        let wanted = lines(text.content()).skip(first).take(self.limit);
        let last = first + wanted.enumerate().take_while(|(n, line)| shown.add(first + n + 1, line)).count();
        out.push_str(&shown.text);
        out.push_str(&footer(text, first, last, total, &shown));
        Ok(Part { text: out, first: u32::try_from(first + 1).unwrap_or(u32::MAX) })
    }
}

/// Numbered lines up to the limit of bytes.
#[derive(Default)]
pub(super) struct Lines {
    pub text: String,
    pub skip: usize,
    /// Whether a line was cut.
    pub cut: bool,
}

impl Lines {
    fn add(&mut self, number: usize, line: &Line<'_>) -> bool {
        self.push(number, line.text)
    }

    /// Whether the line still had room.
    pub(super) fn push(&mut self, number: usize, line: &str) -> bool {
        let from = line.char_indices().nth(self.skip).map_or(line.len(), |(at, _)| at);
        let shown = display::cut(&line[from..], WIDTH);
        if !self.text.is_empty() && self.text.len() + shown.len() > BYTES {
            return false;
        }
        self.cut |= shown.len() > line.len() - from || from + shown.len() < line.len();
        let _ = writeln!(self.text, "{number}\t{shown}");
        true
    }
}

/// One line on an encoding and endings that are not UTF-8 and LF; nothing otherwise.
fn header(text: &Text) -> String {
    let mut facts = Vec::new();
    if text.encoding() != Encoding::Utf8 {
        facts.push(format!(
            "encoding {}{}",
            text.encoding().name(),
            if text.guessed() { " (guessed)" } else { "" }
        ));
    }
    if text.bom() {
        facts.push("byte-order mark".into());
    }
    match text.line_ending() {
        LineEnding::Crlf => facts.push("CRLF line endings".into()),
        LineEnding::Cr => facts.push("CR line endings".into()),
        LineEnding::Mixed => facts.push("mixed line endings".into()),
        LineEnding::Lf | LineEnding::None => {}
    }
    match facts.is_empty() {
        true => String::new(),
        false => format!("({}; edits keep this, so send plain text with LF)\n", facts.join(", ")),
    }
}

fn footer(text: &Text, first: usize, last: usize, total: usize, shown: &Lines) -> String {
    let mut out = match last == total {
        true if text.final_newline() => format!("(end of file, {})", display::count(total, "line")),
        true => format!("(end of file, {}, no newline at the end)", display::count(total, "line")),
        false => format!("(lines {}–{last} of {total}; go on with offset {})", first + 1, last + 1),
    };
    if shown.cut {
        out.push_str(CUT);
    }
    out
}

pub(super) const CUT: &str =
    "\n(lines over 2,000 characters are cut: `column` with `limit` 1 shows the rest of one)";
