//! `kill -9` of a real process: what it was told to be kept is there (I19).
use super::*;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

/// Names the folder for the child; set by the test below alone.
const HOME: &str = "HERMES_STORE_TEST_CHILD";
const ID: &str = "s_kill";

/// Not a test of its own: the process that is killed. It says each number once its entry is kept.
#[test]
fn child() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let store = Store::open(&DataDirs::under(Path::new(&home))).unwrap();
    let id = SessionId::from(ID);
    let first = match store.load(id.clone()).wait() {
        Ok(loaded) => loaded.next,
        Err(_) => {
            store.create(SessionHead::new(id.clone(), "/w".into())).wait().unwrap();
            0
        }
    };
    let _lock = store.lock(&id).unwrap();
    let mut out = fs::OpenOptions::new().append(true).open("/dev/stderr").unwrap();
    for stored in conversation(first - first % 4, 100_000).into_iter().skip((first % 4) as usize) {
        store.draft(id.clone(), MessageId::new(), format!("draft {}", stored.seq), String::new()).detach();
        let seq = stored.seq;
        store.append(id.clone(), vec![stored]).wait().unwrap();
        writeln!(out, "kept {seq}").unwrap();
    }
}

#[test]
fn what_was_kept_survives_kill_9() {
    let place = Place::new();
    let home = place.root.path().join("home");
    let id = SessionId::from(ID);
    let mut kept = 0;
    for round in 1..=4usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::kill::child", "--nocapture"])
            .env(HOME, &home)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut told = lines.filter_map(|l| l.strip_prefix("kept ").map(|n| n.parse::<u64>().unwrap()));
        let last = told.by_ref().nth(round * 7).expect("the child says what it kept");
        assert!(matches!(place.store.lock(&id), Err(LockError::Held { .. })), "its lock is held");
        child.kill().unwrap();
        // What it still said before it died counts too.
        let last = told.last().unwrap_or(last);
        child.wait().unwrap();
        let loaded = place.other().load(id.clone()).wait().unwrap();
        assert!(loaded.damaged.is_empty() && !loaded.salvaged);
        assert!(loaded.next > last, "{} entries, but {last} was kept", loaded.next);
        assert!(loaded.entries.iter().map(|e| e.seq).eq(0..loaded.next));
        assert!(loaded.next > kept);
        kept = loaded.next;
        drop(place.store.lock(&id).expect("its lock ended with it"));
    }
}
