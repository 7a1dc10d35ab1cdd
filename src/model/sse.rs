//! Server-sent events from bytes, cut anywhere: <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>.
//!
//! Bytes are buffered, never half-decoded text: a UTF-8 sequence cut by a read comes out whole.

/// The most bytes one event may hold: above that a peer is broken or hostile.
pub const EVENT_CAP: usize = 8 << 20;

/// An event grew over [`EVENT_CAP`]; the stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Splits a byte stream into events. LF, CRLF and CR end a line; comments, `id` and `retry` are skipped.
#[derive(Debug, Default)]
pub struct Parser {
    /// The line that no end has been seen of.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line was read, so no byte-order mark can follow.
    started: bool,
}

impl Parser {
    /// Takes the next bytes; `each(event, data)` gets every event that they complete, `event` empty if it had no name.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str, &str)) -> Result<(), TooLarge> {
        if std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        while let Some(at) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            if self.line.is_empty() {
                self.line_end(&bytes[..at], &mut each)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..at]);
                self.line_end(&line, &mut each)?;
                line.clear();
                self.line = line;
            }
            let cr = bytes[at] == b'\r';
            bytes = &bytes[at + 1..];
            if cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        if self.line.len() + bytes.len() + self.data.len() > EVENT_CAP {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The stream ended. An event without its blank line, which the standard drops, is handed out all the same: some
    /// servers close right behind the last one. It may be cut off, so what it holds must be checked.
    pub fn finish(&mut self, mut each: impl FnMut(&str, &str)) -> Result<(), TooLarge> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line_end(&line, &mut each)?;
        }
        self.dispatch(&mut each);
        Ok(())
    }

    fn line_end(&mut self, mut line: &[u8], each: &mut impl FnMut(&str, &str)) -> Result<(), TooLarge> {
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(each);
            return Ok(());
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() >= EVENT_CAP {
                    return Err(TooLarge);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, each: &mut impl FnMut(&str, &str)) {
        if std::mem::take(&mut self.has_data) && !self.data.is_empty() {
            each(&String::from_utf8_lossy(&self.event), &String::from_utf8_lossy(&self.data));
        }
        self.data.clear();
        self.event.clear();
    }
}

/// The events of a stream that comes in these parts.
fn all(parts: &[&[u8]]) -> Result<Vec<(String, String)>, TooLarge> {
    let (mut parser, mut out) = (Parser::default(), Vec::new());
    for part in parts {
        parser.feed(part, |e, d| out.push((e.into(), d.into())))?;
    }
    parser.finish(|e, d| out.push((e.into(), d.into())))?;
    Ok(out)
}

/// For fuzzing: where a stream is cut makes no difference. The first byte says where.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let Some((at, stream)) = bytes.split_first() else { return };
    let (first, rest) = stream.split_at(usize::from(*at).min(stream.len()));
    let whole = all(&[stream]);
    assert_eq!(all(&[first, rest]), whole, "in two parts");
    assert_eq!(all(&stream.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(parts: &[&[u8]]) -> Vec<(String, String)> {
        super::all(parts).unwrap()
    }
    fn check(stream: &[u8], want: &[(&str, &str)]) {
        let want: Vec<_> = want.iter().map(|(e, d)| (e.to_string(), d.to_string())).collect();
        assert_eq!(all(&[stream]), want);
        for at in 0..=stream.len() {
            assert_eq!(all(&[&stream[..at], &stream[at..]]), want, "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(all(&bytes), want, "byte by byte");
    }

    #[test]
    fn events_by_the_standard() {
        check(b"data: a\n\ndata:b\n\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b"event: x\ndata: {\"a\":\ndata: 1}\n\ndata: c\n\n", &[("x", "{\"a\":\n1}"), ("", "c")]);
        check(b"\xef\xbb\xbfdata: a\n\n", &[("", "a")]);
        check(
            b": keep-alive\n\n:\n\ndata: a\n: in between\ndata: b\nid: 1\nretry: 5\nunknown\n\n",
            &[("", "a\nb")],
        );
        check("data: héllo 😀 日本\n\n".as_bytes(), &[("", "héllo 😀 日本")]);
        check(b"data:  two spaces\n\n", &[("", " two spaces")]);
        check(b"event: only\n\ndata\n\ndata: \n\n", &[]);
    }

    #[test]
    fn an_unfinished_last_block_is_reported() {
        check(b"data: a\n\ndata: [DONE]", &[("", "a"), ("", "[DONE]")]);
        check(b"data: a\n\ndata: b\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_not_fatal() {
        check(b"data: a\xff\xfeb\n\n", &[("", "a\u{fffd}\u{fffd}b")]);
    }

    #[test]
    fn an_event_over_the_cap_is_an_error_in_bounded_memory() {
        let (mut parser, piece) = (Parser::default(), vec![b'x'; 1 << 20]);
        let mut fed = 0;
        while parser.feed(&piece, |_, _| {}).is_ok() {
            fed += 1;
            assert!(fed <= 8, "no cap");
        }
        let mut parser = Parser::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        assert!((0..9).any(|_| parser.feed(&line, |_, _| {}).is_err()));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(stream in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200), cuts in proptest::collection::vec(0usize..200, 0..8)) {
            let whole = all(&[&stream]);
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(stream.len())).collect();
            cuts.sort_unstable();
            let (mut parts, mut from) = (Vec::new(), 0);
            for cut in cuts { parts.push(&stream[from..cut]); from = cut; }
            parts.push(&stream[from..]);
            prop_assert_eq!(all(&parts), whole);
            fuzz(&stream);
        }
    }
}
