//! The reply of a Responses server. What an item is, its `done` event says; the deltas before it are progress.
use crate::{
    log::{Native, Usage},
    model::{
        Delta, Finish,
        dialect::{Decoded, Decoder, calls::unwrapped, push_text, push_thinking, surrogates},
        failure::Failure,
    },
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// Decodes one reply.
pub struct ResponsesDecoder {
    tag: String,
    /// What was seen of each item, by its place in the output.
    items: BTreeMap<i64, Seen>,
    calls: bool,
    /// The ids of the calls that went out.
    ids: BTreeSet<String>,
    /// An item was done.
    done: bool,
    refused: bool,
    begun: bool,
    over: bool,
}

#[derive(Default)]
struct Seen {
    /// Text of it went out.
    told: bool,
    done: bool,
    call_id: Option<String>,
    name: String,
    args: String,
}

impl ResponsesDecoder {
    pub fn new(tag: String) -> Self {
        ResponsesDecoder {
            tag,
            items: BTreeMap::new(),
            calls: false,
            ids: BTreeSet::new(),
            done: false,
            refused: false,
            begun: false,
            over: false,
        }
    }

    fn take(&mut self, event: Event<'_>, data: &str, out: &mut Vec<Decoded>) {
        self.begun = true;
        let index = event.output_index.unwrap_or(0);
        match &*event.kind {
            "response.output_text.delta" => {
                self.items.entry(index).or_default().told = true;
                push_text(out, string(event.delta));
            }
            "response.refusal.delta" => {
                self.items.entry(index).or_default().told = true;
                self.refused = true;
                push_text(out, string(event.delta));
            }
            "response.reasoning_summary_part.added" if event.summary_index.unwrap_or(0) > 0 => {
                push_thinking(out, "\n\n".into());
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.items.entry(index).or_default().told = true;
                push_thinking(out, string(event.delta));
            }
            "response.output_item.added" => {
                let item = json(event.item);
                let seen = self.items.entry(index).or_default();
                // Gateways that give no index use one place for all items.
                if seen.done {
                    *seen = Seen::default();
                }
                if item["type"] == "function_call" {
                    seen.call_id = text(&item, "call_id");
                    seen.name = text(&item, "name").unwrap_or_default();
                }
            }
            "response.function_call_arguments.delta" => {
                self.items.entry(index).or_default().args.push_str(&string(event.delta));
            }
            "response.function_call_arguments.done" => {
                if let Some(args) = event.arguments {
                    self.items.entry(index).or_default().args = string(Some(args));
                }
            }
            "response.output_item.done" => self.item(index, &json(event.item), out),
            "response.completed" | "response.done" | "response.incomplete" => {
                self.complete(&json(event.response), out)
            }
            "response.failed" | "error" => self.fail(Failure::of_error(&surrogates::read(data)), out),
            _ => {}
        }
    }

    /// An item, whole.
    fn item(&mut self, index: i64, item: &Value, out: &mut Vec<Decoded>) {
        let mut seen = self.items.remove(&index).unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                let args = text(item, "arguments")
                    .filter(|a| !a.is_empty())
                    .unwrap_or(std::mem::take(&mut seen.args));
                self.call(
                    text(item, "call_id").or(seen.call_id.take()),
                    text(item, "name").unwrap_or(std::mem::take(&mut seen.name)),
                    args,
                    out,
                );
            }
            "custom_tool_call" => {
                let input = serde_json::json!({ "input": item["input"] }).to_string();
                self.call(text(item, "call_id"), text(item, "name").unwrap_or_default(), input, out);
            }
            "reasoning" => {
                if !seen.told {
                    push_thinking(out, joined(&item["summary"], "\n\n"));
                    push_thinking(out, joined(&item["content"], ""));
                }
                let mut value = serde_json::json!({ "summary": item["summary"] });
                if let Some(encrypted) = text(item, "encrypted_content") {
                    value["encrypted_content"] = encrypted.into();
                    out.push(Ok(Delta::ThinkingDone(Native { dialect: self.tag.clone(), value })));
                }
            }
            "message" if !seen.told => push_text(out, joined(&item["content"], "")),
            _ => {}
        }
        self.items.insert(index, Seen { done: true, ..Seen::default() });
        self.done = true;
    }

    fn call(&mut self, provider_id: Option<String>, name: String, args: String, out: &mut Vec<Decoded>) {
        self.calls = true;
        self.ids.extend(provider_id.clone());
        out.push(Ok(Delta::Call { provider_id, name, args: unwrapped(args), native: None }));
    }

    fn complete(&mut self, response: &Value, out: &mut Vec<Decoded>) {
        if response["error"].is_object() {
            return self.fail(Failure::of_error(response), out);
        }
        // Some gateways send items nowhere but here; others say here again what they had said.
        for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
            let id = item["call_id"].as_str();
            let new = if self.done { id.is_some_and(|id| !self.ids.contains(id)) } else { true };
            if new && item.is_object() {
                let done = std::mem::take(&mut self.done);
                self.item(index, item, out);
                self.done = done;
            }
        }
        // A call of which only fragments came.
        for (_, seen) in std::mem::take(&mut self.items) {
            if !seen.done && !seen.name.is_empty() {
                self.call(seen.call_id, seen.name, seen.args, out);
            }
        }
        let count = |at: &str| response.pointer(at).and_then(Value::as_u64);
        if let Some(input) = count("/usage/input_tokens") {
            out.push(Ok(Delta::Usage(Usage {
                input,
                output: count("/usage/output_tokens").unwrap_or(0),
                cached: count("/usage/input_tokens_details/cached_tokens").unwrap_or(0),
                reasoning: count("/usage/output_tokens_details/reasoning_tokens").unwrap_or(0),
                ..Usage::default()
            })));
        }
        let finish = match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
            Some("content_filter") => Finish::Refusal,
            Some(_) => Finish::Length,
            None if response["status"] == "incomplete" => Finish::Length,
            None if self.refused => Finish::Refusal,
            None if self.calls => Finish::ToolCalls,
            None => Finish::Stop,
        };
        out.push(Ok(Delta::End(finish)));
        self.over = true;
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Decoded>) {
        if !std::mem::replace(&mut self.over, true) {
            out.push(Err(failure));
        }
    }
}

impl Decoder for ResponsesDecoder {
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
                    // An error without a type is one all the same.
                    parsed.kind = if parsed.error.is_some_and(|e| e.get() != "null") {
                        "error".into()
                    } else {
                        event.to_owned().into()
                    };
                }
                self.take(parsed, data, out);
            }
            // The items are there; what this one would have told is the count of tokens.
            Err(_) if self.done && is_completed(event, data) => {
                let mended = serde_json::from_str::<Value>(&format!("{data}}}")).unwrap_or_default();
                self.complete(&mended["response"], out);
            }
            Err(_) => self.fail(Failure::malformed("an event of the reply could not be read"), out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Decoded>) {
        let failure = if self.begun { Failure::early() } else { Failure::malformed("the reply was empty") };
        self.fail(failure, out);
    }

    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>) {
        let value: Value = serde_json::from_str(&surrogates::mend(body)).unwrap_or_default();
        if value["output"].is_array() {
            self.complete(&value, out);
        } else {
            self.fail(Failure::of_error(&value), out);
        }
    }
}

fn is_completed(event: &str, data: &str) -> bool {
    const NAME: &str = "response.completed";
    event == NAME || data.split('"').nth(3) == Some(NAME)
}

fn string(raw: Option<&RawValue>) -> String {
    raw.map(|r| surrogates::read(r.get())).unwrap_or_default()
}
fn json(raw: Option<&RawValue>) -> Value {
    raw.map(|r| surrogates::read(r.get())).unwrap_or_default()
}
fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}
/// The texts of parts.
fn joined(parts: &Value, between: &str) -> String {
    let text =
        |p: &Value| p.get("text").or_else(|| p.get("refusal")).and_then(Value::as_str).map(str::to_owned);
    parts.as_array().into_iter().flatten().filter_map(text).collect::<Vec<_>>().join(between)
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: Option<i64>,
    #[serde(default)]
    summary_index: Option<i64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}
