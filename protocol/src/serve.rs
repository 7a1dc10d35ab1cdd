//! The dispatch loop: lines in arrival order over jsonrpsee's method table.

use crate::{
    acp,
    call::Call,
    frame::{self, Id, Incoming},
    inflight::{InFlight, Refusal},
    lines::Line,
    outbox::{Outbox, Room},
    oversize::Oversize,
    peer::Peer,
    respond::Reply,
    transport::Transport,
};
use futures_util::{FutureExt, future::BoxFuture};
use jsonrpsee::{
    ConnectionId, Extensions, MethodCallback, Methods,
    core::server::{AsyncMethod, MethodResponse, SyncMethod},
    types::{Id as RpcId, Params},
};
use serde_json::value::RawValue;
use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Answers made in the loop itself (errors, in-order methods) that may wait for the writer. Above it the loop stops
/// reading until the client takes one: the one exception to I3, for a client that floods without reading.
const MAX_REPLIES: usize = 1024;

/// The half of a request that runs in arrival order.
///
/// An async handler's body runs only once it is polled; what must be decided by arrival (the place in a session's queue,
/// the token a later `session/cancel` has to find) is decided here.
pub trait Admit: Send + Sync + 'static {
    /// Called for each request of a concurrent method, before the next line is read. Must not block. What it
    /// [`put`](Call::put)s into the call, the handler [`take`](Call::take)s.
    ///
    /// # Errors
    /// The error becomes the answer; the handler is not called.
    fn admit(&self, method: &str, params: Option<&str>, call: &Call) -> Result<(), acp::Error>;
}

/// How to serve.
pub struct Options {
    /// The in-order half of requests, if the application has one.
    pub admit: Option<Arc<dyn Admit>>,
    /// Ends the connection from inside, as on SIGTERM.
    pub shutdown: CancellationToken,
    /// How long handlers may take to answer after the end began; what has no answer then gets -32800.
    pub grace: Duration,
    /// How long the client may take to read what is still to be written at the end.
    pub flush: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            admit: None,
            shutdown: CancellationToken::new(),
            grace: Duration::from_secs(3),
            flush: Duration::from_secs(1),
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client closed its end.
    Eof,
    /// [`Options::shutdown`].
    Shutdown,
    /// The client takes nothing any more.
    Gone,
}

/// Serves one connection to its end. Every request read gets exactly one response (I2), unless the client stops reading.
pub async fn serve(methods: impl Into<Methods>, transport: Transport, options: Options) -> End {
    let Transport { mut lines, outbox, peer, written, reader, writer } = transport;
    let mut server = Server {
        methods: methods.into(),
        admit: options.admit,
        connection: CancellationToken::new(),
        flight: Arc::default(),
        tasks: TaskTracker::new(),
        replies: VecDeque::new(),
        phase: Phase::New,
        outbox: outbox.clone(),
        peer,
    };
    let end = loop {
        let reading = server.replies.len() < MAX_REPLIES;
        tokio::select! { biased;
            () = options.shutdown.cancelled() => break End::Shutdown,
            () = outbox.gone().cancelled() => break End::Gone,
            () = server.flush_one(), if !server.replies.is_empty() => {}
            read = lines.recv(), if reading => match read {
                Some(read) => read.into_iter().for_each(|line| server.line(line)),
                None => break End::Eof,
            },
        }
    };
    drop((reader, lines));
    server.finish(options.grace, options.flush).await;
    drop(writer);
    // Nothing is queued any more; the writer ends when the client has read the rest, or is left behind.
    _ = tokio::time::timeout(options.flush, written).await;
    end
}

/// What may come next, by ACP's rules of initialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Only `initialize`.
    New,
    /// Anything; `initialize` again as well (a client may try another version).
    Initialized,
    /// Anything but `initialize`.
    Open,
}

struct Server {
    methods: Methods,
    admit: Option<Arc<dyn Admit>>,
    outbox: Arc<Outbox>,
    peer: Peer,
    /// Parent of every call's token.
    connection: CancellationToken,
    flight: Arc<InFlight>,
    tasks: TaskTracker,
    /// Answers made in the loop, in order.
    replies: VecDeque<Reply>,
    phase: Phase,
}

impl Server {
    /// Handles one line. Never waits.
    fn line(&mut self, line: Line) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(line) => return self.oversize(&line),
        };
        match frame::parse(&line) {
            Incoming::Request { id, method, params } => self.request(id, &method, params),
            Incoming::Notification { method, params } => self.notification(&method, params),
            Incoming::Response { id, outcome } => {
                if !self.peer.settle(&id, &outcome) && matches!(outcome, frame::Outcome::Neither) {
                    let why = "a message needs a `method`, or a `result` or `error` to a request of ours";
                    self.refuse(&id, acp::Error::invalid_request().data(serde_json::Value::from(why)));
                }
            }
            Incoming::Malformed { id, error } => self.refuse(&id, error),
            Incoming::Ignored(why) => tracing::debug!("ignored: {why}"),
        }
    }

    fn oversize(&mut self, line: &Oversize) {
        tracing::warn!(bytes = line.bytes, "a line over 32 MiB was not read");
        match &line.id {
            Some(id) if line.answer => _ = self.peer.settle_oversize(id),
            None if line.answer => {}
            id => {
                let why = format!("a line of {} bytes is over the limit of 32 MiB", line.bytes);
                let id = id.clone().unwrap_or_else(Id::null);
                self.refuse(&id, acp::Error::invalid_request().data(serde_json::Value::from(why)));
            }
        }
    }

    fn refuse(&mut self, id: &Id, error: acp::Error) {
        self.reply(Reply::error(id, &error));
    }

    fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        let initialize = method == acp::AGENT_METHOD_NAMES.initialize;
        match self.phase {
            Phase::New if !initialize => {
                let why = "`initialize` must come first";
                return self.refuse(&id, acp::Error::invalid_request().data(serde_json::Value::from(why)));
            }
            Phase::Open if initialize => {
                let why = "already initialized";
                return self.refuse(&id, acp::Error::invalid_request().data(serde_json::Value::from(why)));
            }
            Phase::Initialized if !initialize => self.phase = Phase::Open,
            _ => {}
        }
        match self.methods.method(method).cloned() {
            Some(MethodCallback::Sync(callback)) => self.run_in_order(id, &callback, params, initialize),
            Some(MethodCallback::Async(callback)) => self.start(id, method, &callback, params, initialize),
            // ACP has no subscriptions.
            _ => {
                let error = acp::Error::method_not_found();
                self.refuse(&id, error.data(serde_json::json!({ "method": shown(method) })));
            }
        }
    }

    /// Runs a sync method to its end (I7).
    fn run_in_order(&mut self, id: Id, callback: &SyncMethod, params: Option<&RawValue>, initialize: bool) {
        let cancel = self.connection.child_token();
        let ticket = match self.flight.enter(id.clone(), cancel.clone()) {
            Ok(ticket) => ticket,
            Err(refusal) => return self.refuse(&id, refused(&refusal)),
        };
        let call = Call::new(self.peer.clone(), cancel, Some(id.key().clone()));
        let response = call_sync(callback, params, &call);
        self.flight.claim(ticket);
        let reply = match response {
            Some(response) => {
                if initialize && response.is_success() {
                    self.phase = Phase::Initialized;
                }
                Reply::of(&id, response, call.take_after())
            }
            None => Reply::error(&id, &acp::Error::internal_error()),
        };
        self.reply(reply);
    }

    /// Admits a request of an async method in arrival order, and starts it.
    fn start(
        &mut self,
        id: Id,
        method: &str,
        callback: &AsyncMethod<'static>,
        params: Option<&RawValue>,
        initialize: bool,
    ) {
        let cancel = self.connection.child_token();
        let ticket = match self.flight.enter(id.clone(), cancel.clone()) {
            Ok(ticket) => ticket,
            Err(refusal) => return self.refuse(&id, refused(&refusal)),
        };
        let call = Call::new(self.peer.clone(), cancel, Some(id.key().clone()));
        if let Err(error) = self.admitted(method, params, &call) {
            self.flight.claim(ticket);
            return self.refuse(&id, error);
        }
        if initialize {
            self.phase = Phase::Initialized;
        }
        let params = Params::new(params.map(RawValue::get)).into_owned();
        let mut extensions = Extensions::new();
        extensions.insert(call.clone());
        let (callback, flight, outbox) = (callback.clone(), self.flight.clone(), self.outbox.clone());
        let connection = self.connection.clone();
        let task = self.tasks.spawn(async move {
            let work =
                async move { callback(RpcId::Null, params, ConnectionId(0), usize::MAX, extensions).await };
            let response = AssertUnwindSafe(work).catch_unwind().await;
            // The shutdown may have answered already.
            let Some(open) = flight.claim(ticket) else { return };
            let reply = match response {
                Ok(response) => Reply::of(&open.id, response, call.take_after()),
                Err(_) => Reply::error(&open.id, &acp::Error::internal_error()),
            };
            drop(call);
            let (frame, queued) = reply.into_parts();
            if outbox.send(frame).await.is_ok() {
                run_after(connection, queued.tell()).await;
            }
        });
        self.flight.started(ticket, task.abort_handle());
    }

    fn admitted(&self, method: &str, params: Option<&RawValue>, call: &Call) -> Result<(), acp::Error> {
        let Some(admit) = &self.admit else { return Ok(()) };
        let admit = AssertUnwindSafe(|| admit.admit(method, params.map(RawValue::get), call));
        std::panic::catch_unwind(admit).unwrap_or_else(|_| Err(acp::Error::internal_error()))
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == acp::PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            let cancel =
                crate::error::parse_params::<acp::CancelRequestNotification>(params.map(RawValue::get));
            let known = cancel.is_ok_and(|c| self.flight.cancel(&c.request_id));
            return tracing::debug!(known, "$/cancel_request");
        }
        // A request without an id must not start a turn that nobody can see the end of.
        let notification = method == acp::AGENT_METHOD_NAMES.session_cancel || method.starts_with('_');
        if self.phase == Phase::New || !notification {
            return tracing::debug!(method = shown(method), "an unexpected notification is ignored");
        }
        let call = Call::new(self.peer.clone(), self.connection.child_token(), None);
        match self.methods.method(method).cloned() {
            Some(MethodCallback::Sync(callback)) => _ = call_sync(&callback, params, &call),
            Some(MethodCallback::Async(callback)) => {
                let params = Params::new(params.map(RawValue::get)).into_owned();
                let mut extensions = Extensions::new();
                extensions.insert(call);
                self.tasks.spawn(async move {
                    let work = async move {
                        callback(RpcId::Null, params, ConnectionId(0), usize::MAX, extensions).await
                    };
                    _ = AssertUnwindSafe(work).catch_unwind().await;
                });
            }
            _ => tracing::debug!(method = shown(method), "an unknown notification is ignored"),
        }
    }

    /// Queues an answer made in the loop: at once if there is room, else behind those that wait already.
    fn reply(&mut self, reply: Reply) {
        if self.replies.is_empty()
            && let Some(room) = self.outbox.try_room(reply.frame.len())
        {
            return self.queue(reply, room);
        }
        self.replies.push_back(reply);
    }

    /// Queues the oldest answer that waits, once there is room. Dropped while it waits, it has done nothing.
    async fn flush_one(&mut self) {
        let Some(reply) = self.replies.front() else { return };
        let Ok(room) = self.outbox.room(reply.frame.len()).await else { return self.replies.clear() };
        if let Some(reply) = self.replies.pop_front() {
            self.queue(reply, room);
        }
    }

    fn queue(&self, reply: Reply, room: Room) {
        let (frame, queued) = reply.into_parts();
        if self.outbox.send_now(frame, room).is_ok() {
            let after = queued.tell();
            if !after.is_empty() {
                self.tasks.spawn(run_after(self.connection.clone(), after));
            }
        }
    }

    /// Stops everything: handlers are told, waited for, and answered for.
    async fn finish(mut self, grace: Duration, flush: Duration) {
        self.connection.cancel();
        self.peer.close();
        self.tasks.close();
        let tasks = self.tasks.clone();
        let answers = async {
            while !self.replies.is_empty() {
                self.flush_one().await;
            }
        };
        let rest = async { tokio::join!(answers, tasks.wait()) };
        _ = tokio::time::timeout(grace, rest).await;
        let left = async {
            for open in self.flight.claim_all() {
                tracing::warn!("a request is answered for its handler, which did not stop in time");
                let (frame, _) = Reply::error(&open.id, &acp::Error::request_cancelled()).into_parts();
                _ = self.outbox.send(frame).await;
                if let Some(task) = open.task {
                    task.abort();
                }
            }
        };
        _ = tokio::time::timeout(flush, left).await;
    }
}

/// The work that follows a response; dropped when the connection ends, so that the end need not wait for it.
async fn run_after(connection: CancellationToken, after: Vec<BoxFuture<'static, ()>>) {
    for work in after {
        // A panic ends that work only; the hook has reported it.
        _ = connection.run_until_cancelled(AssertUnwindSafe(work).catch_unwind()).await;
    }
}

/// `None` if the handler panicked.
fn call_sync(callback: &SyncMethod, params: Option<&RawValue>, call: &Call) -> Option<MethodResponse> {
    let mut extensions = Extensions::new();
    extensions.insert(call.clone());
    let params = Params::new(params.map(RawValue::get));
    std::panic::catch_unwind(AssertUnwindSafe(|| callback(RpcId::Null, params, usize::MAX, extensions))).ok()
}

fn refused(refusal: &Refusal) -> acp::Error {
    let (error, why) = match refusal {
        Refusal::Duplicate => (acp::Error::invalid_request(), "a request with this id is still running"),
        Refusal::Full => (acp::Error::internal_error(), "too many requests at once: wait for answers"),
    };
    error.data(serde_json::Value::from(why))
}

/// A method name of the client's, short enough to repeat.
fn shown(method: &str) -> String {
    method.chars().take(100).collect()
}
