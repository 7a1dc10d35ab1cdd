//! `exec`: one task in a folder, for people and for scripts.
use super::{
    Exit,
    args::ExecArgs,
    client::{self, Answers, ClientError, JsonLines, Launch, Person, Show, Style, Task, View},
    say,
};
use std::{
    io::{self, IsTerminal, Read},
    path::PathBuf,
};

/// Runs the task; errors are told on stderr.
pub fn exec(args: &ExecArgs) -> Exit {
    let task = match task(args) {
        Ok(task) => task,
        Err(why) => {
            say(&mut io::stderr(), &format!("hermes-editor: {why}\n"));
            return Exit::Usage;
        }
    };
    let launch = match Launch::own() {
        Ok(launch) => launch,
        Err(e) => return report(&e),
    };
    let terminal = io::stdout().is_terminal();
    if args.json {
        let asking = View::new(io::stderr(), Style::of(io::stderr().is_terminal()), &task.cwd);
        let mut show = JsonLines::new(io::stdout(), asking);
        perform(&launch, &task, &mut show, answers(args.yes, io::stderr().is_terminal()))
    } else {
        let mut show = View::new(io::stdout(), Style::of(terminal), &task.cwd);
        perform(&launch, &task, &mut show, answers(args.yes, terminal))
    }
}

/// Who answers, where questions go to a terminal or not.
pub(super) fn answers(yes: bool, shown_on_terminal: bool) -> Answers {
    match (yes, io::stdin().is_terminal() && shown_on_terminal) {
        (true, _) => Answers::Yes,
        (false, true) => Answers::Person,
        (false, false) => Answers::Nobody,
    }
}

/// Runs the client to its end and tells what went wrong.
pub(super) fn perform(launch: &Launch, task: &Task, show: &mut dyn Show, answers: Answers) -> Exit {
    if answers == Answers::Nobody {
        let note =
            "hermes-editor: no terminal to ask on: questions will be answered with no (--yes allows)\n";
        say(&mut io::stderr(), note);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return report(&ClientError::Start(e)),
    };
    let result = runtime.block_on(async { client::run(launch, task, show, Person::here(answers)).await });
    show.end(&result);
    match result {
        Ok(stop) if stop == "end_turn" => Exit::Good,
        Ok(stop) if stop == "cancelled" => Exit::Cancelled,
        Ok(_) => Exit::Failed,
        Err(ClientError::Interrupted) => Exit::Cancelled,
        // Whoever read our output has left: there is nobody to tell.
        Err(ClientError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Failed,
        // On one screen it is not said twice; a script that reads the one stream alone needs it there.
        Err(ClientError::Server { message, data, .. }) if on_screen() && show.has_told(&message) => {
            if let Some(hint) =
                data.as_ref().and_then(|d| d["hint"].as_str()).filter(|h| !message.contains(h))
            {
                say(&mut io::stderr(), &format!("  {hint}\n"));
            }
            Exit::Failed
        }
        Err(e) => report(&e),
    }
}

/// Both of our streams are a terminal.
fn on_screen() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

fn report(e: &ClientError) -> Exit {
    let mut text = format!("hermes-editor: {e}\n");
    // Some errors end with their hint already.
    if let Some(hint) = e.hint().filter(|hint| !text.contains(hint)) {
        text.push_str(&format!("  {hint}\n"));
    }
    say(&mut io::stderr(), &text);
    match e {
        // What was asked for on the command line is not there.
        ClientError::Choice(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}

fn task(args: &ExecArgs) -> Result<Task, String> {
    let cwd = args.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let cwd = std::path::absolute(&cwd).map_err(|e| format!("{}: {e}", cwd.display()))?;
    if !cwd.is_dir() {
        return Err(format!("{} is not a folder", cwd.display()));
    }
    let cwd = std::fs::canonicalize(&cwd).unwrap_or(cwd);
    let mut prompt = args.prompt.clone();
    if prompt == "-" {
        prompt.clear();
        let read = io::stdin().read_to_string(&mut prompt);
        read.map_err(|e| format!("the prompt could not be read from standard input: {e}"))?;
    }
    if prompt.trim().is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    Ok(Task { cwd, prompt, model: args.model.clone(), mode: args.mode.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(prompt: &str, cwd: &str) -> ExecArgs {
        let cwd = Some(PathBuf::from(cwd));
        ExecArgs { prompt: prompt.to_owned(), cwd, yes: true, json: false, model: None, mode: None }
    }

    #[test]
    fn tasks_are_checked_before_anything_starts() {
        assert_eq!(task(&args(" ", "/")).unwrap_err(), "the prompt is empty");
        assert!(task(&args("x", "/no/such/folder")).unwrap_err().ends_with("is not a folder"));
        assert_eq!(task(&args("x", "/.")).unwrap().cwd, PathBuf::from("/"));
    }
}
