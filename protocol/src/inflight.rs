//! The requests that still need their one answer (I2).

use crate::{acp::RequestId, frame::Id};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Requests that may run at once. No editor comes near it; it keeps memory bounded against one that is broken.
pub(crate) const MAX: usize = 1024;

/// Whoever takes a request out of here answers it; nobody else does.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
    by_id: HashMap<RequestId, u64>,
}

/// A request without its answer.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: Id,
    cancel: CancellationToken,
    pub(crate) task: Option<AbortHandle>,
}

/// Why a request is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A request with this id still runs.
    Duplicate,
    /// Too many run.
    Full,
}

impl InFlight {
    /// Registers a request. Null ids do not tell requests apart, so any number may run.
    pub(crate) fn enter(&self, id: Id, cancel: CancellationToken) -> Result<u64, Refusal> {
        let mut table = self.table();
        if table.open.len() >= MAX {
            return Err(Refusal::Full);
        }
        if table.by_id.contains_key(id.key()) {
            return Err(Refusal::Duplicate);
        }
        let ticket = table.next;
        table.next += 1;
        if *id.key() != RequestId::Null {
            table.by_id.insert(id.key().clone(), ticket);
        }
        table.open.insert(ticket, Open { id, cancel, task: None });
        Ok(ticket)
    }

    /// Remembers the task that works on it.
    pub(crate) fn started(&self, ticket: u64, task: AbortHandle) {
        if let Some(open) = self.table().open.get_mut(&ticket) {
            open.task = Some(task);
        }
    }

    /// Takes the right and the duty to answer.
    pub(crate) fn claim(&self, ticket: u64) -> Option<Open> {
        let mut table = self.table();
        let open = table.open.remove(&ticket)?;
        table.by_id.remove(open.id.key());
        Some(open)
    }

    /// Cancels the request with this id, if it still runs.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let table = self.table();
        let open = table.by_id.get(id).and_then(|ticket| table.open.get(ticket));
        let token = open.map(|open| open.cancel.clone());
        // Not under the lock: cancelling runs wakers.
        drop(table);
        token.inspect(CancellationToken::cancel).is_some()
    }

    /// Takes all that is left, oldest first.
    pub(crate) fn claim_all(&self) -> Vec<Open> {
        let mut table = self.table();
        table.by_id.clear();
        let mut left: Vec<_> = table.open.drain().collect();
        left.sort_by_key(|(ticket, _)| *ticket);
        left.into_iter().map(|(_, open)| open).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_claimed_once_and_its_id_is_free_again() {
        let flight = InFlight::default();
        let (one, token) = (Id::parse("1").unwrap(), CancellationToken::new());
        let ticket = flight.enter(one.clone(), token.clone()).unwrap();
        assert_eq!(flight.enter(one.clone(), CancellationToken::new()).unwrap_err(), Refusal::Duplicate);
        assert!(
            !flight.cancel(&RequestId::Number(2))
                && flight.cancel(&RequestId::Number(1))
                && token.is_cancelled()
        );
        assert!(flight.claim(ticket).is_some() && flight.claim(ticket).is_none());
        assert!(flight.enter(one, CancellationToken::new()).is_ok());
    }

    #[test]
    fn null_ids_are_many_and_the_number_is_bounded() {
        let flight = InFlight::default();
        for _ in 0..MAX {
            flight.enter(Id::null(), CancellationToken::new()).unwrap();
        }
        assert_eq!(flight.enter(Id::null(), CancellationToken::new()).unwrap_err(), Refusal::Full);
        assert!(!flight.cancel(&RequestId::Null));
        assert_eq!(flight.claim_all().len(), MAX);
    }
}
