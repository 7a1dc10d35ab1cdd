//! OpenAI Responses, without storage on the server: reasoning comes encrypted and is sent back in its place.
//! <https://platform.openai.com/docs/api-reference/responses/create>
mod decode;
#[cfg(test)]
mod tests;

use super::{Decoder, Dialect, history, spoken::Spoken};
use crate::{
    log::{Block, Image},
    model::Request,
};
use history::{Answered, Ids, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

pub use decode::ResponsesDecoder;

/// In what a provider differs; a row of `providers.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Sends `max_output_tokens`; the endpoint of ChatGPT accounts refuses it.
    pub max_output: bool,
    /// The path of the list of models; that of ChatGPT accounts wants to know a version of the client.
    pub models_path: String,
    /// Fields that every request has.
    pub extra: Map<String, Value>,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_output: true, models_path: "models".into(), extra: Map::new() }
    }
}

/// The dialect, with the options of one provider.
#[derive(Clone, Debug)]
pub struct OpenAiResponses {
    tag: String,
    options: Options,
}

impl OpenAiResponses {
    pub fn new(provider: &str, options: Options) -> Self {
        OpenAiResponses { tag: format!("openai-responses@{provider}"), options }
    }

    fn input<'a>(&self, request: &'a Request) -> Vec<Item<'a>> {
        let mut out = Vec::with_capacity(request.messages.len());
        for turn in history::turns(&request.messages, Ids::Word) {
            match turn {
                Turn::User(parts) => out.push(user(history::prompt_text(parts), history::images(parts))),
                Turn::Assistant { blocks, calls } => self.assistant(blocks, &calls, &mut out),
            }
        }
        out
    }

    fn assistant<'a>(&self, blocks: &'a [Block], calls: &[Answered<'a>], out: &mut Vec<Item<'a>>) {
        let mut next = calls.iter();
        for block in blocks {
            match block {
                Block::Thinking { native: Some(native), .. } if native.dialect == self.tag => {
                    // Without its encrypted content it would be looked up by id, and nothing is stored.
                    if let Some(encrypted) = native.value.get("encrypted_content").filter(|e| e.is_string()) {
                        let summary = native.value.get("summary").unwrap_or(&EMPTY);
                        out.push(Item::Reasoning { summary, encrypted_content: encrypted });
                    }
                }
                Block::Thinking { .. } => {}
                Block::Text { text } if text.trim().is_empty() => {}
                Block::Text { text } => out.push(Item::Message {
                    role: "assistant",
                    content: vec![Content::OutputText { text: Cow::Borrowed(text) }],
                }),
                Block::Call(_) => {
                    if let Some(call) = next.next() {
                        out.push(Item::FunctionCall {
                            call_id: call.id.clone(),
                            name: call.name.clone(),
                            arguments: call.args.clone(),
                        });
                    }
                }
            }
        }
        out.extend(calls.iter().map(|c| Item::FunctionCallOutput { call_id: c.id.clone(), output: c.text }));
        if calls.iter().any(|c| !c.images.is_empty()) {
            out.push(user("Images in the results above.".into(), calls.iter().flat_map(|c| c.images)));
        }
    }
}

static EMPTY: Value = Value::Array(Vec::new());

fn user<'a>(text: String, images: impl Iterator<Item = &'a Image>) -> Item<'a> {
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(Content::InputText { text });
    }
    content.extend(
        images.map(|i| Content::InputImage { image_url: format!("data:{};base64,{}", i.mime, i.data) }),
    );
    Item::Message { role: "user", content }
}

/// Models that refuse what reasoning needs; whatever is not known gets it.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !["gpt-4", "gpt-3", "chatgpt", "gpt-5-chat"].iter().any(|old| name.starts_with(old))
}

impl Dialect for OpenAiResponses {
    fn path(&self, _: &str, _: &Request) -> String {
        "responses".into()
    }

    fn body(&self, model: &str, request: &Request) -> String {
        let reasons = reasons(model);
        let body = Body {
            model,
            instructions: &request.system,
            input: self.input(request),
            tools: request.tools.iter().map(Tool::of).collect(),
            store: false,
            stream: true,
            include: if reasons { &["reasoning.encrypted_content"] } else { &[] },
            reasoning: reasons.then_some(Reasoning { effort: request.effort.as_deref(), summary: "auto" }),
            max_output_tokens: request.max_output.filter(|_| self.options.max_output),
            prompt_cache_key: &request.cache_key,
            fields: &self.options.extra,
        };
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn models_path(&self) -> &str {
        &self.options.models_path
    }

    fn decoder(&self, request: &Request) -> Box<dyn Decoder> {
        Box::new(Spoken::new(ResponsesDecoder::new(self.tag.clone()), request.tools.clone()))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    prompt_cache_key: &'a str,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    summary: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}
impl<'a> Tool<'a> {
    fn of(spec: &'a crate::log::ToolSpec) -> Self {
        let (name, description) = (spec.name.as_str(), spec.description.as_str());
        // `strict` is on by default here, and our schemas have optional fields.
        Tool { kind: "function", name, description, parameters: &spec.schema, strict: false }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: &'static str, content: Vec<Content<'a>> },
    Reasoning { summary: &'a Value, encrypted_content: &'a Value },
    FunctionCall { call_id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str> },
    FunctionCallOutput { call_id: Cow<'a, str>, output: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: String },
    InputImage { image_url: String },
    OutputText { text: Cow<'a, str> },
}
