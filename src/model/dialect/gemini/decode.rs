//! The reply of a Gemini server: each event is a piece of a response; nothing but the end of the stream ends it.
use super::partial;
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

/// Decodes one reply.
pub struct GeminiDecoder {
    tag: String,
    usage: Option<Usage>,
    finish: Option<Result<Finish, Failure>>,
    /// A call whose arguments are still coming.
    open: Option<partial::Open>,
    calls: bool,
    begun: bool,
    over: bool,
}

impl GeminiDecoder {
    pub fn new(tag: String) -> Self {
        GeminiDecoder { tag, usage: None, finish: None, open: None, calls: false, begun: false, over: false }
    }

    fn take(&mut self, piece: Piece<'_>, data: &str, out: &mut Vec<Decoded>) {
        if piece.error.is_some_and(|e| e.get() != "null") {
            return self.fail(Failure::of_error(&surrogates::read(data)), out);
        }
        self.begun = true;
        if let Some(u) = piece.usage {
            self.usage = Some(Usage {
                input: u.prompt.unwrap_or(0) + u.tool_use.unwrap_or(0),
                output: u.candidates.unwrap_or(0) + u.thoughts.unwrap_or(0),
                cached: u.cached.unwrap_or(0),
                reasoning: u.thoughts.unwrap_or(0),
                ..Usage::default()
            });
        }
        if let Some(reason) = piece.feedback.and_then(|f| f.reason) {
            self.finish = Some(Ok(Finish::Refusal));
            push_text(out, format!("(The provider refused the prompt: {reason})"));
        }
        let Some(candidate) = piece.candidates.into_iter().flatten().next() else { return };
        for part in candidate.content.and_then(|c| c.parts).into_iter().flatten() {
            self.part(part, out);
        }
        if let Some(reason) = candidate.finish {
            self.finish = Some(finish(&reason));
        }
    }

    fn part(&mut self, part: PartIn<'_>, out: &mut Vec<Decoded>) {
        if let Some(call) = part.call {
            self.call(call, part.signature, out);
        } else if let Some(text) = part.text {
            if part.thought.unwrap_or(false) {
                push_thinking(out, text)
            } else {
                push_text(out, text)
            }
            // A signature on text goes back in a part of its own behind it.
            if let Some(signature) = part.signature {
                let value = json!({ "thoughtSignature": signature });
                out.push(Ok(Delta::ThinkingDone(Native { dialect: self.tag.clone(), value })));
            }
        }
    }

    /// A call, or a piece of the one that is open: a name begins one, and what does not go on ends it.
    fn call(&mut self, call: CallIn<'_>, signature: Option<String>, out: &mut Vec<Decoded>) {
        if let Some(name) = call.name.filter(|n| !n.is_empty()) {
            self.close(out);
            self.open = Some(partial::Open::new(call.id, name, signature));
        } else if let Some(open) = &mut self.open {
            open.id = open.id.take().or(call.id);
            open.signature = open.signature.take().or(signature);
        }
        // Without a name, and none open, it calls nothing.
        let Some(open) = &mut self.open else { return };
        if let Some(args) = call.args.map(RawValue::get).filter(|a| a.starts_with('{')) {
            open.whole(args);
        }
        call.pieces.into_iter().flatten().for_each(|piece| open.piece(piece));
        if !call.goes_on.unwrap_or(false) {
            self.close(out);
        }
    }

    fn close(&mut self, out: &mut Vec<Decoded>) {
        let Some(open) = self.open.take() else { return };
        self.calls = true;
        let args = open.args();
        let native = open
            .signature
            .map(|s| Native { dialect: self.tag.clone(), value: json!({ "thoughtSignature": s }) });
        out.push(Ok(Delta::Call { provider_id: open.id, name: open.name, args: unwrapped(args), native }));
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Decoded>) {
        if !std::mem::replace(&mut self.over, true) {
            out.push(Err(failure));
        }
    }
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, _: &str, data: &str, out: &mut Vec<Decoded>) {
        let data = data.trim();
        if self.over || !data.starts_with('{') {
            return;
        }
        if let Ok(piece) = serde_json::from_str::<Piece<'_>>(data) {
            return self.take(piece, data, out);
        }
        let mended = surrogates::mend(data);
        match serde_json::from_str::<Piece<'_>>(&mended) {
            Ok(piece) => self.take(piece, &mended, out),
            Err(_) => self.fail(Failure::malformed("an event of the reply could not be read"), out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Decoded>) {
        if !self.over && matches!(self.finish, Some(Ok(_))) {
            self.close(out);
        }
        let finish = match self.finish.take() {
            _ if self.over => return,
            None if self.begun => return self.fail(Failure::early(), out),
            None => return self.fail(Failure::malformed("the reply was empty"), out),
            Some(Err(failure)) => return self.fail(failure, out),
            Some(Ok(Finish::Stop)) if self.calls => Finish::ToolCalls,
            Some(Ok(finish)) => finish,
        };
        if let Some(usage) = self.usage.take() {
            out.push(Ok(Delta::Usage(usage)));
        }
        out.push(Ok(Delta::End(finish)));
        self.over = true;
    }

    fn whole(&mut self, body: &str, out: &mut Vec<Decoded>) {
        // Without `alt=sse` a stream is an array of pieces; so is an error.
        let value: Value = serde_json::from_str(&surrogates::mend(body)).unwrap_or_default();
        match value {
            Value::Array(pieces) => pieces.iter().for_each(|p| self.event("", &p.to_string(), out)),
            one => self.event("", &one.to_string(), out),
        }
        self.finish(out);
    }

    fn settled(&self) -> bool {
        self.finish.is_some()
    }
}

fn finish(reason: &str) -> Result<Finish, Failure> {
    Ok(match reason {
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            Finish::Refusal
        }
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE" => {
            return Err(Failure::malformed(format!(
                "the model made a tool call that cannot be read ({reason})"
            )));
        }
        "OTHER" | "LANGUAGE" => {
            return Err(Failure::new(ErrorKind::Overloaded, format!("the model stopped with {reason}")));
        }
        // "STOP" and what is not known.
        _ => Finish::Stop,
    })
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(rename = "usageMetadata", default)]
    usage: Option<UsageIn>,
    #[serde(rename = "promptFeedback", default)]
    feedback: Option<Feedback>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}
#[derive(Deserialize)]
struct Feedback {
    #[serde(rename = "blockReason", default)]
    reason: Option<String>,
}
#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<ContentIn<'a>>,
    #[serde(rename = "finishReason", default)]
    finish: Option<String>,
}
#[derive(Deserialize)]
struct ContentIn<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<PartIn<'a>>>,
}
#[derive(Deserialize)]
struct PartIn<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(rename = "thoughtSignature", default)]
    signature: Option<String>,
    #[serde(rename = "functionCall", borrow, default)]
    call: Option<CallIn<'a>>,
}
#[derive(Deserialize)]
struct CallIn<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(rename = "partialArgs", default)]
    pieces: Option<Vec<partial::Piece>>,
    #[serde(rename = "willContinue", default)]
    goes_on: Option<bool>,
}
#[derive(Deserialize)]
struct UsageIn {
    #[serde(rename = "promptTokenCount", default)]
    prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount", default)]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount", default)]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount", default)]
    cached: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount", default)]
    tool_use: Option<u64>,
}
