//! A short question to a program that only reads, before a command is judged: its environment is that of a command that
//! runs unasked.
use super::{Shell, environment};
use crate::effects::Verdict;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// So long it may take; a person decides then.
const TIME: Duration = Duration::from_secs(2);
/// As much it may say, in bytes.
const SIZE: u64 = 4 << 20;

impl Shell {
    /// What the program prints, where it ends in time with one of the exit codes 0 and 1 (of git: differences, no match).
    pub(in crate::workspace) async fn query(
        &self,
        program: &Path,
        folder: &Path,
        args: &[String],
        input: &str,
    ) -> Option<Vec<u8>> {
        self.fill().await;
        let env = environment::of(self.base(), &environment::Carried::default(), Verdict::ReadOnly, "");
        ask(&env, program, folder, args, input).await
    }
}

pub(crate) async fn ask(
    env: &environment::Env,
    program: &Path,
    folder: &Path,
    args: &[String],
    input: &str,
) -> Option<Vec<u8>> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).current_dir(folder).env_clear().envs(env).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let answer = async {
        let mut child = command.spawn().ok()?;
        let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        let feed = async move {
            // It may end without reading.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let mut out = Vec::new();
        let mut bounded = stdout.take(SIZE + 1);
        let ((), read) = tokio::join!(feed, bounded.read_to_end(&mut out));
        read.ok()?;
        if out.len() as u64 > SIZE {
            return None;
        }
        let status = child.wait().await.ok()?;
        matches!(status.code(), Some(0 | 1)).then_some(out)
    };
    tokio::time::timeout(TIME, answer).await.ok().flatten()
}
