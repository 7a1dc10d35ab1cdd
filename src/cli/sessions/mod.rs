//! `sessions`: what was said, for people and for other tools. Everything here reads the store; only `delete` writes.
mod audit;
mod markdown;

use super::{
    Exit,
    args::{ExportFormat, SessionsArgs, SessionsCommand},
    block_on,
    client::visible,
    print, say,
};
use crate::{
    config::DataDirs,
    id::SessionId,
    log::Stored,
    store::{Filter, Hit, Line, Loaded, Search, SessionHead, Store, StoreError},
};
use serde_json::json;
use std::{
    io::{self, IsTerminal},
    path::Path,
};

/// What went wrong, as the person reads it, and the exit code.
struct Failure(String, Exit);

impl From<StoreError> for Failure {
    fn from(e: StoreError) -> Self {
        Failure(e.to_string(), Exit::Failed)
    }
}
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure(e.to_string(), Exit::Failed)
    }
}

pub fn sessions(args: &SessionsArgs) -> Exit {
    let done = DataDirs::from_env()
        .map_err(|e| Failure(e.to_string(), Exit::Failed))
        .and_then(|dirs| Ok(Store::open(&dirs)?))
        .and_then(|store| {
            let done = block_on(run(&store, &args.command))?;
            // Nothing was written that is not kept; this only leaves one file instead of two.
            _ = store.close().wait();
            done
        });
    match done {
        Ok(text) => print(&text, Exit::Good),
        Err(Failure(text, exit)) => {
            say(&mut io::stderr(), &format!("hermes-editor: {text}\n"));
            exit
        }
    }
}

async fn run(store: &Store, command: &SessionsCommand) -> Result<String, Failure> {
    match command {
        SessionsCommand::List { cwd, all, json } => {
            let filter = Filter { cwd: cwd.clone(), all_origins: *all, limit: LIST, ..Filter::default() };
            let page = store.heads(filter).await?;
            if page.salvaged {
                let text = damaged(&store.database().display().to_string());
                if page.heads.is_empty() {
                    return Err(Failure(text, Exit::Failed));
                }
                say(&mut io::stderr(), &format!("hermes-editor: {text}\n"));
            }
            Ok(match (*json, page.heads.as_slice()) {
                (true, heads) => lines(heads.iter().map(head_json)),
                (false, []) => none(cwd.as_deref(), *all),
                (false, heads) => heads.iter().map(row).collect::<String>(),
            })
        }
        SessionsCommand::Show { id, audit } => {
            let loaded = store.load(find(store, id).await?).await?;
            let text = if *audit { audit::audit(&loaded) } else { markdown::markdown(&loaded) };
            Ok(visible(&text).into_owned())
        }
        SessionsCommand::Search { words, cwd, limit, json } => {
            let search = Search {
                text: words.join(" "),
                cwd: cwd.clone(),
                limit: *limit,
                around: 1,
                ..Search::default()
            };
            let hits = store.search(search).await?;
            Ok(if *json { lines(hits.iter().map(hit_json)) } else { visible(&found(&hits)).into_owned() })
        }
        SessionsCommand::Export { id, format, output, force } => {
            let loaded = store.load(find(store, id).await?).await?;
            let text = match format {
                ExportFormat::Markdown => markdown::markdown(&loaded),
                ExportFormat::Jsonl => jsonl(&loaded)?,
            };
            match output {
                // What a model or a file said could repaint the screen; a file gets it as it is.
                None if matches!(format, ExportFormat::Markdown) && io::stdout().is_terminal() => {
                    Ok(visible(&text).into_owned())
                }
                None => Ok(text),
                Some(path) => write(path, &text, *force),
            }
        }
        SessionsCommand::Delete { id, yes } => delete(store, find(store, id).await?, *yes).await,
    }
}

/// As many sessions are listed.
const LIST: usize = 500;

/// Letters of an id that say which one is meant: all begin with `s_`.
const BEGINNING: usize = 4;

/// A session by its id, the beginning of it, or `last`.
async fn find(store: &Store, id: &str) -> Result<SessionId, Failure> {
    if store.head(id.into()).await?.is_some() {
        return Ok(id.into());
    }
    if id.len() < BEGINNING {
        let text = format!("{id:?} is too short to tell sessions apart: give more of the id, or `last`");
        return Err(Failure(text, Exit::Usage));
    }
    let (mut found, mut filter) =
        (Vec::new(), Filter { all_origins: true, empty: true, limit: LIST, ..Filter::default() });
    loop {
        let page = store.heads(filter.clone()).await?;
        for head in page.heads {
            if id == "last" {
                return Ok(head.id);
            }
            if head.id.as_str().starts_with(id) {
                found.push(head.id);
            }
        }
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => break,
        }
    }
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] if id == "last" => Err(Failure("there is no session yet".into(), Exit::Usage)),
        [] => {
            Err(Failure(format!("there is no session {id}; `sessions list --all` shows them"), Exit::Usage))
        }
        many => {
            Err(Failure(format!("{} sessions begin with {id}: give more of it", many.len()), Exit::Usage))
        }
    }
}

/// Why a list may not be whole, and what helps.
fn damaged(file: &str) -> String {
    format!(
        "{file} is damaged, so that the list is not complete; `sessions show ID` still reads a session of a known id. \
         Keep a copy and move the file away to start a new one"
    )
}

/// What stands for an empty list.
fn none(cwd: Option<&Path>, all: bool) -> String {
    let place = cwd.map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
    let hidden = if all { "" } else { "; `--all` also shows those of `exec` and `demo`" };
    format!("There are no sessions{place}{hidden}.\n")
}

fn title(head: &SessionHead) -> &str {
    head.title.as_deref().unwrap_or("(no title)")
}

fn row(head: &SessionHead) -> String {
    let when = head.updated.rfc3339();
    let when = when.get(..16).unwrap_or(&when).replace('T', " ");
    // One line each, whatever a title has in it.
    let title = title(head).split_whitespace().collect::<Vec<_>>().join(" ");
    let cwd = head.cwd.display().to_string().replace(['\n', '\r'], " ");
    visible(&format!("{}  {when}  {cwd}  {title}\n", head.id)).into_owned()
}

fn head_json(head: &SessionHead) -> serde_json::Value {
    json!({
        "id": head.id, "title": head.title, "cwd": head.cwd, "additionalDirectories": head.roots,
        "created": head.created.rfc3339(), "updated": head.updated.rfc3339(),
        "origin": head.origin, "parent": head.parent, "settings": head.settings,
    })
}

fn lines(values: impl Iterator<Item = serde_json::Value>) -> String {
    values.map(|v| format!("{v}\n")).collect()
}

fn hit_json(hit: &Hit) -> serde_json::Value {
    let line = |l: &Line| json!({"seq": l.seq, "at": l.at.rfc3339(), "role": l.role, "text": l.text});
    json!({
        "session": hit.session, "title": hit.title, "cwd": hit.cwd, "hit": line(&hit.line),
        "before": hit.before.iter().map(line).collect::<Vec<_>>(),
        "after": hit.after.iter().map(line).collect::<Vec<_>>(),
    })
}

fn found(hits: &[Hit]) -> String {
    if hits.is_empty() {
        return "Nothing was found.\n".into();
    }
    let mut out = String::new();
    for hit in hits {
        let name = hit.title.as_deref().unwrap_or("(no title)");
        out.push_str(&format!("{}  {name}  {}\n", hit.session, hit.cwd.display()));
        let here = std::iter::once((&hit.line, '>'));
        let around =
            hit.before.iter().map(|l| (l, ' ')).chain(here).chain(hit.after.iter().map(|l| (l, ' ')));
        for (line, mark) in around {
            let text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
            out.push_str(&format!("{mark} {}: {text}\n", line.role));
        }
        out.push('\n');
    }
    out
}

/// The first line is the session's head, each further one an entry as it is stored: its number, its time (RFC 3339) and
/// its fields, of which `type` says which (`FORMAT.md`).
fn jsonl(loaded: &Loaded) -> Result<String, Failure> {
    let mut head = head_json(&loaded.head);
    head["format"] = json!("hermes-editor session 1");
    let mut out = format!("{head}\n");
    for stored in &loaded.entries {
        out.push_str(&entry_json(stored).map_err(|e| Failure(e.to_string(), Exit::Failed))?);
        out.push('\n');
    }
    for gap in &loaded.damaged {
        out.push_str(&format!("{}\n", json!({"seq": gap.seq, "type": "damaged"})));
    }
    Ok(out)
}

fn entry_json(stored: &Stored) -> serde_json::Result<String> {
    let mut value = json!({"seq": stored.seq, "at": stored.at.rfc3339()});
    if let (Some(out), serde_json::Value::Object(fields)) =
        (value.as_object_mut(), serde_json::to_value(&stored.entry)?)
    {
        out.extend(fields);
    }
    serde_json::to_string(&value)
}

/// A file of our own making: readable for its owner alone, since a session may hold anything. It is written beside its
/// place and moved there whole, so that a full disk leaves what was there before.
fn write(path: &Path, text: &str, force: bool) -> Result<String, Failure> {
    use std::io::Write;
    let refused = |e: &io::Error| {
        let text = match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} exists; name another file, or add --force", path.display())
            }
            _ => format!("{} cannot be written: {e}", path.display()),
        };
        Failure(text, Exit::Usage)
    };
    let incomplete =
        |e: &io::Error| Failure(format!("{} was not written: {e}", path.display()), Exit::Failed);
    if !force && path.symlink_metadata().is_ok() {
        return Err(refused(&io::ErrorKind::AlreadyExists.into()));
    }
    // The file that a link leads to; a pipe or a device cannot be replaced and is written to.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if place.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let mut file = std::fs::OpenOptions::new().write(true).open(&place).map_err(|e| refused(&e))?;
        file.write_all(text.as_bytes()).map_err(|e| incomplete(&e))?;
        return Ok(format!("{}\n", path.display()));
    }
    let folder = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| refused(&e))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(|e| incomplete(&e))?;
    let moved = if force { file.persist(&place) } else { file.persist_noclobber(&place) };
    moved.map_err(|e| refused(&e.error))?;
    Ok(format!("{}\n", path.display()))
}

async fn delete(store: &Store, id: SessionId, yes: bool) -> Result<String, Failure> {
    let head = store.head(id.clone()).await?.ok_or(StoreError::NotFound(id.clone()))?;
    if !yes {
        if !io::stdin().is_terminal() {
            return Err(Failure("without a terminal `delete` needs --yes".into(), Exit::Usage));
        }
        say(&mut io::stderr(), &format!("Delete “{}” ({id}) for good? [y/N] ", visible(title(&head))));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(Failure("nothing was deleted".into(), Exit::Failed));
        }
    }
    // One that an editor has open would be written to again.
    let _lock = store.lock(&id).map_err(|e| Failure(e.to_string(), Exit::Failed))?;
    store.delete(id.clone()).await?;
    Ok(format!("Deleted {id}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Millis, id::*, log::*};

    fn entries() -> Vec<Stored> {
        let call = Call {
            id: "t_1".into(),
            provider_id: "p".into(),
            name: "edit".into(),
            args: "{}".into(),
            native: None,
        };
        let diff = Shown::Diff { path: "/w/a".into(), old: Some("one\n".into()), new: "two\n".into() };
        let card = Card { title: "Edit a".into(), shown: vec![diff], ..Card::default() };
        let text = |t: &str| vec![Part::Text { text: t.into() }];
        let all = [
            Entry::User {
                id: "m_1".into(),
                parts: text("Fix the port"),
                state: PromptState::Sent,
                volatile: None,
            },
            Entry::Assistant {
                id: "m_2".into(),
                blocks: vec![Block::Text { text: "I will.".into() }, Block::Call(call)],
                interrupted: false,
                model: "demo/demo".into(),
                usage: None,
            },
            Entry::Asked { call: "t_1".into(), answer: "allow_once".into() },
            Entry::Result {
                call: "t_1".into(),
                outcome: Outcome::Ok,
                text: "done".into(),
                images: vec![],
                card,
            },
            Entry::Ended {
                stop: "end_turn".into(),
                requests: 2,
                usage: Usage { input: 10, output: 3, ..Usage::default() },
                detail: None,
                tools: [("edit".to_owned(), 1)].into(),
            },
        ];
        let stored = |(i, entry)| Stored { seq: i as u64, at: Millis(1_000), entry };
        all.into_iter().enumerate().map(stored).collect()
    }

    async fn store() -> (tempfile::TempDir, Store, SessionId) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&DataDirs::under(home.path())).unwrap();
        let id = SessionId::new();
        let mut head = SessionHead::new(id.clone(), "/w".into());
        head.title = Some("Fix the port".into());
        store.create(head).await.unwrap();
        store.append(id.clone(), entries()).await.unwrap();
        (home, store, id)
    }

    async fn out(store: &Store, line: &str) -> Result<String, String> {
        use clap::Parser;
        let cli = crate::cli::args::Cli::try_parse_from(format!("h sessions {line}").split(' ')).unwrap();
        let Some(crate::cli::args::Command::Sessions(args)) = cli.command else { panic!("{line}") };
        run(store, &args.command).await.map_err(|Failure(text, _)| text)
    }

    #[tokio::test]
    async fn sessions_are_listed_shown_searched_and_deleted() {
        let (_home, store, id) = store().await;
        let list = out(&store, "list").await.unwrap();
        assert!(list.contains(id.as_str()) && list.contains("/w  Fix the port"), "{list}");
        let shown = out(&store, "show last").await.unwrap();
        for part in ["# Fix the port", "## User\n\nFix the port", "I will.", "### Edit a", "-one\n+two"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        let audit = out(&store, &format!("show {} --audit", &id.as_str()[..20])).await.unwrap();
        let ended = "  asked: Edit a: allow_once\n  ended: end_turn; 2 model request(s), 10 tokens in (0 cached), 3 out; tools: edit ×1";
        assert!(audit.contains(ended), "{audit}");
        let hits = out(&store, "search port").await.unwrap();
        assert!(hits.contains("> user: Fix the port") && hits.contains("  assistant: I will."), "{hits}");
        assert!(out(&store, "show s_none").await.unwrap_err().contains("there is no session"));
        assert!(out(&store, "delete last --yes").await.unwrap().contains("Deleted"));
        assert_eq!(
            out(&store, "list").await.unwrap(),
            "There are no sessions; `--all` also shows those of `exec` and `demo`.\n"
        );
        assert_eq!(out(&store, "list --all -C /w").await.unwrap(), "There are no sessions in /w.\n");
        assert_eq!(out(&store, "list --json").await.unwrap(), "");
        assert!(out(&store, "show s_").await.unwrap_err().contains("too short"));
        assert!(out(&store, "show last").await.unwrap_err().contains("no session yet"));
    }

    #[tokio::test]
    async fn a_damaged_database_is_no_empty_one() {
        let (home, store, id) = store().await;
        store.close().await.unwrap();
        drop(store);
        let dirs = DataDirs::under(home.path());
        let bytes = std::fs::read(dirs.database()).unwrap();
        // Wherever the file ends: the session is listed, or the list is said to be incomplete, or the file is refused.
        for end in (1..bytes.len() / 4096).map(|page| page * 4096) {
            std::fs::write(dirs.database(), &bytes[..end]).unwrap();
            let store = Store::open(&dirs).unwrap();
            match out(&store, "list").await {
                Ok(list) => assert!(list.contains(id.as_str()), "cut at {end}: {list}"),
                Err(text) => {
                    assert!(text.contains("move"), "cut at {end}: {text}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_is_stored_cannot_repaint_a_terminal() {
        let (home, store, id) = store().await;
        store.set_title(id.clone(), Some("a\u{1b}[2Jb\nc \u{202e}d".into())).await.unwrap();
        let list = out(&store, "list").await.unwrap();
        assert!(list.ends_with("  a\\u{1b}[2Jb c \\u{202e}d\n") && list.lines().count() == 1, "{list:?}");
        for line in ["list", "show last", "show last --audit", "search port"] {
            let text = out(&store, line).await.unwrap();
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{line}: {text:?}");
        }
        let file = home.path().join("true.md");
        out(&store, &format!("export last -o {}", file.display())).await.unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().contains("a\u{1b}[2Jb"), "a file stays true");
        let all = out(&store, "list --json").await.unwrap();
        let head: serde_json::Value = serde_json::from_str(&all).unwrap();
        assert_eq!(head["title"], "a\u{1b}[2Jb\nc \u{202e}d");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_device_is_written_to_and_never_replaced() {
        let (_home, store, id) = store().await;
        let full = out(&store, &format!("export {id} -o /dev/full --force")).await.unwrap_err();
        assert!(full.contains("/dev/full was not written"), "{full}");
        assert!(!std::fs::metadata("/dev/full").unwrap().is_file());
    }

    #[test]
    fn the_format_names_every_type_of_entry() {
        let (format, log) = (include_str!("FORMAT.md"), include_str!("../../log.rs"));
        let (_, entries) = log.split_once("pub enum Entry {").unwrap();
        let (entries, _) = entries.split_once("\n}\n").unwrap();
        let names: Vec<String> = entries
            .lines()
            .filter_map(|l| l.strip_prefix("    ")?.strip_suffix(" {"))
            .filter(|name| name.starts_with(char::is_uppercase))
            .map(str::to_lowercase)
            .collect();
        assert!(names.len() > 15, "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !format.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[tokio::test]
    async fn an_export_holds_every_entry() {
        let (home, store, id) = store().await;
        let file = home.path().join("out.jsonl");
        out(&store, &format!("export {id} -f jsonl -o {}", file.display())).await.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let again = out(&store, &format!("export {id} -o {}", file.display())).await.unwrap_err();
        assert!(again.contains("--force"), "{again}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "nothing is written over");
        out(&store, &format!("export {id} -f jsonl -o {} --force", file.display())).await.unwrap();
        let mut lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let head = lines.next().unwrap();
        assert_eq!((head["id"].as_str(), head["title"].as_str()), (Some(id.as_str()), Some("Fix the port")));
        let left = std::fs::read_dir(home.path()).unwrap().flatten().map(|e| e.file_name());
        assert!(left.into_iter().all(|n| !n.to_string_lossy().starts_with(".tmp")), "a torn file stays");
        // A line without its number and time is the entry again.
        let back: Vec<Entry> = lines.map(|l| serde_json::from_value(l).unwrap()).collect();
        assert_eq!(back, entries().into_iter().map(|s| s.entry).collect::<Vec<_>>());
    }
}
