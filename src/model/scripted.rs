//! A model in memory for tests: it says what the script says, holds a delta back until told, and records what it was asked.
use super::{Delta, ErrorKind, Finish, ModelError, ModelInfo, Provider, Request};
use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// A step of a scripted reply.
#[derive(Clone, Debug)]
pub enum Step {
    Say(Delta),
    Fail(ModelError),
    /// Waits until the gate is opened.
    Wait(Gate),
    /// Never goes on: only dropping the stream ends it.
    Hang,
}

/// Holds a script back; once open it stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<GateState>);
#[derive(Debug, Default)]
struct GateState {
    state: Mutex<(bool, bool)>,
    changed: Notify,
}

impl Gate {
    /// Lets the script go on.
    pub fn open(&self) {
        self.set(|s| s.1 = true);
    }
    /// Waits until the script has come to the gate.
    pub async fn reached(&self) {
        self.wait(|s| s.0).await;
    }
    async fn pass(&self) {
        self.set(|s| s.0 = true);
        self.wait(|s| s.1).await;
    }
    fn set(&self, change: impl FnOnce(&mut (bool, bool))) {
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_waiters();
    }
    async fn wait(&self, when: impl Fn(&(bool, bool)) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if when(&self.0.state.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            changed.await;
        }
    }
}

/// The scripted provider. Each request takes the next reply; when none is left, the model says that the script is over.
#[derive(Debug, Default)]
pub struct Scripted {
    replies: Mutex<VecDeque<Vec<Step>>>,
    requests: Mutex<Vec<Request>>,
    images: bool,
    context: Option<u64>,
    /// Bytes of a request's system prompt and messages; 0: any.
    narrow: AtomicUsize,
}

impl Scripted {
    pub fn new(replies: impl IntoIterator<Item = Vec<Step>>) -> Self {
        Scripted { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() }
    }
    /// The model takes images.
    pub fn with_images(mut self) -> Self {
        self.images = true;
        self
    }
    /// The model's window, in tokens.
    pub fn with_context(mut self, tokens: u64) -> Self {
        self.context = Some(tokens);
        self
    }
    /// Refuses every request of more than so many bytes as too long from here on, whatever the script says.
    pub fn narrow(&self, bytes: usize) {
        self.narrow.store(bytes, Ordering::Relaxed);
    }
    fn is_too_long(&self, request: &Request) -> bool {
        let narrow = self.narrow.load(Ordering::Relaxed);
        narrow > 0 && request.system.len() + format!("{:?}", request.messages).len() > narrow
    }
    /// Appends a reply to the script.
    pub fn then(&self, reply: Vec<Step>) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
    }
    /// What the model was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A reply that says this and stops.
pub fn text(text: &str) -> Vec<Step> {
    vec![Step::Say(Delta::Text(text.into())), Step::Say(Delta::End(Finish::Stop))]
}

/// A reply that makes these calls: provider id, tool, arguments.
pub fn calls(calls: &[(&str, &str, &str)]) -> Vec<Step> {
    let call = |(id, name, args): &(&str, &str, &str)| {
        Step::Say(Delta::Call {
            provider_id: Some((*id).into()),
            name: (*name).into(),
            args: (*args).into(),
            native: None,
        })
    };
    calls.iter().map(call).chain([Step::Say(Delta::End(Finish::ToolCalls))]).collect()
}

/// An error of the scripted provider, for scripts that fail.
pub fn error(kind: ErrorKind, message: &str) -> ModelError {
    ModelError { kind, message: message.into(), host: "scripted".into(), status: None, retry_after: None }
}

impl Provider for Scripted {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        if self.is_too_long(request) {
            let refused = error(ErrorKind::TooLong, "scripted answered 400: the prompt is too long");
            return stream::iter([Err(refused)]).boxed();
        }
        let reply = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let steps = reply.unwrap_or_else(|| {
            vec![Step::Fail(error(ErrorKind::BadRequest, "the script of the model is over"))]
        });
        stream::iter(steps)
            .then(|step| {
                async move {
                    match step {
                        Step::Say(delta) => Some(Ok(delta)),
                        Step::Fail(error) => Some(Err(error)),
                        Step::Wait(gate) => {
                            gate.pass().await;
                            None
                        }
                        Step::Hang => std::future::pending().await,
                    }
                }
                .boxed()
            })
            .filter_map(std::future::ready)
            .boxed()
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "scripted/scripted".into(),
            name: "Scripted".into(),
            context: self.context,
            images: self.images,
            ..ModelInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            model: "m".into(),
            system: "".into(),
            tools: Arc::from([]),
            messages: vec![],
            effort: None,
            max_output: None,
            cache_key: "k".into(),
        }
    }

    #[tokio::test]
    async fn a_gate_holds_a_delta_back() {
        let gate = Gate::default();
        let model = Scripted::new([vec![
            Step::Say(Delta::Text("a".into())),
            Step::Wait(gate.clone()),
            Step::Say(Delta::End(Finish::Stop)),
        ]]);
        let request = request();
        let mut stream = model.stream(&request);
        assert_eq!(stream.next().await.unwrap().unwrap(), Delta::Text("a".into()));
        assert!(stream.next().now_or_never().is_none());
        gate.reached().await;
        gate.open();
        assert_eq!(stream.next().await.unwrap().unwrap(), Delta::End(Finish::Stop));
        assert!(stream.next().await.is_none());
        drop(stream);
        assert_eq!(model.requests().len(), 1);
        assert!(model.stream(&request).next().await.unwrap().is_err());
    }
}
