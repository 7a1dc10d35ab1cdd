use super::*;
use crate::model::{
    Delta, ErrorKind, Finish, Message,
    scripted::{Step, calls, error, text},
};

#[tokio::test]
async fn a_turn_reads_edits_and_reports() {
    let stage = Stage::new([
        calls(&[("c1", "read", r#"{"path":"a.txt"}"#)]),
        calls(&[("c2", "edit", r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#)]),
        text("done"),
    ]);
    stage.fake.file("a.txt", "one\n");
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    assert_eq!(stage.bytes("a.txt").unwrap(), b"two\n");
    assert_eq!(editor.text(), "done");
    let asked = editor.asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "the read is not asked, the edit is");
    let [Shown::Diff { old, new, .. }] = asked[0].card.shown.as_slice() else {
        panic!("{:?}", asked[0].card)
    };
    assert_eq!((old.as_deref(), &**new), (Some("one\n"), "two\n"));
}

/// I13: what is not allowed does not happen, and the model is told.
#[tokio::test]
async fn i13_a_rejected_edit_is_not_made_and_not_asked_twice() {
    let edit = r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#;
    let stage = Stage::new([calls(&[("c1", "edit", edit)]), calls(&[("c2", "edit", edit)]), text("ok")]);
    stage.fake.file("a.txt", "one\n").seen("a.txt");
    let editor = FakeEditor::answering(|_| Answer::No { comment: Some("not now".into()) });
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    assert_eq!(stage.bytes("a.txt").unwrap(), b"one\n");
    assert_eq!(stage.outcomes(), [Outcome::Denied, Outcome::Denied]);
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    assert!(stage.results()[0].contains("not now"), "{:?}", stage.results());
}

#[tokio::test]
async fn a_grant_for_the_session_ends_the_questions_and_one_for_the_project_is_kept() {
    let write = |n: u32| format!(r#"{{"path":"f{n}.txt","content":"x"}}"#);
    let (a, b) = (write(1), write(2));
    let stage = Stage::new([calls(&[("c1", "write", &a), ("c2", "write", &b)]), text("ok")]);
    let editor = FakeEditor::answering(|_| Answer::Yes { scope: Scope::Project, hunks: None, comment: None });
    stage.turn(&editor, "go").await.unwrap();
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    assert_eq!(*stage.keep.grants.lock().unwrap(), [Grant::Edits]);
    assert!(stage.bytes("f1.txt").is_some() && stage.bytes("f2.txt").is_some());
}

#[tokio::test]
async fn a_mode_changed_in_mid_turn_counts_from_the_next_call() {
    let stage = Stage::new([
        calls(&[("c1", "write", r#"{"path":"a","content":"x"}"#)]),
        calls(&[("c2", "write", r#"{"path":"b","content":"x"}"#)]),
        text("ok"),
    ]);
    let stage = Arc::new(stage);
    let at = stage.clone();
    let editor = FakeEditor::answering(move |_| {
        at.session.set(|s| s.mode = Mode::Plan);
        yes()
    });
    stage.turn(&editor, "go").await.unwrap();
    assert_eq!(stage.outcomes(), [Outcome::Ok, Outcome::Denied]);
    assert!(stage.results()[1].contains("plan mode"));
}

#[tokio::test]
async fn i10_reads_overlap_and_results_stay_in_source_order() {
    let probe = ("p", "probe", "{}");
    let stage = Stage::new([calls(&[probe, probe, probe]), text("ok")]);
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(stage.probe.peak.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn six_edits_of_one_file_each_plan_on_the_last() {
    let edits: Vec<String> = (0..6)
        .map(|i| format!(r#"{{"path":"a.txt","old_string":"l{i}\n","new_string":"L{i}\n"}}"#))
        .collect();
    let calls_: Vec<_> = edits.iter().map(|e| ("", "edit", e.as_str())).collect();
    let stage = Stage::new([calls(&calls_), text("ok")]);
    stage.fake.file("a.txt", "l0\nl1\nl2\nl3\nl4\nl5\n").seen("a.txt");
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert_eq!(stage.bytes("a.txt").unwrap(), b"L0\nL1\nL2\nL3\nL4\nL5\n");
    let ids: std::collections::HashSet<_> = stage.model.requests()[1]
        .messages
        .iter()
        .filter_map(|m| match m {
            Message::Result { provider_id, .. } => Some(provider_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 6, "an id that the model left out or used twice is made unique");
}

#[tokio::test]
async fn every_bad_call_is_answered_with_what_is_wrong() {
    let stage = Stage::new([
        calls(&[
            ("1", "frobnicate", "{}"),
            ("2", "read", r#"{"path": "a.txt", "limit":"#),
            ("3", "read", r#"{"path": 42}"#),
            ("4", "probe", r#"{"boom": true}"#),
            ("5", "Read", r#"{"path":"a.txt"}"#),
        ]),
        text("ok"),
    ]);
    stage.fake.file("a.txt", "one\n");
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    use Outcome::*;
    assert_eq!(stage.outcomes(), [Failed, Failed, Failed, Failed, Ok]);
    let said = stage.results();
    for (i, word) in ["frobnicate", "cut", "path", "crashed", "one"].iter().enumerate() {
        assert!(said[i].contains(word), "result {i} must name {word}: {}", said[i]);
    }
    for message in &stage.model.requests()[1].messages {
        let Message::Assistant { blocks } = message else { continue };
        for block in blocks {
            let Block::Call(call) = block else { continue };
            assert!(serde_json::from_str::<serde_json::Value>(&call.args).unwrap().is_object());
        }
    }
}

#[tokio::test]
async fn a_call_that_the_output_limit_cut_is_not_run() {
    let mut cut = calls(&[
        ("1", "write", r#"{"path":"a","content":"x"}"#),
        ("2", "write", r#"{"path":"b","content":"x"}"#),
    ]);
    *cut.last_mut().unwrap() = Step::Say(Delta::End(Finish::Length));
    let stage = Stage::new([cut, text("ok")]);
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    check(&stage.entries(), &editor);
    assert!(stage.bytes("a").is_some(), "the whole call in front of it runs");
    assert!(stage.bytes("b").is_none());
    assert!(stage.results()[1].contains("cut off"));
}

#[tokio::test]
async fn identical_calls_are_noted_and_then_end_the_turn() {
    let same = || calls(&[("1", "probe", "{}")]);
    let stage = Stage::new((0..20).map(|_| same()));
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTurnRequests);
    check(&stage.entries(), &editor);
    assert_eq!(stage.model.requests().len(), 8);
    let said = stage.results();
    assert!(!said[1].contains("in a row") && said[2].contains("3 times in a row"), "{said:?}");
    assert!(editor.notices()[0].contains("repeats"));
}

#[tokio::test]
async fn an_empty_reply_is_nudged_once_then_an_error() {
    let empty = || vec![Step::Say(Delta::End(Finish::Stop))];
    let stage = Stage::new([empty(), text("here I am")]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(editor.text(), "here I am");
    let stage = Stage::new([empty(), empty()]);
    let error = stage.turn(&FakeEditor::default(), "go").await.unwrap_err();
    assert!(matches!(&error, TurnError::Model(e) if e.kind == ErrorKind::Malformed), "{error}");
    let thinking = vec![Step::Say(Delta::Thinking("hm".into())), Step::Say(Delta::End(Finish::Stop))];
    let stage = Stage::new([thinking, text("ok")]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn the_budget_ends_with_a_last_word_without_tools() {
    let model = Arc::new(Scripted::new([
        calls(&[("1", "probe", "{}")]),
        calls(&[("2", "list", r#"{"path":"."}"#)]),
        text("so far"),
    ]));
    let stage = Stage::with(model, Limits { iterations: 2, ..Limits::default() });
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTurnRequests);
    assert_eq!(editor.text(), "so far");
    let requests = stage.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(!requests[1].tools.is_empty() && requests[2].tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_before_the_first_delta_and_told() {
    let fails = || vec![Step::Fail(error(ErrorKind::Overloaded, "host answered 503"))];
    let stage = Stage::new([fails(), text("hi")]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    assert!(editor.notices()[0].contains("Trying again"), "{:?}", editor.notices());
}

#[tokio::test]
async fn a_full_disk_ends_the_turn_with_an_error_and_no_effect() {
    let stage = Stage::new([calls(&[("1", "write", r#"{"path":"a","content":"x"}"#)]), text("ok")]);
    let stage = Arc::new(stage);
    let at = stage.clone();
    let editor = FakeEditor::answering(move |_| {
        at.keep.full.store(true, Ordering::Relaxed);
        yes()
    });
    let error = stage.turn(&editor, "go").await.unwrap_err();
    assert!(matches!(error, TurnError::Keep(_)));
    assert!(stage.bytes("a").is_none(), "an effect that cannot be recorded does not happen (I19)");
    let seen = editor.seen.lock().unwrap();
    assert!(
        seen.iter().any(|u| matches!(u, Update::CallChanged(c) if c.status == Some(CallStatus::Failed))),
        "the card is closed all the same (I11)"
    );
}

#[tokio::test]
async fn only_the_accepted_hunks_are_written() {
    let stage = Stage::new([
        calls(&[("1", "write", r#"{"path":"a.txt","content":"A\nb\nc\nd\ne\nf\nG\n"}"#)]),
        text("ok"),
    ]);
    stage.fake.file("a.txt", "a\nb\nc\nd\ne\nf\ng\n").seen("a.txt");
    let mut editor = FakeEditor::answering(|q| Answer::Yes {
        scope: Scope::Once,
        hunks: Some(vec![q.hunks[1].id.clone()]),
        comment: Some("keep the first line".into()),
    });
    editor.features.hunk_review = true;
    stage.turn(&editor, "go").await.unwrap();
    assert_eq!(stage.bytes("a.txt").unwrap(), b"a\nb\nc\nd\ne\nf\nG\n");
    let said = &stage.results()[0];
    assert!(said.contains("accepted only a part") && said.contains("keep the first line"), "{said}");
}

#[tokio::test]
async fn long_results_are_bounded_and_the_whole_is_readable() {
    let model = Arc::new(Scripted::new([calls(&[("1", "read", r#"{"path":"long.txt"}"#)]), text("ok")]));
    let stage = Stage::with(model, Limits { result_bytes: 2000, ..Limits::default() });
    let long: String = (0..2000).map(|i| format!("line number {i}\n")).collect();
    stage.fake.file("long.txt", &long);
    stage.turn(&FakeEditor::default(), "go").await.unwrap();
    let said = &stage.results()[0];
    assert!(said.len() < 3000 && said.contains("left out here"), "{} bytes", said.len());
}

/// The same view after a restart as live: replay is a projection of the same log.
#[tokio::test]
async fn replay_shows_what_was_shown_live() {
    let stage = Stage::new([
        calls(&[
            ("c1", "read", r#"{"path":"a.txt"}"#),
            ("c2", "edit", r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#),
        ]),
        text("done"),
    ]);
    stage.fake.file("a.txt", "one\n");
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap();
    let replayed = crate::agent::view::replay(&stage.entries());
    let mut live: Vec<(CallId, Card, CallStatus)> = Vec::new();
    for update in editor.seen.lock().unwrap().iter() {
        match update {
            Update::Call(c) => live.push((c.id.clone(), c.card.clone(), c.status)),
            Update::CallChanged(c) => {
                let card = live.iter_mut().find(|(id, ..)| *id == c.id).unwrap();
                card.1.shown = c.shown.clone().unwrap_or(std::mem::take(&mut card.1.shown));
                card.1.locations = c.locations.clone().unwrap_or(std::mem::take(&mut card.1.locations));
                card.2 = c.status.unwrap_or(card.2);
            }
            _ => {}
        }
    }
    let cards: Vec<_> = replayed
        .iter()
        .filter_map(|u| match u {
            Update::Call(c) => Some((c.id.clone(), c.card.clone(), c.status)),
            _ => None,
        })
        .collect();
    assert_eq!(live, cards);
    assert!(matches!(replayed.first(), Some(Update::User { .. })));
    assert!(matches!(replayed.last(), Some(Update::Text { text, .. }) if text == "done"));
}

/// What changed on disk since the model saw it is told with the next prompt, once, and stays in the log as it was told.
#[tokio::test]
async fn what_changed_outside_is_told_with_the_prompt() {
    let stage = Stage::new([text("one"), text("two")]);
    let editor = FakeEditor::default();
    stage.fake.changed.lock().unwrap().extend(["a.txt", "b.txt"]);
    stage.turn(&editor, "go").await.unwrap();
    stage.turn(&editor, "on").await.unwrap();
    let told: Vec<_> = stage
        .entries()
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::User { volatile, .. } => Some(volatile.clone()),
            _ => None,
        })
        .collect();
    let [Some(first), None] = told.as_slice() else { panic!("{told:?}") };
    assert!(first.contains("Changed on disk since you last saw them: "), "{first}");
    assert!(first.contains("a.txt (it has been deleted), ") && first.contains("b.txt"), "{first}");
}
