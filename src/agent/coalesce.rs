//! Joins the deltas of a streamed message.
//!
//! The first delta of a message goes out at once; what follows joins for 16 ms or 4 KiB. Another kind of text, another
//! message or any other update flushes first, so order is kept. Deltas are whole `str`s: no code point is ever split.
use super::port::Update;
use crate::id::MessageId;
use std::time::Duration;
use tokio::time::Instant;

/// How long deltas join.
pub const WINDOW: Duration = Duration::from_millis(16);
/// How many bytes join at most.
pub const LIMIT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Text,
    Thought,
}

#[derive(Debug, Default)]
pub struct Coalescer {
    /// The message that is being streamed.
    current: Option<(Stream, MessageId)>,
    joined: String,
    due: Option<Instant>,
}

impl Coalescer {
    /// Takes a delta; gives back what must be sent now, in order.
    pub fn push(&mut self, stream: Stream, id: &MessageId, text: &str, now: Instant) -> [Option<Update>; 2] {
        if text.is_empty() {
            return [None, None];
        }
        if self.current.as_ref().is_none_or(|(s, i)| *s != stream || i != id) {
            let before = self.flush();
            self.current = Some((stream, id.clone()));
            return [before, Some(update(stream, id, text.to_owned()))];
        }
        self.joined.push_str(text);
        if self.joined.len() >= LIMIT || self.due.is_some_and(|due| due <= now) {
            return [self.flush(), None];
        }
        self.due.get_or_insert(now + WINDOW);
        [None, None]
    }

    /// When what is joined must go out.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is joined, to be sent before anything else.
    pub fn flush(&mut self) -> Option<Update> {
        self.due = None;
        let (stream, id) = self.current.as_ref()?;
        if self.joined.is_empty() {
            return None;
        }
        Some(update(*stream, id, std::mem::take(&mut self.joined)))
    }
}

fn update(stream: Stream, id: &MessageId, text: String) -> Update {
    match stream {
        Stream::Text => Update::Text { id: id.clone(), text },
        Stream::Thought => Update::Thought { id: id.clone(), text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(u: &Update) -> &str {
        match u {
            Update::Text { text, .. } | Update::Thought { text, .. } => text,
            _ => "",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_delta_goes_out_at_once_and_the_rest_join() {
        let (mut c, id, now) = (Coalescer::default(), MessageId::new(), Instant::now());
        let [a, b] = c.push(Stream::Text, &id, "one", now);
        assert_eq!((a, text(&b.unwrap())), (None, "one"));
        assert_eq!(c.push(Stream::Text, &id, " two", now), [None, None]);
        assert_eq!(c.push(Stream::Text, &id, " three", now), [None, None]);
        assert_eq!(c.due(), Some(now + WINDOW));
        assert_eq!(text(&c.flush().unwrap()), " two three");
        assert_eq!(c.flush(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn another_stream_flushes_first() {
        let (mut c, id, now) = (Coalescer::default(), MessageId::new(), Instant::now());
        c.push(Stream::Thought, &id, "a", now);
        c.push(Stream::Thought, &id, "b", now);
        let [a, b] = c.push(Stream::Text, &id, "c", now);
        assert_eq!((text(&a.unwrap()), text(&b.unwrap())), ("b", "c"));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_joins() {
        let (mut c, id, now) = (Coalescer::default(), MessageId::new(), Instant::now());
        c.push(Stream::Text, &id, "a", now);
        let [a, _] = c.push(Stream::Text, &id, &"x".repeat(LIMIT), now);
        assert_eq!(text(&a.unwrap()).len(), LIMIT);
    }
}
