//! The server as a child process, as an editor starts it.
use super::{Client, ClientError, Person, Show, Task};
use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    io::BufReader,
    process::{Child, Command},
};

/// After the end of its input: how long the server may take to leave.
const GRACE: Duration = Duration::from_secs(5);

/// How to start the server.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// Added to our own environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// Our own binary: without arguments it serves.
    pub fn own() -> Result<Self, ClientError> {
        let program = std::env::current_exe().map_err(ClientError::Start)?;
        Ok(Launch { program, env: Vec::new() })
    }

    fn spawn(&self) -> Result<Child, ClientError> {
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        // Ctrl-C is for us: the server is told by `session/cancel`, and ends at the end of its input.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().map_err(ClientError::Start)
    }
}

/// Runs one task in a server of its own; gives the stop reason.
pub async fn run(
    launch: &Launch,
    task: &Task,
    show: &mut dyn Show,
    person: Person,
) -> Result<String, ClientError> {
    let mut child = launch.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ClientError::Protocol("the server has no pipes".to_owned()));
    };
    let mut client = Client::new(BufReader::new(stdout), stdin, show, person);
    let result = client.task(task).await;
    drop(client);
    let status = match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(status) => status.map_err(ClientError::Pipe)?,
        Err(_) => {
            child.kill().await.map_err(ClientError::Pipe)?;
            return result;
        }
    };
    match result {
        // The pipe says that it ended; how it ended is the better word.
        Err(ClientError::Closed(_) | ClientError::Pipe(_)) => {
            Err(ClientError::Closed(format!(" ({status})")))
        }
        result => result,
    }
}
