//! Every line against the JSON Schema of ACP, by method and direction.
use jsonschema::Validator;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

/// Generated from the schema crate in use (`fixtures/schema/acp-v1.json`).
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../fixtures/schema/acp-v1.json")).expect("the schema is JSON")
});
static TYPES: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Who serves a method.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Agent,
    Client,
}

/// The type of what belongs to a method: `Request`, `Response` or `Notification`.
fn type_of(side: Side, method: &str, kind: &str) -> Option<&'static str> {
    let side = if side == Side::Agent { "agent" } else { "client" };
    SCHEMA["$defs"].as_object()?.iter().find_map(|(name, def)| {
        let here = def["x-method"] == method && (def["x-side"] == side || def["x-side"] == "protocol");
        (here && name.ends_with(kind)).then_some(name.as_str())
    })
}

fn validator(name: &str) -> Arc<Validator> {
    let mut types = TYPES.lock().unwrap();
    types
        .entry(name.to_owned())
        .or_insert_with(|| {
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/$defs/{name}"),
                "$defs": SCHEMA["$defs"],
            });
            Arc::new(jsonschema::validator_for(&schema).expect("the schema compiles"))
        })
        .clone()
}

fn check(name: &str, value: &Value) -> Result<(), String> {
    let faults: Vec<String> = validator(name)
        .iter_errors(value)
        .map(|e| format!("{name}{}: {e}", e.instance_path()).chars().take(400).collect())
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// A frame that the agent sent. `asked`: the method of the client's request that it answers, if it is a response.
///
/// # Errors
/// All that is wrong with it.
pub fn check_from_agent(frame: &Value, asked: Option<&str>) -> Result<(), String> {
    if frame["jsonrpc"] != "2.0" || !frame.is_object() {
        return Err("not a JSON-RPC 2.0 object".into());
    }
    if let Some(method) = frame["method"].as_str() {
        let kind = if frame.get("id").is_some() { "Request" } else { "Notification" };
        let name = type_of(Side::Client, method, kind)
            .ok_or_else(|| format!("{method} is no {kind} to a client"))?;
        return check(name, frame.get("params").unwrap_or(&Value::Null));
    }
    match (frame.get("result"), frame.get("error")) {
        (Some(result), None) => match asked.and_then(|m| type_of(Side::Agent, m, "Response")) {
            Some(name) => check(name, result),
            None => Ok(()),
        },
        (None, Some(error)) => check("Error", error),
        _ => Err("needs exactly one of result and error".into()),
    }
}

/// What the scripted client sends, so that the scripts themselves stay valid.
///
/// # Errors
/// All that is wrong with it.
pub fn check_answer(method: &str, result: &Value) -> Result<(), String> {
    type_of(Side::Client, method, "Response").map_or(Ok(()), |name| check(name, result))
}

#[test]
fn the_check_can_fail() {
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
    let good = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
    assert_eq!(check_from_agent(&update(good), None), Ok(()));
    let bad = json!({"sessionUpdate": "agentMessageChunk", "content": {"type": "text", "text": "x"}});
    assert!(check_from_agent(&update(bad), None).is_err());
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    assert_eq!(check_from_agent(&answer(json!({"stopReason": "end_turn"})), Some("session/prompt")), Ok(()));
    assert!(check_from_agent(&answer(json!({"stopReason": "done"})), Some("session/prompt")).is_err());
    assert!(check_from_agent(&json!({"jsonrpc": "2.0", "id": 1}), None).is_err());
    assert!(
        check_from_agent(&json!({"jsonrpc": "2.0", "id": 1, "method": "fs/nope", "params": {}}), None)
            .is_err()
    );
}
