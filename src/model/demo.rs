//! The scripted model behind `demo`: offline, without a key, and it says so first.
//!
//! It is a provider like any other and knows only what a model knows, the request. What it says next follows from the
//! results so far: a rejected edit or a test that still fails changes its words, never the other way round.
use super::{Delta, Finish, Message, ModelError, ModelInfo, Provider, Request};
use crate::log::Usage;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use std::time::Duration;

/// `provider/model` of the scripted model.
pub const ID: &str = "demo/scripted";
/// Milliseconds between two pieces of text, for people who watch; unset: none.
pub const PACE_VAR: &str = "HERMES_EDITOR_DEMO_PACE";

const TEST: &str = "sh test.sh";
const BROKEN: &str = "printf 'Hello %s\\n' \"$name\"";
const FIXED: &str = "printf 'Hello, %s!\\n' \"$name\"";
const STEPS: [&str; 4] =
    ["Read the script and its test", "Run the test", "Fix the script", "Run the test again"];

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Demo {
    pace: Duration,
}

impl Demo {
    /// With the pace of the environment.
    pub fn from_env() -> Self {
        let pace = std::env::var(PACE_VAR).ok().and_then(|v| v.parse().ok()).unwrap_or(0);
        Demo { pace: Duration::from_millis(pace.min(1000)) }
    }
}

impl Provider for Demo {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        let deltas = deltas(request);
        let pace = self.pace;
        let paced = stream::iter(deltas).then(move |delta| async move {
            if !pace.is_zero() && matches!(delta, Delta::Text(_)) {
                tokio::time::sleep(pace).await;
            }
            Ok(delta)
        });
        paced.boxed()
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: ID.into(),
            name: "Demo (scripted, no model)".into(),
            context: Some(32_000),
            ..ModelInfo::default()
        }
    }
}

/// What the script says and calls next.
#[derive(Debug, Default, PartialEq)]
struct Line {
    text: String,
    calls: Vec<(&'static str, Value)>,
}

impl Line {
    fn say(text: impl Into<String>) -> Self {
        Line { text: text.into(), calls: Vec::new() }
    }
    fn call(mut self, name: &'static str, args: Value) -> Self {
        self.calls.push((name, args));
        self
    }
    /// With the plan: `done` steps are behind it.
    fn plan(self, done: usize) -> Self {
        let status = |n: usize| match n {
            n if n < done => "completed",
            n if n == done => "in_progress",
            _ => "pending",
        };
        let todos: Vec<Value> = STEPS
            .iter()
            .enumerate()
            .map(|(n, step)| json!({ "content": step, "status": status(n) }))
            .collect();
        self.call("todo", json!({ "todos": todos }))
    }
}

/// A result that the script looks at.
struct Seen<'a> {
    name: &'a str,
    text: &'a str,
    failed: bool,
}

/// The results of this run: since the last prompt.
fn results(messages: &[Message]) -> Vec<Seen<'_>> {
    let start = messages.iter().rposition(|m| matches!(m, Message::User { .. })).map_or(0, |n| n + 1);
    let seen = |m| match m {
        &Message::Result { ref name, ref text, failed, .. } => Some(Seen { name, text, failed }),
        _ => None,
    };
    messages[start..].iter().filter_map(seen).collect()
}

/// How a run of the test ended.
enum Test {
    Passed,
    Failed,
    /// It was not run: rejected, or no shell.
    NotRun,
}

fn test(seen: &Seen<'_>) -> Test {
    match (seen.failed, seen.text.contains("FAIL: "), seen.text.contains("pass: ")) {
        (false, false, true) => Test::Passed,
        (_, true, _) => Test::Failed,
        _ => Test::NotRun,
    }
}

/// Why a call did nothing, for the person: what the result tells the model to do next is not for them.
fn reason(text: &str) -> String {
    if text.contains("rejected") { "it was rejected".to_owned() } else { first_line(text) }
}

/// The first line of a result, for the person.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("no reason was given");
    line.chars().take(200).collect()
}

fn next(request: &Request) -> Line {
    if request.tools.is_empty() {
        return Line::say("The script ends here: it may call no more tools.");
    }
    let seen = results(&request.messages);
    let work: Vec<&Seen<'_>> = seen.iter().filter(|s| s.name != "todo").collect();
    match work.as_slice() {
        [] if seen.is_empty() => opening(),
        [] => Line::default()
            .call("read", json!({ "path": "greet.sh" }))
            .call("read", json!({ "path": "test.sh" })),
        [.., last] if last.name == "read" => after_reads(&work),
        [.., last] if last.name == "terminal" => {
            let edited = work.iter().any(|s| s.name == "edit");
            let closed = seen.last().is_some_and(|s| s.name == "todo");
            if edited { after_second_test(last, closed) } else { after_first_test(last) }
        }
        [.., last] if last.name == "edit" => after_edit(last),
        [.., last] => Line::say(format!("The script knows no tool called {}; it ends here.", last.name)),
    }
}

fn opening() -> Line {
    let text = "This is a scripted demonstration: no model is asked, the words are fixed. The tools, the questions \
                and the results are real.\n\nI am to make the test pass. First I look at the script and its test, \
                then I run the test.";
    Line::say(text).plan(0)
}

fn after_reads(work: &[&Seen<'_>]) -> Line {
    match work.iter().find(|s| s.failed) {
        Some(missing) => Line::say(format!(
            "I could not read the sample project: {}\n\nThe script only knows the project that \
             `hermes-editor demo` makes. For your own work, choose a model.",
            first_line(missing.text)
        )),
        None => Line::say("Both files are short. Now the test, to see what is wrong.")
            .call("terminal", json!({ "command": TEST })),
    }
}

fn after_first_test(ran: &Seen<'_>) -> Line {
    match test(ran) {
        Test::Passed => Line::say("The test passes already, so there is nothing to change."),
        Test::Failed => Line::say(
            "The test wants a comma after \"Hello\" and an exclamation mark at the end; the script prints \
             neither. One line has to change.",
        )
        .call("edit", json!({ "path": "greet.sh", "old_text": BROKEN, "new_text": FIXED })),
        Test::NotRun => Line::say(format!(
            "The test did not run ({}), so I do not know what is wrong and change nothing.",
            reason(ran.text)
        )),
    }
}

fn after_edit(edit: &Seen<'_>) -> Line {
    if edit.failed {
        let why = reason(edit.text);
        return Line::say(format!(
            "The edit was not made ({why}), so nothing changed: the test still fails. Start the demo again to \
             allow it."
        ));
    }
    Line::say("The line is changed. Whether that was all, the test has to say.")
        .call("terminal", json!({ "command": TEST }))
}

fn after_second_test(ran: &Seen<'_>, closed: bool) -> Line {
    match (test(ran), closed) {
        (Test::Passed, false) => Line::default().plan(STEPS.len()),
        (Test::Passed, true) => Line::say(
            "The test passes. I changed one line of `greet.sh`: it now prints the comma and the exclamation \
             mark that the test asks for.",
        ),
        (Test::Failed, _) => {
            Line::say("The line is changed, but the test still fails; see its output above.")
        }
        (Test::NotRun, _) => Line::say(format!(
            "The line is changed, but the test did not run again ({}): whether it passes now is not known.",
            reason(ran.text)
        )),
    }
}

/// The next line in the small pieces that a model sends.
fn deltas(request: &Request) -> Vec<Delta> {
    let line = next(request);
    let pieces = line.text.split_inclusive(' ').map(|word| Delta::Text(word.to_owned()));
    let mut out: Vec<Delta> = pieces.collect();
    let step = request.messages.len();
    out.extend(line.calls.iter().enumerate().map(|(n, (name, args))| Delta::Call {
        provider_id: Some(format!("demo-{step}-{n}")),
        name: (*name).into(),
        args: args.to_string(),
        native: None,
    }));
    let output = out.len() as u64;
    out.push(Delta::Usage(Usage { input: 40 * step as u64, output, ..Usage::default() }));
    out.push(Delta::End(if line.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Part, ToolSpec};

    fn request(results: &[(&str, &str, bool)]) -> Request {
        let prompt = Message::User { parts: vec![Part::Text { text: "go".into() }] };
        let results = results.iter().map(|&(name, text, failed)| Message::Result {
            provider_id: "x".into(),
            name: name.into(),
            text: text.into(),
            images: vec![],
            failed,
        });
        let tool = ToolSpec { name: "read".into(), description: String::new(), schema: json!({}) };
        Request {
            model: "scripted".into(),
            system: "".into(),
            tools: vec![tool].into(),
            messages: std::iter::once(prompt).chain(results).collect(),
            effort: None,
            max_output: None,
            cache_key: "s".into(),
        }
    }

    const PLAN: (&str, &str, bool) = ("todo", "ok", false);
    const READ: (&str, &str, bool) = ("read", "1 text", false);
    const RED: (&str, &str, bool) = ("terminal", "FAIL: expected 'a', got 'b'\nexit code 1", true);
    const GREEN: (&str, &str, bool) = ("terminal", "pass: a\npass: b", false);
    const REJECTED: (&str, &str, bool) = ("terminal", "The user rejected this call.", true);
    const EDIT: (&str, &str, bool) = ("edit", "changed", false);

    #[test]
    fn each_line_follows_from_the_results() {
        let cases: &[(&[_], &[&str], &str)] = &[
            (&[], &["todo"], "scripted demonstration"),
            (&[PLAN], &["read", "read"], ""),
            (&[PLAN, READ, READ], &["terminal"], "Now the test"),
            (
                &[PLAN, READ, ("read", "no such file", true)],
                &[],
                "could not read the sample project: no such file",
            ),
            (&[PLAN, READ, READ, RED], &["edit"], "One line has to change"),
            (&[PLAN, READ, READ, GREEN], &[], "passes already"),
            (&[PLAN, READ, READ, REJECTED], &[], "did not run (it was rejected)"),
            (&[PLAN, READ, READ, RED, EDIT], &["terminal"], "The line is changed"),
            (
                &[PLAN, READ, READ, RED, ("edit", "no", true)],
                &[],
                "edit was not made (no), so nothing changed",
            ),
            (&[PLAN, READ, READ, RED, EDIT, GREEN], &["todo"], ""),
            (&[PLAN, READ, READ, RED, EDIT, GREEN, PLAN], &[], "The test passes. I changed one line"),
            (&[PLAN, READ, READ, RED, EDIT, RED], &[], "still fails"),
            (&[PLAN, READ, READ, RED, EDIT, REJECTED], &[], "whether it passes now is not known"),
        ];
        for (results, calls, words) in cases {
            let line = next(&request(results));
            let names: Vec<&str> = line.calls.iter().map(|(name, _)| *name).collect();
            assert_eq!((&names[..], line.text.contains(words)), (*calls, true), "{results:?}: {}", line.text);
        }
    }

    #[test]
    fn every_reply_ends_once_and_without_tools_it_only_speaks() {
        for n in 0..3 {
            let deltas = deltas(&request(&[PLAN, READ, READ][..n]));
            let ends = deltas.iter().filter(|d| matches!(d, Delta::End(_))).count();
            assert!(ends == 1 && matches!(deltas.last(), Some(Delta::End(Finish::ToolCalls))));
        }
        let last_word = Request { tools: vec![].into(), ..request(&[]) };
        assert_eq!(next(&last_word).calls, vec![]);
    }

    #[test]
    fn the_script_fits_the_sample_project() {
        let script = include_str!("../../fixtures/workspaces/demo/greet.sh");
        assert_eq!(script.matches(BROKEN).count(), 1, "the edit is exact and unique");
        assert!(!script.contains(FIXED));
    }
}
