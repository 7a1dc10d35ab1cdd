//! Runs `fixtures/tools/<tool>/*.calls`: a workspace, calls, and what each call gives. `UPDATE=1` writes what they give.
//!
//! A file is a line that says what it proves, then sections, each a `== ` line with a body:
//!
//! - `file PATH` — puts a file on disk. With `escaped` after the path the lines of the body are joined as they stand, and `\r`, `\n`,
//!   `\t`, `\\` and `\xNN` are bytes in it; else each line ends with LF.
//! - `unsaved PATH` — the editor has this text of the file, not saved.
//! - `read PATH` — the model has read it.
//! - `format` — from here on the editor turns tabs into two spaces when it saves.
//! - `call TOOL` — the arguments, as JSON.
//! - `gives` — the title, the planned effects, how the call ended, what the model reads, and each file it changed, escaped.
use super::{ToolError, Tools, builtin, fake::Fake};
use crate::{
    effects::{Change, Effects},
    log::CallIdent,
    workspace::Reader,
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

struct Section {
    head: String,
    body: String,
}

#[tokio::test]
async fn every_call_gives_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools");
    let update = std::env::var_os("UPDATE").is_some();
    let tools = builtin();
    let mut wrong = Vec::new();
    for tool in &tools {
        let files = call_files(&folder.join(tool.name()));
        assert!(!files.is_empty(), "no `.calls` in fixtures/tools/{}", tool.name());
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            let now = run(&text, &tools).await;
            if now != text && update {
                fs::write(&path, &now).unwrap();
            } else if now != text {
                let diff = similar::TextDiff::from_lines(&text, &now).unified_diff().to_string();
                wrong.push(format!("{}\n{diff}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n(UPDATE=1 writes what they give)", wrong.join("\n"));
}

fn call_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "calls"));
    files.sort();
    files
}

/// The file as it would have to be to pass.
async fn run(file: &str, tools: &Tools) -> String {
    let (proves, rest) = file.split_once("\n== ").expect("a file has sections");
    let mut out = format!("{proves}\n");
    let ws = Fake::new();
    for section in rest.split("\n== ") {
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        let section = Section { head: head.to_owned(), body: body.trim_end_matches('\n').to_owned() };
        let mut words = section.head.split(' ');
        match (words.next().unwrap(), words.next()) {
            ("gives", _) => continue,
            ("call", Some(tool)) => {
                write_section(&mut out, &section);
                let gives = call(&ws, tools, tool, &section.body).await;
                write_section(&mut out, &Section { head: "gives".into(), body: gives });
                continue;
            }
            ("file", Some(path)) if section.head.ends_with(" escaped") => {
                ws.file(path, unescape(&section.body));
            }
            ("file", Some(path)) if section.body.is_empty() => drop(ws.file(path, "")),
            ("file", Some(path)) => drop(ws.file(path, format!("{}\n", section.body))),
            ("unsaved", Some(path)) => {
                ws.buffers.lock().unwrap().insert(ws.root().join(path), format!("{}\n", section.body));
            }
            ("read", Some(path)) => drop(ws.seen(path)),
            ("format", None) => *ws.formatter.lock().unwrap() = Some(|text| text.replace('\t', "  ")),
            other => panic!("unknown section {other:?}"),
        }
        write_section(&mut out, &section);
    }
    out
}

fn write_section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "== {}", section.head);
    if !section.body.is_empty() {
        let _ = writeln!(out, "{}", section.body);
    }
}

async fn call(ws: &Fake, tools: &Tools, name: &str, args: &str) -> String {
    let before = snapshot(ws);
    let mut out = String::new();
    let ended = steps(ws, tools, name, args, &mut out).await;
    match ended {
        Ok(output) => {
            let _ = writeln!(out, "{}:\n{}", if output.failed { "failed" } else { "ok" }, output.text);
            for location in &output.locations {
                let line = location.line.map(|n| format!(" line {n}")).unwrap_or_default();
                let _ = writeln!(out, "at: {}{line}", location.path.display());
            }
        }
        Err(e) => {
            let _ = writeln!(out, "refused:\n{e}");
        }
    }
    let after = snapshot(ws);
    for (path, bytes) in &after {
        if before.get(path) != Some(bytes) {
            let _ = writeln!(out, "now {path}:\n{}", escape(bytes));
        }
    }
    for path in before.keys().filter(|p| !after.contains_key(*p)) {
        let _ = writeln!(out, "gone: {path}");
    }
    let root = ws.root().display().to_string();
    out.replace(&root, "$ROOT").trim_end().to_owned()
}

async fn steps(
    ws: &Fake,
    tools: &Tools,
    name: &str,
    args: &str,
    out: &mut String,
) -> Result<super::Output, ToolError> {
    let tool = super::nearest(name, tools).ok_or_else(|| super::unknown(name, tools))?;
    let prepared = tool.prepare(super::arguments::parse(args)?)?;
    let _ = writeln!(out, "title: {}", prepared.title(ws));
    let effects = prepared.plan(ws).await?;
    let _ = writeln!(out, "plan: {}", planned(ws, &effects));
    prepared.run(effects, ws.cx(&CallIdent { session: "s_1".into(), id: "t_1".into() })).await
}

fn planned(ws: &dyn Reader, effects: &Effects) -> String {
    let shown = |p| super::display::path(ws, p);
    let mut all: Vec<String> = effects.reads.iter().map(|p| format!("read {}", shown(p))).collect();
    all.extend(effects.writes.iter().map(|change| match change {
        Change::Write { path, old: None, .. } => format!("create {}", shown(path)),
        Change::Write { path, .. } => format!("write {}", shown(path)),
        Change::Delete { path, .. } => format!("delete {}", shown(path)),
        Change::Move { from, to, .. } => format!("move {} to {}", shown(from), shown(to)),
    }));
    all.extend(effects.runs.iter().map(|c| format!("run {} in {}", c.text.escape_debug(), shown(&c.cwd))));
    if all.is_empty() { "nothing".into() } else { all.join(", ") }
}

/// Every file and unsaved buffer, by its path.
fn snapshot(ws: &Fake) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![ws.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(ws.root()).unwrap().display().to_string();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    for (path, text) in ws.buffers.lock().unwrap().iter() {
        let name = path.strip_prefix(ws.root()).unwrap().display();
        files.insert(format!("{name} (unsaved)"), text.clone().into_bytes());
    }
    files
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n\n"),
                '\\' => out.push_str("\\\\"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{feff}' => out.push_str("\\xef\\xbb\\xbf"),
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out.trim_end_matches('\n').to_owned()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes().filter(|b| *b != b'\n');
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next().unwrap() {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            other => panic!("unknown escape \\{}", other as char),
        }
    }
    out
}
