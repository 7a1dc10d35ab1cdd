//! The side rule, and what was seen of files (I16).
use super::*;
use crate::workspace::{
    Freshness,
    fake::{Answer, Editor, Fixture, Save},
};

/// What the model does when it edits: reads, replaces in what it read, applies.
async fn edit(f: &Fixture, name: &str, from: &str, to: &str) -> Result<Written, ApplyError> {
    let path = f.path(name);
    let change = plan(f, &path, from, to).await.map_err(|error| ApplyError { error, landed: Vec::new() })?;
    f.ws.apply(&[change]).await.map(|mut w| w.remove(0))
}

async fn plan(f: &Fixture, path: &WsPath, from: &str, to: &str) -> Result<Change, WsError> {
    let old = f.ws.read(path).await?;
    let new = match &old {
        Some(old) => old.with_content(old.content().replace(from, to)),
        None => Text::new_utf8(to),
    };
    Ok(Change::Write { path: path.clone(), old, new })
}

/// Every combination of what the client can do, whether the file is on disk, and what the editor answers to a read:
/// what the model reads, where the edit lands, and whether it fails.
#[tokio::test]
async fn i16_side_rule_by_table() {
    for (can_read, can_write) in [(true, true), (true, false), (false, true), (false, false)] {
        for on_disk in [true, false] {
            for answer in ["own", "not found", "failed", "timeout", "empty", "unsaved"] {
                let case = format!("read {can_read}, write {can_write}, on disk {on_disk}, answer {answer}");
                let f = Fixture::new(Editor::new(can_read, can_write));
                if on_disk {
                    f.put("a.txt", "disk\n");
                }
                let scripted = match answer {
                    "not found" => Some(Answer::NotFound),
                    "failed" => Some(Answer::Failed),
                    "timeout" => Some(Answer::Timeout),
                    "empty" => Some(Answer::Text("")),
                    "unsaved" => Some(Answer::Text("unsaved disk\n")),
                    _ => None,
                };
                if let Some(a) = scripted {
                    f.editor.reads.lock().unwrap().insert("a.txt".into(), a);
                }
                let read = f.ws.read(&f.path("a.txt")).await;
                let fails = can_read && (answer == "timeout" || (answer == "failed" && on_disk));
                assert_eq!(read.is_err(), fails, "{case}: {read:?}");
                let before = f.disk("a.txt");
                let result = edit(&f, "a.txt", "disk", "edited").await;
                assert_eq!(result.is_err(), fails, "{case}: {result:?}");
                if fails {
                    assert_eq!(f.disk("a.txt"), before, "{case}");
                    assert_eq!(f.requests("write"), 0, "{case}");
                    continue;
                }
                let text = match (can_read, answer) {
                    (true, "unsaved") => Some("unsaved disk\n".to_owned()),
                    (true, "empty") if on_disk => Some(String::new()),
                    _ => before.clone(),
                };
                assert_eq!(read.unwrap().map(|t| t.content().to_owned()), text, "{case}");
                let known = !matches!(answer, "not found" | "failed") || !on_disk;
                let through_editor = can_read && can_write && known;
                assert_eq!(f.requests("write"), usize::from(through_editor), "{case}");
                let expected = text.map_or("edited".to_owned(), |t| t.replace("disk", "edited"));
                assert_eq!(f.disk("a.txt").as_deref(), Some(&*expected), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn a_failed_or_silent_write_is_never_made_behind_the_editor() {
    for (answer, word) in [(Answer::Failed, "could not write"), (Answer::Timeout, "may have been applied")] {
        let f = Fixture::new(Editor::new(true, true));
        f.put("a.txt", "one\n");
        f.editor.writes.lock().unwrap().push_back(Some(answer.clone()));
        let error = edit(&f, "a.txt", "one", "two").await.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert_eq!(f.disk("a.txt").as_deref(), Some("one\n"));
        // A new file: the folders that were made for it go again.
        f.editor.writes.lock().unwrap().push_back(Some(answer));
        edit(&f, "new/deep/b.txt", "", "x").await.unwrap_err();
        assert!(!f.root.join("new").exists());
    }
    // The editor does not know the file after all: the disk's.
    let f = Fixture::new(Editor::new(true, true));
    f.put("a.txt", "one\n");
    f.editor.writes.lock().unwrap().push_back(Some(Answer::NotFound));
    edit(&f, "a.txt", "one", "two").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("two\n"));
}

#[tokio::test]
async fn the_editor_is_asked_nothing_outside_the_roots() {
    let f = Fixture::new(Editor::new(true, true));
    std::fs::write(f.root.join("../out.txt"), "out\n").unwrap();
    let out = f.path("../out.txt");
    // Not before a person allowed it, so that no error text can tell what is in it.
    assert!(matches!(f.ws.read(&out).await, Err(WsError::OutsideRoots { .. })));
    f.ws.grant(&out);
    assert_eq!(f.ws.read(&out).await.unwrap().unwrap().content(), "out\n");
    edit(&f, "../out.txt", "out", "in").await.unwrap();
    let own = f.ws.spill("result 1", "spilled").await.unwrap();
    let own = f.path(own.to_str().unwrap());
    assert_eq!(f.ws.read(&own).await.unwrap().unwrap().content(), "spilled");
    let change = plan(&f, &own, "spilled", "x").await.unwrap();
    assert!(matches!(f.ws.apply(&[change]).await.unwrap_err().error, WsError::OutsideRoots { .. }));
    assert!(f.editor.log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn secrets_are_withheld_until_they_are_granted() {
    let f = Fixture::new(Editor::new(false, false));
    let env = f.put(".env", "KEY=value\n");
    let error = f.ws.read(&env).await.unwrap_err().to_string();
    assert!(!error.contains("value"), "{error}");
    assert!(f.ws.read_bytes(&env, 100).await.is_err());
    assert!(f.ws.read(&f.path(".env.local")).await.unwrap().is_none(), "a missing one has nothing to tell");
    f.ws.grant(&env);
    assert!(f.ws.read(&env).await.unwrap().is_some());
}

#[tokio::test]
async fn unsaved_work_is_edited_and_survives() {
    let f = Fixture::new(Editor::new(true, true));
    f.put("a.txt", "one\ntwo\n");
    f.buffer("a.txt", "one\ntwo\nunsaved\n");
    edit(&f, "a.txt", "one", "1").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("1\ntwo\nunsaved\n"));
    assert_eq!(f.requests("write"), 1);
}

/// A command changed the file; the editor goes on answering the old text (S07).
#[tokio::test]
async fn a_stale_buffer_never_reverts_the_disk() {
    let f = Fixture::new(Editor::new(true, true));
    let a = f.put("a.txt", "v=1\nkeep=0\n");
    f.editor.reads.lock().unwrap().insert("a.txt".into(), Answer::Text("v=1\nkeep=0\n"));
    let seen = f.ws.read(&a).await.unwrap().unwrap();
    f.ws.saw(&a, &seen);
    f.ws.seen.command_starts();
    f.put("a.txt", "v=1\nkeep=1\n");
    assert!(matches!(f.ws.freshness(&a).await, Freshness::Changed(_)));
    edit(&f, "a.txt", "v=1", "v=2").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("v=2\nkeep=1\n"));
    edit(&f, "a.txt", "v=2", "v=3").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("v=3\nkeep=1\n"));
    assert!(f.ws.dirty().is_empty());
}

#[tokio::test]
async fn unsaved_work_and_another_change_on_disk_are_refused() {
    let f = Fixture::new(Editor::new(true, true));
    let a = f.put("a.txt", "one\n");
    f.buffer("a.txt", "one\nunsaved\n");
    f.ws.read(&a).await.unwrap();
    f.put("a.txt", "other\n");
    let error = edit(&f, "a.txt", "one", "1").await.unwrap_err().error;
    assert!(matches!(error, WsError::Io { .. }), "{error}");
    assert_eq!(
        (f.disk("a.txt").unwrap(), f.buffered("a.txt").unwrap()),
        ("other\n".into(), "one\nunsaved\n".into())
    );
    // Reloaded: the conflict is over.
    f.buffer("a.txt", "other\n");
    edit(&f, "a.txt", "other", "new").await.unwrap();
    // Never seen before, and a command of ours may have written it.
    let b = f.put("b.txt", "");
    f.ws.seen.command_starts();
    std::fs::write(b.real(), "by the command\n").unwrap();
    // The stamp of a file is that of the system's last tick, which may lie before the command began.
    let tick = std::time::SystemTime::now() - std::time::Duration::from_millis(20);
    std::fs::File::options().write(true).open(b.real()).unwrap().set_modified(tick).unwrap();
    f.buffer("b.txt", "in the editor\n");
    assert!(edit(&f, "b.txt", "in", "IN").await.is_err());
}

#[tokio::test]
async fn what_a_person_types_later_is_seen() {
    let f = Fixture::new(Editor::new(true, true));
    let a = f.put("a.txt", "one\n");
    let seen = f.ws.read(&a).await.unwrap().unwrap();
    assert_eq!(f.ws.freshness(&a).await, Freshness::NeverSeen);
    f.ws.saw(&a, &seen);
    assert_eq!(f.ws.freshness(&a).await, Freshness::Unchanged);
    // Saved with other endings: the same text.
    f.put("a.txt", "one\r\n");
    assert_eq!(f.ws.freshness(&a).await, Freshness::Unchanged);
    f.buffer("a.txt", "one\ntyped\n");
    assert!(matches!(f.ws.freshness(&a).await, Freshness::Changed(_)));
    assert_eq!(f.ws.dirty().len(), 1);
    // Saved and typed on.
    f.put("a.txt", "one\ntyped\n");
    f.buffer("a.txt", "one\ntyped\nmore\n");
    edit(&f, "a.txt", "one", "1").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("1\ntyped\nmore\n"));
    std::fs::remove_file(a.real()).unwrap();
    assert!(matches!(f.ws.freshness(&a).await, Freshness::Changed(_)));
    assert!(f.ws.read(&a).await.unwrap().is_none());
}

/// What was done is told as done, and what may have been done in part as that, whatever the editor says.
#[tokio::test]
async fn a_write_that_an_editor_did_and_refused_is_told_as_it_is() {
    let f = Fixture::new(Editor::new(true, true));
    let a = f.put("a.txt", "one\ntwo\n");
    let seen = f.ws.read(&a).await.unwrap().unwrap();
    f.ws.saw(&a, &seen);
    f.editor.writes.lock().unwrap().push_back(Some(Answer::FailedDone));
    let written = edit(&f, "a.txt", "one", "1").await.unwrap();
    assert!(written.note.as_deref().unwrap().starts_with("the change is there, though "), "{written:?}");
    assert_eq!(f.disk("a.txt").as_deref(), Some("1\ntwo\n"));
    f.editor.writes.lock().unwrap().push_back(Some(Answer::FailedWith("1\n")));
    let error = edit(&f, "a.txt", "two", "2").await.unwrap_err().error;
    assert!(matches!(error, WsError::Unknown { .. }), "{error}");
    f.editor.writes.lock().unwrap().push_back(Some(Answer::Failed));
    let error = edit(&f, "a.txt", "1", "3").await.unwrap_err().error;
    assert!(matches!(error, WsError::Editor { .. }), "{error}");
}

/// Typed in the editor and written by another program, at once: neither is lost.
#[tokio::test]
async fn both_sides_that_changed_differently_are_refused_until_the_person_decides() {
    let f = Fixture::new(Editor::new(true, true));
    let a = f.put("a.txt", "one\ntwo\nthree\n");
    let seen = f.ws.read(&a).await.unwrap().unwrap();
    f.ws.saw(&a, &seen);
    f.buffer("a.txt", "one\ntyped\nthree\n");
    f.put("a.txt", "one\ntwo\nother\n");
    let error = edit(&f, "a.txt", "one", "1").await.unwrap_err();
    assert!(matches!(error.error, WsError::Io { .. }), "{error}");
    assert_eq!(f.disk("a.txt").as_deref(), Some("one\ntwo\nother\n"));
    // Decided: both are the same.
    f.buffer("a.txt", "one\ntyped\nother\n");
    f.put("a.txt", "one\ntyped\nother\n");
    edit(&f, "a.txt", "one", "1").await.unwrap();
    assert_eq!(f.disk("a.txt").as_deref(), Some("1\ntyped\nother\n"));
}

/// Two edits through editors of each habit: bytes, endings, mark and mode as they should be, and drift told only where
/// there is any.
#[tokio::test]
async fn i17_every_way_to_save_keeps_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let bytes = "\u{feff}a = 1\r\nb = 2\r\n";
    for save in [Save::AsIs, Save::BufferOnly, Save::DiskOnly, Save::Normalises, Save::LosesForm] {
        let f = Fixture::new(Editor::saving(save));
        let a = f.put("a.txt", bytes);
        std::fs::set_permissions(a.real(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for (from, to) in [("a = 1", "a = 3"), ("b = 2", "b = 4")] {
            let written = edit(&f, "a.txt", from, to).await.unwrap();
            assert_eq!(written.drift, None, "{save:?}");
        }
        let expected = "\u{feff}a = 3\r\nb = 4\r\n";
        if save == Save::BufferOnly {
            assert_eq!(f.disk("a.txt").as_deref(), Some(bytes));
            assert_eq!(f.buffered("a.txt").as_deref(), Some(expected));
            assert_eq!(f.ws.dirty().len(), 1);
        } else {
            assert_eq!(f.disk("a.txt").as_deref(), Some(expected), "{save:?}");
        }
        let mode = std::fs::metadata(a.real()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755, "{save:?}");
        assert_eq!(f.requests("write"), 2, "{save:?}");
    }
}

#[tokio::test]
async fn formatting_on_save_is_told_and_not_fought() {
    let f = Fixture::new(Editor::saving(Save::Formats));
    f.put("a.txt", "one\n");
    let written = edit(&f, "a.txt", "one", "two   ").await.unwrap();
    assert_eq!(written.drift.unwrap().content(), "two\n");
    assert_eq!((f.disk("a.txt").as_deref(), f.requests("write")), (Some("two\n"), 1));
}

/// The editor reads everything as UTF-8, or not at all: its side of such a file is nobody's truth.
#[tokio::test]
async fn a_legacy_file_is_the_disks() {
    let bytes = b"x=1;\n// caf\xe9 note\n";
    for lossy in [true, false] {
        let f = Fixture::new(Editor::new(true, true));
        f.put("s.txt", bytes);
        if lossy {
            f.editor
                .reads
                .lock()
                .unwrap()
                .insert("s.txt".into(), Answer::Text("x=1;\n// caf\u{fffd} note\n"));
        }
        edit(&f, "s.txt", "x=1", "x=2").await.unwrap();
        assert_eq!(f.bytes("s.txt").unwrap(), b"x=2;\n// caf\xe9 note\n");
        assert_eq!(f.requests("write"), 0);
        let error = edit(&f, "s.txt", "note", "note \u{6f22}").await.unwrap_err().to_string();
        assert!(error.contains("U+6F22"), "{error}");
    }
}

#[tokio::test]
async fn no_text_and_no_file_are_told_apart() {
    let f = Fixture::new(Editor::new(true, true));
    let cases: [(&str, &[u8]); 2] = [("bin", b"\x7fELF\0\0\0\x01"), ("big", &[b'x'; 11 << 20])];
    for (name, bytes) in cases {
        let path = f.put(name, bytes);
        assert!(matches!(f.ws.read(&path).await, Err(WsError::NotText { .. })), "{name}");
    }
    assert!(matches!(f.ws.read(&f.path(".")).await, Err(WsError::IsFolder { .. })));
    std::fs::create_dir(f.root.join("folder")).unwrap();
    assert!(matches!(f.ws.read(&f.path("folder")).await, Err(WsError::IsFolder { .. })));
    assert!(f.ws.read(&f.path("bin/below")).await.unwrap().is_none());
    assert!(std::process::Command::new("mkfifo").arg(f.root.join("fifo")).status().unwrap().success());
    assert!(matches!(f.ws.read(&f.path("fifo")).await, Err(WsError::NotText { .. })));
    assert_eq!(f.requests("read"), 1, "only the missing file is asked for");
}

#[tokio::test]
async fn files_that_change_outside_are_noticed_once() {
    let f = Fixture::new(Editor::new(false, false));
    let (a, b, c) = (f.put("sub/a", "a\n"), f.put("sub/b", "b\n"), f.put("c", "c\n"));
    for path in [&a, &b] {
        f.ws.saw(
            path,
            &Text::new_utf8(f.disk(path.as_path().strip_prefix(&f.root).unwrap().to_str().unwrap()).unwrap()),
        );
    }
    edit(&f, "sub/b", "b", "B").await.unwrap();
    std::fs::write(c.real(), "not seen by the model\n").unwrap();
    std::fs::write(a.real(), "by another program\n").unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let mut told = Vec::new();
    while told.is_empty() && std::time::Instant::now() < end {
        told = f.ws.changed_outside().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(told.iter().map(|(p, _)| p.clone()).collect::<Vec<_>>(), [a]);
}

/// A write that the editor confirmed and that changed nothing is no success.
#[tokio::test]
async fn a_write_that_changed_nothing_is_told() {
    let f = Fixture::new(Editor::saving(Save::Ignores));
    f.put("a", "one\n");
    let error = edit(&f, "a", "one", "two").await.unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert_eq!(f.disk("a").as_deref(), Some("one\n"));
}

/// I15: the editor follows links, so a folder that became one since the question stops the write.
#[tokio::test]
async fn i15_a_link_put_in_the_way_of_the_editor_is_not_followed() {
    let f = Fixture::new(Editor::saving(Save::AsIs));
    f.put("sub/a", "a\n");
    let change = Change::Write { path: f.path("sub/new"), old: None, new: Text::new_utf8("x") };
    let outside = f.root.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::rename(f.root.join("sub"), f.root.join("real")).unwrap();
    std::os::unix::fs::symlink(&outside, f.root.join("sub")).unwrap();
    assert!(f.ws.apply(&[change]).await.is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
