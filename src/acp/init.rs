//! `initialize`: what this agent can do.
use super::{App, auth, quirks::Quirks};
use hermes_protocol::{Call, Caps, ProtocolVersion, acp};

pub fn initialize(
    app: &App,
    request: acp::InitializeRequest,
    call: &Call,
) -> Result<acp::InitializeResponse, acp::Error> {
    let caps = Caps::of(&request);
    *app.quirks.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Quirks::of(&caps.client.name);
    let methods = auth::methods(&caps);
    call.peer.set_caps(caps);
    let info =
        acp::Implementation::new("hermes-editor", env!("CARGO_PKG_VERSION")).title("Hermes".to_owned());
    // Version 1 is what we speak, whatever was asked: the client decides whether it can go on (ACP, Initialization).
    Ok(acp::InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities(takes_images(app)))
        .auth_methods(methods)
        .agent_info(info))
}

/// Whether a model that can be chosen takes images. Which ones do is said when one is sent to another.
fn takes_images(app: &App) -> bool {
    app.hermes.models.choices().iter().any(|model| model.images)
}

fn capabilities(images: bool) -> acp::AgentCapabilities {
    let mode = acp::SessionSystemPromptModeCapabilities::new()
        .override_(acp::SessionSystemPromptOverrideCapabilities::new());
    let session = acp::SessionCapabilities::new()
        .list(acp::SessionListCapabilities::new())
        .resume(acp::SessionResumeCapabilities::new())
        .close(acp::SessionCloseCapabilities::new())
        .delete(acp::SessionDeleteCapabilities::new())
        .fork(acp::SessionForkCapabilities::new())
        .title(acp::SessionTitleCapabilities::new())
        .additional_directories(acp::SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(acp::SessionSystemPromptCapabilities::new().mode(mode));
    acp::AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(acp::PromptCapabilities::new().image(images).embedded_context(true))
        .session_capabilities(session)
        .auth(acp::AgentAuthCapabilities::new().logout(acp::LogoutCapabilities::new()))
}
