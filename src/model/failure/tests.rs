use super::*;
use ErrorKind::*;

#[test]
fn kinds_by_status_and_body() {
    let cases: &[(u16, &str, ErrorKind)] = &[
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-ab***yz.","code":"invalid_api_key"}}"#,
            Auth,
        ),
        (403, "", Auth),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            Auth,
        ),
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#, Quota),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Quota,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x/RetryInfo","retryDelay":"37s"}]}}"#,
            RateLimit,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 3, Requested 4.","code":"rate_limit_exceeded"}}"#,
            RateLimit,
        ),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
        (503, r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#, Loading),
        (500, "oops", Overloaded),
        (504, "", Timeout),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}"#,
            TooLong,
        ),
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
            TooLong,
        ),
        (
            400,
            r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
            TooLong,
        ),
        (
            400,
            r#"{"error":{"message":"Range of input length should be [1, 98304]","code":"invalid_parameter_error"}}"#,
            TooLong,
        ),
        (413, "", TooLong),
        (400, r#"{"message":"Input is too long for requested model."}"#, TooLong),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"unsupported_parameter"}}"#,
            BadRequest,
        ),
        (
            400,
            r#"{"error":{"message":"The `reasoning_content` in the thinking mode must be passed back to the API."}}"#,
            BadRequest,
        ),
        (
            404,
            r#"{"error":{"message":"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."}}"#,
            StaleReasoning,
        ),
        (
            400,
            r#"{"error":{"code":"invalid_encrypted_content","message":"The encrypted content abc could not be verified."}}"#,
            StaleReasoning,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
            StaleReasoning,
        ),
        (404, r#"{"error":"model 'llama9' not found"}"#, ModelNotFound),
        (
            400,
            r#"{"error":{"message":"The model has been decommissioned.","code":"model_decommissioned"}}"#,
            ModelNotFound,
        ),
        (403, r#"{"error":{"code":403,"message":"Your input was flagged for \"x\""}}"#, Refused),
        (400, r#"{"message":"Too many tokens, please wait before trying again."}"#, RateLimit),
        (413, "<html><h1>413 Request Entity Too Large</h1></html>", TooLong),
        (
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193"}"#,
            TooLong,
        ),
        (400, r#"{"error":{"message":"no-such/thing is not a valid model ID","code":400}}"#, ModelNotFound),
        (400, r#"{"error":{"message":"blocked","code":"content_filter"}}"#, Refused),
        (
            422,
            r#"{"detail":[{"loc":["body","messages",2],"msg":"Extra inputs are not permitted","input":"SECRET"}]}"#,
            BadRequest,
        ),
    ];
    for (status, body, want) in cases {
        assert_eq!(Failure::of_response(*status, body).kind, *want, "{status} {body}");
    }
    let silent = Failure::of_response(400, "");
    assert!(silent.kind == TooLong && silent.detail.contains("no reason"), "{silent:?}");
}

#[test]
fn waits_are_read_from_words_and_details() {
    let wait = |m: &str| wait_in(m).map(|d| d.as_millis());
    assert_eq!(wait("Please try again in 11.054s."), Some(11_054));
    assert_eq!(wait("try again in 6m0s"), Some(360_000));
    assert_eq!(wait("try again in 20ms. Visit"), Some(20));
    assert_eq!(wait("retry after 5 seconds"), Some(5000));
    assert_eq!(wait("try again later"), None);
    assert_eq!(wait("no words"), None);
    let f = Failure::of_response(429, r#"{"error":{"details":[{"retryDelay":"37s"}]}}"#);
    assert_eq!(f.retry_after, Some(Duration::from_secs(37)));
}

#[test]
fn an_error_names_host_and_status_and_no_secret() {
    let key = Secret::new("my-own-key");
    let body = r#"{"error":{"message":"bad key my-own-key or sk-abcdefghijklmnop\nin line"}}"#;
    let e = Failure::of_response(401, body).at("api.example.com", Some(&key), Some("Set KEY."));
    assert_eq!(
        e.message,
        "api.example.com answered 401 (the credentials were refused): bad key [key] or [key] in line. Set KEY."
    );
    let long = "é".repeat(1000);
    let e = Failure::of_response(500, &long).at("h", None, None);
    assert!(e.message.chars().count() < 420, "{}", e.message.len());
    let e =
        Failure::of_response(422, r#"{"detail":[{"loc":["body","m",2],"msg":"Extra","input":"PROMPT"}]}"#)
            .at("h", None, None);
    assert!(e.message.contains("body.m.2: Extra") && !e.message.contains("PROMPT"), "{}", e.message);
    let e = Failure::of_response(502, "<html><body>secret page</body></html>").at("h", None, None);
    assert!(!e.message.contains("secret page"));
}

#[test]
fn a_quota_says_when_it_is_free_again() {
    for (seconds, words) in [(90, "2 min"), (7_800, "2 h 10 min"), (200_000, "2 d 7 h")] {
        let body = format!(
            r#"{{"error":{{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":{seconds}}}}}"#
        );
        let e = Failure::of_response(429, &body).at("h", None, None);
        assert_eq!(e.kind, Quota);
        assert!(e.message.contains(&format!("reached. It is free again in {words}. ")), "{}", e.message);
    }
}

#[test]
fn one_request_above_the_limit_of_a_minute_is_not_waited_for() {
    let body = r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 3, Requested 4.","code":"rate_limit_exceeded"}}"#;
    let f = Failure::of_response(429, body);
    let budget = crate::model::retry::Budget::default();
    let verdict = crate::model::retry::verdict(f.kind, 1, f.retry_after, Duration::ZERO, &budget, 0.5);
    assert_eq!((f.kind, verdict), (RateLimit, crate::model::retry::Verdict::GiveUp));
    assert!(!f.at("h", None, None).message.contains("free again"));
}

#[test]
fn errors_inside_a_stream() {
    let f = Failure::of_error(&serde_json::json!({"error": {"code": 400, "message": "Token limit reached"}}));
    assert_eq!((f.kind, f.status), (TooLong, Some(400)));
    let f = Failure::of_error(
        &serde_json::json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    assert_eq!(f.kind, Overloaded);
    let f = Failure::of_error(
        &serde_json::json!({"response": {"error": {"code": "rate_limit_exceeded", "message": "Please try again in 11.054s."}}}),
    );
    assert_eq!((f.kind, f.retry_after), (RateLimit, Some(Duration::from_millis(11_054))));
}
