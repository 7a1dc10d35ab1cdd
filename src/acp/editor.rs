//! The editor over the wire: shows updates, asks questions, reads and writes buffers.
use super::{quirks::Quirks, sizes, to_acp};
use crate::{
    agent::port::{self, Answer, CallChanged, CallOpened, Features, Question, TerminalChunk, Update},
    id::{CallId, MessageId, SessionId},
    log::{Exit, Severity, Shown, ToolKind},
    permit::Scope,
    workspace::{BufferError, Buffers},
};
use async_trait::async_trait;
use hermes_protocol::{Caps, Peer, PeerError, acp};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The deadline of `fs/*` requests.
const FS: Duration = Duration::from_secs(15);

/// One session's view of the client.
pub struct AcpEditor {
    peer: Peer,
    caps: Arc<Caps>,
    quirks: Quirks,
    /// Calls whose output the client shows in a terminal: a display terminal, or (`Some`) one of its own.
    terminals: Mutex<HashMap<CallId, Option<String>>>,
    /// Commands run in the client's own terminals, which are told as they start.
    runs_commands: bool,
    /// Sends what shows a session's choices in force; only the session layer knows them.
    settings: Box<dyn Fn() -> Vec<acp::SessionUpdate> + Send + Sync>,
}

impl AcpEditor {
    pub fn new(
        peer: Peer,
        quirks: Quirks,
        settings: impl Fn() -> Vec<acp::SessionUpdate> + Send + Sync + 'static,
    ) -> Self {
        let caps = peer.caps();
        AcpEditor {
            peer,
            caps,
            quirks,
            terminals: Mutex::default(),
            runs_commands: false,
            settings: Box::new(settings),
        }
    }

    /// Says whether the client itself runs this session's commands.
    #[must_use]
    pub fn running_commands(mut self, runs_commands: bool) -> Self {
        self.runs_commands = runs_commands;
        self
    }

    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    pub fn quirks(&self) -> Quirks {
        self.quirks
    }

    async fn send(&self, session: &SessionId, update: acp::SessionUpdate) {
        let notification = acp::SessionNotification::new(acp::SessionId::new(session.as_str()), update);
        match self.peer.update(&notification).await {
            Ok(_) | Err(PeerError::Closed(_)) => {}
            Err(PeerError::TooLarge { bytes, .. }) => {
                tracing::error!(bytes, "an update was too large and is sent without its content");
                if let Some(update) = without_content(notification.update) {
                    let notification = acp::SessionNotification::new(notification.session_id, update);
                    _ = self.peer.update(&notification).await;
                }
            }
            Err(e) => tracing::error!("an update was not sent: {e}"),
        }
    }

    async fn message(
        &self,
        session: &SessionId,
        id: &MessageId,
        text: &str,
        wrap: fn(acp::ContentChunk) -> acp::SessionUpdate,
    ) {
        for piece in sizes::chunks(text) {
            self.send(session, wrap(to_acp::chunk(id, to_acp::text(piece)))).await;
        }
    }

    /// The terminal of a call, if it has one, and whether it is a display terminal.
    fn terminal_of(&self, call: &CallId) -> Option<(String, bool)> {
        let terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
        let own = terminals.get(call)?;
        Some(own.clone().map_or_else(|| (crate::agent::terminal_id(call), true), |id| (id, false)))
    }

    async fn open_call(&self, session: &SessionId, call: &CallOpened) {
        let ended = matches!(call.status, port::CallStatus::Completed | port::CallStatus::Failed);
        let ran = call.card.shown.iter().find_map(|s| match s {
            Shown::Terminal { output, exit, cwd, .. } => Some((output, exit, cwd)),
            _ => None,
        });
        let display = self.caps.terminal_output
            && call.card.kind == ToolKind::Execute
            && if ended { ran.is_some() } else { !self.runs_commands };
        if !display {
            return self.send(session, acp::SessionUpdate::ToolCall(to_acp::opened(call, None))).await;
        }
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner).insert(call.id.clone(), None);
        let id = crate::agent::terminal_id(&call.id);
        let cwd = ran.and_then(|(_, _, cwd)| cwd.as_deref());
        let info = to_acp::meta("terminal_info", info_meta(&id, cwd));
        let opened = to_acp::opened(call, Some(&id)).meta(info);
        self.send(session, acp::SessionUpdate::ToolCall(opened)).await;
        if let Some((output, exit, _)) = ran {
            let mut meta =
                to_acp::meta("terminal_output", json!({"terminal_id": id, "data": sizes::text(output)}));
            meta.insert("terminal_exit".into(), exit_meta(&id, exit.as_ref()));
            let update =
                to_acp::changed(&CallChanged { id: call.id.clone(), ..Default::default() }, None).meta(meta);
            self.send(session, acp::SessionUpdate::ToolCallUpdate(update)).await;
        }
    }

    async fn change_call(&self, session: &SessionId, change: &CallChanged) {
        let ended = matches!(change.status, Some(port::CallStatus::Completed | port::CallStatus::Failed));
        let ran = change.shown.iter().flatten().any(|s| matches!(s, Shown::Terminal { .. }));
        // A command that never ran (rejected, cancelled) leaves no empty terminal behind.
        if let Some(own) = &change.attached {
            let mut terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
            terminals.insert(change.id.clone(), Some(own.clone()));
        }
        let terminal = self.terminal_of(&change.id).filter(|_| ran || !ended);
        let mut update = to_acp::changed(change, terminal.as_ref().map(|(id, _)| id.as_str()));
        // A terminal of the client's own is told nothing by us.
        let own = terminal.as_ref().is_some_and(|(_, display)| !display);
        let terminal = terminal.filter(|_| !own).map(|(id, _)| id);
        let mut meta = acp::Meta::new();
        match (&terminal, &change.terminal) {
            (Some(id), Some(chunk)) => {
                _ = meta.insert("terminal_output".into(), json!({"terminal_id": id, "data": chunk.data}));
            }
            (None, Some(chunk)) if !own => update.fields.content = Some(vec![live_text(chunk).into()]),
            _ => {}
        }
        if let (Some(id), Some(shown)) = (&terminal, &change.shown) {
            // Content is replaced whole, so it names the terminal again, and what names one says what it is.
            meta.insert(
                "terminal_info".into(),
                info_meta(id, change.terminal.as_ref().and_then(|t| t.cwd.as_deref())),
            );
            if let Some(exit) = shown.iter().find_map(|s| match s {
                Shown::Terminal { exit, .. } => Some(exit.as_ref()),
                _ => None,
            }) {
                meta.insert("terminal_exit".into(), exit_meta(id, exit));
            }
        }
        if !meta.is_empty() {
            update = update.meta(meta);
        }
        self.send(session, acp::SessionUpdate::ToolCallUpdate(update)).await;
    }

    async fn notice(&self, session: &SessionId, id: &MessageId, severity: Severity, title: &str, text: &str) {
        if self.caps.notices {
            let notice = acp::Notice::new(to_acp::severity(severity), title)
                .description((!text.is_empty()).then(|| text.to_owned()));
            return self.send(session, acp::SessionUpdate::Notice(notice)).await;
        }
        let line = if text.is_empty() { format!("{title}\n") } else { format!("{title}: {text}\n") };
        self.message(session, id, &line, acp::SessionUpdate::AgentThoughtChunk).await;
    }
}

/// The output so far of a running command, for a client that only replaces content.
fn live_text(chunk: &TerminalChunk) -> acp::ContentBlock {
    to_acp::text(crate::agent::fence("", &chunk.so_far))
}

fn info_meta(id: &str, cwd: Option<&Path>) -> Value {
    match cwd {
        Some(cwd) => json!({"terminal_id": id, "cwd": cwd}),
        None => json!({"terminal_id": id}),
    }
}

fn exit_meta(id: &str, exit: Option<&Exit>) -> Value {
    let exit = exit.cloned().unwrap_or_default();
    json!({"terminal_id": id, "exit_code": exit.code, "signal": exit.signal})
}

/// What is left of an update that is too large in spite of all: its state.
fn without_content(update: acp::SessionUpdate) -> Option<acp::SessionUpdate> {
    const NOTE: &str = "[too large to be shown]";
    match update {
        acp::SessionUpdate::ToolCall(mut call) => {
            call.raw_input = None;
            call.content = vec![to_acp::text(NOTE).into()];
            Some(acp::SessionUpdate::ToolCall(call))
        }
        acp::SessionUpdate::ToolCallUpdate(mut call) => {
            call.fields.raw_input = None;
            call.fields.content = Some(vec![to_acp::text(NOTE).into()]);
            Some(acp::SessionUpdate::ToolCallUpdate(call))
        }
        _ => None,
    }
}

#[async_trait]
impl port::Editor for AcpEditor {
    async fn update(&self, session: &SessionId, update: Update) {
        match update {
            Update::Text { id, text } => {
                self.message(session, &id, &text, acp::SessionUpdate::AgentMessageChunk).await
            }
            Update::Thought { id, text } => {
                self.message(session, &id, &text, acp::SessionUpdate::AgentThoughtChunk).await;
            }
            Update::User { id, parts } => {
                for part in &parts {
                    let chunk = to_acp::chunk(&id, to_acp::part(part));
                    self.send(session, acp::SessionUpdate::UserMessageChunk(chunk)).await;
                }
            }
            Update::Call(call) => self.open_call(session, &call).await,
            Update::CallChanged(change) => self.change_call(session, &change).await,
            Update::Plan(items) => self.send(session, acp::SessionUpdate::Plan(to_acp::plan(&items))).await,
            Update::Settings => {
                for update in (self.settings)() {
                    self.send(session, update).await;
                }
            }
            Update::Title(title) => {
                let info = acp::SessionInfoUpdate::new()
                    .title(title)
                    .updated_at(crate::clock::Millis::now().rfc3339());
                self.send(session, acp::SessionUpdate::SessionInfoUpdate(info)).await;
            }
            Update::Usage { used, size, cost } if self.quirks.usage_update => {
                let cost = cost.map(|dollars| acp::Cost::new(dollars, "USD"));
                let update = acp::UsageUpdate::new(used, size).cost(cost);
                self.send(session, acp::SessionUpdate::UsageUpdate(update)).await;
            }
            Update::Usage { .. } => {}
            Update::Notice { id, severity, title, text } => {
                self.notice(session, &id, severity, &title, &text).await
            }
            Update::Compaction { id, status, text } if self.caps.compaction => {
                let update = to_acp::compaction(&id, status, text);
                self.send(session, acp::SessionUpdate::CompactionUpdate(update)).await;
            }
            // A client without it gets a notice, which is an entry of its own.
            Update::Compaction { .. } => {}
        }
    }

    async fn ask(&self, session: &SessionId, question: Question) -> Answer {
        let terminal = self.terminal_of(&question.call);
        let request = acp::RequestPermissionRequest::new(
            acp::SessionId::new(session.as_str()),
            to_acp::question(&question, terminal.as_ref().map(|(id, _)| id.as_str())),
            to_acp::options(&question),
        )
        .meta(to_acp::hunks(&question));
        let method = acp::CLIENT_METHOD_NAMES.session_request_permission;
        // No deadline: a person may think. A cancel drops this future, which withdraws the question.
        match self.peer.request::<acp::RequestPermissionResponse>(method, &request, None).await {
            Ok(response) => answer(&question, response),
            Err(PeerError::Closed(_)) => Answer::Gone,
            Err(e) => Answer::Failed(e.to_string()),
        }
    }

    fn features(&self) -> Features {
        Features {
            hunk_review: self.caps.hunk_review,
            compaction: self.caps.compaction,
            notices: self.caps.notices,
            usage: self.quirks.usage_update,
        }
    }
}

/// An answer counts only if it names an option that was offered.
fn answer(question: &Question, response: acp::RequestPermissionResponse) -> Answer {
    let ours = response.meta.as_ref().and_then(|m| m.get("hermes-editor"));
    let comment = ours.and_then(|o| o.get("comment")).and_then(Value::as_str).map(str::to_owned);
    // What is no list accepts nothing, rather than everything.
    let hunks = ours.and_then(|o| o.get("acceptedHunks")).filter(|ids| !ids.is_null()).map(|ids| {
        let ids = ids.as_array().map(Vec::as_slice).unwrap_or_default();
        ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect::<Vec<_>>()
    });
    let selected = match response.outcome {
        acp::RequestPermissionOutcome::Selected(selected) => selected,
        _ => return Answer::Gone,
    };
    match question.options.iter().find(|o| o.id == &*selected.option_id.0) {
        Some(choice) if choice.allow => {
            let hunks = hunks.filter(|_| !question.hunks.is_empty());
            let scope = if hunks.is_some() { Scope::Once } else { choice.scope };
            Answer::Yes { scope, hunks, comment }
        }
        Some(_) => Answer::No { comment },
        None => {
            tracing::warn!(
                "a permission was answered with an option that was not offered: it counts as a no"
            );
            Answer::Failed(format!(
                "the editor answered with an option that was not offered (a fault of the editor's){}",
                comment.map(|c| format!("; the user says: {c}")).unwrap_or_default()
            ))
        }
    }
}

/// Files through the client.
pub struct AcpBuffers {
    peer: Peer,
    session: SessionId,
    caps: Arc<Caps>,
}

impl AcpBuffers {
    pub fn new(peer: Peer, session: SessionId) -> Self {
        let caps = peer.caps();
        AcpBuffers { peer, session, caps }
    }

    fn session(&self) -> acp::SessionId {
        acp::SessionId::new(self.session.as_str())
    }
}

#[async_trait]
impl Buffers for AcpBuffers {
    fn can_read(&self) -> bool {
        self.caps.fs_read
    }
    fn can_write(&self) -> bool {
        self.caps.fs_write
    }
    /// Whole files only: clients count the `line` of a partial read from different bases.
    async fn read(&self, path: &Path) -> Result<String, BufferError> {
        let request = acp::ReadTextFileRequest::new(self.session(), path);
        let method = acp::CLIENT_METHOD_NAMES.fs_read_text_file;
        let response: acp::ReadTextFileResponse =
            self.peer.request(method, &request, Some(FS)).await.map_err(buffer_error)?;
        Ok(response.content)
    }
    async fn write(&self, path: &Path, text: &str) -> Result<(), BufferError> {
        let request = acp::WriteTextFileRequest::new(self.session(), path, text);
        let method = acp::CLIENT_METHOD_NAMES.fs_write_text_file;
        let _: Value = self.peer.request(method, &request, Some(FS)).await.map_err(buffer_error)?;
        Ok(())
    }
}

fn buffer_error(error: PeerError) -> BufferError {
    match error {
        PeerError::Rpc(e) if e.code == acp::ErrorCode::ResourceNotFound => BufferError::NotFound,
        PeerError::Timeout { sent: true, .. } => BufferError::Timeout,
        e => BufferError::Failed(e.to_string()),
    }
}
