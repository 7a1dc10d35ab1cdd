//! What a turn does about replies that fail or do not come whole.
use super::*;
use crate::model::{
    Delta, ErrorKind, Finish, Message,
    scripted::{Step, calls, error, text},
};

fn say(text: &str) -> Step {
    Step::Say(Delta::Text(text.into()))
}
fn end(finish: Finish) -> Step {
    Step::Say(Delta::End(finish))
}
fn fail(kind: ErrorKind) -> Step {
    Step::Fail(error(kind, "scripted answered 500."))
}

/// Several models by id; the first is the default, the others stand in.
struct Several(Vec<(&'static str, Arc<Scripted>)>);
impl Models for Several {
    fn provider(&self, model: Option<&str>) -> Result<Arc<dyn Provider>, ModelError> {
        let id = model.unwrap_or(self.0[0].0);
        let found = self.0.iter().find(|(name, _)| *name == id);
        found.map(|(_, m)| m.clone() as _).ok_or_else(|| error(ErrorKind::ModelNotFound, "no such model."))
    }
    fn choices(&self) -> Vec<ModelInfo> {
        vec![]
    }
    fn default_id(&self) -> Option<String> {
        Some(self.0[0].0.into())
    }
    fn fallback(&self) -> Vec<String> {
        ["p/gone", "p/a", "p/b", "p/c"].map(String::from).into()
    }
}
fn several(scripts: Vec<Vec<Vec<Step>>>) -> (Stage, Vec<Arc<Scripted>>) {
    let models: Vec<_> = scripts.into_iter().map(|s| Arc::new(Scripted::new(s))).collect();
    let named = ["p/a", "p/b", "p/c"].into_iter().zip(models.iter().cloned()).collect();
    (Stage::of(Arc::new(Several(named)), models[0].clone(), Limits::default()), models)
}
fn last_user(model: &Scripted) -> String {
    match model.requests().last().unwrap().messages.last() {
        Some(Message::User { parts }) => format!("{parts:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_is_gone_on_with_and_nothing_is_said_twice() {
    let stage = Stage::new([
        vec![say("The answer to ever"), fail(ErrorKind::Network)],
        vec![say("answer to "), say("everything is 42."), end(Finish::Stop)],
    ]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    assert_eq!(editor.text(), "The answer to everything is 42.");
    assert!(last_user(&stage.model).contains("broke off"));
    let seen = editor.seen.lock().unwrap();
    let ids: std::collections::HashSet<_> = seen
        .iter()
        .filter_map(|u| match u {
            Update::Text { id, .. } => Some(id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 1, "one message");
}

/// A model that begins again, after the second break and in a long reply, too.
#[tokio::test(start_paused = true)]
async fn a_reply_that_begins_again_is_not_said_twice() {
    let long: String = (0..400).map(|n| format!("word{n} ")).collect();
    let (first, second) = long.split_at(1_500);
    let (second, third) = second.split_at(1_000);
    let stage = Stage::new([
        vec![say(first), fail(ErrorKind::Network)],
        vec![say(second), fail(ErrorKind::Network)],
        vec![say(first), say(second), say(third), end(Finish::Stop)],
    ]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    assert_eq!(editor.text(), long);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_reply_that_broke_off_is_not_run() {
    let mut cut = calls(&[("1", "probe", "{}")]);
    *cut.last_mut().unwrap() = fail(ErrorKind::Network);
    let stage = Stage::new([cut, calls(&[("2", "probe", "{}")]), text("done")]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
    assert_eq!(stage.outcomes(), [Outcome::Ok]);
}

#[tokio::test(start_paused = true)]
async fn what_breaks_off_again_and_again_is_an_error_and_the_session_goes_on() {
    let half = || vec![say("half "), fail(ErrorKind::Network)];
    let stage = Stage::new([half(), half(), half(), half(), half(), text("whole")]);
    let editor = FakeEditor::default();
    stage.turn(&editor, "go").await.unwrap_err();
    assert_eq!(stage.model.requests().len(), 5);
    assert_eq!(stage.turn(&editor, "again").await.unwrap(), Stop::EndTurn);
}

#[tokio::test]
async fn text_that_the_limit_cut_is_gone_on_with_a_few_times() {
    let cut = |t: &str| vec![say(t), end(Finish::Length)];
    let stage = Stage::new([cut("one "), cut("two "), text("three")]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(editor.text(), "one two three");
    let stage = Stage::new((0..9).map(|i| cut(&format!("part {i} of many, "))));
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTokens);
    assert_eq!(stage.model.requests().len(), 4);
    assert!(editor.notices()[0].contains("output limit"), "{:?}", editor.notices());
    // Nothing more to say is no empty reply.
    let stage = Stage::new([cut("all of it"), vec![end(Finish::Stop)]]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_the_limit_cut_is_never_run_and_asked_for_with_more_room() {
    let usage = Step::Say(Delta::Usage(Usage { output: 10_000, ..Usage::default() }));
    let cut = vec![
        Step::Say(Delta::Call {
            provider_id: None,
            name: "write".into(),
            // Whole by chance: it may still not be what was meant.
            args: r#"{"path":"a","content":"x"}"#.into(),
            native: None,
        }),
        usage,
        end(Finish::Length),
    ];
    let stage = Stage::new([cut, text("ok")]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert!(stage.bytes("a").is_none());
    let limits: Vec<_> = stage.model.requests().iter().map(|r| r.max_output).collect();
    assert_eq!(limits, [None, Some(20_000)]);
}

#[tokio::test]
async fn thinking_that_ate_the_limit_is_asked_again_with_more_room_then_told() {
    let think = || vec![Step::Say(Delta::Thinking("hm".into())), end(Finish::Length)];
    let stage = Stage::new([think(), text("so")]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(stage.model.requests()[1].max_output, Some(8_192));
    let stage = Stage::new((0..9).map(|_| think()));
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTokens);
    assert!(editor.notices()[0].contains("only thought"), "{:?}", editor.notices());
    // Nothing at all is no thinking.
    let stage = Stage::new((0..9).map(|_| vec![end(Finish::Length)]));
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTokens);
    assert!(editor.notices()[0].contains("Cut off"), "{:?}", editor.notices());
}

#[tokio::test(start_paused = true)]
async fn another_model_stands_in_for_one_turn_and_says_so() {
    for kind in [ErrorKind::Quota, ErrorKind::Auth, ErrorKind::ModelNotFound, ErrorKind::Overloaded] {
        let fails = || (0..6).map(move |_| vec![fail(kind)]);
        let first = fails().chain([text("first again")]).collect();
        let (stage, models) = several(vec![first, vec![text("second")], vec![]]);
        let editor = FakeEditor::default();
        assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn, "{kind:?}");
        assert_eq!(editor.text(), "second");
        let told = editor.notices().pop().unwrap();
        assert_eq!(told, "Going on with p/b", "{kind:?}");
        let by = stage.entries().iter().rev().find_map(|s| match &s.entry {
            Entry::Assistant { model, .. } => Some(model.clone()),
            _ => None,
        });
        assert_eq!(by.as_deref(), Some("p/b"));
        let before = models[0].requests().len();
        let _ = stage.turn(&editor, "next").await;
        assert!(models[0].requests().len() > before, "the next turn begins with the chosen model");
    }
}

#[tokio::test]
async fn what_was_said_before_a_model_failed_is_handed_over() {
    let (stage, models) = several(vec![
        vec![calls(&[("1", "probe", "{}")]), vec![say("I found"), fail(ErrorKind::Quota)]],
        vec![vec![say(" it."), end(Finish::Stop)]],
    ]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(editor.text(), "I found it.");
    let messages = &models[1].requests()[0].messages;
    assert!(messages.iter().any(|m| matches!(m, Message::Result { .. })));
}

#[tokio::test]
async fn when_no_model_is_left_the_last_error_is_told() {
    let fails = || vec![vec![fail(ErrorKind::Quota)]];
    let (stage, models) = several(vec![fails(), fails(), fails()]);
    let editor = FakeEditor::default();
    let failed = stage.turn(&editor, "go").await.unwrap_err();
    assert!(matches!(failed, TurnError::Model(e) if e.kind == ErrorKind::Quota));
    assert!(models.iter().all(|m| m.requests().len() == 1));
    assert_eq!(editor.notices()[..2], ["Going on with p/b", "Going on with p/c"]);
    // What the provider says no to is asked of nobody else.
    let (stage, models) = several(vec![vec![vec![fail(ErrorKind::Refused)]], vec![text("x")], vec![]]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::Refusal);
    assert!(models[1].requests().is_empty());
}

#[tokio::test]
async fn a_refused_prompt_is_not_sent_again() {
    let refuse = vec![say("I will not."), end(Finish::Refusal)];
    let stage = Stage::new([refuse, vec![fail(ErrorKind::Refused)], text("fine")]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "the bad one").await.unwrap(), Stop::Refusal);
    assert_eq!(stage.turn(&editor, "the worse one").await.unwrap(), Stop::Refusal);
    assert_eq!(stage.turn(&editor, "a good one").await.unwrap(), Stop::EndTurn);
    let sent = format!("{:?}", stage.model.requests().pop().unwrap().messages);
    assert!(sent.contains("a good one") && !sent.contains("the bad one") && !sent.contains("the worse one"));
}

#[tokio::test]
async fn after_a_bad_request_the_session_works() {
    let stage = Stage::new([vec![fail(ErrorKind::BadRequest)], text("fine")]);
    let editor = FakeEditor::default();
    stage.turn(&editor, "one").await.unwrap_err();
    assert_eq!(stage.turn(&editor, "two").await.unwrap(), Stop::EndTurn);
}

#[tokio::test]
async fn a_full_window_is_a_limit_where_nothing_can_be_shortened() {
    let stage = Stage::new([vec![say("so far"), fail(ErrorKind::TooLong)]]);
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTokens);
    assert_eq!(editor.text(), "so far");
}

#[tokio::test]
async fn calls_that_fail_alike_end_the_turn_with_a_word_to_the_model_before() {
    let stage = Stage::new(
        (0..20).map(|i| calls(&[("1", "read", &format!(r#"{{"path":"missing.txt","offset":{}}}"#, i + 1))])),
    );
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTurnRequests);
    check(&stage.entries(), &editor);
    assert_eq!(stage.model.requests().len(), 8);
    assert!(last_user(&stage.model).contains("all failed with the same words"));
}

#[tokio::test]
async fn looking_after_a_job_is_no_repetition_while_it_goes_on() {
    let look = || calls(&[("1", "jobs", "{}")]);
    let stage = Stage::new((0..20).map(|_| look()));
    let editor = FakeEditor::default();
    // There is no job: the same answer again and again.
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::MaxTurnRequests);
    assert_eq!(stage.model.requests().len(), 8);
}

#[tokio::test]
async fn a_call_written_among_words_is_asked_for_by_itself() {
    let wrote = |n: u32| {
        text(&format!(
            "{n}:\n```json\n{{\"name\": \"read\", \"arguments\": {{\"path\": \"a.txt\"}}}}\n```\nOutput: one"
        ))
    };
    let stage = Stage::new([wrote(1), calls(&[("1", "read", r#"{"path":"a.txt"}"#)]), text("one")]);
    stage.fake.file("a.txt", "one\n");
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
    assert_eq!((stage.model.requests().len(), stage.outcomes()), (3, vec![Outcome::Ok]));
    // Whoever means an example is not asked for ever.
    let stage = Stage::new((0..9).map(wrote));
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(stage.model.requests().len(), 4);
    assert!(last_user(&stage.model).contains("call of `read` as text"));
}

#[tokio::test]
async fn what_is_only_announced_behind_a_failure_is_asked_for() {
    let stage = Stage::new([
        calls(&[("1", "read", r#"{"path":"missing.txt"}"#)]),
        text("It is not there. I will use `glob` to find it."),
        text("Done."),
    ]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert!(last_user(&stage.model).contains("called no tool"));
    let stage = Stage::new([calls(&[("1", "probe", "{}")]), text("Next, I will rest.")]);
    assert_eq!(stage.turn(&FakeEditor::default(), "go").await.unwrap(), Stop::EndTurn);
    assert_eq!(stage.model.requests().len(), 2);
}
