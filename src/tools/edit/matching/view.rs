//! A text as a rung of the ladder sees it, with the way back to its bytes.

use crate::workspace::text::lines;

/// How much of the difference between what was sent and what is in the file is overlooked. Each level includes the ones
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Line endings only.
    Exact,
    /// Spaces and tabs at the ends of lines.
    Trailing,
    /// Typographic quotes, dashes and spaces.
    Unicode,
}

/// The character that stands for its class: quotes, dashes and spaces that are shown alike and mean the same to a reader.
pub(crate) fn fold(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{02bc}' | '\u{ff07}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ff02}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// A line without its trailing white space; at [`Level::Unicode`] other kinds of spaces count too.
pub(crate) fn trim_line(line: &str, level: Level) -> &str {
    match level {
        Level::Exact => line,
        Level::Trailing => line.trim_end_matches([' ', '\t', '\u{b}', '\u{c}']),
        Level::Unicode => line.trim_end_matches(|c| matches!(fold(c), ' ' | '\t' | '\u{b}' | '\u{c}')),
    }
}

/// A line as `level` sees it.
pub(crate) fn line_key(line: &str, level: Level) -> std::borrow::Cow<'_, str> {
    let line = trim_line(line, level);
    if level < Level::Unicode || line.is_ascii() {
        return line.into();
    }
    line.chars().map(fold).collect::<String>().into()
}

/// A text with LF endings and what `level` overlooks removed.
pub(crate) struct View<'a> {
    text: std::borrow::Cow<'a, str>,
    /// For each byte of `text`, the byte of the source that it comes from. Empty where the view is the source itself.
    origin: Vec<usize>,
    source: &'a str,
}

impl<'a> View<'a> {
    pub(crate) fn new(source: &'a str, level: Level) -> Self {
        if level == Level::Exact && !source.contains('\r') {
            return View { text: source.into(), origin: Vec::new(), source };
        }
        let mut text = String::with_capacity(source.len());
        let mut origin = Vec::with_capacity(source.len());
        for line in lines(source) {
            let kept = trim_line(line.text, level);
            if level < Level::Unicode || kept.is_ascii() {
                text.push_str(kept);
                origin.extend(line.start..line.start + kept.len());
            } else {
                for (at, c) in kept.char_indices() {
                    let c = fold(c);
                    text.push(c);
                    origin.extend(std::iter::repeat_n(line.start + at, c.len_utf8()));
                }
            }
            if !line.ending.is_empty() {
                text.push('\n');
                origin.push(line.start + line.text.len());
            }
        }
        View { text: text.into(), origin, source }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where the byte `at` of the view begins in the source.
    pub(crate) fn start(&self, at: usize) -> usize {
        if self.text.len() == self.source.len() && self.origin.is_empty() {
            return at;
        }
        self.origin.get(at).copied().unwrap_or(self.source.len())
    }

    /// Where the part of the view that ends before `at` ends in the source: right after its last character, or, if `whole`,
    /// with what was overlooked at the end of that line.
    pub(crate) fn end(&self, at: usize, whole: bool) -> usize {
        let Some(last) = self.text[..at].chars().next_back() else { return self.start(at) };
        if whole || last == '\n' {
            return self.start(at);
        }
        let from = self.start(at - last.len_utf8());
        from + self.source[from..].chars().next().map_or(0, char::len_utf8)
    }
}
