//! Turns in memory: the real turn, calls, gate and projections over a scripted model, a fake editor and a fake workspace.
mod asking;
mod cancel;
mod compact;
mod crash;
mod history;
mod random;
mod secrets;
mod side;
mod turns;
mod undo;

use super::{
    journal::{Journal, Keep, KeepError},
    port::*,
    session::{Folders, Limits, Models, Parts, Session},
    turn::{Prompt, Stop, Turn, TurnError},
};
use crate::{
    effects::Effects,
    id::*,
    log::*,
    model::{ModelError, ModelInfo, Provider, scripted::Scripted},
    permit::{Grant, Grants, Scope},
    tools::{self, Cx, Output, Tool, ToolError, fake::Fake},
    workspace::Reader,
};
use async_trait::async_trait;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio_util::sync::CancellationToken;

pub(super) struct One(pub Arc<Scripted>);
impl Models for One {
    fn provider(&self, _: Option<&str>) -> Result<Arc<dyn Provider>, ModelError> {
        Ok(self.0.clone())
    }
    fn choices(&self) -> Vec<ModelInfo> {
        vec![self.0.info()]
    }
    fn default_id(&self) -> Option<String> {
        Some(self.0.info().id)
    }
}

/// Keeps in memory; can be told to fail.
#[derive(Default)]
pub(super) struct Memory {
    pub entries: Mutex<Vec<Stored>>,
    pub grants: Mutex<Vec<Grant>>,
    pub full: std::sync::atomic::AtomicBool,
    pub contents: Mutex<Vec<Vec<u8>>>,
    pub windows: Mutex<Vec<(String, u64)>>,
}
#[async_trait]
impl Keep for Memory {
    async fn append(&self, _: &SessionId, entries: Vec<Stored>) -> Result<(), KeepError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(KeepError("there is no space left".into()));
        }
        self.entries.lock().unwrap().extend(entries);
        Ok(())
    }
    fn draft(&self, _: &SessionId, _: &MessageId, _: &str, _: &str) {}
    async fn grants(&self, _: &SessionId) -> Result<Vec<Grant>, KeepError> {
        Ok(self.grants.lock().unwrap().clone())
    }
    async fn grant(&self, _: &SessionId, grant: Grant) -> Result<(), KeepError> {
        self.grants.lock().unwrap().push(grant);
        Ok(())
    }
    async fn snapshot(&self, _: &SessionId, contents: Vec<Vec<u8>>) -> Result<(), KeepError> {
        self.contents.lock().unwrap().extend(contents);
        Ok(())
    }
    async fn content(&self, sha256: &str) -> Option<Vec<u8>> {
        let contents = self.contents.lock().unwrap();
        contents.iter().find(|c| crate::workspace::census::Content::of(c).bytes == sha256).cloned()
    }
    fn title(&self, _: &SessionId, _: &str) {}
    fn settings(&self, _: &SessionId, _: &Settings) {}
    async fn windows(&self) -> Result<Vec<(String, u64)>, KeepError> {
        Ok(self.windows.lock().unwrap().clone())
    }
    fn window(&self, model: &str, tokens: u64) {
        self.windows.lock().unwrap().push((model.to_owned(), tokens));
    }
}

type Policy = Box<dyn Fn(&Question) -> Answer + Send + Sync>;

/// Records what a person would see, and answers questions.
pub(super) struct FakeEditor {
    pub seen: Mutex<Vec<Update>>,
    pub asked: Mutex<Vec<Question>>,
    pub answer: Policy,
    pub features: Features,
    /// Cancelled when a question is asked, and the question is never answered.
    pub cancel_on_ask: Option<CancellationToken>,
}
pub(super) fn yes() -> Answer {
    Answer::Yes { scope: Scope::Once, hunks: None, comment: None }
}
impl Default for FakeEditor {
    fn default() -> Self {
        FakeEditor {
            seen: Mutex::default(),
            asked: Mutex::default(),
            answer: Box::new(|_| yes()),
            features: Features::default(),
            cancel_on_ask: None,
        }
    }
}
impl FakeEditor {
    pub fn answering(answer: impl Fn(&Question) -> Answer + Send + Sync + 'static) -> Self {
        FakeEditor { answer: Box::new(answer), ..Default::default() }
    }
    pub fn text(&self) -> String {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter_map(|u| match u {
                Update::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
    pub fn notices(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter_map(|u| match u {
                Update::Notice { title, .. } => Some(title.clone()),
                _ => None,
            })
            .collect()
    }
}
#[async_trait]
impl Editor for FakeEditor {
    async fn update(&self, _: &SessionId, update: Update) {
        self.seen.lock().unwrap().push(update);
    }
    async fn ask(&self, _: &SessionId, question: Question) -> Answer {
        let answer = (self.answer)(&question);
        self.asked.lock().unwrap().push(question);
        if let Some(token) = &self.cancel_on_ask {
            token.cancel();
            std::future::pending::<()>().await;
        }
        answer
    }
    fn features(&self) -> Features {
        self.features
    }
}

/// A read that counts how many of it run at once, and yields in between.
#[derive(Clone, Default)]
pub(super) struct Probe {
    now: Arc<AtomicUsize>,
    pub peak: Arc<AtomicUsize>,
}
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(super) struct ProbeArgs {
    #[serde(default)]
    boom: bool,
}
#[async_trait]
impl Tool for Probe {
    type Args = ProbeArgs;
    const NAME: &'static str = "probe";
    const KIND: ToolKind = ToolKind::Read;
    const DOC: &'static str = "Counts how many of it run at once; for tests.";
    fn title(&self, _: &ProbeArgs, _: &dyn Reader) -> String {
        "Probe".into()
    }
    async fn plan(&self, _: &ProbeArgs, _: &dyn Reader) -> Result<Effects, ToolError> {
        Ok(Effects::default())
    }
    async fn run(&self, args: ProbeArgs, _: Effects, _: Cx<'_>) -> Result<Output, ToolError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        assert!(!args.boom, "the probe was told to panic");
        Ok(Output::text("probed"))
    }
}

/// A session over fakes.
pub(super) struct Stage {
    pub session: Session,
    pub fake: Arc<Fake>,
    pub model: Arc<Scripted>,
    pub keep: Arc<Memory>,
    pub probe: Probe,
    pub cancel: CancellationToken,
}

impl Stage {
    pub fn new(replies: impl IntoIterator<Item = Vec<crate::model::scripted::Step>>) -> Stage {
        Self::with(Arc::new(Scripted::new(replies)), Limits::default())
    }
    pub fn with(model: Arc<Scripted>, limits: Limits) -> Stage {
        Self::of(Arc::new(One(model.clone())), model, limits)
    }
    pub fn of(models: Arc<dyn Models>, model: Arc<Scripted>, limits: Limits) -> Stage {
        let (fake, keep, probe) = (Arc::new(Fake::new()), Arc::new(Memory::default()), Probe::default());
        let id = SessionId::new();
        let mut tools = tools::builtin();
        tools.push(tools::erase(probe.clone()));
        let session = Session::new(Parts {
            id: id.clone(),
            folders: Folders { cwd: fake.root().to_owned(), additional: vec![] },
            workspace: fake.clone(),
            tools,
            models,
            journal: Journal::new(id, vec![], 0, keep.clone()),
            keep: keep.clone(),
            limits,
            instructions: vec![],
            settings: Settings::default(),
            grants: Grants::default(),
            lock: None,
            held: None,
            titled: false,
        });
        Stage { session, fake, model, keep, probe, cancel: CancellationToken::new() }
    }

    pub async fn turn(&self, editor: &FakeEditor, text: &str) -> Result<Stop, TurnError> {
        let mut journal = self.session.journal().await;
        let turn = Turn::new(&self.session, &mut journal, editor, self.cancel.clone());
        let parts = vec![Part::Text { text: text.into() }];
        let prompt = Prompt { id: MessageId::new(), parts, meaning: None };
        let turn = tokio::time::timeout(std::time::Duration::from_secs(600), turn.run(prompt));
        turn.await.expect("the turn hangs")
    }

    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.fake.root().join(path)).ok()
    }

    pub fn entries(&self) -> Vec<Stored> {
        self.keep.entries.lock().unwrap().clone()
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        let results = self.entries();
        results
            .iter()
            .filter_map(|s| match &s.entry {
                Entry::Result { outcome, .. } => Some(*outcome),
                _ => None,
            })
            .collect()
    }

    pub fn results(&self) -> Vec<String> {
        let results = self.entries();
        results
            .iter()
            .filter_map(|s| match &s.entry {
                Entry::Result { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect()
    }
}

/// I10 and I11 on what was kept and shown: every call has one result, in source order, and every card one end.
pub(super) fn check(entries: &[Stored], editor: &FakeEditor) {
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for stored in entries {
        match &stored.entry {
            Entry::Assistant { blocks, interrupted, .. } => {
                for block in blocks {
                    if let Block::Call(call) = block {
                        assert!(!interrupted, "an interrupted reply keeps no calls");
                        calls.push(call.id.clone());
                    }
                }
            }
            Entry::Result { call, .. } => results.push(call.clone()),
            _ => {}
        }
    }
    assert_eq!(calls, results, "one result per call, in source order");
    let seqs: Vec<u64> = entries.iter().map(|s| s.seq).collect();
    assert_eq!(seqs, (0..entries.len() as u64).collect::<Vec<_>>(), "numbers without gaps");
    let seen = editor.seen.lock().unwrap();
    for id in calls {
        let opened = seen.iter().filter(|u| matches!(u, Update::Call(c) if c.id == id)).count();
        let ended = seen.iter().filter(|u| {
            matches!(u, Update::CallChanged(c) if c.id == id
                && matches!(c.status, Some(CallStatus::Completed | CallStatus::Failed)))
        });
        assert_eq!((opened, ended.count()), (1, 1), "card {id}");
    }
}
