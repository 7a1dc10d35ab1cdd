//! The tools that run commands, over real processes under the real helper.
#![cfg(target_os = "linux")]
use hermes::{
    effects::Verdict,
    log::CallIdent,
    tools::{Cx, Output, Progress, ToolError, builtin, nearest},
    workspace::{Narrowed, NoBuffers, SessionWorkspace, Setup, process::Settings, sandbox},
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Cancels the call when its output has this text.
struct Watch(&'static str, CancellationToken);
impl Progress for Watch {
    fn terminal(&self, bytes: &[u8]) {
        if !self.0.is_empty() && String::from_utf8_lossy(bytes).contains(self.0) {
            self.1.cancel();
        }
    }
}

fn workspace(folder: &Path) -> SessionWorkspace {
    let root = folder.join("ws");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    SessionWorkspace::new(Setup {
        roots: vec![root],
        session_folder: folder.join("session"),
        home: None,
        buffers: Arc::new(NoBuffers),
        process: Settings {
            helper: env!("CARGO_BIN_EXE_hermes-editor").into(),
            sandbox: sandbox::Mode::Off,
            ..Settings::default()
        },
    })
    .unwrap()
}

async fn call(
    ws: &SessionWorkspace,
    name: &str,
    args: Value,
    until: &'static str,
) -> Result<Output, ToolError> {
    let tools = builtin();
    let prepared = nearest(name, &tools).unwrap().prepare(args)?;
    let effects = prepared.plan(ws).await?;
    let narrowed = Narrowed::new(ws, &effects);
    let call = CallIdent { session: "s_1".into(), id: "t_1".into() };
    let cancel = CancellationToken::new();
    let progress = Arc::new(Watch(until, cancel.clone()));
    let cx = Cx { call: &call, workspace: &narrowed, cancel, progress, images: false };
    prepared.run(effects.clone(), cx).await
}

#[tokio::test]
async fn a_command_runs_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let ws = workspace(folder.path());
    let output = call(&ws, "terminal", json!({"command": "cd sub; export A=1; echo hi >&2; exit 3"}), "")
        .await
        .unwrap();
    assert!(output.failed && output.text.starts_with("hi\n\n[exit code 3, "), "{}", output.text);
    assert!(output.text.ends_with("[the folder is now sub]"), "{}", output.text);
    let output =
        call(&ws, "terminal", json!({"command": "echo $A > made; basename \"$PWD\"; cat; cat made"}), "")
            .await
            .unwrap();
    assert!(!output.failed && output.text.starts_with("sub\n1\n\n[exit code 0, "), "{}", output.text);
    let output =
        call(&ws, "terminal", json!({"command": "echo ready; sleep 600", "timeout": 1}), "").await.unwrap();
    assert!(output.failed && output.text.starts_with("ready\n\n[timed out after 1.0 s"), "{}", output.text);
}

#[tokio::test]
async fn a_command_that_was_stopped_keeps_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let ws = workspace(folder.path());
    let output = call(&ws, "terminal", json!({"command": "echo ready; sleep 600"}), "ready").await.unwrap();
    assert!(output.failed && output.text.starts_with("ready\n\n[stopped by the user, "), "{}", output.text);
}

#[tokio::test]
async fn a_background_command_is_read_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let ws = workspace(folder.path());
    let args = json!({"command": "echo up; sleep 600", "background": true});
    let output = call(&ws, "terminal", args, "").await.unwrap();
    assert!(output.text.contains("[goes on in the background as job 1: "), "{}", output.text);
    let text = call(&ws, "jobs", json!({}), "").await.unwrap().text;
    assert!(text.starts_with("job 1: running for ") && text.ends_with("`echo up; sleep 600`"), "{text}");
    let text = call(&ws, "jobs", json!({"action": "stop", "id": 1}), "").await.unwrap().text;
    assert!(text.ends_with("[job 1: stopped]"), "{text}");
    assert!(call(&ws, "jobs", json!({"action": "read", "id": 9}), "").await.is_err());
    ws.close().await;
}

/// The program that judges a command finds it where the command will.
#[tokio::test]
async fn a_command_is_judged_by_the_path_that_it_runs_with() {
    let folder = tempfile::tempdir().unwrap();
    let ws = workspace(folder.path());
    let tools = builtin();
    let verdict = async |command: &str| {
        let prepared = nearest("terminal", &tools).unwrap().prepare(json!({ "command": command })).unwrap();
        prepared.plan(&ws).await.unwrap().runs.unwrap().verdict
    };
    assert_eq!(verdict("ls sub").await, Verdict::ReadOnly);
    assert_eq!(verdict("touch x").await, Verdict::Ask);
    assert_eq!(verdict("rm -rf ~").await, Verdict::Destructive);
}
