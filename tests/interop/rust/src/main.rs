//! The story of ../README.md, told by the Rust SDK as an editor would use it. Its types refuse what is malformed, and the
//! connection ends at an update that they do not know.
mod view;

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, Error, schema::ProtocolVersion, v1::ConnectionTo,
};
use agent_client_protocol::{on_receive_notification, on_receive_request, v1::schema::*};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use view::{View, check, diffs, equal, text};

const DISK: &str = "hello world\n";
const BUFFER: &str = "hello unsaved world\n";

/// How questions are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    Allow,
    Reject,
    Cancel,
}

/// An editor's state, shared with the callbacks of its connection.
struct State {
    view: View,
    buffers: HashMap<PathBuf, String>,
    called: HashSet<&'static str>,
    questions: Vec<Value>,
    reply: Reply,
    /// Cancels the turn when it gives true.
    cancel_when: fn(&Value) -> bool,
}

#[derive(Clone)]
struct Editor {
    workspace: PathBuf,
    home: PathBuf,
    fs: bool,
    terminal: bool,
    state: Arc<Mutex<State>>,
}

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).expect("the SDK's types are JSON")
}

fn failed(e: std::io::Error) -> Error {
    Error::internal_error().data(e.to_string())
}

impl Editor {
    fn new(base: &Path, fs: bool, terminal: bool) -> Self {
        let state = State {
            view: View::default(),
            buffers: HashMap::new(),
            called: HashSet::new(),
            questions: vec![],
            reply: Reply::Allow,
            cancel_when: |_| false,
        };
        let state = Arc::new(Mutex::new(state));
        Editor { workspace: base.join("workspace"), home: base.join("home"), fs, terminal, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no callback panics")
    }

    fn read(&self, request: &ReadTextFileRequest) -> Result<ReadTextFileResponse, Error> {
        let mut state = self.state();
        state.called.insert("read");
        check("whole files are read", request.line.is_none() && request.limit.is_none(), request);
        let text = match state.buffers.get(&request.path) {
            Some(text) => text.clone(),
            None => fs::read_to_string(&request.path).map_err(failed)?,
        };
        Ok(ReadTextFileResponse::new(text))
    }

    fn write(&self, request: WriteTextFileRequest) -> Result<WriteTextFileResponse, Error> {
        let mut state = self.state();
        state.called.insert("write");
        fs::write(&request.path, &request.content).map_err(failed)?;
        state.buffers.insert(request.path, request.content);
        Ok(WriteTextFileResponse::new())
    }

    /// The answer to a question, and whether the turn is cancelled instead.
    fn ask(&self, request: &RequestPermissionRequest) -> (RequestPermissionOutcome, bool) {
        let mut state = self.state();
        state.questions.push(value(request));
        let kind = match state.reply {
            Reply::Allow => PermissionOptionKind::AllowOnce,
            Reply::Reject => PermissionOptionKind::RejectOnce,
            Reply::Cancel => return (RequestPermissionOutcome::Cancelled, true),
        };
        let option = request.options.iter().find(|o| o.kind == kind).expect("that option is offered");
        let selected = SelectedPermissionOutcome::new(option.option_id.clone());
        (RequestPermissionOutcome::Selected(selected), false)
    }

    /// Starts an agent, and tells a story with it.
    async fn run(
        &self,
        story: impl AsyncFnOnce(ConnectionTo<Agent>, InitializeResponse) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let program = std::env::var_os("HERMES_EDITOR_BIN").expect("HERMES_EDITOR_BIN is set");
        let config = AcpAgentConfig::new(program).env("HERMES_EDITOR_HOME", self.home.to_string_lossy());
        let (shows, asks, reads, writes, runs) =
            (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        let files = FileSystemCapabilities::new().read_text_file(self.fs).write_text_file(self.fs);
        let caps = ClientCapabilities::new().fs(files).terminal(self.terminal);
        Client
            .v1()
            .name("interop-rust")
            .on_receive_notification(
                async move |notification: SessionNotification, agent: ConnectionTo<Agent>| {
                    let update = value(&notification.update);
                    let mut state = shows.state();
                    state.view.apply(&update);
                    if (state.cancel_when)(&update) {
                        agent.send_notification(CancelNotification::new(notification.session_id))?;
                    }
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest, responder, agent: ConnectionTo<Agent>| {
                    let (outcome, cancels) = asks.ask(&request);
                    if cancels {
                        agent.send_notification(CancelNotification::new(request.session_id))?;
                    }
                    responder.respond(RequestPermissionResponse::new(outcome))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: ReadTextFileRequest, responder, _| {
                    responder.respond_with_result(reads.read(&request))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: WriteTextFileRequest, responder, _| {
                    responder.respond_with_result(writes.write(request))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |_: CreateTerminalRequest, responder, _| {
                    runs.state().called.insert("terminal");
                    responder.respond_with_error(Error::internal_error())
                },
                on_receive_request!(),
            )
            .connect_with(AcpAgent::new(config), async |agent: ConnectionTo<Agent>| {
                let hello = InitializeRequest::new(ProtocolVersion::V1)
                    .client_capabilities(caps)
                    .client_info(Implementation::new("interop-rust", "1"));
                let hello = agent.send_request(hello).block_task().await?;
                story(agent, hello).await
            })
            .await
    }

    async fn prompt(
        &self,
        agent: &ConnectionTo<Agent>,
        id: &SessionId,
        text: &str,
    ) -> Result<StopReason, Error> {
        {
            let mut state = self.state();
            state.view.user(text);
            state.called.clear();
            state.questions.clear();
        }
        let content = vec![ContentBlock::Text(TextContent::new(text))];
        let response = agent.send_request(PromptRequest::new(id.clone(), content)).block_task().await?;
        Ok(response.stop_reason)
    }
}

/// A turn with plan, read, edit and command, each question answered the same.
async fn change(
    editor: &Editor,
    agent: &ConnectionTo<Agent>,
    id: &SessionId,
    reply: Reply,
) -> Result<(), Error> {
    let allow = reply == Reply::Allow;
    let (file, ran) = (editor.workspace.join("greeting.txt"), editor.workspace.join("ran.txt"));
    fs::write(&file, DISK).map_err(failed)?;
    _ = fs::remove_file(&ran);
    let before = {
        let mut state = editor.state();
        state.buffers.insert(file.clone(), BUFFER.into());
        state.reply = reply;
        state.view.calls().len()
    };
    let stop = editor.prompt(agent, id, "change the greeting").await?;
    let what = |text: &str| format!("{reply:?}: {text}");
    equal(&what("stop reason"), stop, StopReason::EndTurn);

    let old = if editor.fs { BUFFER } else { DISK };
    let changed = old.replace("hello", "goodbye");
    let diff = vec![json!({"type": "diff", "path": file, "oldText": old, "newText": changed})];
    let state = editor.state();
    let calls = state.view.calls().split_off(before);
    let kinds: Vec<_> = calls.iter().map(|c| c["kind"].as_str().unwrap_or_default()).collect();
    equal(&what("cards"), kinds.clone(), vec!["think", "read", "edit", "execute"]);
    equal(&what("two questions"), state.questions.len(), 2);
    let ([_, _, edit, command], [first, second]) = (&calls[..], &state.questions[..]) else { return Ok(()) };
    equal(&what("the question is about the card"), &first["toolCall"]["toolCallId"], &edit["call"]);
    equal(&what("the question shows the diff"), diffs(&first["toolCall"]["content"]), diff.clone());
    equal(&what("the card shows the diff"), diffs(&edit["content"]), diff);
    equal(&what("the second question"), &second["toolCall"]["toolCallId"], &command["call"]);
    let shown = second["toolCall"]["rawInput"]["command"].as_str().unwrap_or_default();
    check(&what("it shows the command"), shown.contains("command-output"), second);
    for question in &state.questions {
        let options = question["options"].to_string();
        check(&what("options"), options.contains("allow_once") && options.contains("reject_once"), &options);
    }
    let end = if allow { "completed" } else { "failed" };
    let states: Vec<_> = calls.iter().map(|c| c["status"].as_str().unwrap_or_default()).collect();
    equal(&what("states"), states, vec!["completed", "completed", end, end]);
    check(&what("pending first"), calls.iter().all(|c| c["seen"][0] == "pending"), &calls);
    equal(&what("location"), &edit["locations"][0]["path"], &json!(file));
    let output = text(&command["content"]).contains(&format!("{changed}command-output"));
    equal(&what("output is shown"), output, allow);
    let plan: Vec<_> =
        state.view.plan.as_array().into_iter().flatten().map(|e| e["status"].clone()).collect();
    equal(&what("plan"), plan, vec![json!("in_progress"), json!("pending")]);

    equal(
        &what("disk"),
        fs::read_to_string(&file).map_err(failed)?,
        if allow { changed.clone() } else { DISK.into() },
    );
    let buffer = if allow && editor.fs { &changed } else { BUFFER };
    equal(&what("buffer"), state.buffers[&file].as_str(), buffer);
    equal(&what("command ran"), ran.exists(), allow);
    let did = if allow { "edit done, command goodbye." } else { "edit rejected, command rejected." };
    let read = if editor.fs { "unsaved" } else { "saved" };
    equal(&what("last word"), state.view.last_word(), format!("read {read}, {did} Grüße 👋"));
    equal(&what("reads through the editor"), state.called.contains("read"), editor.fs);
    equal(&what("writes through the editor"), state.called.contains("write"), editor.fs && allow);
    check(&what("no client terminal"), !state.called.contains("terminal"), ());
    Ok(())
}

async fn cancels(editor: &Editor, agent: &ConnectionTo<Agent>, id: &SessionId) -> Result<(), Error> {
    let last = || editor.state().view.calls().last().map(|c| c["status"].clone());
    editor.state().cancel_when = |u| {
        u["sessionUpdate"] == "agent_message_chunk"
            && u["content"]["text"].as_str().is_some_and(|t| t.contains("First"))
    };
    equal("cancel in a stream", editor.prompt(agent, id, "wait for it").await?, StopReason::Cancelled);
    editor.state().cancel_when = |_| false;
    editor.state().reply = Reply::Cancel;
    equal(
        "cancel in a question",
        editor.prompt(agent, id, "sleep in a question").await?,
        StopReason::Cancelled,
    );
    check("nothing ran", !editor.workspace.join("slept.txt").exists(), ());
    equal("its card", last(), Some(json!("failed")));
    editor.state().reply = Reply::Allow;
    editor.state().cancel_when = |u| u["sessionUpdate"] == "tool_call_update" && u["status"] == "in_progress";
    let start = Instant::now();
    equal(
        "cancel in a command",
        editor.prompt(agent, id, "sleep in a command").await?,
        StopReason::Cancelled,
    );
    check("in time", start.elapsed() < Duration::from_secs(20), start.elapsed());
    equal("its card", last(), Some(json!("failed")));
    editor.state().cancel_when = |_| false;
    Ok(())
}

async fn first(
    editor: &Editor,
    agent: ConnectionTo<Agent>,
    hello: InitializeResponse,
) -> Result<SessionId, Error> {
    equal("protocol version", hello.protocol_version, ProtocolVersion::V1);
    equal("agent", hello.agent_info.map(|i| i.name), Some("hermes-editor".into()));
    check("load", hello.agent_capabilities.load_session, ());
    let made = agent.send_request(NewSessionRequest::new(&editor.workspace)).block_task().await?;
    let id = made.session_id;
    equal("mode", made.modes.map(|m| m.current_mode_id), Some(SessionModeId::new("ask")));
    equal("options", ids(&value(&made.config_options)), vec!["mode".into(), "model".into()]);
    change(editor, &agent, &id, Reply::Allow).await?;
    change(editor, &agent, &id, Reply::Reject).await?;
    cancels(editor, &agent, &id).await?;
    let kinds = editor.state().view.kinds.clone();
    check("commands were announced", kinds.contains("available_commands_update"), kinds);
    Ok(id)
}

fn ids(options: &Value) -> Vec<String> {
    options.as_array().into_iter().flatten().filter_map(|o| o["id"].as_str().map(str::to_owned)).collect()
}

/// In a new process.
async fn second(
    editor: &Editor,
    agent: ConnectionTo<Agent>,
    id: SessionId,
    live: Value,
) -> Result<(), Error> {
    let cwd = &editor.workspace;
    let list = || agent.send_request(ListSessionsRequest::new().cwd(cwd.clone())).block_task();
    let listed: Vec<_> = list().await?.sessions.into_iter().map(|s| (s.session_id, s.title)).collect();
    equal("list", listed, vec![(id.clone(), Some("change the greeting".into()))]);
    agent.send_request(LoadSessionRequest::new(id.clone(), cwd)).block_task().await?;
    equal("load shows what was shown live", editor.state().view.canonical(), live);
    agent.send_request(CloseSessionRequest::new(id.clone())).block_task().await?;
    let size = editor.state().view.entries.len();
    agent.send_request(ResumeSessionRequest::new(id.clone(), cwd)).block_task().await?;
    equal("resume shows nothing again", editor.state().view.entries.len(), size);

    agent.send_request(SetSessionModeRequest::new(id.clone(), "accept-edits")).block_task().await?;
    let plan = SetSessionConfigOptionRequest::new(id.clone(), "mode", "plan");
    let options = value(&agent.send_request(plan).block_task().await?.config_options);
    equal("all options are told", ids(&options), vec!["mode".into(), "model".into()]);
    equal("mode option", options[0]["currentValue"].clone(), json!("plan"));
    equal("a turn goes on", editor.prompt(&agent, &id, "hi there").await?, StopReason::EndTurn);
    equal("its text", editor.state().view.last_word(), "Nothing to do.".into());
    let kinds = editor.state().view.kinds.clone();
    let told = kinds.contains("config_option_update") && kinds.contains("current_mode_update");
    check("modes and options are in step", told, kinds);
    agent.send_request(CloseSessionRequest::new(id.clone())).block_task().await?;
    agent.send_request(DeleteSessionRequest::new(id.clone())).block_task().await?;
    equal("deleted", list().await?.sessions.len(), 0);
    let gone = agent.send_request(LoadSessionRequest::new(id, cwd)).block_task().await;
    equal(
        "a deleted session is unknown",
        gone.err().map(|e| e.code),
        Some(agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND),
    );
    Ok(())
}

async fn story(base: &Path, fs: bool, terminal: bool) -> Result<(), Error> {
    let one = Editor::new(base, fs, terminal);
    fs::create_dir(&one.workspace).map_err(failed)?;
    let mut id = SessionId::new("");
    one.run(async |agent, hello| {
        id = first(&one, agent, hello).await?;
        Ok(())
    })
    .await?;
    let live = one.state().view.canonical();
    let two = Editor::new(base, fs, terminal);
    two.run(async |agent, _| second(&two, agent, id.clone(), live).await).await
}

fn main() {
    for on in [true, false] {
        println!("rust sdk, fs {on}, terminal {on}");
        let folder = tempfile::tempdir().expect("a folder for the workspace");
        let base = folder.path().canonicalize().expect("it exists");
        let end = futures::executor::block_on(story(&base, on, on));
        check("the story goes to its end", end.is_ok(), end);
    }
    let (passed, failed) = view::counts();
    println!("rust sdk: {passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0 || passed == 0));
}
