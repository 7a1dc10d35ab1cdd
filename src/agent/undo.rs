//! `/undo` and `/rewind`: files and conversation as they were before a prompt.
//!
//! Files first, through the workspace and all or nothing, then one `Rewind` entry. A process that dies in between has
//! lost nothing: what is restored already is found so the next time.
use super::{
    journal::Journal,
    port::{Answer, CallChanged, CallOpened, CallStatus, Choice, Editor, Question, Update},
    preview, record,
    session::Session,
};
use crate::{
    effects::{Change, Effects, WsPath},
    id::{CallId, MessageId},
    log::*,
    permit::{Decision, Scope, decide},
    workspace::text::Text,
};
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

/// How far back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// So many prompts; 1 is the last one.
    Last(usize),
    /// To before this prompt.
    Message(MessageId),
}

/// A prompt that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The number of its entry: everything from it on is taken back.
    pub seq: u64,
    pub id: MessageId,
    /// Its first line.
    pub title: String,
}

/// The prompts that are in force, the newest first.
pub fn goals(entries: &[Stored]) -> Vec<Goal> {
    let hidden = Hidden::of(entries);
    let goal = |s: &Stored| match &s.entry {
        Entry::User { id, parts, state: PromptState::Sent, .. } if !hidden.is(s.seq) => Some(Goal {
            seq: s.seq,
            id: id.clone(),
            title: super::prompt::title(parts).unwrap_or_else(|| "(no text)".into()),
        }),
        _ => None,
    };
    entries.iter().rev().filter_map(goal).collect()
}

/// What earlier rewinds took back.
struct Hidden(Vec<(u64, u64)>);

impl Hidden {
    fn of(entries: &[Stored]) -> Self {
        let range = |s: &Stored| match s.entry {
            Entry::Rewind { to } => Some((to, s.seq)),
            _ => None,
        };
        Hidden(entries.iter().filter_map(range).collect())
    }
    fn is(&self, seq: u64) -> bool {
        self.0.iter().any(|(from, to)| (*from..*to).contains(&seq))
    }
}

/// What was asked for, and what came of it: for the log and for the person.
pub struct Undone {
    pub text: String,
    /// To be kept behind the prompt that asked for it.
    pub entries: Vec<Entry>,
}

/// One file, over all the calls that are taken back.
struct File {
    path: WsPath,
    before: FileState,
    mode: Option<u32>,
    after: FileState,
    /// Something else changed it between two of these calls.
    broken: bool,
}

/// What has to happen.
#[derive(Default)]
struct Restore {
    changes: Vec<Change>,
    modes: Vec<(WsPath, u32)>,
    /// Files that were changed after us.
    newer: Vec<String>,
    /// Files that cannot be put back, each with the reason.
    lost: Vec<String>,
    /// Folders that were made for what is taken back; they go if they are empty then.
    made: BTreeSet<PathBuf>,
}

/// Takes back what was done since a prompt, and the conversation from there on.
pub struct Undo<'a> {
    pub session: &'a Session,
    pub journal: &'a Journal,
    pub editor: &'a dyn Editor,
    pub cancel: &'a CancellationToken,
    /// Only the conversation: the files stay as they are.
    pub keep_files: bool,
}

impl Undo<'_> {
    pub async fn run(&self, target: &Target) -> Undone {
        let entries = self.journal.entries();
        let goals = goals(entries);
        let at = match target {
            Target::Last(n) => n.checked_sub(1).filter(|n| *n < goals.len()),
            Target::Message(id) => goals.iter().position(|g| g.id == *id),
        };
        let Some(at) = at else { return told(nowhere(target, goals.len())) };
        let goal = &goals[at];
        let restore = if self.keep_files { Restore::default() } else { self.plan(goal.seq).await };
        if !restore.newer.is_empty() {
            return told(format!(
                "Nothing was taken back: {} changed after the agent's last write, and that would be lost:\n{}\nSave and \
                 keep those changes elsewhere or take them back yourself, then repeat this. `keep-files` behind the \
                 command takes back the conversation alone.",
                count(restore.newer.len(), "file was", "files were"),
                bullets(&restore.newer)
            ));
        }
        let mut undone = Undone { text: String::new(), entries: vec![] };
        if !restore.changes.is_empty()
            && let Err(text) = self.restore(&restore, &mut undone).await
        {
            return Undone { text, ..undone };
        }
        undone.entries.push(Entry::Rewind { to: goal.seq });
        undone.text = self.said(at + 1, goal, &restore);
        undone
    }

    fn said(&self, prompts: usize, goal: &Goal, restore: &Restore) -> String {
        let mut text = format!(
            "Took back {}: the conversation goes on from before “{}”.",
            count(prompts, "prompt", "prompts"),
            goal.title
        );
        let files: Vec<String> = restore.changes.iter().map(what).collect();
        match (files.is_empty(), self.keep_files) {
            (false, _) => text.push_str(&format!("\n{}", bullets(&files))),
            (true, true) => text.push_str(" The files stay as they are."),
            (true, false) if restore.lost.is_empty() => text.push_str(" No file had to be restored."),
            _ => {}
        }
        if !restore.lost.is_empty() {
            text.push_str(&format!("\nNot restored:\n{}", bullets(&restore.lost)));
        }
        text
    }

    /// What it takes to have the files as they were before an entry.
    async fn plan(&self, from: u64) -> Restore {
        let mut restore = Restore::default();
        for file in self.files(from, &mut restore) {
            self.plan_file(file, &mut restore).await;
        }
        restore
    }

    /// Every file that calls since then touched: what was there first, and what should be there now.
    fn files(&self, from: u64, restore: &mut Restore) -> Vec<File> {
        let entries = self.journal.entries();
        let hidden = Hidden::of(entries);
        let taken_back = || entries.iter().filter(|s| s.seq >= from && !hidden.is(s.seq));
        let recorded: HashSet<&str> = taken_back()
            .filter_map(|s| match &s.entry {
                Entry::Touched { call, .. } => Some(call.as_str()),
                _ => None,
            })
            .collect();
        let mut files: Vec<File> = Vec::new();
        for stored in taken_back() {
            let touched: Vec<Touched> = match &stored.entry {
                Entry::Touched { files, .. } => files.clone(),
                // A process that died after the write and before its record: the plan says as much.
                Entry::Began { call, plan, .. } if !recorded.contains(call.as_str()) => {
                    if landed(entries, call) { plan.iter().filter_map(planned).collect() } else { vec![] }
                }
                _ => continue,
            };
            for mut touched in touched {
                restore.made.extend(std::mem::take(&mut touched.made));
                match self.session.workspace.resolve(&touched.path.to_string_lossy()) {
                    Ok(path) if in_git(&path) => {}
                    // It was inside when it was written: what lies there is another file, which nobody allowed.
                    Ok(path) if !path.in_roots() && self.is_below_a_root(&touched.path) => {
                        restore.lost.push(format!(
                            "{}: a link now leads out of the workspace there, to {path}",
                            touched.path.display()
                        ))
                    }
                    Ok(path) => merge(&mut files, path, touched),
                    Err(e) => restore.lost.push(e.to_string()),
                }
            }
        }
        files
    }

    /// By its name alone, as it was recorded.
    fn is_below_a_root(&self, path: &Path) -> bool {
        let folders = &self.session.folders;
        let named = std::iter::once(&folders.cwd).chain(&folders.additional);
        named.chain(self.session.workspace.roots()).any(|root| path.starts_with(root))
    }

    async fn plan_file(&self, file: File, restore: &mut Restore) {
        let File { path, before, mode, after, broken } = file;
        let workspace = &*self.session.workspace;
        // It was read or written in this session with permission.
        workspace.grant(&path);
        let now = match workspace.read(&path).await {
            Ok(now) => now,
            Err(e) => return restore.lost.push(e.to_string()),
        };
        let state = record::state(now.as_ref());
        if same(&state, &before) {
            return;
        }
        // What stands there may be the only copy of something, or the person's own work since.
        if after == FileState::Unknown {
            return restore.lost.push(format!(
                "{path}: it was left as it is, since what was made of it is not known (large, secret, moved there, or no file)"
            ));
        }
        if broken || !same(&state, &after) {
            return restore.newer.push(path.to_string());
        }
        let old = match &before {
            FileState::Absent => None,
            FileState::Unknown => {
                return restore
                    .lost
                    .push(format!("{path}: what was in it was not kept (large, or it holds a secret)"));
            }
            FileState::Content { bytes, .. } => match self.session.keep.content(bytes).await {
                None => {
                    return restore
                        .lost
                        .push(format!("{path}: what was in it is not kept any more, or it held a secret"));
                }
                Some(bytes) => match Text::from_bytes(&bytes) {
                    Ok(text) => Some(text),
                    Err(_) => return restore.lost.push(format!("{path}: it is not text")),
                },
            },
        };
        match (now, old) {
            (None, None) => {}
            (Some(now), None) => restore.changes.push(Change::Delete { path, old: now }),
            (now, Some(new)) => {
                if let (None, Some(mode)) = (&now, mode) {
                    restore.modes.push((path.clone(), mode));
                }
                restore.changes.push(Change::Write { path, old: now, new });
            }
        }
    }

    /// Shows the diffs, asks where the mode does not allow edits anyway, and writes. The error is what the person reads.
    async fn restore(&self, restore: &Restore, undone: &mut Undone) -> Result<(), String> {
        let effects = Effects { writes: restore.changes.clone(), ..Effects::default() };
        let (shown, locations) = preview::of(&effects);
        let mut title = format!("Undo: restore {}", count(restore.changes.len(), "file", "files"));
        match restore.changes.iter().filter(|c| !c.path().in_roots()).count() {
            0 => {}
            n => title.push_str(&format!(" ({n} outside the workspace)")),
        }
        let mut card = Card { title, kind: ToolKind::Edit, locations, shown };
        let id = CallId::new();
        let opened = CallOpened {
            id: id.clone(),
            name: NAME.into(),
            card: card.clone(),
            raw_input: serde_json::Value::Null,
            status: CallStatus::Pending,
        };
        self.editor.update(&self.session.id, Update::Call(Box::new(opened))).await;
        let result = match self.permitted(&id, &card, effects, &restore.lost).await {
            Ok(()) => self.write(restore).await,
            Err(text) => Err((Outcome::Denied, text)),
        };
        let outcome = match &result {
            Ok(()) => Outcome::Ok,
            Err((outcome, text)) => {
                card.shown.push(Shown::Text { text: text.clone() });
                *outcome
            }
        };
        let status = if outcome == Outcome::Ok { CallStatus::Completed } else { CallStatus::Failed };
        let shown = Some(card.shown.clone());
        let changed = CallChanged { id: id.clone(), status: Some(status), shown, ..CallChanged::default() };
        self.editor.update(&self.session.id, Update::CallChanged(Box::new(changed))).await;
        undone.entries.push(Entry::Action { call: id, name: NAME.into(), outcome, card });
        result.map_err(|(_, text)| text)
    }

    async fn permitted(
        &self,
        id: &CallId,
        card: &Card,
        effects: Effects,
        lost: &[String],
    ) -> Result<(), String> {
        const NO: &str = "Nothing was taken back.";
        if let Decision::Allow = decide(self.session.settings().mode, &self.session.grants(), &effects) {
            return Ok(());
        }
        let why = match lost {
            [] => String::new(),
            lost => format!("These cannot be restored:\n{}", bullets(lost)),
        };
        let choice = |id, name: &str, allow| Choice { id, name: name.into(), allow, scope: Scope::Once };
        let question = Question {
            call: id.clone(),
            card: card.clone(),
            raw_input: serde_json::Value::Null,
            effects,
            why,
            options: vec![choice("allow_once", "Restore", true), choice("reject_once", "Leave it", false)],
            hunks: vec![],
        };
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Answer::Gone,
            answer = self.editor.ask(&self.session.id, question) => answer,
        };
        match answer {
            Answer::Yes { .. } => Ok(()),
            Answer::No { .. } | Answer::Gone => Err(NO.into()),
            Answer::Failed(why) => Err(format!("{NO} The question could not be asked: {why}")),
        }
    }

    async fn write(&self, restore: &Restore) -> Result<(), (Outcome, String)> {
        if let Err(e) = self.session.workspace.apply(&restore.changes).await {
            return Err((Outcome::Failed, format!("Nothing was taken back: {e}")));
        }
        // Those inside others come behind them in order. One that is not empty, or not ours any more, stays.
        for folder in restore.made.iter().rev() {
            let inside = self.session.workspace.resolve(&folder.to_string_lossy());
            if inside.is_ok_and(|path| path.in_roots() && path.real() == folder && !in_git(&path)) {
                _ = std::fs::remove_dir(folder);
            }
        }
        #[cfg(unix)]
        for (path, mode) in &restore.modes {
            use std::os::unix::fs::PermissionsExt;
            let permissions = std::fs::Permissions::from_mode(mode & 0o7777);
            if let Err(e) = std::fs::set_permissions(path.real(), permissions) {
                tracing::warn!("the permissions of a restored file could not be set: {e}");
            }
        }
        Ok(())
    }
}

/// The name of the card's tool.
const NAME: &str = "undo";

fn told(text: String) -> Undone {
    Undone { text, entries: vec![] }
}

fn nowhere(target: &Target, prompts: usize) -> String {
    match (target, prompts) {
        (_, 0) => "There is nothing to take back: no prompt reached the model yet.".into(),
        (Target::Last(_), n) => {
            format!("There are only {}: give a number from 1 to {n}.", count(n, "prompt", "prompts"))
        }
        (Target::Message(_), _) => {
            "There is no prompt of that id in force. `/rewind` without anything lists them.".into()
        }
    }
}

fn merge(files: &mut Vec<File>, path: WsPath, touched: Touched) {
    let Touched { before, after, mode, .. } = touched;
    match files.iter_mut().find(|f| f.path == path) {
        None => files.push(File { path, before, mode, after, broken: false }),
        Some(file) => {
            let unknown = [&file.after, &before].contains(&&FileState::Unknown);
            file.broken |= !unknown && !same(&file.after, &before);
            file.after = after;
        }
    }
}

/// Whether two states are the same text, whatever its form.
fn same(a: &FileState, b: &FileState) -> bool {
    let text = |s: &FileState| match s {
        FileState::Absent => None,
        FileState::Unknown => Some(String::new()),
        FileState::Content { bytes, text } => Some(text.as_ref().unwrap_or(bytes).clone()),
    };
    *a != FileState::Unknown && *b != FileState::Unknown && text(a) == text(b)
}

/// Whether a call without a record was found on disk when the session was loaded.
fn landed(entries: &[Stored], call: &CallId) -> bool {
    entries.iter().any(|s| {
        matches!(&s.entry, Entry::Result { call: of, outcome: Outcome::Ok | Outcome::Unknown, .. } if of == call)
    })
}

fn planned(plan: &Planned) -> Option<Touched> {
    let state = |hash: &Option<String>| match hash {
        None => FileState::Absent,
        Some(bytes) => FileState::Content { bytes: bytes.clone(), text: None },
    };
    match plan {
        Planned::File { path, old, new } => Some(Touched {
            path: path.clone(),
            before: state(old),
            after: state(new),
            mode: None,
            made: vec![],
        }),
        _ => None,
    }
}

/// The repository's own files are git's affair.
fn in_git(path: &WsPath) -> bool {
    path.real().components().any(|c| c.as_os_str() == ".git")
}

fn what(change: &Change) -> String {
    match change {
        Change::Write { path, old: None, .. } => format!("{path} (made again)"),
        Change::Delete { path, .. } => format!("{path} (removed)"),
        change => change.path().to_string(),
    }
}

fn bullets(lines: &[String]) -> String {
    lines.iter().map(|l| format!("- {l}\n")).collect::<String>().trim_end().to_owned()
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
