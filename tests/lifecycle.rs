//! From start to end, by the tables that editors already live with.
use crate::support::{
    client::{Client, Incoming, Profile},
    env::World,
    model_server::Reply,
};
use serde_json::{Value, json};

/// What one line is answered with: `silence`, `ok`, or an error's code and the data it names. `silent`: an answer to it
/// would be in front of the answer to the next line, since nothing runs beside it.
async fn answer(client: &mut Client, line: &str, silent: bool) -> String {
    client.write(format!("{line}\n").as_bytes()).await;
    if silent {
        let probe = client.send("_probe/end", json!({})).await;
        let (before, _) = client.until(&probe).await;
        return if before.is_empty() { "silence".into() } else { format!("{before:?}") };
    }
    match client.next().await.expect("the agent runs") {
        Incoming::Response { id, frame, .. } => match frame.get("error") {
            None => format!("ok id={id}"),
            Some(e) if e["data"]["sessionId"].is_string() => format!("{} sessionId id={id}", e["code"]),
            Some(e) => format!("{} id={id}", e["code"]),
        },
        other => panic!("{line} brought {other:?}"),
    }
}

/// How the two agents behave that most editors were written against; ours is the same.
#[tokio::test]
async fn edge_cases_are_answered_as_editors_know_them() {
    let world = World::new().await;
    let mut client = Client::start(&world, Profile::default());
    let early =
        answer(&mut client, r#"{"jsonrpc":"2.0","id":9,"method":"session/list","params":{}}"#, false).await;
    assert_eq!(early, "-32600 id=9", "session/list before initialize");
    client.must("initialize", client.profile.initialize(json!(1))).await;
    let cwd = json!(world.cwd);
    let request = |id: Value, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let prompt = json!({"sessionId": "nope", "prompt": [{"type": "text", "text": "x"}]});
    let load = json!({"sessionId": "019a0000-0000-7000-8000-000000000000", "cwd": cwd, "mcpServers": []});
    let table = [
        ("unknown method", request(json!("u"), "session/nope", json!({})), "-32601 id=\"u\""),
        ("extension method", request(json!(2), "_x.y/z", json!({})), "-32601 id=2"),
        ("malformed JSON", r#"{"jsonrpc":"#.into(), "-32700 id=null"),
        (
            "array",
            r#"[{"jsonrpc":"2.0","id":77,"method":"session/list","params":{}}]"#.into(),
            "-32600 id=null",
        ),
        ("scalar", "17".into(), "-32600 id=null"),
        ("prompt, unknown session", request(json!(3), "session/prompt", prompt), "-32002 sessionId id=3"),
        ("load, unknown session", request(json!(4), "session/load", load), "-32002 sessionId id=4"),
        (
            "close, unknown session",
            request(json!(5), "session/close", json!({"sessionId": "nope"})),
            "ok id=5",
        ),
        (
            "delete, unknown session",
            request(json!(6), "session/delete", json!({"sessionId": "nope"})),
            "ok id=6",
        ),
        (
            "relative cwd",
            request(json!(7), "session/new", json!({"cwd": "rel", "mcpServers": []})),
            "-32602 id=7",
        ),
        ("no mcpServers", request(json!(8), "session/new", json!({"cwd": cwd})), "-32602 id=8"),
        ("bad cursor", request(json!(12), "session/list", json!({"cursor": "@@@"})), "-32602 id=12"),
        (
            "set_mode, unknown session",
            request(json!(13), "session/set_mode", json!({"sessionId": "nope", "modeId": "x"})),
            "-32002 sessionId id=13",
        ),
        (
            "unknown way to sign in",
            request(json!(14), "authenticate", json!({"methodId": "nope"})),
            "-32602 id=14",
        ),
        (
            "cancel, unknown session",
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}"#.into(),
            "silence",
        ),
        ("id null", request(Value::Null, "session/list", json!({})), "ok id=null"),
        ("negative id", request(json!(-5), "session/list", json!({})), "ok id=-5"),
        ("blank line", "\r".into(), "silence"),
        ("unknown notification", r#"{"jsonrpc":"2.0","method":"_x/y"}"#.into(), "silence"),
    ];
    let mut faults = Vec::new();
    for (what, line, expected) in &table {
        let got = answer(&mut client, line, *expected == "silence").await;
        if got != *expected {
            faults.push(format!("{what}: {got} instead of {expected}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let (_, status) = client.close().await;
    assert!(status.success());
}

/// A process that may not go on with a session may not change it either; refused, it still has it open.
#[tokio::test]
async fn what_another_process_holds_is_changed_by_that_one_alone() {
    let world = World::new().await;
    world.model.push(Reply::default().text("one").end("stop"));
    let mut first = Client::start(&world, Profile::default());
    let id = first.open(&world).await;
    first.turn(&id, "a").await.1.unwrap();
    let mut second = Client::start(&world, Profile::default());
    second.must("initialize", second.profile.initialize(json!(1))).await;
    let load = json!({"sessionId": id, "cwd": world.cwd, "mcpServers": []});
    second.must("session/load", load.clone()).await;
    let table = [
        ("session/delete", json!({"sessionId": id})),
        ("session/set_mode", json!({"sessionId": id, "modeId": "full"})),
        ("session/set_config_option", json!({"sessionId": id, "configId": "mode", "value": "full"})),
        ("session/set_title", json!({"sessionId": id, "title": "mine"})),
    ];
    for (method, params) in &table {
        let error = second.call(method, params.clone()).await.1.unwrap_err();
        assert_eq!(error["data"]["kind"], "held", "{method}: {error}");
    }
    let (_, status) = first.close().await;
    assert!(status.success());
    let now = second.must("session/load", load).await;
    assert_eq!(now["modes"]["currentModeId"], "ask");
    second.must("session/set_mode", table[1].1.clone()).await;
}
