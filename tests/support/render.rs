//! Frames as lines that a person can review. Ids, paths and times are normalised, nothing is left out.
use super::client::Incoming;
use regex::Regex;
use serde_json::{Map, Value};
use std::{collections::HashMap, sync::LazyLock};

/// One line of a transcript. What comes in pieces (a streamed message, a command's output) grows its line, since where
/// a stream is cut depends on the clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Line(String),
    Chunk {
        head: String,
        text: String,
    },
    /// Output of a running command for a client that only replaces content: the last state counts.
    Live {
        head: String,
        text: String,
    },
}

impl Item {
    /// Takes in what came behind it, if that is more of the same.
    pub fn join(&mut self, next: &Item) -> bool {
        match (self, next) {
            (Item::Chunk { head, text }, Item::Chunk { head: h, text: t }) if head == h => {
                text.push_str(t);
                true
            }
            (Item::Live { head, text }, Item::Live { head: h, text: t }) if head == h => {
                text.clone_from(t);
                true
            }
            _ => false,
        }
    }
}

/// The names that ids and places got, in the order they came.
#[derive(Default)]
pub struct Names {
    /// id → name.
    ids: HashMap<String, String>,
    counts: HashMap<char, usize>,
    /// (text, name), the longest text first.
    places: Vec<(String, String)>,
    running: Vec<String>,
}

impl Names {
    pub fn new(places: Vec<(String, String)>) -> Names {
        Names { places, ..Names::default() }
    }

    /// The name of an id; `kind`: its first letter.
    pub fn name(&mut self, kind: char, id: &str) -> String {
        if let Some(name) = self.ids.get(id) {
            return name.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}{count}");
        self.ids.insert(id.to_owned(), name.clone());
        name
    }

    /// The id that has a name.
    pub fn id(&self, name: &str) -> Option<&str> {
        self.ids.iter().find(|(_, n)| *n == name).map(|(id, _)| id.as_str())
    }

    /// Places, ids, times and durations in any text.
    pub fn normal(&self, text: &str) -> String {
        static TIME: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
        static TOOK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d+(\.\d+)? m?s\b").unwrap());
        // They follow from the lengths of our own prompts.
        static SIZES: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"about [\d,]+ tokens became [\d,]+;").unwrap());
        static WORDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"in at most \d+ words").unwrap());
        let mut text = text.to_owned();
        for (from, to) in &self.places {
            text = text.replace(from, to);
        }
        for (id, name) in &self.ids {
            if text.contains(id.as_str()) {
                text = text.replace(id.as_str(), name);
            }
        }
        let text = TIME.replace_all(&text, "TIME");
        let text = TOOK.replace_all(&text, "N s");
        let text = SIZES.replace_all(&text, "about N tokens became N;");
        WORDS.replace_all(&text, "in at most N words").into_owned()
    }

    pub fn shown(&self, item: &Item) -> String {
        match item {
            Item::Line(line) => self.normal(line),
            Item::Chunk { head, text } | Item::Live { head, text } => {
                self.normal(&format!("{head} {}", quote(text)))
            }
        }
    }

    /// A frame as a line. `None`: it is not shown (the commands, which are sent by the clock).
    pub fn item(&mut self, incoming: &Incoming, prompts: &[usize], full: bool) -> Option<Item> {
        match incoming {
            Incoming::Update { session, update } => self.update(session, update.clone()),
            Incoming::Request { method, params, .. } => {
                Some(Item::Line(self.request(method, params.clone())))
            }
            Incoming::Notification { method, params } => Some(Item::Line(if method == "$/cancel_request" {
                "<      $/cancel_request".into()
            } else {
                format!("<      {method} {params}")
            })),
            Incoming::Response { id, request, frame } => {
                Some(Item::Line(self.response(id, request.as_ref(), frame, prompts, full)))
            }
        }
    }

    fn response(
        &mut self,
        id: &Value,
        request: Option<&(usize, String)>,
        frame: &Value,
        prompts: &[usize],
        full: bool,
    ) -> String {
        let what = match request {
            Some((n, method)) if method == "session/prompt" => {
                match prompts.iter().position(|p| p == n).unwrap_or(0) {
                    0 => String::new(),
                    n => format!("{} ", n + 1),
                }
            }
            Some((_, method)) => format!("{method} "),
            None => format!("id={id} "),
        };
        if let Some(error) = frame.get("error") {
            let data = error.get("data").map(|d| format!(" {d}")).unwrap_or_default();
            return format!("<      ! {what}{} {}{data}", error["code"], error["message"]);
        }
        let result = &frame["result"];
        if let Some(session) = result["sessionId"].as_str() {
            self.name('S', session);
        }
        let shown = match request.map_or("", |(_, m)| m.as_str()) {
            "session/prompt" => match result.as_object() {
                Some(fields) if fields.len() == 1 => result["stopReason"].as_str().unwrap_or("?").to_owned(),
                Some(fields) if fields.len() == 2 && fields.contains_key("usage") => {
                    format!("{} usage {}", result["stopReason"].as_str().unwrap_or("?"), result["usage"])
                }
                _ => result.to_string(),
            },
            "initialize" if !full => format!("protocol {}", result["protocolVersion"]),
            "session/new"
            | "session/load"
            | "session/resume"
            | "session/fork"
            | "session/set_config_option"
                if !full =>
            {
                let session = result["sessionId"].as_str().map(|s| format!("{s} "));
                let options: Vec<String> = result["configOptions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|o| format!("{}={}", plain(&o["id"]), plain(&o["currentValue"])))
                    .collect();
                format!("{}{}", session.unwrap_or_default(), options.join(" "))
            }
            _ => result.to_string(),
        };
        format!("<      = {what}{shown}")
    }

    fn request(&mut self, method: &str, mut params: Value) -> String {
        let session = params.as_object_mut().and_then(|p| p.remove("sessionId")).map(|s| plain(&s));
        let of = match session.map(|s| self.name('S', &s)) {
            Some(name) if name != "S1" => format!("{name} "),
            _ => String::new(),
        };
        if method != "session/request_permission" {
            let path = plain(&params["path"]);
            return match method {
                "fs/read_text_file" => format!("<      {of}fs read {path}"),
                "fs/write_text_file" => {
                    format!("<      {of}fs write {path} {}", quote(&plain(&params["content"])))
                }
                _ => format!("<      {of}{method} {params}"),
            };
        }
        let options: Vec<String> = params["options"].as_array().into_iter().flatten().map(option).collect();
        let card = match params["toolCall"].take() {
            Value::Object(card) => self.card(card),
            other => other.to_string(),
        };
        let meta = params.get("_meta").map(|m| format!(" {m}")).unwrap_or_default();
        format!("<      {of}ask {card} ? {}{meta}", options.join(" "))
    }

    fn update(&mut self, session: &str, update: Value) -> Option<Item> {
        let session = self.name('S', session);
        let of = if session == "S1" { String::new() } else { format!("{session} ") };
        let Value::Object(mut fields) = update else { return Some(Item::Line(format!("<      {update}"))) };
        let kind = fields.remove("sessionUpdate").map(|k| plain(&k)).unwrap_or_default();
        let line = match kind.as_str() {
            "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
                return Some(self.chunk(&of, &kind, fields));
            }
            "tool_call" => format!("tool  {}", self.card(fields)),
            "tool_call_update" => return Some(self.change(&of, fields)),
            "compaction_update" => {
                let id = fields["compactionId"].as_str().map_or("?".into(), |id| self.name('C', id));
                let summary = fields
                    .get("summary")
                    .and_then(|s| s[0]["content"]["text"].as_str().or(s[0]["text"].as_str()));
                let said = summary.or(fields.get("error").and_then(Value::as_str));
                let said = said.map(|text| format!(" {}", quote(text))).unwrap_or_default();
                format!("compaction {id} {}{said}", plain(&fields["status"]))
            }
            "plan" => {
                let items = fields["entries"].as_array().into_iter().flatten();
                let items: Vec<String> = items
                    .map(|e| format!("[{}] {}", plain(&e["status"]), quote(&plain(&e["content"]))))
                    .collect();
                format!("plan  {}", items.join(" "))
            }
            "available_commands_update" => {
                let names = fields["availableCommands"].as_array().into_iter().flatten();
                let names: Vec<String> = names.map(|c| format!("/{}", plain(&c["name"]))).collect();
                format!("commands {}", names.join(" "))
            }
            "config_option_update" => {
                let options = fields["configOptions"].as_array().into_iter().flatten();
                let options: Vec<String> =
                    options.map(|o| format!("{}={}", plain(&o["id"]), plain(&o["currentValue"]))).collect();
                format!("options {}", options.join(" "))
            }
            kind => format!("{} {}", kind.trim_end_matches("_update"), Value::Object(fields)),
        };
        Some(Item::Line(format!("<      {of}{line}")))
    }

    fn chunk(&mut self, of: &str, kind: &str, mut fields: Map<String, Value>) -> Item {
        let id = fields.remove("messageId").map(|id| plain(&id));
        let (word, letter) = match kind {
            "agent_message_chunk" => ("text ", 'M'),
            "agent_thought_chunk" => ("think", 'M'),
            _ => ("user ", 'U'),
        };
        let id = id.map_or("?".into(), |id| self.name(letter, &id));
        let head = format!("<      {of}{word} {id}");
        let content = fields.remove("content").unwrap_or_default();
        match content["text"].as_str() {
            Some(text) if fields.is_empty() => Item::Chunk { head, text: text.to_owned() },
            _ => Item::Line(format!("{head} {content}")),
        }
    }

    fn change(&mut self, of: &str, fields: Map<String, Value>) -> Item {
        let id = plain(&fields["toolCallId"]);
        if fields.get("status").is_some_and(|s| s == "in_progress") {
            self.running.push(id.clone());
        }
        let only = |key: &str| fields.len() == 2 && fields.contains_key(key);
        let name = self.name('T', &id);
        if only("_meta")
            && let Some(data) = fields["_meta"]["terminal_output"]["data"].as_str()
            && fields["_meta"].as_object().is_some_and(|m| m.len() == 1)
        {
            return Item::Chunk { head: format!("<      {of}output {name}"), text: data.to_owned() };
        }
        if only("content")
            && self.running.contains(&id)
            && let Some(text) = fields["content"][0]["content"]["text"].as_str()
        {
            return Item::Live { head: format!("<      {of}output {name}"), text: text.to_owned() };
        }
        Item::Line(format!("<      {of}tool  {}", self.card(fields)))
    }

    /// The fields of a tool call or of its update that are there.
    fn card(&mut self, mut fields: Map<String, Value>) -> String {
        let id = fields.remove("toolCallId").map(|id| plain(&id)).unwrap_or_default();
        let mut out = vec![self.name('T', &id)];
        for key in ["status", "kind", "name"] {
            out.extend(fields.remove(key).map(|v| plain(&v)));
        }
        out.extend(fields.remove("title").map(|t| quote(&plain(&t))));
        if let Some(Value::Array(locations)) = fields.remove("locations") {
            for location in locations {
                let line = location.get("line").map(|l| format!(":{l}")).unwrap_or_default();
                out.push(format!("@{}{line}", plain(&location["path"])));
            }
        }
        if let Some(raw) = fields.remove("rawInput") {
            out.push(shorten(&raw.to_string(), 300));
        }
        if let Some(content) = fields.remove("content") {
            let items = content.as_array().into_iter().flatten();
            out.push(format!("| {}", items.map(shown).collect::<Vec<_>>().join(" | ")));
        }
        if !fields.is_empty() {
            out.push(format!("+ {}", Value::Object(fields)));
        }
        out.join(" ")
    }
}

/// An option by its id; one that is remembered with the words that tell its scope.
fn option(option: &Value) -> String {
    match (plain(&option["kind"]), plain(&option["optionId"])) {
        (kind, id) if kind == id => id,
        (kind, id) => format!("{id} ({kind}: {})", plain(&option["name"])),
    }
}

fn shown(content: &Value) -> String {
    match content["type"].as_str() {
        Some("content") if content["content"]["type"] == "text" => quote(&plain(&content["content"]["text"])),
        Some("diff") => {
            let old = content.get("oldText").map_or("new".into(), |t| quote(&plain(t)));
            format!("diff {} {old} -> {}", plain(&content["path"]), quote(&plain(&content["newText"])))
        }
        Some("terminal") => format!("terminal {}", plain(&content["terminalId"])),
        _ => content.to_string(),
    }
}

pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text as a JSON string; a long one by its two ends.
pub fn quote(text: &str) -> String {
    Value::from(shorten(text, 400)).to_string()
}

/// As [`quote`], for what the model reads: what is left out in the middle of it says where the rest is.
pub fn quote_more(text: &str) -> String {
    Value::from(shorten(text, 2000)).to_string()
}

fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(max / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - max / 6)..];
    format!("{head} [...] {tail}")
}
