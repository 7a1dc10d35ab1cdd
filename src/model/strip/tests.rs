use super::*;
use crate::model::dialect::matrix;
use serde_json::json;

fn hard() -> Request {
    let own = Native { dialect: "x".into(), value: json!({"signature": "S"}) };
    let mut request = matrix::request(matrix::history(own, None));
    request.effort = Some("high".into());
    let schema = json!({"type": "object", "additionalProperties": false, "properties":
        {"path": {"type": "string", "pattern": "x"}, "n": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}}});
    request.tools =
        std::sync::Arc::from([ToolSpec { name: "read".into(), description: String::new(), schema }]);
    request
}

#[test]
fn what_a_refusal_names_is_taken_out_once() {
    use ErrorKind::*;
    for (kind, said, want) in [
        (StaleReasoning, "Invalid `signature` in `thinking` block", What::Reasoning),
        (BadRequest, "image input is not supported - hint: you may need to provide the mmproj", What::Images),
        (ModelNotFound, "No endpoints found that support image input", What::Images),
        (BadRequest, "Could not process image", What::BadImages),
        (
            BadRequest,
            "Invalid schema for function 'read': additionalProperties is not supported",
            What::Schemas,
        ),
        (BadRequest, "tools.0.custom.input_schema: JSON schema is invalid", What::Schemas),
        (Overloaded, "Failed to parse grammar", What::Schemas),
        (
            BadRequest,
            "Unsupported parameter: 'reasoning_effort' is not supported with this model",
            What::Effort,
        ),
        (BadRequest, "Unsupported parameter: 'max_tokens' is not supported with this model.", What::Limit),
        (
            BadRequest,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            What::NoThinking,
        ),
        (BadRequest, "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", What::Ids),
        (BadRequest, "messages.1.reasoning_details: Extra inputs are not permitted", What::Extras),
    ] {
        let failure = Failure::new(kind, said);
        let (what, less) = without(&failure, &hard()).unwrap_or_else(|| panic!("{said}"));
        assert_eq!(what, want, "{said}");
        assert!(without(&failure, &less).is_none(), "{said}: it ends");
    }
    for (kind, said) in [(BadRequest, "bad"), (RateLimit, "image support"), (TooLong, "max_tokens")] {
        assert!(without(&Failure::new(kind, said), &hard()).is_none(), "{said}");
    }
}

#[test]
fn each_thing_is_really_gone() {
    let of = |what| format!("{:?}", apply(what, &hard(), usize::MAX).unwrap());
    assert!(!of(What::Reasoning).contains("signature"));
    let images = of(What::Images);
    assert!(!images.contains("aGk=") && images.contains("did not take it"));
    let request = apply(What::Schemas, &hard(), usize::MAX).unwrap();
    assert_eq!(
        request.tools[0].schema,
        json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}})
    );
    let thinking = apply(What::NoThinking, &hard(), usize::MAX).unwrap();
    let body = crate::model::dialect::Dialect::body(
        &openai_chat::OpenAiChat::new("t", openai_chat::Options::default()),
        "m",
        &thinking,
    );
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    for message in body["messages"].as_array().unwrap().iter().filter(|m| m.get("tool_calls").is_some()) {
        assert!(message["reasoning_content"].is_string(), "{message}");
    }
}

#[test]
fn what_was_learned_is_done_before_it_is_refused() {
    let learned = Learned::default();
    let request = hard();
    assert!(matches!(learned.fit("h m", &request), std::borrow::Cow::Borrowed(_)));
    learned.remember("h m", What::Effort, &request);
    learned.remember("h m", What::Reasoning, &request);
    let fit = learned.fit("h m", &request).into_owned();
    assert!(fit.effort.is_none() && !format!("{:?}", fit.messages).contains("signature"));
    assert!(learned.fit("h other", &request).effort.is_some());
    // Reasoning that came later stays; that of another session was not refused.
    let mut later = request.clone();
    later.messages.push(matrix_thinking());
    assert!(format!("{:?}", learned.fit("h m", &later).messages).contains("LATER"));
    let other = Request { cache_key: "session-2".into(), ..request };
    let fit = learned.fit("h m", &other).into_owned();
    assert!(fit.effort.is_none() && format!("{:?}", fit.messages).contains("signature"));
}

fn matrix_thinking() -> Message {
    let native = Some(Native { dialect: "x".into(), value: json!({"signature": "LATER"}) });
    let thinking = Block::Thinking { id: "m_9".into(), text: "t".into(), native };
    Message::Assistant { blocks: vec![thinking, matrix::call("z", "{}", None)] }
}
