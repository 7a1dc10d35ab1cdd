//! Gemini `generateContent`. <https://ai.google.dev/api/generate-content>
//!
//! The signature of a thought rides on a call and must go back on the same call:
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.
mod decode;
mod partial;
mod schema;
#[cfg(test)]
mod tests;

use super::{Decoder, Dialect, history};
use crate::{
    log::{Block, Image, Part},
    model::Request,
};
use history::{Answered, Ids, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use std::borrow::Cow;

pub use decode::GeminiDecoder;
pub use schema::clean as clean_schema;

/// In what a provider differs; a row of `providers.toml`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Fields that every request has.
    pub extra: Map<String, Value>,
    /// `None`: the model's own.
    pub temperature: Option<f64>,
}

/// The dialect, with the options of one provider.
#[derive(Clone, Debug)]
pub struct Gemini {
    tag: String,
    options: Options,
}

/// What stands for the signature of a call that another provider's model made; documented with the signatures.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

impl Gemini {
    pub fn new(provider: &str, options: Options) -> Self {
        Gemini { tag: format!("gemini@{provider}"), options }
    }

    fn contents<'a>(&self, model: &str, request: &'a Request) -> Vec<Content<'a>> {
        let signs = !model.contains("gemini-1") && !model.contains("gemini-2");
        let mut out = Vec::with_capacity(request.messages.len());
        for turn in history::turns(&request.messages, Ids::Any) {
            match turn {
                Turn::User(parts) => out.push(Content { role: "user", parts: user(parts) }),
                Turn::Assistant { blocks, calls } => {
                    out.push(Content { role: "model", parts: self.reply(blocks, &calls, signs) });
                    if !calls.is_empty() {
                        let images: Vec<PartOut<'a>> =
                            calls.iter().flat_map(|c| c.images).map(PartOut::image).collect();
                        let mut parts: Vec<PartOut<'a>> = calls.into_iter().map(response).collect();
                        parts.extend(images);
                        out.push(Content { role: "user", parts });
                    }
                }
            }
        }
        out
    }

    fn reply<'a>(&self, blocks: &'a [Block], calls: &[Answered<'a>], signs: bool) -> Vec<PartOut<'a>> {
        let mut next = calls.iter();
        let mut out = Vec::new();
        let mut first = true;
        for block in blocks {
            match block {
                Block::Thinking { native: Some(native), .. } if native.dialect == self.tag => {
                    if let Some(signature) = native.value.get("thoughtSignature").and_then(Value::as_str) {
                        out.push(PartOut::Text { text: Cow::Borrowed(""), signature: Some(signature) });
                    }
                }
                Block::Thinking { .. } => {}
                Block::Text { text } if text.trim().is_empty() => {}
                Block::Text { text } => out.push(PartOut::text(Cow::Borrowed(text))),
                Block::Call(_) => {
                    let Some(call) = next.next() else { continue };
                    let native = call.native.filter(|n| n.dialect == self.tag);
                    let own = native.and_then(|n| n.value.get("thoughtSignature")?.as_str());
                    // Only the first call of a reply carries one.
                    let signature = own.or((signs && first).then_some(FOREIGN_CALL));
                    first = false;
                    let args = RawValue::from_string(call.args.to_string()).unwrap_or_default();
                    out.push(PartOut::Call {
                        call: FunctionCall { name: call.name.clone(), args },
                        signature,
                    });
                }
            }
        }
        out
    }
}

fn user<'a>(parts: &'a [Part]) -> Vec<PartOut<'a>> {
    let text = history::prompt_text(parts);
    let mut out: Vec<PartOut<'a>> = history::images(parts).map(PartOut::image).collect();
    if !text.trim().is_empty() {
        out.push(PartOut::text(text.into()));
    }
    out
}

fn response(call: Answered<'_>) -> PartOut<'_> {
    let response = if call.failed {
        Response { output: None, error: Some(call.text) }
    } else {
        Response { output: Some(call.text), error: None }
    };
    PartOut::Response { response: FunctionResponse { name: call.name, response } }
}

impl Dialect for Gemini {
    fn path(&self, model: &str, _: &Request) -> String {
        let model = model.strip_prefix("models/").unwrap_or(model);
        format!("models/{model}:streamGenerateContent?alt=sse")
    }
    fn auth(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn body(&self, model: &str, request: &Request) -> String {
        let declarations: Vec<Value> = request
            .tools
            .iter()
            .map(|t| {
                let mut declaration = json!({ "name": t.name, "description": t.description });
                // A function without parameters must not have any.
                if t.schema.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty()) {
                    declaration["parameters"] = schema::clean(&t.schema);
                }
                declaration
            })
            .collect();
        let mut thinking = json!({ "includeThoughts": true });
        match request.effort.as_deref() {
            Some(effort) if model.contains("gemini-2") => {
                let budget = match effort {
                    "low" | "minimal" => 1024,
                    "medium" => 8192,
                    _ => 24_576,
                };
                thinking["thinkingBudget"] = budget.into();
            }
            Some(effort) => thinking["thinkingLevel"] = effort.into(),
            None => {}
        }
        let thinks = !model.contains("gemini-1") && !model.contains("gemini-2.0");
        let mut generation = Map::new();
        if let Some(max) = request.max_output {
            generation.insert("maxOutputTokens".into(), max.into());
        }
        generation.extend(self.options.temperature.map(|t| ("temperature".to_owned(), t.into())));
        if thinks {
            generation.insert("thinkingConfig".into(), thinking);
        }
        let body = Body {
            system: (!request.system.is_empty())
                .then(|| System { parts: [PartOut::text(Cow::Borrowed(&*request.system))] }),
            contents: self.contents(model, request),
            tools: if declarations.is_empty() {
                Vec::new()
            } else {
                vec![json!({ "functionDeclarations": declarations })]
            },
            generation,
            fields: &self.options.extra,
        };
        serde_json::to_string(&body).unwrap_or_default()
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(self.tag.clone()))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "systemInstruction", skip_serializing_if = "Option::is_none")]
    system: Option<System<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(rename = "generationConfig", skip_serializing_if = "Map::is_empty")]
    generation: Map<String, Value>,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}
#[derive(Serialize)]
struct System<'a> {
    parts: [PartOut<'a>; 1],
}
#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<PartOut<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PartOut<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    Image {
        #[serde(rename = "inlineData")]
        data: Inline<'a>,
    },
    Call {
        #[serde(rename = "functionCall")]
        call: FunctionCall<'a>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    Response {
        #[serde(rename = "functionResponse")]
        response: FunctionResponse<'a>,
    },
}
impl<'a> PartOut<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        PartOut::Text { text, signature: None }
    }
    fn image(image: &'a Image) -> Self {
        PartOut::Image { data: Inline { mime: &image.mime, data: &image.data } }
    }
}
#[derive(Serialize)]
struct Inline<'a> {
    #[serde(rename = "mimeType")]
    mime: &'a str,
    data: &'a str,
}
#[derive(Serialize)]
struct FunctionCall<'a> {
    name: Cow<'a, str>,
    args: Box<RawValue>,
}
#[derive(Serialize)]
struct FunctionResponse<'a> {
    name: Cow<'a, str>,
    response: Response<'a>,
}
#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}
