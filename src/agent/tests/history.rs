//! The log beside turns: commands, forks, recovery; over the real store.
use super::*;
use crate::{
    agent::{
        context,
        fork::ForkError,
        hermes::{Hermes, OpenError, Opening, Workspaces},
        session::Instruction,
        slot::Slot,
        view,
    },
    config::DataDirs,
    model::{Delta, Finish, scripted::Step},
    store::{Origin, Store},
    tools::Tools,
    workspace::{EditorSide, NoBuffers, Workspace},
};
use std::path::PathBuf;

/// The agent as the server has it, over a store in a folder of its own and a fake workspace.
pub(super) struct House {
    pub dirs: DataDirs,
    pub fake: Arc<Fake>,
    pub model: Arc<Scripted>,
    pub hermes: Hermes,
    _root: tempfile::TempDir,
}

struct Fakes(Arc<Fake>);
impl Workspaces for Fakes {
    fn open(&self, _: &Folders, _: PathBuf, _: EditorSide) -> Result<Arc<dyn Workspace>, OpenError> {
        Ok(self.0.clone())
    }
    fn tools(&self) -> Tools {
        tools::builtin()
    }
    fn instructions(&self, _: &Folders) -> Vec<Instruction> {
        vec![]
    }
}

impl House {
    pub fn new(replies: impl IntoIterator<Item = Vec<Step>>) -> House {
        let root = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(root.path());
        let (fake, model) = (Arc::new(Fake::new()), Arc::new(Scripted::new(replies)));
        let hermes = agent(&dirs, &fake, &model);
        House { dirs, fake, model, hermes, _root: root }
    }
    /// Another process on the same database.
    pub fn other(&self) -> Hermes {
        agent(&self.dirs, &self.fake, &self.model)
    }
    pub fn opening(&self) -> Opening {
        Opening {
            folders: Folders { cwd: self.fake.root().to_owned(), additional: vec![] },
            instructions: vec![],
            editor: Box::new(|_| EditorSide { buffers: Arc::new(NoBuffers), terminals: None }),
            origin: Origin::Editor,
        }
    }
    pub async fn load(&self, hermes: &Hermes, id: &SessionId) -> (Arc<Session>, Vec<Update>) {
        let slot: Arc<Slot> = hermes.slot_or_new(id);
        let opened = hermes.open(id, &slot, self.opening()).await.unwrap();
        let replay = view::replay(opened.session.journal().await.entries());
        (opened.session, replay)
    }
}

fn agent(dirs: &DataDirs, fake: &Arc<Fake>, model: &Arc<Scripted>) -> Hermes {
    let models = Arc::new(One(model.clone()));
    let store = Store::open(dirs).unwrap();
    Hermes::new(store, models, Limits::default(), Settings::default(), Box::new(Fakes(fake.clone())))
}

pub(super) fn say(text: &str) -> Vec<Step> {
    vec![Step::Say(Delta::Text(text.into())), Step::Say(Delta::End(Finish::Stop))]
}

pub(super) fn call(name: &str, args: &str) -> Vec<Step> {
    let call = Delta::Call { provider_id: None, name: name.into(), args: args.into(), native: None };
    vec![Step::Say(call), Step::Say(Delta::End(Finish::ToolCalls))]
}

pub(super) async fn prompt(session: &Session, editor: &FakeEditor, text: &str) -> Result<Stop, TurnError> {
    let mut journal = session.journal().await;
    let turn = Turn::new(session, &mut journal, editor, CancellationToken::new());
    turn.run(Prompt { id: MessageId::new(), parts: vec![Part::Text { text: text.into() }], meaning: None })
        .await
}

fn texts(replay: &[Update]) -> Vec<String> {
    let text = |u: &Update| match u {
        Update::User { parts, .. } => match parts.first() {
            Some(Part::Text { text }) => Some(format!("> {text}")),
            _ => None,
        },
        Update::Text { text, .. } => Some(text.clone()),
        Update::Call(c) => Some(format!("[{}] {:?}", c.card.title, c.status)),
        _ => None,
    };
    replay.iter().filter_map(text).collect()
}

/// The ids of the messages of a replay, in order.
fn ids(replay: &[Update]) -> Vec<MessageId> {
    let id = |u: &Update| match u {
        Update::User { id, .. } | Update::Text { id, .. } => Some(id.clone()),
        _ => None,
    };
    replay.iter().filter_map(id).collect()
}

#[tokio::test]
async fn a_fork_has_what_was_said_and_goes_its_own_way() {
    let house = House::new([say("one"), say("two"), say("three")]);
    let editor = FakeEditor::default();
    let first = house.hermes.create(house.opening()).unwrap();
    prompt(&first, &editor, "a").await.unwrap();
    prompt(&first, &editor, "b").await.unwrap();
    let fork = house.hermes.fork(&first.id, None, house.opening()).await.unwrap();
    assert_ne!(fork.id, first.id);
    prompt(&fork, &editor, "c").await.unwrap();
    let theirs = view::replay(first.journal().await.entries());
    let ours = view::replay(fork.journal().await.entries());
    assert_eq!(texts(&theirs), ["> a", "one", "> b", "two"]);
    assert_eq!(texts(&ours), ["> a", "one", "> b", "two", "> c", "three"]);
    assert_eq!(ids(&theirs)[..], ids(&ours)[..4], "a message is the same message");
    // I14: what the model read before the fork is a prefix of what it reads after.
    let requests = house.model.requests();
    assert_eq!(requests[2].messages[..requests[1].messages.len()], requests[1].messages[..]);
    let head = house.hermes.store.head(fork.id.clone()).await.unwrap().unwrap();
    assert_eq!(head.title.as_deref(), Some("a (fork)"));
    assert_eq!(head.parent.unwrap().session, first.id);
    // And it is there in the next process.
    let other = house.other();
    assert_eq!(texts(&house.load(&other, &fork.id).await.1), texts(&ours));
}

#[tokio::test]
async fn a_fork_from_a_message() {
    let house = House::new([call("read", r#"{"path":"a.txt"}"#), say("one"), say("two")]);
    house.fake.file("a.txt", "x\n");
    let editor = FakeEditor::default();
    let first = house.hermes.create(house.opening()).unwrap();
    prompt(&first, &editor, "a").await.unwrap();
    prompt(&first, &editor, "b").await.unwrap();
    let entries = first.journal().await.entries().to_vec();
    let messages: Vec<MessageId> = entries
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::User { id, .. } | Entry::Assistant { id, .. } => Some(id.clone()),
            _ => None,
        })
        .collect();
    let shapes = [
        (0, vec![]),
        (1, vec!["> a", "[Read a.txt] Completed"]),
        (2, vec!["> a", "[Read a.txt] Completed", "one"]),
        (3, vec!["> a", "[Read a.txt] Completed", "one"]),
        (4, vec!["> a", "[Read a.txt] Completed", "one", "> b", "two"]),
    ];
    for (message, expected) in shapes {
        let fork = house.hermes.fork(&first.id, Some(&messages[message]), house.opening()).await.unwrap();
        let fork = view::replay(fork.journal().await.entries());
        assert_eq!(texts(&fork), expected, "from message {message}");
    }
    let unknown = house.hermes.fork(&first.id, Some(&"m_x".into()), house.opening()).await;
    assert!(matches!(unknown, Err(ForkError::Message)));
    let unknown = house.hermes.fork(&"s_x".into(), None, house.opening()).await;
    assert!(matches!(unknown, Err(ForkError::Open(OpenError::Unknown(_)))));
}

#[tokio::test]
async fn a_session_that_another_process_holds_is_read_and_forked() {
    let house = House::new([say("one"), say("two"), say("three")]);
    let editor = FakeEditor::default();
    let first = house.hermes.create(house.opening()).unwrap();
    prompt(&first, &editor, "a").await.unwrap();
    // A call that is under way there.
    let call = Call {
        id: "t_1".into(),
        provider_id: "p".into(),
        name: "write".into(),
        args: r#"{"path":"w.txt","content":"x"}"#.into(),
        native: None,
    };
    let open = Entry::Assistant {
        id: MessageId::new(),
        blocks: vec![Block::Call(call)],
        interrupted: false,
        model: String::new(),
        usage: None,
    };
    first.journal().await.append(vec![open]).await.unwrap();
    let other = house.other();
    let (read, replay) = house.load(&other, &first.id).await;
    assert!(!read.is_writable());
    assert!(read.held().unwrap().contains("fork it to go on here"), "{:?}", read.held());
    assert_eq!(texts(&replay), ["> a", "one", "[write] Failed"]);
    let fork = other.fork(&first.id, None, house.opening()).await.unwrap();
    assert!(fork.is_writable());
    let forked = view::replay(fork.journal().await.entries());
    assert_eq!(texts(&forked), ["> a", "one", "[Write w.txt] Failed"]);
    prompt(&fork, &editor, "b").await.unwrap();
    // When the first process is gone, a load here may write.
    let id = first.id.clone();
    house.hermes.close(&house.hermes.slot(&id).unwrap());
    drop((first, read));
    let (free, replay) = house.load(&other, &id).await;
    assert!(free.is_writable());
    assert_eq!(texts(&replay), ["> a", "one", "[Write w.txt] Failed"]);
    prompt(&free, &editor, "c").await.unwrap();
}

/// What was streamed when the process died is shown, told to the model, and written once.
#[tokio::test]
async fn a_reply_that_was_cut_off_by_a_crash_is_kept() {
    let house = House::new([say("one")]);
    let editor = FakeEditor::default();
    let first = house.hermes.create(house.opening()).unwrap();
    prompt(&first, &editor, "a").await.unwrap();
    let message = MessageId::new();
    first.keep.draft(&first.id, &message, "half of it", "a thought");
    house.hermes.store.flush().await.unwrap();
    let id = first.id.clone();
    house.hermes.close(&house.hermes.slot(&id).unwrap());
    let other = house.other();
    for time in 1..=2 {
        let (session, replay) = house.load(&other, &id).await;
        assert_eq!(texts(&replay), ["> a", "one", "half of it"], "load {time}");
        assert_eq!(ids(&replay).last(), Some(&message));
        let told = context::messages(session.journal().await.entries());
        assert!(format!("{told:?}").contains("half of it"));
        other.close(&other.slot(&id).unwrap());
    }
}

#[tokio::test]
async fn a_title_that_was_set_stays() {
    let house = House::new([say("one")]);
    let first = house.hermes.create(house.opening()).unwrap();
    first.entitle();
    house.hermes.store.set_title(first.id.clone(), Some("Mine".into())).await.unwrap();
    prompt(&first, &FakeEditor::default(), "a").await.unwrap();
    let head = house.hermes.store.head(first.id.clone()).await.unwrap().unwrap();
    assert_eq!(head.title.as_deref(), Some("Mine"));
}

/// A command and its answer are shown again and are nothing to the model, nor do they take the first prompt's title.
#[tokio::test]
async fn what_a_command_said_is_kept_for_the_person_alone() {
    let house = House::new([say("one")]);
    let first = house.hermes.create(house.opening()).unwrap();
    let asked = Entry::User {
        id: MessageId::new(),
        parts: vec![Part::Text { text: "/help".into() }],
        state: PromptState::Local,
        volatile: None,
    };
    let said = Entry::Said { id: MessageId::new(), text: "Commands".into() };
    first.journal().await.append(vec![asked, said]).await.unwrap();
    prompt(&first, &FakeEditor::default(), "a").await.unwrap();
    let entries = first.journal().await.entries().to_vec();
    assert_eq!(texts(&view::replay(&entries)), ["> /help", "Commands", "> a", "one"]);
    assert_eq!(context::messages(&entries).len(), 2);
    let head = house.hermes.store.head(first.id.clone()).await.unwrap().unwrap();
    assert_eq!(head.title.as_deref(), Some("a"));
}

#[tokio::test]
async fn what_the_user_says_in_mid_turn_is_read_next() {
    let house = House::new([call("read", r#"{"path":"a.txt"}"#), say("one"), say("two")]);
    house.fake.file("a.txt", "x\n");
    let first = house.hermes.create(house.opening()).unwrap();
    // The first reply ends with a call, the second would end the turn: words come in before each of them.
    let said = Arc::new(Mutex::new(vec!["late", "early"]));
    struct Speaks(FakeEditor, Arc<Session>, Arc<Mutex<Vec<&'static str>>>);
    #[async_trait]
    impl Editor for Speaks {
        async fn update(&self, session: &SessionId, update: Update) {
            if matches!(update, Update::Call(_) | Update::Text { .. })
                && let Some(words) = self.2.lock().unwrap().pop()
            {
                assert!(self.1.steering.push(words.into()));
            }
            self.0.update(session, update).await;
        }
        async fn ask(&self, session: &SessionId, question: Question) -> Answer {
            self.0.ask(session, question).await
        }
        fn features(&self) -> Features {
            self.0.features()
        }
    }
    let editor = Speaks(FakeEditor::default(), first.clone(), said);
    {
        let mut journal = first.journal().await;
        let turn = Turn::new(&first, &mut journal, &editor, CancellationToken::new());
        let parts = vec![Part::Text { text: "go".into() }];
        let prompt = Prompt { id: MessageId::new(), parts, meaning: None };
        assert_eq!(turn.run(prompt).await.unwrap(), Stop::EndTurn);
    }
    assert!(!first.steering.push("nobody hears".into()));
    let replay = view::replay(first.journal().await.entries());
    let expected = ["> go", "[Read a.txt] Completed", "> early", "one", "> late", "two"];
    assert_eq!(texts(&replay), expected);
    let seen = editor.0.seen.lock().unwrap();
    let shown = seen.iter().filter(|u| matches!(u, Update::User { .. })).count();
    assert_eq!(shown, 2, "each is shown when it arrives");
    let last = house.model.requests().pop().unwrap();
    let told = format!("{:?}", last.messages);
    assert!(told.contains("while you are working]\\nlate"), "{told}");
}

#[tokio::test]
async fn earlier_sessions_of_the_folder_are_searched() {
    let house = House::new([
        say("The port is 4711."),
        call("session_search", r#"{"query":"port"}"#),
        say("x"),
        call("session_search", r#"{"query":"zebra"}"#),
        say("y"),
        call("session_search", r#"{"query":"port","everywhere":true}"#),
        say("z"),
    ]);
    let editor = FakeEditor::answering(|_| Answer::No { comment: None });
    let first = house.hermes.create(house.opening()).unwrap();
    prompt(&first, &editor, "Which one?").await.unwrap();
    let second = house.hermes.create(house.opening()).unwrap();
    for text in ["find it", "find nothing", "find it anywhere"] {
        prompt(&second, &editor, text).await.unwrap();
    }
    let results: Vec<String> = second
        .journal()
        .await
        .entries()
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::Result { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert!(
        results[0].contains("> assistant: The port is 4711.") && results[0].contains("  user: Which one?"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("nothing was found"), "{}", results[1]);
    assert!(results[2].contains("rejected"), "other folders are asked about: {}", results[2]);
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    // The audit has the question, before the result.
    let journal = second.journal().await;
    let asked = journal
        .entries()
        .iter()
        .any(|s| matches!(&s.entry, Entry::Asked { answer, .. } if answer == "reject_once"));
    assert!(asked);
    let tools = journal.entries().iter().rev().find_map(|s| match &s.entry {
        Entry::Ended { tools, .. } => Some(tools.clone()),
        _ => None,
    });
    assert_eq!(tools.unwrap().get("session_search"), Some(&1));
}

/// What was written behind the answer to `session/new` may have failed (a full disk): the first prompt makes it good.
#[tokio::test]
async fn a_session_whose_row_was_not_written_gets_it_with_its_first_entries() {
    use crate::{agent::hermes::Kept, store::SessionHead};
    let house = House::new([]);
    let head = SessionHead::new(SessionId::new(), house.fake.root().to_owned());
    let (id, store) = (head.id.clone(), house.hermes.store.clone());
    let entry = |seq| {
        let parts = vec![Part::Text { text: "a".into() }];
        let user = Entry::User { id: MessageId::new(), parts, state: PromptState::Sent, volatile: None };
        Stored { seq, at: crate::clock::Millis::now(), entry: user }
    };
    let gone = Kept::new(store.clone(), head.cwd.clone(), None);
    let error = gone.append(&id, vec![entry(0)]).await.unwrap_err();
    assert!(error.0.contains("removed or replaced"), "{}", error.0);

    let kept = Kept::new(store.clone(), head.cwd.clone(), Some(head));
    let settings = Settings { mode: Mode::Plan, ..Settings::default() };
    kept.settings(&id, &settings);
    kept.append(&id, vec![entry(0)]).await.unwrap();
    kept.append(&id, vec![entry(1)]).await.unwrap();
    let loaded = store.load(id.clone()).await.unwrap();
    assert_eq!((loaded.entries.len(), loaded.head.settings), (2, settings));
    // From now on it is known to have been there.
    store.delete(id.clone()).await.unwrap();
    assert!(kept.append(&id, vec![entry(2)]).await.unwrap_err().0.contains("removed or replaced"));
}
