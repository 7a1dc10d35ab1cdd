use super::{super::matrix, *};
use crate::log::Native;
use proptest::prelude::*;

fn gemini() -> Gemini {
    Gemini::new("test", Options::default())
}
fn decoder() -> Box<dyn Decoder> {
    gemini().decoder(&matrix::request(vec![]))
}
fn own() -> Native {
    Native { dialect: "gemini@test".into(), value: json!({"thoughtSignature": "U0lHTg=="}) }
}

#[test]
fn fixtures_decode_at_every_split() {
    matrix::fixtures("gemini", decoder);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), key in "candidates|parts|text|error|[a-z]{0,4}", text in ".{0,20}") {
        matrix::garbage(decoder(), &bytes, &key, &json!({"candidates": [{"content": {"parts": [{key.clone(): text}]}}], key.clone(): [text]}));
    }
}

#[test]
fn requests_grow_by_appending() {
    matrix::prefixes(&gemini(), &matrix::history(own(), Some(own())), |body| matrix::array(body, "contents"));
}

#[test]
fn a_hard_history_is_valid_for_strict_providers() {
    let text = gemini().body("gemini-3-pro", &matrix::request(matrix::history(own(), Some(own()))));
    let body: Value = serde_json::from_str(&text).unwrap();
    let contents = body["contents"].as_array().unwrap();
    for (at, content) in contents.iter().enumerate() {
        let names = |c: &Value, kind: &str| -> Vec<Value> {
            c["parts"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|p| p.get(kind).is_some())
                .map(|p| p[kind]["name"].clone())
                .collect()
        };
        assert!(!content["parts"].as_array().unwrap().is_empty());
        let calls = names(content, "functionCall");
        if !calls.is_empty() {
            assert_eq!(calls, names(&contents[at + 1], "functionResponse"));
            assert_eq!(contents[at + 1]["role"], "user");
        }
    }
    // The own signature stands on its call; the first call of another provider's reply gets the stand-in.
    assert_eq!(contents[1]["parts"][0], json!({"text": "", "thoughtSignature": "U0lHTg=="}));
    assert!(contents[1]["parts"][1].get("thoughtSignature").is_none());
    assert_eq!(contents[1]["parts"][2]["thoughtSignature"], "U0lHTg==");
    assert!(contents[1]["parts"][3].get("thoughtSignature").is_none());
    assert_eq!(contents[3]["parts"][0]["thoughtSignature"], FOREIGN_CALL);
    assert!(contents[3]["parts"][1].get("thoughtSignature").is_none());
    assert!(!text.contains("FOREIGN") && !text.contains("foreign thought"));
    assert_eq!(contents[4]["parts"][0]["functionResponse"]["response"]["error"], "pic");
    assert!(text.contains(r#""inlineData":{"mimeType":"image/png","data":"aGk="}"#));
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "You are a test.");
    assert_eq!(body["generationConfig"]["maxOutputTokens"], 1000);
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["parameters"]["type"], "object");
    let old = gemini().body("gemini-2.5-pro", &matrix::request(matrix::history(own(), None)));
    assert!(!old.contains(FOREIGN_CALL));
}

#[test]
fn the_model_is_part_of_the_path() {
    let request = matrix::request(vec![]);
    assert_eq!(
        gemini().path("models/gemini-3-pro", &request),
        "models/gemini-3-pro:streamGenerateContent?alt=sse"
    );
}

#[test]
fn effort_is_a_budget_or_a_level() {
    let mut request = matrix::request(vec![matrix::user("hi")]);
    request.effort = Some("low".into());
    let of = |model: &str| {
        serde_json::from_str::<Value>(&gemini().body(model, &request)).unwrap()["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(of("gemini-2.5-pro")["thinkingBudget"], 1024);
    assert_eq!(of("gemini-3-pro")["thinkingLevel"], "low");
    assert!(of("gemini-2.0-flash").is_null());
}
