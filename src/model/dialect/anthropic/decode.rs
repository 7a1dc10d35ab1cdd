//! The reply of a Messages server: blocks that start, grow and stop.
use crate::{
    log::{Native, Usage},
    model::{
        Delta, ErrorKind, Finish,
        dialect::{Decoded, Decoder, calls::unwrapped, push_text, push_thinking, surrogates},
        failure::Failure,
    },
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

/// Decodes one reply.
pub struct AnthropicDecoder {
    tag: String,
    open: BTreeMap<i64, Open>,
    usage: UsageIn,
    finish: Option<Result<Finish, Failure>>,
    begun: bool,
    over: bool,
}

/// A block that has not stopped.
enum Open {
    Text,
    Thinking { thinking: String, signature: String },
    Redacted(Value),
    Call { id: Option<String>, name: String, whole: Option<String>, args: String },
    Other,
}

impl AnthropicDecoder {
    pub fn new(tag: String) -> Self {
        let usage = UsageIn::default();
        AnthropicDecoder { tag, open: BTreeMap::new(), usage, finish: None, begun: false, over: false }
    }

    fn take(&mut self, event: Event<'_>, data: &str, out: &mut Vec<Decoded>) {
        let index = event.index.unwrap_or(0);
        self.begun |= event.kind != "ping";
        match &*event.kind {
            "message_start" => {
                // A second one is a retry behind the server's back: the blocks before it will not be ended.
                self.open.clear();
                self.usage = event.message.and_then(|m| m.usage).unwrap_or_default();
            }
            "content_block_start" => {
                let block: Value = event.content_block.map(|r| surrogates::read(r.get())).unwrap_or_default();
                self.start(index, block, out);
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.grow(index, delta, out);
                }
            }
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                if let Some(usage) = event.usage {
                    self.usage.replace(usage);
                }
                if let Some(reason) = event.delta.and_then(|d| d.stop_reason) {
                    self.finish = Some(finish(&reason));
                }
            }
            "message_stop" => self.end(out),
            "error" => self.fail(Failure::of_error(&surrogates::read(data)), out),
            _ => {}
        }
    }

    fn start(&mut self, index: i64, block: Value, out: &mut Vec<Decoded>) {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let open = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                push_text(out, text("text"));
                Open::Text
            }
            "thinking" => {
                push_thinking(out, text("thinking"));
                Open::Thinking { thinking: text("thinking"), signature: text("signature") }
            }
            "redacted_thinking" => Open::Redacted(block),
            "tool_use" => {
                let whole =
                    block["input"].as_object().filter(|i| !i.is_empty()).map(|_| block["input"].to_string());
                Open::Call {
                    id: block["id"].as_str().map(str::to_owned),
                    name: text("name"),
                    whole,
                    args: String::new(),
                }
            }
            _ => Open::Other,
        };
        self.open.insert(index, open);
    }

    fn grow(&mut self, index: i64, delta: DeltaIn<'_>, out: &mut Vec<Decoded>) {
        let open = self.open.entry(index).or_insert(Open::Text);
        match (&*delta.kind, open) {
            ("text_delta", Open::Text) => push_text(out, delta.text.unwrap_or_default()),
            ("thinking_delta", Open::Thinking { thinking, .. }) => {
                let more = delta.thinking.unwrap_or_default();
                thinking.push_str(&more);
                push_thinking(out, more);
            }
            ("signature_delta", Open::Thinking { signature, .. }) => {
                signature.push_str(&delta.signature.unwrap_or_default())
            }
            ("input_json_delta", Open::Call { args, .. }) => {
                args.push_str(&delta.partial_json.unwrap_or_default())
            }
            _ => {}
        }
    }

    fn stop(&mut self, index: i64, out: &mut Vec<Decoded>) {
        let value = match self.open.remove(&index) {
            Some(Open::Thinking { thinking, signature }) if !signature.is_empty() => {
                json!({ "type": "thinking", "thinking": thinking, "signature": signature })
            }
            Some(Open::Redacted(block)) => block,
            Some(Open::Call { id, name, whole, args }) => {
                let args = whole.filter(|_| args.trim().is_empty()).unwrap_or(args);
                out.push(Ok(Delta::Call { provider_id: id, name, args: unwrapped(args), native: None }));
                return;
            }
            _ => return,
        };
        out.push(Ok(Delta::ThinkingDone(Native { dialect: self.tag.clone(), value })));
    }

    fn end(&mut self, out: &mut Vec<Decoded>) {
        if self.over {
            return;
        }
        // Blocks that were never stopped are whole if the message is.
        while let Some(index) = self.open.keys().next().copied() {
            self.stop(index, out);
        }
        if let Some(usage) = self.usage.total() {
            out.push(Ok(Delta::Usage(usage)));
        }
        match self.finish.take().unwrap_or(Ok(Finish::Stop)) {
            Ok(finish) => {
                out.push(Ok(Delta::End(finish)));
                self.over = true;
            }
            Err(failure) => self.fail(failure, out),
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Decoded>) {
        if !std::mem::replace(&mut self.over, true) {
            out.push(Err(failure));
        }
    }
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, event: &str, data: &str, out: &mut Vec<Decoded>) {
        let data = data.trim();
        if self.over || !data.starts_with('{') {
            return;
        }
        let mended;
        let (parsed, data) = match serde_json::from_str::<Event<'_>>(data) {
            Ok(parsed) => (Ok(parsed), data),
            Err(_) => {
                mended = surrogates::mend(data);
                (serde_json::from_str(&mended), &*mended)
            }
        };
        match parsed {
            Ok(mut parsed) => {
                if parsed.kind.is_empty() {
                    parsed.kind = if parsed.error.is_some_and(|e| e.get() != "null") {
                        "error".into()
                    } else {
                        event.to_owned().into()
                    };
                }
                self.take(parsed, data, out);
            }
            Err(_) => self.fail(Failure::malformed("an event of the reply could not be read"), out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Decoded>) {
        if self.finish.is_some() {
            return self.end(out);
        }
        let failure = if self.begun { Failure::early() } else { Failure::malformed("the reply was empty") };
        self.fail(failure, out);
    }

    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>) {
        let message: Value = serde_json::from_str(&surrogates::mend(body)).unwrap_or_default();
        let Some(blocks) = message["content"].as_array() else {
            return self.fail(Failure::of_error(&message), out);
        };
        for (index, block) in (0..).zip(blocks) {
            self.start(index, block.clone(), out);
            self.stop(index, out);
        }
        self.usage = serde_json::from_value(message["usage"].clone()).unwrap_or_default();
        self.finish = message["stop_reason"].as_str().map(finish);
        self.end(out);
    }

    fn settled(&self) -> bool {
        self.finish.is_some()
    }
}

fn finish(reason: &str) -> Result<Finish, Failure> {
    Ok(match reason {
        "tool_use" => Finish::ToolCalls,
        "max_tokens" => Finish::Length,
        "model_context_window_exceeded" => return Err(Failure::window_full()),
        "refusal" => Finish::Refusal,
        "pause_turn" => Finish::Pause,
        "error" | "network_error" => {
            return Err(Failure::new(ErrorKind::Overloaded, format!("the model stopped with \"{reason}\"")));
        }
        // "end_turn", "stop_sequence" and what is not known.
        _ => Finish::Stop,
    })
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Option<i64>,
    #[serde(borrow, default)]
    delta: Option<DeltaIn<'a>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(default)]
    message: Option<Start>,
    #[serde(default)]
    usage: Option<UsageIn>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}
#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Option<UsageIn>,
}
#[derive(Deserialize)]
struct DeltaIn<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// Counts are totals, not steps: a later one replaces an earlier one.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct UsageIn {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}
impl UsageIn {
    fn replace(&mut self, newer: UsageIn) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }
    fn total(&self) -> Option<Usage> {
        let (input, output) = (self.input_tokens, self.output_tokens);
        if input.is_none() && output.is_none() {
            return None;
        }
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let input = input.unwrap_or(0) + cached + written;
        Some(Usage { input, output: output.unwrap_or(0), cached, written, ..Usage::default() })
    }
}
