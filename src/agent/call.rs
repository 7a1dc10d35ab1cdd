//! One tool call: prepare → plan → permit → run → close. Whatever happens, it is closed exactly once (I10, I11).
mod replan;
mod unconfined;

use super::{
    ask::{self, Permitted},
    journal::{Journal, KeepError},
    live::Live,
    port::{CallChanged, CallOpened, CallStatus, Editor, Update},
    record::Recorded,
    redact,
    repeat::{self, Repeats},
    reply::Made,
    session::Session,
};
use crate::{
    effects::{Change, Effects},
    log::*,
    tools::{self, Cx, Output, Prepared, ToolError},
    workspace::Narrowed,
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use sha2::{Digest, Sha256};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long a cancelled call may still take to end a write that was already sent.
const WRITE_GRACE: Duration = Duration::from_secs(2);
/// How long a cancelled command may take to die.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// A call with its card on the screen.
pub struct Open {
    pub call: Call,
    card: Card,
    raw_input: serde_json::Value,
    prepared: Result<Box<dyn Prepared>, ToolError>,
    note: Option<String>,
    shared: bool,
    /// The question about it, for the audit.
    asked: Option<Entry>,
    /// It was to run outside the sandbox.
    unconfined: bool,
}

/// A call that has ended.
pub struct Closed {
    /// To be kept before `changed` is shown.
    pub entries: Vec<Entry>,
    pub changed: CallChanged,
    pub plan: Option<Vec<PlanItem>>,
    /// The person cancelled the question: the turn ends.
    pub gone: bool,
}

/// What became of a call.
struct End {
    outcome: Outcome,
    output: Output,
    gone: bool,
    touched: Vec<Touched>,
    /// Nothing was written, because a file was not what the plan was made for.
    outdated: bool,
}

impl End {
    fn told(outcome: Outcome, text: impl Into<String>) -> Self {
        End { outcome, output: Output::text(text), gone: false, touched: vec![], outdated: false }
    }
}

/// Checks a call and makes its card. `cut`: the output limit ended the reply, so its arguments may be cut.
pub fn open(session: &Session, made: Made, verdict: repeat::Verdict, cut: bool) -> Open {
    let Made { call, problem } = made;
    let raw_input: serde_json::Value = serde_json::from_str(&call.args).unwrap_or_default();
    let tool = tools::nearest(&call.name, &session.tools);
    let prepared = match (tool, problem) {
        (None, _) => Err(tools::unknown(&call.name, &session.tools)),
        (_, _) if cut => Err(ToolError::BadArguments(
            "the reply was cut off by the output limit, so this call was not run: repeat it with less in it"
                .into(),
        )),
        (_, Some(problem)) => Err(ToolError::BadArguments(problem)),
        (Some(tool), None) => tool.prepare(raw_input.clone()),
    };
    let card = first_card(session, &call.name, &prepared);
    let shared = prepared.is_err() || matches!(card.kind, ToolKind::Read | ToolKind::Search);
    let note = match verdict {
        repeat::Verdict::Note(n) | repeat::Verdict::Stop(n) => Some(repeat::note(n)),
        repeat::Verdict::Fine => None,
    };
    Open { call, card, raw_input, prepared, note, shared, asked: None, unconfined: false }
}

/// The card as it is first shown.
fn first_card(session: &Session, name: &str, prepared: &Result<Box<dyn Prepared>, ToolError>) -> Card {
    let ws: &dyn crate::workspace::Reader = &*session.workspace;
    let (title, locations) = match prepared {
        Ok(p) => (p.title(ws), p.locations(ws)),
        Err(_) => (format!("{name} (not run)"), vec![]),
    };
    let kind = tools::nearest(name, &session.tools).map_or(ToolKind::Other, |t| t.kind());
    Card { title: one_line(&title), kind, locations, shown: vec![] }
}

/// The card of a call that was never run, as it was shown when it came.
pub fn unrun_card(session: &Session, call: &Call) -> Card {
    let prepared = match (tools::nearest(&call.name, &session.tools), serde_json::from_str(&call.args)) {
        (Some(tool), Ok(args)) => tool.prepare(args),
        _ => Err(ToolError::Cancelled),
    };
    first_card(session, &call.name, &prepared)
}

/// One line of at most 200 characters, never empty.
pub fn one_line(title: &str) -> String {
    let line = title.split(['\n', '\r']).find(|l| !l.trim().is_empty()).unwrap_or("Tool call").trim();
    if line.chars().count() <= 200 {
        line.to_owned()
    } else {
        line.chars().take(199).chain(['…']).collect()
    }
}

impl Open {
    /// May run beside its neighbours.
    pub fn is_shared(&self) -> bool {
        self.shared
    }
    pub fn shown(&self) -> CallOpened {
        CallOpened {
            id: self.call.id.clone(),
            name: self.call.name.clone(),
            card: self.card.clone(),
            raw_input: self.raw_input.clone(),
            status: CallStatus::Pending,
        }
    }
}

/// Runs calls for one turn.
pub struct Caller<'t> {
    session: &'t Session,
    editor: &'t dyn Editor,
    cancel: &'t CancellationToken,
    /// At most one question is open per session.
    asking: tokio::sync::Mutex<()>,
}

impl<'t> Caller<'t> {
    pub fn new(session: &'t Session, editor: &'t dyn Editor, cancel: &'t CancellationToken) -> Self {
        Caller { session, editor, cancel, asking: tokio::sync::Mutex::default() }
    }

    /// Runs a segment. The results come in source order, one per call.
    pub async fn run(
        &self,
        segment: Vec<Open>,
        journal: &mut Journal,
        repeats: &mut Repeats,
    ) -> Result<Vec<Closed>, KeepError> {
        if let [only] = segment.as_slice()
            && !only.shared
        {
            let mut closed = Vec::new();
            for open in segment {
                closed.push(self.alone(open, journal, repeats).await?);
            }
            return Ok(closed);
        }
        let mut running: FuturesUnordered<_> = segment
            .into_iter()
            .enumerate()
            .map(|(i, open)| self.together(open, repeats).map(move |closed| (i, closed)))
            .collect();
        let mut closed = Vec::with_capacity(running.len());
        while let Some(done) = running.next().await {
            closed.push(done);
        }
        drop(running);
        closed.sort_by_key(|(i, _)| *i);
        Ok(closed.into_iter().map(|(_, c)| c).collect())
    }

    /// Closes calls that will not run because the turn is over.
    pub async fn skip_all(&self, segment: Vec<Open>) -> Vec<Closed> {
        let mut closed = Vec::with_capacity(segment.len());
        for open in segment {
            closed.push(self.close(open, End::told(Outcome::Cancelled, CANCELLED)).await);
        }
        closed
    }

    /// A read: nothing to be durable before it.
    async fn together(&self, mut open: Open, repeats: &Repeats) -> Closed {
        let end = match self.permit(&mut open, repeats).await {
            Err(end) => end,
            Ok((_, effects)) if !effects.is_pure_read() => End::told(
                Outcome::Failed,
                "this tool planned more than reading and was not run (this is a bug)",
            ),
            Ok((prepared, effects)) => self.effect(&open, prepared, effects).await,
        };
        self.close(open, end).await
    }

    /// Anything else: its plan, question and effect are one step, and `Began` is durable before the effect.
    async fn alone(
        &self,
        mut open: Open,
        journal: &mut Journal,
        repeats: &mut Repeats,
    ) -> Result<Closed, KeepError> {
        let (name, args) = (open.call.name.clone(), open.call.args.clone());
        let mut end = match self.permit(&mut open, repeats).await {
            Ok(permitted) => self.begin(&mut open, permitted, (journal, repeats)).await?,
            Err(end) => end,
        };
        if end.outdated {
            end = self.replan(&mut open, end, (journal, repeats)).await?;
        }
        if end.outcome == Outcome::Denied {
            repeats.refuse(&name, &args);
            if open.unconfined {
                repeats.refuse_unconfined();
            }
        }
        Ok(self.close(open, end).await)
    }

    /// What was permitted: `Began` first, then the effect.
    async fn begin(
        &self,
        open: &mut Open,
        (prepared, effects): (Box<dyn Prepared>, Effects),
        (journal, repeats): (&mut Journal, &mut Repeats),
    ) -> Result<End, KeepError> {
        let began = planned(&effects);
        if !began.is_empty() {
            let card = Some(Box::new(open.card.clone()));
            let began = Entry::Began { call: open.call.id.clone(), plan: began, card };
            journal.append(open.asked.take().into_iter().chain([began]).collect()).await?;
        }
        let permitted = effects.runs.is_some().then(|| effects.clone());
        let end = self.effect(open, prepared, effects).await;
        match permitted {
            Some(permitted) => self.unconfined(open, permitted, end, (journal, repeats)).await,
            None => Ok(end),
        }
    }

    /// Plans the call, asks where the policy says so, and shows it as running.
    async fn permit(&self, open: &mut Open, repeats: &Repeats) -> Result<(Box<dyn Prepared>, Effects), End> {
        if self.cancel.is_cancelled() {
            return Err(End::told(Outcome::Cancelled, CANCELLED));
        }
        if repeats.was_refused(&open.call.name, &open.call.args) {
            let text = "the user already rejected exactly this call: do something else, or ask them in words";
            return Err(End::told(Outcome::Denied, text));
        }
        let prepared = match std::mem::replace(&mut open.prepared, Err(ToolError::Cancelled)) {
            Ok(prepared) => prepared,
            Err(e) => return Err(failure(e)),
        };
        let work = async {
            let effects = match guarded(prepared.plan(&*self.session.workspace)).await {
                Ok(effects) => effects,
                Err(e) => return Err(failure(e)),
            };
            if let Some(why) = redact::refusal(&self.session.workspace.secrets(), &effects) {
                return Err(End::told(Outcome::Failed, why));
            }
            open.unconfined = effects.runs.as_ref().is_some_and(|c| c.unconfined);
            if open.unconfined && repeats.unconfined_was_refused() {
                return Err(End::told(Outcome::Denied, STAYS_CONFINED));
            }
            self.preview(open, &effects).await;
            let permitted = {
                let _one_at_a_time = self.asking.lock().await;
                let Open { call, card, raw_input, asked, .. } = &mut *open;
                let question =
                    ask::Ask { session: self.session, editor: self.editor, call: &call.id, card, raw_input };
                question.permit(effects, asked).await
            };
            match permitted {
                Permitted::Yes { effects, note } => Ok((*effects, note)),
                Permitted::No(text) => Err(End::told(Outcome::Denied, text)),
                Permitted::Gone => Err(End { gone: true, ..End::told(Outcome::Cancelled, CANCELLED) }),
            }
        };
        let (effects, note) = tokio::select! {
            biased;
            _ = self.cancel.cancelled() => return Err(End::told(Outcome::Cancelled, CANCELLED)),
            result = work => result?,
        };
        open.note = [open.note.take(), note].into_iter().flatten().reduce(|a, b| a + &b);
        let running = CallChanged {
            id: open.call.id.clone(),
            status: Some(CallStatus::InProgress),
            ..CallChanged::default()
        };
        self.update(running).await;
        Ok((prepared, effects))
    }

    /// Shows what the plan tells: the exact diff, the whole command, where.
    async fn preview(&self, open: &mut Open, effects: &Effects) {
        let (mut shown, locations) = super::preview::of(effects);
        redact::shown(&self.session.workspace.secrets(), &mut shown);
        let mut changed = CallChanged { id: open.call.id.clone(), ..CallChanged::default() };
        if !locations.is_empty() && locations != open.card.locations {
            open.card.locations = locations.clone();
            changed.locations = Some(locations);
        }
        if !shown.is_empty() {
            open.card.shown = shown.clone();
            changed.shown = Some(shown);
        }
        if changed.locations.is_some() || changed.shown.is_some() {
            self.update(changed).await;
        }
    }

    /// The effect itself. Once it began it is not dropped on a cancel: a write gets 2 s, a command 5 s to die.
    async fn effect(&self, open: &Open, prepared: Box<dyn Prepared>, effects: Effects) -> End {
        let cwd = effects.runs.as_ref().map(|c| c.cwd.as_path().to_owned());
        let live = Live::new(open.call.id.clone(), cwd, open.card.shown.clone());
        let ident = CallIdent { session: self.session.id.clone(), id: open.call.id.clone() };
        let grace = match (&effects.runs, effects.writes.is_empty()) {
            (Some(_), _) => Some(KILL_GRACE),
            (None, false) => Some(WRITE_GRACE),
            (None, true) => None,
        };
        let permitted = effects.clone();
        let recorded = Recorded::new(self.session);
        let narrowed = Narrowed::new(&recorded, &permitted);
        let cx = Cx {
            call: &ident,
            workspace: &narrowed,
            cancel: self.cancel.child_token(),
            progress: Arc::new(live.progress()),
            images: self.takes_images(),
        };
        let work = guarded(prepared.run(effects, cx));
        let shown = live.show(self.editor, &self.session.id, work);
        tokio::pin!(shown);
        let result = tokio::select! {
            biased;
            result = &mut shown => result,
            _ = self.cancel.cancelled() => match grace {
                None => Err(ToolError::Cancelled),
                Some(grace) => tokio::time::timeout(grace, shown).await.unwrap_or_else(|_| {
                    Err(ToolError::Unknown("cancelled while it was under way: it may have been applied".into()))
                }),
            },
        };
        let touched = recorded.take();
        let outcome = match &result {
            Ok(output) if self.cancel.is_cancelled() && output.failed => Outcome::Cancelled,
            Ok(output) if output.failed => Outcome::Failed,
            _ => Outcome::Ok,
        };
        match result {
            Ok(output) => End { outcome, output, gone: false, touched, outdated: false },
            Err(e) => End { touched, ..failure(e) },
        }
    }

    fn takes_images(&self) -> bool {
        let model = self.session.settings().model;
        self.session.models.provider(model.as_deref()).is_ok_and(|p| p.info().images)
    }

    async fn close(&self, open: Open, end: End) -> Closed {
        let mut entries: Vec<Entry> = open.asked.into_iter().collect();
        if !end.touched.is_empty() {
            entries.push(Entry::Touched { call: open.call.id.clone(), files: end.touched });
        }
        let mut card = open.card;
        let (mut output, secrets) = (end.output, self.session.workspace.secrets());
        if end.outcome != Outcome::Ok {
            output.text.extend(redact::hint(&secrets, &open.call.args));
        }
        redact::output(&secrets, &mut output);
        let told = match end.outcome {
            Outcome::Ok => output.text.clone(),
            _ if output.text.is_empty() => "failed".to_owned(),
            _ => output.text.clone(),
        };
        if !output.locations.is_empty() {
            card.locations = output.locations.clone();
        }
        match (output.shown.is_empty(), end.outcome) {
            (false, _) => card.shown = output.shown,
            // The diff or command stays, and under it why nothing came of it.
            (true, Outcome::Ok) if !card.shown.is_empty() => {}
            (true, _) => card.shown.push(Shown::Text { text: told.clone() }),
        }
        let text = super::bound::bound(
            &*self.session.workspace,
            &open.call.id,
            told,
            self.session.limits.result_bytes,
        )
        .await;
        let text = open.note.into_iter().fold(text, |text, note| text + &note);
        entries.push(Entry::Result {
            call: open.call.id.clone(),
            outcome: end.outcome,
            text,
            images: output.images,
            card: card.clone(),
        });
        let status = if end.outcome == Outcome::Ok { CallStatus::Completed } else { CallStatus::Failed };
        let changed = CallChanged {
            id: open.call.id,
            status: Some(status),
            locations: (!card.locations.is_empty()).then_some(card.locations),
            shown: Some(card.shown),
            ..CallChanged::default()
        };
        Closed { entries, changed, plan: output.plan, gone: end.gone }
    }

    async fn update(&self, changed: CallChanged) {
        self.editor.update(&self.session.id, Update::CallChanged(Box::new(changed))).await;
    }
}

const STAYS_CONFINED: &str = "the user rejected a run outside the sandbox in this turn, so this was not asked again: do \
    it another way, or tell them what it needs";
const CANCELLED: &str = "cancelled by the user";

fn failure(error: ToolError) -> End {
    match error {
        ToolError::Cancelled => End::told(Outcome::Cancelled, CANCELLED),
        ToolError::Unknown(text) => End::told(Outcome::Unknown, text),
        ToolError::BadArguments(text) | ToolError::Failed(text) => End::told(Outcome::Failed, text),
        ToolError::Changed(text) => End { outdated: true, ..End::told(Outcome::Failed, text) },
    }
}

/// A tool that panics fails its call, not the turn.
async fn guarded<T>(work: BoxFuture<'_, Result<T, ToolError>>) -> Result<T, ToolError> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        Err(ToolError::Failed("the tool crashed (this is a bug of the agent); try another way".into()))
    })
}

/// What tells after a crash whether the effect happened.
fn planned(effects: &Effects) -> Vec<Planned> {
    let hash = |text: &crate::workspace::text::Text| {
        text.to_bytes()
            .ok()
            .map(|bytes| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>())
    };
    let file = |path: &crate::effects::WsPath, old: Option<String>, new: Option<String>| Planned::File {
        path: path.as_path().to_owned(),
        old,
        new,
    };
    let mut plan = Vec::new();
    for change in &effects.writes {
        match change {
            Change::Write { path, old, new } => plan.push(file(path, old.as_ref().and_then(hash), hash(new))),
            Change::Delete { path, old } => plan.push(file(path, hash(old), None)),
            Change::Move { from, to, old, new } => {
                plan.push(file(from, hash(old), None));
                plan.push(file(to, None, hash(new)));
            }
        }
    }
    plan.extend(effects.runs.iter().map(|c| Planned::Command { text: c.text.clone() }));
    plan.extend(effects.reaches.iter().map(|host| Planned::Reach { host: host.clone() }));
    plan
}
