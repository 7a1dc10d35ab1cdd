//! The loop: model → tool calls → results → model, until it has nothing more to do.
use super::{
    call::{self, Caller},
    compact::{self, Compaction, Tally},
    context,
    journal::{Journal, KeepError},
    port::{CallChanged, CallStatus, Editor, Update},
    prompt,
    repeat::{self, Repeats},
    reply::{self, Ending, Made, Reply},
    session::Session,
};
use crate::{
    id::{CallId, MessageId},
    log::{Entry, Part, PlanItem, PromptState, Severity, Shown, Stored, Usage},
    model::{
        ErrorKind, Finish, ModelError, Provider, Request,
        retry::{Budget, Retrying},
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
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
    repeats: Repeats,
    requests: u32,
    usage: Usage,
    calls: u32,
    tally: Tally,
    /// How often each tool was called.
    tools: BTreeMap<String, u32>,
}

const NUDGE_EMPTY: &str =
    "[Your last reply was empty. Go on with the task, or say to the user what you did and found.]";
const NUDGE_LAST_WORD: &str = "[You have used up the model requests of this turn and have no tools any more. Tell the \
     user in a few sentences what is done, what is not, and what you would do next.]";

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
            tools: BTreeMap::new(),
        }
    }

    /// Runs the turn to its end. Whatever happens is in the log; a cancel is never an error (I12).
    pub async fn run(mut self, prompt: Prompt) -> Result<Stop, TurnError> {
        let steering = self.session.steering.open();
        let started = self.start(prompt).await;
        let result = match started {
            Ok(()) => self.drive().await,
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
        self.session.settle_grants().await;
        let sent = |s: &Stored| matches!(s.entry, Entry::User { state: PromptState::Sent, .. });
        let first = !self.session.is_titled() && !self.journal.entries().iter().any(sent);
        let title = first.then(|| prompt::title(&prompt.parts)).flatten();
        let mut entries = Vec::new();
        if let Some(frame) = prompt::frame(self.session, self.journal.entries()) {
            entries.push(frame);
        }
        let volatile = [prompt.meaning, prompt::volatile(self.session).await];
        let volatile = volatile.into_iter().flatten().reduce(|meaning, more| format!("{meaning}\n\n{more}"));
        entries.push(Entry::User { id: prompt.id, parts: prompt.parts, state: PromptState::Sent, volatile });
        self.journal.append(entries).await?;
        let unserved = self.session.take_unserved();
        if !unserved.is_empty() {
            let text = format!(
                "This version starts no MCP servers, so their tools are missing: {}.",
                unserved.join(", ")
            );
            self.notice(Severity::Warning, "MCP servers are not started", &text).await?;
        }
        if let Some(title) = title {
            self.session.entitle();
            self.journal.keep().title(&self.session.id, &title);
            self.update(Update::Title(title)).await;
        }
        Ok(())
    }

    async fn drive(&mut self) -> Result<Stop, TurnError> {
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

    /// Asks, with a conversation that fits: compacted before, and again if the model refuses it as too long.
    async fn ask_model(&mut self, with_tools: bool) -> Result<Reply, TurnError> {
        self.make_room(None).await?;
        loop {
            let reply = self.send(with_tools).await?;
            match &reply.ending {
                Ending::Failed(e) if e.kind == ErrorKind::TooLong => {
                    if !self.make_room(Some(e)).await? {
                        return Ok(reply);
                    }
                    self.keep(&reply).await?;
                }
                _ => {
                    self.tally.answered();
                    return Ok(reply);
                }
            }
        }
    }

    /// Whether the request is worth sending (again).
    async fn make_room(&mut self, refused: Option<&ModelError>) -> Result<bool, TurnError> {
        let provider = self.session.models.provider(self.session.settings().model.as_deref())?;
        let compaction = Compaction {
            session: self.session,
            journal: self.journal,
            editor: self.editor,
            cancel: &self.cancel,
            provider,
            usage: &mut self.usage,
        };
        Ok(compaction.make_room(&mut self.tally, self.requests, refused).await?)
    }

    /// One request: streamed to the editor, gathered, not yet kept.
    async fn send(&mut self, with_tools: bool) -> Result<Reply, TurnError> {
        let settings = self.session.settings();
        let provider = self.session.models.provider(settings.model.as_deref())?;
        let request = self.request(&*provider, settings.effort, with_tools);
        self.requests += 1;
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        let budget = Budget { total: self.session.limits.retry_budget, ..Budget::default() };
        let retrying = Retrying::new(provider.clone(), budget, move |notice| _ = tell.send(notice.clone()));
        let hearing = reply::Hearing {
            session: &self.session.id,
            editor: self.editor,
            journal: self.journal,
            cancel: &self.cancel,
        };
        let reply = hearing.gather(retrying.stream(&request), told).await;
        if let Some(usage) = reply.usage {
            self.usage += usage;
            if let Some(size) = compact::known_window(self.session, &*provider) {
                let used = (usage.input + usage.output).min(size);
                self.update(Update::Usage { used, size }).await;
            }
        }
        Ok(reply)
    }

    fn request(&self, provider: &dyn Provider, effort: Option<String>, with_tools: bool) -> Request {
        let entries = self.journal.entries();
        let (system, tools) = context::frame(entries).unwrap_or_default();
        Request {
            model: provider.info().id,
            system,
            tools: if with_tools { tools.into() } else { Arc::from([]) },
            messages: context::messages(entries),
            effort,
            max_output: None,
            cache_key: self.session.id.to_string(),
        }
    }

    /// Keeps a reply and does what it asks for.
    async fn follow(&mut self, mut reply: Reply, nudged: bool) -> Result<Next, TurnError> {
        self.keep(&reply).await?;
        let calls = std::mem::take(&mut reply.calls);
        let finish = match reply.ending {
            Ending::Cancelled => return Ok(Next::End(Stop::Cancelled)),
            Ending::Failed(e) => return Err(e.into()),
            Ending::Finished(finish) => finish,
        };
        if !calls.is_empty() {
            return self.run_calls(calls, finish == Finish::Length).await;
        }
        match finish {
            Finish::Length => Ok(Next::End(Stop::MaxTokens)),
            Finish::Refusal => Ok(Next::End(Stop::Refusal)),
            Finish::Pause => Ok(Next::Go),
            Finish::Stop | Finish::ToolCalls if reply.has_text() => Ok(Next::End(Stop::EndTurn)),
            Finish::Stop | Finish::ToolCalls if !nudged => Ok(Next::Nudge),
            Finish::Stop | Finish::ToolCalls => self.silent().await,
        }
    }

    async fn keep(&mut self, reply: &Reply) -> Result<(), TurnError> {
        let model =
            self.session.settings().model.or_else(|| self.session.models.default_id()).unwrap_or_default();
        if let Some(entry) = reply.entry(&model) {
            self.journal.append(vec![entry]).await?;
        }
        Ok(())
    }

    /// The model said nothing, twice. After work was done that ends the turn, said so; else it is a failure.
    async fn silent(&mut self) -> Result<Next, TurnError> {
        if self.calls > 0 {
            let text = "It ran its tools and then replied with nothing, twice. Check its work above.";
            self.notice(Severity::Warning, "The model ended without a word", text).await?;
            return Ok(Next::End(Stop::EndTurn));
        }
        Err(TurnError::Model(ModelError {
            kind: ErrorKind::Malformed,
            message: "the model replied with nothing, twice. Try again, or choose another model".into(),
            host: String::new(),
            status: None,
            retry_after: None,
        }))
    }

    /// Runs the calls of one message in segments, in source order: a maximal run of pure reads together, every other
    /// call alone. Each gets exactly one result (I10), whatever happens.
    async fn run_calls(&mut self, calls: Vec<Made>, cut: bool) -> Result<Next, TurnError> {
        let mut open = Vec::with_capacity(calls.len());
        let last = calls.len() - 1;
        let mut stop = None;
        for (i, made) in calls.into_iter().enumerate() {
            self.calls += 1;
            *self.tools.entry(made.call.name.clone()).or_default() += 1;
            let verdict = self.repeats.count(&made.call.name, &made.call.args);
            if let repeat::Verdict::Stop(n) = verdict {
                stop = Some((made.call.name.clone(), n));
            }
            let opened = call::open(self.session, made, verdict, cut && i == last);
            self.update(Update::Call(Box::new(opened.shown()))).await;
            open.push(opened);
        }
        let gone = match self.run_segments(open).await {
            Ok(gone) => gone,
            Err((e, unclosed)) => {
                self.close_unkept(unclosed, &e).await;
                return Err(e);
            }
        };
        if gone || self.cancel.is_cancelled() {
            return Ok(Next::End(Stop::Cancelled));
        }
        if let Some((name, n)) = stop {
            let text = format!("The model called `{name}` with the same arguments {n} times in a row.");
            self.notice(Severity::Warning, "Stopped: the model repeats itself", &text).await?;
            return Ok(Next::End(Stop::MaxTurnRequests));
        }
        Ok(Next::Go)
    }

    /// Whether the person cancelled a question. An error comes with the calls whose cards are still open.
    async fn run_segments(&mut self, open: Vec<call::Open>) -> Result<bool, (TurnError, Vec<CallId>)> {
        let mut ids: VecDeque<CallId> = open.iter().map(|o| o.call.id.clone()).collect();
        let mut open = VecDeque::from(open);
        let mut gone = false;
        while !open.is_empty() {
            let shared = open.iter().take_while(|o| o.is_shared()).count();
            let segment: Vec<_> = open.drain(..shared.max(1)).collect();
            match self.run_segment(segment, gone, &mut ids).await {
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

    async fn notice(&mut self, severity: Severity, title: &str, text: &str) -> Result<(), TurnError> {
        let id = MessageId::new();
        let entry = Entry::Notice { id: id.clone(), severity, title: title.into(), text: text.into() };
        // A notice that cannot be kept is still shown.
        let kept = self.journal.append(vec![entry]).await;
        self.update(Update::Notice { id, severity, title: title.into(), text: text.into() }).await;
        kept.map_err(Into::into)
    }

    async fn update(&self, update: Update) {
        self.editor.update(&self.session.id, update).await;
    }
}
