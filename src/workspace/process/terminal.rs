//! One command in a terminal of the editor: outside the sandbox and outside our process tree, so that all which is
//! promised of it is what `terminal/*` promises.
use super::{Collector, Shell, environment, failed, may_export};
use crate::{
    effects::Command,
    log::Exit,
    workspace::{
        OutputSink, Ran, WsError,
        freshness::lock,
        terminals::{Screen, Start, Terminal, TerminalError, Terminals},
    },
};
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How much output the editor is asked to keep, in bytes. What the model reads of it is bounded further.
const OUTPUT_LIMIT: u64 = 1024 * 1024;

const OUTSIDE: &str = "it ran in a terminal of the editor, outside the sandbox";
/// As much is read of a command's last folder and environment, in bytes.
const STATE_LIMIT: u64 = 512 * 1024;

/// How the wait for a command ended.
enum End {
    Exited(Exit),
    TimedOut,
    Cancelled,
    /// The editor gave an error instead of the end.
    Lost(String),
}

impl Shell {
    /// Runs a command in a terminal of the editor, which is released whatever happens.
    pub(in crate::workspace) async fn run_in_editor(
        &self,
        terminals: &dyn Terminals,
        command: &Command,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> Result<Ran, WsError> {
        self.check(command)?;
        let script = self.script(command).await?;
        let start = self.start(command, &script.file(SCRIPT));
        let started = Instant::now();
        let create = terminals.create(start);
        let terminal = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(WsError::Cancelled),
            created = create => created.map_err(|e| not_started(command, &e))?,
        };
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => End::Cancelled,
            end = async {
                // The card names the terminal before it is released: then the editor keeps what it shows.
                sink.attach(terminal.id()).await;
                match terminal.wait(command.timeout).await {
                    Ok(exit) => End::Exited(exit),
                    Err(TerminalError::Timeout) => End::TimedOut,
                    Err(TerminalError::Failed(why)) => End::Lost(why),
                }
            } => end,
        };
        let mut ran = Ran { sandbox: "off", notes: vec![OUTSIDE.into()], ..Ran::default() };
        let screen = close(terminal, &end, &mut ran.notes).await;
        ran.took = started.elapsed();
        let exited = matches!(end, End::Exited(_));
        let mut ran =
            self.conclude_terminal(end, screen, ran).await.map_err(|why| failed(&command.cwd, why))?;
        if exited {
            let read = move || (script.read(GIVEN), script.read(STATE));
            let (given, state) = tokio::task::spawn_blocking(read).await.unwrap_or_default();
            // Only what its shell said of its own beginning tells what the command changed.
            let given = environment::parse_state(&format!("/\n\0{given}")).and_then(|(_, env)| env);
            let state = if given.is_some() { &*state } else { state.split('\0').next().unwrap_or("") };
            self.carry(command, &given.unwrap_or_default(), state, &mut ran);
        }
        Ok(ran)
    }

    async fn conclude_terminal(&self, end: End, screen: Screen, mut ran: Ran) -> Result<Ran, String> {
        if screen.truncated {
            ran.notes.push("the editor kept only the end of the output".into());
        }
        (ran.timed_out, ran.cancelled) = (matches!(end, End::TimedOut), matches!(end, End::Cancelled));
        let seen = screen.exit.unwrap_or_default();
        ran.exit = match end {
            End::Exited(exit) if exit != Exit::default() => exit,
            End::Lost(why) => {
                ran.notes.push(format!("the editor did not tell how it ended: {why}"));
                seen
            }
            _ => seen,
        };
        let collector = Mutex::new(Collector::new(self.spill_path()));
        let text = self.settings.secrets.text(&screen.output).into_owned();
        let render = move || {
            let mut collector = lock(&collector);
            collector.push(text.as_bytes());
            collector.finish();
            collector.render()
        };
        (ran.output, ran.spilled) = tokio::task::spawn_blocking(render).await.map_err(|e| e.to_string())?;
        Ok(ran)
    }

    /// The command's text in a file. Editors differ in what they make of program and arguments: some execute them, some
    /// join them with blanks for a shell (Zed, ACP Client for VS Code). A shell and one plain path mean the same to both.
    async fn script(&self, command: &Command) -> Result<Script, WsError> {
        let folders = [Some(self.guard.session_folder()), self.temp()];
        let Some(folder) = folders.into_iter().flatten().find(|f| plain(f)).map(Path::to_path_buf) else {
            let why = "its script has no folder with a plain name: set TMPDIR to one, or `terminal.backend` to \"agent\"";
            return Err(failed(&command.cwd, why));
        };
        let (text, exports) = (command.text.clone(), may_export(command));
        let unset = lock(&self.carried).unset();
        let write = move || -> std::io::Result<Script> {
            let script = Script(tempfile::Builder::new().prefix("command-").tempdir_in(folder)?);
            std::fs::write(script.file(SCRIPT), script.text(&text, exports, &unset))?;
            Ok(script)
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(|e| failed(&command.cwd, e))?;
        written.map_err(|e| failed(&command.cwd, e))
    }

    fn start(&self, command: &Command, script: &Path) -> Start {
        Start {
            program: self.program.display().to_string(),
            arguments: vec![script.display().to_string()],
            env: environment::in_editor(self.base(), &lock(&self.carried), command.verdict, &command.text),
            cwd: command.cwd.as_path().to_path_buf(),
            output_limit: OUTPUT_LIMIT,
        }
    }
}

/// Files of a [`Script`]: what runs, its environment at the beginning, its folder and environment at the end.
const SCRIPT: &str = "command.sh";
const GIVEN: &str = "given";
const STATE: &str = "state";

/// A command's text in a folder of its own, where its shell also leaves what later commands start from.
#[derive(Debug)]
struct Script(TempDir);

impl Script {
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command, and around it what the shell writes down. The folder's path is plain.
    fn text(&self, command: &str, exports: bool, unset: &[String]) -> String {
        let (given, state) = (self.file(GIVEN), self.file(STATE));
        let mut text: String = unset.iter().map(|name| format!("unset -v {name}\n")).collect();
        let last = if exports {
            text += &format!("command -p env -0 2>/dev/null >{}\n", given.display());
            super::ENVIRONMENT
        } else {
            ""
        };
        text + &format!("trap '{{ command pwd; {last} }} 2>/dev/null >{}' EXIT\n{command}\n", state.display())
    }

    fn read(&self, name: &str) -> String {
        let mut text = String::new();
        let Ok(file) = std::fs::File::open(self.file(name)) else { return text };
        // Half an environment is none.
        match file.take(STATE_LIMIT).read_to_string(&mut text) {
            Ok(size) if (size as u64) < STATE_LIMIT => text,
            _ => String::new(),
        }
    }
}

/// What the terminal shows in the end, and its release.
async fn close(terminal: Box<dyn Terminal>, end: &End, notes: &mut Vec<String>) -> Screen {
    if !matches!(end, End::Exited(_))
        && let Err(e) = terminal.kill().await
    {
        notes.push(format!("the editor could not end it ({e}); the release of its terminal should"));
    }
    let screen = terminal.output().await.unwrap_or_else(|e| {
        notes.push(format!("the editor did not give its output: {e}"));
        Screen::default()
    });
    if let Err(e) = terminal.release().await {
        notes.push(format!("the editor did not release its terminal: {e}"));
    }
    screen
}

fn not_started(command: &Command, error: &TerminalError) -> WsError {
    let why = match error {
        TerminalError::Timeout => "it did not answer in time. If the command starts yet, it is ended".into(),
        TerminalError::Failed(why) => why.clone(),
    };
    WsError::Editor { what: "start a terminal in", path: command.cwd.to_string(), why }
}

/// Whether a path is one word to every shell.
fn plain(path: &Path) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    path.to_str().is_some_and(|p| p.chars().all(plain))
}

#[cfg(test)]
mod tests;
