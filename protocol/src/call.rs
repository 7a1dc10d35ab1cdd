//! One call of the client, as its handler sees it.

use crate::{acp, peer::Peer};
use futures_util::future::BoxFuture;
use jsonrpsee::Extensions;
use std::{
    any::Any,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// Travels to the handler in jsonrpsee's `Extensions`; clones are the same call.
#[derive(Clone)]
pub struct Call {
    /// The client.
    pub peer: Peer,
    /// Cancelled by `$/cancel_request` for this call and when the connection ends. The handler then answers early, with
    /// its own result or -32800; it is not stopped from outside (an effect under way may not be dropped).
    pub cancel: CancellationToken,
    /// The request's id; `None` for a notification.
    pub id: Option<acp::RequestId>,
    ticket: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
    after: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
}

impl Call {
    pub(crate) fn new(peer: Peer, cancel: CancellationToken, id: Option<acp::RequestId>) -> Call {
        Call { peer, cancel, id, ticket: Arc::default(), after: Arc::default() }
    }

    /// The call that `serve` put there; `None` only outside of `serve`.
    pub fn of(extensions: &Extensions) -> Option<Call> {
        extensions.get::<Call>().cloned()
    }

    /// Leaves something for the handler: the ticket that [`Admit`](crate::Admit) took for it. It is dropped with the
    /// call if the handler does not take it.
    pub fn put<T: Any + Send>(&self, ticket: T) {
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ticket));
    }

    /// What was left, once.
    pub fn take<T: Any + Send>(&self) -> Option<T> {
        let mut slot = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.take()?.downcast::<T>() {
            Ok(ticket) => Some(*ticket),
            Err(other) => {
                *slot = Some(other);
                None
            }
        }
    }

    /// Runs once the successful response to this call is queued (I6): what it sends first, follows the response. Work
    /// of one call runs in the order given, on the connection's task tracker: dropped when the connection ends. Not run
    /// if the response is an error.
    pub fn after_response(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.after.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(work));
    }

    /// `work`, or -32800 as soon as the call is cancelled; `work` is then dropped. For handlers without side effects.
    ///
    /// # Errors
    /// Those of `work`, and -32800.
    pub async fn or_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, acp::Error>>,
    ) -> Result<T, acp::Error> {
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(acp::Error::request_cancelled()),
            done = work => done,
        }
    }

    pub(crate) fn take_after(&self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut self.after.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("id", &self.id).finish_non_exhaustive()
    }
}
