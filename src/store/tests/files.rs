//! Files of others, of newer versions, and how ours look.
use super::*;
use std::os::unix::fs::PermissionsExt;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn opening_touches_nothing_before_the_first_call() {
    let place = Place::new();
    assert!(!place.dirs.data.exists());
    place.store.check().wait().unwrap();
    assert_eq!((mode(&place.dirs.data), mode(&place.dirs.database())), (0o700, 0o600));
    let id = place.session();
    assert_eq!(mode(&place.dirs.database().with_extension("db-wal")), 0o600);
    drop(place.store.lock(&id).unwrap());
    assert_eq!(mode(&place.dirs.locks()), 0o700);
    assert!(!place.store.spill_dir(&id).exists());
}

/// Reading first makes the database too.
#[test]
fn a_list_of_nothing_is_empty() {
    let place = Place::new();
    assert_eq!(place.store.heads(Filter::default()).wait().unwrap(), Page::default());
    assert!(matches!(place.store.load(SessionId::new()).wait(), Err(StoreError::NotFound(_))));
}

fn refused(bytes: &[u8], expected: impl Fn(&StoreError) -> bool) {
    let place = Place::new();
    fs::create_dir_all(&place.dirs.data).unwrap();
    fs::write(place.dirs.database(), bytes).unwrap();
    let errors = [
        place.store.create(SessionHead::new(SessionId::new(), "/w".into())).wait().unwrap_err(),
        place.store.heads(Filter::default()).wait().unwrap_err(),
        place.store.load(SessionId::new()).wait().unwrap_err(),
    ];
    for error in errors {
        assert!(expected(&error), "{error}");
        assert!(error.to_string().contains("sessions.db"), "names the file: {error}");
    }
    assert_eq!(fs::read(place.dirs.database()).unwrap(), bytes, "left as it was");
}

#[test]
fn files_of_others_are_left_alone() {
    refused(b"dear diary\n", |e| matches!(e, StoreError::Foreign { .. }));
    refused(&[7; 10_000], |e| matches!(e, StoreError::Foreign { .. }));
    let folder = tempfile::tempdir().unwrap();
    let other = |sql: &str| {
        let file = folder.path().join("other.db");
        let _ = fs::remove_file(&file);
        rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        fs::read(&file).unwrap()
    };
    refused(&other("CREATE TABLE t (x)"), |e| matches!(e, StoreError::Foreign { .. }));
    refused(&other("PRAGMA application_id = 5; CREATE TABLE t (x)"), |e| {
        matches!(e, StoreError::Foreign { .. })
    });
    refused(&other("PRAGMA user_version = 1; CREATE TABLE t (x)"), |e| {
        matches!(e, StoreError::Foreign { .. })
    });
}

#[test]
fn a_newer_database_is_left_to_newer_programs() {
    let place = Place::new();
    let id = place.session();
    place.raw().execute_batch("PRAGMA user_version = 99").unwrap();
    let other = place.other();
    let newer = |e: StoreError| {
        assert!(matches!(e, StoreError::Newer { found: 99, known: migrate::VERSION, .. }), "{e}");
        assert!(e.to_string().contains("update hermes-editor"), "{e}");
    };
    newer(other.load(id.clone()).wait().unwrap_err());
    newer(other.append(id, vec![at(0, user("a"))]).wait().unwrap_err());
}

/// Each table and index, with the columns of the tables.
fn shape(conn: &rusqlite::Connection) -> Vec<(String, Vec<String>)> {
    let all = |sql: &str| -> Vec<String> {
        let mut rows = conn.prepare(sql).unwrap();
        rows.query_map([], |r| r.get(0)).unwrap().map(|r| r.unwrap()).collect()
    };
    let columns = |name: &String| {
        all(&format!("SELECT cid || ' ' || name || ' ' || type || pk FROM pragma_table_xinfo('{name}')"))
    };
    let names = all("SELECT name FROM sqlite_schema ORDER BY name");
    names.into_iter().map(|name| (name.clone(), columns(&name))).collect()
}

/// A database of each released schema comes up to date with all it holds (`fixtures/db`).
#[test]
fn every_released_schema_migrates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/db");
    let new = Place::new();
    new.store.check().wait().unwrap();
    let new = shape(&new.raw());
    assert!(new.len() > 10);
    for version in 1..=migrate::VERSION {
        let dump = fs::read_to_string(folder.join(format!("v{version:04}.sql"))).unwrap();
        let place = Place::new();
        fs::create_dir_all(&place.dirs.data).unwrap();
        place.raw().execute_batch(&dump).unwrap();
        let found: i64 = place.raw().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
        assert_eq!(found, version, "the dump is of its version");
        let page = place.store.heads(Filter::default()).wait().unwrap();
        place.store.check().wait().unwrap();
        assert_eq!(shape(&place.raw()), new, "version {version} comes to be as a new one");
        assert_eq!(page.heads.len(), 1);
        let head = &page.heads[0];
        assert_eq!((head.title.as_deref(), &*head.cwd), (Some("Fix the parser"), Path::new("/w/project")));
        assert_eq!(head.settings.mode, crate::log::Mode::AcceptEdits);
        let loaded = place.store.load(head.id.clone()).wait().unwrap();
        assert_eq!((loaded.entries.len(), &loaded.damaged[..], loaded.next), (4, &[][..], 4));
        let Entry::Result { text, .. } = &loaded.entries[2].entry else { panic!("{:?}", loaded.entries[2]) };
        assert_eq!(text.len(), 1_400, "a long text came back from its blob");
        assert_eq!(loaded.draft.unwrap().text, "So far");
        assert_eq!(place.store.grants("/w/project".into()).wait().unwrap(), [Grant::Edits]);
        place.store.append(head.id.clone(), vec![at(4, user("on"))]).wait().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let search = Search { text: "tokenizer".into(), ..Search::default() };
        assert_eq!(runtime.block_on(place.store.search(search)).unwrap().len(), 1);
    }
}

/// Two processes on one database: both write, neither loses a row.
#[test]
fn two_processes_share_a_database() {
    let place = Place::new();
    let stores = [place.store.clone(), place.other()];
    let ids: Vec<SessionId> = std::thread::scope(|scope| {
        let both: Vec<_> = stores
            .iter()
            .map(|store| {
                scope.spawn(move || {
                    let id = SessionId::new();
                    store.create(SessionHead::new(id.clone(), "/w".into())).wait().unwrap();
                    for seq in 0..200 {
                        store.append(id.clone(), vec![at(seq, user("a"))]).wait().unwrap();
                    }
                    id
                })
            })
            .collect();
        both.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for store in &stores {
        for id in &ids {
            assert_eq!(store.load(id.clone()).wait().unwrap().entries.len(), 200);
        }
    }
    // On one session: the second to append is told, and nothing is overwritten.
    place.store.append(ids[0].clone(), vec![at(200, user("first"))]).wait().unwrap();
    let second = stores[1].append(ids[0].clone(), vec![at(200, user("second"))]).wait();
    assert!(matches!(second, Err(StoreError::Sequence { expected: 201, got: 200, .. })));
}

/// Several processes that start at once on no database: one makes it, all use it.
#[test]
fn many_may_start_at_once() {
    for _ in 0..10 {
        let place = Place::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let store = place.other();
                scope.spawn(move || {
                    store.create(SessionHead::new(SessionId::new(), "/w".into())).wait().unwrap();
                });
            }
        });
        let all = Filter { empty: true, ..Filter::default() };
        assert_eq!(place.store.heads(all).wait().unwrap().heads.len(), 4);
    }
}

/// A full disk (here: a bound of pages) is told, and what was there stays.
#[test]
fn a_full_disk_is_told() {
    let place = Place::new();
    let id = place.session();
    place.store.append(id.clone(), vec![at(0, user("a"))]).wait().unwrap();
    place.store.writing(|cx| cx.one("PRAGMA max_page_count = 40", [], |_| Ok(())).map(drop)).wait().unwrap();
    let big = |seq: u64| vec![at(seq, result(&format!("{seq} ").repeat(100_000), Vec::new()))];
    let replies = [place.store.append(id.clone(), big(1)), place.store.append(id.clone(), big(2))];
    for reply in replies {
        let error = reply.wait().unwrap_err();
        assert!(matches!(error, StoreError::Full { .. } | StoreError::Sequence { .. }), "{error}");
    }
    place.store.append(id.clone(), vec![at(1, user("short"))]).wait().unwrap();
    assert_eq!(place.store.load(id).wait().unwrap().entries.len(), 2);
}

fn log_bytes(place: &Place) -> u64 {
    fs::metadata(place.dirs.database().with_extension("db-wal")).map_or(0, |about| about.len())
}

/// At the end all is in one file, also what is read again afterwards; another process is not in the way.
#[test]
fn closing_leaves_one_file() {
    let place = Place::new();
    let id = place.session();
    let entries = conversation(0, 40);
    place.store.append(id.clone(), entries.clone()).wait().unwrap();
    assert_eq!(place.store.load(id.clone()).wait().unwrap().entries, entries);
    assert!(log_bytes(&place) > 0);
    place.store.close().wait().unwrap();
    assert_eq!(log_bytes(&place), 0);
    let copy = Place::new();
    fs::create_dir_all(&copy.dirs.data).unwrap();
    fs::copy(place.dirs.database(), copy.dirs.database()).unwrap();
    assert_eq!(copy.store.load(id.clone()).wait().unwrap().entries, entries);
    // Where another one has it open, it is that one's to tidy.
    place.store.append(id.clone(), vec![at(40, user("on"))]).wait().unwrap();
    let other = place.other();
    other.append(id.clone(), vec![at(41, user("on"))]).wait().unwrap();
    place.store.close().wait().unwrap();
    other.append(id.clone(), vec![at(42, user("on"))]).wait().unwrap();
    other.close().wait().unwrap();
    assert_eq!(log_bytes(&place), 0);
    assert_eq!(place.store.load(id).wait().unwrap().next, 43);
}

/// A long log goes into the database while it is written to, and every entry stays.
#[test]
fn a_long_log_is_moved_beside_the_appends() {
    let place = Place::new();
    let id = place.session();
    let mut next = 0;
    // What is queued while a piece is moved is written; the last piece needs nobody.
    for round in 0..6u64 {
        let long = |k: u64| result(&format!("{round} {k} ").repeat(4_000), Vec::new());
        let entries: Vec<_> = (0..60).map(|k| at(next + k, long(k))).collect();
        next += 60;
        place.store.append(id.clone(), entries).wait().unwrap();
        assert!(fs::metadata(place.dirs.database()).unwrap().len() < (round + 2) * (4 << 20));
    }
    place.store.close().wait().unwrap();
    let loaded = place.other().load(id).wait().unwrap();
    assert_eq!((loaded.next, loaded.damaged.len(), loaded.salvaged), (next, 0, false));
}

/// The folder is removed under a process that has it open: nothing goes on into a file that nobody finds.
#[test]
fn a_database_that_was_removed_is_noticed() {
    let place = Place::new();
    let id = place.session();
    place.store.append(id.clone(), vec![at(0, user("a"))]).wait().unwrap();
    place.store.load(id.clone()).wait().unwrap();
    let away = place.root.path().join("away");
    fs::rename(&place.dirs.data, &away).unwrap();
    let error = place.store.append(id.clone(), vec![at(1, user("b"))]).wait().unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    assert!(matches!(place.store.load(id.clone()).wait(), Err(StoreError::NotFound(_))));
    // New sessions are kept, in the file of that name.
    let new = place.session();
    place.store.append(new.clone(), vec![at(0, user("c"))]).wait().unwrap();
    assert_eq!(place.other().load(new).wait().unwrap().next, 1);
    // Put back, it is used again.
    fs::remove_dir_all(&place.dirs.data).unwrap();
    fs::rename(&away, &place.dirs.data).unwrap();
    place.store.append(id.clone(), vec![at(1, user("b"))]).wait().unwrap();
    assert_eq!(place.store.load(id.clone()).wait().unwrap().next, 2);
    assert_eq!(place.other().load(id).wait().unwrap().next, 2);
}

#[test]
fn what_was_learned_of_models_is_believed_for_a_week() {
    let place = Place::new();
    place.store.set_window("a/b".into(), 9_000).wait().unwrap();
    place.store.set_window("a/b".into(), 8_000).wait().unwrap();
    place.store.set_window("a/c".into(), u64::MAX).wait().unwrap();
    let windows = place.other().windows().wait().unwrap();
    assert_eq!(windows, [("a/b".to_owned(), 8_000), ("a/c".to_owned(), i64::MAX as u64)]);
    place.raw().execute("UPDATE model_window SET at = at - 8 * 86400000 WHERE model = 'a/b'", []).unwrap();
    assert_eq!(place.store.windows().wait().unwrap().len(), 1);
}

/// Where the file cannot be written, sessions still load.
#[test]
fn a_read_only_database_is_read() {
    let place = Place::new();
    let id = place.session();
    place.store.append(id.clone(), conversation(0, 8)).wait().unwrap();
    place.raw().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    // As root every file can be written, so the reading side is opened as it is where the writing side failed.
    let conn = migrate::open_reader(&place.dirs.database()).unwrap();
    let cx = Cx { conn: &conn, files: &place.store.0.files, salvaged: false };
    assert_eq!(cx.load(&id).unwrap().entries.len(), 8);
    let error = cx.append(&id, &[at(8, user("a"))]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert!(error.leaves_reading());
    if rustix::process::geteuid().is_root() {
        return;
    }
    fs::set_permissions(place.dirs.database(), fs::Permissions::from_mode(0o400)).unwrap();
    let other = place.other();
    assert_eq!(other.load(id.clone()).wait().unwrap().entries.len(), 8);
    let error = other.append(id, vec![at(8, user("a"))]).wait().unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}
