use super::*;
use crate::{
    effects::Verdict,
    workspace::{NoBuffers, Reader, SessionWorkspace, Setup, Workspace, process::Settings},
};
use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use std::time::Duration;

/// What the editor does with one request: an answer, an error, or never an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Fine,
    Fails,
    Never,
    /// Panics, as no implementation should.
    Panics,
}
use Does::*;

impl Does {
    async fn answer<T>(self, value: T, limit: Duration) -> Result<T, TerminalError> {
        match self {
            Fine => Ok(value),
            Fails => Err(TerminalError::Failed("no such luck".into())),
            Never => {
                tokio::time::sleep(limit).await;
                Err(TerminalError::Timeout)
            }
            Panics => panic!("in an answer"),
        }
    }
}

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
struct Editor {
    create: Does,
    wait: Does,
    kill: Does,
    output: Does,
    release: Does,
}
const GOOD: Editor = Editor { create: Fine, wait: Fine, kill: Fine, output: Fine, release: Fine };

/// Logs `create`, `attach`, … in order.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);
impl Log {
    fn note(&self, what: &str) {
        lock(&self.0).push(what.to_owned());
    }
}

struct Fake {
    editor: Editor,
    screen: Screen,
    exit: Exit,
    log: Arc<Log>,
    started: Mutex<Option<(Start, String)>>,
}

struct Held {
    editor: Editor,
    screen: Screen,
    exit: Exit,
    log: Arc<Log>,
    released: bool,
}

#[async_trait]
impl Terminals for Fake {
    async fn create(&self, start: Start) -> Result<Box<dyn Terminal>, TerminalError> {
        self.log.note("create");
        let script = std::fs::read_to_string(&start.arguments[0]).unwrap();
        *lock(&self.started) = Some((start, script));
        self.editor.create.answer((), LIMIT).await?;
        let (screen, exit) = (self.screen.clone(), self.exit.clone());
        Ok(Box::new(Held { editor: self.editor, screen, exit, log: self.log.clone(), released: false }))
    }
}

#[async_trait]
impl Terminal for Held {
    fn id(&self) -> &str {
        "t1"
    }
    async fn output(&self) -> Result<Screen, TerminalError> {
        self.log.note("output");
        self.editor.output.answer(self.screen.clone(), LIMIT).await
    }
    async fn wait(&self, limit: Duration) -> Result<Exit, TerminalError> {
        self.log.note("wait");
        self.editor.wait.answer(self.exit.clone(), limit).await
    }
    async fn kill(&self) -> Result<(), TerminalError> {
        self.log.note("kill");
        self.editor.kill.answer((), LIMIT).await
    }
    async fn release(mut self: Box<Self>) -> Result<(), TerminalError> {
        self.released = true;
        self.log.note("release");
        self.editor.release.answer((), LIMIT).await
    }
}
impl Drop for Held {
    fn drop(&mut self) {
        if !self.released {
            self.log.note("dropped");
        }
    }
}

struct Card(Arc<Log>);
impl OutputSink for Card {
    fn output(&self, _: &[u8]) {
        panic!("the output is in the editor's terminal");
    }
    fn attach(&self, terminal: &str) -> BoxFuture<'static, ()> {
        self.0.note(&format!("attach {terminal}"));
        std::future::ready(()).boxed()
    }
}

struct Scene {
    dir: tempfile::TempDir,
    fake: Arc<Fake>,
    ws: SessionWorkspace,
}

impl Scene {
    fn new(editor: Editor, screen: Screen, exit: Exit) -> Scene {
        let dir = tempfile::Builder::new().prefix("terminals").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir_all(&root).unwrap();
        let setup = Setup {
            roots: vec![root],
            session_folder: dir.path().join("own"),
            home: None,
            buffers: Arc::new(NoBuffers),
            process: Settings {
                env: vec![("PATH".into(), "/bin".into()), ("TOKEN".into(), "abc".into())],
                ..Settings::default()
            },
        };
        let fake = Arc::new(Fake { editor, screen, exit, log: Arc::default(), started: Mutex::default() });
        let ws = SessionWorkspace::new(setup).unwrap().in_editor(Some(fake.clone()));
        Scene { dir, fake, ws }
    }
    fn command(&self, text: &str) -> Command {
        Command {
            text: text.into(),
            cwd: self.ws.resolve(".").unwrap(),
            timeout: Duration::from_secs(60),
            verdict: Verdict::Ask,
            why: String::new(),
            assessment: None,
            background: false,
            unconfined: false,
        }
    }
    async fn run(&self, cancel: CancellationToken) -> Result<Ran, WsError> {
        self.ws.run(&self.command("make"), Arc::new(Card(self.fake.log.clone())), cancel).await
    }
    fn log(&self) -> Vec<String> {
        lock(&self.fake.log.0).clone()
    }
}

fn code(code: i32) -> Exit {
    Exit { code: Some(code), signal: None }
}

fn screen() -> Screen {
    Screen { output: "hello\n".into(), truncated: false, exit: None }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_editor_does_the_terminal_is_released_once() {
    const ALL: [&str; 4] = ["create", "attach t1", "wait", "output"];
    let killed = ["create", "attach t1", "wait", "kill", "output", "release"];
    let table: &[(Editor, &[&str], &str)] = &[
        (GOOD, &[ALL[0], ALL[1], ALL[2], ALL[3], "release"], ""),
        (Editor { create: Fails, ..GOOD }, &["create"], "could not start a terminal"),
        (Editor { create: Never, ..GOOD }, &["create"], "did not answer in time"),
        (Editor { wait: Never, ..GOOD }, &killed, "timed out"),
        (Editor { wait: Fails, ..GOOD }, &killed, "did not tell how it ended: no such luck"),
        (Editor { wait: Never, kill: Fails, ..GOOD }, &killed, "could not end it (no such luck)"),
        (
            Editor { wait: Never, kill: Never, ..GOOD },
            &killed,
            "could not end it (it did not answer in time)",
        ),
        (
            Editor { output: Fails, ..GOOD },
            &[ALL[0], ALL[1], ALL[2], ALL[3], "release"],
            "did not give its output",
        ),
        (
            Editor { output: Never, ..GOOD },
            &[ALL[0], ALL[1], ALL[2], ALL[3], "release"],
            "did not give its output",
        ),
        (Editor { release: Fails, ..GOOD }, &[ALL[0], ALL[1], ALL[2], ALL[3], "release"], "did not release"),
        (Editor { release: Never, ..GOOD }, &[ALL[0], ALL[1], ALL[2], ALL[3], "release"], "did not release"),
    ];
    for (i, (editor, calls, told)) in table.iter().enumerate() {
        let scene = Scene::new(*editor, screen(), code(0));
        let text = match scene.run(CancellationToken::new()).await {
            Ok(ran) => {
                let timed_out = if ran.timed_out { "timed out " } else { "" };
                assert!(ran.notes[0].contains("outside the sandbox"), "row {i}");
                assert_eq!(ran.output.trim_end() == "hello", editor.output == Fine, "row {i}");
                format!("{timed_out}{}", ran.notes.join("; "))
            }
            Err(e) => e.to_string(),
        };
        assert!(text.contains(told), "row {i}: {text}");
        assert_eq!(scene.log(), *calls, "row {i}");
        let left = std::fs::read_dir(scene.dir.path().join("own")).unwrap().count();
        assert_eq!(left, 0, "row {i}: the script is left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_and_releases_it_at_every_moment() {
    let never = Editor { wait: Never, ..GOOD };
    let scene = Scene::new(never, screen(), code(0));
    let cancel = CancellationToken::new();
    let (ran, ()) = tokio::join!(scene.run(cancel.clone()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert!(ran.unwrap().cancelled);
    assert_eq!(scene.log(), ["create", "attach t1", "wait", "kill", "output", "release"]);
    // Before it is started, and while it is: nothing is left to be released here.
    for create in [Fine, Never] {
        let scene = Scene::new(Editor { create, ..never }, screen(), code(0));
        let cancel = CancellationToken::new();
        if create == Fine {
            cancel.cancel();
        }
        let (ran, ()) = tokio::join!(scene.run(cancel.clone()), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        });
        assert!(matches!(ran, Err(WsError::Cancelled)), "{create:?}");
        assert!(scene.log().len() <= 1, "{create:?}: {:?}", scene.log());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_or_panics_lets_go_of_it() {
    let scene = Scene::new(Editor { wait: Never, kill: Never, ..GOOD }, screen(), code(0));
    let dropped = tokio::time::timeout(Duration::from_secs(65), scene.run(CancellationToken::new())).await;
    assert!(dropped.is_err(), "dropped in the kill");
    assert_eq!(scene.log(), ["create", "attach t1", "wait", "kill", "dropped"]);
    let scene = Scene::new(Editor { output: Panics, ..GOOD }, screen(), code(0));
    let panicked = std::panic::AssertUnwindSafe(scene.run(CancellationToken::new())).catch_unwind().await;
    assert!(panicked.is_err());
    assert_eq!(scene.log(), ["create", "attach t1", "wait", "output", "dropped"]);
}

#[tokio::test]
async fn what_it_shows_is_cleaned_and_bounded() {
    let bare = |output: &str| Screen { output: output.into(), truncated: true, exit: Some(code(3)) };
    let long = "0123456789abcde\r\n".repeat(60_000);
    let cases = [
        ("\u{1b}[32mok\u{1b}[0m\r\nnext\r\n", "ok\nnext\n"),
        ("10%\r50%\r100%\r\n", "100%\n"),
        (long.as_str(), ""),
    ];
    for (output, want) in cases {
        // An editor that says nothing at the wait has said it with the output.
        let scene = Scene::new(GOOD, bare(output), Exit::default());
        let ran = scene.run(CancellationToken::new()).await.unwrap();
        assert_eq!(ran.exit, code(3));
        assert!(ran.notes.iter().any(|n| n.contains("only the end")), "{:?}", ran.notes);
        if want.is_empty() {
            assert!(ran.output.len() < 60_000 && ran.spilled.is_some(), "{} bytes", ran.output.len());
        } else {
            assert_eq!(ran.output.trim_end(), want.trim_end());
        }
    }
    let signal = Exit { code: None, signal: Some("SIGKILL".into()) };
    let ran = Scene::new(GOOD, screen(), signal.clone()).run(CancellationToken::new()).await.unwrap();
    assert_eq!(ran.exit, signal);
}

#[tokio::test]
async fn it_is_started_so_that_every_editor_means_the_same() {
    let scene = Scene::new(GOOD, screen(), code(0));
    let text = "printf '%s\\n' \"a  b\" $X; cat <<E\n<x>\nE";
    for verdict in [Verdict::Ask, Verdict::ReadOnly] {
        let command = Command { verdict, ..scene.command(text) };
        let card = Arc::new(Card(scene.fake.log.clone()));
        scene.ws.run(&command, card, CancellationToken::new()).await.unwrap();
        let (start, script) = lock(&scene.fake.started).take().unwrap();
        assert!(script.ends_with(&format!(" EXIT\n{text}\n")), "{script}");
        assert!(start.arguments.len() == 1 && plain(Path::new(&start.arguments[0])), "{start:?}");
        assert_eq!(start.cwd, scene.ws.resolve(".").unwrap().as_path());
        let named = |name: &str| start.env.iter().any(|(n, _)| n == name);
        assert!(named("PAGER") && !named("TOKEN"), "{:?}", start.env);
        // What runs unasked was judged by our own search path.
        assert_eq!(named("PATH"), verdict == Verdict::ReadOnly);
    }
    for (path, is_plain) in
        [("/tmp/a-b_c.sh", true), ("/tmp/a b", false), ("/tmp/$(x)", false), ("/tmp/é", false)]
    {
        assert_eq!(plain(Path::new(path)), is_plain, "{path}");
    }
}

/// An editor that really runs what it is given, with a variable of its own.
struct Runner;
#[async_trait]
impl Terminals for Runner {
    async fn create(&self, start: Start) -> Result<Box<dyn Terminal>, TerminalError> {
        let out = std::process::Command::new(&start.program)
            .args(&start.arguments)
            .current_dir(&start.cwd)
            .env("OF_THE_EDITOR", "1")
            .env("TOKEN", "abc")
            .envs(start.env)
            .output()
            .unwrap();
        let screen = Screen { output: String::from_utf8(out.stdout).unwrap(), exit: None, truncated: false };
        Ok(Box::new(Held {
            editor: GOOD,
            screen,
            exit: Exit { code: out.status.code(), signal: None },
            log: Arc::default(),
            released: false,
        }))
    }
}

#[tokio::test]
async fn folder_and_exports_are_carried_on() {
    let Scene { dir, ws, .. } = Scene::new(GOOD, screen(), code(0));
    let ws = ws.in_editor(Some(Arc::new(Runner)));
    std::fs::create_dir(dir.path().join("ws/sub")).unwrap();
    struct Quiet;
    impl OutputSink for Quiet {
        fn output(&self, _: &[u8]) {}
    }
    let run = async |text: &str, verdict| {
        let command = Command {
            text: text.into(),
            cwd: ws.resolve(ws.cwd().to_str().unwrap()).unwrap(),
            timeout: Duration::from_secs(60),
            verdict,
            why: String::new(),
            assessment: None,
            background: false,
            unconfined: false,
        };
        ws.run(&command, Arc::new(Quiet), CancellationToken::new()).await.unwrap()
    };
    let ran = run("export A=1 B='x y'; unset TOKEN; cd sub; exit 3", Verdict::Ask).await;
    assert_eq!((ran.exit, ran.cwd.map(|c| c.ends_with("sub"))), (code(3), Some(true)));
    let show = "echo $A-$B-${TOKEN-none}-$OF_THE_EDITOR; basename \"$PWD\"";
    assert_eq!(run(show, Verdict::Ask).await.output, "1-x y-none-1\nsub\n");
    // One that runs unasked gets what it names.
    assert!(run(show, Verdict::ReadOnly).await.output.starts_with("1-x y-"));
    let ran = run("cd /", Verdict::Ask).await;
    assert!(ran.notes.iter().any(|n| n.contains("outside the workspace")), "{:?}", ran.notes);
    assert_eq!(run("pwd | sed 's/.*\\///'", Verdict::Ask).await.output, "ws\n");
    let left = std::fs::read_dir(dir.path().join("own")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn an_editor_without_terminals_is_told_of_once() {
    let scene = Scene::new(GOOD, screen(), code(0));
    let Scene { ws, .. } = &scene;
    assert!(ws.runs_in_editor());
    assert!(ws.run_here().is_some_and(|w| w.contains("background")));
    let scene = Scene::new(GOOD, screen(), code(0));
    let ws = scene.ws.in_editor(None);
    assert!(!ws.runs_in_editor());
    assert!(ws.run_here().is_some_and(|w| w.contains("offers no terminals")));
    assert_eq!(ws.run_here(), None);
}
