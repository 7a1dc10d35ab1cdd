//! One reply of the model: streamed to the editor while it is gathered.
use super::{
    coalesce::{Coalescer, Stream},
    journal::Journal,
    port::{Editor, Update},
};
use crate::{
    id::{CallId, MessageId, SessionId},
    log::{Block, Call, Entry, Native, Severity, Usage},
    model::{Delta, ErrorKind, Finish, ModelError, retry::RetryNotice},
    tools::arguments,
};
use futures_util::{StreamExt, stream::BoxStream};
use std::time::Duration;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};
use tokio_util::sync::CancellationToken;

/// How often, and after how many bytes, what was streamed is checkpointed.
const DRAFT_EVERY: Duration = Duration::from_secs(1);
const DRAFT_BYTES: usize = 4096;

/// Bytes of a text that was cut off which are compared with what goes on.
const TAIL: usize = 16 * 1024;
/// So many bytes that are the same are a repetition, if they are words; fewer may be chance, as may a run of dashes.
const SAME: usize = 6;

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

/// The end of a text that the next reply goes on with, in the same message.
#[derive(Debug)]
pub struct Tail {
    id: MessageId,
    text: String,
}

impl Tail {
    /// This one with what was said in front of it: a model may begin again from there.
    pub fn behind(self, before: &str) -> Tail {
        let mut text = format!("{before}{}", self.text);
        text.drain(..text.ceil_char_boundary(text.len().saturating_sub(TAIL)));
        Tail { text, ..self }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Reply {
    /// Where the next reply goes on; `None`: it has no text.
    pub fn tail(&self) -> Option<Tail> {
        let text = self.blocks.iter().rev().find_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })?;
        let from = text.ceil_char_boundary(text.len().saturating_sub(TAIL));
        Some(Tail { id: self.id.clone(), text: text[from..].to_owned() })
    }
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
    /// The reply goes on with this.
    pub after: Option<Tail>,
}

impl Hearing<'_> {
    /// Streams a reply to the editor. Returns when it ended, failed or was cancelled; everything that came was shown.
    pub async fn gather(
        self,
        mut stream: BoxStream<'_, Result<Delta, ModelError>>,
        mut retries: UnboundedReceiver<RetryNotice>,
    ) -> Reply {
        let (session, editor) = (self.session, self.editor);
        let mut gathering = Gathering::new(session, self.journal, self.after);
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
        for update in gathering.let_go().into_iter().flatten() {
            editor.update(session, update).await;
        }
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
        kind: ErrorKind::Malformed,
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
    joint: Joint,
    waiting: Option<MessageId>,
}

/// Where a reply goes on with another: what it repeats of that one's end is left out.
#[derive(Debug, Default)]
struct Joint {
    /// The end of the other; empty once it is known what is repeated.
    tail: String,
    /// Text that may yet be a repetition.
    held: String,
}

impl Joint {
    /// Takes the next text; gives what is new in it.
    fn push(&mut self, text: String) -> String {
        if self.tail.is_empty() {
            return text;
        }
        self.held.push_str(&text);
        if self.ends().any(|end| end.len() > self.held.len() && end.starts_with(&self.held) && are_words(end))
        {
            return String::new();
        }
        self.open()
    }

    /// No more will come, or what came is no repetition.
    fn open(&mut self) -> String {
        let same = self.ends().find(|end| self.held.starts_with(end) && are_words(end)).map_or(0, str::len);
        self.tail.clear();
        std::mem::take(&mut self.held).split_off(same)
    }

    /// The ends of the tail that are long enough, the longest first.
    fn ends(&self) -> impl Iterator<Item = &str> {
        let last = (self.tail.len() + 1).saturating_sub(SAME);
        (0..last).filter(|at| self.tail.is_char_boundary(*at)).map(|at| &self.tail[at..])
    }
}

/// Not a run of dashes, which may be chance.
fn are_words(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).collect::<std::collections::HashSet<_>>().len() >= 3
}

impl<'a> Gathering<'a> {
    fn new(session: &'a SessionId, journal: &'a mut Journal, after: Option<Tail>) -> Self {
        let (id, tail) = after.map_or_else(|| (MessageId::new(), String::new()), |t| (t.id, t.text));
        Gathering {
            session,
            journal,
            id,
            joint: Joint { tail, held: String::new() },
            waiting: None,
            blocks: Vec::new(),
            calls: Vec::new(),
            usage: None,
            coalescer: Coalescer::default(),
            drafted: Instant::now(),
            undrafted: 0,
        }
    }

    /// A failed try, said to the person: kept like every notice, never shown to the model. A wait that goes on is the
    /// same notice, and not kept.
    async fn retry(&mut self, notice: &RetryNotice) -> Update {
        let severity = Severity::Warning;
        let loading = notice.error.kind == ErrorKind::Loading;
        let title = match (loading, notice.left.as_secs_f64()) {
            (true, _) => "The model is being loaded".to_owned(),
            (false, left) if notice.again => format!("Trying again in {} s", left.round()),
            _ if notice.error.kind == ErrorKind::Rotated => "Trying the next key".to_owned(),
            (false, left) => format!("Trying again in {left:.1} s"),
        };
        if let Some(id) = self.waiting.clone().filter(|_| notice.again) {
            return Update::Notice { id, severity, title, text: String::new() };
        }
        let id = MessageId::new();
        self.waiting = Some(id.clone());
        let text = format!("{} (try {} failed)", notice.error.message, notice.attempt);
        if !loading || notice.attempt == 1 {
            let (title, text) = (title.clone(), text.clone());
            let entry = Entry::Notice { id: id.clone(), severity, title, text };
            if let Err(e) = self.journal.append(vec![entry]).await {
                tracing::warn!("a notice was not kept: {e}");
            }
        }
        Update::Notice { id, severity, title, text }
    }

    /// Text that was held back because it might repeat what was said before.
    fn let_go(&mut self) -> [Option<Update>; 2] {
        let text = self.joint.open();
        self.text(text, Instant::now())
    }

    fn text(&mut self, text: String, now: Instant) -> [Option<Update>; 2] {
        if text.is_empty() {
            return [None, None];
        }
        match self.blocks.last_mut() {
            Some(Block::Text { text: all }) => all.push_str(&text),
            _ => self.blocks.push(Block::Text { text: text.clone() }),
        }
        self.draft(text.len(), now);
        self.coalescer.push(Stream::Text, &self.id, &text, now)
    }

    fn take(&mut self, delta: Delta) -> [Option<Update>; 2] {
        let now = Instant::now();
        match delta {
            Delta::Text(text) => {
                let text = self.joint.push(text);
                self.text(text, now)
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
                let said = self.let_go();
                self.call(provider_id, name, &args, native);
                said
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

    /// Takes a call; one that holds several is them.
    fn call(&mut self, provider_id: Option<String>, name: String, raw: &str, native: Option<Native>) {
        let Some(several) = several(&name, raw) else {
            return self.one_call(provider_id, name, raw, native);
        };
        for (nth, (name, args)) in several.into_iter().enumerate() {
            let id = provider_id.as_ref().map(|id| if nth == 0 { id.clone() } else { format!("{id}_{nth}") });
            self.one_call(id, name, &args, None);
        }
    }

    fn one_call(&mut self, provider_id: Option<String>, name: String, raw: &str, native: Option<Native>) {
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

/// The calls in a call of `parallel`, a tool that nobody offered and that some of OpenAI's models call all the same:
/// <https://community.openai.com/t/model-tries-to-call-unknown-function-multi-tool-use-parallel/490653>.
fn several(name: &str, raw: &str) -> Option<Vec<(String, String)>> {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    if !matches!(plain.to_lowercase().as_str(), "parallel" | "multitooluseparallel") {
        return None;
    }
    let args = arguments::parse(raw).ok()?;
    let uses = args.get("tool_uses")?.as_array().filter(|uses| !uses.is_empty() && uses.len() <= 32)?;
    uses.iter()
        .map(|one| {
            let name = one.get("recipient_name")?.as_str()?;
            let args = one.get("parameters").filter(|p| p.is_object())?;
            Some((name.strip_prefix("functions.").unwrap_or(name).to_owned(), args.to_string()))
        })
        .collect()
}

/// At most `max` bytes of the start, at a character boundary.
pub(super) fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_joined_without_saying_anything_twice() {
        let join = |tail: &str, pieces: &[&str]| {
            let mut joint = Joint { tail: tail.into(), held: String::new() };
            let mut out: String = pieces.iter().map(|p| joint.push((*p).into())).collect();
            out.push_str(&joint.open());
            out
        };
        for (tail, more, want) in [
            ("The quick brown", " fox", " fox"),
            ("The quick brown", "The quick brown fox", " fox"),
            ("The quick brown", "quick brown fox", " fox"),
            ("日本語の文章が", "文章が続く", "続く"),
            // Too short to be told from chance, or no words at all.
            ("The quick brown", "own fox", "own fox"),
            ("a table\n|--------", "--------|\n", "--------|\n"),
            ("", "anything", "anything"),
            ("The quick brown", "quick brown", ""),
            ("The quick brown", "quick red", "quick red"),
        ] {
            assert_eq!(join(tail, &[more]), want, "{tail} + {more}");
            let each: Vec<String> = more.chars().map(String::from).collect();
            let each: Vec<&str> = each.iter().map(String::as_str).collect();
            assert_eq!(join(tail, &each), want, "{tail} + {more} by character");
        }
    }

    #[test]
    fn a_call_that_holds_several_is_them() {
        let raw = r#"{"tool_uses":[{"recipient_name":"functions.read","parameters":{"path":"a"}},{"recipient_name":"list","parameters":{}}]}"#;
        let want = Some(vec![("read".into(), r#"{"path":"a"}"#.into()), ("list".into(), "{}".into())]);
        for name in ["parallel", "multi_tool_use.parallel", "multi_tool_use_parallel"] {
            assert_eq!(several(name, raw), want, "{name}");
        }
        assert_eq!(several("read", raw), None);
        for raw in ["{}", r#"{"tool_uses":[]}"#, r#"{"tool_uses":[{"recipient_name":"x"}]}"#, "oops"] {
            assert_eq!(several("parallel", raw), None, "{raw}");
        }
    }
}
