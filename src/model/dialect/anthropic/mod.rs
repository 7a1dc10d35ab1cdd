//! Anthropic Messages. <https://docs.anthropic.com/en/api/messages>
//!
//! Thinking goes back byte for byte with its signature; results stand right behind their calls; at most three cache
//! marks, on the system prompt and on the last two messages of the user.
mod decode;
#[cfg(test)]
mod tests;

use super::{Decoder, Dialect, history, spoken::Spoken};
use crate::{
    log::{Block, Image, Part},
    model::{Message, Request},
};
use history::{Answered, Ids, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::borrow::Cow;

pub use decode::AnthropicDecoder;

/// In what a provider differs; a row of `providers.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Sends cache marks.
    pub cache: bool,
    /// Fields that every request has.
    pub extra: Map<String, Value>,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache: true, extra: Map::new() }
    }
}

/// The dialect, with the options of one provider.
#[derive(Clone, Debug)]
pub struct Anthropic {
    tag: String,
    options: Options,
}

impl Anthropic {
    pub fn new(provider: &str, options: Options) -> Self {
        Anthropic { tag: format!("anthropic@{provider}"), options }
    }

    fn messages<'a>(&self, request: &'a Request) -> Vec<Out<'a>> {
        let mut out: Vec<Out<'a>> = Vec::with_capacity(request.messages.len());
        for turn in history::turns(&request.messages, Ids::Word) {
            match turn {
                Turn::User(parts) => out.push(user(parts)),
                Turn::Assistant { blocks, calls } => {
                    // Roles take turns, and a person begins.
                    if out.last().is_none_or(|m| m.role == "assistant") {
                        out.push(Out { role: "user", content: vec![Content::text("(continue)".into())] });
                    }
                    out.push(Out { role: "assistant", content: self.assistant(blocks, &calls) });
                    if !calls.is_empty() {
                        out.push(Out { role: "user", content: calls.into_iter().map(result).collect() });
                    }
                }
            }
        }
        if self.options.cache {
            let users = out.iter_mut().rev().filter(|m| m.role == "user");
            users.take(2).filter_map(|m| m.content.last_mut()).for_each(Content::mark);
        }
        out
    }

    fn assistant<'a>(&self, blocks: &'a [Block], calls: &[Answered<'a>]) -> Vec<Content<'a>> {
        let mut next = calls.iter();
        let mut out = Vec::new();
        for block in blocks {
            match block {
                Block::Thinking { native: Some(native), .. } if native.dialect == self.tag => {
                    out.push(Content::Native(&native.value));
                }
                Block::Thinking { .. } => {}
                Block::Text { text } if text.trim().is_empty() => {}
                Block::Text { text } => out.push(Content::text(Cow::Borrowed(text))),
                Block::Call(_) => {
                    let Some(call) = next.next() else { continue };
                    let input = RawValue::from_string(call.args.to_string()).unwrap_or_default();
                    out.push(Content::ToolUse {
                        kind: "tool_use",
                        id: call.id.clone(),
                        name: call.name.clone(),
                        input,
                    });
                }
            }
        }
        out
    }

    /// Thinking may be on only if the calls since the last prompt began with thinking of this provider.
    fn may_think(&self, messages: &[Message]) -> bool {
        messages
            .iter()
            .rev()
            .take_while(|m| !matches!(m, Message::User { .. }))
            .filter_map(|m| if let Message::Assistant { blocks } = m { Some(blocks) } else { None })
            .filter(|blocks| blocks.iter().any(|b| matches!(b, Block::Call(_))))
            .all(|blocks| matches!(blocks.first(), Some(Block::Thinking { native: Some(n), .. }) if n.dialect == self.tag))
    }
}

fn user<'a>(parts: &'a [Part]) -> Out<'a> {
    let text = history::prompt_text(parts);
    let mut content: Vec<Content<'a>> = history::images(parts).map(Content::image).collect();
    if !text.trim().is_empty() {
        content.push(Content::text(text.into()));
    }
    Out { role: "user", content }
}

fn result(call: Answered<'_>) -> Content<'_> {
    let mut content = vec![Content::text(call.text.into())];
    content.extend(call.images.iter().map(Content::image));
    Content::ToolResult {
        kind: "tool_result",
        tool_use_id: call.id,
        content,
        is_error: call.failed,
        cache_control: None,
    }
}

/// The output limit of a model, which must be in each request.
fn max_tokens(model: &str) -> u32 {
    match model {
        m if m.contains("claude-3-5") || m.contains("claude-3.5") => 8192,
        m if m.contains("claude-3-") && !m.contains("claude-3-7") => 4096,
        _ => 32_000,
    }
}

/// Whether a model is told by a word how hard to think. Claude is since 4.6, and from 4.7 on takes no budget any more:
/// <https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html>.
fn adapts(model: &str) -> bool {
    let older = ["claude-2", "claude-3", "-4-0", "-4-1", "-4-5", "-4.1", "-4.5", "-4-2025"];
    model.contains("claude") && !model.ends_with("-4") && !older.iter().any(|old| model.contains(old))
}

impl Dialect for Anthropic {
    fn path(&self, _: &str, _: &Request) -> String {
        "v1/messages".into()
    }
    fn models_path(&self) -> &str {
        "v1/models?limit=1000"
    }
    fn auth(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn body(&self, model: &str, request: &Request) -> String {
        let effort = request.effort.as_deref().filter(|_| adapts(model));
        let budget = match request.effort.as_deref().filter(|_| effort.is_none()) {
            Some("low" | "minimal") => Some(4_000),
            Some("medium") => Some(10_000),
            Some("high") => Some(20_000),
            Some("xhigh" | "max") => Some(31_000),
            _ => None,
        };
        let thinking = budget.filter(|_| self.may_think(&request.messages));
        let max = request.max_output.unwrap_or_else(|| max_tokens(model));
        let system = (!request.system.is_empty()).then(|| {
            let mut text = Content::text(Cow::Borrowed(&*request.system));
            if self.options.cache {
                text.mark();
            }
            [text]
        });
        let body = Body {
            model,
            // The budget is part of the limit.
            max_tokens: thinking.map_or(max, |budget: u32| max.max(budget + 4_000)),
            system,
            tools: request
                .tools
                .iter()
                .map(|t| Tool { name: &t.name, description: &t.description, input_schema: &t.schema })
                .collect(),
            messages: self.messages(request),
            thinking: match effort {
                Some(_) => Some(Thinking { kind: "adaptive", budget_tokens: None }),
                None => thinking.map(|budget| Thinking { kind: "enabled", budget_tokens: Some(budget) }),
            },
            output_config: effort.map(|effort| OutputConfig { effort }),
            stream: true,
            fields: &self.options.extra,
        };
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn decoder(&self, request: &Request) -> Box<dyn Decoder> {
        Box::new(Spoken::new(AnthropicDecoder::new(self.tag.clone()), request.tools.clone()))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[Content<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Out<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    stream: bool,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_tokens: Option<u32>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
struct Out<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

/// A block. The cache mark stands last in it, so that without marks the bytes are the same.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Image {
        #[serde(rename = "type")]
        kind: &'static str,
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolUse {
        #[serde(rename = "type")]
        kind: &'static str,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        #[serde(rename = "type")]
        kind: &'static str,
        tool_use_id: Cow<'a, str>,
        content: Vec<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Native(&'a Value),
}

impl<'a> Content<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Content::Text { kind: "text", text, cache_control: None }
    }
    fn image(image: &'a Image) -> Self {
        let source = Source { kind: "base64", media_type: &image.mime, data: &image.data };
        Content::Image { kind: "image", source, cache_control: None }
    }
    /// Thinking may not be marked, and calls stand in messages that are not.
    fn mark(&mut self) {
        match self {
            Content::Text { cache_control, .. }
            | Content::Image { cache_control, .. }
            | Content::ToolResult { cache_control, .. } => {
                *cache_control = Some(Mark { kind: "ephemeral" });
            }
            Content::ToolUse { .. } | Content::Native(_) => {}
        }
    }
}

#[derive(Serialize)]
struct Mark {
    #[serde(rename = "type")]
    kind: &'static str,
}
#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}
