//! The history as every provider accepts it: calls right before their results, each with exactly one, ids unique,
//! arguments JSON objects, nothing empty. A pure function of the messages, so that a longer history only appends (I14).
use super::surrogates;
use crate::{
    log::{Block, Call, Image, Native, Part},
    model::Message,
};
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt::Write,
};

/// What a provider takes as the id of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Anything: ids are echoed as they came.
    #[default]
    Any,
    /// Letters, digits, `_` and `-`, at most 64 (Anthropic, OpenAI Responses).
    Word,
    /// Exactly nine letters and digits (Mistral).
    Nine,
}

#[derive(Debug)]
pub enum Turn<'a> {
    User(&'a [Part]),
    Assistant {
        blocks: &'a [Block],
        /// One for each `Block::Call`, in order.
        calls: Vec<Answered<'a>>,
    },
}

/// A call and its result.
#[derive(Debug)]
pub struct Answered<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// A JSON object.
    pub args: Cow<'a, str>,
    pub native: Option<&'a Native>,
    pub text: &'a str,
    pub images: &'a [Image],
    pub failed: bool,
}

/// What stands for a result that was never written: the turn was cut off there.
const NO_RESULT: &str = "No result: the call was interrupted before it ended. What it did is not known.";

/// The messages as turns. Results without a call are dropped; a call without a result gets one that says so.
pub fn turns(messages: &[Message], ids: Ids) -> Vec<Turn<'_>> {
    let (mut turns, mut used, mut at) = (Vec::new(), HashSet::new(), 0);
    while let Some(message) = messages.get(at) {
        at += 1;
        match message {
            Message::User { parts } => {
                if parts.iter().any(says_something) {
                    turns.push(Turn::User(parts));
                }
            }
            Message::Result { .. } => {}
            Message::Assistant { blocks } => {
                let results =
                    messages[at..].iter().take_while(|m| matches!(m, Message::Result { .. })).count();
                let calls = answered(blocks, &messages[at..at + results], ids, &mut used);
                at += results;
                let text =
                    blocks.iter().any(|b| matches!(b, Block::Text { text } if !text.trim().is_empty()));
                if text || !calls.is_empty() {
                    turns.push(Turn::Assistant { blocks, calls });
                }
            }
        }
    }
    turns
}

fn answered<'a>(
    blocks: &'a [Block],
    results: &'a [Message],
    ids: Ids,
    used: &mut HashSet<String>,
) -> Vec<Answered<'a>> {
    let mut taken = vec![false; results.len()];
    let mut out = Vec::new();
    for call in blocks.iter().filter_map(|b| if let Block::Call(call) = b { Some(call) } else { None }) {
        let found = results.iter().enumerate().position(|(i, r)| {
            !taken[i] && matches!(r, Message::Result { provider_id, .. } if *provider_id == call.provider_id)
        });
        let mut one = Answered {
            id: unique(call, ids, used),
            name: name(&call.name),
            args: args(&call.args),
            native: call.native.as_ref(),
            text: NO_RESULT,
            images: &[],
            failed: true,
        };
        if let Some(i) = found {
            taken[i] = true;
            if let Message::Result { text, images, failed, .. } = &results[i] {
                one.text = if text.is_empty() { "(no output)" } else { text };
                one.images = images;
                one.failed = *failed;
            }
        }
        out.push(one);
    }
    out
}

fn unique<'a>(call: &'a Call, ids: Ids, used: &mut HashSet<String>) -> Cow<'a, str> {
    let mut id = shaped(&call.provider_id, ids);
    let mut n = 1;
    while !used.insert(id.to_string()) {
        n += 1;
        id = Cow::Owned(shaped(&format!("{}_{n}", call.provider_id), ids).into_owned());
    }
    id
}

/// The id as the provider takes it; what it would refuse becomes a hash, the same each time.
pub fn shaped(id: &str, ids: Ids) -> Cow<'_, str> {
    let word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    let fits = match ids {
        Ids::Any => !id.is_empty(),
        Ids::Word => !id.is_empty() && id.len() <= 64 && id.bytes().all(word),
        Ids::Nine => id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()),
    };
    if fits {
        return Cow::Borrowed(id);
    }
    let mut hex = String::new();
    for byte in Sha256::digest(id.as_bytes()).iter().take(12) {
        let _ = write!(hex, "{byte:02x}");
    }
    Cow::Owned(match ids {
        Ids::Nine => hex[..9].to_owned(),
        Ids::Any | Ids::Word => format!("call_{hex}"),
    })
}

/// A tool name as all providers take it: 1 to 64 letters, digits, `_`, `-`. A model may have invented any other.
fn name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mended: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    Cow::Owned(if mended.is_empty() { "unknown".into() } else { mended })
}

fn args(args: &str) -> Cow<'_, str> {
    let args = surrogates::mend(args);
    if serde_json::from_str::<BTreeMap<Cow<'_, str>, IgnoredAny>>(&args).is_ok() { args } else { "{}".into() }
}

fn says_something(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Image(_) | Part::Link { .. } | Part::Embedded { .. } => true,
    }
}

/// The words of a prompt: links and embedded resources in line, images left out.
pub fn prompt_text(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        // `write!` to a string cannot fail.
        let _ = match part {
            Part::Text { text } => out.write_str(text),
            Part::Link { uri, name, .. } => write!(out, "[{name}]({uri})"),
            Part::Embedded { uri, text, .. } => {
                let gap = if out.is_empty() || out.ends_with('\n') { "" } else { "\n" };
                write!(out, "{gap}<resource uri=\"{uri}\">\n{text}\n</resource>\n")
            }
            Part::Image(_) => Ok(()),
        };
    }
    out
}

/// The images of a prompt.
pub fn images(parts: &[Part]) -> impl Iterator<Item = &Image> {
    parts.iter().filter_map(|p| if let Part::Image(image) = p { Some(image) } else { None })
}

/// The text of a reply, its text blocks joined.
pub fn reply_text(blocks: &[Block]) -> Cow<'_, str> {
    let mut texts =
        blocks.iter().filter_map(|b| if let Block::Text { text } = b { Some(text.as_str()) } else { None });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(one), None) => Cow::Borrowed(one),
        (Some(a), Some(b)) => {
            let mut all = format!("{a}{b}");
            texts.for_each(|t| all.push_str(t));
            Cow::Owned(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, args: &str) -> Block {
        Block::Call(Call {
            id: "t".into(),
            provider_id: id.into(),
            name: name.into(),
            args: args.into(),
            native: None,
        })
    }
    fn result(id: &str, text: &str) -> Message {
        Message::Result {
            provider_id: id.into(),
            name: "x".into(),
            text: text.into(),
            images: vec![],
            failed: false,
        }
    }
    fn calls(messages: &[Message], ids: Ids) -> Vec<(String, String, String, String)> {
        let mut out = Vec::new();
        for turn in turns(messages, ids) {
            if let Turn::Assistant { calls, .. } = turn {
                out.extend(
                    calls.iter().map(|c| {
                        (c.id.to_string(), c.name.to_string(), c.args.to_string(), c.text.to_owned())
                    }),
                );
            }
        }
        out
    }

    #[test]
    fn each_call_has_one_result_and_an_id_of_its_own() {
        let messages = [
            Message::Assistant {
                blocks: vec![call("a", "read", "{}"), call("a", "read", "{}"), call("b", "x.y", "oops")],
            },
            result("a", "1"),
            result("a", "2"),
            result("zzz", "orphan"),
            Message::Assistant { blocks: vec![call("a", "read", r#"{"p":"\ud83d"}"#)] },
            result("a", ""),
        ];
        let got = calls(&messages, Ids::Any);
        let ids: Vec<_> = got.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(ids, ["a", "a_2", "b", "a_3"]);
        assert_eq!(got[0].3, "1");
        assert_eq!(got[1].3, "2");
        assert_eq!(got[2], ("b".into(), "x_y".into(), "{}".into(), NO_RESULT.into()));
        assert_eq!(got[3].2, r#"{"p":"\ufffd"}"#);
        assert_eq!(got[3].3, "(no output)");
    }

    #[test]
    fn ids_fit_the_provider() {
        let messages = [Message::Assistant {
            blocks: vec![
                call("functions.read:0", "r", "{}"),
                call("gSIMJiOkT", "r", "{}"),
                call("", "r", "{}"),
            ],
        }];
        let ids = |rule| calls(&messages, rule).into_iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(ids(Ids::Any)[0], "functions.read:0");
        assert!(ids(Ids::Nine).iter().all(|i| i.len() == 9 && i.bytes().all(|c| c.is_ascii_alphanumeric())));
        assert_eq!(ids(Ids::Nine)[1], "gSIMJiOkT");
        assert!(ids(Ids::Word).iter().all(|i| !i.is_empty() && !i.contains('.')));
        assert!(ids(Ids::Any).iter().all(|i| !i.is_empty()));
    }

    #[test]
    fn nothing_empty_is_sent() {
        let messages = [
            Message::User { parts: vec![Part::Text { text: " ".into() }] },
            Message::Assistant {
                blocks: vec![Block::Thinking { id: "m".into(), text: "t".into(), native: None }],
            },
            Message::Assistant { blocks: vec![] },
            Message::User { parts: vec![Part::Text { text: "hi".into() }] },
        ];
        assert_eq!(turns(&messages, Ids::Any).len(), 1);
    }

    #[test]
    fn links_and_resources_are_words_of_the_prompt() {
        let parts = [
            Part::Text { text: "see ".into() },
            Part::Link { uri: "file:///a.rs".into(), name: "a.rs".into(), mime: None },
            Part::Embedded { uri: "file:///b.rs".into(), mime: None, text: "fn b() {}".into() },
            Part::Text { text: "now".into() },
        ];
        assert_eq!(
            prompt_text(&parts),
            "see [a.rs](file:///a.rs)\n<resource uri=\"file:///b.rs\">\nfn b() {}\n</resource>\nnow"
        );
    }
}
