//! `session/new`, `load`, `resume`, `list`, `close`, `delete`.
use super::{
    App,
    admit::{self, Place, Prompted},
    commands, config, editor, from_acp, terminals, unknown_session,
};
use crate::{
    agent::{
        hermes::{OpenError, Opened, Opening},
        port::{Editor, Update},
        session::{Folders, Instruction, Session},
        slot::Slot,
        usage, view,
    },
    id::{MessageId, SessionId},
    log::Severity,
    store::{LockError, Origin, SessionLock, StoreError},
    workspace::EditorSide,
};
use hermes_protocol::{Call, acp, invalid_params};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name that our own terminal client gives itself.
const TERMINAL: &str = "hermes-editor-cli";

pub fn new(
    app: &App,
    request: acp::NewSessionRequest,
    call: Call,
) -> Result<acp::NewSessionResponse, acp::Error> {
    let folders = folders(request.cwd, request.additional_directories)?;
    let instructions = instructions(request.system_prompt)?;
    let session = app.hermes.create(opening(folders, instructions, &call)).map_err(failed)?;
    session.set_unserved(names(&request.mcp_servers));
    commands::announce(app, &session, &call);
    config::refresh(app, &session, &call);
    let id = acp::SessionId::new(session.id.as_str());
    Ok(acp::NewSessionResponse::new(id)
        .modes(config::modes(&session.settings()))
        .config_options(config::options(&session)))
}

/// Replays the whole conversation, then answers (I6).
pub async fn load(
    app: &App,
    request: acp::LoadSessionRequest,
    call: Call,
) -> Result<acp::LoadSessionResponse, acp::Error> {
    let how = How {
        id: request.session_id,
        folders: folders(request.cwd, request.additional_directories),
        system_prompt: request.system_prompt,
        servers: names(&request.mcp_servers),
        replay: true,
    };
    let session = reopen(app, how, &call).await?;
    Ok(acp::LoadSessionResponse::new()
        .modes(config::modes(&session.settings()))
        .config_options(config::options(&session)))
}

/// As load, without the replay.
pub async fn resume(
    app: &App,
    request: acp::ResumeSessionRequest,
    call: Call,
) -> Result<acp::ResumeSessionResponse, acp::Error> {
    let how = How {
        id: request.session_id,
        folders: folders(request.cwd, request.additional_directories),
        system_prompt: request.system_prompt,
        servers: names(&request.mcp_servers),
        replay: false,
    };
    let session = reopen(app, how, &call).await?;
    Ok(acp::ResumeSessionResponse::new()
        .modes(config::modes(&session.settings()))
        .config_options(config::options(&session)))
}

struct How {
    id: acp::SessionId,
    folders: Result<Folders, acp::Error>,
    system_prompt: Option<acp::SystemPrompt>,
    servers: Vec<String>,
    replay: bool,
}

async fn reopen(app: &App, how: How, call: &Call) -> Result<Arc<Session>, acp::Error> {
    if let Some(Prompted(slot)) = call.take() {
        let session = join(how, &slot)?;
        commands::announce(app, &session, call);
        return Ok(session);
    }
    let place: Place = call.take().ok_or_else(acp::Error::internal_error)?;
    let id = SessionId::from(&*how.id.0);
    let (slot, turnstile) = place.wait().await;
    admit::until_answered(app, call, id.clone(), turnstile);
    let opened = match (how.folders, instructions(how.system_prompt)) {
        (Ok(folders), Ok(instructions)) => {
            let opening = opening(folders, instructions, call);
            app.hermes.open(&id, &slot, opening).await.map_err(|e| match e {
                OpenError::Unknown(_) => unknown_session(&how.id),
                e => failed(e),
            })
        }
        (Err(e), _) | (_, Err(e)) => Err(e),
    };
    let opened = opened?;
    let session = opened.session.clone();
    session.set_unserved(how.servers);
    show(app, call, opened, how.replay).await;
    commands::announce(app, &session, call);
    config::refresh(app, &session, call);
    Ok(session)
}

/// Opens a session in which a prompt runs. Only a resume can: a replay would lack what was said of the reply that still
/// comes. One that waited for the end would wait for ever where a question is open that its client no longer shows.
fn join(how: How, slot: &Slot) -> Result<Arc<Session>, acp::Error> {
    let folders = how.folders?;
    instructions(how.system_prompt)?;
    let open = slot.session().filter(|session| session.folders == folders && session.is_writable());
    if let Some(session) = open.filter(|_| !how.replay) {
        session.set_unserved(how.servers);
        return Ok(session);
    }
    let mut error = acp::Error::internal_error();
    error.message =
        "a prompt of this session is still running; cancel it first (session/cancel), or wait for its end"
            .into();
    let hint =
        "cancel the prompt or wait for its end, then load the session; session/resume joins it as it is";
    Err(error.data(serde_json::json!({"kind": "running", "hint": hint})))
}

/// Sends the replay and what the person should know; all of it is queued before the response.
async fn show(app: &App, call: &Call, opened: Opened, replay: bool) {
    let session = opened.session;
    let editor = of(app, &session, call);
    if replay {
        let journal = session.journal().await;
        for update in view::updates(journal.entries()) {
            // `notice` is live only (ACP, session notices); as a thought it is part of the transcript.
            if matches!(update, Update::Notice { .. }) && editor.features().notices {
                continue;
            }
            editor.update(&session.id, update).await;
        }
    }
    if replay && editor.features().usage {
        let update = usage::at_rest(&session, session.journal().await.entries());
        if let Some(update) = update {
            editor.update(&session.id, update).await;
        }
    }
    let held = session.held().map(|why| format!("{why}."));
    for text in opened.notices.into_iter().chain(held) {
        let (id, severity) = (MessageId::new(), Severity::Warning);
        let notice = Update::Notice { id, severity, title: "Session".into(), text };
        editor.update(&session.id, notice).await;
    }
}

/// The editor's side of a session.
pub fn of(app: &App, session: &Arc<Session>, call: &Call) -> editor::AcpEditor {
    let shown = session.clone();
    editor::AcpEditor::new(call.peer.clone(), app.quirks(), move || config::updates(&shown))
        .running_commands(session.workspace.runs_in_editor())
}

pub async fn list(
    app: &App,
    request: acp::ListSessionsRequest,
    call: Call,
) -> Result<acp::ListSessionsResponse, acp::Error> {
    if let Some(cwd) = &request.cwd
        && !cwd.is_absolute()
    {
        return Err(invalid_params("cwd", "must be an absolute path"));
    }
    call.or_cancelled(async {
        let page = app.hermes.list(request.cwd, request.cursor).await.map_err(|e| match e {
            StoreError::Cursor => {
                invalid_params("cursor", "is not one of this list; start again without a cursor")
            }
            e => failed(OpenError::Store(e)),
        })?;
        let sessions = page.heads.into_iter().map(|head| {
            acp::SessionInfo::new(acp::SessionId::new(head.id.as_str()), head.cwd)
                .additional_directories(head.roots)
                .title(head.title)
                .updated_at(head.updated.rfc3339())
        });
        Ok(acp::ListSessionsResponse::new(sessions.collect()).next_cursor(page.next))
    })
    .await
}

/// Ends the session's work and frees it; what is stored stays. A session that is not active here is closed already.
pub async fn close(
    app: &App,
    request: acp::CloseSessionRequest,
    call: Call,
) -> Result<acp::CloseSessionResponse, acp::Error> {
    if let Some(place) = call.take::<Place>() {
        let (slot, turnstile) = place.wait().await;
        admit::until_answered(app, &call, (&*request.session_id.0).into(), turnstile);
        app.hermes.close(&slot);
    }
    Ok(acp::CloseSessionResponse::new())
}

/// Removes the session for good. One that does not exist is deleted already.
pub async fn delete(
    app: &App,
    request: acp::DeleteSessionRequest,
    call: Call,
) -> Result<acp::DeleteSessionResponse, acp::Error> {
    let id = SessionId::from(&*request.session_id.0);
    let _lock;
    if let Some(place) = call.take::<Place>() {
        let (slot, turnstile) = place.wait().await;
        admit::until_answered(app, &call, id.clone(), turnstile);
        // One that is ours gives up its own lock; one that is not stays open where it cannot be deleted.
        if slot.session().is_some_and(|session| session.is_writable()) {
            app.hermes.close(&slot);
        }
        _lock = not_held(app, &id)?;
        app.hermes.close(&slot);
    } else {
        _lock = not_held(app, &id)?;
    }
    match app.hermes.store.delete(id).await {
        Ok(_) | Err(StoreError::NotFound(_)) => Ok(acp::DeleteSessionResponse::new()),
        Err(e) => Err(failed(OpenError::Store(e))),
    }
}

/// The folders of a session: absolute and existing.
pub fn folders(cwd: PathBuf, additional: Vec<PathBuf>) -> Result<Folders, acp::Error> {
    check_folder("cwd", &cwd)?;
    for (i, folder) in additional.iter().enumerate() {
        check_folder(&format!("additionalDirectories[{i}]"), folder)?;
    }
    Ok(Folders { cwd, additional })
}

fn check_folder(field: &str, path: &Path) -> Result<(), acp::Error> {
    if !path.is_absolute() {
        return Err(invalid_params(field, "must be an absolute path"));
    }
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(invalid_params(field, "is not a folder")),
        Err(e) => Err(invalid_params(field, &format!("cannot be opened: {e}"))),
    }
}

pub fn instructions(prompt: Option<acp::SystemPrompt>) -> Result<Vec<Instruction>, acp::Error> {
    prompt.map(from_acp::system_prompt).transpose().map(|p| p.into_iter().collect())
}

pub fn opening(folders: Folders, instructions: Vec<Instruction>, call: &Call) -> Opening {
    let peer = call.peer.clone();
    let editor = Box::new(move |id: &SessionId| EditorSide {
        terminals: terminals::AcpTerminals::of(&peer, id)
            .map(|t| Arc::new(t) as Arc<dyn crate::workspace::terminals::Terminals>),
        buffers: Arc::new(editor::AcpBuffers::new(peer, id.clone())),
    });
    // Runs of our own client are many and short: they do not fill the list of an editor.
    let origin = if call.peer.caps().client.name == TERMINAL { Origin::Exec } else { Origin::Editor };
    Opening { folders, instructions, editor, origin }
}

/// The names of MCP servers; nothing else of them is kept, since their env and headers hold secrets.
fn names(servers: &[acp::McpServer]) -> Vec<String> {
    let name = |server: &acp::McpServer| match server {
        acp::McpServer::Stdio(s) => s.name.clone(),
        acp::McpServer::Http(s) => s.name.clone(),
        acp::McpServer::Sse(s) => s.name.clone(),
        _ => "(unknown kind)".to_owned(),
    };
    servers.iter().map(name).collect()
}

/// Held by another process: deleted under it, its next entry would have nowhere to go.
pub fn not_held(app: &App, id: &SessionId) -> Result<Option<SessionLock>, acp::Error> {
    match app.hermes.store.lock(id) {
        Err(e @ LockError::Held { .. }) => Err(in_use(&e)),
        lock => Ok(lock.ok()),
    }
}

/// Refuses a change of a session that another process holds.
pub fn must_be_ours(session: &Session) -> Result<(), acp::Error> {
    let Some(why) = session.held() else { return Ok(()) };
    let mut error = acp::Error::internal_error();
    error.message = why.to_owned();
    let hint = "fork the session, or close it in the other process";
    Err(error.data(serde_json::json!({"kind": "held", "hint": hint})))
}

fn in_use(error: &LockError) -> acp::Error {
    let mut out = acp::Error::internal_error();
    out.message = error.to_string();
    out.data(
        serde_json::json!({"kind": "held", "hint": "close the session in the other process, then delete it"}),
    )
}

/// -32603 with what to do.
pub fn failed(error: OpenError) -> acp::Error {
    let mut out = acp::Error::internal_error();
    out.message = error.to_string();
    out.data(serde_json::json!({"kind": "session"}))
}
