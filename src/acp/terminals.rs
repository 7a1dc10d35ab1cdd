//! Terminals through the client: `terminal/*`, each released exactly once.
use crate::{
    id::SessionId,
    log::Exit,
    workspace::terminals::{Screen, Start, Terminal, TerminalError, Terminals},
};
use async_trait::async_trait;
use hermes_protocol::{Peer, PeerError, acp};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::oneshot;

/// The deadline of every `terminal/*` request but `wait_for_exit`.
const LIMIT: Duration = Duration::from_secs(10);

/// The terminals of a client for one session.
pub struct AcpTerminals(Wire);

#[derive(Clone)]
struct Wire {
    peer: Peer,
    session: acp::SessionId,
}

impl AcpTerminals {
    /// `None`: the client does not advertise `terminal`.
    pub fn of(peer: &Peer, session: &SessionId) -> Option<Self> {
        let session = acp::SessionId::new(session.as_str());
        peer.caps().terminal.then(|| AcpTerminals(Wire { peer: peer.clone(), session }))
    }
}

#[async_trait]
impl Terminals for AcpTerminals {
    async fn create(&self, start: Start) -> Result<Box<dyn Terminal>, TerminalError> {
        let wire = self.0.clone();
        let env = start.env.iter().map(|(n, v)| acp::EnvVariable::new(n.as_str(), v.as_str())).collect();
        let request = acp::CreateTerminalRequest::new(wire.session.clone(), start.program)
            .args(start.arguments)
            .env(env)
            .cwd(start.cwd)
            .output_byte_limit(start.output_limit);
        let (tell, created) = oneshot::channel();
        // A task of its own, without a deadline: whenever the answer comes, there is a terminal to be released. Where
        // nobody waits for it, what could not be handed over is dropped, and so released.
        tokio::spawn(async move {
            let method = acp::CLIENT_METHOD_NAMES.terminal_create;
            let answer = wire.peer.request::<acp::CreateTerminalResponse>(method, &request, None).await;
            _ = tell.send(answer.map(|created| Held { wire, id: created.terminal_id, released: false }));
        });
        match tokio::time::timeout(LIMIT, created).await {
            Ok(Ok(held)) => Ok(Box::new(held.map_err(terminal_error)?)),
            Ok(Err(_)) => Err(TerminalError::Failed("the connection is closed".into())),
            Err(_) => Err(TerminalError::Timeout),
        }
    }
}

/// A terminal that was created and not released.
struct Held {
    wire: Wire,
    id: acp::TerminalId,
    released: bool,
}

impl Held {
    /// Sends the release, in a task of its own: it must not be withdrawn because nobody waits for it any more. `None`: the
    /// runtime has ended, and with it the connection.
    fn let_go(&mut self) -> Option<tokio::task::JoinHandle<Result<(), TerminalError>>> {
        if std::mem::replace(&mut self.released, true) {
            return None;
        }
        let Wire { peer, session } = self.wire.clone();
        let request = acp::ReleaseTerminalRequest::new(session, self.id.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            let method = acp::CLIENT_METHOD_NAMES.terminal_release;
            let released = peer.request::<Value>(method, &request, Some(LIMIT)).await;
            released.map(drop).map_err(terminal_error)
        }))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

#[async_trait]
impl Terminal for Held {
    fn id(&self) -> &str {
        &self.id.0
    }

    async fn output(&self) -> Result<Screen, TerminalError> {
        let request = acp::TerminalOutputRequest::new(self.wire.session.clone(), self.id.clone());
        let method = acp::CLIENT_METHOD_NAMES.terminal_output;
        let shown: acp::TerminalOutputResponse =
            self.wire.peer.request(method, &request, Some(LIMIT)).await.map_err(terminal_error)?;
        Ok(Screen { output: shown.output, truncated: shown.truncated, exit: shown.exit_status.map(exit) })
    }

    async fn wait(&self, limit: Duration) -> Result<Exit, TerminalError> {
        let request = acp::WaitForTerminalExitRequest::new(self.wire.session.clone(), self.id.clone());
        let method = acp::CLIENT_METHOD_NAMES.terminal_wait_for_exit;
        let ended: acp::WaitForTerminalExitResponse =
            self.wire.peer.request(method, &request, Some(limit)).await.map_err(terminal_error)?;
        Ok(exit(ended.exit_status))
    }

    async fn kill(&self) -> Result<(), TerminalError> {
        let request = acp::KillTerminalRequest::new(self.wire.session.clone(), self.id.clone());
        let method = acp::CLIENT_METHOD_NAMES.terminal_kill;
        let killed = self.wire.peer.request::<Value>(method, &request, Some(LIMIT)).await;
        killed.map(drop).map_err(terminal_error)
    }

    async fn release(mut self: Box<Self>) -> Result<(), TerminalError> {
        match self.let_go() {
            Some(sent) => sent.await.map_err(|e| TerminalError::Failed(e.to_string()))?,
            None => Ok(()),
        }
    }
}

/// Windows' codes use all 32 bits; as the system's own tools show them, they are signed.
fn exit(status: acp::TerminalExitStatus) -> Exit {
    Exit { code: status.exit_code.map(u32::cast_signed), signal: status.signal }
}

fn terminal_error(error: PeerError) -> TerminalError {
    match error {
        PeerError::Timeout { .. } => TerminalError::Timeout,
        e => TerminalError::Failed(e.to_string()),
    }
}
