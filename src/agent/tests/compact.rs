//! A conversation that outgrows the window goes on: each trigger, each level, each way in which a summary can fail.
use super::*;
use crate::{
    agent::{
        compact::{Compaction, Outcome as Compacted},
        context,
    },
    model::{
        Delta, ErrorKind, Finish, Message, Request,
        scripted::{Gate, Step, calls, error, text},
    },
};
use proptest::prelude::*;

/// A word of the user that a summary must not lose.
const NEEDLE: &str = "never touch vendor/zlib-1.3.1";

fn words(n: usize) -> String {
    "lorem ipsum ".repeat(n)
}

fn too_long() -> Vec<Step> {
    vec![Step::Fail(error(ErrorKind::TooLong, "scripted answered 400: the prompt is too long"))]
}

fn used(input: u64, then: Vec<Step>) -> Vec<Step> {
    let usage = Usage { input, output: 10, ..Usage::default() };
    std::iter::once(Step::Say(Delta::Usage(usage))).chain(then).collect()
}

fn stage(context: Option<u64>, replies: Vec<Vec<Step>>) -> Stage {
    let mut model = Scripted::new(replies);
    if let Some(tokens) = context {
        model = model.with_context(tokens);
    }
    Stage::with(Arc::new(model), Limits { retry_budget: std::time::Duration::ZERO, ..Limits::default() })
}

fn is_summary(request: &Request) -> bool {
    request.tools.is_empty() && request.system.contains("hand-over summary")
}

fn whole(messages: &[Message]) -> String {
    format!("{messages:?}")
}

fn size(request: &Request) -> usize {
    whole(&request.messages).len()
}

/// The statuses of each compaction shown, in order.
fn shown(editor: &FakeEditor) -> Vec<CompactionStatus> {
    let seen = editor.seen.lock().unwrap();
    let mut ids = Vec::new();
    let mut out = Vec::new();
    for update in seen.iter() {
        if let Update::Compaction { id, status, .. } = update {
            ids.push(id.clone());
            out.push(*status);
        }
    }
    for pair in ids.chunks(2) {
        assert!(pair.len() == 2 && pair[0] == pair[1], "one end for each compaction: {out:?}");
    }
    out
}

use CompactionStatus::{Cancelled, Completed, Failed, InProgress};

/// Six prompts of about 2,000 tokens each, answered.
async fn filled(stage: &Stage, editor: &FakeEditor) {
    for n in 0..6 {
        stage.model.then(text(&format!("answer {n} {}", words(300))));
        stage.turn(editor, &format!("prompt {n}: {NEEDLE} {}", words(500))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_compacted_and_sent_again() {
    let (stage, editor) = (stage(None, vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    for reply in [too_long(), text("SUMMARY of half"), text("SUMMARY of it"), text("OK")] {
        stage.model.then(reply);
    }
    assert_eq!(stage.turn(&editor, "go on").await.unwrap(), Stop::EndTurn);
    let requests = stage.model.requests();
    let [refused, half, summary, last] = &requests[6..] else { panic!("{}", requests.len()) };
    assert!(is_summary(half) && whole(&half.messages).contains(NEEDLE));
    assert!(is_summary(summary) && whole(&summary.messages).contains("SUMMARY of half"));
    assert!(size(last) * 10 < size(refused) * 7, "{} of {}", size(last), size(refused));
    assert_eq!(last.system, refused.system, "the system prompt stays");
    super::random::valid(&last.messages);
    let all = whole(&last.messages);
    assert!(all.contains("SUMMARY of it") && all.contains(NEEDLE) && all.contains("go on"));
    assert!(editor.text().ends_with("OK"));
    assert_eq!(shown(&editor), [InProgress, Completed]);
    assert_eq!(editor.notices(), ["Conversation compacted"]);
    check(&stage.entries(), &editor);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_is_made_from_the_log() {
    for failure in [
        vec![Step::Fail(error(ErrorKind::Overloaded, "scripted answered 500"))],
        vec![Step::Say(Delta::End(Finish::Stop))],
        vec![Step::Say(Delta::Text("no".into())), Step::Say(Delta::End(Finish::Refusal))],
        vec![Step::Hang],
    ] {
        let (stage, editor) = (stage(None, vec![]), FakeEditor::default());
        filled(&stage, &editor).await;
        for reply in [too_long(), failure.clone(), text("OK")] {
            stage.model.then(reply);
        }
        assert_eq!(stage.turn(&editor, "go on").await.unwrap(), Stop::EndTurn, "{failure:?}");
        let requests = stage.model.requests();
        let last = whole(&requests.last().unwrap().messages);
        assert!(
            last.contains(NEEDLE) && last.contains("without a model") && last.contains("answer 1"),
            "{last}"
        );
        assert_eq!(shown(&editor), [InProgress, Completed]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_too_long_itself_is_asked_in_parts() {
    let (stage, editor) = (stage(None, vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    for reply in [too_long(), too_long(), text("PART one"), text("PART two"), text("PART three"), text("OK")]
    {
        stage.model.then(reply);
    }
    assert_eq!(stage.turn(&editor, "go on").await.unwrap(), Stop::EndTurn);
    let requests = stage.model.requests();
    let summaries: Vec<&Request> = requests.iter().filter(|r| is_summary(r)).collect();
    assert!(summaries.len() > 2, "{}", summaries.len());
    assert!(size(summaries[1]) < size(summaries[0]));
    assert!(whole(&summaries[2].messages).contains("PART one"), "each part goes on from the one before");
}

#[tokio::test(start_paused = true)]
async fn a_second_overflow_cuts_harder_and_a_third_is_the_end() {
    let (stage, editor) = (stage(None, vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    stage.model.narrow(100);
    let failed = stage.turn(&editor, "go on").await.unwrap_err();
    assert!(matches!(&failed, TurnError::Model(e) if e.kind == ErrorKind::TooLong), "{failed:?}");
    let requests: Vec<Request> =
        stage.model.requests().into_iter().skip(6).filter(|r| !is_summary(r)).collect();
    let sizes: Vec<usize> = requests.iter().map(size).collect();
    assert!(sizes.len() == 3 && sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
    assert!(whole(&requests[2].messages).contains(NEEDLE));
    // The session is not lost.
    stage.model.narrow(0);
    stage.model.then(text("fine"));
    assert_eq!(stage.turn(&editor, "and now?").await.unwrap(), Stop::EndTurn);
    check(&stage.entries(), &editor);
}

/// A server that takes less than it says, for the summaries too.
#[tokio::test(start_paused = true)]
async fn a_storm_of_overflows_ends_well() {
    for narrow in [14_000, 20_000, 30_000, 45_000] {
        let (stage, editor) = (stage(Some(1_000_000), vec![]), FakeEditor::default());
        filled(&stage, &editor).await;
        stage.model.narrow(narrow);
        for turn in 0..4 {
            for _ in 0..12 {
                stage.model.then(text("fine"));
            }
            let prompt = format!("prompt {turn} {}", words(200));
            let stop = stage.turn(&editor, &prompt).await;
            assert!(matches!(stop, Ok(Stop::EndTurn)), "{narrow}: {stop:?}");
            let last = stage.model.requests().pop().unwrap();
            super::random::valid(&last.messages);
            assert!(whole(&last.messages).contains(&format!("prompt {turn}")));
        }
        shown(&editor);
    }
}

/// A refusal teaches the window for later processes too: they do not run into it again.
#[tokio::test(start_paused = true)]
async fn what_a_refusal_taught_holds_in_the_next_process() {
    let (first, editor) = (stage(Some(1_000_000), vec![]), FakeEditor::default());
    filled(&first, &editor).await;
    for reply in [too_long(), text("SUMMARY of half"), text("SUMMARY"), text("OK")] {
        first.model.then(reply);
    }
    first.turn(&editor, "go on").await.unwrap();
    let learned = first.keep.windows.lock().unwrap().clone();
    let [(_, tokens)] = learned.as_slice() else { panic!("{learned:?}") };
    assert!(*tokens < 100_000, "{tokens}");
    let (next, editor) = (stage(Some(1_000_000), vec![]), FakeEditor::default());
    *next.keep.windows.lock().unwrap() = learned;
    for n in 0..8 {
        for reply in [text("fine"), text("fine")] {
            next.model.then(reply);
        }
        next.turn(&editor, &format!("prompt {n} {}", words(900))).await.unwrap();
    }
    assert!(next.model.requests().iter().any(is_summary), "it is compacted before anything is refused");
}

#[tokio::test(start_paused = true)]
async fn the_reported_usage_decides_before_a_turn() {
    let (stage, editor) = (stage(Some(200_000), vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    stage.model.then(used(170_000, text("big")));
    stage.turn(&editor, "count").await.unwrap();
    for reply in [text("SUMMARY"), text("OK")] {
        stage.model.then(reply);
    }
    stage.turn(&editor, "go on").await.unwrap();
    let requests = stage.model.requests();
    assert!(is_summary(&requests[7]), "it is compacted before it is sent");
    assert!(!is_summary(&requests[8]) && requests.len() == 9);
    let ended = stage.entries().into_iter().rev().find_map(|s| match s.entry {
        Entry::Ended { usage, .. } => Some(usage),
        _ => None,
    });
    assert_eq!(ended.unwrap(), Usage::default());
}

#[tokio::test(start_paused = true)]
async fn old_results_go_first_and_between_the_calls_of_a_turn() {
    let read = |n: usize| format!(r#"{{"path":"f{n}.txt"}}"#);
    let args: Vec<String> = (0..8).map(read).collect();
    let replies = args.iter().enumerate().map(|(n, a)| calls(&[(&*format!("c{n}"), "read", a.as_str())]));
    let stage = stage(Some(40_000), replies.chain([text("done")]).collect());
    for n in 0..8 {
        stage.fake.file(&format!("f{n}.txt"), format!("{}\n", words(40)).repeat(40));
    }
    let editor = FakeEditor::default();
    assert_eq!(stage.turn(&editor, "read them").await.unwrap(), Stop::EndTurn);
    let requests = stage.model.requests();
    assert!(requests.iter().all(|r| !is_summary(r)), "no model is asked");
    let last = whole(&requests.last().unwrap().messages);
    assert!(last.contains(context::PRUNED) && last.contains("call `read` again"), "{last}");
    super::random::valid(&requests.last().unwrap().messages);
    check(&stage.entries(), &editor);
}

#[tokio::test(start_paused = true)]
async fn a_huge_prompt_is_bounded_and_saved() {
    let (stage, editor) =
        (stage(Some(8_000), vec![text("a summary of it"), text("OK")]), FakeEditor::default());
    let prompt = format!("{NEEDLE} {} the end", words(20_000));
    assert_eq!(stage.turn(&editor, &prompt).await.unwrap(), Stop::EndTurn);
    let last = stage.model.requests().pop().unwrap();
    let all = whole(&last.messages);
    assert!(
        all.len() < 32_000 && all.contains(NEEDLE) && all.contains("the end") && all.contains("prompt-"),
        "{all}"
    );
    super::random::valid(&last.messages);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_compaction() {
    let (stage, editor) = (stage(None, vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    let gate = Gate::default();
    stage.model.then(too_long());
    stage.model.then(vec![Step::Wait(gate.clone()), Step::Hang]);
    let cancel = async {
        gate.reached().await;
        stage.cancel.cancel();
    };
    let (stop, ()) = tokio::join!(stage.turn(&editor, "go on"), cancel);
    assert_eq!(stop.unwrap(), Stop::Cancelled);
    assert_eq!(shown(&editor), [InProgress, Cancelled]);
    assert!(!stage.entries().iter().any(|s| matches!(s.entry, Entry::Summary { .. })));
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_nothing_is_thrown_away() {
    let (stage, editor) = (stage(Some(200_000), vec![]), FakeEditor::default());
    filled(&stage, &editor).await;
    let down = || vec![Step::Fail(error(ErrorKind::Network, "scripted cannot be reached"))];
    for reply in [used(170_000, text("big")), down(), down()] {
        stage.model.then(reply);
    }
    stage.turn(&editor, "count").await.unwrap();
    stage.turn(&editor, "go on").await.unwrap_err();
    assert_eq!(shown(&editor), [InProgress, Failed]);
    assert!(!stage.entries().iter().any(|s| matches!(s.entry, Entry::Summary { .. })));
}

async fn asked(stage: &Stage, editor: &FakeEditor, focus: &str) -> Compacted {
    let mut journal = stage.session.journal().await;
    let provider: Arc<dyn Provider> = stage.model.clone();
    let compaction = Compaction {
        session: &stage.session,
        journal: &mut journal,
        editor,
        cancel: &stage.cancel,
        provider,
    };
    compaction.asked(focus).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_person_asks_for_it_again_and_again() {
    let features = Features { compaction: true, ..Features::default() };
    let (stage, editor) = (stage(None, vec![]), FakeEditor { features, ..FakeEditor::default() });
    assert_eq!(asked(&stage, &editor, "").await, Compacted::Nothing);
    filled(&stage, &editor).await;
    stage.model.then(text("SUMMARY one: vendor"));
    let Compacted::Done { before, after, without } = asked(&stage, &editor, "the vendor folder").await else {
        panic!("nothing was done")
    };
    assert!(after * 10 < before * 8 && without.is_none(), "{after} of {before}");
    let request = stage.model.requests().pop().unwrap();
    assert!(whole(&request.messages).contains("the vendor folder"));
    filled(&stage, &editor).await;
    stage.model.then(text("SUMMARY two"));
    assert!(matches!(asked(&stage, &editor, "").await, Compacted::Done { .. }));
    let request = whole(&stage.model.requests().pop().unwrap().messages);
    assert!(request.contains("<earlier_summary>\\nSUMMARY one: vendor\\n</earlier_summary>"), "{request}");
    assert!(editor.notices().is_empty());
    assert_eq!(shown(&editor), [InProgress, Completed, InProgress, Completed]);
    let replayed = crate::agent::view::replay(&stage.entries());
    let prompts = replayed.iter().filter(|u| matches!(u, Update::User { .. })).count();
    assert_eq!(prompts, 12, "the person still sees everything");
}

/// The plan, the files and the last failure stand beside every summary, whatever a model writes.
#[tokio::test(start_paused = true)]
async fn facts_are_kept_word_for_word() {
    let todo = r#"{"todos":[{"content":"port the decoder","status":"in_progress"}]}"#;
    let stage = stage(
        None,
        vec![
            calls(&[("c1", "todo", todo), ("c2", "read", r#"{"path":"a.txt"}"#)]),
            calls(&[("c3", "edit", r#"{"path":"a.txt","old_string":"one","new_string":"two"}"#)]),
            text(&format!("done {}", words(300))),
        ],
    );
    stage.fake.file("a.txt", "one\n");
    let editor = FakeEditor::default();
    stage.turn(&editor, &format!("{NEEDLE} {}", words(300))).await.unwrap();
    filled(&stage, &editor).await;
    for reply in [too_long(), text("nothing"), text("nothing of use"), text("OK")] {
        stage.model.then(reply);
    }
    stage.turn(&editor, "go on").await.unwrap();
    let last = whole(&stage.model.requests().pop().unwrap().messages);
    for fact in [NEEDLE, "[>] port the decoder", "Files changed", "a.txt"] {
        assert!(last.contains(fact), "{fact}: {last}");
    }
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => (1usize..3_000).prop_map(Piece::Prompt),
        3 => (1usize..2_000).prop_map(Piece::Say),
        5 => (prop::collection::vec(1usize..9_000, 1..4), any::<bool>()).prop_map(|(r, s)| Piece::Calls(r, s)),
        1 => Just(Piece::Interrupted),
        1 => Just(Piece::Withdrawn),
        1 => (0usize..40).prop_map(Piece::Rewind),
    ]
}

/// What a random log is made of; numbers are sizes in bytes.
#[derive(Clone, Debug)]
enum Piece {
    Prompt(usize),
    Say(usize),
    /// Calls and the sizes of their results; whether a steer comes before the last of them.
    Calls(Vec<usize>, bool),
    Interrupted,
    Withdrawn,
    Rewind(usize),
}

fn random_log(pieces: &[Piece]) -> Vec<Stored> {
    let mut out: Vec<Entry> = vec![Entry::Frame { system: "s".into(), tools: vec![] }, user("the first", 0)];
    for (n, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Prompt(size) => out.push(user(&format!("needle-{n}."), *size)),
            Piece::Say(size) => out.push(assistant(vec![Block::Text { text: "y".repeat(*size) }], false)),
            Piece::Interrupted => out.push(assistant(vec![called(n, 9)], true)),
            Piece::Calls(results, steer) => {
                out.push(assistant((0..results.len()).map(|i| called(n, i)).collect(), false));
                for (i, size) in results.iter().enumerate() {
                    if *steer && i + 1 == results.len() {
                        out.push(Entry::Steer { id: MessageId::new(), text: format!("steer-{n}.") });
                    }
                    let card = Card { title: format!("Read f{n}"), kind: ToolKind::Read, ..Card::default() };
                    let (call, text) = (format!("t{n}-{i}").as_str().into(), "z".repeat(*size));
                    out.push(Entry::Result { call, outcome: Outcome::Ok, text, images: vec![], card });
                }
            }
            Piece::Withdrawn => {
                let Entry::User { id, parts, .. } = user("withdrawn", 9) else { unreachable!() };
                out.push(Entry::User { id, parts, state: PromptState::Withdrawn, volatile: None });
            }
            // A person rewinds to a prompt, never into a turn.
            Piece::Rewind(back) => {
                let to = out.len().saturating_sub(*back);
                let prompt = (to.max(2)..out.len()).find(|i| matches!(out[*i], Entry::User { .. }));
                out.extend(prompt.map(|to| Entry::Rewind { to: to as u64 }));
            }
        }
    }
    out.push(user("zenith-request", 0));
    let stored = |(seq, entry)| Stored { seq: seq as u64, at: crate::clock::Millis(0), entry };
    out.into_iter().enumerate().map(stored).collect()
}

fn user(says: &str, size: usize) -> Entry {
    let parts = vec![Part::Text { text: format!("{says} {}", "x".repeat(size)) }];
    Entry::User { id: MessageId::new(), parts, state: PromptState::Sent, volatile: None }
}

fn assistant(blocks: Vec<Block>, interrupted: bool) -> Entry {
    Entry::Assistant { id: MessageId::new(), blocks, interrupted, model: "p/m".into(), usage: None }
}

fn called(n: usize, i: usize) -> Block {
    let id = format!("t{n}-{i}");
    Block::Call(Call {
        provider_id: format!("p-{id}"),
        id: id.as_str().into(),
        name: "read".into(),
        args: "{}".into(),
        native: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    /// Whatever was said: after a compaction the request is valid, smaller, has the newest prompt, and every prompt
    /// went into the record of the summary or stayed. Again and again, until nothing is left to be made smaller.
    #[test]
    fn any_log_is_compacted_to_a_valid_request(pieces in prop::collection::vec(piece(), 1..40), window in 2_000u64..40_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = stage(Some(window), vec![]);
            stage.session.journal().await.append(random_log(&pieces).into_iter().map(|s| s.entry).collect()).await.unwrap();
            let editor = FakeEditor::default();
            let before = stage.entries();
            let first = context::messages(&before);
            for _ in 0..8 {
                stage.model.then(text("the summary"));
            }
            let was = whole(&first);
            let outcome = asked(&stage, &editor, "").await;
            let now = context::messages(&stage.entries());
            super::random::valid(&now);
            let all = whole(&now);
            assert_eq!(all.matches("zenith-request").count(), 1, "{all}");
            if let Compacted::Done { .. } = outcome {
                assert!(all.len() < was.len(), "{} of {}", all.len(), was.len());
                let record: String = stage.model.requests().iter().map(|r| whole(&r.messages)).collect();
                for piece in was.split_whitespace().filter(|w| w.contains("needle-")) {
                    let word = &piece[piece.find("needle-").unwrap()..];
                    assert!(record.contains(word) || all.contains(word), "{word}");
                }
            }
            for round in 0.. {
                let size = whole(&context::messages(&stage.entries())).len();
                for _ in 0..8 {
                    stage.model.then(text("the summary"));
                }
                match asked(&stage, &editor, "").await {
                    Compacted::Done { .. } => {
                        assert!(whole(&context::messages(&stage.entries())).len() < size);
                        assert!(round < 8, "it converges");
                    }
                    other => {
                        assert_eq!(other, Compacted::Nothing);
                        break;
                    }
                }
            }
            shown(&editor);
        });
    }
}
