//! One line of input, classified by shape and nothing else.
//!
//! Rules: JSON-RPC 2.0; ACP transport (<https://agentclientprotocol.com/protocol/v1/transports>): one object a line,
//! no batches, ids are an i64, a string or null.

use crate::acp;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Longest input line that is parsed, in bytes: a client may send images inline. Longer ones are drained.
pub const MAX_INPUT: usize = 32 * 1024 * 1024;
/// Our own lines stay below this many bytes, newline included: the smallest limit met in a client is 10 MiB, and
/// line-based readers of editors become slow long before.
pub const MAX_OUTPUT: usize = 1024 * 1024;
/// Longest id that is echoed, in bytes of its JSON text. A longer one could not be answered within [`MAX_OUTPUT`].
const MAX_ID: usize = 64 * 1024;

/// The id of a request of the client: what it means, and the text to echo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    key: acp::RequestId,
    raw: Box<str>,
}

impl Id {
    /// The id that answers lines whose own id cannot be known.
    pub fn null() -> Id {
        Id { key: acp::RequestId::Null, raw: "null".into() }
    }

    /// Reads the JSON text of an id. `None` if it is of no allowed kind (float, boolean, array, object, beyond i64) or
    /// too long to echo.
    pub fn parse(raw: &str) -> Option<Id> {
        if raw.len() > MAX_ID {
            return None;
        }
        let key = match raw.as_bytes().first()? {
            b'"' => acp::RequestId::Str(serde_json::from_str(raw).ok()?),
            b'n' => serde_json::from_str::<()>(raw).ok().map(|()| acp::RequestId::Null)?,
            _ => acp::RequestId::Number(serde_json::from_str(raw).ok()?),
        };
        Some(Id { key, raw: raw.into() })
    }

    /// The value, for comparison: `"a"` and `"\u0061"` are the same id.
    pub fn key(&self) -> &acp::RequestId {
        &self.key
    }

    /// The JSON text as the client wrote it.
    pub fn raw(&self) -> &str {
        &self.raw
    }
}

/// What a line is.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Asks for exactly one answer.
    Request {
        /// Echoed in the answer.
        id: Id,
        /// Name of the method.
        method: Cow<'a, str>,
        /// An object, or nothing.
        params: Option<&'a RawValue>,
    },
    /// Is never answered.
    Notification {
        /// Name of the method.
        method: Cow<'a, str>,
        /// An object, or nothing.
        params: Option<&'a RawValue>,
    },
    /// Answers one of our requests.
    Response {
        /// The id we gave, as the client echoed it.
        id: Id,
        /// What it answers.
        outcome: Outcome<'a>,
    },
    /// Gets one error response.
    Malformed {
        /// Null where the line's own id cannot be known.
        id: Id,
        /// What is wrong with it.
        error: acp::Error,
    },
    /// Gets no answer; the reason goes to the log.
    Ignored(&'static str),
}

/// The body of a response.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// `result`, null included.
    Result(&'a RawValue),
    /// `error`, unless it is null.
    Error(&'a RawValue),
    /// Neither: an error for whoever waits.
    Neither,
}

/// Classifies one line without its newline. Never panics; costs one pass over the text, and borrows from it.
pub fn parse(line: &[u8]) -> Incoming<'_> {
    let Ok(text) = std::str::from_utf8(line) else {
        return malformed(Id::null(), acp::Error::parse_error(), "the line is not UTF-8");
    };
    let text = text.trim_start_matches('\u{feff}');
    match serde_json::from_str::<Members<'_>>(text) {
        Ok(members) => members.classify(),
        Err(_) if serde_json::from_str::<IgnoredAny>(text).is_err() => {
            malformed(Id::null(), acp::Error::parse_error(), "the line is not JSON")
        }
        Err(_) if text.trim_start().starts_with('[') => malformed(
            Id::null(),
            acp::Error::invalid_request(),
            "batches are not supported: send each message by itself",
        ),
        Err(_) => malformed(Id::null(), acp::Error::invalid_request(), "a message is a JSON object"),
    }
}

/// For fuzzing: a line is one thing, and the id that is echoed for it is the id that it had.
#[doc(hidden)]
pub fn fuzz(line: &[u8]) {
    match parse(line) {
        Incoming::Request { id, .. } | Incoming::Response { id, .. } | Incoming::Malformed { id, .. } => {
            assert_eq!(Id::parse(id.raw()).as_ref(), Some(&id), "an id echoed");
        }
        Incoming::Notification { .. } | Incoming::Ignored(_) => {}
    }
}

fn malformed(id: Id, error: acp::Error, why: &str) -> Incoming<'static> {
    Incoming::Malformed { id, error: error.data(serde_json::Value::from(why)) }
}

/// The members JSON-RPC knows. Of a repeated key the last one counts, as in most JSON readers; unknown keys are skipped.
#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    fn classify(self) -> Incoming<'a> {
        let Some(method) = self.method else { return self.response() };
        let id = match self.id {
            None => None,
            Some(raw) => match Id::parse(raw.get()) {
                Some(id) => Some(id),
                None => {
                    let why = "`id` must be a 64-bit integer, a string or null";
                    return malformed(Id::null(), acp::Error::invalid_request(), why);
                }
            },
        };
        let wrong = |why| malformed(id.clone().unwrap_or_else(Id::null), acp::Error::invalid_request(), why);
        if self.jsonrpc.is_some_and(|v| v.get() != "\"2.0\"") {
            return wrong("`jsonrpc` must be \"2.0\"");
        }
        let Some(method) = text(method) else { return wrong("`method` must be a string") };
        let params = self.params.filter(|p| p.get() != "null");
        if params.is_some_and(|p| !p.get().starts_with('{')) {
            return match id {
                Some(id) => malformed(id, acp::Error::invalid_params(), "`params` must be an object"),
                None => Incoming::Ignored("a notification whose `params` are not an object"),
            };
        }
        match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        }
    }

    fn response(self) -> Incoming<'a> {
        let outcome = match (self.error.filter(|e| e.get() != "null"), self.result) {
            (Some(error), _) => Outcome::Error(error),
            (None, Some(result)) => Outcome::Result(result),
            (None, None) => Outcome::Neither,
        };
        let Some(raw) = self.id else {
            return match outcome {
                Outcome::Neither => malformed(
                    Id::null(),
                    acp::Error::invalid_request(),
                    "a message needs a `method` or an `id`",
                ),
                _ => Incoming::Ignored("a response without an id"),
            };
        };
        match Id::parse(raw.get()) {
            Some(id) if *id.key() != acp::RequestId::Null => Incoming::Response { id, outcome },
            _ if !matches!(outcome, Outcome::Neither) => {
                Incoming::Ignored("a response to no request: the client could not read one of our lines")
            }
            _ => malformed(Id::null(), acp::Error::invalid_request(), "a message needs a `method`"),
        }
    }
}

/// The value of a JSON string, borrowed where it holds no escapes.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    if let Ok(plain) = serde_json::from_str::<&str>(raw.get()) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(key) = map.next_key::<Key>()? {
            let member = match key {
                Key::Jsonrpc => &mut members.jsonrpc,
                Key::Id => &mut members.id,
                Key::Method => &mut members.method,
                Key::Params => &mut members.params,
                Key::Result => &mut members.result,
                Key::Error => &mut members.error,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // Not as an `Option`: that would turn an explicit null into an absent member.
            *member = Some(map.next_value::<&RawValue>()?);
        }
        Ok(members)
    }
}

enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "jsonrpc" => Key::Jsonrpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Other,
                })
            }
        }
        d.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests;
