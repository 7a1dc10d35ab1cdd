//! A terminal client of the Agent Client Protocol, for `exec` and `demo`.
//!
//! It starts the server as an editor does, a child process with a pipe at each end, and knows nothing of its inside:
//! what works here works in an editor. Being a client, it names ACP types, as `acp/` and `protocol/` do.
mod connection;
mod diff;
mod person;
mod render;
mod server;
mod show;
mod style;
#[cfg(test)]
mod tests;
mod text;

pub use person::{Answers, Person};
pub use render::View;
pub use server::{Launch, run};
pub use show::{JsonLines, Show};
pub use style::Style;
pub use text::visible;

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, SessionUpdate,
};
use connection::{Connection, Incoming, RpcError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{io, path::PathBuf};
use tokio::io::{AsyncBufRead, AsyncWrite};

/// Why a run ended without a stop reason.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{what}: {message}")]
    Server { what: &'static str, code: i64, message: String, data: Option<Value> },
    #[error("the server ended before it answered{0}")]
    Closed(String),
    #[error("{0}")]
    Protocol(String),
    #[error("the pipe to the server failed: {0}")]
    Pipe(io::Error),
    #[error("the server could not be started: {0}")]
    Start(io::Error),
    #[error("the output could not be written: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Choice(String),
    /// Ctrl-C where nothing was running, or a second one.
    #[error("cancelled")]
    Interrupted,
}

impl ClientError {
    /// What to do about it, in the server's own words.
    pub fn hint(&self) -> Option<&str> {
        match self {
            ClientError::Server { data: Some(data), .. } => data["hint"].as_str(),
            _ => None,
        }
    }
    fn rpc(what: &'static str, e: RpcError) -> Self {
        ClientError::Server { what, code: e.code, message: e.message, data: e.data }
    }
}

/// Choices that an error names.
const NAMED: usize = 20;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Task {
    /// Absolute: the session's folder.
    pub cwd: PathBuf,
    pub prompt: String,
    /// `provider/model`, as the session's `model` option has it.
    pub model: Option<String>,
    /// `ask`, `accept-edits`, `plan` or `full`.
    pub mode: Option<String>,
}

/// One session of one prompt.
pub struct Client<'a, R, W> {
    connection: Connection<R, W>,
    show: &'a mut dyn Show,
    person: Person,
    session: Option<String>,
    question: Option<Question>,
    /// Questions that came while one is open.
    waiting: std::collections::VecDeque<Question>,
    /// A line was asked for and has not come: a question withdrawn meanwhile leaves it to the next one.
    line_wanted: bool,
    prompting: bool,
    cancelled: bool,
}

struct Question {
    id: Value,
    request: RequestPermissionRequest,
}

impl<'a, R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Client<'a, R, W> {
    pub fn new(reader: R, writer: W, show: &'a mut dyn Show, person: Person) -> Self {
        Client {
            connection: Connection::new(reader, writer),
            show,
            person,
            session: None,
            question: None,
            waiting: std::collections::VecDeque::new(),
            line_wanted: false,
            prompting: false,
            cancelled: false,
        }
    }

    /// Opens a session, prompts it and shows all that comes; gives the stop reason.
    pub async fn task(&mut self, task: &Task) -> Result<String, ClientError> {
        let answer = self.call("initialize", initialize()).await?;
        if answer["protocolVersion"] != 1 {
            let text = format!("the server speaks protocol version {}, not 1", answer["protocolVersion"]);
            return Err(ClientError::Protocol(text));
        }
        let session = self.call("session/new", json!({ "cwd": task.cwd, "mcpServers": [] })).await?;
        let id = session["sessionId"].as_str().unwrap_or_default().to_owned();
        self.show.session(&id);
        self.session = Some(id.clone());
        for (category, value) in [("model", &task.model), ("mode", &task.mode)] {
            if let Some(value) = value {
                self.choose(&session, category, value).await?;
            }
        }
        self.prompting = true;
        let prompt = json!([{ "type": "text", "text": task.prompt }]);
        let end = self.call("session/prompt", json!({ "sessionId": id, "prompt": prompt })).await?;
        let stop = end["stopReason"].as_str();
        stop.map(str::to_owned)
            .ok_or_else(|| ClientError::Protocol("the answer to the prompt has no stopReason".to_owned()))
    }

    /// Sets the config option of that category; an unknown value is refused with the known ones.
    async fn choose(&mut self, session: &Value, category: &str, value: &str) -> Result<(), ClientError> {
        let options = session["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let option = options.iter().find(|o| o["category"] == category || o["id"] == category);
        let Some(option) = option else {
            return Err(ClientError::Choice(format!("the server offers no choice of {category}")));
        };
        let params = json!({ "sessionId": session["sessionId"], "configId": option["id"], "value": value });
        match self.call("session/set_config_option", params).await {
            Err(ClientError::Server { code: -32602, .. }) => {
                let known = values(&option["options"]);
                let more = known.len().saturating_sub(NAMED);
                let known = known[..known.len() - more].join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Err(ClientError::Choice(format!(
                    "{category} {value:?} is not known; there is: {known}{more}"
                )))
            }
            other => other.map(|_| ()),
        }
    }

    /// Sends a request and serves everything else until its response is here.
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, ClientError> {
        let id = self.connection.request(method, params).await?;
        loop {
            // The person first: a server that never stops talking must not drown a Ctrl-C.
            let happened = tokio::select! {
                biased;
                Some(()) = self.person.interrupts.recv() => Happened::Interrupt,
                Some(line) = self.person.lines.recv(), if self.question.is_some() => Happened::Line(line),
                incoming = self.connection.next() => Happened::Incoming(incoming?),
            };
            match happened {
                Happened::Incoming(Incoming::Response { id: of, result }) if of == id => {
                    return result.map_err(|e| ClientError::rpc(method, e));
                }
                Happened::Incoming(Incoming::Closed) => return Err(ClientError::Closed(String::new())),
                Happened::Incoming(incoming) => self.serve(incoming).await?,
                Happened::Interrupt => self.interrupt().await?,
                Happened::Line(line) => {
                    self.line_wanted = false;
                    self.line(line).await?;
                }
            }
            if let Some(e) = self.show.failure() {
                return Err(ClientError::Output(e));
            }
        }
    }

    async fn serve(&mut self, incoming: Incoming) -> Result<(), ClientError> {
        match incoming {
            Incoming::Notification { method, params } if method == "session/update" => {
                let raw = &params["update"];
                let update = SessionUpdate::deserialize(raw).ok();
                self.show.update(raw, update.as_ref());
                Ok(())
            }
            Incoming::Notification { method, params } if method == "$/cancel_request" => {
                self.withdraw(&params["requestId"]).await
            }
            Incoming::Request { id, method, params } if method == "session/request_permission" => {
                match RequestPermissionRequest::deserialize(params) {
                    Ok(request) => self.ask(Question { id, request }).await,
                    Err(e) => self.connection.refuse(&id, -32602, &e.to_string()).await,
                }
            }
            Incoming::Request { id, .. } => self.connection.refuse(&id, -32601, "Method not found").await,
            _ => Ok(()),
        }
    }

    async fn ask(&mut self, question: Question) -> Result<(), ClientError> {
        if self.cancelled {
            return self.connection.respond(&question.id, outcome(None)).await;
        }
        if self.question.is_some() {
            self.waiting.push_back(question);
            return Ok(());
        }
        self.show.question(&question.request);
        let find = |kind| question.request.options.iter().find(|o| o.kind == kind);
        match self.person.answers {
            Answers::Person => {
                self.show.options(&question.request);
                self.show.ask_line(&format!("Answer [1-{}]:", question.request.options.len()));
                self.want_line();
                self.question = Some(question);
                Ok(())
            }
            Answers::Yes => {
                let choice = find(PermissionOptionKind::AllowOnce).cloned();
                self.answer(&question, choice, "--yes").await
            }
            Answers::Nobody => {
                let choice = find(PermissionOptionKind::RejectOnce).cloned();
                self.answer(&question, choice, "no terminal to ask; --yes allows").await
            }
        }
    }

    async fn line(&mut self, line: Option<String>) -> Result<(), ClientError> {
        let Some(question) = self.question.take() else { return Ok(()) };
        let options = &question.request.options;
        let picked = match line.as_deref().map(str::trim) {
            None => options.iter().find(|o| o.kind == PermissionOptionKind::RejectOnce),
            Some(word) => match word.parse::<usize>() {
                Ok(n) => n.checked_sub(1).and_then(|n| options.get(n)),
                Err(_) => options.iter().find(|o| o.option_id.0.as_ref() == word),
            },
        };
        if picked.is_none() && line.is_some() {
            self.show.ask_line(&format!("A number from 1 to {}, please:", options.len()));
            self.want_line();
            self.question = Some(question);
            return Ok(());
        }
        let by = if line.is_none() { "the input ended" } else { "" };
        let picked = picked.cloned();
        self.answer(&question, picked, by).await?;
        self.ask_next().await
    }

    fn want_line(&mut self) {
        if !std::mem::replace(&mut self.line_wanted, true) {
            self.person.ask_for_line();
        }
    }

    async fn answer(
        &mut self,
        question: &Question,
        choice: Option<PermissionOption>,
        by: &str,
    ) -> Result<(), ClientError> {
        self.show.answered(&question.request, choice.as_ref(), by);
        self.connection.respond(&question.id, outcome(choice.as_ref())).await
    }

    /// The server takes a question back: it still gets its one answer.
    async fn withdraw(&mut self, id: &Value) -> Result<(), ClientError> {
        let waiting = self.waiting.len();
        self.waiting.retain(|q| q.id != *id);
        let open = self.question.take_if(|q| q.id == *id);
        if open.is_none() && waiting == self.waiting.len() {
            return Ok(()); // answered already
        }
        self.connection.refuse(id, -32800, "Request cancelled").await?;
        match open {
            Some(question) => {
                self.show.answered(&question.request, None, "by the server");
                self.ask_next().await
            }
            None => Ok(()),
        }
    }
    async fn ask_next(&mut self) -> Result<(), ClientError> {
        match self.waiting.pop_front() {
            Some(next) => self.ask(next).await,
            None => Ok(()),
        }
    }

    /// The first Ctrl-C of a turn cancels it; any other ends the client.
    async fn interrupt(&mut self) -> Result<(), ClientError> {
        if !self.prompting || self.cancelled {
            return Err(ClientError::Interrupted);
        }
        self.cancelled = true;
        self.show.note("cancelling … (Ctrl-C again leaves at once)");
        self.connection.notify("session/cancel", json!({ "sessionId": self.session })).await?;
        for question in self.question.take().into_iter().chain(std::mem::take(&mut self.waiting)) {
            self.answer(&question, None, "cancelled").await?;
        }
        Ok(())
    }
}

enum Happened {
    Incoming(Incoming),
    Interrupt,
    Line(Option<String>),
}

/// This client writes no files and runs no terminals for the server: both happen on the same disk anyway.
fn initialize() -> Value {
    json!({
        "protocolVersion": 1,
        "clientInfo": { "name": "hermes-editor-cli", "title": "Hermes in a terminal", "version": env!("CARGO_PKG_VERSION") },
        "clientCapabilities": {
            "fs": { "readTextFile": false, "writeTextFile": false },
            "terminal": false,
            "session": { "configOptions": { "boolean": {} }, "notices": {} },
            "_meta": { "terminal_output": true }
        }
    })
}

fn outcome(choice: Option<&PermissionOption>) -> Value {
    match choice {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option.option_id } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

/// The values of a select, grouped or not.
fn values(options: &Value) -> Vec<&str> {
    let list = options.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .flat_map(|o| match o["value"].as_str() {
            Some(value) => vec![value],
            None => values(&o["options"]),
        })
        .collect()
}
