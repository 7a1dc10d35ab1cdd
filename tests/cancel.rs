//! A cancel, and the end of the process, at every moment of a turn.
use crate::support::{
    client::{Client, Incoming, Profile, prompt, updates},
    env::World,
    model_server::Reply,
};
use serde_json::{Value, json};
use std::collections::HashMap;

/// A turn with everything in it: a read, an edit that is asked, a command that is asked, and words.
fn script(world: &World) {
    world.write("a.txt", "one\n");
    let read = Reply::default().text("Reading.").call(0, "read", r#"{"path":"a.txt"}"#).end("tool_calls");
    world.model.push(read);
    let edit = r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#;
    let both =
        Reply::default().call(0, "edit", edit).call(1, "terminal", r#"{"command":"cat a.txt > b.txt"}"#);
    world.model.push(both.end("tool_calls"));
    world.model.push(Reply::default().text("Done.").end("stop"));
}

/// The last state of every card.
fn cards(came: &[Incoming]) -> HashMap<String, String> {
    let mut cards = HashMap::new();
    let all = came.iter().filter_map(|i| match i {
        Incoming::Update { update, .. } => Some(update),
        _ => None,
    });
    for update in all {
        if let Some(id) = update["toolCallId"].as_str() {
            let state = cards.entry(id.to_owned()).or_insert_with(|| "pending".to_owned());
            if let Some(status) = update["status"].as_str() {
                status.clone_into(state);
            }
        }
    }
    cards
}

fn all_closed(came: &[Incoming], when: &str) {
    for (id, state) in cards(came) {
        assert!(state == "completed" || state == "failed", "{when}: the card {id} is left {state}");
    }
}

/// The session goes on: the next prompt is answered, and what the model is sent is valid.
async fn goes_on(world: &World, client: &mut Client, session: &str, when: &str) {
    let clear = || {
        while world.model.left() > 0 {
            world.model.take();
        }
    };
    clear();
    // One more than is needed: a request of the turn that was cancelled may reach the model late and take one.
    for _ in 0..2 {
        world.model.push(Reply::default().text("Still here.").end("stop"));
    }
    let (_, ended) = client.turn(session, "Go on").await;
    clear();
    assert_eq!(ended.unwrap()["stopReason"], "end_turn", "{when}");
    let last = world.model.requests().pop().unwrap();
    let mut open: Vec<Value> = Vec::new();
    for message in last["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            let at = open.iter().position(|id| *id == message["tool_call_id"]);
            open.remove(at.unwrap_or_else(|| panic!("{when}: a result without its call: {message}")));
        } else {
            assert!(open.is_empty(), "{when}: calls without results: {open:?}");
        }
        open.extend(message["tool_calls"].as_array().into_iter().flatten().map(|c| c["id"].clone()));
    }
    assert!(open.is_empty(), "{when}: calls without results: {open:?}");
}

/// Drives the turn until this many frames came; answers questions with yes. `None`: it ended before.
async fn drive(client: &mut Client, id: &Value, frames: usize) -> Option<Vec<Incoming>> {
    let mut came = Vec::new();
    while came.len() < frames {
        let incoming = client.next().await.expect("the agent runs");
        if matches!(&incoming, Incoming::Response { id: answered, .. } if answered == id) {
            return None;
        }
        client.allow(&incoming).await;
        came.push(incoming);
    }
    Some(came)
}

#[tokio::test]
async fn i12_a_cancel_at_any_moment_ends_the_turn_as_cancelled() {
    let world = World::new().await;
    let mut client = Client::start(&world, Profile::default());
    client.open(&world).await;
    for frames in 0.. {
        let session = client.new_session(&world).await;
        script(&world);
        let when = format!("cancelled after {frames} frames");
        let id = client.send("session/prompt", prompt(&session, "Go")).await;
        let Some(mut came) = drive(&mut client, &id, frames).await else {
            assert!(frames > 10, "the turn has only {frames} frames");
            return;
        };
        client.notify("session/cancel", json!({"sessionId": session})).await;
        let (rest, ended) = client.until(&id).await;
        came.extend(rest);
        all_closed(&came, &when);
        let ended = ended.unwrap_or_else(|e| panic!("{when}: {e}"));
        assert!(ended["stopReason"] == "cancelled" || ended["stopReason"] == "end_turn", "{when}: {ended}");
        assert!(
            client.open.is_empty() || ended["stopReason"] == "cancelled",
            "{when}: a question is left open"
        );
        goes_on(&world, &mut client, &session, &when).await;
    }
}

#[tokio::test]
async fn i19_a_process_killed_at_any_moment_leaves_a_session_that_loads() {
    let world = World::new().await;
    for frames in 0.. {
        let mut client = Client::start(&world, Profile::default());
        let session = client.open(&world).await;
        script(&world);
        let when = format!("killed after {frames} frames");
        let id = client.send("session/prompt", prompt(&session, "Go")).await;
        let Some(came) = drive(&mut client, &id, frames).await else {
            assert!(frames > 10, "the turn has only {frames} frames");
            return;
        };
        client.kill().await;
        let mut client = Client::start(&world, Profile::default());
        client.must("initialize", client.profile.initialize(json!(1))).await;
        let load = json!({"sessionId": session, "cwd": world.cwd, "mcpServers": []});
        let (again, loaded) = client.call("session/load", load).await;
        // The commands are sent before the prompt is kept; whatever else was shown is kept.
        let shown = came.iter().any(|i| match i {
            Incoming::Update { update, .. } => update["sessionUpdate"] != "available_commands_update",
            _ => true,
        });
        if loaded.is_err() {
            assert!(!shown, "{when}: {loaded:?}");
            continue;
        }
        all_closed(&again, &when);
        let before: Vec<_> = cards(&came).into_keys().collect();
        let there = cards(&again);
        assert!(before.iter().all(|id| there.contains_key(id)), "{when}: a card was shown and is lost");
        assert!(!shown || updates(&again, "user_message_chunk").count() == 1, "{when}: the prompt is lost");
        goes_on(&world, &mut client, &session, &when).await;
        client.close().await;
    }
}
