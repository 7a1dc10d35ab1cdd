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

/// A database of each released schema comes up to date with all it holds (`fixtures/db`).
#[test]
fn every_released_schema_migrates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/db");
    for version in 1..=migrate::VERSION {
        let dump = fs::read_to_string(folder.join(format!("v{version:04}.sql"))).unwrap();
        let place = Place::new();
        fs::create_dir_all(&place.dirs.data).unwrap();
        place.raw().execute_batch(&dump).unwrap();
        let found: i64 = place.raw().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
        assert_eq!(found, version, "the dump is of its version");
        let page = place.store.heads(Filter::default()).wait().unwrap();
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
