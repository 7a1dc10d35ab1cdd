//! Around a decoder: thinking and calls that a local model left in its text, because the server in front of it did not
//! know the model's format. Chat Completions looks for them itself; here it is done for the other wires of such servers.
use super::{
    Decoded, Decoder,
    openai_chat::think::{Said, Splitter},
    push_text, push_thinking,
    text_calls::{Found, Watch},
};
use crate::{
    log::ToolSpec,
    model::{Delta, Finish},
};
use std::sync::Arc;

/// Decodes one reply with another decoder, and looks into its text.
pub struct Spoken<D> {
    inner: D,
    splitter: Splitter,
    watch: Watch,
    /// Calls came by the proper way: text is text.
    calls: bool,
}

impl<D: Decoder> Spoken<D> {
    /// `tools`: those of the request, which calls in the text may name.
    pub fn new(inner: D, tools: Arc<[ToolSpec]>) -> Self {
        Spoken { inner, splitter: Splitter::default(), watch: Watch::new(tools), calls: false }
    }

    fn pass(&mut self, decoded: Vec<Decoded>, out: &mut Vec<Decoded>) {
        for one in decoded {
            match one {
                Ok(Delta::Text(text)) => {
                    let mut said = Vec::new();
                    self.splitter.push(text, &mut |kind, text| said.push((kind, text)));
                    self.say(said, out);
                }
                Ok(Delta::Thinking(text)) => {
                    self.splitter.thinking_elsewhere();
                    push_thinking(out, text);
                }
                Ok(Delta::End(finish)) => {
                    self.flush(out);
                    let finish = self.end(finish, out);
                    out.push(Ok(Delta::End(finish)));
                }
                Err(failure) => {
                    self.flush(out);
                    push_text(out, self.watch.release());
                    out.push(Err(failure));
                }
                Ok(call @ Delta::Call { .. }) => {
                    self.calls = true;
                    push_text(out, self.watch.release());
                    out.push(Ok(call));
                }
                other => out.push(other),
            }
        }
    }

    fn flush(&mut self, out: &mut Vec<Decoded>) {
        let mut said = Vec::new();
        self.splitter.finish(&mut |kind, text| said.push((kind, text)));
        self.say(said, out);
    }

    fn say(&mut self, said: Vec<(Said, String)>, out: &mut Vec<Decoded>) {
        for (kind, text) in said {
            match kind {
                Said::Thinking => push_thinking(out, text),
                Said::Text => push_text(out, self.watch.push(text).unwrap_or_default()),
            }
        }
    }

    fn end(&mut self, finish: Finish, out: &mut Vec<Decoded>) -> Finish {
        if self.calls {
            push_text(out, self.watch.release());
            return finish;
        }
        let mut found_calls = false;
        for found in self.watch.finish() {
            match found {
                Found::Text(text) => push_text(out, text),
                Found::Thinking(text) => push_thinking(out, text),
                Found::Call { name, args } => {
                    found_calls = true;
                    out.push(Ok(Delta::Call { provider_id: None, name, args, native: None }));
                }
            }
        }
        match finish {
            Finish::Stop if found_calls => Finish::ToolCalls,
            other => other,
        }
    }
}

impl<D: Decoder> Decoder for Spoken<D> {
    fn event(&mut self, event: &str, data: &str, out: &mut Vec<Decoded>) {
        let mut decoded = Vec::new();
        self.inner.event(event, data, &mut decoded);
        self.pass(decoded, out);
    }
    fn finish(&mut self, out: &mut Vec<Decoded>) {
        let mut decoded = Vec::new();
        self.inner.finish(&mut decoded);
        self.pass(decoded, out);
    }
    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>) {
        let mut decoded = Vec::new();
        self.inner.whole(body, &mut decoded);
        self.pass(decoded, out);
    }
    fn settled(&self) -> bool {
        self.inner.settled()
    }
}
