//! What this client can do: the one gate for everything that needs an advertised capability (I8).

use crate::acp::{self, SessionUpdate, ToolCallContent};

/// A client's capabilities, read once from its `initialize`. All are off until then, and for a client that speaks only
/// ACP v2's form of `initialize`.
///
/// Each field names the capability it stands for; `_meta` ones are conventions outside the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caps {
    /// `fs.readTextFile`
    pub fs_read: bool,
    /// `fs.writeTextFile`
    pub fs_write: bool,
    /// `terminal`: the client runs commands for us.
    pub terminal: bool,
    /// `_meta.terminal_output`: the client shows commands that we run.
    pub terminal_output: bool,
    /// `auth.terminal`, or the older `_meta["terminal-auth"]`: a login may be offered as a command in a terminal.
    pub terminal_auth: bool,
    /// `_meta["terminal-auth"]`: that login's command must also stand in the method's `_meta["terminal-auth"]`.
    pub terminal_auth_meta: bool,
    /// `elicitation.form`
    pub elicit_form: bool,
    /// `elicitation.url`
    pub elicit_url: bool,
    /// `session.notices`
    pub notices: bool,
    /// `session.compaction`
    pub compaction: bool,
    /// `session.configOptions.boolean`: options may be switches instead of lists.
    pub boolean_options: bool,
    /// `plan`: `plan_update` and `plan_removed` (a whole `plan` needs nothing).
    pub plan: bool,
    /// `subagents`
    pub subagents: bool,
    /// `_meta["hermes-editor"].hunkReview`: single hunks of an edit may be accepted.
    pub hunk_review: bool,
    /// `clientInfo`, empty if the client gave none.
    pub client: Client,
}

/// Who the client says it is. Never identifies a person; decides only the quirks of an editor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// `clientInfo.name`
    pub name: String,
    /// `clientInfo.version`
    pub version: String,
}

impl Caps {
    /// Reads an `initialize`. Whatever is absent, null or malformed counts as not advertised.
    pub fn of(request: &acp::InitializeRequest) -> Caps {
        let c = &request.client_capabilities;
        let meta = |key: &str| c.meta.as_ref().and_then(|m| m.get(key));
        let on = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_bool) == Some(true);
        let session = c.session.as_ref();
        let terminal_auth_meta = on(meta("terminal-auth"));
        Caps {
            fs_read: c.fs.read_text_file,
            fs_write: c.fs.write_text_file,
            terminal: c.terminal,
            terminal_output: on(meta("terminal_output")),
            terminal_auth: c.auth.terminal || terminal_auth_meta,
            terminal_auth_meta,
            elicit_form: c.elicitation.as_ref().is_some_and(|e| e.form.is_some()),
            elicit_url: c.elicitation.as_ref().is_some_and(|e| e.url.is_some()),
            notices: session.is_some_and(|s| s.notices.is_some()),
            compaction: session.is_some_and(|s| s.compaction.is_some()),
            boolean_options: session
                .and_then(|s| s.config_options.as_ref())
                .is_some_and(|o| o.boolean.is_some()),
            plan: c.plan.is_some(),
            subagents: c.subagents.is_some(),
            hunk_review: on(meta("hermes-editor").and_then(|h| h.get("hunkReview"))),
            client: request.client_info.as_ref().map_or_else(Client::default, |info| Client {
                name: info.name.clone(),
                version: info.version.clone(),
            }),
        }
    }

    /// Whether a method may be sent to this client. Extensions (`_…`) are gated by whoever sends them.
    pub fn offers(&self, method: &str) -> bool {
        let names = acp::CLIENT_METHOD_NAMES;
        match method {
            m if m == names.session_update || m == names.session_request_permission => true,
            m if m == names.fs_read_text_file => self.fs_read,
            m if m == names.fs_write_text_file => self.fs_write,
            m if m.starts_with("terminal/") => self.terminal,
            m if m == names.elicitation_create => self.elicit_form || self.elicit_url,
            m if m == names.elicitation_complete => self.elicit_url,
            m => m.starts_with('_') || m.starts_with("$/"),
        }
    }

    /// Whether an update may be sent to this client. A kind this crate does not know is not.
    pub fn permits(&self, update: &SessionUpdate) -> bool {
        match update {
            SessionUpdate::UserMessageChunk(_)
            | SessionUpdate::AgentMessageChunk(_)
            | SessionUpdate::AgentThoughtChunk(_)
            | SessionUpdate::Plan(_)
            | SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::CurrentModeUpdate(_)
            | SessionUpdate::SessionInfoUpdate(_)
            | SessionUpdate::UsageUpdate(_) => true,
            SessionUpdate::ToolCall(call) => call.content.iter().all(|c| self.shows(c)),
            SessionUpdate::ToolCallUpdate(call) => {
                call.fields.content.iter().flatten().all(|c| self.shows(c))
            }
            SessionUpdate::ConfigOptionUpdate(update) => update.config_options.iter().all(|o| self.takes(o)),
            SessionUpdate::PlanUpdate(_) | SessionUpdate::PlanRemoved(_) => self.plan,
            SessionUpdate::Notice(_) => self.notices,
            SessionUpdate::CompactionUpdate(_) | SessionUpdate::CompactionSummaryChunk(_) => self.compaction,
            SessionUpdate::SubagentUpdate(_)
            | SessionUpdate::SessionMessage(_)
            | SessionUpdate::SessionMessageChunk(_) => self.subagents,
            _ => false,
        }
    }

    /// Whether a piece of tool call content can be shown by this client.
    pub fn shows(&self, content: &ToolCallContent) -> bool {
        match content {
            ToolCallContent::Content(_) | ToolCallContent::Diff(_) => true,
            ToolCallContent::Terminal(_) => self.terminal || self.terminal_output,
            ToolCallContent::Session(_) => self.subagents,
            _ => false,
        }
    }

    /// Whether a config option can be shown by this client.
    pub fn takes(&self, option: &acp::SessionConfigOption) -> bool {
        match option.kind {
            acp::SessionConfigKind::Select(_) => true,
            acp::SessionConfigKind::Boolean(_) => self.boolean_options,
            _ => false,
        }
    }
}
