//! A session that one editor made is opened and gone on with in others: as each of them says what it can
//! (`fixtures/clients.json`), all see the same.
use crate::support::{
    client::{Client, Incoming, Profile, prompt},
    env::World,
    model_server::Reply,
    replay::{Live, Seen},
};
use serde_json::{Value, json};

fn call(index: usize, name: &str, arguments: Value) -> Reply {
    Reply::default().call(index, name, &arguments.to_string()).end("tool_calls")
}

/// What is seen of each item, whatever a client shows of commands: their output has its own form in each.
fn common(seen: &Seen) -> Vec<Value> {
    let items = seen.lines();
    let items = items.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let same = |mut item: Value| {
        if item["kind"] == "execute" {
            let card = item.as_object_mut().unwrap();
            let all = Value::Object(card.clone()).to_string();
            assert!(all.contains("from the shell"), "the output is shown: {all}");
            for form in ["content", "output", "exit"] {
                card.remove(form);
            }
        }
        item
    };
    items.map(same).collect()
}

/// Nothing that this client did not say it knows (I8).
fn allowed(profile: &Profile, came: &[Incoming]) {
    let has = |pointer: &str| profile.capabilities.pointer(pointer).is_some_and(|v| v != &Value::Bool(false));
    for incoming in came {
        match incoming {
            Incoming::Update { update, .. } => {
                let text = update.to_string();
                if !has("/terminal") && !has("/_meta/terminal_output") {
                    assert!(!text.contains("\"type\":\"terminal\""), "{}: {text}", profile.name);
                }
                let kind = update["sessionUpdate"].as_str().unwrap();
                assert!(kind != "notice" || has("/session/notices"), "{}: {text}", profile.name);
                assert!(
                    kind != "compaction_update" || has("/session/compaction"),
                    "{}: {text}",
                    profile.name
                );
                assert!(kind != "usage_update" || profile.name == "zed" || profile.name == "vscode-acp-chat");
            }
            Incoming::Request { method, .. } if method.starts_with("fs/") => {
                assert!(has("/fs/readTextFile"), "{}: {method}", profile.name);
            }
            _ => {}
        }
    }
}

/// A turn, added to what was seen.
async fn turn(client: &mut Client, live: &mut Live, session: &str, words: &str) {
    let number = client.requests();
    let (came, end) = client.turn(session, words).await;
    assert_eq!(end.unwrap()["stopReason"], "end_turn");
    allowed(&client.profile, &came);
    let blocks = prompt(session, words);
    live.prompted(number, session, blocks["prompt"].as_array().unwrap());
    came.iter().for_each(|incoming| live.take(incoming));
    live.forget();
}

/// Loads it in a new process of a client, and compares with what was seen so far.
async fn load(world: &World, profile: Profile, live: &Live, session: &str) -> Client {
    let mut client = Client::start(world, profile);
    client.must("initialize", client.profile.initialize(json!(1))).await;
    let params = json!({"sessionId": session, "cwd": world.cwd, "mcpServers": []});
    let (came, answer) = client.call("session/load", params).await;
    answer.unwrap();
    allowed(&client.profile, &came);
    let mut seen = Seen::default();
    for incoming in &came {
        if let Incoming::Update { update, .. } = incoming {
            seen.take(update);
        }
    }
    assert_eq!(common(&seen), common(&live.seen[session]), "{} sees another session", client.profile.name);
    client
}

#[tokio::test]
async fn a_session_goes_on_in_other_editors() {
    let world = World::new().await;
    world.write("a.txt", "one\n");
    let mut live = Live::default();
    let mut client = Client::start(&world, Profile::known("zed"));
    let session = client.open(&world).await;
    let mut first = Reply::default();
    first.delta(json!({"reasoning_content": "I look first."}));
    world.model.push(first.text("Reading.").call(0, "read", r#"{"path":"a.txt"}"#).end("tool_calls"));
    world.model.push(call(0, "edit", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})));
    world.model.push(call(0, "terminal", json!({"command": "echo from the shell > b.txt && cat b.txt"})));
    world.model.push(call(0, "todo", json!({"todos": [{"content": "Edit", "status": "completed"}]})));
    world.model.push(Reply::default().text("Done.").end("stop"));
    turn(&mut client, &mut live, &session, "Change it").await;
    client.close().await;
    let others = ["VS Code", "Neovim", "a client without files", "zed with what is unstable"];
    for (n, name) in others.into_iter().enumerate() {
        let mut client = load(&world, Profile::known(name), &live, &session).await;
        let (old, new) = (["two", "three", "four", "five"][n], ["three", "four", "five", "six"][n]);
        let before = world.model.requests().pop().unwrap()["messages"].clone();
        world.model.push(call(0, "read", json!({"path": "a.txt"})));
        world.model.push(call(0, "edit", json!({"path": "a.txt", "old_string": old, "new_string": new})));
        world.model.push(Reply::default().text(&format!("Changed in {name}.")).end("stop"));
        turn(&mut client, &mut live, &session, &format!("Change it in {name}")).await;
        assert_eq!(world.read("a.txt").unwrap(), format!("{new}\n"), "{name}");
        let asked = world.model.requests().pop().unwrap()["messages"].clone();
        let (before, asked) = (before.as_array().unwrap(), asked.as_array().unwrap());
        // The system prompt tells of the editor's files, which differ; what was said does not.
        assert_eq!(asked[1..before.len()], before[1..], "I14: {name} goes on with the same conversation");
        client.close().await;
    }
    load(&world, Profile::known("zed"), &live, &session).await.close().await;
}

/// The data folder goes while a session is open: the next prompt says so, a new session is kept.
#[tokio::test]
async fn a_data_folder_that_is_removed_is_told() {
    let world = World::new().await;
    let data = world.home.join("own/data");
    let mut client = Client::start(&world, Profile::default());
    let session = client.open(&world).await;
    let say = || Reply::default().text("Yes.").end("stop");
    world.model.push(say());
    client.turn(&session, "Hello").await.1.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    let error = client.turn(&session, "Again").await.1.unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("could not be saved") && message.contains("new session"), "{error}");
    assert_eq!(world.model.requests().len(), 1, "the model is not asked for what cannot be kept");
    let load = json!({"sessionId": session, "cwd": world.cwd, "mcpServers": []});
    let error = Client::start_and(&world, "session/load", load).await.unwrap_err();
    assert_eq!(error["code"], -32002, "{error}");
    let other = client.new_session(&world).await;
    world.model.push(say());
    client.turn(&other, "Hello").await.1.unwrap();
    client.close().await;
    let log = std::fs::metadata(data.join("sessions.db-wal")).map_or(0, |about| about.len());
    assert_eq!(log, 0, "at the end all is in one file");
    let load = json!({"sessionId": other, "cwd": world.cwd, "mcpServers": []});
    Client::start_and(&world, "session/load", load).await.unwrap();
}
