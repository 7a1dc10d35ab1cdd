//! A history that one dialect began is taken over by another: all pairs.
use super::*;
use crate::model::dialect::{
    anthropic::Anthropic, gemini::Gemini, openai_chat::OpenAiChat, openai_responses::OpenAiResponses,
};
use std::collections::HashSet;

struct Wire {
    name: &'static str,
    dialect: Box<dyn Dialect>,
    /// A reply of it with thinking and calls.
    reply: &'static str,
    model: &'static str,
    /// The list of messages in a request.
    list: &'static str,
}

fn wires() -> Vec<Wire> {
    let wire = |name, dialect, reply, model, list| Wire { name, dialect, reply, model, list };
    vec![
        wire(
            "openai-chat",
            Box::new(OpenAiChat::new("a", Default::default())) as Box<dyn Dialect>,
            "reasoning-details.sse",
            "m",
            "messages",
        ),
        wire(
            "openai-responses",
            Box::new(OpenAiResponses::new("b", Default::default())),
            "reasoning-and-call.sse",
            "gpt-5",
            "input",
        ),
        wire(
            "anthropic",
            Box::new(Anthropic::new("c", Default::default())),
            "thinking-calls.sse",
            "claude-sonnet-4-5",
            "messages",
        ),
        wire(
            "gemini",
            Box::new(Gemini::new("d", Default::default())),
            "thought-and-calls.sse",
            "gemini-3-pro",
            "contents",
        ),
    ]
}

/// The reply as the log keeps it, with the results of its calls.
fn said(wire: &Wire) -> Vec<Message> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/models").join(wire.name);
    let body = std::fs::read(dir.join(wire.reply)).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    for one in decode(wire.dialect.decoder(&request(vec![])), &[&body]) {
        match one.unwrap() {
            Delta::Text(text) => blocks.push(Block::Text { text }),
            Delta::Thinking(text) => blocks.push(Block::Thinking { id: "m".into(), text, native: None }),
            Delta::ThinkingDone(done) => match blocks.last_mut() {
                Some(Block::Thinking { native: native @ None, .. }) => *native = Some(done),
                _ => blocks.push(Block::Thinking { id: "m".into(), text: String::new(), native: Some(done) }),
            },
            Delta::Call { provider_id, name, args, native } => blocks.push(Block::Call(Call {
                id: "t".into(),
                provider_id: provider_id.unwrap_or_else(|| format!("t_{}", blocks.len())),
                name,
                args,
                native,
            })),
            Delta::Usage(_) | Delta::End(_) => {}
        }
    }
    if !blocks.iter().any(|b| matches!(b, Block::Call(_))) {
        blocks.push(call("toolu_1", r#"{"path":"é"}"#, None));
    }
    let results: Vec<Message> = blocks
        .iter()
        .filter_map(|b| match b {
            Block::Call(call) => Some(result(&call.provider_id, "done 日本 😀")),
            _ => None,
        })
        .collect();
    [vec![user("first"), Message::Assistant { blocks }], results, vec![user("go on")]].concat()
}

/// What only its own provider may see of a history: the longer words of the native forms.
fn secrets(messages: &[Message]) -> Vec<String> {
    let mut out = Vec::new();
    for message in messages {
        let Message::Assistant { blocks } = message else { continue };
        for block in blocks {
            let native = match block {
                Block::Thinking { native, .. } => native,
                Block::Call(call) => &call.native,
                Block::Text { .. } => continue,
            };
            let value = native.as_ref().map(|n| n.value.clone()).unwrap_or_default();
            for key in ["signature", "encrypted_content", "thoughtSignature"] {
                out.extend(value[key].as_str().filter(|s| !s.is_empty()).map(str::to_owned));
            }
            out.extend(value["details"].as_array().map(|d| d[0].to_string()));
        }
    }
    out
}

/// The ids (Gemini: names) of calls and of results, in order.
fn pairs(value: &Value, calls: &mut Vec<String>, results: &mut Vec<String>) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    match value {
        Value::Array(all) => all.iter().for_each(|v| pairs(v, calls, results)),
        Value::Object(fields) => {
            match value["type"].as_str().unwrap_or_default() {
                "tool_use" | "function" if !value["id"].is_null() => calls.push(text(&value["id"])),
                "function_call" => calls.push(text(&value["call_id"])),
                "tool_result" => results.push(text(&value["tool_use_id"])),
                "function_call_output" => results.push(text(&value["call_id"])),
                _ if value["role"] == "tool" => results.push(text(&value["tool_call_id"])),
                _ => {}
            }
            calls.extend(fields.get("functionCall").map(|c| text(&c["name"])));
            results.extend(fields.get("functionResponse").map(|c| text(&c["name"])));
            fields.values().for_each(|v| pairs(v, calls, results));
        }
        _ => {}
    }
}

#[test]
fn each_dialect_takes_over_what_each_began() {
    for from in wires() {
        let history = said(&from);
        let secrets = secrets(&history);
        assert!(!secrets.is_empty(), "{}: nothing of its own to keep", from.name);
        for to in wires() {
            let what = format!("{} to {}", from.name, to.name);
            let body = to.dialect.body(to.model, &request(history.clone()));
            let parsed: Value = serde_json::from_str(&body).unwrap();
            let list = parsed[to.list].as_array().unwrap();
            let (mut calls, mut results) = (Vec::new(), Vec::new());
            pairs(&parsed[to.list], &mut calls, &mut results);
            assert!(!calls.is_empty() && calls == results, "{what}: {calls:?} {results:?}");
            if to.name != "gemini" {
                assert_eq!(calls.iter().collect::<HashSet<_>>().len(), calls.len(), "{what}");
            }
            assert!(body.contains("done 日本 😀") && list.len() >= 3, "{what}");
            for secret in &secrets {
                assert_eq!(
                    body.contains(secret.as_str()),
                    from.name == to.name,
                    "{what}: {secret} in {body}"
                );
            }
        }
    }
}

#[test]
fn requests_grow_by_appending_whoever_began() {
    let histories: Vec<Vec<Message>> = wires().iter().map(said).collect();
    for at in 0..histories.len() {
        let all: Vec<Message> =
            (0..histories.len()).flat_map(|i| histories[(at + i) % histories.len()].clone()).collect();
        for to in wires() {
            prefixes(&*to.dialect, &all, |body| {
                array(&body.replace(r#","cache_control":{"type":"ephemeral"}"#, ""), to.list)
            });
        }
    }
}

type Test = &'static dyn Fn(&str) -> bool;

/// The fixtures of each dialect hold each case of the matrix.
#[test]
fn every_dialect_has_every_case() {
    for wire in wires() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/models").join(wire.name);
        let all: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "expected"))
            .map(|p| std::fs::read_to_string(p).unwrap())
            .collect();
        let has = |test: &dyn Fn(&str) -> bool| all.iter().any(|text| test(text));
        let cases: &[(&str, Test)] = &[
            ("text", &|t| t.contains("text ") && t.contains("end Stop")),
            ("thinking", &|t| t.contains("thinking ")),
            ("thinking to be replayed", &|t| t.contains("thinking-done") || t.contains("thoughtSignature")),
            ("parallel calls", &|t| {
                t.lines().filter(|l| l.starts_with("call ")).count() >= 2 && t.contains("end ToolCalls")
            }),
            ("CJK and emoji", &|t| t.contains("日本 😀")),
            ("empty stream", &|t| t.contains("Malformed") && t.contains("empty")),
            ("ended early", &|t| t.contains("ended early")),
            ("error in the stream", &|t| t.contains("text ") && t.contains("error ")),
            ("too long", &|t| t.contains("error TooLong")),
            ("lone surrogates", &|t| t.contains('\u{fffd}')),
            ("output limit", &|t| t.contains("end Length")),
            ("refusal", &|t| t.contains("end Refusal")),
            ("usage", &|t| t.contains("usage input=")),
            ("a page instead of a reply", &|t| t.contains("HTML page")),
        ];
        let missing: Vec<&str> =
            cases.iter().filter(|(_, test)| !has(*test)).map(|(name, _)| *name).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", wire.name);
    }
}
