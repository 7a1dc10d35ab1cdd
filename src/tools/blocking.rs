//! Heavy work off the turn's task: a blocking thread that is told to stop when nobody waits for it any more.
use super::ToolError;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_util::sync::CancellationToken;

/// Asked between two steps of long work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the result is not wanted any more.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag when the waiting future is dropped, for whatever reason.
struct StopOnDrop(Stop);
impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a blocking thread. When `cancel` fires or the future is dropped the flag is set and the result is not waited for:
/// the work only reads, so it may end a moment later.
///
/// # Errors
/// [`ToolError::Cancelled`], or [`ToolError::Failed`] when the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let stop = Stop::default();
    let _guard = StopOnDrop(stop.clone());
    let thread = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolError::Cancelled),
        done = thread => done.map_err(|e| ToolError::Failed(format!("the search broke off: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_learns_that_nobody_waits() {
        let cancel = CancellationToken::new();
        let (began, begins) = std::sync::mpsc::channel();
        let (ended, ends) = std::sync::mpsc::channel();
        let token = cancel.clone();
        let canceller = std::thread::spawn(move || {
            begins.recv().unwrap();
            token.cancel();
        });
        let result = run(&cancel, move |stop| {
            began.send(()).unwrap();
            while !stop.is_set() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        })
        .await;
        assert!(matches!(result, Err(ToolError::Cancelled)));
        canceller.join().unwrap();
        ends.recv().unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_a_failed_call() {
        let result = run(&CancellationToken::new(), |_| -> () { panic!("boom") }).await;
        assert!(matches!(result, Err(ToolError::Failed(_))));
    }
}
