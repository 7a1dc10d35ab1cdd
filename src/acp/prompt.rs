//! `session/prompt` and `session/cancel`.
use super::{App, admit, auth, commands, from_acp, session, steer, to_acp, unknown_session};
use crate::{
    agent::{
        journal::KeepError,
        redact,
        session::Session,
        slot::Admitted,
        turn::{Prompt, Stop, Turn, TurnError},
        usage::of_last_turn,
    },
    id::MessageId,
    log::{Entry, Part, PromptState},
    model::{ErrorKind, ImageLimits, ModelError},
};
use hermes_protocol::{Call, Caps, acp, acp::Error};
use serde_json::json;

/// Cancels the running prompt and all that were sent before this. One that names no session here is ignored.
pub fn cancel(app: &App, request: &acp::CancelNotification) {
    if let Some(slot) = app.hermes.slot(&(&*request.session_id.0).into()) {
        slot.cancel();
    }
}

/// The task that serves this request is the turn.
pub async fn prompt(
    app: &App,
    request: acp::PromptRequest,
    call: Call,
) -> Result<acp::PromptResponse, Error> {
    if call.take::<steer::Steered>().is_some() {
        return Ok(steer::response());
    }
    let mut admitted: Admitted = call.take().ok_or_else(|| unknown_session(&request.session_id))?;
    let ticket = admitted.ticket.take().ok_or_else(Error::internal_error)?;
    if admitted.ahead > 0 {
        tell_queue(admitted.ahead, &request.session_id, &call).await;
    }
    let turnstile = ticket.wait().await;
    admit::until_answered(app, &call, (&*request.session_id.0).into(), turnstile);
    let session = admitted.slot.session().ok_or_else(|| unknown_session(&request.session_id))?;
    session::must_be_ours(&session)?;
    let images = image_limits(&session);
    let mut parts = from_acp::prompt(request.prompt, images)?;
    redact::prompt(&session.workspace.secrets(), &mut parts);
    let mut journal = session.journal().await;
    if admitted.cancel.is_cancelled() {
        return withdraw(&mut journal, parts).await;
    }
    let editor = session::of(app, &session, &call);
    if let Some(focus) = commands::compaction(&parts) {
        return commands::compact(&session, &mut journal, &editor, &admitted.cancel, parts, &focus).await;
    }
    let cancel = &admitted.cancel;
    let at = commands::At { session: &session, editor: &editor, journal: &mut journal, cancel };
    if let Some(done) = commands::run(at, &parts).await {
        return Ok(done);
    }
    commands::repeat(&session, &call).await;
    let meaning = commands::meaning(&parts);
    let prompt = Prompt { id: MessageId::new(), parts, meaning };
    let turn = Turn::new(&session, &mut journal, &editor, admitted.cancel.clone());
    match turn.run(prompt).await {
        Ok(stop) => Ok(acp::PromptResponse::new(stop_reason(stop)).usage(used(&journal))),
        Err(e) => Err(error(e, &call.peer.caps())),
    }
}

/// Tells a client that wants to show it how many prompts are in front of this one.
async fn tell_queue(ahead: usize, session: &acp::SessionId, call: &Call) {
    let meta = to_acp::meta("hermes-editor", json!({"queue": ahead}));
    let update = acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().meta(meta));
    // One that cannot be sent is not missed.
    _ = call.peer.update(&acp::SessionNotification::new(session.clone(), update)).await;
}

/// What the turn used, where the model said so.
fn used(journal: &crate::agent::journal::Journal) -> Option<acp::Usage> {
    let used = of_last_turn(journal.entries()).filter(|u| u.input + u.output > 0)?;
    let some = |n: u64| (n > 0).then_some(n);
    Some(
        acp::Usage::new(used.input + used.output, used.input, used.output)
            .thought_tokens(some(used.reasoning))
            .cached_read_tokens(some(used.cached))
            .cached_write_tokens(some(used.written)),
    )
}

/// What the session's model takes of images; `None`: nothing.
fn image_limits(session: &Session) -> Option<ImageLimits> {
    super::config::current(session).filter(|info| info.images).map(|info| info.limits)
}

/// A prompt that was cancelled while it was queued: kept, shown at load, never sent to a model.
async fn withdraw(
    journal: &mut crate::agent::journal::Journal,
    parts: Vec<Part>,
) -> Result<acp::PromptResponse, Error> {
    let entry = Entry::User { id: MessageId::new(), parts, state: PromptState::Withdrawn, volatile: None };
    if let Err(e) = journal.append(vec![entry]).await {
        tracing::warn!("a withdrawn prompt was not kept: {e}");
    }
    Ok(acp::PromptResponse::new(acp::StopReason::Cancelled))
}

fn stop_reason(stop: Stop) -> acp::StopReason {
    match stop {
        Stop::EndTurn => acp::StopReason::EndTurn,
        Stop::MaxTokens => acp::StopReason::MaxTokens,
        Stop::MaxTurnRequests => acp::StopReason::MaxTurnRequests,
        Stop::Refusal => acp::StopReason::Refusal,
        Stop::Cancelled => acp::StopReason::Cancelled,
    }
}

/// The store would not take an entry.
pub fn not_kept(error: &KeepError) -> Error {
    let mut out = Error::internal_error();
    out.message = error.to_string();
    out.data(json!({"kind": "store", "hint": "free space or check the data folder, then try again"}))
}

/// The error of a model as the response carries it.
pub fn error(error: TurnError, caps: &Caps) -> Error {
    let model = match error {
        TurnError::Model(model) => model,
        TurnError::Keep(e) => return not_kept(&e),
    };
    if model.kind == ErrorKind::Auth {
        return auth::required(&model.message, caps);
    }
    let mut out = Error::internal_error();
    out.message = model.message.clone();
    let (kind, hint) = advice(&model);
    out.data(json!({"kind": kind, "hint": hint, "status": model.status, "host": model.host}))
}

/// What kind of failure it is, and what a person can do.
fn advice(error: &ModelError) -> (&'static str, &'static str) {
    match error.kind {
        ErrorKind::Auth | ErrorKind::Rotated => ("auth", "check the key"),
        ErrorKind::Quota => ("quota", "wait for the reset, add credit, or choose another model"),
        ErrorKind::RateLimit => ("rate_limit", "wait a little and send the prompt again"),
        ErrorKind::Loading => {
            ("overloaded", "wait until the server has loaded the model, then send the prompt again")
        }
        ErrorKind::Overloaded => ("overloaded", "send the prompt again later, or choose another model"),
        ErrorKind::TooLong => {
            ("too_long", "shorten the prompt, start a new session, or choose a model with a larger context")
        }
        ErrorKind::Refused => ("refused", "rephrase the prompt, or choose another model"),
        ErrorKind::StaleReasoning => ("stale_reasoning", "send the prompt again"),
        ErrorKind::BadRequest => ("bad_request", "choose another model, or report this"),
        ErrorKind::ModelNotFound => ("model_not_found", "choose a model that the provider has"),
        ErrorKind::Network => ("network", "check the connection and the address of the provider"),
        ErrorKind::Timeout => ("timeout", "send the prompt again; a local model may still be loading"),
        ErrorKind::Tls => ("tls", "check the certificate, or set SSL_CERT_FILE"),
        ErrorKind::Malformed => {
            ("malformed", "check that the address is an API of the kind that is configured")
        }
    }
}
