//! Our own secrets in what a turn shows, keeps and sends; and what the sandbox stopped.
use super::*;
use crate::{
    log::Exit,
    model::scripted::{calls, text},
    secret::{Redactor, Secret},
    workspace::Ran,
};

const KEY: &str = "sk-own-0123456789";

fn secret_stage(replies: Vec<Vec<crate::model::scripted::Step>>) -> Stage {
    let stage = Stage::new(replies);
    *stage.fake.secrets.lock().unwrap() = Redactor::new([("OWN_KEY".to_owned(), Secret::new(KEY))]);
    stage
}

/// What was shown (apart from live output, which is redacted where it is read from the process), kept and sent.
fn everything(stage: &Stage, editor: &FakeEditor) -> String {
    let contents = stage.keep.contents.lock().unwrap();
    let contents: Vec<_> = contents.iter().map(|c| String::from_utf8_lossy(c).into_owned()).collect();
    format!(
        "{:?} {:?} {:?} {:?} {contents:?}",
        editor.seen.lock().unwrap(),
        editor.asked.lock().unwrap().iter().map(|q| &q.card).collect::<Vec<_>>(),
        stage.entries(),
        stage.model.requests()
    )
}

#[tokio::test]
async fn i20_a_secret_in_a_file_is_a_placeholder_everywhere() {
    let stage = secret_stage(vec![
        calls(&[("c1", "read", r#"{"path":"conf"}"#), ("c2", "grep", r#"{"pattern":"key"}"#)]),
        calls(&[("c3", "edit", r#"{"path":"conf","old_string":"b=1","new_string":"b=2"}"#)]),
        text("ok"),
    ]);
    stage.fake.file("conf", format!("key={KEY}\nb=1\n"));
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(stage.bytes("conf").unwrap(), format!("key={KEY}\nb=2\n").as_bytes(), "the file stays true");
    let all = everything(&stage, &editor);
    assert!(!all.contains(KEY), "{all}");
    for result in &stage.results()[..2] {
        assert!(result.contains("key=[secret:OWN_KEY]"), "{result}");
    }
}

#[tokio::test]
async fn i20_a_placeholder_is_never_written() {
    let stage = secret_stage(vec![
        calls(&[("c1", "read", r#"{"path":"conf"}"#)]),
        calls(&[("c2", "write", r#"{"path":"conf","content":"key=[secret:OWN_KEY]\n"}"#)]),
        calls(&[("c3", "edit", r#"{"path":"conf","old_string":"b=1","new_string":"b=[secret:OWN_KEY]"}"#)]),
        calls(&[("c4", "terminal", r#"{"command":"echo '[secret:OWN_KEY]' > conf"}"#)]),
        calls(&[("c5", "edit", r#"{"path":"conf","old_string":"key=[secret:OWN_KEY]","new_string":"k"}"#)]),
        text("ok"),
    ]);
    let before = format!("key={KEY}\nb=1\n");
    stage.fake.file("conf", &before);
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(stage.bytes("conf").unwrap(), before.as_bytes());
    assert!(stage.fake.ran.lock().unwrap().is_empty());
    assert!(editor.asked.lock().unwrap().is_empty(), "refused before anybody is asked");
    for result in &stage.results()[1..] {
        assert!(result.contains("[secret:OWN_KEY]") && result.contains("stands for a secret"), "{result}");
    }
}

fn denied() -> Ran {
    Ran {
        exit: Exit { code: Some(1), signal: None },
        output: "curl: could not resolve host\n".into(),
        sandbox: "bubblewrap",
        denied: Some("curl: could not resolve host".into()),
        ..Ran::default()
    }
}

fn fetching(command: &str) -> Stage {
    let call = serde_json::json!({"command": command}).to_string();
    let stage = Stage::new([calls(&[("c1", "terminal", &call)]), text("ok")]);
    stage.fake.results.lock().unwrap().push_back(denied());
    stage
}

#[tokio::test]
async fn what_the_sandbox_stopped_is_asked_once_and_runs_again_in_the_same_call() {
    // The second runs without a question at first, the others after one, or by the mode.
    for (mode, command, questions) in [(Mode::Ask, "make", 2), (Mode::Ask, "ls", 1), (Mode::Full, "make", 1)]
    {
        let stage = fetching(command);
        stage.session.set(|s| s.mode = mode);
        let editor = FakeEditor::default();
        stage.turn(&editor, "go").await.unwrap();
        check(&stage.entries(), &editor);
        let asked = editor.asked.lock().unwrap();
        assert_eq!(asked.len(), questions, "{mode:?} {command}");
        let last = asked.last().unwrap();
        let names: Vec<_> = last.options.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(names, ["Run without the sandbox, once", "Reject"]);
        assert!(last.why.contains("could not resolve host"), "{}", last.why);
        assert!(asked.iter().all(|q| q.call == last.call));
        let ran: Vec<_> = stage.fake.ran.lock().unwrap().iter().map(|c| c.unconfined).collect();
        assert_eq!(ran, [false, true]);
        assert_eq!(stage.outcomes(), [Outcome::Ok]);
        assert!(stage.results()[0].starts_with("[the sandbox stopped its first run"));
    }
}

#[tokio::test]
async fn what_the_sandbox_stopped_stays_stopped_without_a_yes() {
    let stage = fetching("ls");
    let editor = FakeEditor::answering(|_| Answer::No { comment: Some("never".into()) });
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(stage.fake.ran.lock().unwrap().len(), 1);
    assert_eq!(stage.outcomes(), [Outcome::Failed]);
    assert!(stage.results()[0].contains("never"), "{:?}", stage.results());

    // A no holds for the turn: neither another command nor `unconfined` asks again.
    let [ls, again] = ["ls", "pwd"].map(|c| serde_json::json!({"command": c}).to_string());
    let way_out = serde_json::json!({"command": "ls -l", "unconfined": true}).to_string();
    let stage = Stage::new([
        calls(&[("c1", "terminal", &ls)]),
        calls(&[("c2", "terminal", &way_out), ("c3", "terminal", &again)]),
        text("ok"),
    ]);
    stage.fake.results.lock().unwrap().extend([denied(), denied()]);
    let editor = FakeEditor::answering(|_| Answer::No { comment: None });
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    assert_eq!(stage.outcomes(), [Outcome::Failed, Outcome::Denied, Outcome::Failed]);
    for result in &stage.results()[1..] {
        assert!(result.contains("rejected a run outside the sandbox in this turn"), "{result}");
    }
    assert!(stage.fake.ran.lock().unwrap().iter().all(|c| !c.unconfined));

    let stage = fetching("ls");
    stage.session.set(|s| s.mode = Mode::Plan);
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    assert!(editor.asked.lock().unwrap().is_empty(), "plan mode has nothing to ask");
    assert_eq!(stage.fake.ran.lock().unwrap().len(), 1);

    // The person cancels while the question is open.
    let stage = fetching("ls");
    let editor = FakeEditor { cancel_on_ask: Some(stage.cancel.clone()), ..FakeEditor::default() };
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::Cancelled);
    check(&stage.entries(), &editor);
    assert_eq!(stage.fake.ran.lock().unwrap().len(), 1);
}
