//! Runs a transcript against the real binary, and gives the transcript as it came out.
use super::{
    PATIENCE,
    client::{Client, Fs, Incoming, Profile},
    env::{BIN, World},
    render::{Item, Names, plain, quote, quote_more},
    replay::{Live, Seen},
    script::{self, Block, reply, text_of},
};
use serde_json::{Value, json};

/// A transcript while it runs.
pub struct Run {
    world: World,
    client: Option<Client>,
    names: Names,
    profile: Profile,
    session: String,
    items: Vec<Item>,
    out: Vec<String>,
    live: Live,
    /// The prompts among the client's requests, over all processes.
    prompts: Vec<usize>,
    sent: usize,
    full: bool,
    commands: bool,
    queue: bool,
    no_replay: bool,
    stuck: bool,
    update: bool,
    saw: usize,
    /// The messages of the last request that the model got.
    messages: Vec<Value>,
}

/// Runs a file. What it says when it is run, and what is wrong besides. `update`: it is to be rewritten.
pub async fn run(text: &str, update: bool) -> (String, Vec<String>) {
    let world = World::new().await;
    let at = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let places = vec![
        (format!("file://{}/", at(&world.cwd)), "file://$CWD/".into()),
        (format!("{}/", at(&world.cwd)), String::new()),
        (at(&world.cwd), "$CWD".into()),
        (at(&world.home.join("own/data")), "$DATA".into()),
        (at(&world.home), "$HOME".into()),
        (at(&world.base), "$BASE".into()),
        (world.model.addr.to_string(), "MODEL".into()),
        (BIN.into(), "$BIN".into()),
        (format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION")), "\"version\":\"V\"".into()),
    ];
    let mut run = Run {
        world,
        client: None,
        names: Names::new(places),
        profile: Profile::default(),
        session: String::new(),
        items: vec![],
        out: vec![],
        live: Live::default(),
        prompts: vec![],
        sent: 0,
        full: false,
        commands: false,
        queue: false,
        no_replay: false,
        stuck: false,
        update,
        saw: 0,
        messages: vec![],
    };
    for block in script::parse(text) {
        run.block(block).await;
    }
    let faults = run.finish().await;
    (run.out.join("\n") + "\n", faults)
}

impl Run {
    async fn block(&mut self, block: Block) {
        self.out.extend(block.lead.iter().cloned());
        if block.input.is_empty() {
            return;
        }
        self.out.push(block.input.clone());
        self.out.extend(block.more.iter().cloned());
        if self.stuck {
            return self.out.extend(block.expected);
        }
        self.perform(&block).await;
        let patience = if self.update { PATIENCE / 4 } else { PATIENCE };
        while !self.stuck && !block.is_done(&self.lines(), false) {
            match tokio::time::timeout(patience, self.pump()).await {
                Ok(true) => {}
                Ok(false) => self.stop("the agent ended"),
                Err(_) if self.update && block.is_done(&self.lines(), true) => break,
                Err(_) => self.stop("nothing more came"),
            }
        }
        let lines = self.lines();
        self.out.extend(lines);
        self.items.clear();
    }

    /// Nothing more can be done: the rest of the file is left as it is.
    fn stop(&mut self, why: &str) {
        self.stuck = true;
        self.items.push(Item::Line(format!("<      ({why})")));
    }

    fn lines(&self) -> Vec<String> {
        self.items.iter().map(|i| self.names.shown(i)).collect()
    }

    /// Takes one frame in. Whether there was one.
    async fn pump(&mut self) -> bool {
        let came = self.client.as_mut().expect("the agent runs").next_ever().await;
        let Some(came) = came else { return false };
        self.take(came);
        true
    }

    fn take(&mut self, came: Incoming) {
        self.live.take(&came);
        if let Incoming::Update { update, .. } = &came
            && update["sessionUpdate"] == "available_commands_update"
            && !self.commands
        {
            return;
        }
        // Sent beside the turn that runs: where it comes in between is chance.
        if let Incoming::Update { update, .. } = &came
            && update["_meta"]["hermes-editor"].get("queue").is_some()
            && !self.queue
        {
            return;
        }
        if let Incoming::Response { frame, .. } = &came
            && let Some(id) = frame["result"]["sessionId"].as_str()
        {
            self.session = id.to_owned();
        }
        let Some(item) = self.names.item(&came, &self.prompts, self.full) else { return };
        if !self.items.last_mut().is_some_and(|last| last.join(&item)) {
            self.items.push(item);
        }
    }

    async fn perform(&mut self, block: &Block) {
        let (word, rest) = block.input.split_once(' ').unwrap_or((&block.input, ""));
        let rest = rest.trim();
        match word {
            "client" => self.profile = Profile::of(rest),
            "config" => {
                let line = rest.replace("MODEL", &self.world.model.addr.to_string());
                self.world.configure(&line);
            }
            "env" => match (rest.strip_prefix('-'), rest.split_once('=')) {
                (Some(name), _) => _ = self.world.env.remove(name),
                (None, Some((name, value))) => _ = self.world.env.insert(name.into(), value.into()),
                (None, None) => panic!("{}", block.input),
            },
            "file" => {
                let (path, text) = rest.split_once(' ').unwrap();
                self.world.write(path, &text_of(text));
            }
            "buffer" => self.buffer(rest).await,
            "fs" => {
                self.client().await.fs = match rest {
                    "answers" => Fs::Answers,
                    "fails" => Fs::Fails,
                    "knows-none" => Fs::KnowsNone,
                    other => panic!("fs {other}"),
                };
            }
            "model" => {
                let more: Vec<String> = block.more.iter().map(|l| self.expand(l)).collect();
                self.world.model.push(reply(&self.expand(rest), &more));
            }
            "start" => self.start().await,
            ">" => self.send(rest, &block.more).await,
            "answer" => self.answer(rest).await,
            "open" => self.world.model.open(rest),
            "reached" => self.world.model.reached(rest).await,
            "restart" => self.end().await,
            "kill" => {
                self.client.take().expect("the agent runs").kill().await;
                self.forget();
            }
            "saw?" => self.saw(),
            "link" => {
                let (path, target) = rest.split_once(' ').unwrap();
                std::os::unix::fs::symlink(self.expand(target), self.world.cwd.join(path)).unwrap();
            }
            "gone" => std::fs::remove_dir_all(self.world.cwd.join(rest)).unwrap(),
            "disk?" => {
                let text = self.world.read(rest).map_or("(none)".into(), |t| quote(&t));
                self.items.push(Item::Line(format!("disk   {rest} {text}")));
            }
            "full" => self.full = true,
            "commands" => self.commands = true,
            "queue" => self.queue = true,
            "no-replay" => self.no_replay = true,
            word => panic!("`{word}` is nothing that a transcript can do"),
        }
    }

    async fn client(&mut self) -> &mut Client {
        self.client.get_or_insert_with(|| Client::start(&self.world, self.profile.clone()))
    }

    async fn start(&mut self) {
        let profile = self.profile.clone();
        let cwd = self.world.cwd.clone();
        let client = self.client().await;
        client.must("initialize", profile.initialize(json!(1))).await;
        let new = client.must("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        self.session = new["sessionId"].as_str().unwrap().to_owned();
        self.names.name('S', &self.session.clone());
        self.sent = 2;
    }

    /// A new process counts its requests anew.
    fn forget(&mut self) {
        self.prompts.clear();
        self.live.forget();
    }

    /// Closes the agent's input and takes what comes until it ends.
    async fn end(&mut self) {
        let Some(mut client) = self.client.take() else { return };
        let (rest, status) = client.close().await;
        rest.into_iter().for_each(|came| self.take(came));
        self.forget();
        if !status.success() {
            self.items.push(Item::Line(format!("<      (the agent ended with {status})")));
        }
    }

    async fn buffer(&mut self, rest: &str) {
        let (path, text) = match rest.split_once(' ') {
            Some((path, text)) => (path, Some(text_of(text))),
            None => (rest.trim_start_matches('-'), None),
        };
        let path = self.world.absolute(path);
        let buffers = &mut self.client().await.buffers;
        match text {
            Some(text) => buffers.insert(path, text),
            None => buffers.remove(&path),
        };
    }

    async fn send(&mut self, first: &str, more: &[String]) {
        let mut bytes = String::new();
        for line in std::iter::once(first).chain(more.iter().map(|l| l.trim_start_matches('&').trim())) {
            bytes.push_str(&self.line(line).await);
        }
        self.client().await.write(bytes.as_bytes()).await;
    }

    /// One message as the client writes it: `[id=ID] METHOD [PARAMS]`, or `raw BYTES`.
    async fn line(&mut self, line: &str) -> String {
        if let Some(raw) = line.strip_prefix("raw ") {
            return self.expand(raw) + "\n";
        }
        let (id, line) = match line.strip_prefix("id=") {
            Some(rest) => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter();
                let id: Value = values.next().unwrap().unwrap();
                (Some(id), rest[values.byte_offset()..].trim())
            }
            None => (None, line),
        };
        let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = self.expand(rest.trim());
        let params = self.params(method, &rest);
        if matches!(method, "session/cancel" | "$/cancel_request") {
            return format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        self.client().await;
        let client = self.client.as_mut().unwrap();
        let (_, text) = client.request_line(method, &params, id);
        let number = client.requests() - 1;
        if method == "session/load" {
            self.live.loading(number, &plain(&params["sessionId"]));
        }
        if method == "session/prompt" {
            self.prompts.push(number);
            let session = plain(&params["sessionId"]);
            self.live.prompted(number, &session, params["prompt"].as_array().map_or(&[], Vec::as_slice));
        }
        text
    }

    /// `$CWD`, `$BASE`, `$S1` … in what a transcript sends.
    fn expand(&self, text: &str) -> String {
        let mut text = text
            .replace("$CWD", &self.world.cwd.to_string_lossy())
            .replace("$BASE", &self.world.base.to_string_lossy())
            .replace("$DATA", &self.world.home.join("own/data").to_string_lossy());
        for name in (1..9).flat_map(|n| [format!("S{n}"), format!("T{n}")]) {
            if let Some(id) = self.names.id(&name) {
                text = text.replace(&format!("${name}"), id);
            }
        }
        text
    }

    fn params(&mut self, method: &str, rest: &str) -> Value {
        let given: Option<Value> =
            serde_json::from_str(rest).ok().filter(|v: &Value| v.is_object() || v.is_array());
        let cwd = json!(self.world.cwd);
        let mut params = match method {
            "initialize" => {
                let version = rest.parse::<i64>().map_or(json!(1), |v| json!(v));
                self.profile.initialize(version)
            }
            "session/new" => json!({"cwd": cwd, "mcpServers": []}),
            "session/load" | "session/resume" | "session/fork" => {
                json!({"sessionId": self.session, "cwd": cwd, "mcpServers": []})
            }
            "session/prompt" => {
                let blocks = match &given {
                    Some(Value::Array(blocks)) => json!(blocks),
                    _ => json!([{"type": "text", "text": rest}]),
                };
                json!({"sessionId": self.session, "prompt": blocks})
            }
            "session/set_mode" => json!({"sessionId": self.session, "modeId": rest}),
            "session/set_config_option" => {
                let (id, value) = rest.split_once(' ').unwrap_or((rest, ""));
                json!({"sessionId": self.session, "configId": id, "value": value})
            }
            "session/cancel" | "session/close" | "session/delete" => json!({"sessionId": self.session}),
            "session/set_title" => json!({"sessionId": self.session, "title": rest}),
            "authenticate" => json!({"methodId": rest}),
            _ => json!({}),
        };
        if let Some(Value::Object(given)) = given {
            for (key, value) in given {
                if value.is_null() {
                    params.as_object_mut().unwrap().remove(&key);
                } else {
                    params[key] = value;
                }
            }
        }
        if matches!(method, "session/load" | "session/resume") {
            self.session = plain(&params["sessionId"]);
        }
        params
    }

    async fn answer(&mut self, rest: &str) {
        let client = self.client.as_mut().expect("the agent runs");
        assert!(!client.open.is_empty(), "no question is open for: answer {rest}");
        let (id, _) = client.open.remove(0);
        let (option, meta) = rest.split_once(' ').unwrap_or((rest, ""));
        if option == "error" {
            let error = json!({"code": -32603, "message": "the dialog broke"});
            return client.respond(json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
        }
        let mut result = match option {
            "cancelled" => json!({"outcome": {"outcome": "cancelled"}}),
            option => json!({"outcome": {"outcome": "selected", "optionId": option}}),
        };
        if !meta.is_empty() {
            result["_meta"] = serde_json::from_str(meta).expect("the answer's _meta is JSON");
        }
        client.answer(&id, result).await;
    }

    /// What the model was sent that it did not have before. That it had the rest is checked (I14).
    fn saw(&mut self) {
        let requests = self.world.model.requests();
        for request in &requests[self.saw..] {
            let messages = request["messages"].as_array().cloned().unwrap_or_default();
            let known = self.messages.len();
            let mut lines = Vec::new();
            if known == 0 || !messages.starts_with(&self.messages) {
                let again = if known == 0 { "" } else { " (all of it again)" };
                let tools = request["tools"].as_array().map_or(0, Vec::len);
                lines.push(format!("saw    system, {}{again}", if tools > 0 { "tools" } else { "no tools" }));
                lines.extend(messages.iter().skip(1).map(seen));
            } else {
                lines.extend(messages[known..].iter().map(seen));
                if request["tools"].as_array().is_none_or(Vec::is_empty) {
                    lines.push("saw    no tools".into());
                }
            }
            self.items.extend(lines.into_iter().map(Item::Line));
            self.messages = messages;
        }
        self.saw = requests.len();
    }

    /// Ends the process, and loads each session in a new one.
    async fn finish(&mut self) -> Vec<String> {
        if self.stuck {
            let tail = self.client.as_ref().map(Client::tail).unwrap_or_default();
            return vec![format!("it got stuck; {tail}")];
        }
        self.end().await;
        let lines = self.lines();
        self.out.extend(lines);
        let mut faults = Vec::new();
        if self.world.model.left() > 0 {
            faults.push(format!("{} answers of the model were not asked for", self.world.model.left()));
        }
        if self.no_replay {
            return faults;
        }
        let live = std::mem::take(&mut self.live);
        for (session, seen) in live.seen.iter().filter(|(_, seen)| !seen.is_empty()) {
            let mut client = Client::start(&self.world, self.profile.clone());
            client.must("initialize", self.profile.initialize(json!(1))).await;
            let params = json!({"sessionId": session, "cwd": self.world.cwd, "mcpServers": []});
            let (came, answer) = client.call("session/load", params).await;
            if let Err(e) = answer {
                faults.push(format!("loading {session} failed: {e}"));
                continue;
            }
            let mut again = Seen::default();
            for incoming in &came {
                if let Incoming::Update { update, .. } = incoming {
                    again.take(update);
                }
            }
            let (live, again) = (self.names.normal(&seen.lines()), self.names.normal(&again.lines()));
            if live != again {
                let diff = super::transcript::diff(&live, &again);
                faults.push(format!("a load does not show what was seen live (-), but (+):\n{diff}"));
            }
            client.close().await;
        }
        faults
    }
}

/// A message as the model got it.
fn seen(message: &Value) -> String {
    let content = match &message["content"] {
        Value::String(text) => quote_more(text),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<String> = calls
        .map(|c| format!("call {} {}", plain(&c["function"]["name"]), plain(&c["function"]["arguments"])))
        .collect();
    let role = match plain(&message["role"]).as_str() {
        "tool" => "result".to_owned(),
        role => role.to_owned(),
    };
    format!(
        "saw    {role} {content}{}{}",
        if content.is_empty() || calls.is_empty() { "" } else { " " },
        calls.join(" ")
    )
}

/// Two texts, line by line.
pub fn diff(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(2).to_string()
}
