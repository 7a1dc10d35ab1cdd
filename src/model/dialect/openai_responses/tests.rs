use super::{super::matrix, *};
use crate::{log::Native, model::Message};
use proptest::prelude::*;
use serde_json::json;

fn responses() -> OpenAiResponses {
    OpenAiResponses::new("test", Options::default())
}
fn decoder() -> Box<dyn Decoder> {
    responses().decoder(&matrix::request(vec![]))
}
fn own() -> Native {
    let value =
        json!({"summary": [{"type": "summary_text", "text": "own thought"}], "encrypted_content": "ENC="});
    Native { dialect: "openai-responses@test".into(), value }
}

#[test]
fn fixtures_decode_at_every_split() {
    matrix::fixtures("openai-responses", decoder);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), key in "type|item|response|delta|[a-z]{0,4}", text in ".{0,20}") {
        matrix::garbage(decoder(), &bytes, &key, &json!({"type": "response.output_item.done", "item": {key.clone(): text}, key.clone(): [text]}));
    }
}

#[test]
fn requests_grow_by_appending() {
    matrix::prefixes(&responses(), &matrix::history(own(), None), |body| matrix::array(body, "input"));
}

#[test]
fn a_hard_history_is_valid_for_strict_providers() {
    let text = responses().body("gpt-5", &matrix::request(matrix::history(own(), None)));
    let body: Value = serde_json::from_str(&text).unwrap();
    let input = body["input"].as_array().unwrap();
    let of = |kind: &str| input.iter().filter(|i| i["type"] == kind).collect::<Vec<_>>();
    let ids = |kind| of(kind).iter().map(|i| i["call_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let (calls, outputs) = (ids("function_call"), ids("function_call_output"));
    assert_eq!(calls, outputs);
    assert_eq!(calls.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    for call in of("function_call") {
        assert!(serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).unwrap().is_object());
    }
    assert!(of("message").iter().all(|m| !m["content"].as_array().unwrap().is_empty()));
    // The reasoning item stands before its calls, without an id; that of another dialect is left out.
    let reasoning = of("reasoning");
    assert_eq!(reasoning.len(), 1);
    assert_eq!(
        *reasoning[0],
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "own thought"}], "encrypted_content": "ENC="})
    );
    assert_eq!(input[1]["type"], "reasoning");
    assert!(!text.contains("FOREIGN") && !text.contains("rs_"));
    assert!(text.contains("data:image/png;base64,aGk="));
    assert_eq!(body["store"], false);
    assert_eq!(body["instructions"], "You are a test.");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["prompt_cache_key"], "session-1");
    assert_eq!(body["max_output_tokens"], 1000);
    assert_eq!(body["tools"][0]["strict"], false);
}

#[test]
fn what_old_models_refuse_is_left_out() {
    let mut request = matrix::request(vec![matrix::user("hi")]);
    request.effort = Some("high".into());
    let body: Value = serde_json::from_str(&responses().body("gpt-4o", &request)).unwrap();
    assert!(body.get("include").is_none() && body.get("reasoning").is_none());
    let body: Value = serde_json::from_str(&responses().body("o4-mini", &request)).unwrap();
    assert_eq!(body["reasoning"]["effort"], "high");
    let codex = OpenAiResponses::new("codex", Options { max_output: false, ..Options::default() });
    let body: Value = serde_json::from_str(&codex.body("gpt-5", &request)).unwrap();
    assert!(body.get("max_output_tokens").is_none());
}

#[test]
fn reasoning_that_could_not_be_found_is_left_out() {
    let bare = Native { dialect: "openai-responses@test".into(), value: json!({"summary": []}) };
    let thinking = Block::Thinking { id: "m".into(), text: "t".into(), native: Some(bare) };
    let message = Message::Assistant { blocks: vec![thinking, matrix::call("a", "{}", None)] };
    let body =
        responses().body("m", &matrix::request(vec![matrix::user("hi"), message, matrix::result("a", "r")]));
    assert!(!body.contains(r#""type":"reasoning""#), "{body}");
}
