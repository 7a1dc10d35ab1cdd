use super::{super::matrix, *};
use crate::log::Native;
use proptest::prelude::*;
use serde_json::json;

fn anthropic() -> Anthropic {
    Anthropic::new("test", Options::default())
}
fn decoder() -> Box<dyn Decoder> {
    anthropic().decoder(&matrix::request(vec![]))
}
fn own() -> Native {
    Native {
        dialect: "anthropic@test".into(),
        value: json!({"type": "thinking", "thinking": "own thought", "signature": "c2ln/+=="}),
    }
}
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[test]
fn fixtures_decode_at_every_split() {
    matrix::fixtures("anthropic", decoder);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), key in "type|delta|content_block|usage|[a-z]{0,4}", text in ".{0,20}") {
        matrix::garbage(decoder(), &bytes, &key, &json!({"type": "content_block_start", "content_block": {key.clone(): text}, key.clone(): [text]}));
    }
}

#[test]
fn requests_grow_by_appending_but_for_cache_marks() {
    matrix::prefixes(&anthropic(), &matrix::history(own(), None), |body| {
        matrix::array(&body.replace(MARK, ""), "messages")
    });
}

#[test]
fn a_hard_history_is_valid_for_strict_providers() {
    let text = anthropic().body("claude-sonnet-4-5", &matrix::request(matrix::history(own(), None)));
    let body: Value = serde_json::from_str(&text).unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    let mut used = std::collections::HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty());
        if message["role"] == "assistant" {
            assert_ne!(messages[at - 1]["role"], "assistant");
            let ids = |m: &Value, kind: &str, key: &str| -> Vec<String> {
                m["content"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|b| b["type"] == kind)
                    .map(|b| b[key].as_str().unwrap().to_owned())
                    .collect()
            };
            let calls = ids(message, "tool_use", "id");
            assert!(calls.iter().all(|c| used.insert(c.clone())));
            assert_eq!(
                calls,
                messages.get(at + 1).map(|m| ids(m, "tool_result", "tool_use_id")).unwrap_or_default()
            );
        }
        for block in blocks {
            assert!(block["type"] != "text" || !block["text"].as_str().unwrap().trim().is_empty());
            assert!(block["type"] != "tool_use" || block["input"].is_object());
        }
    }
    assert_eq!(
        messages[1]["content"][0],
        json!({"type": "thinking", "thinking": "own thought", "signature": "c2ln/+=="})
    );
    assert!(!text.contains("FOREIGN") && !text.contains("foreign thought"));
    assert_eq!(text.matches("cache_control").count(), 3);
    assert!(text.contains(r#""source":{"type":"base64","media_type":"image/png","data":"aGk="}"#));
    assert_eq!(body["max_tokens"], 1000);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    assert!(body.get("thinking").is_none());
    let plain = Anthropic::new("test", Options { cache: false, ..Options::default() });
    assert!(!plain.body("m", &matrix::request(matrix::history(own(), None))).contains("cache_control"));
}

#[test]
fn thinking_is_on_only_where_the_history_allows() {
    let thinks = |messages: Vec<Message>| {
        let mut request = matrix::request(messages);
        request.effort = Some("medium".into());
        let body: Value = serde_json::from_str(&anthropic().body("m", &request)).unwrap();
        assert!(
            body["thinking"].is_null()
                || body["max_tokens"].as_u64() > body["thinking"]["budget_tokens"].as_u64()
        );
        !body["thinking"].is_null()
    };
    let thinking = |native| Block::Thinking { id: "m".into(), text: "t".into(), native };
    let calls = |first: Option<Block>| Message::Assistant {
        blocks: first.into_iter().chain([matrix::call("a", "{}", None)]).collect(),
    };
    assert!(thinks(vec![matrix::user("hi")]));
    assert!(thinks(vec![matrix::user("hi"), calls(Some(thinking(Some(own())))), matrix::result("a", "r")]));
    assert!(!thinks(vec![matrix::user("hi"), calls(None), matrix::result("a", "r")]));
    assert!(!thinks(vec![matrix::user("hi"), calls(Some(thinking(None))), matrix::result("a", "r")]));
    assert!(thinks(vec![matrix::user("hi"), calls(None), matrix::result("a", "r"), matrix::user("next")]));
}

#[test]
fn newer_models_are_told_by_a_word_and_older_ones_by_a_budget() {
    for (model, word) in [
        ("claude-opus-4-6", true),
        ("claude-sonnet-5", true),
        ("claude-opus-4-8", true),
        ("claude-sonnet-4-5-20250929", false),
        ("claude-haiku-4-5", false),
        ("claude-sonnet-4-20250514", false),
        ("claude-opus-4", false),
        ("claude-3-7-sonnet-20250219", false),
        ("glm-5", false),
    ] {
        let mut request = matrix::request(vec![matrix::user("hi")]);
        let plain: Value = serde_json::from_str(&anthropic().body(model, &request)).unwrap();
        assert!(plain["thinking"].is_null() && plain["output_config"].is_null(), "{model}");
        request.effort = Some("high".into());
        let body: Value = serde_json::from_str(&anthropic().body(model, &request)).unwrap();
        if word {
            assert_eq!(
                (&body["thinking"], &body["output_config"]["effort"]),
                (&json!({"type": "adaptive"}), &json!("high"))
            );
        } else {
            assert_eq!(body["thinking"]["budget_tokens"], 20_000, "{model}");
            assert!(body["output_config"].is_null(), "{model}");
        }
    }
}

#[test]
fn redacted_thinking_goes_back_as_it_came() {
    let redacted = Native {
        dialect: "anthropic@test".into(),
        value: json!({"type": "redacted_thinking", "data": "EmwK+/="}),
    };
    let message = Message::Assistant {
        blocks: vec![
            Block::Thinking { id: "m".into(), text: String::new(), native: Some(redacted) },
            matrix::call("a", "{}", None),
        ],
    };
    let body =
        anthropic().body("m", &matrix::request(vec![matrix::user("hi"), message, matrix::result("a", "r")]));
    assert!(body.contains(r#"{"type":"redacted_thinking","data":"EmwK+/="}"#), "{body}");
}
