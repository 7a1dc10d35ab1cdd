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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(params: Value) -> Caps {
        Caps::of(&serde_json::from_value(params).unwrap())
    }

    fn with(capabilities: Value) -> Caps {
        of(json!({"protocolVersion": 1, "clientCapabilities": capabilities}))
    }

    #[test]
    fn each_capability_stands_for_itself() {
        let off = Caps::default;
        let table = [
            (json!({}), off()),
            (json!({"fs": {"readTextFile": true}}), Caps { fs_read: true, ..off() }),
            (json!({"fs": {"writeTextFile": true}}), Caps { fs_write: true, ..off() }),
            (json!({"terminal": true}), Caps { terminal: true, ..off() }),
            (json!({"auth": {"terminal": true}}), Caps { terminal_auth: true, ..off() }),
            (json!({"elicitation": {}}), off()),
            (json!({"elicitation": {"form": {}}}), Caps { elicit_form: true, ..off() }),
            (json!({"elicitation": {"url": {}}}), Caps { elicit_url: true, ..off() }),
            (json!({"session": {"notices": {}}}), Caps { notices: true, ..off() }),
            (json!({"session": {"compaction": {}}}), Caps { compaction: true, ..off() }),
            (json!({"session": {"configOptions": {}}}), off()),
            (json!({"session": {"configOptions": {"boolean": {}}}}), Caps { boolean_options: true, ..off() }),
            (json!({"plan": {}}), Caps { plan: true, ..off() }),
            (json!({"plan": null, "subagents": null, "session": null}), off()),
            (json!({"subagents": {}}), Caps { subagents: true, ..off() }),
            (json!({"_meta": {"terminal_output": true}}), Caps { terminal_output: true, ..off() }),
            (
                json!({"_meta": {"terminal-auth": true}}),
                Caps { terminal_auth: true, terminal_auth_meta: true, ..off() },
            ),
            (json!({"_meta": {"hermes-editor": {"hunkReview": true}}}), Caps { hunk_review: true, ..off() }),
            // Malformed is absent.
            (json!({"fs": 7, "terminal": "yes", "plan": 3, "_meta": {"terminal_output": "true"}}), off()),
        ];
        for (capabilities, expected) in table {
            assert_eq!(with(capabilities.clone()), expected, "{capabilities}");
        }
    }

    #[test]
    fn the_v2_form_of_initialize_advertises_nothing() {
        let v2 = json!({"protocolVersion": 2, "info": {"name": "x", "version": "1"},
            "capabilities": {"fs": {"readTextFile": true}, "terminal": true, "session": {"notices": {}}}});
        assert_eq!(of(v2), Caps::default());
    }

    #[test]
    fn the_client_is_known_by_name_and_version() {
        let caps = of(json!({"protocolVersion": 1, "clientInfo": {"name": "zed", "version": "1.2"}}));
        assert_eq!(caps.client, Client { name: "zed".into(), version: "1.2".into() });
    }

    #[test]
    fn every_client_method_is_gated() {
        let all = Caps {
            fs_read: true,
            fs_write: true,
            terminal: true,
            elicit_form: true,
            elicit_url: true,
            ..Caps::default()
        };
        // Serialised, the names of the schema are all there are: a new one fails here until it has a gate.
        let names = serde_json::to_value(acp::CLIENT_METHOD_NAMES).unwrap();
        for name in names.as_object().unwrap().values().map(|v| v.as_str().unwrap()) {
            let free = ["session/update", "session/request_permission"].contains(&name);
            assert!(all.offers(name), "{name} has no gate");
            assert_eq!(Caps::default().offers(name), free, "{name}");
        }
        assert!(Caps::default().offers("_hermes/x") && Caps::default().offers("$/cancel_request"));
        assert!(!all.offers("auth/status_update"));
    }

    #[test]
    fn updates_and_what_is_in_them_are_gated() {
        let update = |v: Value| serde_json::from_value::<SessionUpdate>(v).unwrap();
        let text = json!({"type": "text", "text": "x"});
        let off = Caps::default;
        let chunk = |kind: &str| json!({"sessionUpdate": kind, "content": text});
        let tool = |content: Value| json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "content": [content]});
        let change = |content: Value| json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [content]});
        let option = |kind: Value| {
            let mut option = json!({"id": "o", "name": "o"});
            option.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
            json!({"sessionUpdate": "config_option_update", "configOptions": [option]})
        };
        let free = [
            chunk("user_message_chunk"),
            chunk("agent_message_chunk"),
            chunk("agent_thought_chunk"),
            json!({"sessionUpdate": "plan", "entries": []}),
            json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
            json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
            json!({"sessionUpdate": "session_info_update", "title": "t"}),
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
            tool(json!({"type": "content", "content": text})),
            change(json!({"type": "diff", "path": "/x", "newText": ""})),
            option(json!({"type": "select", "currentValue": "a", "options": [{"value": "a", "name": "a"}]})),
        ];
        for v in free {
            assert!(off().permits(&update(v.clone())), "{v}");
        }
        let gated = [
            (
                json!({"sessionUpdate": "notice", "severity": "info", "title": "t"}),
                Caps { notices: true, ..off() },
            ),
            (
                json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}),
                Caps { compaction: true, ..off() },
            ),
            (
                json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text}),
                Caps { compaction: true, ..off() },
            ),
            (json!({"sessionUpdate": "plan_removed", "planId": "p"}), Caps { plan: true, ..off() }),
            (
                json!({"sessionUpdate": "subagent_update", "sessionId": "c"}),
                Caps { subagents: true, ..off() },
            ),
            (tool(json!({"type": "session", "sessionId": "c"})), Caps { subagents: true, ..off() }),
            (tool(json!({"type": "terminal", "terminalId": "c"})), Caps { terminal: true, ..off() }),
            (change(json!({"type": "terminal", "terminalId": "c"})), Caps { terminal_output: true, ..off() }),
            (
                option(json!({"type": "boolean", "currentValue": true})),
                Caps { boolean_options: true, ..off() },
            ),
        ];
        for (v, caps) in gated {
            assert!(!off().permits(&update(v.clone())), "{v}");
            assert!(caps.permits(&update(v.clone())), "{v}");
        }
    }
}
