//! The place of one session in this process: who is in line for it, and the prompts a cancel must find.
use super::{
    line::{Line, Ticket},
    session::Session,
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio_util::sync::CancellationToken;

/// Exists from the moment a request names the session, before the session itself is there: a prompt sent right behind
/// its `session/load` waits for it.
#[derive(Default)]
pub struct Slot {
    line: Line,
    session: Mutex<Option<Arc<Session>>>,
    prompts: Mutex<Vec<(u64, CancellationToken)>>,
    serial: AtomicU64,
}

impl Slot {
    pub fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Puts the session in, or takes it out. The one that was there no longer keeps others from writing.
    pub fn put(&self, session: Option<Arc<Session>>) {
        if let Some(before) = std::mem::replace(&mut *lock(&self.session), session) {
            before.release();
        }
    }

    /// Admits a request that changes the conversation: its place in line, in arrival order.
    pub fn ticket(&self) -> Ticket {
        self.line.ticket()
    }

    /// Admits a prompt: its place in line, and the token that a cancel finds from now on.
    pub fn admit(self: &Arc<Self>, cancel: CancellationToken) -> Admitted {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let mut prompts = lock(&self.prompts);
        let ahead = prompts.len();
        prompts.push((serial, cancel.clone()));
        drop(prompts);
        Admitted { ahead, slot: self.clone(), ticket: Some(self.line.ticket()), serial, cancel }
    }

    /// Cancels the running prompt and all that were admitted before now.
    pub fn cancel(&self) {
        lock(&self.prompts).iter().for_each(|(_, token)| token.cancel());
    }

    /// Whether a prompt runs or waits that was not cancelled.
    pub fn is_prompted(&self) -> bool {
        lock(&self.prompts).iter().any(|(_, token)| !token.is_cancelled())
    }

    /// Whether a turn runs or somebody waits.
    pub fn is_busy(&self) -> bool {
        self.line.is_busy()
    }
}

/// A prompt on its way. Dropping it ends its place in line and in the list of prompts to cancel.
pub struct Admitted {
    pub slot: Arc<Slot>,
    pub ticket: Option<Ticket>,
    serial: u64,
    /// Prompts that ran or waited when it came.
    pub ahead: usize,
    pub cancel: CancellationToken,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        lock(&self.slot.prompts).retain(|(serial, _)| *serial != self.serial);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
