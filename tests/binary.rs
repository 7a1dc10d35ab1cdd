//! The real binary as a process: its pipes, its signals, its end, and others beside it.
use crate::support::{
    PATIENCE,
    client::{Client, Incoming, Profile, prompt, text, updates},
    env::World,
    model_server::Reply,
};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::{Value, json};
use std::{collections::HashMap, os::fd::OwnedFd, process::Stdio};

fn say(words: &str) -> Reply {
    Reply::default().text(words).end("stop")
}

/// Starts a command that would go on for ever, and gives a handle to its process.
async fn long_command(world: &mut World, client: &mut Client, session: &str) -> (Value, OwnedFd) {
    let command = json!({"command": "echo $$; exec sleep 100000"}).to_string();
    world.model.push(Reply::default().call(0, "terminal", &command).end("tool_calls"));
    let id = client.send("session/prompt", prompt(session, "Go")).await;
    loop {
        let incoming = client.next().await.expect("the agent runs");
        client.allow(&incoming).await;
        let Incoming::Update { update, .. } = &incoming else { continue };
        let shown = update["content"][0]["content"]["text"].as_str().unwrap_or_default();
        if let Some(pid) = shown.lines().find_map(|l| l.trim().parse::<i32>().ok()) {
            return (id, pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap());
        }
    }
}

/// Waits until a process is gone.
async fn gone(process: OwnedFd) {
    let wait = move || {
        let limit = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&limit)).unwrap()
    };
    assert_eq!(tokio::task::spawn_blocking(wait).await.unwrap(), 1, "a command outlived the agent");
}

#[tokio::test]
async fn the_end_of_input_ends_everything() {
    let mut world = World::new().await;
    let mut client = Client::start(&world, Profile::default());
    let session = client.open(&world).await;
    let (id, command) = long_command(&mut world, &mut client, &session).await;
    let (rest, status) = client.close().await;
    assert_eq!(status.code(), Some(0), "{}", client.tail());
    let answered = rest.iter().filter(|i| matches!(i, Incoming::Response { id: a, .. } if *a == id)).count();
    assert_eq!(answered, 1, "the prompt that ran is answered");
    gone(command).await;
}

#[tokio::test]
async fn sigterm_ends_everything() {
    let mut world = World::new().await;
    let mut client = Client::start(&world, Profile::default());
    let session = client.open(&world).await;
    let (id, command) = long_command(&mut world, &mut client, &session).await;
    client.signal(Signal::TERM);
    let (_, ended) = client.until(&id).await;
    assert_eq!(ended.unwrap()["stopReason"], "cancelled");
    assert_eq!(client.ended().await.code(), Some(0), "{}", client.tail());
    gone(command).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_no_command_behind() {
    let mut world = World::new().await;
    let mut client = Client::start(&world, Profile::default());
    let session = client.open(&world).await;
    let (_, command) = long_command(&mut world, &mut client, &session).await;
    client.kill().await;
    gone(command).await;
}

#[tokio::test]
async fn stdout_carries_nothing_but_the_protocol() {
    let mut world = World::new().await;
    world.env.insert("HERMES_EDITOR_LOG".into(), "trace".into());
    world.env.insert("RUST_LOG".into(), "trace".into());
    // Each line is parsed and checked by the client.
    let mut client = Client::start(&world, Profile::default());
    let session = client.open(&world).await;
    let noisy = r#"{"command":"echo out; echo err >&2; echo tty > /dev/tty"}"#;
    world.model.push(Reply::default().call(0, "terminal", noisy).end("tool_calls"));
    world.model.push(say("Done."));
    let (came, ended) = client.turn(&session, "Go").await;
    assert_eq!(ended.unwrap()["stopReason"], "end_turn");
    assert_eq!(text(&came, "agent_message_chunk"), "Done.");
    let (_, status) = client.close().await;
    assert!(status.success());
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(!log.is_empty(), "the log goes to stderr");
    assert!(!log.contains("scripted-secret"), "no key in the log");
}

#[tokio::test]
async fn a_second_process_reads_a_session_and_may_not_write_it() {
    let world = World::new().await;
    let mut first = Client::start(&world, Profile::default());
    let session = first.open(&world).await;
    world.model.push(say("One."));
    first.turn(&session, "Hello").await.1.unwrap();

    let mut second = Client::start(&world, Profile::default());
    second.must("initialize", second.profile.initialize(json!(1))).await;
    let load = json!({"sessionId": session, "cwd": world.cwd, "mcpServers": []});
    let (came, loaded) = second.call("session/load", load.clone()).await;
    loaded.unwrap();
    assert_eq!(text(&came, "agent_message_chunk"), "One.");
    assert!(text(&came, "agent_thought_chunk").contains("open in another process"));
    let error = second.turn(&session, "Me too").await.1.unwrap_err();
    assert_eq!(error["data"]["kind"], "held", "{error}");
    let error = second.call("session/delete", json!({"sessionId": session})).await.1.unwrap_err();
    assert_eq!(error["data"]["kind"], "held", "deleted under the first: {error}");

    // The first goes on; both have sessions of their own.
    let other = second.new_session(&world).await;
    world.model.push(say("Two."));
    first.turn(&session, "Again").await.1.unwrap();
    world.model.push(say("Three."));
    second.turn(&other, "Mine").await.1.unwrap();

    // Let go by the first, it is the second's.
    first.close().await;
    second.must("session/close", json!({"sessionId": session})).await;
    let (came, loaded) = second.call("session/load", load).await;
    loaded.unwrap();
    assert_eq!(text(&came, "agent_message_chunk"), "One.Two.");
    world.model.push(say("Four."));
    second.turn(&session, "Now me").await.1.unwrap();
}

/// Some editors hand over pipes that do not block; a full one is no error.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn pipes_that_do_not_block_are_served_to_the_last_byte() {
    use rustix::fs::{OFlags, fcntl_setfl};
    use tokio::net::unix::pipe;
    let world = World::new().await;
    let (their_input, our_output) = std::io::pipe().unwrap();
    let (our_input, their_output) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&their_output, 4096).unwrap();
    fcntl_setfl(&their_input, OFlags::NONBLOCK).unwrap();
    fcntl_setfl(&their_output, OFlags::NONBLOCK).unwrap();
    let log = std::fs::File::create(world.log()).unwrap();
    let child = world
        .command(&[])
        .stdin(Stdio::from(OwnedFd::from(their_input)))
        .stdout(Stdio::from(OwnedFd::from(their_output)))
        .stderr(log)
        .spawn()
        .unwrap();
    let output = pipe::Sender::from_owned_fd(OwnedFd::from(our_output)).unwrap();
    let input = pipe::Receiver::from_owned_fd(OwnedFd::from(our_input)).unwrap();
    let mut client = Client::over(&world, Profile::default(), child, output, input);
    let session = client.open(&world).await;
    let long = "0123456789abcdef".repeat(20_000);
    let mut reply = Reply::default();
    for piece in long.as_bytes().chunks(10_000) {
        reply = reply.text(std::str::from_utf8(piece).unwrap());
    }
    world.model.push(reply.end("stop"));
    let (came, ended) = client.turn(&session, &long).await;
    assert_eq!(ended.unwrap()["stopReason"], "end_turn");
    assert!(text(&came, "agent_message_chunk") == long, "the text came through another than it was sent");
    let (_, status) = client.close().await;
    assert!(status.success(), "{}", client.tail());
}

/// What of a frame is the same in every run.
fn shape(frame: &Value) -> String {
    match (frame["method"].as_str(), frame.get("id")) {
        (Some("session/update"), _) => {
            let update = &frame["params"]["update"];
            format!("{} {} {}", update["sessionUpdate"], update["status"], update["content"])
        }
        (Some(method), _) => method.to_owned(),
        (None, id) => format!("answer {id:?} {}", frame["result"]["stopReason"]),
    }
}

#[tokio::test]
async fn a_trace_can_be_played_again() {
    let mut world = World::new().await;
    world.env.insert("OPENAI_API_KEY".into(), "scripted-secret-0123456789".into());
    let script = |world: &World| {
        let call = Reply::default().call(0, "write", r#"{"path":"a.txt","content":"one\n"}"#);
        world.model.push(call.end("tool_calls"));
        world.model.push(say("Done."));
    };
    let file = world.base.join("trace.jsonl");
    let args = ["--trace", file.to_str().unwrap()];
    let mut client = Client::with(&world, Profile::of("none"), &args);
    let session = client.open(&world).await;
    script(&world);
    let (came, ended) = client.turn(&session, "Go").await;
    assert_eq!(ended.unwrap()["stopReason"], "end_turn");
    client.close().await;
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(!written.contains("scripted-secret"), "a key is in the trace");
    let frames: Vec<(String, Value)> = written
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap())
        .filter(|l| l["frame"].is_object())
        .map(|l| (l["dir"].as_str().unwrap().to_owned(), l["frame"].clone()))
        .collect();
    let commands = |f: &Value| f["params"]["update"]["sessionUpdate"] == "available_commands_update";
    assert!(
        frames.iter().filter(|(dir, _)| dir == "<").count() > updates(&came, "tool_call_update").count() + 3
    );

    std::fs::remove_file(world.path("a.txt")).unwrap();
    script(&world);
    let mut again = Client::start(&world, Profile::of("none"));
    let mut ids: HashMap<String, String> = HashMap::new();
    for (dir, frame) in frames.iter().filter(|(_, f)| !commands(f)) {
        if dir == ">" {
            let mut line = frame.to_string();
            ids.iter().for_each(|(old, new)| line = line.replace(old, new));
            again.write(format!("{line}\n").as_bytes()).await;
            continue;
        }
        let came = loop {
            let came = again.next_frame().await.expect("the agent runs");
            if !commands(&came) {
                break came;
            }
        };
        assert_eq!(shape(&came), shape(frame));
        if let (Some(old), Some(new)) =
            (frame["result"]["sessionId"].as_str(), came["result"]["sessionId"].as_str())
        {
            ids.insert(old.to_owned(), new.to_owned());
        }
    }
    assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
    again.close().await;
}
