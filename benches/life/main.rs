//! What long sessions cost: `cargo bench --bench life`, or some of it: `-- append load size live huge exit`.
//!
//! Prints figures beside the goals; nothing is judged here, since a busy machine makes every time worse. `huge` writes
//! 3 GB to the folder for temporary files and removes them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints what it found"
)]
mod agent;

use agent::{Agent, Came, delta, model};
use hermes::{
    clock::Millis,
    config::DataDirs,
    id::{CallId, MessageId, SessionId},
    log::*,
    store::{SessionHead, Store},
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with('-')).collect();
    let all: [(&str, fn()); 6] =
        [("append", append), ("load", load), ("size", size), ("live", live), ("exit", exit), ("huge", huge)];
    for (name, run) in all {
        if words.is_empty() || words.iter().any(|w| w == name) {
            println!("== {name}");
            run();
        }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A home of its own in the folder for temporary files, removed when dropped.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::Builder::new().prefix("hermes-life").tempdir().unwrap());
        fs::create_dir_all(home.cwd()).unwrap();
        let config = home.path().join("config");
        fs::create_dir_all(&config).unwrap();
        let text = "mode = \"full\"\nsandbox.mode = \"off\"\nterminal.login_shell = false\n";
        fs::write(config.join("config.toml"), text).unwrap();
        home
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn cwd(&self) -> PathBuf {
        self.path().join("w")
    }
    fn dirs(&self) -> DataDirs {
        DataDirs::under(self.path())
    }
    fn store(&self) -> Store {
        Store::open(&self.dirs()).unwrap()
    }
    fn session(&self, store: &Store) -> SessionId {
        let id = SessionId::new();
        store.create(SessionHead::new(id.clone(), self.cwd())).wait().unwrap();
        id
    }
    /// Bytes of the database and its log.
    fn bytes(&self) -> u64 {
        let file = self.dirs().database();
        let log = PathBuf::from(format!("{}-wal", file.display()));
        [file, log].iter().filter_map(|f| fs::metadata(f).ok()).map(|m| m.len()).sum()
    }
}

fn user(text: String) -> Entry {
    Entry::User {
        id: MessageId::new(),
        parts: vec![Part::Text { text }],
        state: PromptState::Sent,
        volatile: None,
    }
}

fn said(blocks: Vec<Block>) -> Entry {
    let usage = Some(Usage { input: 1_000, output: 100, ..Usage::default() });
    Entry::Assistant {
        id: MessageId::new(),
        blocks,
        interrupted: false,
        model: "openai/scripted".into(),
        usage,
    }
}

fn ended() -> Entry {
    let (stop, tools) = ("end_turn".into(), Default::default());
    Entry::Ended { stop, requests: 1, usage: Usage::default(), detail: None, tools }
}

/// Words that compress as badly as prose, so many bytes of them.
fn prose(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "parser", "the", "token", "of", "returns", "a", "buffer", "when", "line", "is", "none", "let",
        "field", "match", "error", "and",
    ];
    let (mut state, mut out) =
        (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, String::with_capacity(bytes + 8));
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.push_str(WORDS[state as usize % 16]);
        out.push(if state >> 32 & 15 == 0 { '\n' } else { ' ' });
    }
    out
}

/// One turn as it is kept: a prompt, a read, an edit with its diff, a last word.
fn turn(n: u64) -> Vec<Entry> {
    let file = |version| format!("{}\n// version {version}\n", prose(n / 20, 3_000));
    let call = |name: &str, args: String| {
        let id = CallId::new();
        (
            id.clone(),
            Block::Call(Call { provider_id: id.to_string(), id, name: name.into(), args, native: None }),
        )
    };
    let result = |call, title: &str, text: String, shown| Entry::Result {
        call,
        outcome: Outcome::Ok,
        text,
        images: vec![],
        card: Card { title: title.into(), kind: ToolKind::Edit, shown, ..Card::default() },
    };
    let (read, read_call) = call("read", r#"{"path":"src/parser.rs"}"#.into());
    let (edit, edit_call) = call(
        "edit",
        json!({"path": "src/parser.rs", "old_string": prose(n, 200), "new_string": prose(n + 1, 200)})
            .to_string(),
    );
    let diff = || {
        vec![Shown::Diff {
            path: "/w/src/parser.rs".into(),
            old: Some(file(n).into()),
            new: file(n + 1).into(),
        }]
    };
    let card =
        Card { title: "Edit src/parser.rs".into(), kind: ToolKind::Edit, shown: diff(), ..Card::default() };
    vec![
        user(prose(n, 120)),
        said(vec![Block::Thinking { id: MessageId::new(), text: prose(n, 300), native: None }, read_call]),
        result(read, "Read src/parser.rs", file(n), vec![Shown::Text { text: file(n) }]),
        said(vec![Block::Text { text: prose(n, 80) }, edit_call]),
        Entry::Began { call: edit.clone(), plan: vec![], card: Some(Box::new(card)) },
        result(edit, "Edit src/parser.rs", prose(n, 150), diff()),
        said(vec![Block::Text { text: prose(n + 7, 600) }]),
        ended(),
    ]
}

fn fill(store: &Store, id: &SessionId, entries: impl Iterator<Item = Entry>) -> u64 {
    let mut next = 0;
    let mut batch = Vec::new();
    let mut all = entries.peekable();
    while let Some(entry) = all.next() {
        batch.push(Stored { seq: next, at: Millis(1_700_000_000_000 + next as i64), entry });
        next += 1;
        if batch.len() == 50 || all.peek().is_none() {
            store.append(id.clone(), std::mem::take(&mut batch)).wait().unwrap();
        }
    }
    next
}

struct Spread(Vec<Duration>);

impl Spread {
    fn at(&mut self, part: f64) -> Duration {
        self.0.sort_unstable();
        self.0[((self.0.len() - 1) as f64 * part) as usize]
    }
    fn tell(&mut self, name: &str) {
        let us = |d: Duration| format!("{:.1}", d.as_secs_f64() * 1e6);
        println!(
            "  {name:<26} p50 {:>7} µs  p90 {:>7}  p99 {:>7}  p99.9 {:>8}  max {:>8}",
            us(self.at(0.5)),
            us(self.at(0.9)),
            us(self.at(0.99)),
            us(self.at(0.999)),
            us(self.at(1.0))
        );
    }
}

/// Goal: 0.1 ms at the 99th percentile; bare SQLite, in turns with it, says what the machine gives.
fn append() {
    let (home, bare_home) = (Home::new(), Home::new());
    let store = home.store();
    let id = home.session(&store);
    let bare = rusqlite::Connection::open(bare_home.path().join("bare.db")).unwrap();
    bare.execute_batch(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER, seq INTEGER, at INTEGER, sum INTEGER, json TEXT,
         UNIQUE (session, seq)) STRICT",
    )
    .unwrap();
    let (mut ours, mut theirs, mut hops) = (Spread(vec![]), Spread(vec![]), Spread(vec![]));
    for (seq, entry) in (0..).zip((0..1_500).flat_map(turn)) {
        let json = serde_json::to_string(&entry).unwrap();
        let json = &json[..json.len().min(900)];
        let start = Instant::now();
        store.append(id.clone(), vec![Stored { seq, at: Millis(seq as i64), entry }]).wait().unwrap();
        ours.0.push(start.elapsed());
        let start = Instant::now();
        store.flush().wait().unwrap();
        hops.0.push(start.elapsed());
        let start = Instant::now();
        let mut insert = bare
            .prepare_cached("INSERT INTO entry (session, seq, at, sum, json) VALUES (1, ?1, ?1, ?1, ?2)")
            .unwrap();
        insert.execute(rusqlite::params![seq as i64, json]).unwrap();
        theirs.0.push(start.elapsed());
        if seq % 2_000 == 1_999 {
            bare.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        }
    }
    ours.tell("append, with the answer");
    theirs.tell("bare SQLite, one row");
    hops.tell("to the thread and back");
    let ratio = ours.at(0.99).as_secs_f64() / theirs.at(0.99).as_secs_f64();
    println!("  goal: p99 ≤ 100 µs; ratio of the p99 to bare SQLite {ratio:.1}");
}

fn median(mut runs: Vec<Came>) -> (Came, Duration, Duration) {
    runs.sort_by_key(|c| c.wall);
    let best = runs[0].wall;
    let mut cpu: Vec<Duration> = runs.iter().map(|c| c.cpu).collect();
    cpu.sort();
    let middle = runs.len() / 2;
    let cpu = cpu[middle];
    (runs.swap_remove(middle), best, cpu)
}

fn loads(name: &str, goal: &str, home: &Home, id: &SessionId) {
    let (mut runs, mut more) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let mut agent = Agent::start(home.path(), "http://127.0.0.1:9/v1");
        agent.open(&home.cwd());
        let before = agent.memory();
        runs.push(agent.load(id.as_str(), &home.cwd()));
        more.push(agent.memory().saturating_sub(before));
        agent.end();
    }
    more.sort_unstable();
    let (came, best, cpu) = median(runs);
    println!(
        "  {name}: {} updates, {} KiB; wall {} (best {}), CPU {}, {:.1} MiB more; goal {goal}",
        came.updates,
        came.bytes / 1024,
        ms(came.wall),
        ms(best),
        ms(cpu),
        more[more.len() / 2] as f64 / 1024.0
    );
}

fn load() {
    let home = Home::new();
    let store = home.store();
    let talk =
        |n: u64| vec![user(format!("bench {n}")), said(vec![Block::Text { text: prose(n, 200) }]), ended()];
    let plain = home.session(&store);
    fill(&store, &plain, (0..200).flat_map(talk));
    let work = home.session(&store);
    fill(&store, &work, (0..200).flat_map(turn));
    let talk_long = home.session(&store);
    fill(&store, &talk_long, (0..3_334).flat_map(talk).take(10_000));
    let long = home.session(&store);
    fill(&store, &long, (0..1_250).flat_map(turn));
    drop(store);
    loads("200 turns of talk", "≤ 30 ms wall, ≤ 15 ms CPU", &home, &plain);
    loads("200 turns of work", "the same", &home, &work);
    loads("10,000 entries of talk", "≤ 300 ms, ≤ 20 MiB", &home, &talk_long);
    loads("10,000 entries of work", "≤ 300 ms, ≤ 20 MiB", &home, &long);
}

/// What a model says that works: a read, an edit, a command, a last word; by how many messages it was sent.
fn worker(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let turns = messages.iter().filter(|m| m["role"] == "user").count();
    let since =
        messages.iter().rev().take_while(|m| m["role"] != "user").filter(|m| m["role"] == "tool").count();
    let file = format!("src/part{}.rs", turns % 12);
    let call = |name: &str, args: Value| {
        vec![
            delta(json!({"content": prose(turns as u64, 60)}), None),
            delta(
                json!({"tool_calls": [{"index": 0, "id": format!("c{turns}-{since}"), "type": "function",
                    "function": {"name": name, "arguments": args.to_string()}}]}),
                Some("tool_calls"),
            ),
        ]
    };
    match since {
        0 => call("read", json!({"path": file})),
        1 => call(
            "edit",
            json!({"path": file, "old_string": format!("// turn {}\n", (turns - 1) / 12),
            "new_string": format!("// turn {}\n", (turns - 1) / 12 + 1)}),
        ),
        2 => call(
            "terminal",
            json!({"command": format!("wc {file} && echo {} >> log.txt", prose(turns as u64, 300).replace('\n', " "))}),
        ),
        _ => vec![delta(json!({"content": prose(turns as u64 + 99, 700)}), Some("stop"))],
    }
}

/// A session that the program itself made: its folder has twelve files of 12 KB, edited again and again.
fn worked(home: &Home, turns: usize) -> SessionId {
    fs::create_dir_all(home.cwd().join("src")).unwrap();
    for n in 0..12 {
        fs::write(
            home.cwd().join(format!("src/part{n}.rs")),
            format!("{}\n// turn 0\n", prose(n + 1_000, 12_000)),
        )
        .unwrap();
    }
    let mut agent = Agent::start(home.path(), &model(worker));
    let id = agent.open(&home.cwd());
    for n in 0..turns {
        agent.prompt(&format!("Go on with part {n}"));
    }
    agent.end();
    id.as_str().into()
}

/// Each distinct text of the entries.
fn texts(value: &Value, out: &mut HashSet<String>) {
    match value {
        Value::String(text) => _ = out.insert(text.clone()),
        Value::Array(items) => items.iter().for_each(|v| texts(v, out)),
        Value::Object(fields) => fields.values().for_each(|v| texts(v, out)),
        _ => {}
    }
}

/// Goal: 1.5 times the distinct bytes shown, sent and snapshotted.
fn size() {
    let home = Home::new();
    let id = worked(&home, 200);
    let store = home.store();
    let loaded = store.load(id).wait().unwrap();
    let mut distinct = HashSet::new();
    let mut snapshots = HashSet::new();
    for stored in &loaded.entries {
        texts(&serde_json::to_value(&stored.entry).unwrap(), &mut distinct);
        if let Entry::Touched { files, .. } = &stored.entry {
            for state in files.iter().flat_map(|f| [&f.before, &f.after]) {
                if let FileState::Content { bytes, .. } = state {
                    snapshots.insert(bytes.clone());
                }
            }
        }
    }
    let mut kept = 0;
    for snapshot in snapshots.iter().filter_map(|s| hermes::store::BlobId::parse(s)) {
        let bytes = store.get_blob(snapshot).wait().unwrap().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        kept += usize::from(distinct.insert(text));
    }
    let sum: usize = distinct.iter().map(String::len).sum();
    let entries = loaded.entries.len();
    drop(store);
    println!(
        "  200 turns of read, edit, command: {entries} entries, {} distinct texts ({kept} of them snapshots alone), {} KiB",
        distinct.len(),
        sum / 1024
    );
    let bytes = home.bytes();
    println!("  files {} KiB: {:.2} times that; goal 1.5", bytes / 1024, bytes as f64 / sum as f64);
}

/// Goal: 0.3 MiB for each of 20 sessions.
fn live() {
    let home = Home::new();
    let mut agent =
        Agent::start(home.path(), &model(|_| vec![delta(json!({"content": "Done."}), Some("stop"))]));
    agent.open(&home.cwd());
    agent.prompt("Hello");
    let before = agent.memory();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(agent.open(&home.cwd()));
    }
    let opened = agent.memory();
    for id in ids {
        agent.session = id;
        agent.prompt("Hello");
    }
    let used = agent.memory();
    agent.end();
    println!(
        "  each of 20 sessions: {} KiB opened, {} KiB after a turn; goal 307",
        (opened.saturating_sub(before)) / 20,
        (used.saturating_sub(before)) / 20
    );
}

/// Goal: 50 ms from the end of input to the end of the process, everything in one file.
fn exit() {
    let home = Home::new();
    worked(&home, 20);
    let (mut times, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let mut agent = Agent::start(home.path(), &model(worker));
        agent.open(&home.cwd());
        agent.prompt("Once more");
        times.push(agent.end());
        let log = format!("{}-wal", home.dirs().database().display());
        logs.push(fs::metadata(log).map_or(0, |m| m.len() / 1024));
    }
    times.sort();
    println!(
        "  end of input to exit: median {}, worst {}; write-ahead log left {logs:?} KiB",
        ms(times[4]),
        ms(times[8])
    );
}

/// Goal: a 3 GB database lists in 50 ms.
fn huge() {
    let home = Home::new();
    let store = home.store();
    let mut one = None;
    for n in 0..3_000u64 {
        let id = home.session(&store);
        store.set_title(id.clone(), Some(format!("Session {n}"))).detach();
        let big = |k: u64| {
            let text = prose(n * 1_000 + k, 10_000);
            let card = Card {
                title: "Read".into(),
                shown: vec![Shown::Text { text: text.clone() }],
                ..Card::default()
            };
            Entry::Result { call: CallId::new(), outcome: Outcome::Ok, text, images: vec![], card }
        };
        let entries = (0..100).flat_map(|k| {
            if k % 2 == 0 {
                vec![user(format!("prompt {k}")), big(k)]
            } else {
                vec![said(vec![Block::Text { text: prose(k, 500) }]), big(k)]
            }
        });
        fill(&store, &id, entries);
        one = (n == 1_500).then_some(id).or(one);
    }
    store.flush().wait().unwrap();
    drop(store);
    println!("  files {:.2} GiB, 3,000 sessions", home.bytes() as f64 / (1u64 << 30) as f64);
    let (mut first, mut again, mut elsewhere, mut loaded) = (vec![], vec![], vec![], vec![]);
    for _ in 0..7 {
        let mut agent = Agent::start(home.path(), "http://127.0.0.1:9/v1");
        first.push(agent.call("session/list", json!({})));
        again.push(agent.call("session/list", json!({"cwd": home.cwd()})));
        elsewhere.push(agent.call("session/list", json!({"cwd": "/"})));
        loaded.push(agent.load(one.as_ref().unwrap().as_str(), &home.cwd()));
        agent.end();
    }
    for (name, runs) in [
        ("list, first call", first),
        ("list of the folder", again),
        ("list of another", elsewhere),
        ("load of 200 entries", loaded),
    ] {
        let (came, best, cpu) = median(runs);
        println!("  {name}: wall {} (best {}), CPU {}", ms(came.wall), ms(best), ms(cpu));
    }
}
