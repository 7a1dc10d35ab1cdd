//! Damaged files: every intact entry is read, and nothing is ever destroyed.
use super::*;
use rusqlite::params;
use std::ops::Range;

/// A database of a few sessions, and the files of it as a killed process leaves them.
struct Image {
    sessions: Vec<(SessionId, Vec<Stored>)>,
    database: Vec<u8>,
    log: Vec<u8>,
}

const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;

/// `checkpointed`: all is in the database file; else all is in the log.
fn image(checkpointed: bool) -> Image {
    let place = Place::new();
    let mut sessions: Vec<(SessionId, Vec<Stored>)> = (0..2).map(|_| (place.session(), Vec::new())).collect();
    for round in 0..6 {
        for (id, all) in &mut sessions {
            let next = conversation(round * 4, 4);
            place.store.append(id.clone(), next.clone()).wait().unwrap();
            all.extend(next);
        }
    }
    if checkpointed {
        place.raw().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    }
    let log = fs::read(place.store.0.files.database.with_extension("db-wal")).unwrap_or_default();
    Image { sessions, database: fs::read(place.dirs.database()).unwrap(), log }
}

/// A store over these bytes.
fn place(database: &[u8], log: &[u8]) -> Place {
    let place = Place::new();
    fs::create_dir_all(&place.dirs.data).unwrap();
    fs::write(place.dirs.database(), database).unwrap();
    if !log.is_empty() {
        fs::write(place.dirs.database().with_extension("db-wal"), log).unwrap();
    }
    place
}

/// Loads a session; checks that what loads is what was written, that each loss before the last entry is told, and
/// returns how many were lost.
fn lost(place: &Place, (id, entries): &(SessionId, Vec<Stored>)) -> Result<usize, StoreError> {
    let loaded = place.store.load(id.clone()).wait()?;
    let mut gaps: Vec<u64> = loaded.damaged.iter().map(|g| g.seq).collect();
    let known: Vec<u64> = loaded.entries.iter().map(|e| e.seq).collect();
    for stored in &loaded.entries {
        assert_eq!(Some(stored), entries.get(stored.seq as usize));
    }
    gaps.extend(known);
    gaps.sort_unstable();
    assert_eq!(gaps, (0..loaded.next).collect::<Vec<_>>(), "each number is either read or told as lost");
    Ok(entries.len() - loaded.entries.len())
}

#[test]
fn a_log_cut_anywhere_leaves_a_prefix() {
    let image = image(false);
    let mut cuts: Vec<usize> = (0..).map(|i| 32 + i * FRAME).take_while(|c| *c < image.log.len()).collect();
    cuts.extend([0, 1, 31, 33, image.log.len() - 1, image.log.len() - PAGE, 32 + 20 * FRAME + 100]);
    cuts.sort_unstable();
    let mut before = usize::MAX;
    for cut in cuts {
        let place = place(&image.database, &image.log[..cut]);
        let mut sum = 0;
        for session in &image.sessions {
            sum += lost(&place, session).unwrap_or_else(|error| {
                assert!(matches!(error, StoreError::NotFound(_)), "cut at {cut}: {error}");
                session.1.len()
            });
            // What is there can be gone on with.
            if let Ok(loaded) = place.store.load(session.0.clone()).wait() {
                assert!(!loaded.salvaged && loaded.damaged.is_empty(), "cut at {cut}");
                place.store.append(session.0.clone(), vec![at(loaded.next, user("on"))]).wait().unwrap();
            }
        }
        assert!(sum <= before, "cut at {cut}: more of the log cannot be less");
        before = sum;
    }
    assert_eq!(lost(&place(&image.database, &image.log), &image.sessions[0]).unwrap(), 0);
    assert!(before < 12, "the last cut loses no more than the last transaction");
}

#[test]
fn zeros_at_the_end_of_a_file_harm_nothing() {
    let (in_log, in_file) = (image(false), image(true));
    for zeros in [1, 1206, PAGE, FRAME, 3 * PAGE + 5] {
        let append = |bytes: &[u8]| [bytes, &vec![0; zeros][..]].concat();
        for (image, place) in [
            (&in_log, place(&in_log.database, &append(&in_log.log))),
            (&in_file, place(&append(&in_file.database), b"")),
        ] {
            for session in &image.sessions {
                assert_eq!(lost(&place, session).unwrap(), 0, "{zeros} zeros");
                place.store.append(session.0.clone(), vec![at(24, user("on"))]).wait().unwrap();
                assert_eq!(place.store.load(session.0.clone()).wait().unwrap().next, 25);
            }
        }
    }
}

/// What a bad sector leaves.
fn rubbish(kind: usize) -> Vec<u8> {
    match kind {
        0 => vec![0; PAGE],
        1 => vec![0xff; PAGE],
        _ => (0..PAGE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
    }
}

#[test]
fn any_page_may_be_overwritten() {
    let image = image(true);
    let pages = image.database.len() / PAGE;
    assert!(pages > 20, "{pages}");
    let (mut whole, mut all) = (0, 0);
    for page in 0..pages {
        let range: Range<usize> = page * PAGE..(page + 1) * PAGE;
        let mut bytes = image.database.clone();
        bytes[range].copy_from_slice(&rubbish(page % 3));
        let place = place(&bytes, b"");
        let mut sum = 0;
        for session in &image.sessions {
            sum += lost(&place, session).unwrap_or_else(|e| panic!("page {page}: {e}"));
        }
        // A page has some dozens of entries; a blob is in at most two of each session.
        assert!(sum <= 60, "page {page}: {sum} lost");
        whole += usize::from(sum == 0);
        all += sum;
        let heads = place.store.heads(Filter::default()).wait().unwrap().heads;
        assert_eq!(heads.len(), 2, "page {page}");
        // Whether writing works or not: what was there stays.
        let id = &image.sessions[0].0;
        let next = place.store.load(id.clone()).wait().unwrap().next;
        if let Err(error) = place.store.append(id.clone(), vec![at(next, user("on"))]).wait() {
            let clear = matches!(error, StoreError::Damaged { .. } | StoreError::Foreign { .. });
            assert!(clear, "page {page}: {error}");
            assert_eq!(fs::read(place.dirs.database()).unwrap(), bytes, "page {page} was written to");
        }
    }
    assert!(whole * 3 > pages, "{whole} of {pages} pages hold no entries of their own");
    assert!(all > 0, "no entry was on any page");
}

#[test]
fn a_file_cut_at_any_page_loads_what_is_before() {
    let image = image(true);
    let pages = image.database.len() / PAGE;
    let mut before = usize::MAX;
    for keep in (0..=pages).step_by(3) {
        let place = place(&image.database[..keep * PAGE], b"");
        let sum: usize = image
            .sessions
            .iter()
            .map(|s| {
                lost(&place, s).unwrap_or_else(|error| {
                    let clear = matches!(
                        error,
                        StoreError::NotFound(_) | StoreError::Foreign { .. } | StoreError::Damaged { .. }
                    );
                    assert!(clear, "{keep} pages: {error}");
                    s.1.len()
                })
            })
            .sum();
        assert!(sum <= before, "{keep} pages");
        before = sum;
    }
    assert!(before < 20, "{before}");
}

/// A row or a long text that is no longer what was written is a gap, never a wrong word.
#[test]
fn a_changed_row_is_a_gap() {
    let place = Place::new();
    let id = place.session();
    let entries = conversation(0, 12);
    place.store.append(id.clone(), entries.clone()).wait().unwrap();
    let future = r#"{"type":"hologram","x":1}"#;
    let raw = place.raw();
    let edit = |sql: &str| assert!(raw.execute(sql, []).unwrap() > 0, "{sql}");
    edit("UPDATE entry SET json = replace(json, 'prompt 0', 'prompt 1') WHERE seq = 0");
    edit("UPDATE entry SET json = CAST(x'ff00fe' AS TEXT) WHERE seq = 1");
    edit("DELETE FROM entry WHERE seq IN (4, 5)");
    raw.execute(
        "UPDATE entry SET json = ?1, sum = ?2 WHERE seq = 7",
        params![future, checksum(7, 1_007, future)],
    )
    .unwrap();
    let blob = BlobId::of("line 8 of a file\n".repeat(200).replace("line 8", "line 10").as_bytes());
    let changed = raw
        .execute("UPDATE blob SET data = CAST(x'41' AS BLOB) WHERE hash = ?1", [&blob.bytes()[..]])
        .unwrap();
    assert_eq!(changed, 1);
    let loaded = place.store.load(id.clone()).wait().unwrap();
    let gap = |seq, kind| Gap { seq, kind };
    assert_eq!(
        loaded.damaged,
        [
            gap(0, GapKind::Damaged),
            gap(1, GapKind::Damaged),
            gap(4, GapKind::Missing),
            gap(5, GapKind::Missing),
            gap(6, GapKind::Damaged),
            gap(7, GapKind::Unknown("hologram".into())),
            gap(10, GapKind::Damaged),
        ]
    );
    let kept: Vec<_> = [2, 3, 8, 9, 11].map(|seq| entries[seq].clone()).into();
    assert_eq!((loaded.entries, loaded.next), (kept, 12));
    // It goes on, and loading twice changes nothing.
    place.store.append(id.clone(), vec![at(12, user("on"))]).wait().unwrap();
    assert_eq!(place.store.load(id.clone()).wait().unwrap().damaged, loaded.damaged);
    let row: String = raw.query_row("SELECT json FROM entry WHERE seq = 7", [], |r| r.get(0)).unwrap();
    assert_eq!(row, future, "what a newer version wrote stays");
    // Search goes round it.
    let words = Search { text: "answer".into(), ..Search::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(place.store.search(words)).unwrap().len(), 1);
}

/// Read from the raw pages, a database is what SQLite says it is: the log counts as far as it is whole.
#[test]
fn raw_pages_tell_the_same_as_sqlite() {
    let image = image(false);
    let rows = |conn: &rusqlite::Connection| -> Vec<(i64, i64, String)> {
        let sql = "SELECT session, seq, json FROM entry ORDER BY session, seq";
        let mut rows = conn.prepare(sql).unwrap();
        rows.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap().map(|r| r.unwrap()).collect()
    };
    let blobs = |conn: &rusqlite::Connection| -> i64 {
        conn.query_row("SELECT count(*) FROM blob", [], |r| r.get(0)).unwrap()
    };
    let frames = (image.log.len() - 32) / FRAME;
    for keep in [frames, frames - 1, frames * 2 / 3, frames / 2] {
        let mut log = image.log[..32 + keep * FRAME].to_vec();
        // What follows the cut is of an older round of the log, as SQLite leaves it.
        log.extend_from_slice(&image.log[32..32 + FRAME]);
        let place = place(&image.database, &log);
        let file = fs::File::open(place.dirs.database()).unwrap();
        let saved = salvage::rebuild(&place.dirs.database(), &file).unwrap();
        let real = place.raw();
        assert!(!rows(&real).is_empty());
        assert_eq!(rows(&saved), rows(&real), "{keep} of {frames} frames");
        assert_eq!(blobs(&saved), blobs(&real), "{keep} of {frames} frames");
    }
}

/// Rubbish is no row, and never a panic.
#[test]
fn rubbish_is_not_salvaged() {
    let image = image(true);
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("x.db");
    for seed in 0..40u32 {
        let mut bytes = image.database.clone();
        let mut random = seed.wrapping_mul(747_796_405).wrapping_add(1);
        for _ in 0..400 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let at = random as usize % bytes.len();
            bytes[at] = (random >> 9) as u8;
        }
        fs::write(&name, &bytes).unwrap();
        let saved = salvage::rebuild(&name, &fs::File::open(&name).unwrap()).unwrap();
        let known: Vec<(i64, i64)> = {
            let mut rows = saved.prepare("SELECT seq, at FROM entry").unwrap();
            rows.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap().map(|r| r.unwrap()).collect()
        };
        assert!(!known.is_empty() && known.len() <= 48, "{}", known.len());
        assert!(known.iter().all(|(seq, at)| seq + 1_000 == *at));
    }
}
