//! One reply of the model: streamed to the editor while it is gathered.
use super::{
    coalesce::{Coalescer, Stream},
    journal::Journal,
    port::{Editor, Update},
};
use crate::{
    id::{CallId, MessageId, SessionId},
    log::{Block, Call, Entry, Severity, Usage},
    model::{Delta, Finish, ModelError, retry::RetryNotice},
    tools::arguments,
};
use futures_util::{StreamExt, stream::BoxStream};
use std::time::Duration;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};
use tokio_util::sync::CancellationToken;

/// How often, and after how many bytes, what was streamed is checkpointed.
const DRAFT_EVERY: Duration = Duration::from_secs(1);
const DRAFT_BYTES: usize = 4096;

/// A call of the reply, and what is wrong with its arguments if they could not be read.
pub struct Made {
    pub call: Call,
    pub problem: Option<String>,
}

/// How a reply ended.
pub enum Ending {
    Finished(Finish),
    Failed(ModelError),
    Cancelled,
}

/// A reply as it was gathered.
pub struct Reply {
    pub id: MessageId,
    pub blocks: Vec<Block>,
    pub calls: Vec<Made>,
    pub usage: Option<Usage>,
    pub ending: Ending,
}

impl Reply {
    pub fn has_text(&self) -> bool {
        self.blocks.iter().any(|b| matches!(b, Block::Text { text } if !text.trim().is_empty()))
    }
    pub fn is_interrupted(&self) -> bool {
        !matches!(self.ending, Ending::Finished(_))
    }
    /// The entry to keep; `None` where nothing came. An interrupted reply keeps its text and loses its calls.
    pub fn entry(&self, model: &str) -> Option<Entry> {
        let interrupted = self.is_interrupted();
        let blocks: Vec<Block> =
            self.blocks.iter().filter(|b| !(interrupted && matches!(b, Block::Call(_)))).cloned().collect();
        (!blocks.is_empty()).then(|| Entry::Assistant {
            id: self.id.clone(),
            blocks,
            interrupted,
            model: model.to_owned(),
            usage: self.usage,
        })
    }
}

/// Where a reply goes while it is streamed.
pub struct Hearing<'a> {
    pub session: &'a SessionId,
    pub editor: &'a dyn Editor,
    pub journal: &'a mut Journal,
    pub cancel: &'a CancellationToken,
}

impl Hearing<'_> {
    /// Streams a reply to the editor. Returns when it ended, failed or was cancelled; everything that came was shown.
    pub async fn gather(
        self,
        mut stream: BoxStream<'_, Result<Delta, ModelError>>,
        mut retries: UnboundedReceiver<RetryNotice>,
    ) -> Reply {
        let (session, editor) = (self.session, self.editor);
        let mut gathering = Gathering::new(session, self.journal);
        let cancelled = self.cancel.cancelled();
        tokio::pin!(cancelled);
        let ending = loop {
            let due = gathering.coalescer.due();
            let delta = tokio::select! {
                biased;
                _ = &mut cancelled => break Ending::Cancelled,
                Some(notice) = retries.recv(), if gathering.blocks.is_empty() => {
                    editor.update(session, gathering.retry(&notice).await).await;
                    continue;
                }
                delta = stream.next() => delta,
                _ = sleep_until(due) => {
                    if let Some(update) = gathering.coalescer.flush() {
                        editor.update(session, update).await;
                    }
                    continue;
                }
            };
            match delta {
                Some(Ok(Delta::End(finish))) => break Ending::Finished(finish),
                Some(Ok(delta)) => {
                    for update in gathering.take(delta).into_iter().flatten() {
                        editor.update(session, update).await;
                    }
                }
                Some(Err(error)) => break Ending::Failed(error),
                None => break Ending::Failed(ended_early()),
            }
        };
        drop(stream);
        if let Some(update) = gathering.coalescer.flush() {
            editor.update(session, update).await;
        }
        gathering.into_reply(ending)
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn ended_early() -> ModelError {
    ModelError {
        kind: crate::model::ErrorKind::Malformed,
        message: "the model's stream ended without saying that it was done".into(),
        host: String::new(),
        status: None,
        retry_after: None,
    }
}

struct Gathering<'a> {
    session: &'a SessionId,
    journal: &'a mut Journal,
    id: MessageId,
    blocks: Vec<Block>,
    calls: Vec<Made>,
    usage: Option<Usage>,
    coalescer: Coalescer,
    drafted: Instant,
    undrafted: usize,
}

impl<'a> Gathering<'a> {
    fn new(session: &'a SessionId, journal: &'a mut Journal) -> Self {
        Gathering {
            session,
            journal,
            id: MessageId::new(),
            blocks: Vec::new(),
            calls: Vec::new(),
            usage: None,
            coalescer: Coalescer::default(),
            drafted: Instant::now(),
            undrafted: 0,
        }
    }

    /// A failed try, said to the person: kept like every notice, never shown to the model.
    async fn retry(&mut self, notice: &RetryNotice) -> Update {
        let (id, severity) = (MessageId::new(), Severity::Warning);
        let title = format!("Trying again in {:.1} s", notice.delay.as_secs_f64());
        let text = format!("{} (try {} failed)", notice.error.message, notice.attempt);
        let entry = Entry::Notice { id: id.clone(), severity, title: title.clone(), text: text.clone() };
        if let Err(e) = self.journal.append(vec![entry]).await {
            tracing::warn!("a notice was not kept: {e}");
        }
        Update::Notice { id, severity, title, text }
    }

    fn take(&mut self, delta: Delta) -> [Option<Update>; 2] {
        let now = Instant::now();
        match delta {
            Delta::Text(text) => {
                match self.blocks.last_mut() {
                    Some(Block::Text { text: all }) => all.push_str(&text),
                    _ => self.blocks.push(Block::Text { text: text.clone() }),
                }
                self.draft(text.len(), now);
                self.coalescer.push(Stream::Text, &self.id, &text, now)
            }
            Delta::Thinking(text) => {
                let id = self.think(&text);
                self.draft(text.len(), now);
                self.coalescer.push(Stream::Thought, &id, &text, now)
            }
            Delta::ThinkingDone(done) => {
                match self.blocks.last_mut() {
                    Some(Block::Thinking { native: native @ None, .. }) => *native = Some(done),
                    _ => self.blocks.push(Block::Thinking {
                        id: MessageId::new(),
                        text: String::new(),
                        native: Some(done),
                    }),
                }
                [None, None]
            }
            Delta::Call { provider_id, name, args, native } => {
                self.call(provider_id, name, &args, native);
                [None, None]
            }
            Delta::Usage(usage) => {
                self.usage = Some(usage);
                [None, None]
            }
            Delta::End(_) => [None, None],
        }
    }

    /// Adds to the thinking block that is open, or opens one.
    fn think(&mut self, delta: &str) -> MessageId {
        if let Some(Block::Thinking { id, text, native: None }) = self.blocks.last_mut() {
            text.push_str(delta);
            return id.clone();
        }
        let id = MessageId::new();
        self.blocks.push(Block::Thinking { id: id.clone(), text: delta.to_owned(), native: None });
        id
    }

    fn call(
        &mut self,
        provider_id: Option<String>,
        name: String,
        raw: &str,
        native: Option<crate::log::Native>,
    ) {
        let id = CallId::new();
        let provider_id = self.journal.unique_provider_id(provider_id, id.as_str());
        // What is kept is always a JSON object: a strict provider refuses the whole history otherwise.
        let (args, problem) = match arguments::parse(raw) {
            Ok(value) => (value.to_string(), None),
            Err(error) => (
                serde_json::json!({"unreadable_arguments": head(raw, 2000)}).to_string(),
                Some(error.to_string()),
            ),
        };
        let call = Call { id, provider_id, name, args, native };
        self.blocks.push(Block::Call(call.clone()));
        self.calls.push(Made { call, problem });
    }

    fn draft(&mut self, bytes: usize, now: Instant) {
        self.undrafted += bytes;
        if self.undrafted < DRAFT_BYTES && now.duration_since(self.drafted) < DRAFT_EVERY {
            return;
        }
        (self.drafted, self.undrafted) = (now, 0);
        let join = |thinking: bool| -> String {
            self.blocks
                .iter()
                .filter_map(|b| match b {
                    Block::Text { text } if !thinking => Some(text.as_str()),
                    Block::Thinking { text, .. } if thinking => Some(text.as_str()),
                    _ => None,
                })
                .collect()
        };
        self.journal.keep().draft(self.session, &self.id, &join(false), &join(true));
    }

    fn into_reply(self, ending: Ending) -> Reply {
        Reply { id: self.id, blocks: self.blocks, calls: self.calls, usage: self.usage, ending }
    }
}

/// At most `max` bytes of the start, at a character boundary.
pub(super) fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
