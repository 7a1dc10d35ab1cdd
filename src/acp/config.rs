//! Modes and config options: two views of the same settings, always in sync.
use super::App;
use crate::{
    agent::session::Session,
    log::{Mode, Settings},
};
use hermes_protocol::{Call, acp, invalid_params};
use std::sync::Arc;

const MODE: &str = "mode";
const MODEL: &str = "model";
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
    vec![
        acp::SessionConfigOption::select(MODE, "Mode", settings.mode.id(), modes)
            .description("What is done without asking".to_owned())
            .category(acp::SessionConfigOptionCategory::Mode),
        acp::SessionConfigOption::select(MODEL, "Model", id, models)
            .description("The model that answers".to_owned())
            .category(acp::SessionConfigOptionCategory::Model),
    ]
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
        MODEL => _ = set_model(&session, "value", &value)?,
        _ => return Err(unknown("configId", &[MODE, MODEL])),
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
    if set_model(&session, "modelId", &request.model_id)? {
        announce(session, call, |u| matches!(u, acp::SessionUpdate::ConfigOptionUpdate(_)));
    }
    Ok(serde_json::Map::new())
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetModel {
    session_id: acp::SessionId,
    model_id: String,
}

/// Chooses a model by its id; whether that changed anything.
pub fn set_model(session: &Session, field: &str, value: &str) -> Result<bool, acp::Error> {
    let known = session.models.choices().iter().any(|m| m.id == value);
    if !known && session.settings().model.as_deref() != Some(value) {
        // Lists of models are fetched lazily: one that is not in a list may exist all the same, if its provider does.
        let _ = session.models.provider(Some(value)).map_err(|e| invalid_params(field, &e.message))?;
    }
    let changed = session.set(|s| s.model = Some(value.to_owned()));
    if changed {
        session.keep.settings(&session.id, &session.settings());
    }
    Ok(changed)
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
