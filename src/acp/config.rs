//! Modes and config options: two views of the same settings, always in sync.
use super::{App, quirks::Quirks, session};
use crate::{
    agent::{
        effort::fitting,
        port::{Editor, Update},
        session::Session,
    },
    id::MessageId,
    log::{Mode, Settings, Severity},
    model::ModelInfo,
};
use hermes_protocol::{Call, acp, invalid_params};
use std::sync::Arc;

const MODE: &str = "mode";
const MODEL: &str = "model";
const EFFORT: &str = "thought_level";
/// The value that leaves the effort to the model.
pub const DEFAULT: &str = "default";
/// Shown as the current model where none is configured.
const NONE: &str = "none";

pub fn modes(settings: &Settings) -> acp::SessionModeState {
    let all = Mode::ALL.into_iter().map(|mode| {
        acp::SessionMode::new(acp::SessionModeId::new(mode.id()), mode.name())
            .description(mode.description().to_owned())
    });
    acp::SessionModeState::new(acp::SessionModeId::new(settings.mode.id()), all.collect::<Vec<_>>())
}

/// All options, with what is in force.
pub fn options(session: &Session) -> Vec<acp::SessionConfigOption> {
    let settings = session.settings();
    let modes: Vec<_> = Mode::ALL
        .into_iter()
        .map(|m| {
            acp::SessionConfigSelectOption::new(acp::SessionConfigValueId::new(m.id()), m.name())
                .description(m.description().to_owned())
        })
        .collect();
    let current = settings.model.clone().or_else(|| session.models.default_id());
    let mut models: Vec<_> = session
        .models
        .choices()
        .into_iter()
        .map(|m| acp::SessionConfigSelectOption::new(acp::SessionConfigValueId::new(m.id), m.name))
        .collect();
    let id = current.clone().unwrap_or_else(|| NONE.into());
    if !models.iter().any(|m| *m.value.0 == *id) {
        let name = if current.is_some() { id.clone() } else { "No model configured".into() };
        models
            .insert(0, acp::SessionConfigSelectOption::new(acp::SessionConfigValueId::new(id.clone()), name));
    }
    let mut all = vec![
        acp::SessionConfigOption::select(MODE, "Mode", settings.mode.id(), modes)
            .description("What is done without asking".to_owned())
            .category(acp::SessionConfigOptionCategory::Mode),
        acp::SessionConfigOption::select(MODEL, "Model", id, models)
            .description("The model that answers".to_owned())
            .category(acp::SessionConfigOptionCategory::Model),
    ];
    all.extend(self::current(session).and_then(|info| efforts(&settings, &info)));
    all
}

/// The model that would answer now.
pub fn current(session: &Session) -> Option<ModelInfo> {
    session.models.provider(session.settings().model.as_deref()).ok().map(|p| p.info())
}

/// The effort in force with this model.
pub fn effort(settings: &Settings, info: &ModelInfo) -> String {
    fitting(settings.effort.as_deref(), info).unwrap_or_else(|| DEFAULT.into())
}

/// Only for models of which it is known what they take.
fn efforts(settings: &Settings, info: &ModelInfo) -> Option<acp::SessionConfigOption> {
    let option = |value: &str, name: String| {
        acp::SessionConfigSelectOption::new(acp::SessionConfigValueId::new(value), name)
    };
    let mut all =
        vec![option(DEFAULT, "Default".into()).description("What the model does by itself".to_owned())];
    all.extend(info.efforts.iter().map(|e| option(e, title_case(e))));
    (!info.efforts.is_empty()).then(|| {
        acp::SessionConfigOption::select(EFFORT, "Thinking", effort(settings, info), all)
            .description("How hard the model thinks before it answers".to_owned())
            .category(acp::SessionConfigOptionCategory::ThoughtLevel)
    })
}

fn title_case(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The updates that tell a client what is in force now.
pub fn updates(session: &Session) -> Vec<acp::SessionUpdate> {
    let mode = acp::SessionModeId::new(session.settings().mode.id());
    vec![
        acp::SessionUpdate::CurrentModeUpdate(acp::CurrentModeUpdate::new(mode)),
        acp::SessionUpdate::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(options(session))),
    ]
}

/// `session/set_mode`: in order, so that what was sent behind it sees it (I7).
pub fn set_mode(
    app: &App,
    request: acp::SetSessionModeRequest,
    call: &Call,
) -> Result<acp::SetSessionModeResponse, acp::Error> {
    let session = app.live(&request.session_id)?;
    super::session::must_be_ours(&session)?;
    let mode = Mode::from_id(&request.mode_id.0)
        .ok_or_else(|| unknown("modeId", Mode::ALL.map(Mode::id).as_slice()))?;
    if session.set(|s| s.mode = mode) {
        session.keep.settings(&session.id, &session.settings());
        announce(session, call, |u| matches!(u, acp::SessionUpdate::ConfigOptionUpdate(_)));
    }
    Ok(acp::SetSessionModeResponse::new())
}

/// `session/set_config_option`; answers with all options.
pub fn set_option(
    app: &App,
    request: acp::SetSessionConfigOptionRequest,
    call: &Call,
) -> Result<acp::SetSessionConfigOptionResponse, acp::Error> {
    let session = app.live(&request.session_id)?;
    super::session::must_be_ours(&session)?;
    let value = match &request.value {
        acp::SessionConfigOptionValue::ValueId { value } => value.0.to_string(),
        _ => return Err(invalid_params("type", "this option is a choice: send its `value` as a string")),
    };
    match &*request.config_id.0 {
        MODE => {
            let mode =
                Mode::from_id(&value).ok_or_else(|| unknown("value", Mode::ALL.map(Mode::id).as_slice()))?;
            if session.set(|s| s.mode = mode) {
                session.keep.settings(&session.id, &session.settings());
                announce(session.clone(), call, |u| matches!(u, acp::SessionUpdate::CurrentModeUpdate(_)));
            }
        }
        MODEL => {
            let set = set_model(&session, "value", &value)?;
            tell(app, &session, call, set);
            remember(&session, app.quirks());
        }
        EFFORT => {
            set_effort(&session, "value", &value)?;
            remember(&session, app.quirks());
        }
        _ => return Err(unknown("configId", &[MODE, MODEL, EFFORT])),
    }
    Ok(acp::SetSessionConfigOptionResponse::new(options(&session)))
}

/// `session/set_model`: not in the schema any more, but some clients still send it.
pub fn set_model_alias(
    app: &App,
    request: SetModel,
    call: &Call,
) -> Result<serde_json::Map<String, serde_json::Value>, acp::Error> {
    let session = app.live(&request.session_id)?;
    super::session::must_be_ours(&session)?;
    let set = set_model(&session, "modelId", &request.model_id)?;
    if set.changed {
        announce(session.clone(), call, |u| matches!(u, acp::SessionUpdate::ConfigOptionUpdate(_)));
    }
    tell(app, &session, call, set);
    remember(&session, app.quirks());
    Ok(serde_json::Map::new())
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetModel {
    session_id: acp::SessionId,
    model_id: String,
}

/// What a choice led to.
pub struct Set {
    pub changed: bool,
    /// What a person should know of it.
    pub note: Option<String>,
}

/// Chooses a model by its id. It applies from the next request on, also of a turn that runs. An effort that it does not
/// have becomes the nearest that it has.
pub fn set_model(session: &Session, field: &str, value: &str) -> Result<Set, acp::Error> {
    let known = session.models.choices().iter().any(|m| m.id == value);
    if !known && session.settings().model.as_deref() != Some(value) {
        // Lists of models are fetched lazily: one that is not in a list may exist all the same, if its provider does.
        let _ = session.models.provider(Some(value)).map_err(|e| invalid_params(field, &e.message))?;
    }
    let before = current(session).map(|info| effort(&session.settings(), &info));
    let changed = session.set(|s| s.model = Some(value.to_owned()));
    if changed {
        keep(session);
    }
    let note = current(session).zip(before).and_then(|(info, before)| {
        let now = effort(&session.settings(), &info);
        (now != before).then(|| format!("It has no effort of thinking `{before}`; it thinks with `{now}`."))
    });
    Ok(Set { changed, note })
}

/// Chooses how hard the model thinks, from the next request on.
pub fn set_effort(session: &Session, field: &str, value: &str) -> Result<bool, acp::Error> {
    let known = current(session).map(|info| info.efforts).unwrap_or_default();
    if value != DEFAULT && !known.iter().any(|e| e == value) {
        let all: Vec<&str> = std::iter::once(DEFAULT).chain(known.iter().map(String::as_str)).collect();
        return Err(unknown(field, &all));
    }
    let changed = session.set(|s| s.effort = (value != DEFAULT).then(|| value.to_owned()));
    if changed {
        keep(session);
    }
    Ok(changed)
}

fn keep(session: &Session) {
    session.keep.settings(&session.id, &session.settings());
}

/// Takes a choice as what new sessions begin with, unless this client chooses for one time.
pub fn remember(session: &Session, quirks: Quirks) {
    if !quirks.chooses_once {
        session.models.remember(&session.settings());
    }
}

/// Says behind the response what a choice led to.
fn tell(app: &App, session: &Arc<Session>, call: &Call, set: Set) {
    let Some(text) = set.note else { return };
    let (editor, session) = (session::of(app, session, call), session.clone());
    call.after_response(async move {
        let (id, title) = (MessageId::new(), "Another effort of thinking".into());
        editor.update(&session.id, Update::Notice { id, severity: Severity::Info, title, text }).await;
    });
}

/// How long after the response that names a session its lists of models are asked for, if they are missing or old.
const AFTER: std::time::Duration = std::time::Duration::from_millis(500);

/// Asks for the lists of models behind the response, and shows all sessions what there is to choose from then.
pub fn refresh(app: &App, session: &Arc<Session>, call: &Call) {
    let (peer, hermes, session) = (call.peer.clone(), app.hermes.clone(), Arc::downgrade(session));
    call.after_response(async move {
        tokio::time::sleep(AFTER).await;
        let Some(model) = session.upgrade().map(|s| s.settings().model) else { return };
        if !hermes.models.refresh(model.as_deref()).await {
            return;
        }
        for session in hermes.all_live() {
            let update =
                acp::SessionUpdate::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(options(&session)));
            let id = acp::SessionId::new(session.id.as_str());
            _ = peer.update(&acp::SessionNotification::new(id, update)).await;
        }
    });
}

fn unknown(field: &str, known: &[&str]) -> acp::Error {
    invalid_params(field, &format!("must be one of {}", known.join(", ")))
}

/// Tells the client what changed beside what it asked for, behind the response.
fn announce(session: Arc<Session>, call: &Call, which: fn(&acp::SessionUpdate) -> bool) {
    let peer = call.peer.clone();
    call.after_response(async move {
        for update in updates(&session).into_iter().filter(which) {
            let id = acp::SessionId::new(session.id.as_str());
            _ = peer.update(&acp::SessionNotification::new(id, update)).await;
        }
    });
}
