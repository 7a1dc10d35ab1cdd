//! Search over all sessions.
use super::*;

fn find(store: &Store, search: Search) -> Result<Vec<Hit>, StoreError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(store.search(search))
}

fn words(text: &str) -> Search {
    Search { text: text.into(), ..Search::default() }
}

#[test]
fn hits_come_with_their_neighbours() {
    let place = Place::new();
    let id = place.session();
    place.store.set_title(id.clone(), Some("Parser".into())).wait().unwrap();
    let long = format!("{} the Zaunkönig sings {}", "before ".repeat(300), "after ".repeat(300));
    let entries = vec![
        at(0, user("why does the tokenizer fail?")),
        at(1, assistant("I look at src/lexer.rs")),
        at(2, Entry::Nudge { text: "not searched: tokenizer".into() }),
        at(3, result(&long, Vec::new())),
        at(4, assistant("It was an off-by-one.")),
        at(5, user("thanks")),
    ];
    place.store.append(id.clone(), entries).wait().unwrap();
    let hits = find(&place.store, Search { around: 2, ..words("zaunkonig") }).unwrap();
    let [hit] = &hits[..] else { panic!("{hits:?}") };
    assert_eq!((&hit.session, hit.title.as_deref(), &*hit.cwd), (&id, Some("Parser"), place.root.path()));
    assert_eq!((hit.line.seq, hit.line.role), (3, "result"));
    assert!(hit.line.text.chars().count() <= 242, "{}", hit.line.text.len());
    let seqs = |lines: &[Line]| lines.iter().map(|l| l.seq).collect::<Vec<_>>();
    assert_eq!((seqs(&hit.before), seqs(&hit.after)), (vec![0, 1], vec![4, 5]));
    let hits = find(&place.store, words("TOKENIZER fail")).unwrap();
    assert_eq!((hits.len(), hits[0].line.seq, hits[0].before.len()), (1, 0, 0));
    assert_eq!(hits[0].line.text, "why does the tokenizer fail?");
    // The last word may be a beginning; a path is its words.
    assert_eq!(find(&place.store, words("lex")).unwrap()[0].line.seq, 1);
    assert_eq!(find(&place.store, words("src/lexer.rs")).unwrap()[0].line.seq, 1);
    assert_eq!(find(&place.store, words("lexer thanks")).unwrap(), []);
}

#[test]
fn filters_hold_and_nothing_is_syntax() {
    let place = Place::new();
    let (a, b) = (place.session(), SessionId::new());
    let other = place.root.path().join("other");
    fs::create_dir(&other).unwrap();
    place.store.create(SessionHead::new(b.clone(), other.clone())).wait().unwrap();
    for id in [&a, &b] {
        place
            .store
            .append(id.clone(), vec![at(0, user("common word")), at(1, user("and AND not"))])
            .wait()
            .unwrap();
    }
    let sessions = |search| {
        let mut all: Vec<_> = find(&place.store, search).unwrap().into_iter().map(|h| h.session).collect();
        all.sort();
        all
    };
    let mut both = vec![a.clone(), b.clone()];
    both.sort();
    assert_eq!(sessions(words("common")), both);
    assert_eq!(sessions(Search { cwd: Some(other), ..words("common") }), std::slice::from_ref(&b));
    assert_eq!(sessions(Search { session: Some(a.clone()), ..words("common") }), std::slice::from_ref(&a));
    assert_eq!(sessions(Search { limit: 1, ..words("common") }).len(), 1);
    for hard in
        ["common\" OR \"x", "com*mon NEAR(", "^common", "text:common", "-common", "common)", "'; DROP"]
    {
        find(&place.store, words(hard)).unwrap();
    }
    assert_eq!(sessions(words("AND and")), both);
    for none in ["", "  ", "\"*()"] {
        assert!(matches!(find(&place.store, words(none)), Err(StoreError::EmptySearch)));
    }
}

/// The index follows: what is new is found, what was deleted is not, also where ids of rows are used again.
#[test]
fn the_index_follows_appends_and_deletes() {
    let place = Place::new();
    let count = |text: &str| find(&place.store, Search { limit: 200, ..words(text) }).unwrap().len();
    let many: Vec<_> = (0..1_200).map(|i| at(i, user(&format!("apple number {i}")))).collect();
    let id = place.session();
    place.store.append(id.clone(), many).wait().unwrap();
    assert_eq!(count("apple"), 200);
    assert_eq!(count("1199"), 1, "all pieces were indexed");
    place.store.append(id.clone(), vec![at(1_200, user("pear"))]).wait().unwrap();
    assert_eq!(count("pear"), 1);
    place.store.delete(id).wait().unwrap();
    assert_eq!(count("apple"), 0);
    let id = place.session();
    place.store.append(id, vec![at(0, user("plum"))]).wait().unwrap();
    assert_eq!((count("plum"), count("pear")), (1, 0));
}
