//! The half of a request that runs in arrival order: its place in the session's line, and the token a cancel finds.
use super::{App, steer};
use crate::{
    agent::{
        hermes::Hermes,
        line::{Ticket, Turnstile},
        redact,
        slot::{Admitted, Slot},
    },
    id::SessionId,
};
use hermes_protocol::{Admit, Call, acp};
use serde::Deserialize;
use std::sync::Arc;

pub struct Admission(pub Arc<App>);

/// A request's place in line for its session.
pub struct Place {
    pub slot: Arc<Slot>,
    ticket: Ticket,
}

impl Place {
    /// Waits until all who came before are through.
    pub async fn wait(self) -> (Arc<Slot>, Turnstile) {
        (self.slot, self.ticket.wait().await)
    }
}

/// The slot of a session that is to be opened again while a prompt runs there.
pub struct Prompted(pub Arc<Slot>);

/// Keeps a request's turn until its response is queued. Released any earlier, what comes behind it in the session could
/// send updates in front of that response (I5, I6).
pub fn until_answered(app: &App, call: &Call, id: SessionId, turnstile: Turnstile) {
    let stay = Stay { turnstile: Some(turnstile), hermes: app.hermes.clone(), id };
    // Not run after an error, but dropped, and no earlier than that.
    call.after_response(async move { drop(stay) });
}

struct Stay {
    turnstile: Option<Turnstile>,
    hermes: Arc<Hermes>,
    id: SessionId,
}

impl Drop for Stay {
    fn drop(&mut self) {
        drop(self.turnstile.take());
        self.hermes.tidy(&self.id);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    session_id: acp::SessionId,
}

impl Admit for Admission {
    fn admit(&self, method: &str, params: Option<&str>, call: &Call) -> Result<(), acp::Error> {
        let names = acp::AGENT_METHOD_NAMES;
        let opens = method == names.session_load || method == names.session_resume;
        let ends = method == names.session_close || method == names.session_delete;
        let prompts = method == names.session_prompt;
        if !(opens || ends || prompts) {
            return Ok(());
        }
        // Params that do not fit are the handler's to refuse, with the field's name.
        let Some(Names { session_id }) = params.and_then(|p| serde_json::from_str(p).ok()) else {
            return Ok(());
        };
        let id = (&*session_id.0).into();
        let hermes = &self.0.hermes;
        let slot = if opens { Some(hermes.slot_or_new(&id)) } else { hermes.slot(&id) };
        let Some(slot) = slot else { return Ok(()) };
        if prompts {
            if let (Some(mut words), Some(session)) = (params.and_then(steer::words), slot.session()) {
                redact::text(&session.workspace.secrets(), &mut words);
                if session.steering.push(words) {
                    call.put(steer::Steered);
                    return Ok(());
                }
            }
            call.put::<Admitted>(slot.admit(call.cancel.child_token()));
            return Ok(());
        }
        if opens && slot.is_prompted() {
            call.put(Prompted(slot));
            return Ok(());
        }
        if ends {
            slot.cancel();
        }
        call.put(Place { ticket: slot.ticket(), slot });
        Ok(())
    }
}
