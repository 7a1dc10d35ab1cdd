//! Slash commands: they never reach the model as such.
use super::{App, config, editor::AcpEditor, prompt};
use crate::{
    agent::{
        compact::{Compaction, Outcome},
        journal::Journal,
        port::{Editor, Update},
        session::Session,
        undo::{self, Goal, Target, Undo},
        usage::{Spent, of_last_turn, words},
    },
    id::MessageId,
    log::{Entry, Mode, Part, PromptState, Stored, Usage},
    model::ModelInfo,
};
use hermes_protocol::{Call, Peer, acp};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long after the response that names a session its commands are sent: some clients drop updates for a session
/// that they have not registered yet (https://github.com/zed-industries/zed/issues/60199).
const AFTER: Duration = Duration::from_millis(60);

struct Command {
    name: &'static str,
    description: &'static str,
    hint: Option<&'static str>,
}

const COMMANDS: &[Command] = &[
    Command { name: "help", description: "What can be typed here", hint: None },
    Command {
        name: "mode",
        description: "Show or change what is done without asking",
        hint: Some("ask | accept-edits | plan | full"),
    },
    Command { name: "model", description: "Show or change the model", hint: Some("provider/model") },
    Command {
        name: "effort",
        description: "Show or change how hard the model thinks",
        hint: Some("default | low | high …"),
    },
    Command { name: "usage", description: "Tokens and cost of this session", hint: None },
    Command {
        name: "undo",
        description: "Take back the last prompt: its changes of files and what was said",
        hint: Some("keep-files: only what was said"),
    },
    Command {
        name: "rewind",
        description: "Go back to before an earlier prompt; alone: list them",
        hint: Some("number or message id, then keep-files"),
    },
    Command {
        name: "steer",
        description: "Tell the running turn something; it reads it at its next step",
        hint: Some("what to tell it"),
    },
    Command {
        name: "plan",
        description: "Plan a task without changing anything",
        hint: Some("what to plan"),
    },
    Command {
        name: "compact",
        description: "Summarise the older part of the conversation for the model",
        hint: Some("what to keep most of"),
    },
    Command { name: "review", description: "Review the uncommitted changes", hint: Some("what to look at") },
    Command { name: "explain", description: "Explain code", hint: Some("what to explain") },
    Command { name: "fix", description: "Find and fix a problem", hint: Some("what is wrong") },
    Command { name: "test", description: "Write or run tests", hint: Some("what to test") },
];

fn update() -> acp::SessionUpdate {
    let all = COMMANDS.iter().map(|c| {
        let input = c
            .hint
            .map(|hint| acp::AvailableCommandInput::Unstructured(acp::UnstructuredCommandInput::new(hint)));
        acp::AvailableCommand::new(c.name, c.description).input(input)
    });
    acp::SessionUpdate::AvailableCommandsUpdate(acp::AvailableCommandsUpdate::new(all.collect()))
}

async fn send(peer: &Peer, session: &Session) {
    let id = acp::SessionId::new(session.id.as_str());
    _ = peer.update(&acp::SessionNotification::new(id, update())).await;
}

/// Sends the commands a moment after the response that names the session, if it is still open then.
pub fn announce(_: &App, session: &Arc<Session>, call: &Call) {
    let (peer, session) = (call.peer.clone(), Arc::downgrade(session));
    call.after_response(async move {
        tokio::time::sleep(AFTER).await;
        if let Some(session) = session.upgrade() {
            send(&peer, &session).await;
        }
    });
}

/// Sends them again in the first turn, for clients that lost them.
pub async fn repeat(session: &Session, call: &Call) {
    if session.first_turn() {
        send(&call.peer, session).await;
    }
}

/// `/name rest` of a prompt.
fn parse(parts: &[Part]) -> Option<(&str, &str)> {
    let Some(Part::Text { text }) = parts.first() else { return None };
    let line = text.trim_start().strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    COMMANDS.iter().any(|c| c.name == name).then_some((name, rest.trim()))
}

/// What a command works on.
pub struct At<'a> {
    pub session: &'a Arc<Session>,
    pub editor: &'a AcpEditor,
    pub journal: &'a mut Journal,
    pub cancel: &'a CancellationToken,
}

/// Runs a command that needs no model. `None`: the prompt goes to the model.
pub async fn run(at: At<'_>, parts: &[Part]) -> Option<acp::PromptResponse> {
    let (name, rest) = parse(parts)?;
    let At { session, editor, journal, cancel } = at;
    let mut kept = Vec::new();
    let text = match name {
        "undo" | "rewind" => match target(name, rest) {
            Ok(Some((target, keep_files))) => {
                let undo = Undo { session, journal, editor, cancel, keep_files };
                let undone = undo.run(&target).await;
                kept = undone.entries;
                undone.text
            }
            Ok(None) => prompts(&undo::goals(journal.entries())),
            Err(text) => text,
        },
        "help" => help(),
        // No turn runs that could be told: it is a prompt.
        "steer" if rest.is_empty() => "Write behind `/steer` what the running turn should know.".into(),
        "mode" => mode(session, rest),
        "model" => model(session, rest),
        "effort" => effort(session, rest),
        "usage" => usage(session, journal.entries()),
        _ => return None,
    };
    // The prompt stands in front of what it led to, as it does on the screen.
    kept.insert(0, typed(parts.to_vec()));
    say(session, journal, editor, kept, text).await;
    if matches!(name, "mode" | "model" | "effort") && !rest.is_empty() {
        config::remember(session, editor.quirks());
        editor.update(&session.id, Update::Settings).await;
    }
    Some(acp::PromptResponse::new(acp::StopReason::EndTurn))
}

/// A command as it was typed: shown at load, never sent to a model.
fn typed(parts: Vec<Part>) -> Entry {
    Entry::User { id: MessageId::new(), parts, state: PromptState::Local, volatile: None }
}

async fn say(session: &Session, journal: &mut Journal, editor: &AcpEditor, first: Vec<Entry>, text: String) {
    let id = MessageId::new();
    let (mut kept, mut text) = (first, text);
    let rewinds = kept.iter().any(|e| matches!(e, Entry::Rewind { .. }));
    kept.push(Entry::Said { id: id.clone(), text: text.clone() });
    if let Err(e) = journal.append(kept).await {
        tracing::warn!("a command was not kept: {e}");
        if rewinds {
            text = format!("The files are restored, but the conversation could not be taken back: {e}");
        }
    }
    editor.update(&session.id, Update::Text { id, text }).await;
}

/// What `/compact [focus]` is to dwell on, which may be empty; `None`: the prompt is another.
pub fn compaction(parts: &[Part]) -> Option<String> {
    parse(parts).filter(|(name, _)| *name == "compact").map(|(_, focus)| focus.to_owned())
}

/// `/compact [focus]`: the one command that asks a model and is no turn.
pub async fn compact(
    session: &Session,
    journal: &mut Journal,
    editor: &AcpEditor,
    cancel: &CancellationToken,
    parts: Vec<Part>,
    focus: &str,
) -> Result<acp::PromptResponse, acp::Error> {
    let model = session.settings().model;
    let provider =
        session.models.provider(model.as_deref()).map_err(|e| prompt::error(e.into(), editor.caps()))?;
    journal.append(vec![typed(parts)]).await.map_err(|e| prompt::not_kept(&e))?;
    let compaction = Compaction { session, journal, editor, cancel, provider };
    let outcome = compaction.asked(focus).await.map_err(|e| prompt::not_kept(&e))?;
    say(session, journal, editor, vec![], format!("Compacting the conversation: {}", outcome.words())).await;
    let cancelled = outcome == Outcome::Cancelled || cancel.is_cancelled();
    let stop = if cancelled { acp::StopReason::Cancelled } else { acp::StopReason::EndTurn };
    Ok(acp::PromptResponse::new(stop))
}

/// How far `/undo` and `/rewind` go, and whether the files stay. `None`: the prompts are to be listed.
fn target(name: &str, rest: &str) -> Result<Option<(Target, bool)>, String> {
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let keep_files = words.contains(&"keep-files");
    words.retain(|w| *w != "keep-files");
    match (name, words.as_slice()) {
        ("undo", []) => Ok(Some((Target::Last(1), keep_files))),
        ("rewind", []) => Ok(None),
        ("rewind", [one]) => Ok(Some(match one.parse() {
            Ok(n) => (Target::Last(n), keep_files),
            Err(_) => (Target::Message((*one).into()), keep_files),
        })),
        _ => Err(format!(
            "`/{name}` takes {}.",
            match name {
                "undo" => "nothing, or `keep-files`",
                _ => "a number or the id of a prompt, then perhaps `keep-files`",
            }
        )),
    }
}

/// The prompts that `/rewind` can go back to.
fn prompts(goals: &[Goal]) -> String {
    if goals.is_empty() {
        return "There is no prompt to go back to.".into();
    }
    let lines = goals.iter().take(50).enumerate();
    let lines = lines.map(|(i, g)| format!("{}. {} (`{}`)\n", i + 1, g.title, g.id)).collect::<String>();
    format!("Prompts, the newest first; `/rewind N` goes back to before it:\n{lines}")
}

fn help() -> String {
    let mut out = String::from("Commands:\n");
    for c in COMMANDS {
        let hint = c.hint.map(|h| format!(" *{h}*")).unwrap_or_default();
        out.push_str(&format!("- `/{}`{hint}: {}\n", c.name, c.description));
    }
    out
}

fn mode(session: &Session, rest: &str) -> String {
    let now = session.settings().mode;
    if rest.is_empty() {
        return format!("The mode is `{}`: {}.", now.id(), now.description());
    }
    match Mode::from_id(rest) {
        Some(mode) => {
            session.set(|s| s.mode = mode);
            session.keep.settings(&session.id, &session.settings());
            format!("The mode is now `{}`: {}.", mode.id(), mode.description())
        }
        None => format!("There is no mode `{rest}`. Modes: {}.", Mode::ALL.map(Mode::id).join(", ")),
    }
}

fn model(session: &Session, rest: &str) -> String {
    let known: Vec<String> = session.models.choices().into_iter().map(|m| m.id).collect();
    if rest.is_empty() {
        let now = session.settings().model.or_else(|| session.models.default_id());
        let now =
            now.map_or_else(|| "No model is configured.".to_owned(), |m| format!("The model is `{m}`."));
        return format!("{now} Known: {}.", known.join(", "));
    }
    // An id has no blanks in it, unless a provider lists one that has.
    if rest.contains(char::is_whitespace) && !known.iter().any(|id| id == rest) {
        return format!("`/model` takes one model, not `{rest}`. Known: {}.", known.join(", "));
    }
    match config::set_model(session, "model", rest) {
        Ok(set) => match set.note {
            Some(note) => format!("The model is now `{rest}`. {note}"),
            None => format!("The model is now `{rest}`."),
        },
        Err(e) => format!("{} Known: {}.", e.message, known.join(", ")),
    }
}

fn effort(session: &Session, rest: &str) -> String {
    let info = config::current(session).unwrap_or_default();
    if info.efforts.is_empty() {
        return "Of this model no efforts of thinking are known.".into();
    }
    let known = format!("`{}`, {}", config::DEFAULT, info.efforts.join(", "));
    if rest.is_empty() {
        let now = config::effort(&session.settings(), &info);
        return format!("The effort of thinking is `{now}`. It can be {known}.");
    }
    match config::set_effort(session, "effort", rest) {
        Ok(_) => format!("The effort of thinking is now `{rest}`."),
        Err(_) => format!("There is no effort `{rest}`. It can be {known}."),
    }
}

/// `/usage`.
fn usage(session: &Session, entries: &[Stored]) -> String {
    let spent = Spent::of(entries);
    let mut out = format!("This session: {}.\n", words(&spent.total()));
    if spent.side != Usage::default() {
        out.push_str(&format!(
            "- in its turns: {}\n- beside them (titles, summaries): {}\n",
            words(&spent.turns),
            words(&spent.side)
        ));
    }
    if let Some(last) = of_last_turn(entries) {
        out.push_str(&format!("- last turn: {}\n", words(&last)));
    }
    let info: ModelInfo = config::current(session).unwrap_or_default();
    let of = |n: Option<u64>, what: &str| {
        n.map_or_else(|| format!("{what} not known"), |n| format!("{what} {n} tokens"))
    };
    out.push_str(&format!(
        "- the model `{}`: {}, {}, ",
        info.id,
        of(info.context, "window"),
        of(info.output, "replies up to")
    ));
    out.push_str(&match info.price {
        Some(p) => format!("${} for a million tokens in, ${} out", p.input, p.output),
        None => "price not known".into(),
    });
    out + "\n"
}

/// What a command that is a prompt tells the model. The person's own words stay as they are.
pub fn meaning(parts: &[Part]) -> Option<String> {
    let (name, rest) = parse(parts)?;
    let about = if rest.is_empty() {
        "the code at hand (what is selected, attached or was last spoken of)"
    } else {
        rest
    };
    let text = match name {
        "steer" if !rest.is_empty() => rest.to_owned(),
        "plan" => format!(
            "Make a plan, with the `todo` tool, for this task. Read what you need; change nothing yet.\n\nTask: {about}"
        ),
        "review" => format!(
            "Review the uncommitted changes of this project (`git diff`, `git status`). Name real faults first, with file and line, then smaller remarks. Change nothing. Look at: {about}"
        ),
        "explain" => format!(
            "Explain this code: what it does, why, and what a reader should know. Change nothing. About: {about}"
        ),
        "fix" => format!(
            "Find the cause of this problem and fix it; check the fix by running what the project has. Problem: {about}"
        ),
        "test" => {
            format!("Write or extend tests for this in the project's own style, and run them. About: {about}")
        }
        _ => return None,
    };
    Some(format!("[`/{name}` means]\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_back() {
        let last = |n, keep| Ok(Some((Target::Last(n), keep)));
        assert_eq!(target("undo", ""), last(1, false));
        assert_eq!(target("undo", "keep-files"), last(1, true));
        assert_eq!(target("rewind", ""), Ok(None));
        assert_eq!(target("rewind", "3 keep-files"), last(3, true));
        assert_eq!(target("rewind", "m_1"), Ok(Some((Target::Message("m_1".into()), false))));
        assert!(target("undo", "3").is_err() && target("rewind", "1 2").is_err());
    }
}
