//! OpenAI Chat Completions: what OpenAI, OpenRouter, Ollama, LM Studio, llama.cpp, vLLM and most others speak.
//! <https://platform.openai.com/docs/api-reference/chat/create>
mod decode;
#[cfg(test)]
mod tests;
pub(super) mod think;
mod wire;

use super::{Decoder, Dialect, history};
use crate::{
    log::{Block, Image},
    model::Request,
};
use history::{Answered, Ids, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

pub use decode::ChatDecoder;

/// In what a provider differs from OpenAI; a row of `providers.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The name of the output limit: `max_tokens`, or `max_completion_tokens` where the old one is refused.
    pub max_tokens: String,
    /// Asks for the usage of a stream; some strict servers refuse the key.
    pub stream_usage: bool,
    /// Sends `prompt_cache_key`.
    pub cache_key: bool,
    /// The ids of calls must have nine characters (Mistral).
    pub nine_character_ids: bool,
    /// Sends the thinking of a reply with calls back in the field it came in; DeepSeek and Moonshot refuse a history without.
    pub replay_thinking: bool,
    /// The effort goes out as `reasoning: {effort}` (OpenRouter) instead of `reasoning_effort`.
    pub reasoning_object: bool,
    /// Fields that every request has.
    pub extra: Map<String, Value>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_tokens: "max_tokens".into(),
            stream_usage: true,
            cache_key: false,
            nine_character_ids: false,
            replay_thinking: true,
            reasoning_object: false,
            extra: Map::new(),
        }
    }
}

/// The tag of thinking that goes to any provider in the field that [`field`] names.
pub const ANY: &str = "openai-chat@*";

/// The native form of thinking that came as `reasoning_content`: the words stand in the thinking block itself.
pub fn field() -> Value {
    serde_json::json!({ "field": "reasoning_content" })
}

/// The dialect, with the options of one provider.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    /// Marks native blocks: what a provider wrote goes back to that provider alone.
    tag: String,
    options: Options,
}

impl OpenAiChat {
    pub fn new(provider: &str, options: Options) -> Self {
        OpenAiChat { tag: format!("openai-chat@{provider}"), options }
    }
}

impl Dialect for OpenAiChat {
    fn path(&self, _: &str, _: &Request) -> String {
        "chat/completions".into()
    }

    fn body(&self, model: &str, request: &Request) -> String {
        let options = &self.options;
        let mut fields = options.extra.clone();
        if let Some(max) = request.max_output {
            fields.insert(options.max_tokens.clone(), max.into());
        }
        if let Some(effort) = &request.effort {
            let (name, value) = if options.reasoning_object {
                ("reasoning", serde_json::json!({ "effort": effort }))
            } else {
                ("reasoning_effort", effort.as_str().into())
            };
            fields.insert(name.into(), value);
        }
        let body = Body {
            model,
            messages: self.messages(model, request),
            tools: request.tools.iter().map(Tool::of).collect(),
            stream: true,
            stream_options: options.stream_usage.then_some(StreamOptions { include_usage: true }),
            prompt_cache_key: options.cache_key.then_some(&request.cache_key),
            fields,
        };
        // Only maps with keys that are no strings can fail, and there are none.
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn decoder(&self, request: &Request) -> Box<dyn Decoder> {
        Box::new(ChatDecoder::new(self.tag.clone(), request.tools.clone()))
    }
}

impl OpenAiChat {
    fn messages<'a>(&self, model: &str, request: &'a Request) -> Vec<Out<'a>> {
        let mut out = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.is_empty() {
            let role = if wants_developer(model) { "developer" } else { "system" };
            out.push(Out::System { role, content: &request.system });
        }
        let ids = if self.options.nine_character_ids { Ids::Nine } else { Ids::Any };
        for turn in history::turns(&request.messages, ids) {
            match turn {
                Turn::User(parts) => {
                    let text = history::prompt_text(parts);
                    out.push(Out::User { role: "user", content: content(text, history::images(parts)) });
                }
                Turn::Assistant { blocks, calls } => {
                    out.push(self.assistant(blocks, &calls));
                    out.extend(calls.iter().map(|c| Out::Tool {
                        role: "tool",
                        tool_call_id: c.id.clone(),
                        content: c.text,
                    }));
                    // A tool message takes no image: they follow as a message of their own.
                    if calls.iter().any(|c| !c.images.is_empty()) {
                        let names: Vec<&str> =
                            calls.iter().filter(|c| !c.images.is_empty()).map(|c| &*c.name).collect();
                        let text = format!("Images in the results of: {}", names.join(", "));
                        let images = calls.iter().flat_map(|c| c.images);
                        out.push(Out::User { role: "user", content: content(text, images) });
                    }
                }
            }
        }
        out
    }

    fn assistant<'a>(&self, blocks: &'a [Block], calls: &[Answered<'a>]) -> Out<'a> {
        let text = history::reply_text(blocks);
        let (mut reasoning_content, mut reasoning_details) = (String::new(), Vec::new());
        for block in blocks {
            let Block::Thinking { text, native: Some(native), .. } = block else { continue };
            let own = native.dialect == self.tag && self.options.replay_thinking;
            if !(own || native.dialect == ANY) || calls.is_empty() {
                continue;
            }
            if native.value.get("field").is_some() {
                reasoning_content.push_str(text);
            }
            if let Some(Value::Array(details)) = native.value.get("details") {
                reasoning_details.extend(details);
            }
        }
        Out::Assistant {
            role: "assistant",
            // Null, not left out (DeepSeek wants the key) and not empty (Bedrock behind proxies refuses that).
            content: (!text.trim().is_empty()).then_some(text),
            reasoning_content: (!reasoning_content.is_empty()).then_some(reasoning_content),
            reasoning_details,
            tool_calls: calls.iter().map(|c| self.call(c)).collect(),
        }
    }

    fn call<'a>(&self, call: &Answered<'a>) -> ToolCall<'a> {
        let native = call.native.filter(|n| n.dialect == self.tag);
        ToolCall {
            id: call.id.clone(),
            kind: "function",
            function: Function { name: call.name.clone(), arguments: call.args.clone() },
            extra_content: native.and_then(|n| n.value.get("extra_content")),
        }
    }
}

/// OpenAI's newer models know the system prompt as the developer's:
/// <https://platform.openai.com/docs/guides/text#message-roles-and-instruction-following>.
fn wants_developer(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-5", "o1", "o3", "o4-"].iter().any(|new| name.starts_with(new)) || name.contains("codex")
}

fn content<'a>(text: String, images: impl Iterator<Item = &'a Image>) -> Content {
    let mut parts: Vec<ContentPart> = images
        .map(|i| ContentPart::ImageUrl {
            image_url: Url { url: format!("data:{};base64,{}", i.mime, i.data) },
        })
        .collect();
    if parts.is_empty() {
        return Content::Text(text);
    }
    if !text.trim().is_empty() {
        parts.insert(0, ContentPart::Text { text });
    }
    Content::Parts(parts)
}

/// The order of the fields is the order on the wire: what changes least stands first.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Out<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolFunction<'a>,
}
#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}
impl<'a> Tool<'a> {
    fn of(spec: &'a crate::log::ToolSpec) -> Self {
        let function =
            ToolFunction { name: &spec.name, description: &spec.description, parameters: &spec.schema };
        Tool { kind: "function", function }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Out<'a> {
    System {
        role: &'static str,
        content: &'a str,
    },
    User {
        role: &'static str,
        content: Content,
    },
    Assistant {
        role: &'static str,
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<&'a Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        role: &'static str,
        tool_call_id: Cow<'a, str>,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart {
    Text { text: String },
    ImageUrl { image_url: Url },
}
#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}
#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}
