//! Prompts that are meant for the turn that runs: `_meta["hermes-editor"].steer`, or `/steer …`.
use hermes_protocol::acp;
use serde::Deserialize;
use serde_json::{Value, json};

/// Left for the handler: the words have been handed to the running turn.
pub struct Steered;

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    prompt: Vec<acp::ContentBlock>,
}

const COMMAND: &str = "/steer";

/// What a prompt says to the running turn; `None`: it is one of its own. Only text can be said that way.
pub fn words(params: &str) -> Option<String> {
    // Most prompts are not; a large one is not read twice for that.
    if !params.contains("\"steer\"") && !params.contains(COMMAND) {
        return None;
    }
    let params: Params = serde_json::from_str(params).ok()?;
    let meta = params.meta.as_ref().and_then(|m| m.get("hermes-editor")?.get("steer")?.as_bool());
    let mut text = String::new();
    for block in params.prompt {
        match block {
            acp::ContentBlock::Text(t) => text.push_str(&t.text),
            acp::ContentBlock::ResourceLink(link) => text.push_str(&link.uri),
            _ => return None,
        }
    }
    let text = match (command(&text), meta) {
        (Some(rest), _) => rest.to_owned(),
        (None, Some(true)) => text,
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What stands behind `/steer`.
fn command(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix(COMMAND)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// The answer to such a prompt, at once: it is no turn of its own.
pub fn response() -> acp::PromptResponse {
    let meta = super::to_acp::meta("hermes-editor", json!({"steered": true}));
    acp::PromptResponse::new(acp::StopReason::EndTurn).meta(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_the_running_turn() {
        let text = |t: &str| json!({"type": "text", "text": t});
        let of = |prompt: Value, meta: Value| {
            words(&json!({"sessionId": "s", "prompt": prompt, "_meta": meta}).to_string())
        };
        let steer = json!({"hermes-editor": {"steer": true}});
        assert_eq!(of(json!([text("/steer  use tabs ")]), Value::Null).as_deref(), Some("use tabs"));
        assert_eq!(of(json!([text("use tabs")]), steer.clone()).as_deref(), Some("use tabs"));
        for (prompt, meta) in [
            (json!([text("use tabs")]), Value::Null),
            (json!([text("what does \"steer\" mean?")]), json!({})),
            (json!([text("/steering wheel")]), Value::Null),
            (json!([text("/steer")]), Value::Null),
            (json!([text("x")]), json!({"hermes-editor": {"steer": "true"}})),
            (json!([{"type": "image", "data": "", "mimeType": "image/png"}]), steer),
        ] {
            assert_eq!(of(prompt.clone(), meta), None, "{prompt}");
        }
    }
}
