//! What may reach a terminal: control and direction characters made visible, escape sequences of commands removed.
//!
//! Text of models, files and commands is not ours: an escape sequence in it could repaint the question that a person
//! is about to answer, and a direction override could show a command as another one.
use std::borrow::Cow;

/// Whether the character would be seen as itself: not a control, not a direction override, not invisible.
fn is_plain(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => false,
        '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => false,
        c => !c.is_control(),
    }
}

/// The text with every character that is not plain written as `\u{..}`. A carriage return before a line feed is
/// dropped: it is how the line ends.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_plain(c) => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// Removes the escape sequences from the output of one command, wherever its pieces were cut.
#[derive(Default)]
pub struct Ansi {
    state: State,
    /// A carriage return whose successor has not come yet.
    returned: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// `ESC [ …` up to a byte in `@`–`~`.
    Csi,
    /// `ESC ] …`, `ESC P …` up to BEL or `ESC \`.
    Text,
    TextEscape,
}

impl Ansi {
    /// The next piece, as it may be shown. A carriage return alone (a progress bar) starts a new line.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.state = match (self.state, c) {
                (State::Ground, '\u{1b}') => State::Escape,
                (State::Ground, c) => {
                    self.plain(c, &mut out);
                    State::Ground
                }
                (State::Escape, '[') => State::Csi,
                (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Text,
                (State::Escape, ' '..='/') => State::Escape,
                (State::Escape, _) => State::Ground,
                (State::Csi, '@'..='~') => State::Ground,
                (State::Csi, _) => State::Csi,
                (State::Text, '\u{7}') => State::Ground,
                (State::Text | State::TextEscape, '\u{1b}') => State::TextEscape,
                (State::TextEscape, '\\') => State::Ground,
                (State::Text | State::TextEscape, _) => State::Text,
            };
        }
        out
    }

    fn plain(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.returned) && c != '\n' {
            out.push('\n');
        }
        match c {
            '\r' => self.returned = true,
            '\u{7}' | '\u{8}' => {}
            c if is_plain(c) => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_written_out() {
        let cases = [
            ("plain ünïcode\tand\nlines", "plain ünïcode\tand\nlines"),
            ("a\r\nb", "a\nb"),
            ("a\rb", "a\\u{d}b"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("rm \u{202e}fdp.txt", "rm \\u{202e}fdp.txt"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
        ];
        for (input, expected) in cases {
            assert_eq!(visible(input), expected, "{input:?}");
        }
    }

    #[test]
    fn escape_sequences_go_at_any_cut() {
        let whole =
            "a\u{1b}[1;31mred\u{1b}[0m\tb\u{1b}]8;;http://x\u{1b}\\link\u{1b}]0;t\u{7}\r\n50%\r100%\u{1b}(B!";
        let expected = "ared\tblink\n50%\n100%!";
        let cuts: Vec<usize> = whole.char_indices().map(|(i, _)| i).collect();
        for &cut in &cuts {
            let mut ansi = Ansi::default();
            let (a, b) = whole.split_at(cut);
            assert_eq!(ansi.push(a) + &ansi.push(b), expected, "cut at {cut}");
        }
    }
}
