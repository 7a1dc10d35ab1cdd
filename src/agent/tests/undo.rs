//! Undo: files and conversation as they were, through the workspace, never over what somebody else wrote.
use super::{
    history::{call, say},
    *,
};
use crate::{
    agent::{
        context,
        undo::{Target, Undo, Undone, goals},
        view,
    },
    model::scripted::Step,
};

struct Scene {
    stage: Stage,
    editor: FakeEditor,
}

impl Scene {
    fn new(replies: Vec<Vec<Step>>) -> Scene {
        Scene { stage: Stage::new(replies), editor: FakeEditor::default() }
    }
    async fn prompt(&self, text: &str) {
        self.stage.turn(&self.editor, text).await.unwrap();
    }
    /// As `/undo` does it, with the log as the command leaves it.
    async fn undo(&self, target: Target, keep_files: bool) -> Undone {
        let mut journal = self.stage.session.journal().await;
        let undo = Undo {
            session: &self.stage.session,
            journal: &journal,
            editor: &self.editor,
            cancel: &self.stage.cancel,
            keep_files,
        };
        let mut undone = undo.run(&target).await;
        journal.append(std::mem::take(&mut undone.entries)).await.unwrap();
        undone
    }
    async fn back(&self, n: usize) -> String {
        self.undo(Target::Last(n), false).await.text
    }
    fn text(&self, path: &str) -> Option<String> {
        self.stage.bytes(path).map(|b| String::from_utf8(b).unwrap())
    }
    fn messages(&self) -> usize {
        context::messages(&self.stage.entries()).len()
    }
    fn accept_edits(&self) {
        self.stage.session.set(|s| s.mode = Mode::AcceptEdits);
    }
}

fn edit(path: &str, old: &str, new: &str) -> Vec<Step> {
    call("edit", &serde_json::json!({"path": path, "old_text": old, "new_text": new}).to_string())
}
fn write(path: &str, text: &str) -> Vec<Step> {
    call("write", &serde_json::json!({"path": path, "content": text}).to_string())
}
fn read(path: &str) -> Vec<Step> {
    call("read", &serde_json::json!({"path": path}).to_string())
}

#[tokio::test]
async fn a_turn_is_taken_back_byte_for_byte() {
    let s = Scene::new(vec![
        read("a.txt"),
        edit("a.txt", "one", "1"),
        edit("a.txt", "two", "2"),
        write("new.txt", "n\n"),
        say("done"),
        say("hello again"),
    ]);
    let original = "\u{feff}one\r\ntwo\r\n";
    s.stage.fake.file("a.txt", original);
    s.prompt("change them").await;
    assert_eq!(s.text("a.txt").unwrap(), "\u{feff}1\r\n2\r\n");
    let before = s.editor.asked.lock().unwrap().len();
    let said = s.back(1).await;
    assert_eq!(s.text("a.txt").unwrap(), original);
    assert_eq!(s.text("new.txt"), None);
    assert!(said.contains("Took back 1 prompt") && said.contains("new.txt (removed)"), "{said}");
    // The question shows the diffs before anything is written.
    {
        let asked = s.editor.asked.lock().unwrap();
        assert_eq!(asked.len(), before + 1);
        assert_eq!(asked.last().unwrap().card.shown.len(), 2);
    }
    assert_eq!(s.messages(), 0, "the model knows nothing of it");
    s.prompt("go on").await;
    let request = s.stage.model.requests().last().unwrap().clone();
    assert_eq!(request.messages.len(), 1);
    check_cards(&s);
}

/// Each card that is shown ends, and the replay has it as it ended.
fn check_cards(s: &Scene) {
    let replay = view::replay(&s.stage.entries());
    let seen = s.editor.seen.lock().unwrap();
    for update in seen.iter() {
        let Update::Call(opened) = update else { continue };
        let ended = seen.iter().rev().find_map(|u| match u {
            Update::CallChanged(c) if c.id == opened.id => c.status,
            _ => None,
        });
        let again = replay.iter().find_map(|u| match u {
            Update::Call(c) if c.id == opened.id => Some((c.status, c.card.title.clone(), c.card.kind)),
            _ => None,
        });
        let (status, title, kind) = again.expect("a card that was shown is shown again");
        assert_eq!(ended, Some(status));
        assert_eq!((title, kind), (opened.card.title.clone(), opened.card.kind));
    }
}

#[tokio::test]
async fn two_turns_one_by_one_or_together() {
    for together in [false, true] {
        let s = Scene::new(vec![write("a.txt", "1\n"), say("x"), edit("a.txt", "1", "2"), say("y")]);
        s.accept_edits();
        s.prompt("first").await;
        s.prompt("second").await;
        if together {
            s.back(2).await;
        } else {
            s.back(1).await;
            assert_eq!(s.text("a.txt").unwrap(), "1\n");
            assert_eq!(s.messages(), 4, "prompt, call, result, reply");
            s.back(1).await;
        }
        assert_eq!((s.text("a.txt"), s.messages()), (None, 0), "together: {together}");
        assert_eq!(s.editor.asked.lock().unwrap().len(), 0, "the mode allows edits");
        assert!(s.back(1).await.contains("nothing to take back"));
        check_cards(&s);
    }
}

#[tokio::test]
async fn newer_edits_of_the_person_are_never_lost() {
    let s = Scene::new(vec![write("a.txt", "1\n"), write("b.txt", "1\n"), say("x")]);
    s.accept_edits();
    s.prompt("first").await;
    s.stage.fake.file("a.txt", "mine\n");
    let said = s.back(1).await;
    assert!(
        said.contains("Nothing was taken back") && said.contains("a.txt") && !said.contains("b.txt"),
        "{said}"
    );
    assert_eq!(s.text("a.txt").unwrap(), "mine\n");
    assert_eq!(s.text("b.txt").unwrap(), "1\n", "all or nothing");
    assert!(s.messages() > 0);
    // The conversation alone can still go back.
    let said = s.undo(Target::Last(1), true).await.text;
    assert!(said.contains("The files stay"), "{said}");
    assert_eq!((s.text("a.txt").unwrap().as_str(), s.messages()), ("mine\n", 0));
}

#[tokio::test]
async fn edits_of_the_person_between_two_turns_count_too() {
    let s =
        Scene::new(vec![write("a.txt", "1\n"), say("x"), read("a.txt"), edit("a.txt", "1", "2"), say("y")]);
    s.accept_edits();
    s.prompt("first").await;
    s.stage.fake.file("a.txt", "1\nmine\n");
    s.prompt("second").await;
    assert_eq!(s.text("a.txt").unwrap(), "2\nmine\n");
    assert!(s.back(2).await.contains("Nothing was taken back"));
    assert_eq!(s.text("a.txt").unwrap(), "2\nmine\n");
    s.back(1).await;
    assert_eq!(s.text("a.txt").unwrap(), "1\nmine\n");
}

#[tokio::test]
async fn unsaved_text_of_the_editor_is_what_comes_back() {
    let s = Scene::new(vec![read("a.txt"), edit("a.txt", "typed", "changed"), say("x")]);
    s.accept_edits();
    s.stage.fake.file("a.txt", "saved\n");
    let path = s.stage.fake.root().join("a.txt");
    s.stage.fake.buffers.lock().unwrap().insert(path.clone(), "typed\n".into());
    s.prompt("first").await;
    assert_eq!(s.stage.fake.buffers.lock().unwrap()[&path], "changed\n");
    s.back(1).await;
    assert_eq!(s.stage.fake.buffers.lock().unwrap()[&path], "typed\n");
    assert_eq!(s.text("a.txt").unwrap(), "saved\n", "the disk was never written");
}

#[tokio::test]
async fn a_formatter_on_save_is_no_edit_of_the_person() {
    let s = Scene::new(vec![write("a.txt", "\tx\n"), say("x")]);
    s.accept_edits();
    *s.stage.fake.formatter.lock().unwrap() = Some(|text| text.replace('\t', "  "));
    s.prompt("first").await;
    assert_eq!(s.text("a.txt").unwrap(), "  x\n");
    s.back(1).await;
    assert_eq!(s.text("a.txt"), None);
}

#[tokio::test]
async fn a_no_leaves_everything() {
    let mut s = Scene::new(vec![write("a.txt", "1\n"), say("x")]);
    s.accept_edits();
    s.prompt("first").await;
    s.stage.session.set(|s| s.mode = Mode::Ask);
    s.editor.answer = Box::new(|_| Answer::No { comment: None });
    let said = s.back(1).await;
    assert_eq!((said.as_str(), s.text("a.txt").unwrap().as_str()), ("Nothing was taken back.", "1\n"));
    assert!(s.messages() > 0);
    check_cards(&s);
}

#[tokio::test]
async fn a_prompt_is_found_by_its_id() {
    let s = Scene::new(vec![say("x"), say("y"), say("z")]);
    for text in ["one", "two", "three"] {
        s.prompt(text).await;
    }
    let all = goals(&s.stage.entries());
    assert_eq!(all.iter().map(|g| g.title.as_str()).collect::<Vec<_>>(), ["three", "two", "one"]);
    s.undo(Target::Message(all[1].id.clone()), false).await;
    assert_eq!(s.messages(), 2);
    assert_eq!(goals(&s.stage.entries()).len(), 1);
    assert!(s.undo(Target::Message(all[1].id.clone()), false).await.text.contains("no prompt of that id"));
    assert!(s.back(2).await.contains("from 1 to 1"));
}

/// The process died after the write, before its record.
#[tokio::test]
async fn a_write_that_a_crash_interrupted_is_taken_back() {
    let s = Scene::new(vec![write("a.txt", "1\n"), say("x")]);
    s.accept_edits();
    s.stage.fake.file("a.txt", "0\n").seen("a.txt");
    s.prompt("first").await;
    {
        let mut journal = s.stage.session.journal().await;
        let entries: Vec<Stored> =
            journal.entries().iter().filter(|s| !matches!(s.entry, Entry::Touched { .. })).cloned().collect();
        let next = entries.len() as u64 + 1;
        let keep = s.stage.keep.clone();
        *journal = Journal::new(s.stage.session.id.clone(), entries, next, keep);
    }
    s.back(1).await;
    assert_eq!(s.text("a.txt").unwrap(), "0\n");
}

#[tokio::test]
async fn what_a_command_changed_is_taken_back() {
    let s = Scene::new(vec![
        write("mine.txt", "1\n"),
        call("terminal", r#"{"command":"make"}"#),
        edit("mine.txt", "2", "3"),
        say("x"),
    ]);
    s.stage.session.set(|s| s.mode = Mode::Full);
    s.stage
        .fake
        .file(".gitignore", "*.o\n")
        .file("a.txt", "a\n")
        .file("gone.txt", "g\n")
        .file(".env", "K=1\n");
    s.stage.fake.file(".git/index", "i").file("pic.bin", b"\0\x01");
    *s.stage.fake.on_run.lock().unwrap() = Some(|root| {
        for (name, text) in [
            ("a.txt", "b\n"),
            ("made.txt", "m\n"),
            ("x.o", "o"),
            (".git/index", "j"),
            ("mine.txt", "2\n"),
            (".env", "K=22\n"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        std::fs::write(root.join("pic.bin"), b"\0\x02\x03").unwrap();
        std::fs::remove_file(root.join("gone.txt")).unwrap();
    });
    s.prompt("build").await;
    assert_eq!(s.text("mine.txt").unwrap(), "3\n");
    let said = s.back(1).await;
    for (name, text) in
        [("a.txt", Some("a\n")), ("gone.txt", Some("g\n")), ("made.txt", None), ("mine.txt", None)]
    {
        assert_eq!(s.text(name).as_deref(), text, "{name}: {said}");
    }
    assert_eq!(s.text(".git/index").unwrap(), "j", "the repository is not touched");
    assert_eq!(s.text("x.o").unwrap(), "o", "nor what is ignored");
    let (_, lost) = said.split_once("Not restored:").unwrap();
    assert!(lost.contains(".env") && lost.contains("pic.bin"), "{said}");
    let kept = s.stage.keep.contents.lock().unwrap();
    assert!(!kept.iter().any(|c| c.starts_with(b"K=")), "no secret was copied");
}

/// Folders that a turn made go with what it put there; those that hold something else, or were there, stay.
#[tokio::test]
async fn folders_that_were_made_are_removed_when_they_are_empty() {
    let s = Scene::new(vec![
        write("new/deep/a.txt", "1\n"),
        write("kept/b.txt", "1\n"),
        write("old/c.txt", "1\n"),
        call("terminal", r#"{"command":"make"}"#),
        say("x"),
    ]);
    s.stage.session.set(|s| s.mode = Mode::Full);
    let root = s.stage.fake.root().to_owned();
    std::fs::create_dir(root.join("old")).unwrap();
    *s.stage.fake.on_run.lock().unwrap() = Some(|root| {
        std::fs::create_dir_all(root.join("out/obj")).unwrap();
        std::fs::write(root.join("out/obj/x.txt"), "x\n").unwrap();
    });
    s.prompt("go").await;
    std::fs::write(root.join("kept/mine.txt"), "of the person\n").unwrap();
    let said = s.back(1).await;
    for (folder, stays) in [("new", false), ("out", false), ("kept", true), ("old", true)] {
        assert_eq!(root.join(folder).exists(), stays, "{folder}: {said}");
    }
    assert_eq!(s.text("kept/mine.txt").unwrap(), "of the person\n");
    assert!(!root.join("kept/b.txt").exists() && !root.join("old/c.txt").exists());
}

#[tokio::test]
async fn a_command_that_only_reads_costs_no_walk() {
    let s = Scene::new(vec![call("terminal", r#"{"command":"ls"}"#), say("x")]);
    s.stage.fake.file("a.txt", "a\n");
    s.prompt("look").await;
    assert!(s.stage.keep.contents.lock().unwrap().is_empty());
}
