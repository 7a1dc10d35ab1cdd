use super::*;
use crate::{
    log::Exit,
    tools::{DynTool, erase, fake::Fake},
};
use serde_json::json;

fn tool() -> Arc<dyn DynTool> {
    erase(Terminal::default())
}

fn exits(code: i32, output: &str) -> Ran {
    Ran {
        exit: Exit { code: Some(code), signal: None },
        output: output.into(),
        took: Duration::from_millis(1500),
        sandbox: "none",
        ..Ran::default()
    }
}

#[tokio::test]
async fn the_result_says_how_it_ended() {
    let ws = Fake::new();
    ws.file("sub/x", "").file("a.txt", "disk\n");
    let signal = Exit { code: None, signal: Some("SIGSEGV".into()) };
    let slow = || Ran { exit: Exit { code: None, signal: Some("SIGKILL".into()) }, ..exits(0, "ready\n") };
    for (ran, want, failed) in [
        (exits(0, "hi\n"), "hi\n\n[exit code 0, 1.5 s]", false),
        (exits(3, ""), "(no output)\n\n[exit code 3, 1.5 s]", true),
        (Ran { exit: signal, ..exits(0, "") }, "(no output)\n\n[killed by SIGSEGV, 1.5 s]", true),
        (
            Ran { timed_out: true, ..slow() },
            "ready\n\n[timed out after 3.0 s and was killed with everything it started, 1.5 s]",
            true,
        ),
        (Ran { cancelled: true, ..slow() }, "ready\n\n[stopped by the user, 1.5 s]", true),
        (
            Ran { waiting: Some("sh reads /dev/pts/1".into()), ..slow() },
            "ready\n\n[ended, since it waited for somebody to type (sh reads /dev/pts/1), 1.5 s]\n[nobody answers \
             here: give the answer on the command line (flags such as -y, --no-input, -m TEXT) or by a file or a pipe, \
             or ask the user to run it]",
            true,
        ),
        (
            exits(128, "fatal: could not read Username for 'https://x': terminal prompts disabled\n"),
            "fatal: could not read Username for 'https://x': terminal prompts disabled\n\n[exit code 128, 1.5 s]\n[it \
             wanted somebody to type, and nobody answers here: give the answer on the command line (flags such as -y, \
             --no-input, -m TEXT) or by a file or a pipe, or ask the user to run it]",
            true,
        ),
        (exits(0, "is not a tty\n"), "is not a tty\n\n[exit code 0, 1.5 s]", false),
        (
            Ran { cwd: Some(ws.root().join("sub")), sandbox: "landlock", ..exits(0, "hi") },
            "hi\n\n[exit code 0, 1.5 s, sandbox landlock]\n[the folder is now sub]",
            false,
        ),
    ] {
        ws.results.lock().unwrap().push_back(ran);
        let output = ws.call(&*tool(), json!({"command": "x", "timeout": 3})).await.unwrap();
        assert_eq!((output.text.as_str(), output.failed), (want, failed));
        assert!(matches!(&output.shown[..], [Shown::Terminal { id, exit: Some(_), .. }] if id == "t_1"));
    }
    ws.results.lock().unwrap().push_back(Ran { job: Some(3), exit: Exit::default(), ..exits(0, "up\n") });
    let output = ws.call(&*tool(), json!({"command": "serve", "background": true})).await.unwrap();
    assert_eq!(
        output.text,
        "up\n\n[goes on in the background as job 3: `jobs` reads its output and stops it, 1.5 s]"
    );
    assert!(!output.failed && ws.ran.lock().unwrap().last().unwrap().background);
    assert!(matches!(&output.shown[..], [Shown::Terminal { exit: None, .. }]));
    ws.buffers.lock().unwrap().insert(ws.root().join("a.txt"), "unsaved\n".into());
    let text = ws.call(&*tool(), json!({"command": "cat a.txt"})).await.unwrap().text;
    assert!(text.ends_with("[the command did not see unsaved changes in the editor: a.txt]"), "{text}");
}

#[tokio::test]
async fn seconds_are_clamped_and_the_folder_is_carried() {
    let ws = Fake::new();
    ws.file("sub/x", "");
    for (timeout, want) in [
        (json!(null), TIMEOUT),
        (json!(3), Duration::from_secs(3)),
        (json!("1.5"), Duration::from_millis(1500)),
        (json!(120_000), LONGEST),
    ] {
        let effects = ws.plan(&*tool(), json!({"command": "x", "timeout": timeout})).await.unwrap();
        assert_eq!(effects.runs.unwrap().timeout, want, "{timeout}");
    }
    for timeout in [json!(-1), json!(0), json!("-2.5")] {
        let refused = ws.plan(&*tool(), json!({"command": "x", "timeout": timeout})).await.unwrap_err();
        assert!(refused.to_string().contains("`timeout`"), "{timeout}: {refused}");
    }
    let folder = |args| {
        let ws = &ws;
        async move {
            ws.plan(&*tool(), args).await.map(|e| e.runs.unwrap().cwd.to_string()).map_err(|e| e.to_string())
        }
    };
    let root = ws.root().display().to_string();
    assert_eq!(folder(json!({"command": "x"})).await.unwrap(), root);
    assert_eq!(folder(json!({"command": "x", "cwd": "sub"})).await.unwrap(), format!("{root}/sub"));
    *ws.cwd.lock().unwrap() = Some(ws.root().join("sub"));
    assert_eq!(folder(json!({"command": "x"})).await.unwrap(), format!("{root}/sub"));
    assert!(
        folder(json!({"command": "x", "cwd": "/etc"})).await.unwrap_err().contains("outside the workspace")
    );
    assert!(folder(json!({"command": "x", "cwd": "no"})).await.unwrap_err().contains("no folder"));
    assert!(folder(json!({"command": "x", "cwd": "sub/x"})).await.unwrap_err().contains("not a folder"));
    assert!(folder(json!({"command": " "})).await.unwrap_err().contains("empty"));
    assert!(folder(json!({"command": "apply_patch <<'EOF'\nEOF"})).await.unwrap_err().contains("is a tool"));
}

#[test]
fn a_title_is_one_line_of_at_most_200_characters() {
    let ws = Fake::new();
    ws.file("sub/x", "");
    let title = |args| tool().prepare(args).unwrap().title(&ws);
    assert_eq!(title(json!({"command": "cargo test"})), "Run `cargo test`");
    assert_eq!(title(json!({"command": "ls", "cwd": "sub"})), "Run `ls` in sub");
    assert_eq!(title(json!({"command": "cat > x <<'EOF'\nbody\nEOF"})), "Run `cat > x <<'EOF' …`");
    let long = title(json!({"command": format!("echo {}\nsecond", "é".repeat(5000)), "cwd": "sub"}));
    assert_eq!(long.chars().count(), 200);
    assert!(long.ends_with("…` in sub"));
}
