//! Work beside the conversation, and what all of it used and cost.
use super::*;
use crate::{
    agent::{
        compact::{Compaction, Outcome as Compacted},
        side::Side,
        usage::Spent,
    },
    model::{
        Delta, Request,
        price::Price,
        scripted::{Gate, Step, text},
    },
};
use futures_util::stream::BoxStream;

/// A scripted model of which something is known.
struct Known(Arc<Scripted>, ModelInfo);
impl Provider for Known {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        self.0.stream(request)
    }
    fn info(&self) -> ModelInfo {
        self.1.clone()
    }
}

struct Two {
    main: Arc<dyn Provider>,
    side: Arc<dyn Provider>,
}
impl Models for Two {
    fn provider(&self, _: Option<&str>) -> Result<Arc<dyn Provider>, ModelError> {
        Ok(self.main.clone())
    }
    fn choices(&self) -> Vec<ModelInfo> {
        vec![self.main.info(), self.side.info()]
    }
    fn default_id(&self) -> Option<String> {
        Some(self.main.info().id)
    }
    fn side(&self, _: Side) -> Option<Arc<dyn Provider>> {
        Some(self.side.clone())
    }
}

fn price(input: f64, output: f64) -> Option<Price> {
    Some(Price { input, cached: None, written: None, output, above: None })
}

/// A session whose main model says `main` and whose other one says `side`.
fn two(main: Vec<Vec<Step>>, side: Vec<Vec<Step>>) -> (Stage, Arc<Scripted>) {
    let mut stage = Stage::new(main);
    let other = Arc::new(Scripted::new(side));
    let efforts = vec!["low".to_owned(), "high".to_owned()];
    let known = ModelInfo {
        id: "p/main".into(),
        context: Some(50_000),
        efforts,
        price: price(10.0, 100.0),
        ..ModelInfo::default()
    };
    stage.session.models = Arc::new(Two {
        main: Arc::new(Known(stage.model.clone(), known)),
        side: Arc::new(Known(other.clone(), ModelInfo { id: "p/side".into(), ..ModelInfo::default() })),
    });
    (stage, other)
}

fn used(input: u64, output: u64, mut reply: Vec<Step>) -> Vec<Step> {
    reply.insert(0, Step::Say(Delta::Usage(Usage { input, output, ..Usage::default() })));
    reply
}

fn titles(editor: &FakeEditor) -> Vec<String> {
    let seen = editor.seen.lock().unwrap();
    let title = |u: &Update| match u {
        Update::Title(title) => Some(title.clone()),
        _ => None,
    };
    seen.iter().filter_map(title).collect()
}

#[tokio::test]
async fn another_model_names_the_session_once() {
    let side = vec![used(7, 1, text("\"Fixing the port\"\n")), text("Never asked")];
    let (stage, other) = two(vec![text("done"), text("done")], side);
    let editor = FakeEditor::default();
    stage.turn(&editor, "please fix the port of the server").await.unwrap();
    stage.turn(&editor, "and the host").await.unwrap();
    assert_eq!(titles(&editor), ["please fix the port of the server", "Fixing the port"]);
    assert_eq!(other.requests().len(), 1);
    let spent = Spent::of(&stage.entries());
    assert_eq!((spent.side.input, spent.turns.input), (7, 0));
    // Its price is not known, which is kept.
    assert_eq!(spent.side.cost.unpriced, 1);
}

#[tokio::test(start_paused = true)]
async fn a_title_that_does_not_come_holds_nothing_up() {
    for side in [
        vec![Step::Hang],
        vec![Step::Fail(crate::model::scripted::error(crate::model::ErrorKind::Auth, "no"))],
    ] {
        let (stage, _) = two(vec![text("done")], vec![side]);
        let editor = FakeEditor::default();
        let start = tokio::time::Instant::now();
        assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::EndTurn);
        assert!(start.elapsed() <= std::time::Duration::from_secs(3));
        assert_eq!(titles(&editor), ["go"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_waits_for_no_title() {
    let (stage, _) = two(vec![vec![Step::Hang]], vec![vec![Step::Hang]]);
    let editor = FakeEditor::default();
    stage.cancel.cancel();
    assert_eq!(stage.turn(&editor, "go").await.unwrap(), Stop::Cancelled);
}

#[tokio::test]
async fn a_title_of_the_person_stays() {
    let gate = Gate::default();
    let mut named = text("Made up");
    named.insert(0, Step::Wait(gate.clone()));
    let (stage, _) = two(vec![text("done")], vec![named]);
    let editor = FakeEditor::default();
    let person = async {
        gate.reached().await;
        stage.session.entitle();
        gate.open();
    };
    let (stop, ()) = tokio::join!(stage.turn(&editor, "go"), person);
    assert_eq!((stop.unwrap(), titles(&editor)), (Stop::EndTurn, vec!["go".to_owned()]));
}

#[tokio::test]
async fn the_cost_of_the_session_is_shown_with_its_window() {
    let (stage, _) = two(
        vec![used(1_000, 10, text("one")), used(2_000, 10, text("two"))],
        vec![vec![Step::Fail(crate::model::scripted::error(crate::model::ErrorKind::Auth, "no"))]],
    );
    let features = Features { usage: true, ..Features::default() };
    let editor = FakeEditor { features, ..FakeEditor::default() };
    stage.turn(&editor, "go").await.unwrap();
    stage.turn(&editor, "go on").await.unwrap();
    let seen = editor.seen.lock().unwrap();
    let shown: Vec<_> = seen
        .iter()
        .filter_map(|u| match u {
            Update::Usage { used, size, cost } => Some((*used, *size, cost.unwrap())),
            _ => None,
        })
        .collect();
    // 1,000 × $10 and 10 × $100 for a million make 11 thousandths; the second request 21.
    assert_eq!(shown, [(1_010, 50_000, 0.011), (2_010, 50_000, 0.032)]);
    assert_eq!(Spent::of(&stage.entries()).total().cost.dollars(), Some(0.032));
}

#[tokio::test]
async fn the_effort_is_the_nearest_that_the_model_has() {
    let (stage, _) = two(vec![text("one"), text("two"), text("three")], vec![]);
    let editor = FakeEditor::default();
    for (chosen, sent) in [(Some("xhigh"), Some("high")), (Some("low"), Some("low")), (None, None)] {
        stage.session.set(|s| s.effort = chosen.map(str::to_owned));
        stage.turn(&editor, "go").await.unwrap();
        let request = stage.model.requests().pop().unwrap();
        assert_eq!(request.effort.as_deref(), sent, "{chosen:?}");
    }
}

async fn compact(stage: &Stage, editor: &FakeEditor) -> Compacted {
    let mut journal = stage.session.journal().await;
    let provider = stage.session.models.provider(None).unwrap();
    let session = &stage.session;
    let compaction = Compaction { session, journal: &mut journal, editor, cancel: &stage.cancel, provider };
    compaction.asked("").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn another_model_writes_summaries_and_where_it_cannot_the_own_does() {
    let auth = || vec![Step::Fail(crate::model::scripted::error(crate::model::ErrorKind::Auth, "no key"))];
    let long = "word ".repeat(4_000);
    for (side, own, by) in [
        (used(50, 5, text("SUMMARY by the side")), vec![], "p/side"),
        (auth(), vec![used(60, 6, text("SUMMARY by the own"))], "p/main"),
    ] {
        let replies = (0..6).map(|_| text(&long)).chain(own).collect();
        let (stage, _) = two(replies, vec![text("A title"), side]);
        let editor = FakeEditor::default();
        for n in 0..6 {
            stage.turn(&editor, &format!("step {n}")).await.unwrap();
        }
        let done = compact(&stage, &editor).await;
        assert!(matches!(done, Compacted::Done { without: None, .. }), "{done:?}");
        let sides: Vec<String> = stage
            .entries()
            .iter()
            .filter_map(|s| match &s.entry {
                Entry::Side { task, model, .. } if task == "summary" => Some(model.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(sides, [by]);
    }
}
