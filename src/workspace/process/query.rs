//! A short question to a program that only reads, before a command is judged: its environment is that of a command that
//! runs unasked.
use super::{Shell, environment};
use crate::{effects::Verdict, workspace::Said};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// So long it may take; a person decides then.
const TIME: Duration = Duration::from_secs(2);
/// As much it may say, in bytes; of its errors, as much is kept.
const SIZE: u64 = 4 << 20;
const ERRORS: u64 = 4096;

impl Shell {
    /// What the program prints, where it ends in time.
    pub(in crate::workspace) async fn query(
        &self,
        program: &Path,
        folder: &Path,
        args: &[String],
        input: &str,
    ) -> Option<Said> {
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
) -> Option<Said> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).current_dir(folder).env_clear().envs(env).env("LC_ALL", "C").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let answer = async {
        let mut child = command.spawn().ok()?;
        let (mut stdin, stdout, mut stderr) =
            (child.stdin.take()?, child.stdout.take()?, child.stderr.take()?);
        let feed = async move {
            // It may end without reading.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let complain = async move {
            let mut errors = Vec::new();
            let _ = (&mut stderr).take(ERRORS).read_to_end(&mut errors).await;
            // What is not read would stop it.
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            String::from_utf8_lossy(&errors).into_owned()
        };
        let mut output = Vec::new();
        let mut bounded = stdout.take(SIZE + 1);
        let ((), read, errors) = tokio::join!(feed, bounded.read_to_end(&mut output), complain);
        read.ok()?;
        if output.len() as u64 > SIZE {
            return None;
        }
        let code = child.wait().await.ok()?.code()?;
        Some(Said { code, output, errors })
    };
    tokio::time::timeout(TIME, answer).await.ok().flatten()
}
