//! Bytes cut into lines, in bounded memory.

use crate::{frame::MAX_INPUT, oversize::Oversize};

/// What is kept of either end of a line that is too long, in bytes.
const KEPT: usize = 4096;

/// One line, never blank, without its line ending.
#[derive(Debug)]
pub(crate) enum Line {
    /// At most [`MAX_INPUT`] bytes.
    Whole(Vec<u8>),
    /// Longer: what its two ends tell.
    TooLong(Oversize),
}

/// Cuts at `\n`; a `\r` before it belongs to the line ending; blank lines are skipped.
///
/// Memory: one line of at most [`MAX_INPUT`], or the two kept ends of a longer one.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    drained: Option<Drained>,
}

/// The ends of a line that is being thrown away.
#[derive(Debug)]
struct Drained {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl Lines {
    /// Takes the next bytes of the stream and appends every line they complete.
    pub(crate) fn feed(&mut self, mut chunk: &[u8], lines: &mut Vec<Line>) {
        while let Some(at) = chunk.iter().position(|&b| b == b'\n') {
            let (end, rest) = (&chunk[..at], &chunk[at + 1..]);
            if self.partial.is_empty() && self.drained.is_none() && end.len() <= MAX_INPUT {
                push(end.to_vec(), lines);
            } else {
                self.extend(end);
                self.complete(lines);
            }
            chunk = rest;
        }
        self.extend(chunk);
    }

    /// The stream has ended: what is left counts as a line, even without a newline.
    pub(crate) fn finish(&mut self, lines: &mut Vec<Line>) {
        self.complete(lines);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some(drained) = &mut self.drained {
            return drained.extend(bytes);
        }
        if self.partial.len() + bytes.len() <= MAX_INPUT {
            return self.partial.extend_from_slice(bytes);
        }
        let partial = std::mem::take(&mut self.partial);
        let mut drained = Drained { head: Vec::new(), tail: Vec::new(), bytes: 0 };
        drained.extend(&partial);
        drained.extend(bytes);
        self.drained = Some(drained);
    }

    fn complete(&mut self, lines: &mut Vec<Line>) {
        match self.drained.take() {
            Some(d) => lines.push(Line::TooLong(Oversize::read(&d.head, &d.tail, d.bytes))),
            None => push(std::mem::take(&mut self.partial), lines),
        }
    }
}

impl Drained {
    fn extend(&mut self, bytes: &[u8]) {
        let missing = KEPT.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        let last = &bytes[bytes.len().saturating_sub(KEPT)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(KEPT);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(last);
        self.bytes += bytes.len() as u64;
    }
}

fn push(mut line: Vec<u8>, lines: &mut Vec<Line>) {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if !line.iter().all(u8::is_ascii_whitespace) {
        lines.push(Line::Whole(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut cutter) = (Vec::new(), Lines::default());
        for chunk in chunks {
            cutter.feed(chunk, &mut lines);
        }
        cutter.finish(&mut lines);
        let show = |line| match line {
            Line::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Line::TooLong(o) => format!("too long: {}", o.bytes),
        };
        lines.into_iter().map(show).collect()
    }

    #[test]
    fn line_endings_blank_lines_and_a_last_line_without_newline() {
        let table: &[(&[&[u8]], &[&str])] = &[
            (&[b"a\nb\n"], &["a", "b"]),
            (&[b"a\r\nb\r\n"], &["a", "b"]),
            (&[b"\n\r\n  \n\t\r\na\n\n"], &["a"]),
            (&[b"a", b"b", b"\nc"], &["ab", "c"]),
            (&[b"a\r", b"\nb"], &["a", "b"]),
            (&[b""], &[]),
            (&[b"a\r"], &["a"]),
        ];
        for (chunks, expected) in table {
            assert_eq!(cut(chunks), *expected, "{chunks:?}");
        }
    }

    #[test]
    fn the_limit_is_exact_and_the_next_line_is_unharmed() {
        let at_limit = vec![b'x'; MAX_INPUT];
        assert_eq!(cut(&[&at_limit, b"\nnext\n"])[1], "next");
        assert_eq!(cut(&[&at_limit, b"\n"])[0].len(), MAX_INPUT);
        let over = [at_limit.as_slice(), b"y\nnext\n"].concat();
        assert_eq!(cut(&[&over]), [format!("too long: {}", MAX_INPUT + 1), "next".into()]);
        assert_eq!(
            cut(&[&at_limit, b"y", b"\nnext"]),
            [format!("too long: {}", MAX_INPUT + 1), "next".into()]
        );
    }

    #[test]
    fn a_long_line_is_drained_in_bounded_memory() {
        let (mut lines, mut cutter) = (Vec::new(), Lines::default());
        let chunk = vec![b'x'; 64 * 1024];
        for _ in 0..1024 {
            cutter.feed(&chunk, &mut lines);
            let held = cutter.partial.capacity()
                + cutter.drained.as_ref().map_or(0, |d| d.head.capacity() + d.tail.capacity());
            assert!(held <= 2 * MAX_INPUT, "{held}");
        }
        let drained = cutter.drained.as_ref().unwrap();
        assert!(drained.head.capacity() + drained.tail.capacity() <= 8 * KEPT);
        assert_eq!(cutter.partial.capacity(), 0);
        cutter.feed(b"\n", &mut lines);
        assert!(matches!(&lines[..], [Line::TooLong(o)] if o.bytes == 64 * 1024 * 1024));
    }

    proptest! {
        #[test]
        fn how_the_bytes_arrive_does_not_matter(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'{'), any::<u8>()], 0..200), cuts in prop::collection::vec(0usize..200, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(cut(&chunks), cut(&[&bytes]));
        }
    }
}
