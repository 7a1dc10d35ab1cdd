//! `jobs`: the commands that run in the background.
use super::{Cx, Output, Tool, ToolError, display};
use crate::{
    effects::Effects,
    log::{Exit, ToolKind},
    workspace::{Ran, Reader, jobs::JobStatus},
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// See the module.
pub struct Jobs;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What to do. Default `list`.
    #[serde(default)]
    action: Action,
    /// The number of the job, for `read` and `stop`.
    #[serde(alias = "job", alias = "job_id")]
    id: Option<u32>,
    /// `read`: how many seconds to wait where there is no new output yet and the job runs. Default 10, at most 120.
    #[serde(default)]
    wait_s: Option<u32>,
}

/// How long `read` waits for output, where it is not told.
const WAIT: u32 = 10;
const LONGEST_WAIT: u32 = 120;
/// Between two looks at a job.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    List,
    Read,
    Stop,
}

#[async_trait]
impl Tool for Jobs {
    type Args = Args;
    const NAME: &'static str = "jobs";
    const KIND: ToolKind = ToolKind::Other;
    const DOC: &'static str = include_str!("jobs.md");

    fn title(&self, args: &Args, _: &dyn Reader) -> String {
        match (args.action, args.id) {
            (Action::Read, Some(id)) => format!("Read job {id}"),
            (Action::Stop, Some(id)) => format!("Stop job {id}"),
            _ => "List jobs".into(),
        }
    }

    async fn plan(&self, args: &Args, _: &dyn Reader) -> Result<Effects, ToolError> {
        match (args.action, args.id) {
            (Action::Read | Action::Stop, None) => Err(ToolError::BadArguments(
                "`id` is missing: the number of the job, as `list` gives it".into(),
            )),
            _ => Ok(Effects::default()),
        }
    }

    async fn run(&self, args: Args, _: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let Some(jobs) = cx.workspace.jobs() else {
            return Ok(Output::text("no command was started in the background"));
        };
        let found = match (args.action, args.id) {
            (Action::Read, Some(id)) => {
                let wait = args.wait_s.unwrap_or(WAIT).min(LONGEST_WAIT);
                let read = || jobs.read(id);
                news(read, Duration::from_secs(wait.into())).await
            }
            (Action::Stop, Some(id)) => jobs.stop(id).await,
            _ => return Ok(Output::text(listed(&jobs.list()))),
        };
        match found {
            Some((output, status)) => Ok(Output::text(told(&output, &status))),
            None => {
                Err(ToolError::Failed(format!("there is no job with that number. {}", listed(&jobs.list()))))
            }
        }
    }
}

/// Reads until there is output, the job has ended, or the time is over. A reading takes the output: none is lost,
/// because it ends with the first that has some.
async fn news(read: impl Fn() -> Option<(String, JobStatus)>, wait: Duration) -> Option<(String, JobStatus)> {
    let until = Instant::now() + wait;
    loop {
        let (output, status) = read()?;
        if !output.trim().is_empty() || status.ended.is_some() || Instant::now() >= until {
            return Some((output, status));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn listed(jobs: &[JobStatus]) -> String {
    if jobs.is_empty() {
        return "no command was started in the background".into();
    }
    let line = |job: &JobStatus| {
        format!("job {}: {}, `{}`", job.id, state(job), display::one_line(&job.command, 200))
    };
    jobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn told(output: &str, job: &JobStatus) -> String {
    let output = match output.trim_end() {
        "" => "(no output since the last reading)",
        output => output,
    };
    format!("{output}\n\n[job {}: {}]", job.id, state(job))
}

fn state(job: &JobStatus) -> String {
    match &job.ended {
        None => format!("running for {}", display::duration(job.running_for)),
        Some(Err(why)) => format!("failed: {why}"),
        Some(Ok(Ran { cancelled: true, .. })) => "stopped".into(),
        Some(Ok(Ran { exit: Exit { code: Some(code), .. }, took, .. })) => {
            format!("ended after {} with exit code {code}", display::duration(*took))
        }
        Some(Ok(Ran { exit: Exit { signal: Some(signal), .. }, .. })) => format!("killed by {signal}"),
        Some(Ok(_)) => "ended; its exit code is not known".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reading_waits_for_output_or_the_end() {
        let looks = std::cell::Cell::new(0);
        let job = |output: &str, ended: bool| {
            let ended = ended.then(|| Ok(Ran::default()));
            let running_for = Duration::from_secs(1);
            Some((output.to_owned(), JobStatus { id: 1, command: "c".into(), running_for, ended }))
        };
        let at = |n: u32, then: Option<(String, JobStatus)>| {
            looks.set(looks.get() + 1);
            if looks.get() < n { job("", false) } else { then }
        };
        let wait = Duration::from_secs(10);
        let found = news(|| at(5, job("up\n", false)), wait).await;
        assert_eq!((found.unwrap().0.as_str(), looks.get()), ("up\n", 5));
        looks.set(0);
        assert!(news(|| at(3, job("", true)), wait).await.unwrap().1.ended.is_some());
        let start = Instant::now();
        assert_eq!(news(|| job("", false), wait).await.unwrap().0, "");
        assert!(start.elapsed() >= wait);
        assert!(news(|| None, wait).await.is_none());
    }

    #[test]
    fn a_job_says_how_it_is() {
        let job = |ended| JobStatus {
            id: 2,
            command: "npm run dev\n# all day".into(),
            running_for: Duration::from_secs(90),
            ended,
        };
        let exit = |code, signal: Option<&str>| {
            Some(Ok(Ran {
                exit: Exit { code, signal: signal.map(str::to_owned) },
                took: Duration::from_millis(1500),
                ..Ran::default()
            }))
        };
        assert_eq!(listed(&[]), "no command was started in the background");
        assert_eq!(listed(&[job(None)]), "job 2: running for 1 min 30 s, `npm run dev …`");
        assert_eq!(told("up\n", &job(None)), "up\n\n[job 2: running for 1 min 30 s]");
        for (ended, want) in [
            (exit(Some(1), None), "ended after 1.5 s with exit code 1"),
            (exit(None, Some("SIGTERM")), "killed by SIGTERM"),
            (Some(Ok(Ran { cancelled: true, ..Ran::default() })), "stopped"),
            (Some(Err("gone".into())), "failed: gone"),
        ] {
            assert_eq!(
                told("", &job(ended)),
                format!("(no output since the last reading)\n\n[job 2: {want}]")
            );
        }
    }
}
