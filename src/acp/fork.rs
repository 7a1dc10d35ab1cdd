//! `session/fork` and `session/set_title`: both unstable in ACP, both for sessions that need not be active here.
use super::{App, commands, config, session, unknown_session};
use crate::{
    agent::{
        fork::ForkError,
        hermes::OpenError,
        port::{Editor, Update},
        session::one_line_title,
    },
    id::{MessageId, SessionId},
    store::StoreError,
};
use hermes_protocol::{Call, acp, invalid_params};

/// A new session with the conversation of another, from the store: whatever goes on in that one, here or in another
/// process, it is not waited for.
pub async fn fork(
    app: &App,
    request: acp::ForkSessionRequest,
    call: Call,
) -> Result<acp::ForkSessionResponse, acp::Error> {
    let folders = session::folders(request.cwd, request.additional_directories)?;
    let instructions = session::instructions(request.system_prompt)?;
    let upto = message(request.meta.as_ref())?;
    let opening = session::opening(folders, instructions, &call);
    let from = SessionId::from(&*request.session_id.0);
    let forked = app.hermes.fork(&from, upto.as_ref(), opening).await.map_err(|e| match e {
        ForkError::Open(OpenError::Unknown(_)) => unknown_session(&request.session_id),
        ForkError::Open(e) => session::failed(e),
        ForkError::Message => {
            invalid_params("_meta.hermes-editor.messageId", "is not a message of this session")
        }
    })?;
    commands::announce(app, &forked, &call);
    Ok(acp::ForkSessionResponse::new(acp::SessionId::new(forked.id.as_str()))
        .modes(config::modes(&forked.settings()))
        .config_options(config::options(&forked)))
}

/// The message to fork from, of our own `_meta`.
fn message(meta: Option<&acp::Meta>) -> Result<Option<MessageId>, acp::Error> {
    match meta.and_then(|m| m.get("hermes-editor")).and_then(|m| m.get("messageId")) {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(serde_json::Value::String(id)) => Ok(Some(id.as_str().into())),
        Some(_) => Err(invalid_params("_meta.hermes-editor.messageId", "must be a string")),
    }
}

/// Names a session. The answer has the name as it is kept.
pub async fn set_title(
    app: &App,
    request: acp::SetSessionTitleRequest,
    call: Call,
) -> Result<acp::SetSessionTitleResponse, acp::Error> {
    let title = one_line_title(&request.title)
        .ok_or_else(|| invalid_params("title", "must have at least one visible character"))?;
    let id = SessionId::from(&*request.session_id.0);
    let live = app.hermes.live(&id);
    match &live {
        Some(session) => session::must_be_ours(session)?,
        None => drop(session::not_held(app, &id)?),
    }
    // First, so that a prompt that starts now does not put its own title over it.
    live.iter().for_each(|session| session.entitle());
    match app.hermes.store.set_title(id.clone(), Some(title.clone())).await {
        Ok(()) => {}
        Err(StoreError::NotFound(_)) => return Err(unknown_session(&request.session_id)),
        Err(e) => return Err(session::failed(OpenError::Store(e))),
    }
    if let Some(live) = live {
        session::of(app, &live, &call).update(&id, Update::Title(title.clone())).await;
    }
    Ok(acp::SetSessionTitleResponse::new(title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_message_is_a_string_or_left_out() {
        let of = |meta: serde_json::Value| message(meta.as_object());
        assert_eq!(of(json!({})).unwrap(), None);
        assert_eq!(of(json!({"hermes-editor": {"messageId": null}})).unwrap(), None);
        assert_eq!(of(json!({"hermes-editor": {"messageId": "m_1"}})).unwrap(), Some("m_1".into()));
        assert_eq!(of(json!({"hermes-editor": {"messageId": 1}})).unwrap_err().code, (-32602).into());
    }
}
