//! Random turns: whatever a model says, and wherever it is cancelled, the log stays valid (I10, I11, I14).
use super::*;
use crate::{
    agent::context,
    model::{
        Delta, ErrorKind, Finish, Message,
        scripted::{Step, error},
    },
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Move {
    Say(&'static str),
    Think,
    Call(&'static str, &'static str),
    End(Finish),
    Fail,
    Cancel,
}

pub(super) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => prop::sample::select(vec!["", "a", "some text "]).prop_map(Move::Say),
        1 => Just(Move::Think),
        4 => prop::sample::select(vec![
            ("probe", "{}"), ("read", r#"{"path":"a.txt"}"#), ("read", "{"), ("nope", "{}"), ("probe", r#"{"boom":true}"#),
            ("write", r#"{"path":"w.txt","content":"x"}"#), ("write", r#"{"path":"w.txt","content":"longer text"}"#), ("terminal", r#"{"command":"make"}"#), ("todo", r#"{"todos":[]}"#),
        ]).prop_map(|(n, a)| Move::Call(n, a)),
        // Not a refusal: behind one the prompt is taken back, which I14 excepts.
        1 => prop::sample::select(vec![Finish::Stop, Finish::ToolCalls, Finish::Length]).prop_map(Move::End),
        1 => Just(Move::Fail),
        1 => Just(Move::Cancel),
    ];
    prop::collection::vec(one, 0..8)
}

pub(super) fn steps(moves: &[Move]) -> Vec<Step> {
    let mut out: Vec<Step> = moves
        .iter()
        .map(|m| match m {
            Move::Say(t) => Step::Say(Delta::Text((*t).into())),
            Move::Think => Step::Say(Delta::Thinking("t".into())),
            Move::Call(n, a) => Step::Say(Delta::Call {
                provider_id: Some("same".into()),
                name: (*n).into(),
                args: (*a).into(),
                native: None,
            }),
            Move::End(f) => Step::Say(Delta::End(*f)),
            Move::Fail => Step::Fail(error(ErrorKind::BadRequest, "no")),
            Move::Cancel => Step::Hang,
        })
        .collect();
    out.push(Step::Say(Delta::End(Finish::Stop)));
    out
}

/// Every call is followed by its result, ids are unique, nothing is empty.
pub(super) fn valid(messages: &[Message]) {
    let mut ids = std::collections::HashSet::new();
    let mut i = 0;
    while i < messages.len() {
        match &messages[i] {
            Message::User { parts } => assert!(!parts.is_empty()),
            Message::Result { .. } => panic!("a result without its call"),
            Message::Assistant { blocks } => {
                assert!(!blocks.is_empty());
                for block in blocks {
                    let Block::Call(call) = block else { continue };
                    assert!(ids.insert(call.provider_id.clone()), "an id used twice");
                    i += 1;
                    assert!(
                        matches!(&messages[i], Message::Result { provider_id, .. } if *provider_id == call.provider_id)
                    );
                }
            }
        }
        i += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn i10_i11_i14_hold_for_any_turn(script in prop::collection::vec(moves(), 1..6), allow in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new(script.iter().map(|m| steps(m)));
            stage.fake.file("a.txt", "one\n");
            let editor = FakeEditor::answering(move |_| if allow { yes() } else { Answer::No { comment: None } });
            for prompt in ["first", "second"] {
                let cancel = async {
                    // Whatever hangs is cancelled; the clock is paused, so this is not waited for.
                    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                    stage.cancel.cancel();
                };
                tokio::select! {
                    _ = stage.turn(&editor, prompt) => {}
                    () = async { cancel.await; std::future::pending().await } => {}
                }
                check(&stage.entries(), &editor);
            }
            let requests = stage.model.requests();
            for request in &requests {
                valid(&request.messages);
            }
            for pair in requests.windows(2) {
                let (a, b) = (&pair[0].messages, &pair[1].messages);
                assert!(b.len() >= a.len() && b[..a.len()] == a[..], "I14: a prefix");
            }
            valid(&context::messages(&stage.entries()));
        });
    }
}
