//! A scripted model behind HTTP: Chat Completions as a stream, with control of every byte and every moment.
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// A piece of a reply.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes of the body, as they are.
    Bytes(Vec<u8>),
    /// Says that it was reached, and waits until it is opened.
    Gate(String),
    /// Breaks the connection.
    Reset,
}

/// One answer to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Besides the necessary ones.
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<Piece>,
}

impl Default for Reply {
    fn default() -> Self {
        Reply {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            pieces: vec![],
        }
    }
}

impl Reply {
    /// An event of the stream.
    pub fn event(&mut self, value: &Value) {
        self.pieces.push(Piece::Bytes(format!("data: {value}\n\n").into_bytes()));
    }
    pub fn delta(&mut self, delta: Value) {
        self.chunk(delta, Value::Null);
    }
    fn chunk(&mut self, delta: Value, finish: Value) {
        self.event(&json!({"id": "c1", "object": "chat.completion.chunk", "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}));
    }
    pub fn text(mut self, text: &str) -> Self {
        self.delta(json!({ "content": text }));
        self
    }
    pub fn call(mut self, index: usize, name: &str, arguments: &str) -> Self {
        self.delta(json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments}}]}));
        self
    }
    pub fn gate(mut self, name: &str) -> Self {
        self.pieces.push(Piece::Gate(name.to_owned()));
        self
    }
    pub fn reset(mut self) -> Self {
        self.pieces.push(Piece::Reset);
        self
    }
    /// A whole answer of the Responses API.
    pub fn responses(text: &str) -> Self {
        let mut reply = Reply::default();
        reply.event(&json!({"type": "response.output_text.delta", "item_id": "m", "delta": text}));
        let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
        reply.event(&json!({"type": "response.completed",
            "response": {"id": "r", "status": "completed", "output": [], "usage": usage}}));
        reply
    }
    /// An error with this status.
    pub fn status(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".into(), "application/json".into())];
        Reply { status, headers, pieces: vec![Piece::Bytes(body.to_string().into_bytes())] }
    }
    pub fn end(mut self, finish: &str) -> Self {
        self.chunk(json!({}), json!(finish));
        self.pieces.push(Piece::Bytes(b"data: [DONE]\n\n".to_vec()));
        self
    }
}

/// A place where an answer waits.
#[derive(Clone, Default)]
pub struct Gate {
    pub reached: CancellationToken,
    pub open: CancellationToken,
}

#[derive(Default)]
struct State {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<Value>>,
    gates: Mutex<HashMap<String, Gate>>,
}

/// The server. It ends when it is dropped.
pub struct ModelServer {
    pub addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ModelServer {
    pub async fn start() -> ModelServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = state.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        ModelServer { addr, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Adds an answer behind those that wait.
    pub fn push(&self, reply: Reply) {
        self.state.replies.lock().unwrap().push_back(reply);
    }

    /// Takes back an answer that nobody asked for.
    pub fn take(&self) -> Option<Reply> {
        self.state.replies.lock().unwrap().pop_front()
    }

    /// Answers that nobody asked for.
    pub fn left(&self) -> usize {
        self.state.replies.lock().unwrap().len()
    }

    /// The bodies of all requests so far, each with the path as `path`, its authorization as `auth` and its ChatGPT account
    /// as `account`.
    pub fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Waits until a reply has come to its gate.
    pub async fn reached(&self, gate: &str) {
        let gate = self.state.gate(gate);
        tokio::time::timeout(super::PATIENCE, gate.reached.cancelled())
            .await
            .expect("the gate was never reached");
    }

    pub fn open(&self, gate: &str) {
        self.state.gate(gate).open.cancel();
    }
}

impl State {
    fn gate(&self, name: &str) -> Gate {
        self.gates.lock().unwrap().entry(name.to_owned()).or_default().clone()
    }
}

/// Serves one connection: one request after the other.
async fn serve(stream: TcpStream, state: Arc<State>) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = request(&mut stream).await {
        let reply = if head.method == "GET" {
            let mut reply = Reply { headers: vec![], ..Reply::default() };
            let list = json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]});
            reply.pieces.push(Piece::Bytes(list.to_string().into_bytes()));
            reply
        } else {
            let mut body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            body["path"] = head.path.into();
            body["auth"] = head.auth.into();
            body["account"] = head.account.into();
            state.requests.lock().unwrap().push(body);
            let reply = state.replies.lock().unwrap().pop_front();
            reply.unwrap_or_else(|| Reply {
                status: 400,
                headers: vec![],
                pieces: vec![Piece::Bytes(
                    br#"{"error":{"message":"the script has no more replies"}}"#.to_vec(),
                )],
            })
        };
        if answer(&mut stream, reply, &state).await.is_none() {
            return;
        }
    }
}

/// What a request begins with.
pub struct Head {
    pub method: String,
    pub path: String,
    pub auth: String,
    /// `chatgpt-account-id`.
    pub account: String,
}

pub async fn request(stream: &mut BufReader<TcpStream>) -> Option<(Head, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.into(), words.next()?.into());
    let mut head = Head { method, path, auth: String::new(), account: String::new() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => head.auth = value.trim().into(),
            "chatgpt-account-id" => head.account = value.trim().into(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

/// `None`: the connection is over.
async fn answer(stream: &mut BufReader<TcpStream>, reply: Reply, state: &State) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    for piece in reply.pieces {
        match piece {
            Piece::Bytes(bytes) if bytes.is_empty() => {}
            Piece::Bytes(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend(bytes);
                chunk.extend(b"\r\n");
                stream.write_all(&chunk).await.ok()?;
                stream.flush().await.ok()?;
            }
            Piece::Gate(name) => {
                let gate = state.gate(&name);
                gate.reached.cancel();
                let mut byte = [0];
                tokio::select! {
                    () = gate.open.cancelled() => {}
                    // The agent hung up: a cancelled request is dropped, not read to its end.
                    _ = stream.read(&mut byte) => return None,
                }
            }
            Piece::Reset => return None,
        }
    }
    stream.write_all(b"0\r\n\r\n").await.ok()?;
    stream.flush().await.ok()
}
