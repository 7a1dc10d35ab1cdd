//! What every dialect is put through: recorded bodies cut at every byte, random bytes, and one history in all its forms.
mod handover;

use super::{Decoded, Decoder, Dialect};
use crate::{
    log::{Block, Call, Image, Native, Part, ToolSpec},
    model::{Delta, Message, Request, reply::Reply},
};
use serde_json::{Value, json};
use std::{fmt::Write, path::PathBuf, sync::Arc};

/// Decodes a body that comes in these pieces.
pub fn decode(decoder: Box<dyn Decoder>, pieces: &[&[u8]]) -> Vec<Decoded> {
    let (mut reply, mut all) = (Reply::new(decoder), Vec::new());
    for piece in pieces {
        // As `http` does: each read has an output of its own.
        let mut out = Vec::new();
        reply.feed(piece, &mut out);
        all.append(&mut out);
    }
    reply.finish(&mut all);
    all
}

/// The deltas as lines, runs of text and of thinking joined.
pub fn render(all: &[Decoded]) -> String {
    let mut joined: Vec<Decoded> = Vec::new();
    for one in all {
        match one {
            Ok(Delta::Text(text)) => super::push_text(&mut joined, text.clone()),
            Ok(Delta::Thinking(text)) => super::push_thinking(&mut joined, text.clone()),
            other => joined.push(other.clone()),
        }
    }
    let mut out = String::new();
    for one in joined {
        let _ = match one {
            Ok(Delta::Text(text)) => writeln!(out, "text {}", json!(text)),
            Ok(Delta::Thinking(text)) => writeln!(out, "thinking {}", json!(text)),
            Ok(Delta::ThinkingDone(native)) => {
                writeln!(out, "thinking-done {} {}", native.dialect, native.value)
            }
            Ok(Delta::Call { provider_id, name, args, native }) => {
                let native = native.map(|n| format!(" {} {}", n.dialect, n.value)).unwrap_or_default();
                writeln!(out, "call {} {name} {args}{native}", provider_id.unwrap_or_else(|| "-".into()))
            }
            Ok(Delta::Usage(u)) => writeln!(
                out,
                "usage input={} output={} cached={} reasoning={}",
                u.input, u.output, u.cached, u.reasoning
            ),
            Ok(Delta::End(finish)) => writeln!(out, "end {finish:?}"),
            Err(f) => {
                let wait = f.retry_after.map(|d| format!(" wait={}ms", d.as_millis())).unwrap_or_default();
                writeln!(out, "error {:?} {:?}{wait} {}", f.kind, f.status, f.detail)
            }
        };
    }
    out
}

/// Every body under `fixtures/models/<folder>` decodes as its `.expected` says, at every split. `UPDATE=1` rewrites.
pub fn fixtures(folder: &str, decoder: impl Fn() -> Box<dyn Decoder>) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/models").join(folder);
    let mut bodies: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    bodies.retain(|p| p.extension().is_some_and(|e| e != "expected"));
    bodies.sort();
    assert!(bodies.len() >= 5, "no fixtures in {}", dir.display());
    for path in bodies {
        let body = std::fs::read(&path).unwrap();
        let whole = render(&decode(decoder(), &[&body]));
        let expected = path.with_extension("expected");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&expected, &whole).unwrap();
        }
        assert_eq!(whole, std::fs::read_to_string(&expected).unwrap_or_default(), "{}", path.display());
        for at in 0..body.len() {
            let split = render(&decode(decoder(), &[&body[..at], &body[at..]]));
            assert_eq!(split, whole, "{} split at {at}", path.display());
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(render(&decode(decoder(), &bytes)), whole, "{} byte by byte", path.display());
        ends_once(&decode(decoder(), &bytes), &path.display().to_string());
        // An abort anywhere: one end or error, no panic.
        for at in 0..body.len() {
            ends_once(&decode(decoder(), &[&body[..at]]), "cut");
        }
    }
}

pub fn ends_once(all: &[Decoded], what: &str) {
    let ends = all.iter().filter(|d| matches!(d, Ok(Delta::End(_)) | Err(_))).count();
    assert_eq!(ends, 1, "{what}: {all:?}");
    assert!(matches!(all.last(), Some(Ok(Delta::End(_)) | Err(_))), "{what}: {all:?}");
}

/// Events of random shape never make a decoder panic, and it ends but once.
pub fn garbage(decoder: Box<dyn Decoder>, bytes: &[u8], event: &str, json: &Value) {
    let named = format!("event: {event}\ndata: {json}\n\n");
    ends_once(
        &decode(
            decoder,
            &[
                named.as_bytes(),
                b"data: ",
                bytes,
                b"\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}\n\n",
                bytes,
            ],
        ),
        "garbage",
    );
}

pub fn request(messages: Vec<Message>) -> Request {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    Request {
        model: "m".into(),
        system: "You are a test.".into(),
        tools: Arc::from([ToolSpec { name: "read".into(), description: "Reads.".into(), schema }]),
        messages,
        effort: None,
        max_output: Some(1000),
        cache_key: "session-1".into(),
    }
}

pub fn user(text: &str) -> Message {
    Message::User { parts: vec![Part::Text { text: text.into() }] }
}
pub fn call(id: &str, args: &str, native: Option<Native>) -> Block {
    Block::Call(Call {
        id: "t_1".into(),
        provider_id: id.into(),
        name: "read".into(),
        args: args.into(),
        native,
    })
}
pub fn result(id: &str, text: &str) -> Message {
    Message::Result {
        provider_id: id.into(),
        name: "read".into(),
        text: text.into(),
        images: vec![],
        failed: false,
    }
}
pub fn image() -> Image {
    Image { mime: "image/png".into(), data: "aGk=".into(), uri: None }
}

/// A history with everything that is hard: thinking of this and of another dialect, parallel calls, one id twice, a
/// call without a result, lone surrogates, images, an empty message.
pub fn history(own: Native, own_call: Option<Native>) -> Vec<Message> {
    let foreign = Native { dialect: "another@x".into(), value: json!({"signature": "FOREIGN"}) };
    vec![
        user("first 日本 😀"),
        Message::Assistant {
            blocks: vec![
                Block::Thinking { id: "m_1".into(), text: "own thought".into(), native: Some(own) },
                Block::Text { text: "I read two files.".into() },
                call("a", r#"{"path":"a.txt"}"#, own_call),
                call("b", r#"{"path":"\ud83d"}"#, None),
            ],
        },
        result("a", "one"),
        result("b", ""),
        Message::Assistant {
            blocks: vec![
                Block::Thinking {
                    id: "m_2".into(),
                    text: "foreign thought".into(),
                    native: Some(foreign.clone()),
                },
                call("a", "{}", Some(foreign)),
                call("lost", "not json", None),
            ],
        },
        Message::Result {
            provider_id: "a".into(),
            name: "read".into(),
            text: "pic".into(),
            images: vec![image()],
            failed: true,
        },
        user(""),
        Message::Assistant { blocks: vec![] },
        Message::User { parts: vec![Part::Text { text: "see".into() }, Part::Image(image())] },
        Message::Assistant { blocks: vec![Block::Text { text: "seen".into() }] },
        user("last"),
    ]
}

/// I14: the messages of a request are a byte prefix of those of the next. `messages` cuts the list out of a body,
/// without its closing bracket and without cache marks.
pub fn prefixes(dialect: &dyn Dialect, history: &[Message], messages: impl Fn(&str) -> String) {
    // A request is made behind a user's message or behind the results of all calls.
    let whole = |n: usize| {
        matches!(history[n - 1], Message::User { .. } | Message::Result { .. })
            && !matches!(history.get(n), Some(Message::Result { .. }))
    };
    let mut last = String::new();
    let mut seen = 0;
    for n in (1..=history.len()).filter(|n| whole(*n)) {
        let list = messages(&dialect.body("m", &request(history[..n].to_vec())));
        assert!(list.starts_with(&last), "request {n} is no extension:\n{last}\n{list}");
        assert!(serde_json::from_str::<Value>(&format!("{list}]")).is_ok(), "{list}");
        last = list;
        seen += 1;
    }
    assert!(seen >= 4);
}

/// The array of this name in a body, without its closing bracket.
pub fn array(body: &str, name: &str) -> String {
    let from = body.find(&format!("\"{name}\":[")).unwrap() + name.len() + 3;
    let mut depth = 0;
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in body[from..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return body[from..from + at].to_owned();
        }
    }
    panic!("no end of {name}");
}
