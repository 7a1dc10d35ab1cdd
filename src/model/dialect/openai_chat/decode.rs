//! The reply of a Chat Completions server, in all the forms that servers give it.
use super::{
    think::{Said, Splitter},
    wire::{CallIn, Chunk, DeltaIn},
};
use crate::{
    log::{Native, ToolSpec, Usage},
    model::{
        Delta, ErrorKind, Finish,
        dialect::{
            Decoded, Decoder,
            calls::Calls,
            push_text, push_thinking, surrogates,
            text_calls::{Found, Watch},
        },
        failure::Failure,
    },
};
use serde_json::{Value, value::RawValue};
use std::sync::Arc;

/// Decodes one reply.
pub struct ChatDecoder {
    tag: String,
    splitter: Splitter,
    watch: Watch,
    /// Thinking that no `ThinkingDone` has closed.
    thinking: Thinking,
    calls: Calls,
    usage: Option<Usage>,
    finish: Option<Result<Finish, Failure>>,
    /// Something of the reply was seen: it is no empty body.
    begun: bool,
    /// `End` or an error went out.
    over: bool,
}

/// The native form of the thinking so far.
#[derive(Default)]
struct Thinking {
    open: bool,
    /// It came as `reasoning_content`, which the server wants back by that name.
    field: bool,
    details: Vec<Value>,
}

impl ChatDecoder {
    /// `tools`: those of the request, which calls in the text may name.
    pub fn new(tag: String, tools: Arc<[ToolSpec]>) -> Self {
        ChatDecoder {
            tag,
            splitter: Splitter::default(),
            watch: Watch::new(tools),
            thinking: Thinking::default(),
            calls: Calls::default(),
            usage: None,
            finish: None,
            begun: false,
            over: false,
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, data: &str, out: &mut Vec<Decoded>) {
        self.begun = true;
        self.usage =
            chunk.usage.or_else(|| chunk.x_groq.and_then(|g| g.usage)).map(Usage::from).or(self.usage);
        let empty = chunk.choices.as_ref().is_none_or(Vec::is_empty);
        for choice in chunk.choices.into_iter().flatten() {
            // Only one choice was asked for; a second one would be another reply.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            self.usage = choice.usage.map(Usage::from).or(self.usage);
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, out);
            }
            if let Some(reason) = choice.finish_reason.filter(|r| !r.is_empty()) {
                // A refusal that came in a field of its own ends with "stop".
                if self.finish != Some(Ok(Finish::Refusal)) {
                    self.finish = Some(finish(&reason));
                }
            }
        }
        match chunk.error.map(RawValue::get) {
            Some(error) if error != "null" => {
                self.fail(Failure::of_error(&surrogates::read::<Value>(data)), out)
            }
            // vLLM's errors have no `error`: {"object": "error", "message": …}.
            _ if empty && chunk.message.is_some() => {
                self.fail(Failure::of_error(&surrogates::read::<Value>(data)), out)
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: DeltaIn<'_>, out: &mut Vec<Decoded>) {
        let details: Vec<Value> =
            delta.reasoning_details.map(|raw| surrogates::read(raw.get())).unwrap_or_default();
        let field = delta.reasoning_content.as_deref().is_some_and(|t| !t.is_empty());
        // Several fields carry the same words: the first one counts.
        let mut thought = [delta.reasoning_content, delta.reasoning, delta.reasoning_text]
            .into_iter()
            .flatten()
            .find(|t| !t.is_empty());
        if thought.is_none() {
            let words: String =
                details.iter().filter_map(|d| d.get("text").or_else(|| d.get("summary"))?.as_str()).collect();
            thought = Some(words).filter(|w| !w.is_empty());
        }
        if let Some(thought) = thought {
            self.splitter.thinking_elsewhere();
            self.thinking.open = true;
            self.thinking.field |= field;
            push_thinking(out, thought);
        }
        self.thinking.details(details);
        for part in delta.content.into_iter().flat_map(|c| c.0) {
            match part {
                (Said::Thinking, text) => {
                    self.splitter.thinking_elsewhere();
                    self.thinking.open = true;
                    push_thinking(out, text);
                }
                (Said::Text, text) => self.content(text, out),
            }
        }
        if let Some(refusal) = delta.refusal.filter(|r| !r.is_empty()) {
            self.say(Said::Text, refusal, out);
            self.finish = Some(Ok(Finish::Refusal));
        }
        let legacy = delta.function_call.map(|function| CallIn {
            index: None,
            id: None,
            function: Some(function),
            extra_content: None,
        });
        for (nth, call) in delta.tool_calls.into_iter().flatten().chain(legacy).enumerate() {
            self.call(nth, call);
        }
    }

    fn call(&mut self, nth: usize, call: CallIn<'_>) {
        let function = call.function.unwrap_or_default();
        let id = call.id.filter(|i| !i.is_empty());
        let name = function.name.filter(|n| !n.is_empty());
        let args = function.arguments.map(|raw| arguments(raw.get())).unwrap_or_default();
        let extra =
            call.extra_content.map(|raw| surrogates::read::<Value>(raw.get())).filter(|v| !v.is_null());
        self.calls.fragment(nth, call.index, id, name, &args, extra);
    }

    fn content(&mut self, text: String, out: &mut Vec<Decoded>) {
        let mut said = Vec::new();
        self.splitter.push(text, &mut |kind, text| said.push((kind, text)));
        for (kind, text) in said {
            self.say(kind, text, out);
        }
    }

    fn say(&mut self, kind: Said, text: String, out: &mut Vec<Decoded>) {
        match kind {
            Said::Thinking => {
                self.thinking.open = true;
                push_thinking(out, text);
            }
            Said::Text => {
                self.close_thinking(out);
                if let Some(text) = self.watch.push(text) {
                    push_text(out, text);
                }
            }
        }
    }

    /// The calls that stand in the text which was held back.
    fn text_calls(&mut self, calls: &mut Vec<Delta>, out: &mut Vec<Decoded>) {
        for found in self.watch.finish() {
            match found {
                Found::Text(text) => push_text(out, text),
                Found::Thinking(text) => push_thinking(out, text),
                Found::Call { name, args } => {
                    calls.push(Delta::Call { provider_id: None, name, args, native: None })
                }
            }
        }
    }

    fn close_thinking(&mut self, out: &mut Vec<Decoded>) {
        if let Some(value) = self.thinking.close() {
            out.push(Ok(Delta::ThinkingDone(Native { dialect: self.tag.clone(), value })));
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Decoded>) {
        if !std::mem::replace(&mut self.over, true) {
            out.push(Err(failure));
        }
    }

    /// The reply is complete: everything that was held back, and the end.
    fn end(&mut self, finish: Result<Finish, Failure>, out: &mut Vec<Decoded>) {
        if self.over {
            return;
        }
        let mut said = Vec::new();
        self.splitter.finish(&mut |kind, text| said.push((kind, text)));
        for (kind, text) in said {
            self.say(kind, text, out);
        }
        self.close_thinking(out);
        let finish = match finish {
            Ok(finish) => finish,
            Err(failure) => {
                push_text(out, self.watch.release());
                return self.fail(failure, out);
            }
        };
        let mut calls = self.calls.take(&self.tag);
        if calls.is_empty() {
            self.text_calls(&mut calls, out);
        } else {
            push_text(out, self.watch.release());
        }
        let finish = match finish {
            Finish::Stop if !calls.is_empty() => Finish::ToolCalls,
            Finish::ToolCalls if calls.is_empty() => Finish::Stop,
            other => other,
        };
        out.extend(calls.into_iter().map(Ok));
        if let Some(usage) = self.usage.take() {
            out.push(Ok(Delta::Usage(usage)));
        }
        out.push(Ok(Delta::End(finish)));
        self.over = true;
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, event: &str, data: &str, out: &mut Vec<Decoded>) {
        if self.over {
            return;
        }
        let data = data.trim();
        if data == "[DONE]" {
            let finish = self.finish.take().unwrap_or(Ok(Finish::Stop));
            return self.end(finish, out);
        }
        if event == "error" {
            return self.fail(Failure::of_error(&surrogates::read::<Value>(data)), out);
        }
        // Words like "ping" keep a connection alive.
        if !data.starts_with(['{', '[']) {
            return;
        }
        match serde_json::from_str::<Chunk<'_>>(data) {
            Ok(chunk) => self.chunk(chunk, data, out),
            Err(_) => {
                let mended = surrogates::mend(data);
                match serde_json::from_str::<Chunk<'_>>(&mended) {
                    Ok(chunk) => self.chunk(chunk, &mended, out),
                    Err(_) if data.starts_with('[') => {
                        self.fail(Failure::of_error(&surrogates::read::<Value>(data)), out)
                    }
                    Err(_) => self.fail(Failure::malformed("an event of the reply could not be read"), out),
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Decoded>) {
        match self.finish.take() {
            Some(finish) => self.end(finish, out),
            None if !self.begun => self.fail(Failure::malformed("the reply was empty"), out),
            None => {
                // What was read is kept, so that a person sees how far it came.
                let mut said = Vec::new();
                if !self.over {
                    self.splitter.finish(&mut |kind, text| said.push((kind, text)));
                }
                for (kind, text) in said {
                    self.say(kind, text, out);
                }
                push_text(out, self.watch.release());
                self.fail(Failure::early(), out);
            }
        }
    }

    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>) {
        self.event("", body, out);
        let finish = self.finish.take().unwrap_or(Ok(Finish::Stop));
        self.end(finish, out);
    }

    fn settled(&self) -> bool {
        self.finish.is_some()
    }
}

impl Thinking {
    /// Joins the fragments of one detail: same type and index.
    fn details(&mut self, details: Vec<Value>) {
        for detail in details {
            let same =
                |a: &Value| a.get("type") == detail.get("type") && a.get("index") == detail.get("index");
            let Some(last) = self.details.last_mut().filter(|d| same(d)) else {
                self.details.push(detail);
                continue;
            };
            let Value::Object(fields) = detail else { continue };
            for (key, value) in fields {
                match (last.get_mut(&key), value) {
                    (Some(Value::String(a)), Value::String(b))
                        if matches!(key.as_str(), "text" | "summary" | "data") =>
                    {
                        a.push_str(&b)
                    }
                    (Some(_), Value::Null) => {}
                    (_, value) => last[key.as_str()] = value,
                }
            }
        }
    }

    fn close(&mut self) -> Option<Value> {
        let was = std::mem::take(self);
        if !was.details.is_empty() {
            return Some(serde_json::json!({ "details": was.details }));
        }
        // The words stand in the thinking block itself.
        (was.open && was.field).then(super::field)
    }
}

fn finish(reason: &str) -> Result<Finish, Failure> {
    Ok(match reason.to_ascii_lowercase().as_str() {
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => Finish::ToolCalls,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => Finish::Length,
        "model_context_window_exceeded" => return Err(Failure::window_full()),
        "content_filter" | "safety" | "refusal" | "recitation" | "prohibited_content" => Finish::Refusal,
        "insufficient_system_resource" | "error" | "abort" | "aborted" | "network_error" | "server_error" => {
            return Err(Failure::new(ErrorKind::Overloaded, format!("the model stopped with \"{reason}\"")));
        }
        // "stop", "eos", "end_turn", "stop_sequence" and what is not known: the model said that it was done.
        _ => Finish::Stop,
    })
}

/// What a model wrote as arguments: a string, or (some servers) the object itself.
fn arguments(raw: &str) -> String {
    match raw.as_bytes().first() {
        Some(b'"') => surrogates::read(raw),
        _ if raw == "null" => String::new(),
        _ => raw.to_owned(),
    }
}
