//! Models: a `Provider` streams deltas; a `Dialect` (pure) turns a request into bytes and bytes into deltas.
pub mod auth;
pub mod catalog;
pub mod demo;
pub mod dialect;
pub mod failure;
pub mod http;
pub mod policy;
pub mod price;
pub mod reply;
pub mod retry;
pub mod scripted;
pub mod sse;
mod strip;

use crate::log::{Block, Image, Native, Part, ToolSpec, Usage};
use futures_util::stream::BoxStream;
use std::{sync::Arc, time::Duration};

pub use catalog::{CredentialState, Registry};
pub use retry::Retrying;

/// One request to a model: the projection of the log, in no provider's form.
#[derive(Clone, Debug)]
pub struct Request {
    pub model: String,
    pub system: Arc<str>,
    /// Empty: the model gets no tools (the last word).
    pub tools: Arc<[ToolSpec]>,
    pub messages: Vec<Message>,
    pub effort: Option<String>,
    /// Tokens; `None`: the provider's default.
    pub max_output: Option<u32>,
    /// Stable per session: where the provider keeps its prompt cache.
    pub cache_key: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    User {
        parts: Vec<Part>,
    },
    Assistant {
        blocks: Vec<Block>,
    },
    /// The answer to the call with this provider id; always right behind the assistant message that made it.
    Result {
        provider_id: String,
        name: String,
        text: String,
        images: Vec<Image>,
        failed: bool,
    },
}

/// What a model emits while it replies.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// Closes the thinking so far: the provider's own form of it, to be replayed.
    ThinkingDone(Native),
    /// A tool call, whole. `args` is what the model wrote, not yet checked to be JSON.
    Call {
        provider_id: Option<String>,
        name: String,
        args: String,
        native: Option<Native>,
    },
    Usage(Usage),
    /// The last delta of a reply that ended well.
    End(Finish),
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    /// The output limit cut it off; a call that was cut is never executed.
    Length,
    /// Content filter or refusal.
    Refusal,
    /// The provider wants the turn sent again as it is (Anthropic's `pause_turn`).
    Pause,
}

/// A failure of a provider, by what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// One of several credentials was not taken, and the next is tried at once: never the end of a request.
    Rotated,
    /// Missing, wrong or expired credentials.
    Auth,
    /// Paid for or allowed no more, until a reset.
    Quota,
    RateLimit,
    /// 5xx, 529: try again.
    Overloaded,
    /// The server is there, its model is not yet in memory: minutes, where it is a machine of the user's.
    Loading,
    /// The context is too long for the model.
    TooLong,
    /// The provider will not answer this.
    Refused,
    /// Thinking blocks or encrypted reasoning that it no longer takes.
    StaleReasoning,
    BadRequest,
    ModelNotFound,
    Network,
    Timeout,
    Tls,
    /// Not what the protocol says: HTML, cut JSON, a stream that ended early.
    Malformed,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ErrorKind,
    /// For a person: names the host and the status, says what to do next; no secret, no prompt.
    pub message: String,
    pub host: String,
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

/// A model that can be asked. Contract: the stream ends with exactly one `Delta::End` or one `Err`;
/// dropping it aborts the request; it never panics and never retries once it has yielded a delta.
pub trait Provider: Send + Sync {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>>;
    /// What the model can do; never waits for the network.
    fn info(&self) -> ModelInfo;
}

/// What a model can do, as far as it is known; what is `None` or empty is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// `provider/model`.
    pub id: String,
    pub name: String,
    /// The most tokens of a request.
    pub context: Option<u64>,
    /// The most tokens of a reply.
    pub output: Option<u64>,
    pub images: bool,
    pub tools: Option<bool>,
    /// How hard it can be told to think, in the provider's words, least first.
    pub efforts: Vec<String>,
    pub price: Option<price::Price>,
    pub limits: ImageLimits,
}

/// What a provider takes of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Bytes of one image, decoded.
    pub bytes: usize,
    /// Images of one request.
    pub count: usize,
}

impl Default for ImageLimits {
    /// Anthropic's, the strictest of the large providers: <https://docs.claude.com/en/docs/build-with-claude/vision>.
    fn default() -> Self {
        ImageLimits { bytes: 5 << 20, count: 100 }
    }
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        (**self).stream(request)
    }
    fn info(&self) -> ModelInfo {
        (**self).info()
    }
}
