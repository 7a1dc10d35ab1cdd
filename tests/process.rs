//! Commands under the real helper: nothing that they start outlives them, whatever it does to get away.
#![cfg(target_os = "linux")]
use hermes::{
    effects::{Command, Verdict},
    workspace::{
        NoBuffers, OutputSink, Ran, Reader, SessionWorkspace, Setup, Workspace, WsError,
        process::{HELPER, Settings},
        sandbox,
    },
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const BIN: &str = env!("CARGO_BIN_EXE_hermes-editor");

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    ws: SessionWorkspace,
}

fn place_with(change: impl FnOnce(&mut Settings, &Path)) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let root = base.join("ws");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir_all(base.join("home")).unwrap();
    let mut settings = Settings {
        env: vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("HOME".into(), base.join("home").into()),
            ("OPENAI_API_KEY".into(), "not-for-commands".into()),
        ],
        helper: BIN.into(),
        sandbox: sandbox::Mode::Off,
        ..Settings::default()
    };
    change(&mut settings, &base);
    let ws = SessionWorkspace::new(Setup {
        roots: vec![root.clone()],
        session_folder: base.join("own"),
        home: None,
        buffers: Arc::new(NoBuffers),
        process: settings,
    })
    .unwrap();
    Place { _dir: dir, root, ws }
}

fn place() -> Place {
    place_with(|_, _| {})
}

/// Remembers the output, and cancels when it has seen a text.
#[derive(Default)]
struct Seen {
    text: Mutex<String>,
    cancel_at: Option<(&'static str, CancellationToken)>,
    at: Mutex<Option<Instant>>,
}
impl OutputSink for Seen {
    fn output(&self, bytes: &[u8]) {
        let mut text = self.text.lock().unwrap();
        text.push_str(&String::from_utf8_lossy(bytes));
        if text.len() > 1 << 20 {
            text.clear();
        }
        if let Some((mark, cancel)) = &self.cancel_at
            && text.contains(mark)
            && !cancel.is_cancelled()
        {
            *self.at.lock().unwrap() = Some(Instant::now());
            cancel.cancel();
        }
    }
}

impl Place {
    fn command(&self, text: &str) -> Command {
        Command {
            text: text.into(),
            cwd: self.ws.resolve(self.ws.cwd().to_str().unwrap()).unwrap(),
            timeout: Duration::from_secs(60),
            verdict: Verdict::Ask,
            why: String::new(),
            assessment: None,
            background: false,
            unconfined: false,
        }
    }
    async fn try_sh(&self, text: &str) -> Result<Ran, WsError> {
        self.ws.run(&self.command(text), Arc::new(Seen::default()), CancellationToken::new()).await
    }
    async fn sh(&self, text: &str) -> Ran {
        self.try_sh(text).await.unwrap()
    }
    /// Runs until the output has the mark, then cancels; how long the end took.
    async fn cancelled_at(&self, text: &str, mark: &'static str) -> (Ran, Duration) {
        let cancel = CancellationToken::new();
        let sink = Arc::new(Seen { cancel_at: Some((mark, cancel.clone())), ..Seen::default() });
        let ran = self.ws.run(&self.command(text), sink.clone(), cancel).await.unwrap();
        let at = sink.at.lock().unwrap().unwrap();
        (ran, at.elapsed())
    }
    fn pid(&self, file: &str) -> i32 {
        std::fs::read_to_string(self.root.join(file)).unwrap().trim().parse().unwrap()
    }
}

/// Whether the process runs (an unreaped zombie does not).
fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits for a condition that another process brings about; fails after ten seconds.
fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn exit_output_and_signal_are_told() {
    let p = place();
    let ran = p.sh("echo out; echo err >&2; exit 3").await;
    assert_eq!((ran.exit.code, &*ran.output), (Some(3), "out\nerr\n"));
    assert_eq!(p.sh("kill -KILL $$").await.exit.signal.as_deref(), Some("SIGKILL"));
    let ran = p.sh("if then").await;
    assert_eq!(ran.exit.code, Some(2), "{}", ran.output);
    assert!(ran.output.contains("syntax error"), "{}", ran.output);
    assert_eq!(p.sh("echo \"$# [$1] $0\"; -x 2>/dev/null; echo '-n x'").await.output, "0 [] bash\n-n x\n");
    assert!(ran.leftovers.is_empty() && ran.notes.is_empty() && ran.sandbox == "off");
}

#[tokio::test]
async fn there_is_no_terminal_and_no_input() {
    let p = place();
    assert_eq!(p.sh("cat; echo end").await.output, "end\n");
    let ran = p.sh("read x </dev/tty").await;
    assert_ne!(ran.exit.code, Some(0));
    assert_eq!(p.sh("tty; tty <&1; tty <&2").await.output, "not a tty\nnot a tty\nnot a tty\n");
    let ran =
        p.sh("git init -q . && echo x >f && git add f && git -c user.name=a -c user.email=b commit").await;
    assert_ne!(ran.exit.code, Some(0));
    assert!(ran.output.contains("editor"), "{}", ran.output);
    assert_eq!(p.sh("echo \"key=$OPENAI_API_KEY pager=$PAGER\"").await.output, "key= pager=cat\n");
}

#[tokio::test]
async fn folder_and_exports_are_carried() {
    let p = place();
    let ran = p.sh("cd sub; export A='x y' PAGER=less; B=no; unset HOME").await;
    assert_eq!(ran.cwd.as_deref(), Some(&*p.root.join("sub")));
    assert_eq!(p.ws.cwd(), p.root.join("sub"));
    let ran = p.sh("pwd; echo \"[$A] [$B] [$PAGER] [${HOME-unset}]\"").await;
    assert_eq!(ran.output, format!("{}/sub\n[x y] [] [cat] [unset]\n", p.root.display()));
    assert_eq!(ran.cwd, None);
    let ran = p.sh("cd /; exit 7").await;
    assert_eq!((ran.exit.code, p.ws.cwd()), (Some(7), p.root.clone()));
    assert!(ran.notes[0].contains("outside the workspace"), "{:?}", ran.notes);
    // A shell that replaces itself, or the trap, says nothing: the folder stays.
    p.sh("cd sub").await;
    p.sh("cd ..; exec true").await;
    p.sh("trap - EXIT; cd ..").await;
    assert_eq!(p.ws.cwd(), p.root.join("sub"));
    p.sh("exec 3>leak 4>&1; set -eu; false").await;
    assert_eq!(std::fs::read_to_string(p.root.join("sub/leak")).unwrap(), "");
    p.sh("rm -r ../sub").await;
    let error = p.try_sh("true").await.unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    assert_eq!(p.sh("pwd").await.output, format!("{}\n", p.root.display()));
}

#[tokio::test]
async fn i18_what_is_left_behind_ends_with_the_command() {
    let p = place();
    // In the background; in a session of its own; forked twice with its output closed; deaf to SIGTERM.
    let ran = p
        .sh("sleep 1000 & echo $! >a
             setsid sh -c 'echo $$ >b; exec sleep 1000' &
             (setsid sh -c 'sh -c \"echo \\$\\$ >c; exec sleep 1000 >/dev/null 2>&1 </dev/null\" &' &) 
             setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >d; while :; do sleep 1000; done' &
             until [ -s a ] && [ -s b ] && [ -s c ] && [ -s d ]; do :; done; echo done")
        .await;
    assert_eq!((ran.exit.code, &*ran.output), (Some(0), "done\n"));
    assert_eq!(ran.leftovers.len(), 5, "{:?}", ran.leftovers);
    for file in ["a", "b", "c", "d"] {
        assert!(!alive(p.pid(file)), "{file}");
    }
}

#[tokio::test]
async fn the_end_of_a_pipeline_is_not_cut_off() {
    let p = place();
    let ran = p.sh("echo early > >(read x; sleep 0.05; echo \"late $x\")").await;
    assert_eq!(ran.output, "late early\n");
    assert!(ran.leftovers.is_empty());
}

#[tokio::test]
async fn a_time_out_ends_all_and_keeps_the_output() {
    let p = place();
    let mut command =
        p.command("trap '' TERM; setsid sleep 1000 & echo $! >a; echo ready; sleep 1000; sleep 1000");
    command.timeout = Duration::from_millis(300);
    let ran = p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    assert!(ran.timed_out && !ran.cancelled);
    assert_eq!(ran.output, "ready\n");
    assert!(!alive(p.pid("a")));
}

#[tokio::test]
async fn cancel_ends_all_at_once() {
    let p = place();
    let (ran, took) =
        p.cancelled_at("setsid sleep 1000 & echo $! >a; echo $$ >b; echo ready; sleep 1000", "ready").await;
    assert!(ran.cancelled && !ran.timed_out);
    // How fast is measured elsewhere; here only that it ends by itself, on any machine.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(!alive(p.pid("a")) && !alive(p.pid("b")));
    // Deaf to SIGTERM: SIGKILL after the grace of 300 ms. Stopped: it ends all the same.
    let text = "trap '' TERM; (kill -STOP $BASHPID) & echo $$ >a; echo ready; while :; do sleep 0.01; done";
    let (ran, took) = p.cancelled_at(text, "ready").await;
    assert!(ran.cancelled);
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(10), "{took:?}");
    assert!(!alive(p.pid("a")));
}

/// A signal that comes between a shell's fork and the exec of what it starts is lost with the exec: it is sent again, and
/// nobody waits for SIGKILL.
#[tokio::test]
async fn what_became_another_program_is_told_to_end_again() {
    let p = place();
    let (ran, _) =
        p.cancelled_at("trap 'exec sleep 1000' TERM; echo ready; while :; do :; done", "ready").await;
    assert_eq!(ran.exit.signal.as_deref(), Some("SIGTERM"));
    // What tidies up is let do so.
    let text = "trap 'rm lock; exit 3' TERM; touch lock; echo ready; while :; do :; done";
    let (ran, _) = p.cancelled_at(text, "ready").await;
    assert_eq!((ran.exit.code, p.root.join("lock").exists()), (Some(3), false));
}

/// Waiting for somebody to type is told, not waited out.
#[tokio::test]
async fn what_reads_a_terminal_of_its_own_is_ended() {
    let p = place_with(|s, _| s.patience = Duration::from_millis(300));
    for reads in [
        r#"["sh", "-c", "read x"]"#,
        r#"[sys.executable, "-c", "import select; select.select([0], [], [])"]"#,
    ] {
        let text = format!("echo before; python3 -c 'import pty, sys; pty.spawn({reads})'");
        let ran = p.sh(&text).await;
        if ran.exit.code == Some(127) {
            // There is no python3 to make a terminal.
            return;
        }
        assert!(ran.waiting.as_deref().is_some_and(|w| w.contains("/dev/pts/")), "{ran:?}");
        assert!(ran.output.starts_with("before") && !ran.timed_out && !ran.cancelled);
    }
    // What works meanwhile, or waits for something else, does not wait for a person.
    for text in ["sleep 1; echo done", "mkfifo f; (sleep 1; echo done >f) & read x <f; echo $x"] {
        let ran = p.sh(text).await;
        assert_eq!((&*ran.output, &ran.waiting), ("done\n", &None), "{text}");
    }
}

/// In a process of its own, where no other test takes memory.
#[test]
fn a_hundred_megabytes_stay_bounded() {
    let path = module_path!().split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
    let name = format!("{path}hundred_megabytes_alone");
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env("HERMES_TEST_ALONE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn hundred_megabytes_alone() {
    if std::env::var_os("HERMES_TEST_ALONE").is_none() {
        return;
    }
    let p = place();
    let before = resident();
    let ran = p.sh("yes 'a line of output that repeats' | head -c 100000000; echo; echo last").await;
    assert_eq!(ran.exit.code, Some(0));
    assert!(ran.output.len() < 50_000, "{}", ran.output.len());
    assert!(ran.output.ends_with("last\n"));
    let spilled = std::fs::metadata(ran.spilled.unwrap()).unwrap().len();
    assert_eq!(spilled, 50 * 1024 * 1024);
    assert!(resident() < before + 16_000, "{} then {} kB", before, resident());
}

/// Of this process, in kB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The helper alone, as an agent starts it; killing that agent is closing the pipe.
#[test]
fn a_killed_agent_leaves_nothing() {
    use std::{io::Write, process::Stdio};
    let dir = tempfile::tempdir().unwrap();
    let text = "setsid sleep 1000 & echo $! >a; trap '' TERM; echo $$ >b; while :; do sleep 1; done";
    let spec = serde_json::json!({
        "shell": "/bin/sh", "arguments": ["-c", "eval \"$1\"", "sh"], "text": text, "last_words": "", "sandbox": null,
    });
    // The middle process stands for the agent: it holds the pipe, and is killed with SIGKILL.
    let script = format!("exec 3> >(exec {BIN} {HELPER} run >/dev/null 2>&1); cat >&3; kill -KILL $$");
    let mut agent = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = agent.stdin.take().unwrap();
    input.write_all(format!("{spec}\n").as_bytes()).unwrap();
    let pid =
        |file: &str| std::fs::read_to_string(dir.path().join(file)).ok().and_then(|t| t.trim().parse().ok());
    until("the command runs", || pid("a").is_some_and(alive) && pid("b").is_some_and(alive));
    drop(input);
    agent.wait().unwrap();
    until("all of it ended", || !alive(pid("a").unwrap()) && !alive(pid("b").unwrap()));
}

#[tokio::test]
async fn signals_to_the_helper_do_not_free_the_command() {
    let p = place();
    let text = "setsid sleep 1000 & echo $! >a; kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill 0";
    let ran = p.sh(text).await;
    assert_eq!(ran.exit.signal.as_deref(), Some("SIGTERM"));
    assert!(!alive(p.pid("a")));
}

#[tokio::test]
async fn jobs_are_listed_read_and_stopped() {
    let p = place();
    let mut command = p.command("echo $$ >a; echo ready; setsid sleep 1000 & echo $! >b; wait");
    command.background = true;
    let ran = p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    let (id, jobs) = (ran.job.unwrap(), p.ws.jobs().unwrap());
    assert_eq!(ran.output, "ready\n");
    assert!(jobs.list()[0].ended.is_none() && alive(p.pid("a")) && alive(p.pid("b")));
    assert_eq!(jobs.read(id).unwrap().0, "");
    let (_, status) = jobs.stop(id).await.unwrap();
    assert!(status.ended.unwrap().unwrap().cancelled);
    assert!(!alive(p.pid("a")) && !alive(p.pid("b")));
    assert!(jobs.read(id + 1).is_none());
    // One that ends at once is told as ended, and is no job.
    command.text = "echo quick; exit 4".into();
    let ran = p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    assert_eq!((ran.job, ran.exit.code, &*ran.output), (None, Some(4), "quick\n"));
    // All end with the session.
    command.text = "echo $$ >c; exec sleep 1000".into();
    p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    p.ws.close().await;
    assert!(!alive(p.pid("c")));
}

fn confined(mode: sandbox::Mode) -> Place {
    place_with(|settings, _| {
        settings.sandbox = mode;
        settings.network_approved = false;
    })
}

/// In whatever backend works on this machine; where none does there is nothing to test, and that is printed.
#[tokio::test]
async fn the_sandbox_keeps_writes_in_the_workspace() {
    let backend = sandbox::probe(Path::new(BIN));
    if *backend == sandbox::Backend::None {
        eprintln!("skipped: no sandbox works on this machine");
        return;
    }
    let p = confined(sandbox::Mode::WorkspaceWrite);
    std::os::unix::fs::symlink(p.root.join(".."), p.root.join("up")).unwrap();
    let ran =
        p.sh("echo in >a && cat a && mktemp >/dev/null && echo x >/dev/null && cd sub && export E=1").await;
    assert_eq!((ran.exit.code, &*ran.output, ran.sandbox), (Some(0), "in\n", backend.name()));
    assert_eq!(ran.cwd.as_deref(), Some(&*p.root.join("sub")), "the last state comes through");
    assert_eq!(ran.denied, None);
    for out in ["echo x >../../out", "echo x >../up/out", "ln -s ../.. l; echo x >l/out", "mv ../a ../../out"]
    {
        let ran = p.sh(out).await;
        assert_ne!(ran.exit.code, Some(0), "{out}");
        assert!(ran.denied.is_some(), "{out}: {}", ran.output);
        assert!(!p.root.join("../out").exists());
    }
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (t, u) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let ran = p.sh(&format!("exec 3<>/dev/tcp/127.0.0.1/{t} || exit 5")).await;
    assert_ne!(ran.exit.code, Some(0), "{}", ran.output);
    p.sh(&format!("echo x >/dev/udp/127.0.0.1/{u}")).await;
    assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram came through");
    if backend.protects_inside_roots() {
        let hooks = p.root.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        let ran = p.sh("cd ..; echo x >.git/hooks/pre-commit; echo x >.git/new && echo end").await;
        assert!(ran.output.contains("Read-only") && ran.output.ends_with("end\n"), "{}", ran.output);
        assert_eq!(hooks.read_dir().unwrap().count(), 0);
        p.sh("cd sub").await;
    }
    // What runs unasked writes nothing at all.
    let mut command = p.command("echo x >b; echo $?");
    command.verdict = Verdict::ReadOnly;
    let ran = p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    assert!(ran.output.ends_with("1\n") && !p.root.join("sub/b").exists(), "{}", ran.output);
    // A person has allowed this one to leave it.
    let mut command = p.command("echo x >../../out && echo out");
    command.unconfined = true;
    let ran = p.ws.run(&command, Arc::new(Seen::default()), CancellationToken::new()).await.unwrap();
    assert_eq!((&*ran.output, ran.sandbox), ("out\n", "off"));
    // Everything it starts ends with it, also out of there.
    p.sh("setsid sleep 1000 & echo $! >c; until [ -s c ]; do :; done").await;
    assert!(!alive(p.pid("sub/c")));
}

#[tokio::test]
async fn read_only_writes_to_its_temporary_folder_alone() {
    if *sandbox::probe(Path::new(BIN)) == sandbox::Backend::None {
        eprintln!("skipped: no sandbox works on this machine");
        return;
    }
    let p = confined(sandbox::Mode::ReadOnly);
    let ran = p.sh("echo x >$TMPDIR/t && cat $TMPDIR/t; echo x >a; echo end").await;
    assert!(ran.output.starts_with("x\n") && ran.output.ends_with("end\n"), "{}", ran.output);
    assert!(!p.root.join("a").exists());
}
