//! The real program as a process, what it costs, and a model that answers it.
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The program, talked to as an editor does. What it says is read as fast as it comes, and not looked at.
pub struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
    pub session: String,
}

/// What came before an answer.
#[derive(Debug, Default)]
pub struct Came {
    pub result: Value,
    pub updates: usize,
    pub bytes: usize,
    pub wall: Duration,
    pub cpu: Duration,
}

impl Agent {
    pub fn start(home: &Path, model: &str) -> Agent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hermes-editor"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("HERMES_EDITOR_HOME", home)
            .env("OPENAI_BASE_URL", model)
            .env("OPENAI_MODEL", "scripted")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::with_capacity(1 << 20, output);
        let mut agent = Agent { child, input, output, next: 0, session: String::new() };
        agent.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        agent
    }

    pub fn open(&mut self, cwd: &Path) -> String {
        let new = self.call("session/new", json!({"cwd": cwd, "mcpServers": []})).result;
        self.session = new["sessionId"].as_str().unwrap().to_owned();
        self.session.clone()
    }

    pub fn load(&mut self, session: &str, cwd: &Path) -> Came {
        self.call("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}))
    }

    pub fn prompt(&mut self, text: &str) -> Came {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.call("session/prompt", params)
    }

    /// Sends a request and reads up to its answer. Questions are answered with yes.
    pub fn call(&mut self, method: &str, params: Value) -> Came {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (cpu, start) = (self.cpu(), Instant::now());
        writeln!(self.input, "{request}").unwrap();
        let mut came = Came::default();
        let answer = format!("\"id\":{id},\"result\"");
        let mut line = Vec::new();
        loop {
            line.clear();
            assert!(self.output.read_until(b'\n', &mut line).unwrap() > 0, "the agent ended");
            let start = &line[..line.len().min(200)];
            let head = String::from_utf8_lossy(start);
            if head.contains("session/request_permission") {
                let asked: Value = serde_json::from_slice(&line).unwrap();
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
                writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}))
                    .unwrap();
            } else if head.contains("\"method\"") {
                came.updates += 1;
                came.bytes += line.len();
            } else {
                break;
            }
        }
        (came.wall, came.cpu) = (start.elapsed(), self.cpu() - cpu);
        let frame: Value = serde_json::from_slice(&line).unwrap();
        assert!(frame.get("error").is_none() && String::from_utf8_lossy(&line).contains(&answer), "{frame}");
        came.result = frame["result"].clone();
        came
    }

    /// What all its threads used of the processors.
    pub fn cpu(&self) -> Duration {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Duration::from_nanos(sum)
    }

    /// Its own memory in KiB: what no other process shares.
    pub fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap();
        let of = |name: &str| {
            text.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
        };
        of("Private_Dirty:").unwrap_or(0) + of("Private_Clean:").unwrap_or(0)
    }

    /// Closes its input; how long it took to end.
    pub fn end(self) -> Duration {
        let Agent { mut child, input, mut output, .. } = self;
        let start = Instant::now();
        drop(input);
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        assert!(child.wait().unwrap().success());
        start.elapsed()
    }
}

/// A server of the Chat Completions kind whose answer depends on how many messages it is sent: `say` makes the deltas.
pub fn model(say: fn(&Value) -> Vec<Value>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, say));
        }
    });
    url
}

fn serve(stream: TcpStream, say: fn(&Value) -> Vec<Value>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (mut length, mut get) = (0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            get |= line.starts_with("GET");
            let lower = line.trim().to_ascii_lowercase();
            if let Some(n) = lower.strip_prefix("content-length:") {
                length = n.trim().parse().ok()?;
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut text = String::new();
        if get {
            text = json!({"data": [{"id": "scripted"}]}).to_string();
        } else {
            for delta in say(&body) {
                text.push_str(&format!("data: {delta}\n\n"));
            }
            text.push_str("data: [DONE]\n\n");
        }
        let kind = if get { "application/json" } else { "text/event-stream" };
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
        .ok()?;
    }
}

/// A delta of an answer, or its end.
pub fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}
