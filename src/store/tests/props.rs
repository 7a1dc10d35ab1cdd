//! Any sequence of calls: what was answered is there, and nothing else.
use super::*;
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[a-z$\"{}:]{0,12}",
        (1000usize..1100, any::<char>()).prop_map(|(n, c)| c.to_string().repeat(n)),
        Just("$blob".to_owned()),
    ];
    let key = prop_oneof!["[$]{0,3}blob", "[a-z\"\\\\,{]{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let long = prop_oneof![any::<String>(), "\\PC{0,40}", "[a-c\n]{900,1300}"];
    prop_oneof![
        long.clone().prop_map(|t| user(&t)),
        long.clone().prop_map(|t| result(&t, vec![diff(&t, "x")])),
        any_json().prop_map(|value| {
            let native = Some(crate::log::Native { dialect: "d".into(), value });
            let block = Block::Thinking { id: MessageId::new(), text: String::new(), native };
            Entry::Assistant {
                id: MessageId::new(),
                blocks: vec![block],
                interrupted: true,
                model: "a/b".into(),
                usage: Some(Usage { input: 3, ..Usage::default() }),
            }
        }),
        any_json().prop_map(|schema| Entry::Frame {
            system: "s".into(),
            tools: vec![crate::log::ToolSpec { name: "t".into(), description: "d".into(), schema }],
        }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize, Vec<Entry>),
    Repeat(usize),
    Delete(usize),
    Fork(usize, usize),
    Draft(usize),
    Search,
    /// The process dies: the next one opens the files as they are.
    Kill,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..4, prop::collection::vec(any_entry(), 1..4)).prop_map(|(s, e)| Step::Append(s, e)),
        1 => (0usize..4).prop_map(Step::Repeat),
        1 => (0usize..4).prop_map(Step::Delete),
        1 => (0usize..4, 0usize..8).prop_map(|(s, n)| Step::Fork(s, n)),
        2 => (0usize..4).prop_map(Step::Draft),
        1 => Just(Step::Search),
        1 => Just(Step::Kill),
    ]
}

/// A session as it should be.
#[derive(Default)]
struct Model {
    entries: Vec<Stored>,
    draft: bool,
}

fn copy_as_killed(from: &Place) -> Place {
    let to = Place::new();
    fs::create_dir_all(&to.dirs.data).unwrap();
    for file in fs::read_dir(&from.dirs.data).unwrap().map(|f| f.unwrap()) {
        // The shared memory is of the process that died.
        if file.file_type().unwrap().is_file() && !file.path().to_string_lossy().ends_with("-shm") {
            fs::copy(file.path(), to.dirs.data.join(file.file_name())).unwrap();
        }
    }
    to
}

fn check(place: &Place, sessions: &[(SessionId, Model)]) {
    for (id, model) in sessions {
        let loaded = place.store.load(id.clone()).wait().unwrap();
        assert_eq!(loaded.entries, model.entries);
        assert_eq!((loaded.damaged.len(), loaded.next), (0, model.entries.len() as u64));
        assert_eq!(loaded.draft.is_some(), model.draft);
    }
    let all = Filter { empty: true, ..Filter::default() };
    assert_eq!(place.store.heads(all).wait().unwrap().heads.len(), sessions.len());
}

fn run(steps: Vec<Step>) {
    let mut place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut sessions: Vec<(SessionId, Model)> = (0..2).map(|_| (place.session(), Model::default())).collect();
    for step in steps {
        let count = sessions.len();
        match step {
            Step::Append(s, entries) if count > 0 => {
                let (id, model) = &mut sessions[s % count];
                let next = model.entries.len() as u64;
                let stored: Vec<_> = entries.into_iter().zip(next..).map(|(e, seq)| at(seq, e)).collect();
                model.draft &= !stored.iter().any(|s| matches!(s.entry, Entry::Assistant { .. }));
                place.store.append(id.clone(), stored.clone()).wait().unwrap();
                model.entries.extend(stored);
            }
            Step::Repeat(s) if count > 0 => {
                let (id, model) = &sessions[s % count];
                if let Some(last) = model.entries.last() {
                    place.store.append(id.clone(), vec![last.clone()]).wait().unwrap_err();
                }
            }
            Step::Delete(s) if count > 0 => {
                let (id, _) = sessions.remove(s % count);
                assert!(place.store.delete(id).wait().unwrap());
            }
            Step::Fork(s, upto) if count > 0 && count < 4 => {
                let (id, model) = &sessions[s % count];
                let head = SessionHead::new(SessionId::new(), "/w".into());
                let entries: Vec<_> = model.entries.iter().take(upto).cloned().collect();
                place.store.fork(id.clone(), Some(upto as u64), head.clone()).wait().unwrap();
                sessions.push((head.id, Model { entries, draft: false }));
            }
            Step::Draft(s) if count > 0 => {
                let (id, model) = &mut sessions[s % count];
                place
                    .store
                    .draft(id.clone(), MessageId::new(), "so far".into(), String::new())
                    .wait()
                    .unwrap();
                model.draft = true;
            }
            Step::Search => {
                let search = Search { text: "a".into(), around: 2, ..Search::default() };
                runtime.block_on(place.store.search(search)).unwrap();
            }
            Step::Kill => place = copy_as_killed(&place),
            _ => {}
        }
    }
    check(&place, &sessions);
    check(&copy_as_killed(&place), &sessions);
    // No content outlives its last session.
    for (id, _) in sessions {
        place.store.delete(id).wait().unwrap();
    }
    let left: i64 = place.raw().query_row("SELECT count(*) FROM blob", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_calls_loads_equal(steps in prop::collection::vec(any_step(), 1..30)) {
        run(steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn folding_any_value_and_back_is_the_identity(value in any_json()) {
        use super::super::blobs::{fold, unfold};
        let mut kept = std::collections::HashMap::new();
        let mut folded = value.clone();
        fold(&mut folded, &mut |text: &str| {
            let id = BlobId::of(text.as_bytes());
            kept.insert(id, text.to_owned());
            Ok(id)
        })
        .unwrap();
        let json = folded.to_string();
        let back = unfold(&json, |id, out| {
            let text = kept.get(&id);
            out.extend(text.map(|text| Value::String(text.clone()).to_string()));
            Ok::<_, ()>(text.is_some())
        }).unwrap().unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), value);
    }
}
