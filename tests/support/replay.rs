//! What a person has seen of a session, in canonical form: live and after a load it must be the same.
use super::client::Incoming;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};

/// The items of one session: messages by id, cards in their last state, plans. Notices, settings and titles are not part
/// of it.
#[derive(Default)]
pub struct Seen {
    items: Vec<Value>,
    at: HashMap<String, usize>,
}

impl Seen {
    pub fn take(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            kind @ ("agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk") => {
                self.chunk(kind, update);
            }
            "tool_call" | "tool_call_update" => self.card(update),
            // What stands for older messages; the steps to it, and what only removes old results, are not kept.
            "compaction_update" if update.get("summary").is_some() => {
                let (id, summary) = (&update["compactionId"], &update["summary"]);
                self.items.push(json!({"compaction": id, "summary": summary}));
            }
            "plan" => self.items.push(json!({"plan": update["entries"]})),
            _ => {}
        }
    }

    fn slot(&mut self, key: String, new: Value) -> &mut Value {
        let next = self.items.len();
        let at = *self.at.entry(key).or_insert(next);
        if at == next {
            self.items.push(new);
        }
        &mut self.items[at]
    }

    fn chunk(&mut self, kind: &str, update: &Value) {
        let key = format!("{kind} {}", update["messageId"]);
        let mut new = json!({"kind": kind, "parts": []});
        if kind != "user_message_chunk" {
            new["id"] = update["messageId"].clone();
        }
        let parts = self.slot(key, new)["parts"].as_array_mut().unwrap();
        add(parts, update["content"].clone());
    }

    fn card(&mut self, update: &Value) {
        let id = &update["toolCallId"];
        let card = self.slot(format!("call {id}"), json!({"call": id}));
        for (key, value) in update.as_object().unwrap() {
            match key.as_str() {
                "sessionUpdate" | "toolCallId" => {}
                "_meta" => terminal(card, value.as_object().unwrap()),
                _ if value.is_null() => {}
                _ => card[key] = value.clone(),
            }
        }
    }

    /// What a prompt will be shown as.
    fn prompt(&mut self, blocks: &[Value]) {
        let mut parts = Vec::new();
        blocks.iter().for_each(|block| add(&mut parts, block.clone()));
        // Of nothing, nothing can be shown.
        if !parts.is_empty() {
            self.items.push(json!({"kind": "user_message_chunk", "parts": parts}));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One item a line.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        for item in &self.items {
            out.push_str(&sorted(item).to_string());
            out.push('\n');
        }
        out
    }
}

/// Text that follows text is one text.
fn add(parts: &mut Vec<Value>, content: Value) {
    if let (Some(Value::Object(last)), Some(text)) = (parts.last_mut(), content["text"].as_str())
        && let Some(Value::String(before)) = last.get_mut("text")
    {
        before.push_str(text);
        return;
    }
    parts.push(content);
}

/// The output of a call that is shown in a terminal of the client.
fn terminal(card: &mut Value, meta: &Map<String, Value>) {
    for (key, value) in meta {
        match key.as_str() {
            // Where it is shown stands in the content; the folder is known only when the command starts.
            "terminal_info" => {}
            "terminal_output" if value["data"] == "" => {}
            "terminal_output" => {
                let before = card["output"].as_str().unwrap_or_default();
                card["output"] = format!("{before}{}", value["data"].as_str().unwrap_or_default()).into();
            }
            "terminal_exit" => card["exit"] = value.clone(),
            other => card[other] = value.clone(),
        }
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by_key(|(k, _)| *k);
            keys.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// What was seen live, with the prompts where they were taken up.
#[derive(Default)]
pub struct Live {
    pub seen: HashMap<String, Seen>,
    /// Prompts and loads that were sent and not answered, the running one first: (request, session, blocks).
    waiting: VecDeque<(usize, String, Option<Vec<Value>>)>,
}

impl Live {
    pub fn prompted(&mut self, request: usize, session: &str, blocks: &[Value]) {
        self.waiting.push_back((request, session.to_owned(), Some(blocks.to_vec())));
        if self.waiting.iter().filter(|(_, s, _)| s == session).count() == 1 {
            self.seen.entry(session.to_owned()).or_default().prompt(blocks);
        }
    }

    /// A load shows all anew, when it is its turn.
    pub fn loading(&mut self, request: usize, session: &str) {
        self.waiting.push_back((request, session.to_owned(), None));
        if self.waiting.iter().filter(|(_, s, _)| s == session).count() == 1 {
            self.seen.remove(session);
        }
    }

    /// The process ended: what waited gets no answer.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    pub fn take(&mut self, incoming: &Incoming) {
        match incoming {
            Incoming::Update { session, update } => {
                self.seen.entry(session.clone()).or_default().take(update);
            }
            Incoming::Response { request: Some((n, method)), frame, .. }
                if matches!(method.as_str(), "session/prompt" | "session/load") =>
            {
                self.answered(*n, frame);
            }
            _ => {}
        }
    }

    fn answered(&mut self, request: usize, frame: &Value) {
        let Some(at) = self.waiting.iter().position(|(n, _, _)| *n == request) else { return };
        let Some((_, session, blocks)) = self.waiting.remove(at) else { return };
        // Refused at once, beside what runs in front of it.
        if self.waiting.iter().take(at).any(|(_, s, _)| *s == session) && blocks.is_none() {
            return;
        }
        // It went to the turn that runs, which shows it when it arrives.
        if frame["result"]["_meta"]["hermes-editor"]["steered"] == true {
            return;
        }
        let seen = self.seen.entry(session.clone()).or_default();
        // Refused before it was taken up: not part of the conversation.
        if blocks.is_some() && matches!(frame["error"]["code"].as_i64(), Some(-32602 | -32002)) {
            seen.items.pop();
        }
        match self.waiting.iter().find(|(_, s, _)| *s == session) {
            Some((_, _, Some(blocks))) => {
                let blocks = blocks.clone();
                seen.prompt(&blocks);
            }
            Some((_, _, None)) => _ = self.seen.remove(&session),
            None => {}
        }
    }
}
