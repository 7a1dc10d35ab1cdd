//! Compaction: a conversation that outgrows the model's window goes on, in three steps, each only if the one before
//! makes too little room: old results are pruned; the middle becomes a hand-over summary that a model writes; nearly
//! everything does. Where no model can write it, the log itself is the summary. Facts that must not be lost (the
//! user's words, the plan, the files) are kept beside every summary by us.
//!
//! The log only grows: what changes is its projection (`Prune`, `Summary`), and what the editor shows stays.
mod cut;
mod digest;
mod ledger;
mod measure;
mod summary;

use self::{
    cut::{Budgets, Cut, Level},
    measure::{Measure, Window},
    summary::{Asked, Writer},
};
use super::{
    context,
    journal::{Journal, KeepError},
    port::{CompactionStatus, Editor, Update},
    session::Session,
    side::Side,
};
use crate::{
    id::MessageId,
    log::{Entry, Severity, Usage},
    model::{ErrorKind, ModelError, Provider},
};
pub use measure::Windows;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Compactions of one turn, and how many overflows in a row are answered by one.
const PER_TURN: u32 = 10;
const OVERFLOWS: u32 = 2;
/// Between what the model wrote and what we keep beside it.
const BESIDE: &str = "\n\n# Kept by the agent, exact\n";
const OPENING: &str = "This stands for the messages before it. It is for reference: what it lists as done is done, and \
     what it lists as answered is answered.\n\n";
const CLOSING: &str = "\n[End of the summary. Go on with the newest request of the user from where the work stands. Do \
     not begin again, and read again only what you need.]";

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger<'a> {
    /// The next request would not leave enough of the window.
    Room,
    /// The model refused a request as too long.
    TooLong,
    /// The person asked for it; with what to dwell on, which may be empty.
    Asked(&'a str),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Tokens before and after, about; `without` says why no model wrote the summary.
    Done {
        before: u64,
        after: u64,
        without: Option<String>,
    },
    /// There is nothing that can be made smaller.
    Nothing,
    Cancelled,
    Failed(String),
}

/// What one turn did about its length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    runs: u32,
    overflows: u32,
    /// The model request before which it was compacted last.
    at: Option<u32>,
    /// Compacting made too little room: it is not tried again before an overflow.
    stuck: bool,
}

impl Tally {
    /// A request was answered: the next overflow is a new one.
    pub fn answered(&mut self) {
        self.overflows = 0;
    }
}

/// Compacts the log of one session.
pub struct Compaction<'a> {
    pub session: &'a Session,
    pub journal: &'a mut Journal,
    pub editor: &'a dyn Editor,
    pub cancel: &'a CancellationToken,
    pub provider: Arc<dyn Provider>,
}

/// What is decided before anything is asked.
struct Plan {
    cut: Cut,
    budgets: Budgets,
    ledger: String,
    before: Measure,
    after: u64,
}

impl Compaction<'_> {
    /// Makes room where the turn needs it. Whether the request is worth sending (again).
    pub async fn make_room(
        mut self,
        tally: &mut Tally,
        requests: u32,
        refused: Option<&ModelError>,
    ) -> Result<bool, KeepError> {
        let window = self.window();
        let used = Measure::of(self.journal.entries()).used;
        let (trigger, first) = match refused {
            None if tally.stuck || used <= window.limit() => return Ok(true),
            // A compaction that was needed again at once was too soft: no loop of cutting and reading again.
            None if tally.at.is_some_and(|at| requests <= at + 1) => (Trigger::Room, Level::Hard),
            None => (Trigger::Room, Level::Prune),
            Some(error) => {
                let model = self.provider.info().id;
                let tokens = self.session.windows.learn(&model, used, &error.message);
                self.session.keep.window(&model, tokens);
                tally.overflows += 1;
                let level = if tally.overflows > 1 { Level::Hard } else { Level::Prune };
                (Trigger::TooLong, level)
            }
        };
        if tally.runs >= PER_TURN || tally.overflows > OVERFLOWS {
            return Ok(refused.is_none());
        }
        let limit = self.window().limit();
        let outcome = self.run(trigger, first).await?;
        if outcome != Outcome::Nothing {
            tally.runs += 1;
            tally.at = Some(requests);
        }
        tally.stuck = match outcome {
            Outcome::Done { after, .. } => after > limit,
            // What the turn adds may be shortened later.
            Outcome::Nothing => false,
            Outcome::Cancelled | Outcome::Failed(_) => true,
        };
        Ok(refused.is_none() || matches!(outcome, Outcome::Done { .. } | Outcome::Cancelled))
    }

    /// Because the person asked.
    pub async fn asked(mut self, focus: &str) -> Result<Outcome, KeepError> {
        self.run(Trigger::Asked(focus), Level::Summary).await
    }

    async fn run(&mut self, trigger: Trigger<'_>, first: Level) -> Result<Outcome, KeepError> {
        let Some(mut plan) = self.plan(trigger, first) else { return Ok(Outcome::Nothing) };
        let id = MessageId::new();
        self.show(&id, CompactionStatus::InProgress, None).await;
        let mut without = None;
        let mut text = None;
        if let Some(covers) = plan.cut.covers {
            self.save_long_prompt(&mut plan, covers).await;
            let written = match self.write(&plan, covers, trigger).await? {
                Asked::Written(written) => written,
                Asked::Cancelled => {
                    self.show(&id, CompactionStatus::Cancelled, None).await;
                    return Ok(Outcome::Cancelled);
                }
                Asked::Failed(e) if goes_on_without(&e, trigger) => {
                    without = Some(e.message);
                    self.digest(&plan, covers)
                }
                Asked::Failed(e) => {
                    self.show(&id, CompactionStatus::Failed, Some(e.message.clone())).await;
                    return Ok(Outcome::Failed(e.message));
                }
            };
            text = Some(format!("{OPENING}{written}{BESIDE}{}{CLOSING}", plan.ledger));
        }
        let outcome = self.keep(&id, &plan, text, without, trigger).await;
        match &outcome {
            Err(e) => self.show(&id, CompactionStatus::Failed, Some(e.to_string())).await,
            Ok(_) => {
                let text = context::View::of(self.journal.entries()).summary.map(str::to_owned);
                self.show(&id, CompactionStatus::Completed, text.filter(|_| plan.cut.covers.is_some())).await;
            }
        }
        outcome
    }

    /// The mildest level, from `first` on, that makes enough room.
    fn plan(&self, trigger: Trigger<'_>, first: Level) -> Option<Plan> {
        let entries = self.journal.entries();
        let (before, window) = (Measure::of(entries), self.window());
        let limit = window.limit();
        for level in Level::ALL.into_iter().filter(|l| *l >= first) {
            let mut budgets = Budgets::of(level, window, &before);
            if matches!(trigger, Trigger::Asked(_)) {
                budgets = budgets.within(before.messages);
            }
            let cut = cut::cut(entries, level, &budgets);
            if cut.covers.is_none() && cut.prune.is_empty() {
                continue;
            }
            budgets.summary = budgets.summary.min((cut.covered / 3).max(150));
            let ledger =
                cut.covers.map_or_else(String::new, |c| ledger::ledger(entries, c, budgets.ledger, None));
            let summary = match cut.covers {
                Some(_) => budgets.summary + measure::of_bytes(ledger.len() + FRAMING),
                None => 0,
            };
            let after = before.scaled(before.fixed + cut.kept + summary);
            let enough = match (trigger, level) {
                // What was sent may not count like our measure: a summary at once, unless pruning makes much room.
                (Trigger::TooLong, Level::Prune) => after * 10 <= before.used * 6,
                (Trigger::TooLong, Level::Hard) => after * 10 <= before.used * 9,
                (Trigger::Asked(_), _) => cut.kept + summary < before.messages * 4 / 5,
                (_, Level::Hard) => after * 10 <= before.used * 9,
                _ => after * 10 <= before.used * 7 && after * 10 <= limit * 8,
            };
            if enough {
                return Some(Plan { cut, budgets, ledger, before, after });
            }
        }
        None
    }

    /// A prompt that is too long to be repeated in the summary is saved where `read` finds it.
    async fn save_long_prompt(&self, plan: &mut Plan, covers: u64) {
        let entries = self.journal.entries();
        let Some(text) = ledger::too_long(entries, covers, plan.budgets.ledger) else { return };
        match self.session.workspace.spill(&format!("prompt-{covers}.txt"), &text).await {
            Ok(path) => {
                plan.ledger = ledger::ledger(entries, covers, plan.budgets.ledger, Some(path.as_path()));
            }
            Err(e) => tracing::warn!("a long prompt could not be saved for the model: {e}"),
        }
    }

    /// The model for summaries writes it; where that cannot, the conversation's own does.
    async fn write(&mut self, plan: &Plan, covers: u64, trigger: Trigger<'_>) -> Result<Asked, KeepError> {
        let own = self.provider.clone();
        let Some(side) = self.session.models.side(Side::Summary).filter(|s| s.info().id != own.info().id)
        else {
            return self.write_by(&own, plan, covers, trigger).await;
        };
        match self.write_by(&side, plan, covers, trigger).await? {
            Asked::Failed(e) => {
                tracing::warn!("the model for summaries wrote none: {e}");
                self.write_by(&own, plan, covers, trigger).await
            }
            asked => Ok(asked),
        }
    }

    async fn write_by(
        &mut self,
        provider: &Arc<dyn Provider>,
        plan: &Plan,
        covers: u64,
        trigger: Trigger<'_>,
    ) -> Result<Asked, KeepError> {
        let entries = self.journal.entries();
        let at = entries.partition_point(|s| s.seq < covers);
        let info = provider.info();
        let window = self.session.windows.of(&info);
        let mut used = Usage::default();
        let writer = Writer {
            session: self.session,
            provider,
            cancel: self.cancel,
            focus: match trigger {
                Trigger::Asked(focus) => focus,
                _ => "",
            },
            carries: summary::carries(window.room(&plan.before), plan.budgets.summary),
            bytes: bytes(plan.budgets.summary),
        };
        let asked = writer.write(&entries[..at], earlier(entries), &mut used).await;
        if used != Usage::default() {
            self.journal.append(vec![Side::Summary.entry(&info.id, used)]).await?;
        }
        Ok(asked)
    }

    fn digest(&self, plan: &Plan, covers: u64) -> String {
        let entries = self.journal.entries();
        digest::digest(entries, covers, earlier(entries), bytes(plan.budgets.summary))
    }

    /// Appends what the projection goes by, and the notice for a client that shows nothing else.
    async fn keep(
        &mut self,
        id: &MessageId,
        plan: &Plan,
        text: Option<String>,
        without: Option<String>,
        trigger: Trigger<'_>,
    ) -> Result<Outcome, KeepError> {
        let mut entries = Vec::new();
        if let (Some(text), Some(covers)) = (text, plan.cut.covers) {
            entries.push(Entry::Summary { id: id.clone(), covers, text });
        }
        if !plan.cut.prune.is_empty() {
            entries.push(Entry::Prune { calls: plan.cut.prune.clone() });
        }
        self.journal.append(entries).await?;
        let before = plan.before.used;
        let after = Measure::of(self.journal.entries()).used.min(plan.after.max(1));
        let outcome = Outcome::Done { before, after, without };
        if !self.editor.features().compaction && !matches!(trigger, Trigger::Asked(_)) {
            let (id, severity) = (MessageId::new(), Severity::Info);
            let (title, text) = ("Conversation compacted".to_owned(), outcome.words());
            let notice = Entry::Notice { id: id.clone(), severity, title: title.clone(), text: text.clone() };
            let kept = self.journal.append(vec![notice]).await;
            self.editor.update(&self.session.id, Update::Notice { id, severity, title, text }).await;
            kept?;
        }
        Ok(outcome)
    }

    fn window(&self) -> Window {
        self.session.windows.of(&self.provider.info())
    }

    async fn show(&self, id: &MessageId, status: CompactionStatus, text: Option<String>) {
        self.editor.update(&self.session.id, Update::Compaction { id: id.clone(), status, text }).await;
    }
}

/// Bytes around a summary and its facts, about.
const FRAMING: usize = OPENING.len() + BESIDE.len() + CLOSING.len() + context::SUMMARY.len() + 16;

/// What the model wrote of the summary in force; what stands beside it is made anew from the log.
fn earlier(entries: &[crate::log::Stored]) -> Option<&str> {
    let text = context::View::of(entries).summary?;
    let text = text.strip_prefix(OPENING).unwrap_or(text);
    Some(text.split_once(BESIDE).map_or(text, |(written, _)| written))
}

fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
}

/// Whether a summary is made without the model. Where the model cannot be reached at all and nothing forces us,
/// everything is kept as it is: the request that follows tells the person why.
fn goes_on_without(error: &ModelError, trigger: Trigger<'_>) -> bool {
    use ErrorKind::{Auth, ModelNotFound, Network, Quota, Tls};
    matches!(trigger, Trigger::TooLong) || !matches!(error.kind, Auth | Quota | Network | Tls | ModelNotFound)
}

/// Tokens that the next request has, about.
pub fn used(entries: &[crate::log::Stored]) -> u64 {
    Measure::of(entries).used
}

/// The size of the model's window, where it is known, for the meter that the editor shows.
pub fn known_window(session: &Session, provider: &dyn Provider) -> Option<u64> {
    let window = session.windows.of(&provider.info());
    window.known.then_some(window.size)
}

impl Outcome {
    /// For a person.
    pub fn words(&self) -> String {
        match self {
            Outcome::Done { before, after, without } => {
                let mut out = format!(
                    "about {} tokens became {}; the model now goes by a summary of the older messages, and you \
                     still see them all.",
                    thousands(*before),
                    thousands(*after)
                );
                if let Some(why) = without {
                    out.push_str(&format!(
                        " The summary was made from the log, because the model wrote none: {why}"
                    ));
                }
                out
            }
            Outcome::Nothing => {
                "there is nothing that could be shortened; the conversation is as it was.".into()
            }
            Outcome::Cancelled => "it was cancelled; the conversation is as it was.".into(),
            Outcome::Failed(why) => {
                format!("the model could not be asked; the conversation is as it was. {why}")
            }
        }
    }
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
