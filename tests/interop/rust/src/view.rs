//! What an editor shows of a session, from the SDK's own types written out again.
use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

static PASSED: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// One check; `got` is shown where it fails.
pub fn check(what: &str, ok: bool, got: impl std::fmt::Debug) {
    let count = if ok { &PASSED } else { &FAILED };
    count.fetch_add(1, Ordering::Relaxed);
    if !ok {
        println!("  FAILED {what}: {got:?}");
    }
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) {
    check(what, got == wanted, (&got, &wanted));
}

/// Passed and failed so far.
pub fn counts() -> (usize, usize) {
    (PASSED.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed))
}

#[derive(Default)]
pub struct View {
    pub entries: Vec<Map<String, Value>>,
    pub plan: Value,
    pub kinds: HashSet<String>,
}

impl View {
    pub fn apply(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        self.kinds.insert(kind.to_owned());
        match kind {
            "user_message_chunk" => self.chunk("user", update),
            "agent_message_chunk" => self.chunk("agent", update),
            "agent_thought_chunk" => self.chunk("thought", update),
            "plan" => self.plan = update["entries"].clone(),
            "tool_call" | "tool_call_update" => self.card(kind, update),
            _ => {}
        }
    }

    pub fn user(&mut self, text: &str) {
        self.entries.push(Map::from_iter([("user".to_owned(), json!(text))]));
    }

    fn chunk(&mut self, who: &str, update: &Value) {
        let text = update["content"]["text"].as_str().unwrap_or_default();
        let id = update["messageId"].clone();
        if let Some(last) = self.entries.last_mut()
            && last.get("id") == Some(&id)
            && let Some(Value::String(before)) = last.get_mut(who)
        {
            return before.push_str(text);
        }
        self.entries.push(Map::from_iter([(who.to_owned(), json!(text)), ("id".to_owned(), id)]));
    }

    fn card(&mut self, kind: &str, update: &Value) {
        let id = &update["toolCallId"];
        let known = self.entries.iter().position(|e| e.get("call") == Some(id));
        let opens = kind == "tool_call";
        check("a call is opened once, before it changes", opens == known.is_none(), update);
        let at = known.unwrap_or_else(|| {
            let opened = json!({"call": id, "status": "pending", "seen": []});
            self.entries.push(opened.as_object().cloned().unwrap_or_default());
            self.entries.len() - 1
        });
        let entry = &mut self.entries[at];
        for (key, value) in update.as_object().into_iter().flatten() {
            if !["sessionUpdate", "toolCallId", "_meta"].contains(&key.as_str()) && !value.is_null() {
                entry.insert(key.clone(), value.clone());
            }
        }
        let status = entry["status"].clone();
        if let Some(Value::Array(seen)) = entry.get_mut("seen") {
            seen.push(status);
        }
    }

    pub fn calls(&self) -> Vec<Value> {
        self.entries.iter().filter(|e| e.contains_key("call")).cloned().map(Value::Object).collect()
    }

    /// The text of the last entry, if that is a message of the agent.
    pub fn last_word(&self) -> String {
        let text = self.entries.last().and_then(|e| e.get("agent")).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }

    /// What must be the same after a load: without the ids of live messages and the states on the way.
    pub fn canonical(&self) -> Value {
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            entry.retain(|key, _| key != "id" && key != "seen");
        }
        json!({"entries": entries, "plan": self.plan})
    }
}

/// The diffs of a card's content.
pub fn diffs(content: &Value) -> Vec<Value> {
    content.as_array().into_iter().flatten().filter(|c| c["type"] == "diff").cloned().collect()
}

/// The texts of a card's content.
pub fn text(content: &Value) -> String {
    content.as_array().into_iter().flatten().filter_map(|c| c["content"]["text"].as_str()).collect()
}
