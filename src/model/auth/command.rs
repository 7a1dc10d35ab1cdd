//! `api_key_command`: a helper that prints the key (`pass show openai`, `op read …`).
use crate::{
    model::{ErrorKind, failure::Failure},
    secret::Secret,
};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
    sync::Mutex,
};

/// A person may have to unlock something.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest key.
const LONGEST: u64 = 64 << 10;

/// The command, and what it printed last.
#[derive(Debug)]
pub struct KeyCommand {
    /// The program and its arguments.
    words: Vec<String>,
    limit: Duration,
    known: Mutex<Option<Secret>>,
}

impl KeyCommand {
    pub fn new(words: Vec<String>) -> Self {
        KeyCommand { words, limit: LIMIT, known: Mutex::default() }
    }

    /// The key: the command runs once, and again only if this key was `refused`. Of several who ask at once one runs it.
    ///
    /// # Errors
    /// Where it fails, prints nothing or does not end. What it printed is never told.
    pub(super) async fn key(&self, refused: Option<&Secret>) -> Result<Secret, Failure> {
        let mut known = self.known.lock().await;
        if let Some(key) = known.as_ref().filter(|k| refused.is_none_or(|r| r.expose() != k.expose())) {
            return Ok(key.clone());
        }
        let wrong = |what: String| {
            let name = self.words.first().map_or("", String::as_str);
            Failure::new(ErrorKind::Auth, format!("the api_key_command `{name}` {what}"))
        };
        let key = tokio::time::timeout(self.limit, self.run())
            .await
            .unwrap_or_else(|_| Err(format!("did not end within {} s", self.limit.as_secs())))
            .map_err(wrong)?;
        *known = Some(key.clone());
        Ok(key)
    }

    async fn run(&self) -> Result<Secret, String> {
        let Some((program, arguments)) = self.words.split_first() else { return Err("is empty".into()) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        command.process_group(0);
        let child = command.kill_on_drop(true).spawn();
        let mut group = Group(child.map_err(|e| format!("cannot be started: {e}"))?);
        let Some(stdout) = group.0.stdout.take() else { return Err("has no output".into()) };
        // Up to the first line: what it leaves behind (an agent that holds keys) may keep the pipe open for ever.
        let (mut line, mut stdout) = (String::new(), BufReader::new(stdout));
        let read = (&mut stdout).take(LONGEST).read_line(&mut line).await;
        let line = Secret::new(line);
        // What else it prints is read, so that it is not killed by a closed pipe; one that prints without end is ended.
        let status = {
            let (ended, mut sink, mut rest) =
                (group.0.wait(), tokio::io::sink(), (&mut stdout).take(LONGEST));
            tokio::pin!(ended);
            tokio::select! {
                status = &mut ended => status,
                copied = tokio::io::copy(&mut rest, &mut sink) => match copied {
                    Ok(LONGEST..) => return Err(format!(
                        "printed more than {} KiB; it has to print the key on its first line, and end", LONGEST >> 10
                    )),
                    _ => ended.await,
                },
            }
        };
        let status = status.map_err(|e| format!("cannot be waited for: {e}"))?;
        match status.code() {
            Some(0) => {}
            Some(code) => return Err(format!("ended with exit code {code}")),
            None => return Err("was killed".into()),
        }
        read.map_err(|_| "did not print text".to_owned())?;
        match line.expose().trim() {
            "" => Err("printed nothing on its first line".into()),
            key => Ok(Secret::new(key)),
        }
    }
}

/// The command and what it started, ended together if they are given up; on Windows the command alone.
struct Group(Child);

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        // Gone from the child once it was waited for: its number may be another's by then.
        if let Some(pid) = self.0.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> KeyCommand {
        KeyCommand::new(vec!["sh".into(), "-c".into(), text.into()])
    }

    #[tokio::test]
    async fn it_runs_once_and_again_only_for_a_key_that_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let command = shell(&format!(
            "echo x >> {0}; n=$(wc -l < {0}); echo \" key-$n \"; echo second line",
            count.display()
        ));
        let (a, b) = tokio::join!(command.key(None), command.key(None));
        assert_eq!((a.unwrap().expose(), b.unwrap().expose()), ("key-1", "key-1"));
        let first = Secret::new("key-1");
        let (a, b) = tokio::join!(command.key(Some(&first)), command.key(Some(&first)));
        assert_eq!((a.unwrap().expose(), b.unwrap().expose()), ("key-2", "key-2"));
        assert_eq!(command.key(Some(&first)).await.unwrap().expose(), "key-2");
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told_without_what_it_printed() {
        for (text, told) in [
            ("echo sk-secret; exit 3", "exit code 3"),
            ("true", "printed nothing"),
            ("echo; echo sk-secret", "printed nothing on its first line"),
            ("kill -9 $$", "was killed"),
            ("exec yes sk-secret", "printed more than 64 KiB"),
            ("yes sk-secret | tr -d '\\n'", "printed more than 64 KiB"),
        ] {
            let error = shell(text).key(None).await.unwrap_err();
            assert!(error.detail.contains(told) && !error.detail.contains("sk-secret"), "{}", error.detail);
            assert_eq!(error.kind, ErrorKind::Auth);
        }
        let missing = KeyCommand::new(vec!["/no/such/program".into()]).key(None).await.unwrap_err();
        assert!(missing.detail.contains("cannot be started"), "{}", missing.detail);
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let text = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let command = KeyCommand { limit: Duration::from_millis(400), ..shell(&text) };
        let error = command.key(None).await.unwrap_err();
        assert!(error.detail.contains("did not end within"), "{}", error.detail);
        let id: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        // Ended, though perhaps not yet collected by whoever inherits it.
        while rustix::process::test_kill_process(id).is_ok() {
            let stat =
                std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}
