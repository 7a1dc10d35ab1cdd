use super::*;
use crate::workspace::{
    Reader, Workspace,
    fake::{Answer, Editor, Fixture, Save},
};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn disk() -> Fixture {
    Fixture::new(Editor::new(false, false))
}
fn write(f: &Fixture, name: &str, old: Option<&str>, new: &str) -> Change {
    let old = old.map(Text::new_utf8);
    Change::Write { path: f.path(name), old, new: Text::new_utf8(new) }
}
fn delete(f: &Fixture, name: &str, old: &str) -> Change {
    Change::Delete { path: f.path(name), old: Text::new_utf8(old) }
}
fn mv(f: &Fixture, from: &str, to: &str, old: &str, new: &str) -> Change {
    let (old, new) = (Text::new_utf8(old), Text::new_utf8(new));
    Change::Move { from: f.path(from), to: f.path(to), old, new }
}

#[tokio::test]
async fn changes_are_applied_in_order() {
    let f = disk();
    for (name, text) in [("a", "a\n"), ("b", "b\n"), ("c", "c\n")] {
        f.put(name, text);
    }
    let changes = [
        write(&f, "a", Some("a\n"), "A\n"),
        write(&f, "a", Some("A\n"), "AA\n"),
        write(&f, "new/folder/d", None, "d\n"),
        delete(&f, "b", "b\n"),
        write(&f, "b", None, "again\n"),
        mv(&f, "c", "moved/c2", "c\n", "c!\n"),
        write(&f, "c", None, "other\n"),
    ];
    f.ws.apply(&changes).await.unwrap();
    assert_eq!(f.files(), ["a", "b", "c", "moved/c2", "new/folder/d"]);
    let texts: Vec<_> = f.files().iter().map(|n| f.disk(n).unwrap()).collect();
    assert_eq!(texts, ["AA\n", "again\n", "other\n", "c!\n", "d\n"]);
}

/// What was planned on another state is refused before anything is written.
#[tokio::test]
async fn i16_nothing_is_written_over_what_was_not_seen() {
    let f = disk();
    for (name, text) in [("a", "a\n"), ("b", "b\n")] {
        f.put(name, text);
    }
    let wrong: Vec<Change> = vec![
        write(&f, "a", Some("other\n"), "x"),
        write(&f, "a", None, "x"),
        write(&f, "gone", Some("a\n"), "x"),
        delete(&f, "a", "other\n"),
        delete(&f, "gone", "a\n"),
        mv(&f, "a", "b", "a\n", "a\n"),
        mv(&f, "a", "c", "other\n", "a\n"),
    ];
    for change in wrong {
        let first = write(&f, "first", None, "x");
        let error = f.ws.apply(&[first, change.clone()]).await.unwrap_err();
        assert!(matches!(error.error, WsError::Changed { .. }), "{change:?}: {error}");
        assert!(error.landed.is_empty());
        assert_eq!(f.files(), ["a", "b"], "{change:?}");
        assert_eq!((f.disk("a").unwrap(), f.disk("b").unwrap()), ("a\n".into(), "b\n".into()));
    }
}

/// A later write fails: everything before it is taken back, byte for byte, and no folder or temporary file is left.
#[tokio::test]
async fn all_or_nothing() {
    for at in 0..4 {
        let f = Fixture::new(Editor::new(true, true));
        f.put("a", "a\n");
        f.put("b", "b\n");
        std::fs::set_permissions(f.root.join("b"), std::fs::Permissions::from_mode(0o750)).unwrap();
        f.put("c", "c\n");
        let mut changes = vec![
            write(&f, "a", Some("a\n"), "A\n"),
            delete(&f, "b", "b\n"),
            write(&f, "new/x", None, "x\n"),
            mv(&f, "c", "sub/c", "c\n", "C\n"),
        ];
        changes.truncate(at);
        f.put("last", "last\n");
        changes.push(write(&f, "last", Some("last\n"), "x"));
        let writes = changes.iter().filter(|c| matches!(c, Change::Write { .. })).count();
        let mut answers: Vec<Option<Answer>> = vec![None; writes - 1];
        answers.push(Some(Answer::Failed));
        *f.editor.writes.lock().unwrap() = answers.into();
        let error = f.ws.apply(&changes).await.unwrap_err();
        assert!(matches!(error.error, WsError::Editor { .. }) && error.landed.is_empty(), "{at}: {error}");
        assert_eq!(f.files(), ["a", "b", "c", "last"], "{at}");
        for name in ["a", "b", "c", "last"] {
            assert_eq!(f.disk(name).unwrap(), format!("{name}\n"), "{at}");
        }
        assert_eq!(f.root.join("b").metadata().unwrap().mode() & 0o777, 0o750);
        assert!(!f.root.join("new").exists() && !f.root.join("sub").exists());
    }
}

/// What cannot be taken back is named.
#[tokio::test]
async fn what_stays_is_named() {
    let f = Fixture::new(Editor::new(true, true));
    f.put("a", "a\n");
    f.put("b", "b\n");
    let changes = [write(&f, "a", Some("a\n"), "A\n"), write(&f, "b", Some("b\n"), "B\n")];
    // a lands; b fails; taking a back fails too.
    *f.editor.writes.lock().unwrap() = vec![None, Some(Answer::Failed), Some(Answer::Failed)].into();
    let error = f.ws.apply(&changes).await.unwrap_err();
    assert_eq!(error.landed, [f.path("a").to_string()]);
    assert!(error.to_string().contains("already written and not restored"), "{error}");
    assert_eq!(f.disk("a").as_deref(), Some("A\n"));
}

#[tokio::test]
async fn mode_links_and_owner_are_kept() {
    let f = disk();
    let a = f.put("run.sh", "one\n");
    std::fs::set_permissions(a.real(), std::fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("run.sh", f.root.join("link")).unwrap();
    symlink("not/yet", f.root.join("dangling")).unwrap();
    let _ = std::os::unix::fs::chown(a.real(), Some(1234), Some(1234));
    std::fs::set_permissions(a.real(), std::fs::Permissions::from_mode(0o4755)).unwrap();
    let before = a.real().metadata().unwrap();
    f.ws.apply(&[write(&f, "link", Some("one\n"), "two\n")]).await.unwrap();
    let after = a.real().metadata().unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(f.root.join("link").is_symlink());
    assert_eq!(f.disk("run.sh").as_deref(), Some("two\n"));
    // A hard link stays one, and that is said.
    std::fs::hard_link(a.real(), f.root.join("twin")).unwrap();
    let written = f.ws.apply(&[write(&f, "twin", Some("two\n"), "3\n")]).await.unwrap();
    assert_eq!(f.disk("run.sh").as_deref(), Some("3\n"));
    assert!(written[0].note.as_ref().unwrap().contains("hard link"));
    // Through a dangling link: what it points to is made.
    f.ws.apply(&[write(&f, "dangling", None, "x\n")]).await.unwrap();
    assert_eq!(f.disk("not/yet").as_deref(), Some("x\n"));
    assert!(f.root.join("dangling").is_symlink());
    std::fs::set_permissions(a.real(), std::fs::Permissions::from_mode(0o444)).unwrap();
    let error = f.ws.apply(&[write(&f, "run.sh", Some("3\n"), "4\n")]).await.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(f.files(), ["dangling", "link", "not/yet", "run.sh", "twin"]);
}

#[tokio::test]
async fn moves_of_every_kind() {
    let f = disk();
    f.put("a.txt", "a\n");
    f.ws.apply(&[mv(&f, "a.txt", "A.txt", "a\n", "a\n")]).await.unwrap();
    f.ws.apply(&[mv(&f, "A.txt", "A.txt", "a\n", "b\n")]).await.unwrap();
    assert_eq!((f.files(), f.disk("A.txt")), (vec!["A.txt".to_owned()], Some("b\n".into())));
    let a = f.path("A.txt");
    f.ws.saw(&a, &Text::new_utf8("b\n"));
    f.ws.apply(&[mv(&f, "A.txt", "deep/er/x", "b\n", "b\n"), write(&f, "deep/er/x", Some("b\n"), "c\n")])
        .await
        .unwrap();
    assert_eq!((f.files(), f.disk("deep/er/x")), (vec!["deep/er/x".to_owned()], Some("c\n".into())));
}

#[tokio::test]
async fn unsaved_work_stops_delete_and_move() {
    let f = Fixture::new(Editor::saving(Save::AsIs));
    f.put("a", "a\n");
    f.buffer("a", "a\nunsaved\n");
    for change in [delete(&f, "a", "a\nunsaved\n"), mv(&f, "a", "b", "a\nunsaved\n", "x")] {
        let error = f.ws.apply(&[change]).await.unwrap_err();
        assert!(error.to_string().contains("unsaved"), "{error}");
    }
    assert_eq!(f.disk("a").as_deref(), Some("a\n"));
}

#[tokio::test]
async fn a_change_elsewhere_in_the_file_is_carried_over() {
    let lines = |edit: &[(usize, &str)]| {
        let mut all: Vec<String> = (1..=40).map(|i| format!("line {i}\n")).collect();
        for (n, text) in edit {
            all[n - 1] = (*text).to_owned();
        }
        all.concat()
    };
    let f = disk();
    let a = f.put("a", lines(&[]));
    let change = write(&f, "a", Some(&lines(&[])), &lines(&[(20, "OURS\n")]));
    f.put("a", lines(&[(2, "theirs\nand more\n"), (39, "")]));
    let written = f.ws.apply(std::slice::from_ref(&change)).await.unwrap();
    let expected = lines(&[(2, "theirs\nand more\n"), (20, "OURS\n"), (39, "")]);
    assert_eq!(f.disk("a"), Some(expected.clone()));
    let Some(Change::Write { old: Some(old), new, .. }) = &written[0].rebased else { panic!("{written:?}") };
    assert_eq!((old.content(), new.content()), (&*lines(&[(2, "theirs\nand more\n"), (39, "")]), &*expected));
    // In the hunk, or in the lines that it shows around: asked again.
    for near in [18, 20, 22] {
        f.put("a", lines(&[(near, "theirs\n")]));
        let error = f.ws.apply(std::slice::from_ref(&change)).await.unwrap_err();
        assert!(matches!(error.error, WsError::Changed { .. }), "{near}");
    }
    assert!(a.in_roots());
}

/// Six edits at once of one file: each lands or is refused, none is lost (FS27).
#[tokio::test]
async fn edits_at_once_lose_nothing() {
    let f = disk();
    let text: String = (1..=100).map(|i| format!("l{i}\n")).collect();
    f.put("a", &text);
    let changes: Vec<Change> = (1..=6)
        .map(|i| write(&f, "a", Some(&text), &text.replace(&format!("l{}\n", i * 15), &format!("EDIT{i}\n"))))
        .collect();
    let done =
        futures_util::future::join_all(changes.iter().map(|c| f.ws.apply(std::slice::from_ref(c)))).await;
    let now = f.disk("a").unwrap();
    for (i, result) in done.iter().enumerate() {
        assert_eq!(result.is_ok(), now.contains(&format!("EDIT{}\n", i + 1)), "{i}: {result:?}");
    }
    assert!(done.iter().all(Result::is_ok), "they are far apart");
    assert_eq!(f.files(), ["a"]);
}

/// A link that takes a folder's place after the guard looked leads nowhere (TOCTOU).
#[tokio::test]
async fn i15_a_link_put_in_the_way_is_not_followed() {
    let f = disk();
    f.put("sub/a", "a\n");
    let outside = f.root.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "a\n").unwrap();
    let changes = [
        write(&f, "sub/a", Some("a\n"), "x"),
        write(&f, "sub/new", None, "x"),
        write(&f, "sub/deep/new", None, "x"),
        delete(&f, "sub/a", "a\n"),
        mv(&f, "sub/a", "b", "a\n", "a\n"),
    ];
    std::fs::rename(f.root.join("sub"), f.root.join("real")).unwrap();
    symlink(&outside, f.root.join("sub")).unwrap();
    for change in changes {
        assert!(f.ws.apply(std::slice::from_ref(&change)).await.is_err(), "{change:?}");
        let left: Vec<_> = std::fs::read_dir(&outside).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["a"], "{change:?}");
        assert_eq!(std::fs::read_to_string(outside.join("a")).unwrap(), "a\n");
    }
}
