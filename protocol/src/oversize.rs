//! What the two ends of a line that was too long to keep still tell: whose answer it is, or whom to refuse.

use crate::frame::Id;

/// A drained line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Oversize {
    /// Its whole length in bytes.
    pub(crate) bytes: u64,
    /// Its top-level id, if that stands in one of the kept ends.
    pub(crate) id: Option<Id>,
    /// Whether it answers one of our requests (a `result` or `error` and no `method` was seen).
    pub(crate) answer: bool,
}

impl Oversize {
    /// Reads the first and the last bytes of a line. Wrong only for a line that is not JSON.
    pub(crate) fn read(head: &[u8], tail: &[u8], bytes: u64) -> Oversize {
        let mut seen = Seen::default();
        let mut scan = Scan { text: head, at: 0 };
        if scan.token(b'{').is_some() {
            scan.members(&mut seen);
        }
        let candidates = (0..tail.len()).rev().filter(|&at| tail[at..].starts_with(b"\"id\""));
        for at in candidates {
            if seen.id.is_some() {
                break;
            }
            // Only where a member may begin; and only if from there on the text ends exactly as a message does, which
            // no nested object and no text inside a string can: their quotes are escaped, their braces close too early.
            let before = tail[..at].iter().rev().find(|b| !b.is_ascii_whitespace());
            let mut end = Seen::default();
            let mut scan = Scan { text: tail, at };
            if matches!(before, Some(b',' | b'{')) && scan.members(&mut end) && scan.at_end() {
                seen.id = end.id;
                seen.method |= end.method;
                seen.answer |= end.answer;
            }
        }
        Oversize { bytes, id: seen.id, answer: seen.answer && !seen.method }
    }
}

/// Top-level members met.
#[derive(Default)]
struct Seen {
    id: Option<Id>,
    method: bool,
    answer: bool,
}

/// A JSON lexer for text that may stop anywhere. Every step returns `None` where the text stops or is not JSON.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Reads `"key": value, …}`. True if the closing brace was reached.
    fn members(&mut self, seen: &mut Seen) -> bool {
        loop {
            let Some(key) = self.string() else { return false };
            if self.token(b':').is_none() {
                return false;
            }
            seen.method |= key == b"\"method\"";
            seen.answer |= key == b"\"result\"" || key == b"\"error\"";
            let Some(value) = self.value() else { return false };
            if key == b"\"id\"" {
                seen.id = std::str::from_utf8(value).ok().and_then(Id::parse);
            }
            if self.token(b',').is_none() {
                return self.token(b'}').is_some();
            }
        }
    }

    fn blank(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn at_end(&mut self) -> bool {
        self.blank();
        self.at == self.text.len()
    }

    fn token(&mut self, token: u8) -> Option<()> {
        self.blank();
        (*self.text.get(self.at)? == token).then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        self.blank();
        let start = self.at;
        let mut at = self.at;
        if *self.text.get(at)? != b'"' {
            return None;
        }
        loop {
            at += 1;
            match *self.text.get(at)? {
                b'\\' => at += 1,
                b'"' => break,
                _ => {}
            }
        }
        self.at = at + 1;
        Some(&self.text[start..self.at])
    }

    /// A whole value. A number or word needs something after it, else it may go on beyond the text.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.blank();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match *self.text.get(self.at)? {
                b'"' => _ = self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return None,
                _ if depth == 0 => {
                    while !matches!(*self.text.get(self.at)?, b',' | b'}' | b']')
                        && !self.text[self.at].is_ascii_whitespace()
                    {
                        self.at += 1;
                    }
                }
                _ => self.at += 1,
            }
            if depth == 0 {
                return Some(&self.text[start..self.at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(head: &str, tail: &str) -> (Option<String>, bool) {
        let o = Oversize::read(head.as_bytes(), tail.as_bytes(), 1);
        (o.id.map(|id| id.raw().to_owned()), o.answer)
    }

    #[test]
    fn the_id_is_found_at_either_end_and_only_at_the_top() {
        let table = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"x":"aaa"#,
                "aaa\"}}",
                Some("7"),
                false,
            ),
            (r#" { "id" : "a\"b" , "method":"m","params":{"x":"aaa"#, "aaa\"}}", Some(r#""a\"b""#), false),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"id":3,"x":"aaa"#,
                r#"aaa"},"id":-7}"#,
                Some("-7"),
                false,
            ),
            (
                r#"{"method":"m","params":{"x":"aaa"#,
                r#"aaa"}, "id" : 12 , "jsonrpc":"2.0" } "#,
                Some("12"),
                false,
            ),
            (r#"{"method":"m","params":{"x":"aaa"#, r#"aaa","id":5}}"#, None, false),
            (r#"{"method":"m","params":{"x":"aaa"#, r#"aaa\",\"id\":5}"}}"#, None, false),
            (r#"{"method":"m","params":{"x":["aaa"#, r#"aaa","id"]}}"#, None, false),
            (r#"{"method":"m","params":{"x":"aaa"#, r#"aaa"},"id":1.5}"#, None, false),
            (r#"{"id":12"#, "3}", None, false),
            (r#"{"jsonrpc":"2.0","id":3,"result":{"content":"aaa"#, "aaa\"}}", Some("3"), true),
            (r#"{"jsonrpc":"2.0","result":{"content":"aaa"#, "aaa\"},\"id\":3}", Some("3"), true),
            (r#"{"x":"aaa"#, r#"aaa","method":"m","id":4}"#, Some("4"), false),
            ("xxx", "xxx", None, false),
            ("[{\"id\":1,", "\"id\":2}]", None, false),
            ("", "", None, false),
        ];
        for (head, tail, id, answer) in table {
            assert_eq!(check(head, tail), (id.map(str::to_owned), answer), "{head} … {tail}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(head in ".{0,64}", tail in r#"[\\"id:{}\[\], 0-9a]{0,64}"#, raw in prop::collection::vec(any::<u8>(), 0..64)) {
            Oversize::read(head.as_bytes(), tail.as_bytes(), 0);
            Oversize::read(tail.as_bytes(), &raw, 0);
        }
    }
}
