//! The live output of a running command: at most 30 updates a second, never split inside a character.
use super::port::{CallChanged, Editor, TerminalChunk, Update};
use crate::{
    id::{CallId, SessionId},
    log::Shown,
    tools::{Output, Progress, ToolError},
};
use futures_util::future::{BoxFuture, FutureExt};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// The least time between two updates of one card.
const EVERY: Duration = Duration::from_millis(34);
/// How much of the output so far a client gets that can only replace a card's content.
const SO_FAR: usize = 32 * 1024;
/// How much may wait between two updates; more is cut at the front, the card's last update has the head.
const WAITING: usize = 256 * 1024;

pub struct Live {
    call: CallId,
    cwd: Option<PathBuf>,
    /// What stands in the card, for an update that replaces it.
    card: Vec<Shown>,
    buffer: Arc<Buffer>,
}

#[derive(Default)]
struct Buffer {
    bytes: Mutex<Vec<u8>>,
    more: Notify,
    /// A terminal of the client to be shown, and who waits for that.
    attach: Mutex<Option<(String, oneshot::Sender<()>)>>,
}

struct Feed(Arc<Buffer>);

impl Progress for Feed {
    fn terminal(&self, bytes: &[u8]) {
        let mut waiting = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend_from_slice(bytes);
        if waiting.len() > WAITING {
            let cut = waiting.len() - WAITING;
            waiting.drain(..cut);
        }
        self.0.more.notify_one();
    }

    fn attach(&self, terminal: &str) -> BoxFuture<'static, ()> {
        let (shown, wait) = oneshot::channel();
        *self.0.attach.lock().unwrap_or_else(PoisonError::into_inner) = Some((terminal.to_owned(), shown));
        self.0.more.notify_one();
        // Not shown, because nobody shows anything any more, is no reason to wait.
        wait.map(|_| ()).boxed()
    }
}

impl Live {
    pub fn new(call: CallId, cwd: Option<PathBuf>, card: Vec<Shown>) -> Self {
        Live { call, cwd, card, buffer: Arc::default() }
    }

    pub fn progress(&self) -> impl Progress + use<> {
        Feed(self.buffer.clone())
    }

    /// Waits for the work while its output is shown. What is left when it ends is in the card's last update.
    pub async fn show(
        self,
        editor: &dyn Editor,
        session: &SessionId,
        work: impl Future<Output = Result<Output, ToolError>>,
    ) -> Result<Output, ToolError> {
        tokio::pin!(work);
        let (mut next, mut so_far) = (Instant::now(), String::new());
        loop {
            tokio::select! {
                biased;
                result = &mut work => {
                    if let Some(chunk) = self.take(true, &mut so_far) {
                        self.send(editor, session, chunk).await;
                    }
                    return result;
                }
                _ = self.wait(next) => {
                    self.show_terminal(editor, session).await;
                    if let Some(chunk) = self.take(false, &mut so_far) {
                        self.send(editor, session, chunk).await;
                        next = Instant::now() + EVERY;
                    }
                }
            }
        }
    }

    async fn wait(&self, next: Instant) {
        self.buffer.more.notified().await;
        tokio::time::sleep_until(next).await;
    }

    async fn show_terminal(&self, editor: &dyn Editor, session: &SessionId) {
        let attach = self.buffer.attach.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((terminal, shown)) = attach else { return };
        let changed = CallChanged {
            id: self.call.clone(),
            shown: Some(self.card.clone()),
            attached: Some(terminal),
            ..CallChanged::default()
        };
        editor.update(session, Update::CallChanged(Box::new(changed))).await;
        // The command may have been cancelled meanwhile.
        _ = shown.send(());
    }

    /// What can be shown of what waits. An incomplete character at the end stays for the next time.
    fn take(&self, last: bool, so_far: &mut String) -> Option<TerminalChunk> {
        let mut waiting = self.buffer.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = if last { waiting.len() } else { complete(&waiting) };
        if complete == 0 {
            return None;
        }
        let data = String::from_utf8_lossy(&waiting[..complete]).into_owned();
        waiting.drain(..complete);
        drop(waiting);
        so_far.push_str(&data);
        if so_far.len() > SO_FAR {
            let cut = so_far.ceil_char_boundary(so_far.len() - SO_FAR);
            so_far.drain(..cut);
        }
        let id = terminal_id(&self.call);
        Some(TerminalChunk { id, cwd: self.cwd.clone(), data, so_far: so_far.clone(), exit: None })
    }

    async fn send(&self, editor: &dyn Editor, session: &SessionId, chunk: TerminalChunk) {
        let changed = CallChanged { id: self.call.clone(), terminal: Some(chunk), ..CallChanged::default() };
        editor.update(session, Update::CallChanged(Box::new(changed))).await;
    }
}

/// The id under which a call's terminal is shown.
pub fn terminal_id(call: &CallId) -> String {
    call.to_string()
}

/// How many bytes end with a whole character.
fn complete(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        // Only an unfinished character at the very end is worth waiting for.
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        Err(e) => {
            let tail = &bytes[e.valid_up_to() + 1..];
            e.valid_up_to() + 1 + complete_tail(tail)
        }
    }
}

/// As [`complete`], without recursion: at most the last three bytes can be an unfinished character.
fn complete_tail(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    for start in (from..bytes.len()).rev() {
        let lead = bytes[start];
        let width = match lead {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => continue,
        };
        return if bytes.len() - start < width { start } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_never_split() {
        let bytes = "añ🙂".as_bytes();
        let expect = [1, 1, 3, 3, 3, 3, 7];
        for (n, want) in (1..=bytes.len()).zip(expect) {
            assert_eq!(complete(&bytes[..n]), want, "first {n} bytes");
        }
        assert_eq!(complete(b"\xffabc"), 4);
        assert_eq!(complete(b"\xffabc\xf0\x9f"), 4);
    }
}
