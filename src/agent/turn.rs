//! The loop: model → tool calls → results → model, until it has nothing more to do.
use super::{
    asking::{Asking, Cut},
    call::{self, Caller},
    compact::Tally,
    journal::{Journal, KeepError},
    port::{CallChanged, CallStatus, Editor, Update},
    prompt,
    repeat::{self, Repeats},
    reply::{Ending, Made, Reply},
    session::Session,
};
use crate::{
    id::{CallId, MessageId},
    log::{Entry, Outcome, Part, PlanItem, PromptState, Severity, Shown, Stored, Usage},
    model::{ErrorKind, Finish, ModelError},
    tools,
};
use std::collections::{BTreeMap, VecDeque};
use tokio_util::sync::CancellationToken;

/// How a turn ended well. What ended badly is a [`TurnError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

impl Stop {
    pub fn name(self) -> &'static str {
        match self {
            Stop::EndTurn => "end_turn",
            Stop::MaxTokens => "max_tokens",
            Stop::MaxTurnRequests => "max_turn_requests",
            Stop::Refusal => "refusal",
            Stop::Cancelled => "cancelled",
        }
    }
}

/// Why a turn could not go on. The session can always be prompted again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// A prompt as it was admitted.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub id: MessageId,
    /// As the person wrote it.
    pub parts: Vec<Part>,
    /// What it means, told to the model alone: the text that a slash command stands for.
    pub meaning: Option<String>,
}

/// One turn of one session. It borrows everything and spawns nothing: dropped, it is over.
pub struct Turn<'s> {
    pub session: &'s Session,
    pub journal: &'s mut Journal,
    pub editor: &'s dyn Editor,
    pub cancel: CancellationToken,
    pub(super) repeats: Repeats,
    pub(super) requests: u32,
    pub(super) usage: Usage,
    calls: u32,
    pub(super) tally: Tally,
    pub(super) asking: Asking,
    /// The prompt of a session that had no title before.
    pub(super) untitled: Option<String>,
    /// How often each tool was called.
    tools: BTreeMap<String, u32>,
}

const NUDGE_EMPTY: &str =
    "[Your last reply was empty. Go on with the task, or say to the user what you did and found.]";
const NUDGE_LAST_WORD: &str = "[You have used up the model requests of this turn and have no tools any more. Tell the \
     user in a few sentences what is done, what is not, and what you would do next.]";

/// How the calls of one reply ended.
#[derive(Default)]
struct Failures {
    words: Option<String>,
    /// One did not fail, or in another way.
    mixed: bool,
    /// What the last one gave.
    last: Option<String>,
}

impl Failures {
    fn count(&mut self, entries: &[Entry]) {
        for entry in entries {
            let Entry::Result { outcome, text, .. } = entry else { continue };
            self.last = Some(text.clone());
            match &self.words {
                _ if *outcome == Outcome::Ok => self.mixed = true,
                Some(words) if words != text => self.mixed = true,
                Some(_) => {}
                None => self.words = Some(text.clone()),
            }
        }
    }
    /// The words that all of them failed with.
    fn all_alike(&self) -> Option<&str> {
        self.words.as_deref().filter(|_| !self.mixed)
    }
}

/// What to do after a reply.
enum Next {
    Go,
    Nudge,
    End(Stop),
}

impl<'s> Turn<'s> {
    pub fn new(
        session: &'s Session,
        journal: &'s mut Journal,
        editor: &'s dyn Editor,
        cancel: CancellationToken,
    ) -> Self {
        Turn {
            session,
            journal,
            editor,
            cancel,
            repeats: Repeats::default(),
            requests: 0,
            usage: Usage::default(),
            calls: 0,
            tally: Tally::default(),
            asking: Asking::default(),
            untitled: None,
            tools: BTreeMap::new(),
        }
    }

    /// Runs the turn to its end. Whatever happens is in the log; a cancel is never an error (I12).
    pub async fn run(mut self, prompt: Prompt) -> Result<Stop, TurnError> {
        let steering = self.session.steering.open();
        let started = self.start(prompt).await;
        let result = match started {
            Ok(()) => self.drive_beside_title().await,
            Err(e) => Err(e),
        };
        let result = if self.cancel.is_cancelled() { Ok(Stop::Cancelled) } else { result };
        self.withdraw_steers(steering).await;
        let (stop, detail) = match &result {
            Ok(stop) => (stop.name(), None),
            Err(e) => ("error", Some(e.to_string())),
        };
        if let Some(text) = &detail {
            self.notice(Severity::Error, "The turn failed", text).await?;
        }
        let ended = Entry::Ended {
            stop: stop.into(),
            requests: self.requests,
            usage: self.usage,
            detail,
            tools: std::mem::take(&mut self.tools),
        };
        match self.journal.append(vec![ended]).await {
            Err(e) if !matches!(result, Ok(Stop::Cancelled)) => Err(e.into()),
            _ => result,
        }
    }

    async fn start(&mut self, prompt: Prompt) -> Result<(), TurnError> {
        self.session.settle().await;
        let sent = |s: &Stored| matches!(s.entry, Entry::User { state: PromptState::Sent, .. });
        let first = !self.session.is_titled() && !self.journal.entries().iter().any(sent);
        let title = first.then(|| prompt::title(&prompt.parts)).flatten();
        self.untitled = title.as_ref().map(|_| prompt::text(&prompt.parts));
        let (mut entries, begins) = (Vec::new(), self.journal.entries().is_empty());
        if let Some(frame) = prompt::frame(self.session, self.journal.entries()) {
            entries.push(frame);
        }
        let volatile = [prompt.meaning, prompt::volatile(self.session).await];
        let volatile = volatile.into_iter().flatten().reduce(|meaning, more| format!("{meaning}\n\n{more}"));
        entries.push(Entry::User { id: prompt.id, parts: prompt.parts, state: PromptState::Sent, volatile });
        self.journal.append(entries).await?;
        if begins {
            let notes: Vec<_> = self.session.instructions.iter().filter_map(|i| i.note.as_deref()).collect();
            for note in notes {
                self.notice(Severity::Warning, "Instructions", note).await?;
            }
        }
        let unserved = self.session.take_unserved();
        if !unserved.is_empty() {
            let text = format!(
                "This version starts no MCP servers, so their tools are missing: {}.",
                unserved.join(", ")
            );
            self.notice(Severity::Warning, "MCP servers are not started", &text).await?;
        }
        self.prepare().await?;
        if let Some(title) = title {
            self.session.entitle();
            self.journal.keep().title(&self.session.id, &title);
            self.update(Update::Title(title)).await;
        }
        Ok(())
    }

    pub(super) async fn drive(&mut self) -> Result<Stop, TurnError> {
        let mut nudged = false;
        while self.requests < self.session.limits.iterations {
            if self.cancel.is_cancelled() {
                return Ok(Stop::Cancelled);
            }
            let steers = self.session.steering.take();
            self.steer(steers).await?;
            let reply = self.ask_model(true).await?;
            match self.follow(reply, nudged).await? {
                Next::Go => nudged = false,
                Next::Nudge => {
                    nudged = true;
                    self.journal.append(vec![Entry::Nudge { text: NUDGE_EMPTY.into() }]).await?;
                }
                Next::End(Stop::EndTurn) => {
                    let steers = self.session.steering.take_or_close();
                    if steers.is_empty() {
                        return Ok(Stop::EndTurn);
                    }
                    self.steer(steers).await?;
                }
                Next::End(stop) => return Ok(stop),
            }
        }
        self.last_word().await
    }

    /// The budget is used up: one more request, without tools, so that the person gets a summary.
    async fn last_word(&mut self) -> Result<Stop, TurnError> {
        self.journal.append(vec![Entry::Nudge { text: NUDGE_LAST_WORD.into() }]).await?;
        let mut reply = self.ask_model(false).await?;
        reply.calls.clear();
        reply.blocks.retain(|b| !matches!(b, crate::log::Block::Call(_)));
        self.keep(&reply).await?;
        match reply.ending {
            Ending::Failed(e) => Err(e.into()),
            Ending::Cancelled => Ok(Stop::Cancelled),
            Ending::Finished(_) => Ok(Stop::MaxTurnRequests),
        }
    }

    /// Keeps a reply and does what it asks for.
    async fn follow(&mut self, mut reply: Reply, nudged: bool) -> Result<Next, TurnError> {
        self.keep(&reply).await?;
        let calls = std::mem::take(&mut reply.calls);
        let finish = match &reply.ending {
            Ending::Cancelled => return Ok(Next::End(Stop::Cancelled)),
            Ending::Failed(e) if e.kind == ErrorKind::Refused => return self.refused(&e.clone()).await,
            // The window is full and could not be made emptier: a limit like any other.
            Ending::Failed(e) if e.kind == ErrorKind::TooLong && reply.has_text() => {
                let text = e.message.clone();
                self.notice(Severity::Warning, "Cut off where the context was full", &text).await?;
                return Ok(Next::End(Stop::MaxTokens));
            }
            Ending::Failed(e) => return Err(e.clone().into()),
            Ending::Finished(finish) => *finish,
        };
        let went_on = self.was_cut();
        if finish != Finish::Length {
            self.came_whole();
        }
        match finish {
            Finish::Length => {
                let cut = self.cut_off(&reply, !calls.is_empty()).await?;
                let next = if calls.is_empty() { Next::Go } else { self.run_calls(calls, true).await? };
                match cut {
                    Cut::GiveUp if matches!(next, Next::Go) => Ok(Next::End(Stop::MaxTokens)),
                    _ => Ok(next),
                }
            }
            Finish::Refusal => self.filtered(calls).await,
            _ if !calls.is_empty() => self.run_calls(calls, false).await,
            Finish::Pause => Ok(Next::Go),
            Finish::Stop | Finish::ToolCalls if self.is_unfinished(&reply).await? => Ok(Next::Go),
            Finish::Stop | Finish::ToolCalls if reply.has_text() || went_on => Ok(Next::End(Stop::EndTurn)),
            Finish::Stop | Finish::ToolCalls if !nudged => Ok(Next::Nudge),
            Finish::Stop | Finish::ToolCalls => self.silent().await,
        }
    }

    /// The provider would not take the request for what is in it.
    async fn refused(&mut self, error: &ModelError) -> Result<Next, TurnError> {
        self.notice(Severity::Warning, "The provider refused this", &error.message).await?;
        self.forget().await
    }

    /// A filter ended the reply: what it called for by then is not run.
    async fn filtered(&mut self, mut calls: Vec<Made>) -> Result<Next, TurnError> {
        let run = self.calls;
        if !calls.is_empty() {
            for made in &mut calls {
                made.problem =
                    Some("a filter of the provider ended this reply, so its calls were not run".into());
            }
            if let Next::End(Stop::Cancelled) = self.run_calls(calls, false).await? {
                return Ok(Next::End(Stop::Cancelled));
            }
        }
        self.calls = run;
        self.forget().await
    }

    /// After a refusal the prompt is not sent again: it would be refused each time (ACP, stop reason `refusal`). What
    /// tools have done since stays in the conversation.
    async fn forget(&mut self) -> Result<Next, TurnError> {
        let sent = |s: &&Stored| matches!(s.entry, Entry::User { state: PromptState::Sent, .. });
        if self.calls == 0
            && let Some(prompt) = self.journal.entries().iter().rev().find(sent).map(|s| s.seq)
        {
            self.journal.append(vec![Entry::Rewind { to: prompt }]).await?;
        }
        Ok(Next::End(Stop::Refusal))
    }

    /// The model said nothing, twice. After work was done that ends the turn, said so; else it is a failure.
    async fn silent(&mut self) -> Result<Next, TurnError> {
        if self.calls > 0 {
            let text = "It ran its tools and then replied with nothing, twice. Check its work above.";
            self.notice(Severity::Warning, "The model ended without a word", text).await?;
            return Ok(Next::End(Stop::EndTurn));
        }
        let error = ModelError {
            kind: ErrorKind::Malformed,
            message: "the model replied with nothing, twice. Try again, or choose another model.".into(),
            host: String::new(),
            status: None,
            retry_after: None,
        };
        if self.fall_back(&error).await? { Ok(Next::Go) } else { Err(error.into()) }
    }

    /// Runs the calls of one message in segments, in source order: a maximal run of pure reads together, every other
    /// call alone. Each gets exactly one result (I10), whatever happens.
    async fn run_calls(&mut self, calls: Vec<Made>, cut: bool) -> Result<Next, TurnError> {
        let mut open = Vec::with_capacity(calls.len());
        let last = calls.len() - 1;
        let waits = calls.iter().all(|made| made.call.name == tools::WAITS);
        let mut stop = None;
        for (i, made) in calls.into_iter().enumerate() {
            self.calls += 1;
            *self.tools.entry(made.call.name.clone()).or_default() += 1;
            // Whoever waits for a job may look as often as it likes, while there is something to wait for.
            let verdict = if waits {
                repeat::Verdict::Fine
            } else {
                self.repeats.count(&made.call.name, &made.call.args)
            };
            if let repeat::Verdict::Stop(n) = verdict {
                stop = Some((made.call.name.clone(), n));
            }
            let opened = call::open(self.session, made, verdict, cut && i == last);
            self.update(Update::Call(Box::new(opened.shown()))).await;
            open.push(opened);
        }
        let mut failures = Failures::default();
        let gone = match self.run_segments(open, &mut failures).await {
            Ok(gone) => gone,
            Err((e, unclosed)) => {
                self.close_unkept(unclosed, &e).await;
                return Err(e);
            }
        };
        if gone || self.cancel.is_cancelled() {
            return Ok(Next::End(Stop::Cancelled));
        }
        if waits
            && let Some(text) = &failures.last
            && let repeat::Verdict::Stop(n) = self.repeats.count(tools::WAITS, text)
        {
            stop = Some((tools::WAITS.into(), n));
        }
        if let Some((name, n)) = stop {
            let text = format!("The model called `{name}` with the same arguments {n} times in a row.");
            self.notice(Severity::Warning, "Stopped: the model repeats itself", &text).await?;
            return Ok(Next::End(Stop::MaxTurnRequests));
        }
        match self.repeats.failed(failures.all_alike()) {
            repeat::Verdict::Fine => {}
            repeat::Verdict::Note(n) => {
                self.journal.append(vec![Entry::Nudge { text: repeat::failing(n) }]).await?;
            }
            repeat::Verdict::Stop(n) => {
                let text = format!(
                    "The calls of its last {n} replies all failed in the same way: see the last one."
                );
                self.notice(Severity::Warning, "Stopped: the model gets no further", &text).await?;
                return Ok(Next::End(Stop::MaxTurnRequests));
            }
        }
        Ok(Next::Go)
    }

    /// Whether the person cancelled a question. An error comes with the calls whose cards are still open.
    async fn run_segments(
        &mut self,
        open: Vec<call::Open>,
        failures: &mut Failures,
    ) -> Result<bool, (TurnError, Vec<CallId>)> {
        let mut ids: VecDeque<CallId> = open.iter().map(|o| o.call.id.clone()).collect();
        let mut open = VecDeque::from(open);
        let mut gone = false;
        while !open.is_empty() {
            let shared = open.iter().take_while(|o| o.is_shared()).count();
            let segment: Vec<_> = open.drain(..shared.max(1)).collect();
            match self.run_segment(segment, gone, &mut ids, failures).await {
                Ok(now) => gone |= now,
                Err(e) => return Err((e, ids.into())),
            }
        }
        Ok(gone)
    }

    /// The store takes nothing more: the cards that are open are closed all the same (I11).
    async fn close_unkept(&self, calls: Vec<CallId>, error: &TurnError) {
        for id in calls {
            let shown = Some(vec![Shown::Text { text: error.to_string() }]);
            let closed =
                CallChanged { id, status: Some(CallStatus::Failed), shown, ..CallChanged::default() };
            self.update(Update::CallChanged(Box::new(closed))).await;
        }
    }

    /// Whether the person cancelled a question, which ends the turn.
    async fn run_segment(
        &mut self,
        segment: Vec<call::Open>,
        skip: bool,
        unclosed: &mut VecDeque<CallId>,
        failures: &mut Failures,
    ) -> Result<bool, TurnError> {
        let caller = Caller::new(self.session, self.editor, &self.cancel);
        let closed = if skip {
            caller.skip_all(segment).await
        } else {
            caller.run(segment, self.journal, &mut self.repeats).await?
        };
        let (mut gone, mut plan) = (false, None);
        for closed in closed {
            gone |= closed.gone;
            plan = closed.plan.or(plan);
            failures.count(&closed.entries);
            self.journal.append(closed.entries).await?;
            unclosed.pop_front();
            self.update(Update::CallChanged(Box::new(closed.changed))).await;
        }
        if let Some(items) = plan {
            self.show_plan(items).await?;
        }
        Ok(gone)
    }

    async fn show_plan(&mut self, items: Vec<PlanItem>) -> Result<(), TurnError> {
        self.journal.append(vec![Entry::Plan { items: items.clone() }]).await?;
        self.update(Update::Plan(items)).await;
        Ok(())
    }

    /// Learns what a server nearby has in force, and tells what a person should know of it.
    async fn prepare(&mut self) -> Result<(), TurnError> {
        let prepared = self.session.models.prepare(self.session.settings().model.as_deref()).await;
        if prepared.changed {
            self.update(Update::Settings).await;
        }
        match prepared.caution.filter(|text| self.session.is_news(text)) {
            Some(text) => self.notice(Severity::Warning, "The model's window is too small", &text).await,
            None => Ok(()),
        }
    }

    pub(super) async fn notice(
        &mut self,
        severity: Severity,
        title: &str,
        text: &str,
    ) -> Result<(), TurnError> {
        let id = MessageId::new();
        let entry = Entry::Notice { id: id.clone(), severity, title: title.into(), text: text.into() };
        // A notice that cannot be kept is still shown.
        let kept = self.journal.append(vec![entry]).await;
        self.update(Update::Notice { id, severity, title: title.into(), text: text.into() }).await;
        kept.map_err(Into::into)
    }

    pub(super) async fn update(&self, update: Update) {
        self.editor.update(&self.session.id, update).await;
    }
}
