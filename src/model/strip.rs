//! A request without what a provider just refused, to be sent once more; and the memory of it, so that the next
//! request is not refused for the same.
mod learned;
mod schema;
#[cfg(test)]
mod tests;

pub use learned::Learned;

use super::{
    ErrorKind, Message, Request,
    dialect::{history, openai_chat},
    failure::Failure,
    policy,
};
use crate::{
    id::MessageId,
    log::{Block, Native, Part, ToolSpec},
};
use std::borrow::Cow;

const NO_IMAGE: &str = "[An image stood here. This model's server did not take it.]";
/// What stands for thinking that is not there, where a server wants some with every call.
const NO_THINKING: &str = "(not kept)";

/// What can be taken out of a request, or put into it, to please a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// Signed thinking and encrypted reasoning that it does not take back.
    Reasoning,
    /// Fields of a provider's own in the messages.
    Extras,
    /// Thinking beside each call, which it wants back (DeepSeek).
    NoThinking,
    /// Images, of which it takes none.
    Images,
    /// Images that cannot be read.
    BadImages,
    /// Keywords of JSON Schema.
    Schemas,
    Effort,
    /// The limit of the output.
    Limit,
    /// Ids of calls in another form than its own (Mistral).
    Ids,
}

/// What the failure is about, and the request without it; `None`: it names nothing, or nothing of it is in there.
pub fn without(failure: &Failure, request: &Request) -> Option<(What, Request)> {
    if !policy::of(failure.kind).strip {
        return None;
    }
    let said = failure.detail.to_lowercase();
    ORDER.into_iter().filter(|what| names(*what, failure.kind, &said)).find_map(|what| {
        let less = apply(what, request, usize::MAX)?;
        Some((what, less))
    })
}

const ORDER: [What; 9] = [
    What::Reasoning,
    What::NoThinking,
    What::Effort,
    What::Limit,
    What::Ids,
    What::Images,
    What::BadImages,
    What::Schemas,
    What::Extras,
];

/// Whether a refusal, in lower case, is about this.
fn names(what: What, kind: ErrorKind, said: &str) -> bool {
    let any = |words: &[&str]| words.iter().any(|w| said.contains(w));
    let image = any(&["image", "vision", "multimodal"]);
    match what {
        What::Reasoning => kind == ErrorKind::StaleReasoning,
        What::NoThinking => {
            said.contains("reasoning_content") && any(&["passed back", "missing", "required", "must be"])
        }
        What::Effort => any(&[
            "reasoning_effort",
            "reasoning effort",
            "reasoning.effort",
            "thinkinglevel",
            "thinking level",
            "thinking_level",
            "thinking budget",
            "thinkingbudget",
            "thinking_budget",
            "budget_tokens",
            "support thinking",
            "thinking is not supported",
            "thinking mode is not",
            "must start with a thinking block",
            "expected `thinking`",
        ]),
        What::Limit => any(&["max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens"]),
        What::Ids => {
            any(&["tool call id", "tool_call_id", "call_id", "tool_calls", "tool_use_id", "tool_use.id"])
                && any(&["length", "too long", "pattern", "must be a-z"])
        }
        What::Images => {
            image && any(&["support", "accept", "mmproj", "not allowed", "unknown variant", "expected"])
        }
        What::BadImages => {
            image && any(&["process", "invalid", "decode", "corrupt", "could not", "read", "large", "exceed"])
        }
        What::Schemas => {
            any(&["schema", "tools[", "tools.", "function_declarations", "functiondeclarations", "grammar"])
                || (any(&["function", "tool"]) && any(&["parameters", "keyword"]))
        }
        What::Extras => any(&[
            "extra inputs are not permitted",
            "unknown field",
            "unrecognized",
            "unexpected field",
            "unknown parameter",
            "additional properties are not allowed",
        ]),
    }
}

/// The request with this done to its first messages; `None`: it changes nothing.
fn apply(what: What, request: &Request, messages: usize) -> Option<Request> {
    let mut less = request.clone();
    let until = messages.min(less.messages.len());
    let changed = match what {
        What::Reasoning | What::Extras => take_natives(&mut less.messages[..until]),
        What::NoThinking => add_thinking(&mut less.messages[..until]),
        What::Images | What::BadImages => take_images(&mut less.messages[..until]),
        What::Ids => plain_ids(&mut less.messages[..until]),
        What::Effort => less.effort.take().is_some(),
        What::Limit => less.max_output.take().is_some(),
        What::Schemas => {
            let plain: Vec<ToolSpec> = less
                .tools
                .iter()
                .map(|t| ToolSpec { schema: schema::plain(&t.schema), ..t.clone() })
                .collect();
            let changed = *plain != *less.tools;
            less.tools = plain.into();
            changed
        }
    };
    changed.then_some(less)
}

fn take_natives(messages: &mut [Message]) -> bool {
    let mut found = false;
    for message in messages {
        let Message::Assistant { blocks } = message else { continue };
        for block in blocks {
            let native = match block {
                Block::Thinking { native, .. } => native,
                Block::Call(call) => &mut call.native,
                Block::Text { .. } => continue,
            };
            found |= native.take().is_some();
        }
    }
    found
}

/// Ids of nine letters and digits, which every provider takes; the same for the same.
fn plain_ids(messages: &mut [Message]) -> bool {
    let mut found = false;
    let mut plain = |id: &mut String| {
        if let Cow::Owned(nine) = history::shaped(id, history::Ids::Nine) {
            found = true;
            *id = nine;
        }
    };
    for message in messages {
        match message {
            Message::Result { provider_id, .. } => plain(provider_id),
            Message::Assistant { blocks } => {
                for block in blocks {
                    if let Block::Call(call) = block {
                        plain(&mut call.provider_id);
                    }
                }
            }
            Message::User { .. } => {}
        }
    }
    found
}

/// Each message with calls gets thinking in the field that the server wants: its own words, or that there are none.
fn add_thinking(messages: &mut [Message]) -> bool {
    let mut found = false;
    for message in messages {
        let Message::Assistant { blocks } = message else { continue };
        let field = || Some(Native { dialect: openai_chat::ANY.into(), value: openai_chat::field() });
        let has = |b: &Block| matches!(b, Block::Thinking { native: Some(n), .. } if n.value.get("field").is_some());
        if !blocks.iter().any(|b| matches!(b, Block::Call(_))) || blocks.iter().any(has) {
            continue;
        }
        found = true;
        match blocks.iter_mut().find(|b| matches!(b, Block::Thinking { text, .. } if !text.is_empty())) {
            Some(Block::Thinking { native, .. }) => *native = field(),
            _ => blocks.insert(
                0,
                Block::Thinking { id: MessageId::from("m_none"), text: NO_THINKING.into(), native: field() },
            ),
        }
    }
    found
}

fn take_images(messages: &mut [Message]) -> bool {
    let mut found = false;
    for message in messages {
        match message {
            Message::User { parts } => {
                for part in parts.iter_mut().filter(|p| matches!(p, Part::Image(_))) {
                    *part = Part::Text { text: NO_IMAGE.into() };
                    found = true;
                }
            }
            Message::Result { images, text, .. } if !images.is_empty() => {
                images.clear();
                text.push('\n');
                text.push_str(NO_IMAGE);
                found = true;
            }
            Message::Result { .. } | Message::Assistant { .. } => {}
        }
    }
    found
}
