//! Ids, initialization, malformed lines and what else a request may look like.

use crate::support::*;
use hermes_protocol::{Call, End, Options, RpcError, Transport, acp, serve};
use jsonrpsee::{RpcModule, core::server::ResponsePayload};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, duplex, split};

/// Lines and the raw answer to each, byte for byte.
async fn exchange(lines: &[(&str, &str)]) {
    let (near, far) = duplex(1 << 16);
    let (r, w) = split(far);
    let transport = Transport::over(r, w, None);
    tokio::spawn(serve(routes(Arc::default()).finish(), transport, Options::default()));
    let (r, mut w) = split(near);
    let mut r = BufReader::new(r).lines();
    w.write_all(format!("{INIT}\n").as_bytes()).await.unwrap();
    r.next_line().await.unwrap();
    for (line, expected) in lines {
        // A second request right behind: if the first has no answer, or two, this shows.
        let probe = list_line("\"probe\"");
        w.write_all(format!("{line}\n{probe}\n").as_bytes()).await.unwrap();
        let mut answers = Vec::new();
        loop {
            let answer = r.next_line().await.unwrap().unwrap();
            if answer.contains("\"probe\"") {
                break;
            }
            answers.push(answer);
        }
        let expected: Vec<&str> = expected.split('\n').filter(|l| !l.is_empty()).collect();
        assert_eq!(answers, expected, "{line}");
    }
}

#[tokio::test]
async fn any_id_is_echoed_exactly() {
    let ids = [
        "0",
        "-7",
        "7",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "\"\"",
        "\"7\"",
        "\"a\\u0062\\n\\\"\"",
        "\"ünïcode 🦀\"",
        "\"3f2504e0-4f89-11d3-9a0c-0305e82c3301\"",
        "null",
    ];
    for id in ids {
        let mode = r#"{"sessionId":"s","modeId":"m"}"#;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/set_mode","params":{mode}}}"#);
        exchange(&[(&line, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))]).await;
    }
}

#[tokio::test]
async fn what_is_no_request_gets_one_error_and_the_connection_goes_on() {
    let table = [
        ("{\"jsonrpc\":", -32700, "null"),
        ("nonsense", -32700, "null"),
        ("{\"a\":1}}", -32700, "null"),
        ("[{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"session/list\",\"params\":{}}]", -32600, "null"),
        ("[]", -32600, "null"),
        ("[1,2", -32700, "null"),
        ("17", -32600, "null"),
        ("\"x\"", -32600, "null"),
        ("null", -32600, "null"),
        ("{}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, "1"),
        ("{\"jsonrpc\":\"2.0\",\"id\":null}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"2.0\",\"id\":9223372036854775808,\"method\":\"session/list\"}", -32600, "null"),
        ("{\"jsonrpc\":\"1.0\",\"id\":4,\"method\":\"session/list\"}", -32600, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":7}", -32600, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/list\",\"params\":[]}", -32602, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/list\",\"params\":\"x\"}", -32602, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/nope\"}", -32601, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"_x.y/z\",\"params\":{}}", -32601, "4"),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"\"}", -32601, "4"),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}",
            -32601,
            "4",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}",
            -32600,
            "4",
        ),
    ];
    let mut c = Client::ready(1 << 16).await;
    c.send(&list_line("\"first\"")).await;
    c.recv().await;
    for (line, code, id) in table {
        c.send(line).await;
        c.send(&list_line("\"probe\"")).await;
        let answer = c.recv().await;
        assert_eq!(outcome(&answer), (serde_json::from_str(id).unwrap(), code.into()), "{line}: {answer}");
        assert_eq!(c.recv().await["id"], "probe", "{line} was answered twice");
    }
}

#[tokio::test]
async fn what_gets_no_answer() {
    let silent = [
        "",
        "\r",
        "   \t ",
        r#"{"jsonrpc":"2.0","method":"nope","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/nope"}"#,
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}"#,
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"session/cancel"}"#,
        r#"{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":12,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
    ];
    let mut c = Client::ready(1 << 16).await;
    for line in silent {
        c.send(line).await;
    }
    c.send(&list_line("1")).await;
    assert_eq!(c.recv().await["id"], 1);
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test]
async fn odd_but_fine() {
    let lines = [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":{}}\r",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}",
        "{\"id\":1,\"method\":\"session/list\"}",
        "{\"id\":5,\"id\":1,\"method\":\"nope\",\"method\":\"session/list\",\"jsonrpc\":\"2.0\"}",
        "  {\"params\":null, \"method\":\"session\\/list\" ,\"id\" : 1 ,\"extra\":[{}]}  ",
    ];
    for line in lines {
        let mut c = Client::ready(1 << 16).await;
        c.send(line).await;
        assert_eq!(outcome(&c.recv().await), (1.into(), json!({"sessions": []})), "{line}");
    }
}

#[tokio::test]
async fn invalid_utf8_is_answered_and_survived() {
    let mut c = Client::ready(1 << 16).await;
    c.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n\xff\xfe\n").await;
    assert_eq!(outcome(&c.recv().await), (Value::Null, (-32700).into()));
    assert_eq!(outcome(&c.recv().await), (Value::Null, (-32700).into()));
    c.send(&list_line("1")).await;
    assert_eq!(c.recv().await["id"], 1);
}

#[tokio::test]
async fn a_64_mib_line_is_refused_by_its_id_and_survived() {
    let mut c = Client::ready(1 << 16).await;
    c.send_bytes(br#"{"jsonrpc":"2.0","id":"big","method":"session/prompt","params":{"x":""#).await;
    let chunk = vec![b'a'; 1 << 20];
    for _ in 0..64 {
        c.send_bytes(&chunk).await;
    }
    c.send_bytes(b"\"}}\n").await;
    assert_eq!(outcome(&c.recv().await), ("big".into(), (-32600).into()));
    c.send(&list_line("1")).await;
    assert_eq!(c.recv().await["id"], 1);
}

#[tokio::test]
async fn initialize_comes_first_and_may_be_repeated_until_another_request() {
    let mut c = Client::new(1 << 16);
    let init = |id: &str, version: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":{version}}}}}"#
        )
    };
    let steps = [
        (list_line("9"), json!(-32600)),
        (r#"{"jsonrpc":"2.0","id":9,"method":"nope"}"#.to_owned(), json!(-32600)),
        (init("9", "\"1\""), json!(-32602)),
        (list_line("9"), json!(-32600)),
        (init("9", "2"), json!({"protocolVersion": 1})),
        (init("9", "1"), json!({"protocolVersion": 1})),
        (list_line("9"), json!({"sessions": []})),
        (init("9", "1"), json!(-32600)),
        (list_line("9"), json!({"sessions": []})),
    ];
    for (line, expected) in steps {
        c.send(&line).await;
        assert_eq!(outcome(&c.recv().await), (9.into(), expected), "{line}");
    }
}

#[tokio::test]
async fn a_second_request_with_the_id_of_a_running_one_is_refused_and_the_first_is_unharmed() {
    let mut c = Client::ready(1 << 16).await;
    c.prompt("\"a\"", "wait").await;
    // The same id, written in another way.
    c.send(&list_line("\"\\u0061\"")).await;
    assert_eq!(outcome(&c.recv().await), ("a".into(), (-32600).into()));
    c.send(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}"#).await;
    assert_eq!(outcome(&c.recv().await), ("a".into(), json!({"stopReason": "cancelled"})));
    c.send(&list_line("\"a\"")).await;
    assert_eq!(outcome(&c.recv().await), ("a".into(), json!({"sessions": []})));
}

#[tokio::test]
async fn null_ids_are_answered_each() {
    let mut c = Client::ready(1 << 16).await;
    c.send(&[list_line("null"), list_line("null"), list_line("null")].join("\n")).await;
    for _ in 0..3 {
        assert_eq!(outcome(&c.recv().await), (Value::Null, json!({"sessions": []})));
    }
}

#[tokio::test]
async fn input_may_end_without_a_newline() {
    let mut c = Client::ready(1 << 16).await;
    c.send_bytes(list_line("1").as_bytes()).await;
    let (rest, end) = c.finish().await;
    assert_eq!((rest.len(), &rest[0]["id"], end), (1, &json!(1), End::Eof));
}

/// jsonrpsee's own way to act after a response, for handlers that are registered without `Routes`.
#[tokio::test]
async fn notify_on_completion_is_told_after_the_response_is_queued() {
    let told = Arc::new(AtomicU32::new(0));
    let mut module = RpcModule::new(told.clone());
    module.register_method("initialize", |_, _, _| ResponsePayload::success(json!({}))).unwrap();
    module
        .register_async_method("session/new", |_, told, ext| async move {
            let call = Call::of(&ext).unwrap();
            let (payload, queued) =
                ResponsePayload::success(json!({"sessionId": "s"})).notify_on_completion();
            tokio::spawn(async move {
                queued.await.unwrap();
                told.fetch_add(1, Ordering::SeqCst);
                call.peer.update(&say("s", "commands")).await.unwrap();
            });
            payload
        })
        .unwrap();
    module
        .register_async_method("session/load", |_, told, _| async move {
            let error = RpcError(acp::Error::session_not_found("s"));
            let (payload, queued) = ResponsePayload::<Value>::error(error).notify_on_completion();
            tokio::spawn(async move {
                told.fetch_add(if queued.await.is_err() { 10 } else { 1000 }, Ordering::SeqCst)
            });
            payload
        })
        .unwrap();
    let (near, far) = duplex(64);
    let (r, w) = split(far);
    let served = tokio::spawn(serve(module, Transport::over(r, w, None), Options::default()));
    let (mut r, mut w) = split(near);
    let send = ["initialize", "session/new", "session/load"].iter().enumerate();
    for (id, method) in send {
        w.write_all(format!("{{\"id\":{id},\"method\":\"{method}\"}}\n").as_bytes()).await.unwrap();
    }
    w.shutdown().await.unwrap();
    let mut text = String::new();
    r.read_to_string(&mut text).await.unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let at = |f: &dyn Fn(&Value) -> bool| lines.iter().position(f).unwrap();
    assert!(at(&|v| v["result"]["sessionId"] == "s") < at(&|v| v["method"] == "session/update"), "{text}");
    let refused = &lines[at(&|v| v["id"] == 2)];
    assert_eq!(refused["error"]["data"], json!({"sessionId": "s"}));
    served.await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 11);
}
