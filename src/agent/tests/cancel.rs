use super::*;
use crate::model::{
    Delta,
    scripted::{Gate, Step, calls, text},
};

/// I12: whatever the turn is doing.
#[tokio::test]
async fn i12_cancel_while_a_question_is_open_closes_every_card() {
    let stage = Stage::new([calls(&[
        ("1", "write", r#"{"path":"a","content":"x"}"#),
        ("2", "read", r#"{"path":"b"}"#),
        ("3", "terminal", r#"{"command":"make"}"#),
    ])]);
    let editor = FakeEditor { cancel_on_ask: Some(stage.cancel.clone()), ..Default::default() };
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::Cancelled);
    check(&stage.entries(), &editor);
    assert_eq!(stage.outcomes(), [Outcome::Cancelled; 3]);
    assert!(stage.bytes("a").is_none());
    assert!(stage.fake.ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn i12_cancel_in_mid_stream_keeps_the_text_and_drops_the_calls() {
    let gate = Gate::default();
    let mut reply = vec![Step::Say(Delta::Text("half".into()))];
    reply.extend(calls(&[("1", "read", "{}")]).into_iter().take(1));
    reply.push(Step::Wait(gate.clone()));
    let stage = Stage::new([reply]);
    let editor = FakeEditor::default();
    let cancelling = async {
        gate.reached().await;
        stage.cancel.cancel();
    };
    let (stop, ()) = tokio::join!(stage.turn(&editor, "go"), cancelling);
    assert_eq!(stop.unwrap(), Stop::Cancelled);
    check(&stage.entries(), &editor);
    let entries = stage.entries();
    let kept = entries.iter().find_map(|s| match &s.entry {
        Entry::Assistant { blocks, interrupted, .. } => Some((blocks.clone(), *interrupted)),
        _ => None,
    });
    assert_eq!(kept.unwrap(), (vec![Block::Text { text: "half".into() }], true));
}

#[tokio::test]
async fn i12_cancel_before_the_first_delta() {
    let stage = Stage::new([vec![Step::Hang]]);
    stage.cancel.cancel();
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::Cancelled);
    check(&stage.entries(), &editor);
}

/// The person dismissed the question: the turn ends, later calls are not run.
#[tokio::test]
async fn a_question_that_is_dismissed_ends_the_turn() {
    let stage = Stage::new([
        calls(&[
            ("1", "write", r#"{"path":"a","content":"x"}"#),
            ("2", "write", r#"{"path":"b","content":"x"}"#),
        ]),
        text("never"),
    ]);
    let editor = FakeEditor::answering(|_| Answer::Gone);
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::Cancelled);
    check(&stage.entries(), &editor);
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    assert_eq!(stage.model.requests().len(), 1);
}

#[tokio::test]
async fn the_session_works_after_a_cancel() {
    let stage = Stage::new([vec![Step::Say(Delta::Text("half".into())), Step::Hang], text("whole")]);
    let editor = FakeEditor::default();
    let seen = async {
        while editor.text().is_empty() {
            tokio::task::yield_now().await;
        }
        stage.cancel.cancel();
    };
    let (stop, ()) = tokio::join!(stage.turn(&editor, "go"), seen);
    assert_eq!(stop.unwrap(), Stop::Cancelled);
    let again = Stage { cancel: CancellationToken::new(), ..stage };
    assert_eq!(again.turn(&editor, "more").await.unwrap(), Stop::EndTurn);
    assert!(editor.text().ends_with("whole"));
}
