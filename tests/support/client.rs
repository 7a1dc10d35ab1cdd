//! A scripted ACP client over the real binary's pipes: own code, so that it shares no mistake with the server.
use super::{PATIENCE, env::World, render::plain, schema};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    process::ExitStatus,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    process::Child,
    sync::mpsc,
};

/// What a client advertises and who it says it is.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: String,
    pub capabilities: Value,
}

impl Default for Profile {
    fn default() -> Self {
        Profile::of("fs=rw")
    }
}

impl Profile {
    /// From words: `fs=rw`, `fs=r`, `notices`, `compaction`, `terminal`, `terminal_output`, `hunks`, `auth-terminal`, `terminal-auth` (its older
    /// form), `elicit-url`, `elicit-form`, `name=zed`.
    pub fn of(words: &str) -> Profile {
        let mut profile = Profile { name: "scripted".into(), capabilities: json!({}) };
        let caps = &mut profile.capabilities;
        for word in words.split_whitespace() {
            match word {
                "fs=rw" => caps["fs"] = json!({"readTextFile": true, "writeTextFile": true}),
                "fs=r" => caps["fs"] = json!({"readTextFile": true}),
                "notices" => caps["session"]["notices"] = json!({}),
                "compaction" => caps["session"]["compaction"] = json!({}),
                "terminal" => caps["terminal"] = json!(true),
                "terminal_output" => caps["_meta"]["terminal_output"] = json!(true),
                "hunks" => caps["_meta"]["hermes-editor"]["hunkReview"] = json!(true),
                "auth-terminal" => caps["auth"]["terminal"] = json!(true),
                "terminal-auth" => caps["_meta"]["terminal-auth"] = json!(true),
                "elicit-url" => caps["elicitation"]["url"] = json!({}),
                "elicit-form" => caps["elicitation"]["form"] = json!({}),
                "none" => {}
                word => match word.split_once('=') {
                    Some(("name", name)) => profile.name = name.into(),
                    _ => panic!("no such capability: {word}"),
                },
            }
        }
        profile
    }

    /// A client of `fixtures/clients.json`, with what it says at `initialize`.
    pub fn known(name: &str) -> Profile {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clients.json");
        let all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let known = all.get(name).unwrap_or_else(|| panic!("no client {name}"));
        let of = |field: &str| known.get(field).cloned().unwrap_or_default();
        Profile { name: plain(&of("name")), capabilities: of("capabilities") }
    }

    pub fn initialize(&self, version: Value) -> Value {
        json!({"protocolVersion": version, "clientCapabilities": self.capabilities,
            "clientInfo": {"name": self.name, "version": "1"}})
    }
}

/// How the client answers `fs/*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fs {
    #[default]
    Answers,
    /// Every request is an error.
    Fails,
    /// Knows no file (some editors serve open ones alone).
    KnowsNone,
}

/// A frame from the agent.
#[derive(Clone, Debug)]
pub enum Incoming {
    Update {
        session: String,
        update: Value,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// `request`: the number of that request among all that this client made, and its method.
    Response {
        id: Value,
        request: Option<(usize, String)>,
        frame: Value,
    },
}

pub struct Client {
    child: Child,
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
    log: PathBuf,
    pub profile: Profile,
    /// Open files with unsaved text.
    pub buffers: HashMap<PathBuf, String>,
    pub fs: Fs,
    asked: HashMap<String, (usize, String)>,
    requests: usize,
    /// Requests of the agent that wait for an answer of ours.
    pub open: Vec<(Value, Value)>,
    ids: HashSet<String>,
}

impl Client {
    /// Starts the binary.
    pub fn start(world: &World, profile: Profile) -> Client {
        Client::with(world, profile, &[])
    }

    /// One request to a process of its own.
    pub async fn start_and(world: &World, method: &str, params: Value) -> Result<Value, Value> {
        let mut client = Client::start(world, Profile::default());
        client.must("initialize", client.profile.initialize(json!(1))).await;
        let (_, answer) = client.call(method, params).await;
        client.close().await;
        answer
    }

    /// Starts the binary with arguments.
    pub fn with(world: &World, profile: Profile, args: &[&str]) -> Client {
        let mut child = world.spawn(args);
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Client::over(world, profile, child, stdin, stdout)
    }

    /// Talks to a process over these pipes.
    pub fn over(
        world: &World,
        profile: Profile,
        child: Child,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
    ) -> Client {
        let stdin: Box<dyn AsyncWrite + Send + Unpin> = Box::new(stdin);
        let stdin = Some(stdin);
        let mut stdout = BufReader::new(stdout);
        let (tx, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line).await {
                    Ok(n) if n > 0 && tx.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Client {
            child,
            stdin,
            lines,
            log: world.log(),
            profile,
            buffers: HashMap::new(),
            fs: Fs::default(),
            asked: HashMap::new(),
            requests: 0,
            open: vec![],
            ids: HashSet::new(),
        }
    }

    /// Requests sent so far.
    pub fn requests(&self) -> usize {
        self.requests
    }

    pub fn pid(&self) -> i32 {
        self.child.id().expect("it runs") as i32
    }

    /// Writes bytes as they are, in one write.
    pub async fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// A request's line, remembered so that its answer is known. `id`: instead of the next number.
    pub fn request_line(&mut self, method: &str, params: &Value, id: Option<Value>) -> (Value, String) {
        let id = id.unwrap_or_else(|| json!(self.requests));
        self.asked.insert(id.to_string(), (self.requests, method.to_owned()));
        self.requests += 1;
        let mut frame = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            frame["params"] = params.clone();
        }
        (id, format!("{frame}\n"))
    }

    /// Sends a request; its id.
    pub async fn send(&mut self, method: &str, params: Value) -> Value {
        let (id, line) = self.request_line(method, &params, None);
        self.write(line.as_bytes()).await;
        id
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}));
        self.write(line.as_bytes()).await;
    }

    /// Sends a request and waits for its answer. With all that came before it.
    pub async fn call(&mut self, method: &str, params: Value) -> (Vec<Incoming>, Result<Value, Value>) {
        let id = self.send(method, params).await;
        self.until(&id).await
    }

    /// As [`call`](Self::call), for a request that must succeed.
    pub async fn must(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params).await.1.unwrap_or_else(|e| panic!("{method} failed: {e}"))
    }

    /// Waits for the answer to a request. With all that came before it.
    pub async fn until(&mut self, id: &Value) -> (Vec<Incoming>, Result<Value, Value>) {
        let mut before = Vec::new();
        loop {
            match self.next().await.unwrap_or_else(|| panic!("the agent ended; {}", self.tail())) {
                Incoming::Response { id: answered, frame, .. } if answered == *id => {
                    let outcome = match frame.get("error") {
                        Some(error) => Err(error.clone()),
                        None => Ok(frame["result"].clone()),
                    };
                    return (before, outcome);
                }
                other => before.push(other),
            }
        }
    }

    /// `initialize` and `session/new`; the session's id.
    pub async fn open(&mut self, world: &World) -> String {
        self.must("initialize", self.profile.initialize(json!(1))).await;
        self.new_session(world).await
    }

    pub async fn new_session(&mut self, world: &World) -> String {
        let new = self.must("session/new", json!({"cwd": world.cwd, "mcpServers": []})).await;
        new["sessionId"].as_str().unwrap().to_owned()
    }

    /// A whole turn in which everything is allowed: what came, and how it ended.
    pub async fn turn(&mut self, session: &str, text: &str) -> (Vec<Incoming>, Result<Value, Value>) {
        let id = self.send("session/prompt", prompt(session, text)).await;
        let mut came = Vec::new();
        loop {
            let incoming = self.next().await.unwrap_or_else(|| panic!("the agent ended; {}", self.tail()));
            if let Incoming::Response { id: answered, frame, .. } = &incoming
                && *answered == id
            {
                let outcome =
                    frame.get("error").map_or_else(|| Ok(frame["result"].clone()), |e| Err(e.clone()));
                return (came, outcome);
            }
            self.allow(&incoming).await;
            came.push(incoming);
        }
    }

    /// Answers a question with yes; anything else is left alone.
    pub async fn allow(&mut self, incoming: &Incoming) {
        if let Incoming::Request { id, method, .. } = incoming
            && method == "session/request_permission"
        {
            self.open.retain(|(open, _)| open != id);
            self.answer(id, json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}})).await;
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub async fn answer(&mut self, id: &Value, result: Value) {
        self.respond(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    pub async fn respond(&mut self, frame: Value) {
        self.write(format!("{frame}\n").as_bytes()).await;
    }

    /// The next frame, checked against the schema; `fs/*` requests are answered here. `None`: the agent closed its end.
    pub async fn next(&mut self) -> Option<Incoming> {
        let came = tokio::time::timeout(PATIENCE, self.next_ever()).await;
        came.unwrap_or_else(|_| panic!("nothing came for {PATIENCE:?}; {}", self.tail()))
    }

    /// The next frame as it came.
    pub async fn next_frame(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing came for {PATIENCE:?}; {}", self.tail()))?;
        Some(serde_json::from_slice(&line).expect("a line is JSON"))
    }

    /// As [`next`](Self::next), however long it takes.
    pub async fn next_ever(&mut self) -> Option<Incoming> {
        let line = self.lines.recv().await?;
        let text = std::str::from_utf8(&line).expect("a line is UTF-8");
        assert!(line.len() < 1 << 20, "a line of {} bytes", line.len());
        let frame: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
        let incoming = self.classify(frame.clone());
        let asked = match &incoming {
            Incoming::Response { request: Some((_, method)), .. } => Some(method.as_str()),
            _ => None,
        };
        if let Err(faults) = schema::check_from_agent(&frame, asked) {
            panic!("against the schema: {faults}\nin {}", &text[..text.len().min(4000)]);
        }
        if let Incoming::Request { id, method, params } = &incoming {
            assert!(self.ids.insert(id.to_string()), "the agent used the id {id} twice");
            match self.fs_answer(method, params) {
                Some(Ok(result)) => {
                    schema::check_answer(method, &result).unwrap();
                    self.answer(id, result).await;
                }
                Some(Err(error)) => self.respond(json!({"jsonrpc": "2.0", "id": id, "error": error})).await,
                None => self.open.push((id.clone(), params.clone())),
            }
        }
        if let Incoming::Notification { method, params } = &incoming
            && method == "$/cancel_request"
        {
            self.open.retain(|(id, _)| *id != params["requestId"]);
        }
        Some(incoming)
    }

    fn classify(&mut self, mut frame: Value) -> Incoming {
        let id = frame.get("id").cloned();
        match (frame["method"].as_str().map(str::to_owned), id) {
            (Some(method), None) if method == "session/update" => Incoming::Update {
                session: frame["params"]["sessionId"].as_str().unwrap_or_default().to_owned(),
                update: frame["params"]["update"].take(),
            },
            (Some(method), None) => Incoming::Notification { method, params: frame["params"].take() },
            (Some(method), Some(id)) => Incoming::Request { id, method, params: frame["params"].take() },
            (None, id) => {
                let id = id.unwrap_or_default();
                Incoming::Response { request: self.asked.remove(&id.to_string()), id, frame }
            }
        }
    }

    /// What an editor does with a file: the open buffer is the text; a write saves.
    fn fs_answer(&mut self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        if !matches!(method, "fs/read_text_file" | "fs/write_text_file") {
            return None;
        }
        if self.fs == Fs::Fails {
            return Some(Err(json!({"code": -32603, "message": "the editor has a bad day"})));
        }
        let path = PathBuf::from(params["path"].as_str()?);
        if self.fs == Fs::KnowsNone {
            return Some(Err(
                json!({"code": -32002, "message": "Resource not found", "data": {"uri": path}}),
            ));
        }
        assert!(path.is_absolute(), "{method} with the path {}", path.display());
        if method == "fs/read_text_file" {
            let text = self.buffers.get(&path).cloned().or_else(|| std::fs::read_to_string(&path).ok());
            return Some(match text {
                Some(text) => Ok(json!({"content": text})),
                None => Err(json!({"code": -32002, "message": "Resource not found", "data": {"uri": path}})),
            });
        }
        let text = params["content"].as_str()?.to_owned();
        std::fs::write(&path, &text).unwrap();
        if let Some(buffer) = self.buffers.get_mut(&path) {
            *buffer = text;
        }
        Some(Ok(Value::Object(Map::new())))
    }

    /// Closes our end and waits for the agent's end: what came meanwhile, and how the process ended.
    pub async fn close(&mut self) -> (Vec<Incoming>, ExitStatus) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Some(incoming) = self.next().await {
            rest.push(incoming);
        }
        (rest, self.ended().await)
    }

    /// Waits for the end of the process.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("the process goes on; {}", self.tail())).unwrap()
    }

    /// `kill -9`.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// The end of the agent's log.
    pub fn tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the agent's log ends with:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// The updates among what came, of one kind.
pub fn updates<'a>(came: &'a [Incoming], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    came.iter().filter_map(move |i| match i {
        Incoming::Update { update, .. } if update["sessionUpdate"] == kind => Some(update),
        _ => None,
    })
}

/// The text of a kind of chunk, joined.
pub fn text(came: &[Incoming], kind: &str) -> String {
    updates(came, kind).filter_map(|u| u["content"]["text"].as_str()).collect()
}
