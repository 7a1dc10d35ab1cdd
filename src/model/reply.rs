//! The body of a reply, from bytes to deltas: server-sent events, or the one piece of JSON of a server that does not stream.
use super::{
    dialect::{Decoded, Decoder},
    failure::Failure,
    sse,
};
use serde::de::IgnoredAny;

/// The most bytes of a reply in one piece.
const WHOLE_CAP: usize = 32 << 20;

/// Decodes one body, cut anywhere. Pure: `http` brings the bytes.
pub struct Reply {
    form: Form,
    decoder: Box<dyn Decoder>,
    over: bool,
}

enum Form {
    /// Nothing but white space so far.
    Unknown(Vec<u8>),
    Events(sse::Parser),
    Json(Vec<u8>),
}

impl Reply {
    pub fn new(decoder: Box<dyn Decoder>) -> Self {
        Reply { form: Form::Unknown(Vec::new()), decoder, over: false }
    }

    /// Takes the next bytes of the body.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Decoded>) {
        if self.over {
            return;
        }
        match &mut self.form {
            Form::Events(parser) => {
                let (decoder, from) = (&mut self.decoder, out.len());
                let fed = parser.feed(bytes, |event, data| decoder.event(event, data, out));
                if fed.is_err() && !ended(&out[from..]) {
                    out.push(Err(Failure::malformed("one event of the reply was larger than 8 MiB")));
                }
            }
            Form::Json(body) => {
                body.extend_from_slice(bytes);
                if body.len() > WHOLE_CAP {
                    out.push(Err(Failure::malformed("the reply was larger than 32 MiB")));
                }
            }
            Form::Unknown(seen) => {
                seen.extend_from_slice(bytes);
                // Content types lie: the first byte tells.
                let form = match seen.iter().find(|b| !b.is_ascii_whitespace()) {
                    None => return,
                    Some(b'{' | b'[') => Form::Json(Vec::new()),
                    Some(b'<') => {
                        self.over = true;
                        return out.push(Err(Failure::malformed(
                            "it answered with an HTML page, not with a reply of a model",
                        )));
                    }
                    Some(_) => Form::Events(sse::Parser::default()),
                };
                let Form::Unknown(seen) = std::mem::replace(&mut self.form, form) else { return };
                return self.feed(&seen, out);
            }
        }
        self.over = ended(out);
    }

    /// The body ended. Yields the end, or the error that there was none.
    pub fn finish(&mut self, out: &mut Vec<Decoded>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        match &mut self.form {
            Form::Unknown(_) => self.decoder.finish(out),
            Form::Json(body) => match std::str::from_utf8(body) {
                Ok(body) if whole_json(body) => self.decoder.whole(body, out),
                _ => out.push(Err(Failure::malformed("the reply was cut off or no JSON"))),
            },
            Form::Events(parser) => {
                let (decoder, from) = (&mut self.decoder, out.len());
                // An event without its end may be cut: then it is as if it had not been, and the decoder tells.
                let _ = parser.finish(|event, data| {
                    if data.trim() == "[DONE]" || whole_json(data) {
                        decoder.event(event, data, out);
                    }
                });
                if !ended(&out[from..]) {
                    self.decoder.finish(out);
                }
            }
        }
    }

    /// An `End` or an error was yielded; nothing follows.
    pub fn over(&self) -> bool {
        self.over
    }

    /// The reply is complete but for the usage that may follow.
    pub fn settled(&self) -> bool {
        self.decoder.settled()
    }
}

fn ended(out: &[Decoded]) -> bool {
    matches!(out.last(), Some(Ok(super::Delta::End(_)) | Err(_)))
}

fn whole_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
        || serde_json::from_str::<IgnoredAny>(&super::dialect::surrogates::mend(text)).is_ok()
}
