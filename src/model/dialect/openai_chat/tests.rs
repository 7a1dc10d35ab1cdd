use super::{super::matrix, *};
use crate::{log::Native, model::Message};
use proptest::prelude::*;
use serde_json::json;

fn chat() -> OpenAiChat {
    OpenAiChat::new("test", Options::default())
}
fn decoder() -> Box<dyn Decoder> {
    chat().decoder(&matrix::request(vec![]))
}
fn own() -> Native {
    Native { dialect: "openai-chat@test".into(), value: json!({"field": "reasoning_content"}) }
}

#[test]
fn fixtures_decode_at_every_split() {
    matrix::fixtures("openai-chat", decoder);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), key in "choices|error|usage|delta|[a-z]{0,4}", text in ".{0,20}") {
        matrix::garbage(decoder(), &bytes, &key, &json!({key.clone(): text, "choices": [{"delta": {key.clone(): [text]}}]}));
    }
}

#[test]
fn requests_grow_by_appending() {
    matrix::prefixes(&chat(), &matrix::history(own(), None), |body| matrix::array(body, "messages"));
}

/// What a strict provider checks of the messages.
fn valid(messages: &[Value]) {
    let mut ids = std::collections::HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for m in messages {
        let role = m["role"].as_str().unwrap();
        if role != "tool" {
            assert!(open.is_empty(), "calls without results: {open:?}");
        }
        match role {
            "tool" => {
                let id = m["tool_call_id"].as_str().unwrap();
                let at = open.iter().position(|o| o == id).expect("a result without a call");
                open.remove(at);
                assert!(m["content"].as_str().is_some_and(|c| !c.is_empty()));
            }
            "assistant" => {
                let calls = m["tool_calls"].as_array();
                assert!(calls.is_none_or(|c| !c.is_empty()));
                assert!(calls.is_some() || m["content"].as_str().is_some_and(|c| !c.is_empty()));
                assert!(m.get("content").is_some());
                for c in calls.into_iter().flatten() {
                    let id = c["id"].as_str().unwrap().to_owned();
                    assert!(ids.insert(id.clone()), "{id} twice");
                    open.push(id);
                    let args: Value =
                        serde_json::from_str(c["function"]["arguments"].as_str().unwrap()).unwrap();
                    assert!(args.is_object());
                }
            }
            "user" => assert!(!m["content"].as_str().unwrap_or("parts").is_empty()),
            other => assert_eq!(other, "system"),
        }
    }
    assert!(open.is_empty());
}

#[test]
fn a_hard_history_is_valid_for_strict_providers() {
    for nine in [false, true] {
        let dialect = OpenAiChat::new("test", Options { nine_character_ids: nine, ..Options::default() });
        let body: Value =
            serde_json::from_str(&dialect.body("m", &matrix::request(matrix::history(own(), None)))).unwrap();
        let messages = body["messages"].as_array().unwrap();
        valid(messages);
        let text = body.to_string();
        assert!(!text.contains("FOREIGN") && !text.contains("foreign thought"), "{text}");
        assert_eq!(messages[2]["reasoning_content"], "own thought");
        assert!(text.contains("data:image/png;base64,aGk="));
        assert_eq!(body["stream_options"]["include_usage"], true);
        assert_eq!(body["max_tokens"], 1000);
        assert_eq!(body["tools"][0]["function"]["name"], "read");
    }
}

#[test]
fn options_of_a_provider() {
    let options: Options = toml::from_str("max_tokens = 'max_completion_tokens'\nstream_usage = false\ncache_key = true\nreasoning_object = true\n[extra]\nfoo = 1").unwrap();
    let mut request = matrix::request(vec![matrix::user("hi")]);
    request.effort = Some("high".into());
    request.tools = std::sync::Arc::from([]);
    let body: Value = serde_json::from_str(&OpenAiChat::new("test", options).body("gpt", &request)).unwrap();
    assert_eq!(body["model"], "gpt");
    assert_eq!(body["max_completion_tokens"], 1000);
    assert_eq!(body["prompt_cache_key"], "session-1");
    assert_eq!(body["reasoning"]["effort"], "high");
    assert_eq!(body["foo"], 1);
    assert!(body.get("stream_options").is_none() && body.get("tools").is_none());
    let body: Value = serde_json::from_str(&chat().body("gpt", &request)).unwrap();
    assert_eq!(body["reasoning_effort"], "high");
}

#[test]
fn the_role_of_the_system_prompt_is_what_the_model_knows() {
    for (model, role) in [
        ("gpt-4o", "system"),
        ("openai/gpt-5-mini", "developer"),
        ("o3", "developer"),
        ("gpt-5.1-codex", "developer"),
        ("qwen2.5-coder", "system"),
    ] {
        let body: Value =
            serde_json::from_str(&chat().body(model, &matrix::request(vec![matrix::user("hi")]))).unwrap();
        assert_eq!(body["messages"][0]["role"], role, "{model}");
    }
}

#[test]
fn what_a_server_said_of_a_call_goes_back_to_it() {
    let native = |dialect: &str| Native {
        dialect: dialect.into(),
        value: json!({"extra_content": {"google": {"thought_signature": "S"}}}),
    };
    for (dialect, there) in [("openai-chat@test", true), ("openai-chat@other", false)] {
        let message = Message::Assistant { blocks: vec![matrix::call("a", "{}", Some(native(dialect)))] };
        let body =
            chat().body("m", &matrix::request(vec![matrix::user("hi"), message, matrix::result("a", "r")]));
        assert_eq!(body.contains("thought_signature"), there, "{body}");
    }
    let details = Native {
        dialect: "openai-chat@test".into(),
        value: json!({"details": [{"type": "reasoning.text", "text": "t", "signature": "s"}]}),
    };
    let thinking = Block::Thinking { id: "m".into(), text: "t".into(), native: Some(details) };
    let message = Message::Assistant { blocks: vec![thinking, matrix::call("a", "{}", None)] };
    let body =
        chat().body("m", &matrix::request(vec![matrix::user("hi"), message, matrix::result("a", "r")]));
    assert!(body.contains(r#""reasoning_details":[{"#), "{body}");
}
