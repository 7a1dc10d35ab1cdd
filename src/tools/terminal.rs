//! `terminal`: a shell command.
mod glob;
mod judge;
mod prompted;
mod repository;
mod wide;

use super::{Cx, Output, Progress, Tool, ToolError, display};
use crate::{
    effects::{Command, Effects, WsPath},
    log::{Shown, ToolKind},
    workspace::{OutputSink, Ran, Reader},
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt::Write as _, sync::Arc, time::Duration};

/// The time-out that a command gets when it names none.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The longest time-out.
const LONGEST: Duration = Duration::from_secs(600);

/// See the module.
pub struct Terminal {
    /// For commands that name none; at least this long is allowed.
    pub timeout: Duration,
}

impl Default for Terminal {
    fn default() -> Self {
        Terminal { timeout: TIMEOUT }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The command line, as for `bash -c`.
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    /// Seconds until it is killed. Default 120 unless the settings differ, at most 600.
    timeout: Option<f64>,
    /// The folder to run it in: absolute, or relative to the session's folder.
    #[serde(alias = "workdir", alias = "working_directory")]
    cwd: Option<String>,
    /// Let it go on in the background, e.g. a server: gives its first output and its number for `jobs`. No time-out. Default false.
    #[serde(default, alias = "run_in_background")]
    background: bool,
    /// Run it outside the sandbox: only for a command that the sandbox has stopped. The person is asked. Default false.
    #[serde(default)]
    unconfined: bool,
}

impl Args {
    fn timeout(&self, usual: Duration) -> Result<Duration, ToolError> {
        let longest = LONGEST.max(usual).as_secs_f64();
        match self.timeout {
            None => Ok(usual),
            Some(s) if s > 0.0 => Ok(Duration::from_secs_f64(s.clamp(0.1, longest))),
            Some(_) => Err(ToolError::BadArguments(format!(
                "`timeout` must be more than 0 seconds (at most {longest}); leave it out for {}, or use `background` for \
                 what does not end by itself",
                display::duration(usual)
            ))),
        }
    }
    /// The folder that it will start in.
    fn folder(&self, ws: &dyn Reader) -> Result<WsPath, ToolError> {
        let Some(cwd) = self.cwd.as_deref().map(str::trim).filter(|c| !c.is_empty()) else {
            return Ok(ws.resolve(&ws.cwd().to_string_lossy())?);
        };
        let path = ws.resolve(cwd)?;
        let shown = display::path(ws, &path);
        if !path.in_roots() {
            return Err(ToolError::BadArguments(format!(
                "`cwd`: {shown} is outside the workspace; leave it out and use absolute paths in the command"
            )));
        }
        match path.real() {
            p if p.is_dir() => Ok(path),
            p if p.exists() => Err(ToolError::BadArguments(format!("`cwd`: {shown} is not a folder"))),
            _ => Err(ToolError::BadArguments(format!("`cwd`: there is no folder {shown}"))),
        }
    }
}

#[async_trait]
impl Tool for Terminal {
    type Args = Args;
    const NAME: &'static str = "terminal";
    const KIND: ToolKind = ToolKind::Execute;
    const DOC: &'static str = include_str!("terminal.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        let place = match args.folder(ws).map(|p| display::path(ws, &p)) {
            Ok(shown) if shown != "." => format!(" in {}", display::one_line(&shown, 60)),
            _ => String::new(),
        };
        let place = if args.background { format!("{place} in the background") } else { place };
        let room = display::TITLE - place.chars().count() - "Run ``".len();
        format!("Run `{}`{place}", display::one_line(&args.command, room))
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        let first = args.command.split_whitespace().next();
        match first {
            None => return Err(ToolError::BadArguments("`command` is empty".into())),
            Some("apply_patch" | "applypatch") => {
                return Err(ToolError::BadArguments(
                    "`apply_patch` is a tool, not a command: call it with the patch text, so that the change is shown".into(),
                ));
            }
            Some(_) => {}
        }
        if args.command.contains('\0') {
            return Err(ToolError::BadArguments("`command` holds a NUL character".into()));
        }
        let cwd = args.folder(ws)?;
        let timeout = args.timeout(self.timeout)?;
        Ok(judge::effects(&args.command, cwd, timeout, (args.background, args.unconfined), ws).await)
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let Some(command) = &effects.runs else {
            return Err(ToolError::Failed("this command is not permitted".into()));
        };
        let unsaved: Vec<_> =
            cx.workspace.dirty().iter().map(|(p, _)| display::path(cx.workspace, p)).collect();
        let sink = Arc::new(Live(cx.progress.clone()));
        let ran = cx.workspace.run(command, sink, cx.cancel.clone()).await?;
        let shown = Shown::Terminal {
            id: cx.call.id.to_string(),
            output: ran.output.clone(),
            exit: ran.job.is_none().then(|| ran.exit.clone()),
            cwd: Some(command.cwd.as_path().to_owned()),
        };
        let failed = ran.waiting.is_some()
            || (ran.job.is_none() && ran.exit.code != Some(0))
            || ran.timed_out
            || ran.cancelled;
        let text = told(&args, command, &ran, &unsaved, cx.workspace);
        Ok(Output { shown: vec![shown], failed, denied: ran.denied.clone(), ..Output::text(text) })
    }
}

/// Hands the output on to the card as it comes.
struct Live(Arc<dyn Progress>);
impl OutputSink for Live {
    fn output(&self, bytes: &[u8]) {
        self.0.terminal(bytes);
    }
    fn attach(&self, terminal: &str) -> BoxFuture<'static, ()> {
        self.0.attach(terminal)
    }
}

/// What the model reads: the output, then one line on how it ended, then what it should know.
fn told(args: &Args, command: &Command, ran: &Ran, unsaved: &[String], ws: &dyn Reader) -> String {
    let mut out = match ran.output.trim_end() {
        "" => "(no output)".to_owned(),
        output => output.to_owned(),
    };
    let prompt = prompted::of(ran);
    let _ = write!(out, "\n\n[{}, {}", ended(command, ran), display::duration(ran.took));
    if !matches!(ran.sandbox, "" | "none" | "off") {
        let _ = write!(out, ", sandbox {}", ran.sandbox);
    }
    out.push(']');
    let mut note = |text: String| {
        let _ = write!(out, "\n[{text}]");
    };
    prompt.into_iter().for_each(&mut note);
    ran.notes.iter().for_each(|text| note(text.clone()));
    if !ran.leftovers.is_empty() {
        note(format!("processes that it left behind were ended: {}", ran.leftovers.join(", ")));
    }
    if let Some(why) = &ran.denied {
        note(format!("the sandbox seems to have stopped it: {why}"));
    }
    if let Some(path) = &ran.spilled {
        note(format!("the whole output is in {}: `read` takes it in parts", path.display()));
    }
    if let Some(cwd) = &ran.cwd {
        let shown = ws.resolve(&cwd.to_string_lossy()).map(|p| display::path(ws, &p));
        note(format!("the folder is now {}", shown.unwrap_or_else(|_| cwd.display().to_string())));
    }
    if args.timeout.is_some_and(|s| s > command.timeout.as_secs_f64()) && ran.timed_out {
        note(format!("`timeout` is in seconds and at most {}", command.timeout.as_secs()));
    }
    if !unsaved.is_empty() {
        let names = unsaved.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if unsaved.len() > 5 { format!(" and {} more", unsaved.len() - 5) } else { String::new() };
        note(format!("the command did not see unsaved changes in the editor: {names}{more}"));
    }
    out
}

fn ended(command: &Command, ran: &Ran) -> String {
    if let Some(job) = ran.job {
        return format!("goes on in the background as job {job}: `jobs` reads its output and stops it");
    }
    if ran.timed_out {
        let limit = display::duration(command.timeout);
        return format!("timed out after {limit} and was killed with everything it started");
    }
    if let Some(who) = &ran.waiting {
        return format!("ended, since it waited for somebody to type ({who})");
    }
    if ran.cancelled {
        return "stopped by the user".into();
    }
    match (&ran.exit.code, &ran.exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by {signal}"),
        (None, None) => "ended; its exit code is not known".into(),
    }
}

#[cfg(test)]
mod tests;
