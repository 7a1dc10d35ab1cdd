//! Random turns over the real store, cancelled and killed anywhere: between any two writes, in mid-write, in mid-stream,
//! in the middle of a file, also while the last crash is being cleaned up (I9, I10, I11, I14, I19).
//! `HERMES_CRASH_CASES` sets how many, `HERMES_CRASH_SECONDS` for how long.
use super::{
    random::{Move, moves, steps, valid},
    *,
};
use crate::{
    agent::{context, hermes::Kept, recover, view},
    config::DataDirs,
    store::{SessionHead, Store},
    tools::fake::Death,
};
use proptest::{prelude::*, test_runner::TestRunner};
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

/// What happens in one process.
#[derive(Clone, Debug)]
struct Round {
    script: Vec<Vec<Move>>,
    /// It is killed at this write, if it comes to it.
    dies_at: Option<usize>,
    /// The write was done before it died.
    written: bool,
    /// It is killed in the first write of a file.
    dies_in: Option<Death>,
    /// The person cancels at this update.
    cancels_at: Option<usize>,
    allow: bool,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let script = prop::collection::vec(moves(), 1..4);
    let one = (
        script,
        prop::option::of(0..9usize),
        any::<bool>(),
        prop::option::weighted(0.3, prop::sample::select(vec![Death::Before, Death::Half, Death::After])),
        prop::option::weighted(0.3, 0..12usize),
        any::<bool>(),
    );
    let round = one.prop_map(|(script, dies_at, written, dies_in, cancels_at, allow)| Round {
        script,
        dies_at,
        written,
        dies_in,
        cancels_at,
        allow,
    });
    prop::collection::vec(round, 1..5)
}

/// A log in the store whose process dies at a write, of whatever kind: that one and all behind it never return.
struct Dying {
    kept: Kept,
    left: Mutex<Option<usize>>,
    written: bool,
    dead: Notify,
    is_dead: AtomicBool,
    /// What was promised to be durable.
    promised: Mutex<Vec<Stored>>,
}

/// What becomes of a write.
enum Fate {
    Lives,
    /// It is the last thing that the process does.
    Last,
    /// It never happens.
    Dead,
}

impl Dying {
    fn fate(&self) -> Fate {
        let mut left = self.left.lock().unwrap();
        let now = *left == Some(0) && !self.is_dead.swap(true, Ordering::SeqCst);
        *left = left.map(|n| n.saturating_sub(1));
        match (now, self.is_dead.load(Ordering::SeqCst)) {
            (true, _) => {
                self.dead.notify_one();
                if self.written { Fate::Last } else { Fate::Dead }
            }
            (false, true) => Fate::Dead,
            (false, false) => Fate::Lives,
        }
    }
    /// Does what a caller does not wait for.
    fn unless_dead(&self, write: impl FnOnce(&Kept)) {
        if !matches!(self.fate(), Fate::Dead) {
            write(&self.kept);
        }
    }
}

#[async_trait]
impl Keep for Dying {
    async fn append(&self, session: &SessionId, entries: Vec<Stored>) -> Result<(), KeepError> {
        match self.fate() {
            Fate::Lives => {}
            Fate::Last => {
                self.kept.append(session, entries).await?;
                std::future::pending::<()>().await;
                return Ok(());
            }
            Fate::Dead => std::future::pending::<()>().await,
        }
        self.kept.append(session, entries.clone()).await?;
        self.promised.lock().unwrap().extend(entries);
        Ok(())
    }
    fn draft(&self, session: &SessionId, id: &MessageId, text: &str, thinking: &str) {
        self.unless_dead(|kept| kept.draft(session, id, text, thinking));
    }
    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, KeepError> {
        self.kept.grants(session).await
    }
    async fn grant(&self, session: &SessionId, grant: Grant) -> Result<(), KeepError> {
        self.kept.grant(session, grant).await
    }
    async fn snapshot(&self, session: &SessionId, contents: Vec<Vec<u8>>) -> Result<(), KeepError> {
        match self.fate() {
            Fate::Lives => return self.kept.snapshot(session, contents).await,
            Fate::Last => self.kept.snapshot(session, contents).await?,
            Fate::Dead => {}
        }
        std::future::pending().await
    }
    async fn content(&self, sha256: &str) -> Option<Vec<u8>> {
        self.kept.content(sha256).await
    }
    fn title(&self, session: &SessionId, title: &str) {
        self.unless_dead(|kept| kept.title(session, title));
    }
    fn settings(&self, session: &SessionId, settings: &Settings) {
        self.unless_dead(|kept| kept.settings(session, settings));
    }
    async fn windows(&self) -> Result<Vec<(String, u64)>, KeepError> {
        self.kept.windows().await
    }
    fn window(&self, model: &str, tokens: u64) {
        self.kept.window(model, tokens);
    }
}

/// Cancels at an update.
struct Impatient {
    editor: FakeEditor,
    left: Mutex<Option<usize>>,
    cancel: CancellationToken,
}
#[async_trait]
impl Editor for Impatient {
    async fn update(&self, session: &SessionId, update: Update) {
        {
            let mut left = self.left.lock().unwrap();
            if *left == Some(0) {
                self.cancel.cancel();
            }
            *left = left.and_then(|n| n.checked_sub(1));
        }
        self.editor.update(session, update).await;
    }
    async fn ask(&self, session: &SessionId, question: Question) -> Answer {
        self.editor.ask(session, question).await
    }
    fn features(&self) -> Features {
        self.editor.features()
    }
}

/// Each call has one result, except where `open` ones may be; numbers have no gaps.
fn whole(entries: &[Stored], open: bool) {
    let seqs: Vec<u64> = entries.iter().map(|s| s.seq).collect();
    assert_eq!(seqs, (0..entries.len() as u64).collect::<Vec<_>>(), "I19: numbers without gaps");
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for stored in entries {
        match &stored.entry {
            Entry::Assistant { blocks, interrupted: false, .. } => {
                calls.extend(blocks.iter().filter_map(|b| match b {
                    Block::Call(call) => Some(call.id.clone()),
                    _ => None,
                }));
            }
            Entry::Result { call, .. } => results.push(call.clone()),
            _ => {}
        }
    }
    if open {
        assert!(calls.starts_with(&results), "I10: no result twice, none without its call");
        return;
    }
    assert_eq!(calls, results, "I10: one result per call, in source order");
    for update in view::replay(entries) {
        if let Update::Call(card) = update {
            assert!(
                matches!(card.status, CallStatus::Completed | CallStatus::Failed),
                "I11: every card has ended"
            );
            assert!(!card.card.title.is_empty());
        }
    }
    valid(&context::messages(entries));
}

struct Life {
    dirs: DataDirs,
    id: SessionId,
    fake: Arc<Fake>,
    /// The messages of each request, over all processes.
    sent: Vec<Vec<crate::model::Message>>,
    before: Vec<Stored>,
    /// What must be said of the file that was being written when the last process died.
    writing: Option<Outcome>,
}

impl Life {
    /// One process: opens, cleans up, runs a turn, ends or dies.
    async fn round(&mut self, round: &Round) {
        let store = Store::open(&self.dirs).unwrap();
        let lock = store.lock(&self.id).expect("I9: a dead process holds no lock");
        let loaded = store.load(self.id.clone()).await.expect("I19: every session loads");
        assert!(loaded.damaged.is_empty());
        whole(&loaded.entries, true);
        assert!(loaded.entries.starts_with(&self.before), "I14: the log only grows");
        let keep = Arc::new(Dying {
            kept: Kept::new(store.clone(), self.fake.root().to_owned(), None),
            left: Mutex::new(round.dies_at),
            written: round.written,
            dead: Notify::new(),
            is_dead: false.into(),
            promised: Mutex::new(loaded.entries.clone()),
        });
        let model = Arc::new(Scripted::new(round.script.iter().map(|m| {
            let kept: Vec<Move> = m.iter().filter(|m| !matches!(m, Move::Cancel)).cloned().collect();
            steps(&kept)
        })));
        let journal = Journal::new(self.id.clone(), loaded.entries, loaded.next, keep.clone());
        let session = Session::new(Parts {
            id: self.id.clone(),
            folders: Folders { cwd: self.fake.root().to_owned(), additional: vec![] },
            workspace: self.fake.clone(),
            tools: tools::builtin(),
            models: Arc::new(One(model.clone())),
            journal,
            keep: keep.clone(),
            limits: Limits::default(),
            instructions: vec![],
            settings: Settings::default(),
            grants: Grants::default(),
            lock: Some(lock),
            held: None,
            titled: false,
        });
        let cancel = CancellationToken::new();
        let allow = round.allow;
        let editor = Impatient {
            editor: FakeEditor::answering(move |_| if allow { yes() } else { Answer::No { comment: None } }),
            left: Mutex::new(round.cancels_at),
            cancel: cancel.clone(),
        };
        let life = async {
            let mut journal = session.journal().await;
            let closing = recover::closing(journal.entries(), loaded.draft.as_ref(), &session);
            if let Some(writing) = self.writing.take() {
                let told = closing.iter().find_map(|e| match e {
                    Entry::Result { outcome, .. } => Some(*outcome),
                    _ => None,
                });
                assert_eq!(told, Some(writing), "I19: the disk is looked at");
            }
            journal.append(closing).await.unwrap();
            whole(journal.entries(), false);
            *self.fake.death.lock().unwrap() = round.dies_in;
            let parts = vec![Part::Text { text: "go".into() }];
            let turn = Turn::new(&session, &mut journal, &editor, cancel.clone());
            // A failed request is a way for a turn to end.
            let _ = turn.run(Prompt { id: MessageId::new(), parts, meaning: None }).await;
            whole(journal.entries(), false);
        };
        let mut writing = None;
        tokio::select! {
            biased;
            () = keep.dead.notified() => {}
            () = self.fake.died.notified() => writing = round.dies_in,
            () = life => {}
            () = tokio::time::sleep(std::time::Duration::from_secs(30)) => panic!("a turn hangs"),
        }
        // What the process handed over before it died is written; nothing comes later.
        store.flush().await.unwrap();
        *self.fake.death.lock().unwrap() = None;
        self.writing = writing.map(|death| match death {
            Death::Before => Outcome::Failed,
            Death::Half => Outcome::Unknown,
            Death::After => Outcome::Ok,
        });
        self.sent.extend(model.requests().into_iter().map(|r| r.messages.to_vec()));
        self.before = keep.promised.lock().unwrap().clone();
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

#[test]
fn i9_i10_i11_i14_i19_hold_wherever_the_process_dies() {
    let seconds = variable("HERMES_CRASH_SECONDS").map(std::time::Duration::from_secs);
    let cases = variable("HERMES_CRASH_CASES").and_then(|n| n.try_into().ok()).unwrap_or(40);
    let (start, mut done) = (std::time::Instant::now(), 0);
    loop {
        random_lives(cases);
        done += cases;
        if seconds.is_none_or(|seconds| start.elapsed() > seconds) {
            break;
        }
    }
    if seconds.is_some() {
        // Tests print; this says that a long run was one.
        eprintln!("{done} random lives");
    }
}

fn random_lives(cases: u32) {
    let home = tempfile::tempdir().unwrap();
    let dirs = DataDirs::under(home.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&rounds(), |rounds| {
        runtime.block_on(async {
            let fake = Arc::new(Fake::new());
            fake.file("a.txt", "one\n");
            let id = SessionId::new();
            let store = Store::open(&dirs).unwrap();
            store.create(SessionHead::new(id.clone(), fake.root().to_owned())).await.unwrap();
            drop(store);
            let mut life = Life { dirs: dirs.clone(), id, fake, sent: vec![], before: vec![], writing: None };
            let last = Round {
                script: vec![],
                dies_at: None,
                written: false,
                dies_in: None,
                cancels_at: None,
                allow: true,
            };
            for round in rounds.iter().chain([&last]) {
                life.round(round).await;
            }
            for pair in life.sent.windows(2) {
                assert!(pair[1].starts_with(&pair[0]), "I14: what was sent is a prefix of what is sent next");
            }
        });
        Ok(())
    });
    result.unwrap();
}
