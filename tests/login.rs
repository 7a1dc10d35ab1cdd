//! The login shell that fills gaps of the environment, over real shells with a home of their own.
#![cfg(target_os = "linux")]
use hermes::{
    log::CallIdent,
    tools::{Cx, Progress, builtin, nearest},
    workspace::{Narrowed, NoBuffers, SessionWorkspace, Setup, process::Settings, sandbox},
};
use serde_json::json;
use std::{path::Path, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

struct Silent;
impl Progress for Silent {
    fn terminal(&self, _: &[u8]) {}
}

fn workspace(folder: &Path, profile: &str, limit: Duration) -> SessionWorkspace {
    let (root, home) = (folder.join("ws"), folder.join("home"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(".profile"), profile).unwrap();
    let env =
        [("HOME", home.to_str().unwrap()), ("SHELL", "/bin/bash"), ("PATH", "/usr/bin:/bin"), ("GIVEN", "1")];
    SessionWorkspace::new(Setup {
        roots: vec![root],
        session_folder: folder.join("session"),
        home: None,
        buffers: Arc::new(NoBuffers),
        process: Settings {
            env: env.map(|(n, v)| (n.into(), v.into())).to_vec(),
            helper: env!("CARGO_BIN_EXE_hermes-editor").into(),
            sandbox: sandbox::Mode::Off,
            login_shell: Some(limit),
            ..Settings::default()
        },
    })
    .unwrap()
}

async fn run(ws: &SessionWorkspace, command: &str) -> String {
    let tools = builtin();
    let prepared = nearest("terminal", &tools).unwrap().prepare(json!({"command": command})).unwrap();
    let effects = prepared.plan(ws).await.unwrap();
    let narrowed = Narrowed::new(ws, &effects);
    let call = CallIdent { session: "s_1".into(), id: "t_1".into() };
    let cancel = CancellationToken::new();
    let cx = Cx { call: &call, workspace: &narrowed, cancel, progress: Arc::new(Silent), images: false };
    prepared.run(effects.clone(), cx).await.unwrap().text
}

const SHOW: &str = r#"echo "$GIVEN $ADDED $PAGER $PATH""#;

#[tokio::test]
async fn gaps_are_filled_once_and_what_was_given_stays() {
    let folder = tempfile::tempdir().unwrap();
    let profile = "echo x >> ~/count; export GIVEN=2 ADDED=a PAGER=less PATH=\"$HOME/bin:$PATH\"; echo noise";
    let ws = workspace(folder.path(), profile, Duration::from_secs(60));
    let text = run(&ws, SHOW).await;
    assert!(text.starts_with("1 a cat /usr/bin:/bin:"), "{text}");
    assert!(text.lines().next().unwrap().contains("/home/bin"), "{text}");
    run(&ws, "true").await;
    assert_eq!(std::fs::read_to_string(folder.path().join("home/count")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_start_up_file_that_hangs_or_ends_the_shell_adds_nothing() {
    for profile in [
        "export ADDED=a; (sleep 600 &) ; sleep 600",
        "export ADDED=a; read x; while :; do echo loud; done",
        "exec true",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ws = workspace(folder.path(), profile, Duration::from_millis(300));
        let text = run(&ws, SHOW).await;
        assert!(text.starts_with("1  cat /usr/bin:/bin\n"), "{profile}: {text}");
        let left: Vec<_> = std::fs::read_dir(folder.path().join("session")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{profile}: {left:?}");
    }
}
