//! Wire formats. A dialect is pure: no I/O, no clock, no environment (I21); `http` moves the bytes.
pub mod anthropic;
pub mod calls;
pub mod gemini;
pub mod history;
#[cfg(test)]
pub(crate) mod matrix;
pub mod openai_chat;
pub mod openai_responses;
mod spoken;
pub mod surrogates;
pub mod text_calls;

use super::{Delta, Request, failure::Failure};

/// One wire format, with the options of the provider that speaks it. `model` is its name at the provider.
pub trait Dialect: Send + Sync {
    /// The path below the provider's base URL, without a leading slash, e.g. `chat/completions`.
    fn path(&self, model: &str, request: &Request) -> String;
    /// The body of the request: JSON. Its messages are a byte prefix of those of the next request (I14).
    fn body(&self, model: &str, request: &Request) -> String;
    /// The path of the list of models below the base URL.
    fn models_path(&self) -> &str {
        "models"
    }
    /// The header that carries the key: its name, and what stands before the key.
    fn auth(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }
    /// Headers that every request has.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// A decoder for the reply to this request.
    fn decoder(&self, request: &Request) -> Box<dyn Decoder>;
}

/// What a decoder yields.
pub type Decoded = Result<Delta, Failure>;

/// Turns the events of one reply into deltas. Never panics, loops or loses a delta on any bytes (I22).
/// Yields one `End` or one error, and nothing behind it.
pub trait Decoder: Send {
    /// One server-sent event: its `event` name, empty if none, and its `data`.
    fn event(&mut self, event: &str, data: &str, out: &mut Vec<Decoded>);
    /// The stream ended. Yields the `End`, or the error that it ended early.
    fn finish(&mut self, out: &mut Vec<Decoded>);
    /// A reply in one piece of JSON, from a server that does not stream; ends the reply.
    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>);
    /// The reply is complete but for what may still ride behind it (usage): not worth a long wait, and no loss.
    fn settled(&self) -> bool {
        false
    }
}

/// Appends text to the text that is already waiting, so that a burst of events is one delta.
pub(crate) fn push_text(out: &mut Vec<Decoded>, text: String) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Ok(Delta::Text(last))) => last.push_str(&text),
        _ => out.push(Ok(Delta::Text(text))),
    }
}

/// The same for thinking.
pub(crate) fn push_thinking(out: &mut Vec<Decoded>, text: String) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Ok(Delta::Thinking(last))) => last.push_str(&text),
        _ => out.push(Ok(Delta::Thinking(text))),
    }
}
