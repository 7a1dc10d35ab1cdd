//! The two ways to show a turn: for people, and as JSON lines for scripts.
use super::{ClientError, render::View};
use agent_client_protocol_schema::v1::{PermissionOption, RequestPermissionRequest, SessionUpdate};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Takes what the server sends, in order.
pub trait Show {
    fn session(&mut self, id: &str);
    /// `update` is `None` for a kind that this client does not know: it is passed on, or left out.
    fn update(&mut self, raw: &Value, update: Option<&SessionUpdate>);
    /// Shows a question whole, before it is answered.
    fn question(&mut self, request: &RequestPermissionRequest);
    /// What a person can answer, numbered from 1.
    fn options(&mut self, request: &RequestPermissionRequest);
    /// The words in front of the cursor, where a person answers.
    fn ask_line(&mut self, words: &str);
    /// How it was answered; `None`: cancelled or withdrawn.
    fn answered(&mut self, request: &RequestPermissionRequest, choice: Option<&PermissionOption>, by: &str);
    fn note(&mut self, text: &str);
    fn end(&mut self, result: &Result<String, ClientError>);
    /// Whether a notice has told this to the person already.
    fn has_told(&self, _text: &str) -> bool {
        false
    }
    /// The first failure to write, e.g. a closed pipe.
    fn failure(&mut self) -> Option<io::Error>;
}

/// One JSON object a line; the forms are listed in the README under `exec --json`.
pub struct JsonLines<W, A> {
    out: W,
    /// Where a person at a terminal reads the questions.
    asking: View<A>,
    failure: Option<io::Error>,
}

impl<W: Write, A: Write> JsonLines<W, A> {
    pub fn new(out: W, asking: View<A>) -> Self {
        JsonLines { out, asking, failure: None }
    }
    fn line(&mut self, value: &Value) {
        let written = writeln!(self.out, "{value}").and_then(|()| self.out.flush());
        if let Err(e) = written {
            self.failure.get_or_insert(e);
        }
    }
}

impl<W: Write, A: Write> Show for JsonLines<W, A> {
    fn session(&mut self, id: &str) {
        self.line(&json!({ "sessionId": id }));
    }
    fn update(&mut self, raw: &Value, _update: Option<&SessionUpdate>) {
        self.line(raw);
    }
    fn question(&mut self, _request: &RequestPermissionRequest) {}
    fn options(&mut self, request: &RequestPermissionRequest) {
        self.asking.question(request);
        self.asking.options(request);
    }
    fn ask_line(&mut self, words: &str) {
        self.asking.ask_line(words);
    }
    fn answered(&mut self, request: &RequestPermissionRequest, choice: Option<&PermissionOption>, by: &str) {
        let answer = choice.map(|c| c.option_id.0.as_ref());
        self.line(&json!({
            "permission": { "toolCallId": request.tool_call.tool_call_id, "title": request.tool_call.fields.title,
                            "answer": answer, "by": by }
        }));
    }
    fn note(&mut self, text: &str) {
        self.asking.note(text);
    }
    fn end(&mut self, result: &Result<String, ClientError>) {
        let value = match result {
            Ok(stop) => json!({ "stopReason": stop }),
            Err(ClientError::Interrupted) => json!({ "stopReason": "cancelled" }),
            Err(ClientError::Server { code, message, data, .. }) => {
                json!({ "error": { "code": code, "message": message, "data": data } })
            }
            Err(e) => json!({ "error": { "message": e.to_string() } }),
        };
        self.line(&value);
    }
    fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}
