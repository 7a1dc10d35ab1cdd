//! Responses, written: jsonrpsee's body under the client's own id.

use crate::{
    acp,
    frame::{Id, MAX_OUTPUT},
};
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::{MethodResponse, MethodResponseNotifyTx};
use serde_json::value::RawValue;

/// What jsonrpsee writes before the body, given that it is always called with a null id: its own `Id` has no negative
/// numbers, and would normalise strings.
const PREFIX: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// A response ready to be queued, and what waits for that.
pub(crate) struct Reply {
    /// The line, newline included.
    pub(crate) frame: String,
    ok: bool,
    done: Option<MethodResponseNotifyTx>,
    after: Vec<BoxFuture<'static, ()>>,
}

impl Reply {
    /// The answer of a handler; `after` is the work that follows a success.
    pub(crate) fn of(id: &Id, response: MethodResponse, after: Vec<BoxFuture<'static, ()>>) -> Reply {
        let ok = response.is_success();
        let (json, done, _) = response.into_parts();
        let frame = match body(&json) {
            Some(body) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{body}\n", id.raw()),
            None => return Reply::error(id, &acp::Error::internal_error()),
        };
        if frame.len() >= MAX_OUTPUT {
            tracing::error!(bytes = frame.len(), "a response over 1 MiB is replaced by an error");
            let why = "the response would be over 1 MiB: ask for less";
            // `done` is dropped: whoever waits on it learns that the response was not delivered.
            return Reply::error(id, &acp::Error::internal_error().data(serde_json::Value::from(why)));
        }
        Reply { frame, ok, done, after }
    }

    /// An error response.
    pub(crate) fn error(id: &Id, error: &acp::Error) -> Reply {
        // An `acp::Error` is plain data, so this cannot fail; if it could, the client would still get its answer.
        let error = serde_json::to_string(error)
            .unwrap_or_else(|_| r#"{"code":-32603,"message":"Internal error"}"#.to_owned());
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", id.raw());
        Reply { frame, ok: false, done: None, after: Vec::new() }
    }

    /// Splits off the frame.
    pub(crate) fn into_parts(self) -> (String, Queued) {
        (self.frame, Queued { ok: self.ok, done: self.done, after: self.after })
    }
}

/// What is due once a response is queued.
pub(crate) struct Queued {
    ok: bool,
    done: Option<MethodResponseNotifyTx>,
    after: Vec<BoxFuture<'static, ()>>,
}

impl Queued {
    /// Tells jsonrpsee's `notify_on_completion`; returns the work that follows a success.
    pub(crate) fn tell(self) -> Vec<BoxFuture<'static, ()>> {
        if let Some(done) = self.done {
            done.notify(self.ok);
        }
        if self.ok { self.after } else { Vec::new() }
    }
}

/// The `"result":…}` or `"error":…}` of a response. All results of ACP are objects, and some clients take a null for a
/// malformed message, so a handler that returns nothing answers `{}`.
fn body(json: &RawValue) -> Option<&str> {
    match json.get().strip_prefix(PREFIX)? {
        r#""result":null}"# => Some(r#""result":{}}"#),
        body => Some(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RpcError;
    use jsonrpsee::{
        core::server::ResponsePayload,
        types::{Id as RpcId, error::ErrorCode},
    };
    use serde_json::json;

    /// Fails if jsonrpsee ever writes its responses in another form.
    #[test]
    fn the_body_is_jsonrpsees_and_the_id_is_the_clients() {
        let ok = |v: serde_json::Value| {
            MethodResponse::response(RpcId::Null, ResponsePayload::success(v), usize::MAX)
        };
        let error = RpcError(acp::Error::session_not_found("s"));
        let table = [
            (ok(json!({"a": null})), r#""result":{"a":null}"#),
            (ok(json!(null)), r#""result":{}"#),
            (
                MethodResponse::error(RpcId::Null, ErrorCode::InternalError),
                r#""error":{"code":-32603,"message":"Internal error"}"#,
            ),
            (
                MethodResponse::response(RpcId::Null, ResponsePayload::<()>::error(error), usize::MAX),
                r#""error":{"code":-32002,"message":"Resource not found","data":{"sessionId":"s"}}"#,
            ),
        ];
        let id = Id::parse("-9223372036854775808").unwrap();
        for (response, body) in table {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775808,{body}}}\n");
            assert_eq!(Reply::of(&id, response, Vec::new()).frame, line);
        }
    }
}
