//! The client, as seen from here: notifications and requests to it, and its answers.

use crate::{
    acp,
    caps::Caps,
    error::{Closed, PeerError, parse_object},
    frame::{Id, MAX_OUTPUT, Outcome},
    outbox::Outbox,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What the client answered, not yet read.
type Answer = Result<Box<RawValue>, Refusal>;

/// An answer that is not a result.
#[derive(Debug)]
enum Refusal {
    Rpc(acp::Error),
    Malformed(&'static str),
}

/// A handle to the client; clones are the same client.
///
/// All that goes out through it shares one FIFO with the responses: what one task sends, and then answers, arrives in
/// that order (I4, I5).
#[derive(Clone, Debug)]
pub struct Peer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    outbox: Arc<Outbox>,
    pending: Mutex<Pending>,
    caps: Mutex<Arc<Caps>>,
}

#[derive(Debug, Default)]
struct Pending {
    next: i64,
    closed: bool,
    waiting: HashMap<i64, oneshot::Sender<Answer>>,
}

impl Peer {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Peer {
        Peer(Arc::new(Shared { outbox, pending: Mutex::default(), caps: Mutex::default() }))
    }

    /// What the client advertised; nothing before [`Peer::set_caps`].
    pub fn caps(&self) -> Arc<Caps> {
        self.0.caps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Set by the handler of `initialize`.
    pub fn set_caps(&self, caps: Caps) {
        *self.0.caps.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(caps);
    }

    /// Cancelled when nothing reaches the client any more.
    pub fn gone(&self) -> &CancellationToken {
        self.0.outbox.gone()
    }

    /// Sends a notification. When it returns, the message is queued: behind all this task sent before, ahead of all it
    /// sends later. Waits while the outbox is full; dropped while it waits, nothing is sent.
    ///
    /// # Errors
    /// [`PeerError::TooLarge`], [`PeerError::Unserialisable`], [`PeerError::NotOffered`] send nothing;
    /// [`PeerError::Closed`].
    pub async fn notify<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<(), PeerError> {
        self.check_offered(method)?;
        let frame = frame(None, method, params)?;
        Ok(self.0.outbox.send(frame).await?)
    }

    /// Sends `session/update`, unless the client did not advertise this kind of update: then nothing is sent and
    /// `false` returned (I8; a v1 client on an older schema fails on an update it does not know).
    ///
    /// # Errors
    /// As [`Peer::notify`].
    pub async fn update(&self, update: &acp::SessionNotification) -> Result<bool, PeerError> {
        if !self.caps().permits(&update.update) {
            tracing::debug!("an update the editor did not advertise is not sent");
            return Ok(false);
        }
        self.notify(acp::CLIENT_METHOD_NAMES.session_update, update).await?;
        Ok(true)
    }

    /// Asks the client and waits for its answer, at most `deadline` (counted from now, room in the outbox included).
    /// Dropping the future or running out of time withdraws the request with `$/cancel_request`; a later answer is
    /// ignored. A `null` result is read as `{}` where `R` does not take null.
    ///
    /// # Errors
    /// [`PeerError`], every kind.
    pub async fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        deadline: Option<Duration>,
    ) -> Result<R, PeerError> {
        self.check_offered(method)?;
        let (answer, mut asked) = self.register()?;
        let frame = frame(Some(asked.id), method, params)?;
        let exchange = async {
            self.0.outbox.send(frame).await?;
            asked.sent = true;
            answer.await.map_err(|_| Closed)
        };
        let answer = match deadline {
            None => exchange.await,
            Some(after) => match tokio::time::timeout(after, exchange).await {
                Ok(answer) => answer,
                Err(_) => {
                    return Err(PeerError::Timeout { method: method.to_owned(), after, sent: asked.sent });
                }
            },
        }?;
        asked.answered = true;
        let malformed = |why: String| PeerError::Malformed { method: method.to_owned(), why };
        match answer {
            Ok(result) => result_of(result.get()).map_err(malformed),
            Err(Refusal::Rpc(error)) => Err(PeerError::Rpc(error)),
            Err(Refusal::Malformed(why)) => Err(malformed(why.to_owned())),
        }
    }

    fn check_offered(&self, method: &str) -> Result<(), PeerError> {
        if self.caps().offers(method) { Ok(()) } else { Err(PeerError::NotOffered(method.to_owned())) }
    }

    fn register(&self) -> Result<(oneshot::Receiver<Answer>, Asked<'_>), PeerError> {
        let (tx, rx) = oneshot::channel();
        let mut pending = self.pending();
        if pending.closed {
            return Err(Closed.into());
        }
        let id = pending.next;
        pending.next += 1;
        pending.waiting.insert(id, tx);
        Ok((rx, Asked { peer: self, id, sent: false, answered: false }))
    }

    /// Hands an answer to whoever waits for it. False if nobody does: late, twice, or never asked.
    pub(crate) fn settle(&self, id: &Id, outcome: &Outcome<'_>) -> bool {
        let answer = match outcome {
            Outcome::Result(result) => Ok((*result).to_owned()),
            Outcome::Error(error) => Err(match serde_json::from_str(error.get()) {
                Ok(error) => Refusal::Rpc(error),
                Err(_) => Refusal::Malformed("its `error` has no code and message"),
            }),
            Outcome::Neither => Err(Refusal::Malformed("it has neither `result` nor `error`")),
        };
        self.hand_over(id, answer)
    }

    /// As [`Peer::settle`], for an answer too long to be read.
    pub(crate) fn settle_oversize(&self, id: &Id) -> bool {
        self.hand_over(id, Err(Refusal::Malformed("it is longer than 32 MiB")))
    }

    fn hand_over(&self, id: &Id, answer: Answer) -> bool {
        let number = match id.key() {
            acp::RequestId::Number(n) => Some(*n),
            // Some clients give every id back as a string. Our ids are numbers, so nothing else can be meant.
            acp::RequestId::Str(s) => s.parse().ok(),
            acp::RequestId::Null => None,
        };
        let mut pending = self.pending();
        let waiting = number.and_then(|n| pending.waiting.remove(&n));
        let known = number.is_some_and(|n| (0..pending.next).contains(&n));
        drop(pending);
        match waiting {
            Some(waiting) => waiting.send(answer).is_ok(),
            None => {
                tracing::debug!(
                    known,
                    "an answer nobody waits for (late, given twice or never asked) is ignored"
                );
                known
            }
        }
    }

    /// No more answers will come: whoever waits is told so.
    pub(crate) fn close(&self) {
        let mut pending = self.pending();
        pending.closed = true;
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        drop(waiting);
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Nothing that can panic runs under this lock.
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way. Dropped before its answer came, it is withdrawn.
struct Asked<'a> {
    peer: &'a Peer,
    id: i64,
    sent: bool,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let waited = self.peer.pending().waiting.remove(&self.id).is_some();
        if self.sent && waited {
            let id = self.id;
            let method = acp::PROTOCOL_LEVEL_METHOD_NAMES.cancel_request;
            let frame = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"requestId\":{id}}}}}\n"
            );
            self.peer.0.outbox.withdraw(frame);
        }
    }
}

/// One line, newline included, written in one pass.
fn frame<P: Serialize + ?Sized>(id: Option<i64>, method: &str, params: &P) -> Result<String, PeerError> {
    let failed = |_| PeerError::Unserialisable(method.to_owned());
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        line.extend_from_slice(format!("\"id\":{id},").as_bytes());
    }
    line.extend_from_slice(b"\"method\":");
    serde_json::to_writer(&mut line, method).map_err(failed)?;
    line.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut line, params).map_err(failed)?;
    line.extend_from_slice(b"}\n");
    if line.len() >= MAX_OUTPUT {
        tracing::warn!(method, bytes = line.len(), "a message over 1 MiB is not sent");
        return Err(PeerError::TooLarge { method: method.to_owned(), bytes: line.len() });
    }
    String::from_utf8(line).map_err(|_| PeerError::Unserialisable(method.to_owned()))
}

/// Reads a result. Arrays are refused (serde would take them for a struct's fields in order).
fn result_of<R: DeserializeOwned>(text: &str) -> Result<R, String> {
    if text == "null" {
        return serde_json::from_str("null")
            .or_else(|_| serde_json::from_str("{}"))
            .map_err(|_| "it is null".into());
    }
    parse_object(text).map_err(|(field, what)| match field.as_str() {
        "params" => format!("`result` {what}"),
        field => format!("`{field}` {what}"),
    })
}
