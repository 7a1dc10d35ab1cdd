//! The tools together, over a session's real workspace.
use super::*;
use crate::{
    log::PlanStatus,
    workspace::{Narrowed, NoBuffers, SessionWorkspace, Setup, process},
};
use serde_json::json;
use std::path::Path;

struct Silent;
impl Progress for Silent {
    fn terminal(&self, _: &[u8]) {}
}

/// A workspace whose root was named through a symbolic link.
fn linked(folder: &Path) -> SessionWorkspace {
    std::fs::create_dir(folder.join("real")).unwrap();
    std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
    SessionWorkspace::new(Setup {
        roots: vec![folder.join("link")],
        session_folder: folder.join("session"),
        home: None,
        buffers: Arc::new(NoBuffers),
        process: process::Settings::default(),
    })
    .unwrap()
}

/// As a turn does that allows everything: plan, narrow to the effects, run.
async fn call(ws: &SessionWorkspace, name: &str, args: Value) -> Result<Output, ToolError> {
    let tools = builtin();
    let prepared = nearest(name, &tools).unwrap().prepare(args)?;
    let effects = prepared.plan(ws).await?;
    let narrowed = Narrowed::new(ws, &effects);
    let call = CallIdent { session: "s_1".into(), id: "t_1".into() };
    let cx = Cx {
        call: &call,
        workspace: &narrowed,
        cancel: CancellationToken::new(),
        progress: Arc::new(Silent),
        images: true,
    };
    prepared.run(effects.clone(), cx).await
}

#[tokio::test]
async fn a_session_s_files_are_read_changed_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let ws = linked(folder.path());
    let named = folder.path().join("link");
    let text = |output: Result<Output, ToolError>| output.unwrap().text;

    let made = call(&ws, "write", json!({"path": "src/a.rs", "content": "one\ntwo\n"})).await.unwrap();
    assert_eq!(made.text, "Created src/a.rs (2 lines)");
    assert_eq!(made.locations, [Location { path: named.join("src/a.rs"), line: Some(1) }]);
    let path = named.join("src/a.rs");
    let edited =
        call(&ws, "edit", json!({"path": path, "old_string": "two", "new_string": "2"})).await.unwrap();
    assert_eq!(edited.text, "Edited src/a.rs. These lines are now:\n1\tone\n2\t2");
    assert!(matches!(&edited.shown[..], [Shown::Diff { path: p, old: Some(old), new }]
        if *p == path && &**old == "one\ntwo\n" && &**new == "one\n2\n"));
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-one\n+1\n*** Add File: c.txt\n+c\n*** End Patch";
    assert_eq!(
        text(call(&ws, "apply_patch", json!({ "patch": patch })).await),
        "Applied the patch:\nR src/a.rs -> src/b.rs\nA c.txt (1 line)"
    );
    assert_eq!(std::fs::read_to_string(folder.path().join("real/src/b.rs")).unwrap(), "1\n2\n");
    assert!(!folder.path().join("real/src/a.rs").exists());
    assert_eq!(
        text(call(&ws, "read", json!({"path": "src/b.rs"})).await),
        "1\t1\n2\t2\n(end of file, 2 lines)"
    );
    assert_eq!(text(call(&ws, "glob", json!({"pattern": "*"})).await), "c.txt\nsrc/b.rs");
    assert_eq!(text(call(&ws, "grep", json!({"pattern": "2"})).await), "src/b.rs\n2:2\n(1 match in 1 file)");
    assert_eq!(text(call(&ws, "list", json!({})).await), "src/\nc.txt  2 B\n(1 folder, 1 file)");
    std::fs::write(folder.path().join("real/c.txt"), "changed outside\n").unwrap();
    let refused = call(&ws, "write", json!({"path": "c.txt", "content": "mine\n"})).await.unwrap_err();
    assert!(refused.to_string().contains("changed since it was read"), "{refused}");
}

#[tokio::test]
async fn images_and_secrets_come_through_a_question() {
    let folder = tempfile::tempdir().unwrap();
    let ws = linked(folder.path());
    std::fs::write(folder.path().join("real/.env"), "KEY=1\n").unwrap();
    let gif = b"GIF89a\x01\0\x01\0\0\0\0;";
    std::fs::write(folder.path().join("real/a.gif"), gif).unwrap();
    let edit = json!({"path": ".env", "old_string": "KEY=1", "new_string": "KEY=2"});
    let refused = call(&ws, "edit", edit.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("use `read` first"), "{refused}");
    assert!(call(&ws, "read", json!({"path": ".env"})).await.unwrap().text.contains("KEY=1"));
    assert!(call(&ws, "edit", edit).await.unwrap().text.contains("KEY=2"));
    let image = call(&ws, "read", json!({"path": "a.gif"})).await.unwrap();
    assert_eq!(image.images[0].mime, "image/gif");
}

/// What every provider takes, and what a reviewer of the descriptions looks at.
#[test]
fn every_tool_is_described() {
    for tool in builtin() {
        let spec = tool.spec();
        assert!(spec.description.len() > 60 && spec.description.len() < 2600, "{}", spec.name);
        assert_eq!(spec.schema["type"], "object");
        let properties = spec.schema["properties"].as_object().unwrap();
        assert!(!properties.is_empty());
        for (name, property) in properties {
            assert!(property["type"].is_string(), "{}.{name}: {property}", spec.name);
            assert!(property["description"].is_string(), "{}.{name} has no description", spec.name);
        }
        assert!(!spec.schema.to_string().contains("$ref"));
    }
    let status = builtin().iter().find(|t| t.name() == "todo").unwrap().spec().schema;
    assert!(status.to_string().contains("in_progress"), "{status}");
    assert_eq!(serde_json::to_value(PlanStatus::InProgress).unwrap(), "in_progress");
}
