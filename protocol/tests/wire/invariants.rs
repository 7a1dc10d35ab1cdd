//! I2 to I8; I1 needs a process of its own (`tests/stdout.rs`).

use crate::support::*;
use hermes_protocol::{Caps, End, PeerError, acp};
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::io::AsyncWriteExt;

fn cancel_request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

#[tokio::test]
async fn i2_each_request_gets_exactly_one_response() {
    let mut c = Client::ready(1 << 16).await;
    let lines = [
        prompt_line("1", "end"),
        prompt_line("2", "fail"),
        prompt_line("3", "panic"),
        prompt_line("4", "panic in admit"),
        mode_line("5", "ask"),
        mode_line("6", "panic"),
        prompt_line("7", "abortable"),
        prompt_line("8", "wait"),
        prompt_line("9", "big"),
        r#"{"jsonrpc":"2.0","id":10,"method":"nope"}"#.into(),
        r#"{"jsonrpc":"2.0","id":11,"method":"session/prompt","params":{}}"#.into(),
        cancel_request("7"),
        cancel_request("8"),
        cancel_request("7"),
        cancel_request("99"),
        list_line("12"),
    ];
    c.send(&lines.join("\n")).await;
    let mut answers = HashMap::new();
    for _ in 1..=12 {
        let (id, outcome) = outcome(&c.recv().await);
        assert!(answers.insert(id.as_i64().unwrap(), outcome).is_none(), "{id} was answered twice");
    }
    let stop = |s: &str| json!({"stopReason": s});
    let expected = [
        (1, stop("end_turn")),
        (2, (-32000).into()),
        (3, (-32603).into()),
        (4, (-32603).into()),
        (5, json!({})),
        (6, (-32603).into()),
        (7, (-32800).into()),
        (8, stop("cancelled")),
        (9, (-32603).into()),
        (10, (-32601).into()),
        (11, (-32602).into()),
        (12, json!({"sessions": []})),
    ];
    assert_eq!(answers, HashMap::from(expected));
    assert_eq!(c.finish().await, (vec![], End::Eof));
}

#[tokio::test(start_paused = true)]
async fn i2_holds_at_the_end_of_input_and_at_shutdown() {
    for shutdown in [false, true] {
        let mut c = Client::ready(1 << 16).await;
        c.send(
            &[prompt_line("1", "wait"), prompt_line("2", "hang"), prompt_line("3", "abortable")].join("\n"),
        )
        .await;
        c.prompt("4", "ask").await;
        assert_eq!(c.recv().await["method"], "session/request_permission");
        c.app.hanging.notified().await;
        let before = tokio::time::Instant::now();
        if shutdown {
            c.shutdown.cancel();
        } else {
            c.close().await;
        }
        let mut answers = HashMap::new();
        while let Some(v) = c.next().await {
            if v.get("id").is_some() {
                let (id, outcome) = outcome(&v);
                assert!(answers.insert(id.as_i64().unwrap(), outcome).is_none());
            }
        }
        let cancelled = json!({"stopReason": "cancelled"});
        // The one that hangs is answered for, after the grace and not later.
        let expected = [(1, cancelled.clone()), (2, (-32800).into()), (3, (-32800).into()), (4, cancelled)];
        assert_eq!(answers, HashMap::from(expected));
        assert_eq!(before.elapsed().as_secs(), 3);
        assert_eq!(c.served.await.unwrap(), if shutdown { End::Shutdown } else { End::Eof });
    }
}

#[tokio::test]
async fn i3_the_reader_never_waits_for_the_writer_or_a_handler() {
    let mut c = Client::ready(256).await;
    // Nothing of this is read: the pipe and the outbox fill up, the turn stands still.
    c.prompt("1", "stream 2000").await;
    c.prompt("2", "hang").await;
    c.app.hanging.notified().await;
    for id in 100..400 {
        c.send(&list_line(&id.to_string())).await;
    }
    c.send(CANCEL).await;
    c.app.cancelled.notified().await;
    let (mut updates, mut answers) = (0, 0);
    while answers < 301 {
        let v = c.recv().await;
        match v.get("method") {
            Some(_) => {
                assert_eq!(text(&v), updates.to_string());
                updates += 1;
            }
            None => answers += 1,
        }
    }
    assert_eq!(updates, 2000);
}

#[tokio::test(start_paused = true)]
async fn i3_a_flood_that_is_not_read_is_held_back_and_then_answered_in_full() {
    let mut c = Client::ready(1 << 14).await;
    let flood = "17\n".repeat(100_000);
    // Nothing is read, so not all of it can be sent: the time (which stands still while anything moves) runs out.
    let mut flood = flood.as_bytes();
    while let Ok(sent) = c.send_some(flood).await {
        flood = &flood[sent..];
    }
    assert!(!c.peer.gone().is_cancelled());
    assert!((2048..90_000).contains(&(flood.len() / 3)), "{} lines not sent", flood.len() / 3);
    let rest = format!("{}{}\n", String::from_utf8_lossy(flood), mode_line("1", "m"));
    let (mut out, mut answers) = (c.take_out(), 0);
    let sender = tokio::spawn(async move { out.write_all(rest.as_bytes()).await.map(|()| out) });
    loop {
        match outcome(&c.recv().await) {
            (Value::Null, code) if code == -32600 => answers += 1,
            (id, _) => break assert_eq!(id, 1),
        }
    }
    assert_eq!(answers, 100_000);
    sender.await.unwrap().unwrap();
}

#[tokio::test]
async fn i4_frames_leave_in_the_order_queued() {
    let mut c = Client::ready(64).await;
    let peer = c.peer.clone();
    let sender = tokio::spawn(async move {
        for i in 0..1000 {
            peer.update(&say("s", &i.to_string())).await.unwrap();
        }
    });
    for i in 0..1000 {
        assert_eq!(text(&c.recv().await), i.to_string());
    }
    sender.await.unwrap();
}

#[tokio::test]
async fn i5_all_updates_of_a_turn_precede_its_response() {
    let mut c = Client::ready(256).await;
    c.prompt("\"p\"", "stream 500").await;
    for i in 0..500 {
        assert_eq!(text(&c.recv().await), i.to_string());
    }
    assert_eq!(outcome(&c.recv().await), ("p".into(), json!({"stopReason": "end_turn"})));
    assert_eq!(c.finish().await.0, Vec::<Value>::new());
}

#[tokio::test]
async fn i5_a_cancel_in_the_same_write_covers_the_prompts_before_it_and_no_other() {
    for _ in 0..50 {
        let mut c = Client::ready(1 << 16).await;
        let lines = [
            prompt_line("1", "wait"),
            prompt_line("2", "end"),
            CANCEL.into(),
            prompt_line("3", "end"),
            prompt_line("4", "stream 1"),
        ];
        c.send(&lines.join("\n")).await;
        let mut stops = HashMap::new();
        let mut updates = 0;
        while stops.len() < 4 {
            let v = c.recv().await;
            match v["id"].as_i64() {
                Some(id) => _ = stops.insert(id, v["result"]["stopReason"].as_str().unwrap().to_owned()),
                None => updates += 1,
            }
        }
        let expected = [(1, "cancelled"), (2, "cancelled"), (3, "end_turn"), (4, "end_turn")];
        assert_eq!(stops, expected.into_iter().map(|(k, v)| (k, v.to_owned())).collect());
        assert_eq!(updates, 1);
    }
}

#[tokio::test]
async fn i6_no_update_precedes_the_response_that_names_its_session() {
    let mut c = Client::ready(64).await;
    c.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#).await;
    assert_eq!(outcome(&c.recv().await), (1.into(), json!({"sessionId": "s"})));
    assert_eq!(text(&c.recv().await), "commands");
    assert_eq!(text(&c.recv().await), "more");
    c.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{}}"#).await;
    for i in 0..50 {
        assert_eq!(text(&c.recv().await), i.to_string());
    }
    assert_eq!(outcome(&c.recv().await), (2.into(), json!({})));
}

#[tokio::test]
async fn i7_state_changing_methods_take_effect_in_arrival_order() {
    let mut c = Client::ready(1 << 20).await;
    let mut lines = Vec::new();
    for i in 0..200 {
        lines.push(mode_line(&format!("\"m{i}\""), &format!("m{i}")));
        lines.push(prompt_line(&format!("\"p{i}\""), "end"));
    }
    c.send(&lines.join("\n")).await;
    let mut modes = Vec::new();
    for _ in 0..400 {
        let id = c.recv().await["id"].as_str().unwrap().to_owned();
        if id.starts_with('m') {
            modes.push(id);
        }
    }
    let expected: Vec<String> = (0..200).map(|i| format!("m{i}")).collect();
    assert_eq!(*c.app.modes_seen.lock().unwrap(), expected);
    assert_eq!(modes, expected, "and their answers come in that order");
}

#[tokio::test]
async fn i8_nothing_is_sent_that_the_client_did_not_advertise() {
    let mut c = Client::new(1 << 16);
    let init = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}}}}"#;
    c.send(init).await;
    c.recv().await;
    let methods = [
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
        "elicitation/create",
        "session/nope",
    ];
    for method in methods {
        let answer = c.peer.request::<Value>(method, &json!({}), None).await;
        assert!(matches!(answer, Err(PeerError::NotOffered(m)) if m == method));
    }
    assert!(matches!(c.peer.notify("elicitation/complete", &json!({})).await, Err(PeerError::NotOffered(_))));
    let notice = acp::SessionUpdate::Notice(acp::Notice::new(acp::NoticeSeverity::Info, "hi"));
    let notice = acp::SessionNotification::new("s", notice);
    assert!(!c.peer.update(&notice).await.unwrap());
    assert!(c.peer.update(&say("s", "plain")).await.unwrap());
    assert_eq!(text(&c.recv().await), "plain");
    c.peer.set_caps(Caps { notices: true, ..Caps::default() });
    assert!(c.peer.update(&notice).await.unwrap());
    assert_eq!(c.recv().await["params"]["update"]["sessionUpdate"], "notice");
}
