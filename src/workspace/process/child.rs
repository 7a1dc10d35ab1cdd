//! One command while it runs, seen from the agent: its helper, its output, its end.
use super::{
    environment::Env,
    helper::{CANCEL, HELPER, Report, Spec},
    output::Collector,
};
use crate::{
    secret::{Redactor, Stream},
    workspace::{OutputSink, freshness::lock},
};
use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// After the helper's end nothing should hold its output open; what does hangs in the kernel.
const DRAIN: Duration = Duration::from_millis(500);
/// The report of the helper, in bytes: an environment at most.
const REPORT_LIMIT: u64 = 4 * 1024 * 1024;

/// A command that has been started.
pub(in crate::workspace) struct Running {
    child: Child,
    /// Its closing is the helper's order to end everything: dropping this value is enough.
    control: ChildStdin,
    output: ChildStdout,
    report: ChildStderr,
    started: Instant,
    secrets: Stream,
}

/// How it went.
pub(in crate::workspace) struct Ended {
    pub report: Report,
    pub timed_out: bool,
    pub cancelled: bool,
    pub took: Duration,
}

impl Running {
    /// Starts the helper with the command's environment in its folder, and tells it what to run.
    pub async fn start(helper: &Path, spec: &Spec, cwd: &Path, env: &Env) -> std::io::Result<Self> {
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        let mut command = Command::new(helper);
        command.arg(HELPER).arg("run").current_dir(cwd).env_clear().envs(env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let mut control = child.stdin.take().ok_or_else(broken)?;
        let output = child.stdout.take().ok_or_else(broken)?;
        let report = child.stderr.take().ok_or_else(broken)?;
        control.write_all(&line).await?;
        Ok(Running {
            child,
            control,
            output,
            report,
            started: Instant::now(),
            secrets: Redactor::default().stream(),
        })
    }

    /// Its output is passed on without these.
    pub fn redacted(self, secrets: &Redactor) -> Self {
        Running { secrets: secrets.stream(), ..self }
    }

    /// Passes the output on until everything that the command started has ended.
    pub async fn finish(
        mut self,
        sink: Arc<dyn OutputSink>,
        collector: &Mutex<Collector>,
        timeout: Option<Duration>,
        cancel: CancellationToken,
    ) -> std::io::Result<Ended> {
        let deadline = self.started + timeout.unwrap_or(Duration::from_secs(365 * 86_400));
        let (mut timed_out, mut cancelled) = (false, false);
        let pass = |bytes: &[u8]| {
            if !bytes.is_empty() {
                sink.output(bytes);
                lock(collector).push(bytes);
            }
        };
        let mut text = Vec::new();
        let mut report = (&mut self.report).take(REPORT_LIMIT);
        let mut buffer = vec![0u8; 64 * 1024];
        let (mut output_open, mut report_open, mut exited) = (true, true, None);
        while output_open || report_open || exited.is_none() {
            let drained = async {
                match exited {
                    Some(at) => tokio::time::sleep_until(at + DRAIN).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Output first: it was there before the end.
                biased;
                () = cancel.cancelled(), if !cancelled && !timed_out => {
                    cancelled = true;
                    let _ = self.control.write_all(&[CANCEL]).await;
                }
                read = self.output.read(&mut buffer), if output_open => match read {
                    Ok(0) | Err(_) => output_open = false,
                    Ok(n) => pass(&self.secrets.push(&buffer[..n], false)),
                },
                read = report.read_buf(&mut text), if report_open => {
                    report_open = matches!(read, Ok(n) if n > 0);
                }
                status = self.child.wait(), if exited.is_none() => {
                    status?;
                    exited = Some(Instant::now());
                }
                () = tokio::time::sleep_until(deadline), if !cancelled && !timed_out => {
                    timed_out = true;
                    let _ = self.control.write_all(&[CANCEL]).await;
                }
                () = drained => break,
            }
        }
        pass(&self.secrets.push(&[], true));
        lock(collector).finish();
        Ok(Ended { report: parse(&text)?, timed_out, cancelled, took: self.started.elapsed() })
    }
}

/// The last line is the report; a panic's words may stand before it.
fn parse(text: &[u8]) -> std::io::Result<Report> {
    text.split(|b| *b == b'\n').rev().find_map(|line| serde_json::from_slice(line).ok()).ok_or_else(|| {
        std::io::Error::other("its helper process was killed; some of what it started may still run")
    })
}
