//! Commands in the editor's terminals, over the wire: each that is created is released, once, after the card has named it.
use crate::support::{
    client::{Client, Incoming, Profile, prompt},
    env::World,
    model_server::Reply,
    schema,
};
use serde_json::{Value, json};

async fn world(commands: &[&str]) -> World {
    let mut world = World::new().await;
    world.configure("terminal.backend = \"editor\"");
    for command in commands {
        let call = json!({"command": command}).to_string();
        world.model.push(Reply::default().call(0, "terminal", &call).end("tool_calls"));
    }
    world.model.push(Reply::default().text("Done.").end("stop"));
    world
}

/// An editor with terminals, and what was asked of them.
struct Editor {
    client: Client,
    /// `create t1`, `show t1`, `wait t1`, …
    log: Vec<String>,
    made: usize,
    /// Requests that get no answer, by their last word.
    silent: Vec<&'static str>,
    /// What questions showed.
    asked: String,
}

impl Editor {
    fn new(world: &World, capabilities: &str) -> Editor {
        let client = Client::start(world, Profile::of(capabilities));
        Editor { client, log: vec![], made: 0, silent: vec![], asked: String::new() }
    }

    /// Takes one frame in. Its answer, if it is the answer to this request of ours.
    async fn step(&mut self, awaited: &Value) -> Option<Value> {
        let came = self.client.next().await.expect("the agent runs");
        self.client.allow(&came).await;
        match came {
            Incoming::Response { id, frame, .. } if id == *awaited => return Some(frame),
            Incoming::Update { update, .. } => self.shown(&update),
            Incoming::Request { id, method, params } => {
                if let Some(what) = method.strip_prefix("terminal/") {
                    self.terminal(&id, what, &params).await;
                } else {
                    self.asked.push_str(&params.to_string());
                }
            }
            _ => {}
        }
        None
    }

    fn shown(&mut self, update: &Value) {
        for content in update["content"].as_array().into_iter().flatten() {
            if let Some(id) = content["terminalId"].as_str() {
                self.log.push(format!("show {id}"));
            }
        }
    }

    async fn terminal(&mut self, id: &Value, what: &str, params: &Value) {
        let result = match what {
            "create" => {
                self.made += 1;
                assert_eq!(params["args"].as_array().map(Vec::len), Some(1), "{params}");
                json!({"terminalId": format!("t{}", self.made)})
            }
            "output" => {
                json!({"output": "\u{1b}[1mseen\u{1b}[0m\r\n", "truncated": false, "exitStatus": {"exitCode": 3}})
            }
            "wait_for_exit" => json!({"exitCode": 3}),
            _ => json!({}),
        };
        let terminal = params["terminalId"].as_str().or(result["terminalId"].as_str()).unwrap();
        self.log.push(format!("{what} {terminal}"));
        if !self.silent.contains(&what) {
            schema::check_answer(&format!("terminal/{what}"), &result).unwrap();
            self.client.answer(id, result).await;
        }
    }

    /// Goes on until something was asked or shown.
    async fn until(&mut self, entry: &str) {
        while !self.log.iter().any(|l| l == entry) {
            assert!(self.step(&Value::Null).await.is_none());
        }
    }

    async fn end(&mut self, prompt: &Value) -> Value {
        loop {
            if let Some(answer) = self.step(prompt).await {
                return answer["result"]["stopReason"].clone();
            }
        }
    }
}

/// The last result of a tool that the model was given.
fn told(world: &World) -> String {
    let last = world.model.requests().pop().unwrap();
    let messages = last["messages"].as_array().unwrap();
    messages.iter().rev().find(|m| m["role"] == "tool").unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_is_shown_waited_for_and_released() {
    let world = world(&["make a", "make b"]).await;
    let mut editor = Editor::new(&world, "terminal terminal_output");
    let session = editor.client.open(&world).await;
    let id = editor.client.send("session/prompt", prompt(&session, "Go")).await;
    assert_eq!(editor.end(&id).await, "end_turn");
    let one = |t: &str| {
        ["create", "show", "wait_for_exit", "output", "release", "show"].map(|what| format!("{what} {t}"))
    };
    assert_eq!(editor.log, [one("t1"), one("t2")].concat());
    let told = told(&world);
    assert!(told.starts_with("seen\n\n[exit code 3"), "{told}");
    assert!(told.contains("outside the sandbox"), "{told}");
    assert!(editor.asked.contains("in a terminal of the editor, outside the sandbox"), "{}", editor.asked);
}

#[tokio::test]
async fn a_cancel_kills_and_releases_before_the_turn_ends() {
    let world = world(&["make"]).await;
    let mut editor = Editor::new(&world, "terminal");
    editor.silent.push("wait_for_exit");
    let session = editor.client.open(&world).await;
    let id = editor.client.send("session/prompt", prompt(&session, "Go")).await;
    editor.until("wait_for_exit t1").await;
    editor.client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.end(&id).await, "cancelled");
    let rest = ["kill t1", "output t1", "release t1", "show t1"];
    assert_eq!(editor.log[3..], rest, "{:?}", editor.log);
}

#[tokio::test]
async fn one_that_comes_after_the_cancel_is_released() {
    let world = world(&["make"]).await;
    let mut editor = Editor::new(&world, "terminal");
    editor.silent.push("create");
    let session = editor.client.open(&world).await;
    let id = editor.client.send("session/prompt", prompt(&session, "Go")).await;
    editor.until("create t1").await;
    let late = editor.client.open.last().unwrap().0.clone();
    editor.client.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.end(&id).await, "cancelled");
    editor.client.answer(&late, json!({"terminalId": "t1"})).await;
    editor.until("release t1").await;
    assert_eq!(editor.log, ["create t1", "release t1"]);
}

#[tokio::test]
async fn an_editor_without_terminals_is_asked_for_none() {
    let world = world(&["echo here"]).await;
    let mut editor = Editor::new(&world, "none");
    let session = editor.client.open(&world).await;
    let id = editor.client.send("session/prompt", prompt(&session, "Go")).await;
    assert_eq!(editor.end(&id).await, "end_turn");
    assert_eq!(editor.log, [""; 0]);
    let told = told(&world);
    assert!(told.starts_with("here\n") && told.contains("the editor offers no terminals"), "{told}");
}
