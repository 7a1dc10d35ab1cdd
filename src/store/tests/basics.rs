//! Entries, drafts, grants: what goes in comes out.
use super::*;
use crate::log::Mode;

#[test]
fn what_was_appended_loads_equal_in_another_process() {
    let place = Place::new();
    let id = place.session();
    let entries = conversation(0, 40);
    for pair in entries.chunks(3) {
        place.store.append(id.clone(), pair.to_vec()).wait().unwrap();
    }
    let loaded = place.other().load(id.clone()).wait().unwrap();
    assert_eq!((loaded.next, &loaded.damaged[..], &loaded.draft), (40, &[][..], &None));
    assert_eq!(loaded.entries, entries);
    assert_eq!(loaded.head.id, id);
}

/// A repeated append must not overwrite or double what is there, nor may there be a gap.
#[test]
fn numbers_follow_each_other() {
    let place = Place::new();
    let id = place.session();
    place.store.append(id.clone(), vec![at(0, user("a")), at(1, user("b"))]).wait().unwrap();
    for seq in [0, 1, 3, u64::MAX] {
        let error = place.store.append(id.clone(), vec![at(seq, user("c"))]).wait().unwrap_err();
        assert!(matches!(error, StoreError::Sequence { expected: 2, got, .. } if got == seq), "{error}");
    }
    // All of an append or nothing of it.
    let half = vec![at(2, user("c")), at(2, user("d"))];
    assert!(matches!(
        place.store.append(id.clone(), half).wait(),
        Err(StoreError::Sequence { expected: 3, got: 2, .. })
    ));
    assert_eq!(place.store.load(id.clone()).wait().unwrap().next, 2);
    place.store.append(id.clone(), vec![at(2, user("c"))]).wait().unwrap();
    assert_eq!(place.store.load(id).wait().unwrap().next, 3);
}

/// Calls that were queued together share a transaction; the failure of one is its own.
#[test]
fn a_failed_call_undoes_itself_alone() {
    let place = Place::new();
    let id = place.session();
    let replies: Vec<_> = (0..200)
        .map(|i| {
            let good = place.store.append(id.clone(), vec![at(i, user("good"))]);
            let bad = place.store.append(id.clone(), vec![at(i + 1, user("x")), at(i + 1, user("bad"))]);
            (good, bad)
        })
        .collect();
    for (good, bad) in replies {
        good.wait().unwrap();
        assert!(matches!(bad.wait(), Err(StoreError::Sequence { .. })));
    }
    assert_eq!(place.store.load(id).wait().unwrap().entries.len(), 200);
}

#[test]
fn unknown_sessions_are_errors_everywhere() {
    let place = Place::new();
    let id = SessionId::from("s_none");
    let not_found = |r: Result<(), StoreError>| assert!(matches!(r, Err(StoreError::NotFound(_))), "{r:?}");
    not_found(place.store.append(id.clone(), vec![at(0, user("a"))]).wait());
    not_found(place.store.load(id.clone()).wait().map(drop));
    not_found(place.store.draft(id.clone(), MessageId::new(), "t".into(), String::new()).wait());
    not_found(place.store.set_title(id.clone(), None).wait());
    not_found(place.store.set_settings(id.clone(), Settings::default()).wait());
    not_found(place.store.set_folders(id.clone(), "/".into(), Vec::new()).wait());
    not_found(place.store.touch(id.clone()).wait());
    not_found(place.store.put_blob(id.clone(), vec![1]).wait().map(drop));
    not_found(place.store.fork(id.clone(), None, SessionHead::new(SessionId::new(), "/".into())).wait());
    assert_eq!(place.store.head(id.clone()).wait().unwrap(), None);
    assert!(!place.store.delete(id).wait().unwrap());
    // Nothing of a failed fork stays.
    let all = Filter { empty: true, all_origins: true, ..Filter::default() };
    assert_eq!(place.store.heads(all).wait().unwrap().heads, []);
}

#[test]
fn the_draft_is_replaced_and_ends_with_the_reply() {
    let place = Place::new();
    let id = place.session();
    let message = MessageId::new();
    for text in ["Hel", "Hello", "Hello wor"] {
        place.store.draft(id.clone(), message.clone(), text.into(), "hm".into()).detach();
    }
    place.store.flush().wait().unwrap();
    let draft = place.other().load(id.clone()).wait().unwrap().draft.unwrap();
    assert_eq!((draft.message, draft.text.as_str(), draft.thinking.as_str()), (message, "Hello wor", "hm"));
    // An entry that is no reply leaves it.
    place.store.append(id.clone(), vec![at(0, user("a"))]).wait().unwrap();
    assert!(place.store.load(id.clone()).wait().unwrap().draft.is_some());
    // A reply that cannot be kept leaves it too.
    assert!(place.store.append(id.clone(), vec![at(7, assistant("b"))]).wait().is_err());
    assert!(place.store.load(id.clone()).wait().unwrap().draft.is_some());
    place.store.append(id.clone(), vec![at(1, assistant("Hello world"))]).wait().unwrap();
    assert_eq!(place.store.load(id.clone()).wait().unwrap().draft, None);
    place.store.draft(id.clone(), MessageId::new(), "x".into(), String::new()).wait().unwrap();
    place.store.clear_draft(id.clone()).wait().unwrap();
    assert_eq!(place.store.load(id).wait().unwrap().draft, None);
}

#[test]
fn heads_keep_everything() {
    let place = Place::new();
    let mut head = SessionHead::new(SessionId::new(), place.root.path().join("gone"));
    head.roots = vec!["/a".into(), "/b c".into()];
    head.origin = Origin::Child;
    head.parent = Some(Parent { session: SessionId::new(), seq: 7 });
    head.meta = json!({ "client": "zed" });
    place.store.create(head.clone()).wait().unwrap();
    assert!(matches!(place.store.create(head.clone()).wait(), Err(StoreError::Exists(_))));
    head.title = Some("Fix „it“ 🙂".into());
    head.settings = Settings { mode: Mode::Plan, model: Some("a/b".into()), effort: Some("high".into()) };
    head.cwd = "/elsewhere".into();
    head.roots = vec!["/r".into()];
    head.meta = json!({ "client": "vim" });
    let id = head.id.clone();
    place.store.set_title(id.clone(), head.title.clone()).wait().unwrap();
    place.store.set_settings(id.clone(), head.settings.clone()).wait().unwrap();
    place.store.set_folders(id.clone(), head.cwd.clone(), head.roots.clone()).wait().unwrap();
    place.store.set_meta(id.clone(), head.meta.clone()).wait().unwrap();
    assert_eq!(place.other().head(id).wait().unwrap(), Some(head));
}

#[test]
fn a_fork_has_the_prefix_and_goes_its_own_way() {
    let place = Place::new();
    let id = place.session();
    let entries = conversation(0, 12);
    place.store.append(id.clone(), entries.clone()).wait().unwrap();
    // An entry of a newer version goes along.
    let future = r#"{"type":"hologram","x":1}"#;
    place
        .raw()
        .execute(
            "UPDATE entry SET json = ?1, sum = ?2 WHERE seq = 3",
            rusqlite::params![future, checksum(3, 1_003, future)],
        )
        .unwrap();
    let child = SessionHead {
        parent: Some(Parent { session: id.clone(), seq: 8 }),
        ..SessionHead::new(SessionId::new(), place.root.path().to_owned())
    };
    place.store.fork(id.clone(), Some(8), child.clone()).wait().unwrap();
    place.store.append(child.id.clone(), vec![at(8, user("another way"))]).wait().unwrap();
    assert!(place.store.delete(id).wait().unwrap());
    let loaded = place.store.load(child.id.clone()).wait().unwrap();
    assert_eq!(loaded.head.parent, child.parent);
    assert_eq!(loaded.damaged, [Gap { seq: 3, kind: GapKind::Unknown("hologram".into()) }]);
    let kept: Vec<_> = entries.into_iter().take(8).filter(|e| e.seq != 3).collect();
    assert_eq!(loaded.entries[..7], kept, "its blobs outlive the parent");
    assert_eq!(loaded.next, 9);
}

#[test]
fn grants_belong_to_the_canonical_folder() {
    let place = Place::new();
    let project = place.root.path().join("project");
    let link = place.root.path().join("link");
    fs::create_dir(&project).unwrap();
    std::os::unix::fs::symlink(&project, &link).unwrap();
    let test = Grant::Command { prefix: vec!["cargo".into(), "test".into()] };
    let store = &place.store;
    store.add_grant(link.clone(), test.clone()).wait().unwrap();
    store.add_grant(project.clone(), test.clone()).wait().unwrap();
    store.add_grant(project.clone(), Grant::Edits).wait().unwrap();
    store.add_grant("/other".into(), Grant::Host { name: "h".into() }).wait().unwrap();
    let mut grants = place.other().grants(link.clone()).wait().unwrap();
    grants.sort_by_key(|g| *g == test);
    assert_eq!(grants, [Grant::Edits, test.clone()]);
    assert_eq!(store.grants(place.root.path().to_owned()).wait().unwrap(), [], "not of a folder above");
    assert_eq!(store.all_grants().wait().unwrap().len(), 2);
    assert_eq!(store.revoke(link, Some(test.clone())).wait().unwrap(), 1);
    assert_eq!(store.revoke(project.clone(), Some(test)).wait().unwrap(), 0);
    assert_eq!(store.grants(project.clone()).wait().unwrap(), [Grant::Edits]);
    assert_eq!(store.revoke(project, None).wait().unwrap(), 1);
    // One that a newer version wrote grants nothing, and hides no other.
    place.raw().execute("INSERT INTO grant_ VALUES ('/other', '{\"type\":\"all\"}', 0)", []).unwrap();
    assert_eq!(store.grants("/other".into()).wait().unwrap(), [Grant::Host { name: "h".into() }]);
}

/// Whoever stops waiting for an answer does not undo the work.
#[tokio::test]
async fn a_dropped_reply_is_still_done() {
    let place = Place::new();
    let id = SessionId::new();
    place.store.create(SessionHead::new(id.clone(), "/w".into())).detach();
    drop(place.store.append(id.clone(), vec![at(0, user("a"))]));
    place.store.append(id.clone(), vec![at(1, user("b"))]).await.unwrap();
    assert_eq!(place.store.load(id).await.unwrap().next, 2);
}

#[test]
fn locks_are_for_one_at_a_time() {
    let place = Place::new();
    let id = place.session();
    let lock = place.store.lock(&id).unwrap();
    match place.other().lock(&id) {
        Err(LockError::Held { pid }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    place.store.lock(&SessionId::new()).unwrap();
    // The holder alone may write; reading is free.
    place.other().load(id.clone()).wait().unwrap();
    drop(lock);
    drop(place.other().lock(&id).unwrap());
    assert_eq!(fs::read_dir(place.dirs.locks()).unwrap().count(), 0, "no file stays behind");
}

/// Many at once: never two holders, and each gets its turn.
#[test]
fn a_lock_is_never_held_twice() {
    let place = Place::new();
    let path = place.dirs.locks().join("busy");
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut won = 0;
                while won < 100 {
                    let Ok(lock) = SessionLock::acquire(&path) else {
                        std::thread::yield_now();
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(lock);
                    won += 1;
                }
            });
        }
    });
}

#[test]
fn ids_never_leave_our_folders() {
    let place = Place::new();
    for id in ["../../etc", "a/b", "", ".", "..", "a\0b", &"x".repeat(300), "ü"] {
        let id = SessionId::from(id);
        let folder = place.store.spill_dir(&id);
        assert_eq!(folder.parent(), Some(&*place.dirs.sessions()), "{id}");
        assert!(folder.file_name().unwrap().to_str().unwrap().starts_with("x-"), "{id}");
        drop(place.store.lock(&id).unwrap());
    }
    let id = SessionId::new();
    assert_eq!(place.store.spill_dir(&id).file_name().unwrap().to_str(), Some(id.as_str()));
}
