//! Requests to the client and its answers, good and bad.

use crate::support::*;
use hermes_protocol::{End, PeerError, acp};
use serde_json::{Value, json};
use std::time::Duration;

/// Starts a request to the client and returns it with its id as the client saw it.
async fn ask(
    c: &mut Client,
    deadline: Option<Duration>,
) -> (tokio::task::JoinHandle<Result<Value, PeerError>>, Value) {
    let peer = c.peer.clone();
    let asked = tokio::spawn(async move {
        let params = json!({"sessionId": "s", "path": "/x"});
        peer.request::<Value>("fs/read_text_file", &params, deadline).await
    });
    let line = c.recv().await;
    assert_eq!(line["method"], "fs/read_text_file");
    (asked, line["id"].clone())
}

fn rpc(answer: Result<Value, PeerError>) -> Result<Value, String> {
    answer.map_err(|e| e.to_string())
}

#[tokio::test]
async fn answers_of_every_shape() {
    let malformed = |why: &str| Err(format!("the editor's answer to fs/read_text_file is malformed: {why}"));
    let table = [
        (r#""id":ID,"result":{"content":"x"}"#, Ok(json!({"content":"x"}))),
        (r#""id":"ID","result":{"content":"x"}"#, Ok(json!({"content":"x"}))),
        (r#""id":ID,"result":null"#, Ok(Value::Null)),
        (r#""id":ID,"result":null,"error":null"#, Ok(Value::Null)),
        (r#""id":ID,"result":{},"error":null"#, Ok(json!({}))),
        (r#""id":ID"#, malformed("it has neither `result` nor `error`")),
        (r#""id":ID,"error":null"#, malformed("it has neither `result` nor `error`")),
        (r#""id":ID,"result":[1]"#, malformed("`result` must be an object")),
        (r#""id":ID,"error":"SECRET""#, malformed("its `error` has no code and message")),
        (r#""id":ID,"error":{"code":"x"}"#, malformed("its `error` has no code and message")),
        (
            r#""id":ID,"error":{"code":-32002,"message":"no","extra":1}"#,
            Err("the editor refused: no (-32002)".into()),
        ),
        (
            r#""id":ID,"error":{"code":5,"message":"no","data":{"a":1}},"result":{}"#,
            Err("the editor refused: no (5)".into()),
        ),
    ];
    let mut c = Client::ready(1 << 16).await;
    for (answer, expected) in table {
        let (asked, id) = ask(&mut c, None).await;
        c.send(&format!("{{\"jsonrpc\":\"2.0\",{}}}", answer.replace("ID", &id.to_string()))).await;
        assert_eq!(rpc(asked.await.unwrap()), expected, "{answer}");
    }
    assert_eq!(c.finish().await, (vec![], End::Eof), "nothing else was said");
}

#[tokio::test]
async fn typed_results_take_null_for_an_empty_object() {
    let mut c = Client::ready(1 << 16).await;
    let peer = c.peer.clone();
    let asked = tokio::spawn(async move {
        let params = acp::WriteTextFileRequest::new("s", "/x", "text");
        peer.request::<acp::WriteTextFileResponse>("fs/write_text_file", &params, None).await
    });
    let id = c.recv().await["id"].clone();
    c.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#)).await;
    asked.await.unwrap().unwrap();

    let peer = c.peer.clone();
    let asked = tokio::spawn(async move {
        let params = acp::ReadTextFileRequest::new("s", "/x");
        peer.request::<acp::ReadTextFileResponse>("fs/read_text_file", &params, None).await
    });
    let id = c.recv().await["id"].clone();
    c.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":["SECRET"]}}}}"#)).await;
    let error = asked.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "the editor's answer to fs/read_text_file is malformed: `content` expected a string");
}

#[tokio::test]
async fn late_doubled_and_unknown_answers_are_ignored() {
    let mut c = Client::ready(1 << 16).await;
    let (asked, id) = ask(&mut c, None).await;
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":1}}}}"#);
    c.send(&[answer.as_str(), &answer.replace('1', "2"), &answer].join("\n")).await;
    assert_eq!(asked.await.unwrap().unwrap(), json!({"n": 1}));
    for line in [
        r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":"nope","result":{}}"#,
    ] {
        c.send(line).await;
    }
    // A neither-nor answer to a request that has its answer is late too, not a request without a method.
    c.send(&format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#)).await;
    let (asked, next) = ask(&mut c, None).await;
    assert_ne!(next, id);
    c.send(&format!(r#"{{"jsonrpc":"2.0","id":{next},"result":{{"n":3}}}}"#)).await;
    assert_eq!(asked.await.unwrap().unwrap(), json!({"n": 3}));
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_withdraws_the_request_and_a_late_answer_does_nothing() {
    let mut c = Client::ready(1 << 16).await;
    let (asked, id) = ask(&mut c, Some(Duration::from_secs(15))).await;
    let withdrawn = c.recv().await;
    assert_eq!(withdrawn, json!({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":id}}));
    assert!(matches!(asked.await.unwrap(), Err(PeerError::Timeout { sent: true, .. })));
    c.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await;
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_found_no_room_was_never_sent_and_is_not_withdrawn() {
    let mut c = Client::ready(64).await;
    let queued = fill(&c.peer);
    let read = json!({"sessionId": "s", "path": "/x"});
    let asked = c.peer.request::<Value>("fs/read_text_file", &read, Some(Duration::from_secs(1))).await;
    assert!(matches!(asked, Err(PeerError::Timeout { sent: false, .. })));
    for _ in 0..queued {
        assert_eq!(text(&c.recv().await), "x");
    }
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test]
async fn a_dropped_request_is_withdrawn_behind_itself_even_when_the_outbox_is_full() {
    let mut c = Client::ready(64).await;
    let peer = c.peer.clone();
    let params = json!({"sessionId": "s", "path": "/x"});
    let mut asked = Box::pin(peer.request::<Value>("fs/read_text_file", &params, None));
    assert!(futures_util::poll!(&mut asked).is_pending());
    let queued = fill(&peer);
    drop(asked);
    let first = c.recv().await;
    assert_eq!(first["method"], "fs/read_text_file");
    for _ in 0..queued {
        assert_eq!(text(&c.recv().await), "x");
    }
    assert_eq!(c.recv().await["params"]["requestId"], first["id"]);
}

#[tokio::test]
async fn a_question_is_withdrawn_when_its_turn_is_cancelled() {
    let mut c = Client::ready(1 << 16).await;
    c.prompt("1", "ask").await;
    let ask = c.recv().await;
    assert_eq!(ask["method"], "session/request_permission");
    c.send(CANCEL).await;
    assert_eq!(c.recv().await["params"]["requestId"], ask["id"]);
    assert_eq!(outcome(&c.recv().await), (1.into(), json!({"stopReason": "cancelled"})));
    // The client answers all the same, as v1 asks it to.
    c.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#,
        ask["id"]
    ))
    .await;
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test]
async fn the_same_id_may_be_in_flight_both_ways() {
    let mut c = Client::ready(1 << 16).await;
    c.prompt("0", "ask").await;
    let ask = c.recv().await;
    assert_eq!(ask["id"], 0);
    c.send(r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}"#).await;
    assert_eq!(outcome(&c.recv().await), (0.into(), json!({"stopReason": "end_turn"})));
    assert_eq!(c.app.answers.lock().unwrap()[0], r#"{"outcome":{"outcome":"selected","optionId":"a"}}"#);
}

#[tokio::test]
async fn nothing_over_one_mib_is_sent() {
    let mut c = Client::ready(1 << 21).await;
    let limit = hermes_protocol::frame::MAX_OUTPUT;
    let empty =
        serde_json::to_string(&json!({"jsonrpc":"2.0","method":"session/update","params":say("s", "")}))
            .unwrap();
    let longest = limit - 1 - (empty.len() + 1);
    c.peer.update(&say("s", &"x".repeat(longest))).await.unwrap();
    assert_eq!(text(&c.recv().await).len(), longest);
    let error = c.peer.update(&say("s", &"x".repeat(longest + 1))).await.unwrap_err();
    assert!(matches!(error, PeerError::TooLarge { bytes, .. } if bytes == limit), "{error}");
    let write = acp::WriteTextFileRequest::new("s", "/x", "y".repeat(limit));
    let error = c.peer.request::<Value>("fs/write_text_file", &write, None).await.unwrap_err();
    assert!(matches!(error, PeerError::TooLarge { .. }));
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test]
async fn who_waits_for_an_answer_is_told_when_the_connection_ends() {
    let mut c = Client::ready(1 << 16).await;
    let peer = c.peer.clone();
    let (asked, _) = ask(&mut c, None).await;
    assert_eq!(c.finish().await, (vec![], End::Eof));
    assert!(matches!(asked.await.unwrap(), Err(PeerError::Closed(_))));
    let params = json!({});
    assert!(matches!(
        peer.request::<Value>("fs/read_text_file", &params, None).await,
        Err(PeerError::Closed(_))
    ));
    assert!(matches!(peer.update(&say("s", "x")).await, Err(PeerError::Closed(_))));
}

#[tokio::test]
async fn an_answer_over_32_mib_fails_its_request_and_is_not_answered() {
    let mut c = Client::ready(1 << 16).await;
    let (asked, id) = ask(&mut c, None).await;
    c.send_bytes(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":""#).as_bytes()).await;
    let chunk = vec![b'a'; 1 << 20];
    for _ in 0..33 {
        c.send_bytes(&chunk).await;
    }
    c.send_bytes(b"\"}}\n").await;
    assert!(rpc(asked.await.unwrap()).unwrap_err().ends_with("it is longer than 32 MiB"));
    assert_eq!(c.finish().await, (vec![], End::Eof));
}
