//! Thinking that a server leaves in the text as tags: `<think>…</think>`, cut anywhere across deltas.

/// What a piece of content turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Text,
    Thinking,
}

/// The tags, each with its end. They count at the very start of a reply alone: further on they are what the text is about.
const TAGS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
];
const CLOSE: &str = "</think>";

/// Splits content into text and thinking.
#[derive(Debug, Default)]
pub struct Splitter {
    state: State,
    /// Content that may be part of a tag.
    held: String,
    /// Text went out, so what follows cannot be the rest of thinking.
    told: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Only white space so far.
    #[default]
    Start,
    Inside(&'static str),
    /// Behind the closing tag: white space is dropped.
    Closed,
    /// Text in which an end tag may still come alone, because the server's template had opened it.
    Text,
    /// Text without further tags.
    Plain,
}

impl Splitter {
    /// Thinking came in a field of its own: no opening tag is looked for any more.
    pub fn thinking_elsewhere(&mut self) {
        if self.state == State::Start && self.held.is_empty() {
            self.state = State::Text;
        }
    }

    /// Takes the next content.
    pub fn push(&mut self, piece: String, out: &mut impl FnMut(Said, String)) {
        let mut rest = piece;
        if !self.held.is_empty() {
            self.held.push_str(&rest);
            rest = std::mem::take(&mut self.held);
        }
        loop {
            rest = match self.state {
                State::Plain => return self.text(rest, out),
                State::Start => match self.start(rest) {
                    Some(rest) => rest,
                    None => return,
                },
                State::Inside(close) => match rest.find(close) {
                    Some(at) => {
                        emit(Said::Thinking, rest[..at].to_owned(), out);
                        self.state = State::Closed;
                        rest[at + close.len()..].to_owned()
                    }
                    None => return self.hold(rest, &[close], Said::Thinking, out),
                },
                State::Closed => {
                    let trimmed = rest.trim_start();
                    if trimmed.is_empty() {
                        return;
                    }
                    self.state = State::Plain;
                    trimmed.to_owned()
                }
                State::Text => match rest.find(CLOSE) {
                    _ if rest.contains('`') || rest.contains("<think>") => {
                        self.state = State::Plain;
                        rest
                    }
                    Some(at) => {
                        let said = if self.told { Said::Text } else { Said::Thinking };
                        emit(said, rest[..at].to_owned(), out);
                        self.state = State::Closed;
                        rest[at + CLOSE.len()..].to_owned()
                    }
                    None => return self.hold(rest, &[CLOSE, "<think>"], Said::Text, out),
                },
            };
        }
    }

    /// The reply ended: what was held back is what it looks like.
    pub fn finish(&mut self, out: &mut impl FnMut(Said, String)) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Inside(_) => emit(Said::Thinking, held, out),
            _ => self.text(held, out),
        }
    }

    /// At the start of a reply: holds back until it is known whether a tag opens it.
    fn start(&mut self, rest: String) -> Option<String> {
        let seen = rest.trim_start();
        if let Some((open, close)) = TAGS.iter().find(|(open, _)| seen.starts_with(open)) {
            self.state = State::Inside(close);
            return Some(seen[open.len()..].to_owned());
        }
        if TAGS.iter().any(|(open, _)| open.starts_with(seen)) {
            self.held = rest;
            return None;
        }
        self.state = State::Text;
        Some(rest)
    }

    /// Lets out all but an end that may be the beginning of a tag.
    fn hold(&mut self, mut rest: String, tags: &[&str], said: Said, out: &mut impl FnMut(Said, String)) {
        let longest = tags.iter().map(|t| t.len()).max().unwrap_or(1);
        let starts = |end: &str| tags.iter().any(|tag| tag.starts_with(end));
        let from = rest.len().saturating_sub(longest - 1);
        let keep = (from..rest.len()).find(|at| rest.is_char_boundary(*at) && starts(&rest[*at..]));
        if let Some(at) = keep {
            self.held = rest.split_off(at);
        }
        match said {
            Said::Text => self.text(rest, out),
            Said::Thinking => emit(said, rest, out),
        }
    }

    fn text(&mut self, text: String, out: &mut impl FnMut(Said, String)) {
        self.told |= !text.is_empty();
        emit(Said::Text, text, out);
    }
}

fn emit(said: Said, text: String, out: &mut impl FnMut(Said, String)) {
    if !text.is_empty() {
        out(said, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let (mut splitter, mut text, mut thinking) = (Splitter::default(), String::new(), String::new());
        let mut out = |said, s: String| match said {
            Said::Text => text.push_str(&s),
            Said::Thinking => thinking.push_str(&s),
        };
        pieces.iter().for_each(|p| splitter.push((*p).into(), &mut out));
        splitter.finish(&mut out);
        (text, thinking)
    }

    #[test]
    fn tags_at_the_start_split_at_every_character() {
        for (whole, text, thinking) in [
            ("<think>plan</think>\n\nhi", "hi", "plan"),
            ("\n <think>\nplan</think>hi <think>x</think>", "hi <think>x</think>", "\nplan"),
            ("[THINK]日本[/THINK]はい", "はい", "日本"),
            ("<thought>a<b</thought>c", "c", "a<b"),
            ("<think>never closed", "", "never closed"),
            ("```\n<think>x</think>\n```", "```\n<think>x</think>\n```", ""),
            ("use `</think>` here", "use `</think>` here", ""),
            ("a <think> b </think> c", "a <think> b </think> c", ""),
            ("<thin", "<thin", ""),
            ("  text", "  text", ""),
            ("1 < 2 </thin air", "1 < 2 </thin air", ""),
        ] {
            assert_eq!(split(&[whole]), (text.into(), thinking.into()), "{whole}");
            for (at, _) in whole.char_indices() {
                assert_eq!(
                    split(&[&whole[..at], &whole[at..]]),
                    (text.into(), thinking.into()),
                    "{whole} at {at}"
                );
            }
            let chars: Vec<String> = whole.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            assert_eq!(split(&chars), (text.into(), thinking.into()), "{whole} by character");
        }
    }

    #[test]
    fn an_end_tag_alone_is_never_shown() {
        assert_eq!(split(&["plan</think>\n\nhi"]), ("hi".into(), "plan".into()));
        assert_eq!(split(&["pl", "an</thi", "nk>\n", "\nhi"]), ("planhi".into(), String::new()));
        assert_eq!(split(&["</think>hi"]), ("hi".into(), String::new()));
    }
}
