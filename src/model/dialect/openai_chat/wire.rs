//! What is read of a chunk. All of it may be missing or null; the rest is skipped without being kept.
use super::think::Said;
use crate::log::Usage;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::fmt;

#[derive(Deserialize)]
pub struct Chunk<'a> {
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub usage: Option<UsageIn>,
    #[serde(default)]
    pub x_groq: Option<Groq>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
}
#[derive(Deserialize)]
pub struct Groq {
    pub usage: Option<UsageIn>,
}
#[derive(Deserialize)]
pub struct Choice<'a> {
    #[serde(default)]
    pub index: Option<i64>,
    #[serde(borrow, default)]
    pub delta: Option<DeltaIn<'a>>,
    #[serde(borrow, default)]
    pub message: Option<DeltaIn<'a>>,
    #[serde(default)]
    pub finish_reason: Option<String>,
    #[serde(default)]
    pub usage: Option<UsageIn>,
}
#[derive(Default, Deserialize)]
pub struct DeltaIn<'a> {
    #[serde(default)]
    pub content: Option<Parts>,
    #[serde(default)]
    pub reasoning_content: Option<String>,
    #[serde(default)]
    pub reasoning: Option<String>,
    /// Copilot.
    #[serde(default)]
    pub reasoning_text: Option<String>,
    #[serde(borrow, default)]
    pub reasoning_details: Option<&'a RawValue>,
    #[serde(default)]
    pub refusal: Option<String>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallIn<'a>>>,
    #[serde(borrow, default)]
    pub function_call: Option<FunctionIn<'a>>,
}
#[derive(Deserialize)]
pub struct CallIn<'a> {
    #[serde(default)]
    pub index: Option<i64>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(borrow, default)]
    pub function: Option<FunctionIn<'a>>,
    #[serde(borrow, default)]
    pub extra_content: Option<&'a RawValue>,
}
#[derive(Default, Deserialize)]
pub struct FunctionIn<'a> {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct UsageIn {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub total_tokens: Option<u64>,
    pub prompt_tokens_details: Option<InputDetails>,
    pub completion_tokens_details: Option<OutputDetails>,
    /// DeepSeek.
    pub prompt_cache_hit_tokens: Option<u64>,
}
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct InputDetails {
    pub cached_tokens: Option<u64>,
}
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct OutputDetails {
    pub reasoning_tokens: Option<u64>,
}
impl From<UsageIn> for Usage {
    fn from(u: UsageIn) -> Self {
        let (input, said) = (u.prompt_tokens.unwrap_or(0), u.completion_tokens.unwrap_or(0));
        let reasoning = u.completion_tokens_details.and_then(|d| d.reasoning_tokens).unwrap_or(0);
        // xAI does not count thinking as completion; the total tells.
        let apart = reasoning > 0 && u.total_tokens == Some(input + said + reasoning);
        Usage {
            input,
            output: if apart { said + reasoning } else { said },
            cached: u
                .prompt_tokens_details
                .and_then(|d| d.cached_tokens)
                .or(u.prompt_cache_hit_tokens)
                .unwrap_or(0),
            reasoning,
            ..Usage::default()
        }
    }
}

/// Content: a string, or parts of text and thinking (Mistral).
pub struct Parts(pub Vec<(Said, String)>);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartsVisitor;
        impl<'de> Visitor<'de> for PartsVisitor {
            type Value = Parts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or parts")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Parts, E> {
                self.visit_string(text.to_owned())
            }
            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Parts, E> {
                Ok(Parts(if text.is_empty() { Vec::new() } else { vec![(Said::Text, text)] }))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element::<Value>()? {
                    let text =
                        |v: &Value| v.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
                    match part.get("thinking") {
                        Some(Value::String(s)) => parts.push((Said::Thinking, s.clone())),
                        Some(Value::Array(inner)) => {
                            parts.push((Said::Thinking, inner.iter().map(text).collect()))
                        }
                        _ => parts.push((Said::Text, text(&part))),
                    }
                }
                parts.retain(|(_, text)| !text.is_empty());
                Ok(Parts(parts))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Parts(Vec::new()))
            }
        }
        deserializer.deserialize_any(PartsVisitor)
    }
}
