//! A small agent and a client for it.

use futures_util::FutureExt;
use hermes_protocol::{Admit, Call, Caps, End, Options, Peer, Routes, Transport, acp, parse_params, serve};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split,
    },
    sync::Notify,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// What the agent of these tests knows.
#[derive(Default)]
pub struct App {
    /// Tokens of the prompts admitted, by session.
    pub turns: Mutex<HashMap<String, Vec<CancellationToken>>>,
    pub mode: Mutex<String>,
    /// Modes as prompts found them when they were admitted.
    pub modes_seen: Mutex<Vec<String>>,
    /// Signalled by `session/cancel`.
    pub cancelled: Notify,
    /// Signalled when a handler that hangs has started.
    pub hanging: Notify,
    /// Where handlers leave what they were answered.
    pub answers: Mutex<Vec<String>>,
}

/// The place of a prompt, left by admission.
struct Ticket(CancellationToken);

pub struct Gate(pub Arc<App>);

impl Admit for Gate {
    fn admit(&self, method: &str, params: Option<&str>, call: &Call) -> Result<(), acp::Error> {
        if method == "session/prompt" {
            let params: acp::PromptRequest = parse_params(params)?;
            let text = text_of(&params);
            assert_ne!(text, "panic in admit");
            let token = call.cancel.child_token();
            let session = params.session_id.to_string();
            self.0.turns.lock().unwrap().entry(session).or_default().push(token.clone());
            self.0.modes_seen.lock().unwrap().push(self.0.mode.lock().unwrap().clone());
            call.put(Ticket(token));
        }
        Ok(())
    }
}

pub fn text_of(prompt: &acp::PromptRequest) -> String {
    match prompt.prompt.first() {
        Some(acp::ContentBlock::Text(text)) => text.text.clone(),
        _ => String::new(),
    }
}

pub fn say(session: &str, text: &str) -> acp::SessionNotification {
    let chunk = acp::ContentChunk::new(acp::ContentBlock::from(text));
    acp::SessionNotification::new(session.to_owned(), acp::SessionUpdate::AgentMessageChunk(chunk))
}

/// The agent's methods.
pub fn routes(app: Arc<App>) -> Routes<App> {
    let mut routes = Routes::new(app);
    routes
        .in_order("initialize", |_, params: acp::InitializeRequest, call| {
            call.peer.set_caps(Caps::of(&params));
            Ok(json!({"protocolVersion": 1}))
        })
        .unwrap()
        .request("session/new", |_, _: Value, call: Call| async move {
            let peer = call.peer.clone();
            call.after_response(async move {
                for text in ["commands", "more"] {
                    peer.update(&say("s", text)).await.unwrap();
                }
            });
            Ok(json!({"sessionId": "s"}))
        })
        .unwrap()
        .request("session/load", |_, _: Value, call: Call| async move {
            for i in 0..50 {
                call.peer.update(&say("s", &i.to_string())).await.unwrap();
            }
            Ok(json!({}))
        })
        .unwrap()
        .request("session/list", |_, _: Value, _| async move { Ok(json!({"sessions": []})) })
        .unwrap()
        .request("session/prompt", prompt)
        .unwrap()
        .in_order("session/set_mode", |app: &App, params: acp::SetSessionModeRequest, _| {
            let mode = params.mode_id.to_string();
            assert_ne!(mode, "panic");
            *app.mode.lock().unwrap() = mode;
            Ok(json!({}))
        })
        .unwrap()
        .notification("session/cancel", |app: &App, params: acp::CancelNotification, _| {
            for token in
                app.turns.lock().unwrap().get(params.session_id.to_string().as_str()).into_iter().flatten()
            {
                token.cancel();
            }
            app.cancelled.notify_one();
        })
        .unwrap();
    routes
}

async fn prompt(app: Arc<App>, params: acp::PromptRequest, call: Call) -> Result<Value, acp::Error> {
    let Ticket(turn) = call.take().expect("a prompt is admitted");
    let text = text_of(&params);
    let (what, count) = text.split_once(' ').unwrap_or((&text, "0"));
    let stop = |stop: &str| Ok(json!({"stopReason": stop}));
    if what == "abortable" {
        return call.or_cancelled(std::future::pending()).await;
    }
    if turn.is_cancelled() {
        return stop("cancelled");
    }
    match what {
        "panic" => panic!("as asked"),
        "fail" => return Err(acp::Error::auth_required()),
        "big" => return Ok(json!({"stopReason": "x".repeat(1024 * 1024)})),
        "stream" => {
            for i in 0..count.parse().unwrap() {
                call.peer.update(&say("s", &i.to_string())).await.unwrap();
            }
        }
        "ask" => {
            let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []});
            let ask = call.peer.request::<Value>("session/request_permission", &params, None);
            let answer = tokio::select! { biased;
                () = turn.cancelled() => return stop("cancelled"),
                answer = ask => answer,
            };
            app.answers.lock().unwrap().push(answer.map_or_else(|e| e.to_string(), |v| v.to_string()));
        }
        "wait" => {
            turn.cancelled().await;
            return stop("cancelled");
        }
        "hang" => {
            app.hanging.notify_one();
            std::future::pending::<()>().await;
        }
        _ => {}
    }
    stop("end_turn")
}

pub struct Client {
    pub app: Arc<App>,
    pub shutdown: CancellationToken,
    pub served: JoinHandle<End>,
    pub peer: Peer,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: Option<WriteHalf<DuplexStream>>,
}

pub const INIT: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}}}"#;

impl Client {
    /// A server behind a pipe of this many bytes, and a client that has said nothing yet.
    pub fn new(pipe: usize) -> Client {
        let (near, far) = duplex(pipe);
        let (r, w) = split(far);
        let app = Arc::<App>::default();
        let shutdown = CancellationToken::new();
        let options = Options {
            admit: Some(Arc::new(Gate(app.clone()))),
            shutdown: shutdown.clone(),
            ..Options::default()
        };
        let transport = Transport::over(r, w, None);
        let peer = transport.peer();
        let served = tokio::spawn(serve(routes(app.clone()).finish(), transport, options));
        let (r, w) = split(near);
        Client { app, shutdown, served, peer, lines: BufReader::new(r).lines(), out: Some(w) }
    }

    /// As [`Client::new`], initialized.
    pub async fn ready(pipe: usize) -> Client {
        let mut client = Client::new(pipe);
        client.send(INIT).await;
        assert_eq!(client.recv().await["id"], 0);
        client
    }

    /// Sends these lines, in one write.
    pub async fn send(&mut self, lines: &str) {
        self.send_bytes(format!("{lines}\n").as_bytes()).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let write = self.out.as_mut().expect("not closed").write_all(bytes);
        tokio::time::timeout(Duration::from_secs(20), write)
            .await
            .expect("the server stopped reading")
            .unwrap();
    }

    /// Sends what fits, an error if nothing does.
    pub async fn send_some(&mut self, bytes: &[u8]) -> Result<usize, tokio::time::error::Elapsed> {
        let write = self.out.as_mut().expect("not closed").write(bytes);
        Ok(tokio::time::timeout(Duration::from_secs(20), write).await?.unwrap())
    }

    pub fn take_out(&mut self) -> WriteHalf<DuplexStream> {
        self.out.take().expect("not closed")
    }

    pub async fn prompt(&mut self, id: &str, text: &str) {
        self.send(&prompt_line(id, text)).await;
    }

    /// The next line, which must be a JSON object.
    pub async fn recv(&mut self) -> Value {
        self.next().await.expect("the server closed the pipe")
    }

    /// The next line, `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line()).await;
        let value: Value =
            serde_json::from_str(&line.expect("nothing came").unwrap()?).expect("every line is JSON");
        assert_eq!(value["jsonrpc"], "2.0");
        Some(value)
    }

    /// Closes our end and returns all that still comes.
    pub async fn finish(mut self) -> (Vec<Value>, End) {
        self.close().await;
        let mut rest = Vec::new();
        while let Some(value) = self.next().await {
            rest.push(value);
        }
        (rest, self.served.await.unwrap())
    }

    pub async fn close(&mut self) {
        self.out.take().expect("not closed").shutdown().await.unwrap();
    }
}

pub fn prompt_line(id: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

pub fn list_line(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list","params":{{}}}}"#)
}

pub fn mode_line(id: &str, mode: &str) -> String {
    let params = format!(r#"{{"sessionId":"s","modeId":"{mode}"}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/set_mode","params":{params}}}"#)
}

/// Queues updates until one finds no room; returns how many were queued.
pub fn fill(peer: &Peer) -> usize {
    let mut queued = 0;
    // Unconstrained: tokio would else make the task yield before the outbox is full.
    while tokio::task::unconstrained(peer.update(&say("s", "x"))).now_or_never().is_some() {
        queued += 1;
    }
    queued
}

pub const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;

/// (id, error code or result) of a response.
pub fn outcome(v: &Value) -> (Value, Value) {
    (v["id"].clone(), v.get("error").map_or_else(|| v["result"].clone(), |e| e["code"].clone()))
}

pub fn text(v: &Value) -> &str {
    v["params"]["update"]["content"]["text"].as_str().unwrap_or_else(|| panic!("not an update: {v}"))
}
