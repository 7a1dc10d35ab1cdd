//! Lists: order, folders, cursors; and what deleting leaves.
use super::*;

fn add(place: &Place, cwd: &Path, updated: i64, entries: bool, origin: Origin) -> SessionId {
    let head = SessionHead {
        created: Millis(updated),
        updated: Millis(updated),
        origin,
        ..SessionHead::new(SessionId::new(), cwd.to_owned())
    };
    place.store.create(head.clone()).wait().unwrap();
    if entries {
        let entry = Entry::Nudge { text: "x".into() };
        place.store.append(head.id.clone(), vec![at(0, entry)]).wait().unwrap();
    }
    head.id
}

fn ids(page: &Page) -> Vec<SessionId> {
    page.heads.iter().map(|h| h.id.clone()).collect()
}

#[test]
fn newest_first_in_pages_that_miss_and_repeat_nothing() {
    let place = Place::new();
    let cwd = place.root.path();
    // Times that are equal must not confuse the pages.
    let mut expected: Vec<SessionId> =
        (0..25).map(|i| add(&place, cwd, i / 7, true, Origin::Editor)).collect();
    expected.reverse();
    for limit in [1, 2, 5, 24, 25, 26] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = place.store.heads(Filter { cursor, limit, ..Filter::default() }).wait().unwrap();
            assert!(page.heads.len() <= limit);
            seen.extend(ids(&page));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "limit {limit}");
    }
    for bad in ["", "x", "1", "1.", "zz.1", "1.2.3"] {
        let filter = Filter { cursor: Some(bad.into()), ..Filter::default() };
        assert!(matches!(place.store.heads(filter).wait(), Err(StoreError::Cursor)), "{bad}");
    }
}

/// Sessions that come, or move to the front, while somebody turns the pages: none of the others is missed or repeated.
#[test]
fn pages_stay_while_sessions_come() {
    let place = Place::new();
    let cwd = place.root.path();
    let mut expected: Vec<SessionId> = (0..12).map(|i| add(&place, cwd, i, true, Origin::Editor)).collect();
    expected.reverse();
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = place.store.heads(Filter { cursor, limit: 3, ..Filter::default() }).wait().unwrap();
        seen.extend(ids(&page));
        add(&place, cwd, 100, true, Origin::Editor);
        place.store.touch(seen[0].clone()).wait().unwrap();
        place.store.delete(seen[1].clone()).wait().unwrap();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn a_folder_is_the_same_through_links() {
    let place = Place::new();
    let (real, link) = (place.root.path().join("real"), place.root.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let a = add(&place, &real, 1, true, Origin::Editor);
    let b = add(&place, &link, 2, true, Origin::Editor);
    add(&place, place.root.path(), 3, true, Origin::Editor);
    for cwd in [&real, &link, &link.join("."), &link.join("../real")] {
        let page = place.store.heads(Filter { cwd: Some(cwd.clone()), ..Filter::default() }).wait().unwrap();
        assert_eq!(ids(&page), [b.clone(), a.clone()], "{}", cwd.display());
        assert_eq!(page.heads[0].cwd, link, "as the editor named it");
    }
    // A folder that is gone is compared as it was.
    fs::remove_file(&link).unwrap();
    fs::remove_dir(&real).unwrap();
    let page = place.store.heads(Filter { cwd: Some(real), ..Filter::default() }).wait().unwrap();
    assert_eq!(page.heads.len(), 2);
}

/// An editor lists what it can show: no session without a prompt, none of our own runs.
#[test]
fn empty_and_foreign_sessions_are_hidden() {
    let place = Place::new();
    let cwd = place.root.path();
    let shown = add(&place, cwd, 1, true, Origin::Editor);
    add(&place, cwd, 2, false, Origin::Editor);
    add(&place, cwd, 3, true, Origin::Child);
    add(&place, cwd, 4, true, Origin::Exec);
    let count = |filter| place.store.heads(filter).wait().unwrap().heads.len();
    assert_eq!(ids(&place.store.heads(Filter::default()).wait().unwrap()), [shown]);
    assert_eq!(count(Filter { empty: true, ..Filter::default() }), 2);
    assert_eq!(count(Filter { all_origins: true, ..Filter::default() }), 3);
    assert_eq!(count(Filter { all_origins: true, empty: true, ..Filter::default() }), 4);
}

#[test]
fn prompts_and_ends_of_turns_move_a_session_to_the_front() {
    let place = Place::new();
    let old = add(&place, place.root.path(), 100, false, Origin::Editor);
    let new = add(&place, place.root.path(), 200, false, Origin::Editor);
    let front =
        || ids(&place.store.heads(Filter { empty: true, ..Filter::default() }).wait().unwrap())[0].clone();
    assert_eq!(front(), new);
    place.store.append(old.clone(), vec![at(0, user("a"))]).wait().unwrap();
    assert_eq!(front(), old);
    let ended = Entry::Ended {
        stop: "end_turn".into(),
        requests: 1,
        usage: Usage::default(),
        detail: None,
        tools: Default::default(),
    };
    place.store.append(new.clone(), vec![at(0, assistant("b")), at(1, ended)]).wait().unwrap();
    assert_eq!(front(), new);
    place.store.touch(old.clone()).wait().unwrap();
    assert_eq!(front(), old);
    // Loading moves nothing.
    place.store.load(new).wait().unwrap();
    assert_eq!(front(), old);
}

#[test]
fn deleting_leaves_nothing_and_is_no_error_twice() {
    let place = Place::new();
    let (id, stays) = (place.session(), place.session());
    let entries = conversation(0, 8);
    place.store.append(id.clone(), entries.clone()).wait().unwrap();
    place.store.append(stays.clone(), entries[..4].to_vec()).wait().unwrap();
    place.store.draft(id.clone(), MessageId::new(), "x".into(), String::new()).wait().unwrap();
    let snapshot = place.store.put_blob(id.clone(), b"before".to_vec()).wait().unwrap();
    let folder = place.store.spill_dir(&id);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("t_1.txt"), "long").unwrap();
    assert!(place.store.delete(id.clone()).wait().unwrap());
    assert!(!place.store.delete(id.clone()).wait().unwrap());
    assert!(!folder.exists());
    assert_eq!(place.store.get_blob(snapshot).wait().unwrap(), None);
    assert!(matches!(place.store.load(id).wait(), Err(StoreError::NotFound(_))));
    // What another session shares with it stays.
    assert_eq!(place.store.load(stays.clone()).wait().unwrap().entries, entries[..4]);
    place.store.delete(stays).wait().unwrap();
    let raw = place.raw();
    for table in ["session", "entry", "draft", "blob", "blob_use"] {
        let rows: i64 = raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}
