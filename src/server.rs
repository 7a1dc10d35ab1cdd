//! Serves one editor on this process's standard input and output, to the end of the connection.
use crate::{acp, config::DataDirs, secret::Redactor, setup};
use anyhow::Context;
use hermes_protocol::{Stdio, Trace, Transport};
use std::{path::Path, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long the end waits for what is queued to the store, and for the store to be put into one file.
const FLUSH: Duration = Duration::from_millis(500);
const TIDY: Duration = Duration::from_millis(30);
/// And for a login that is being refreshed, which is rare.
const SETTLED: Duration = Duration::from_secs(25);

/// Serves until the editor closes its end, or SIGTERM or SIGINT comes. Both are a good end.
///
/// `stdio` was taken before anything could print (I1). `trace`: where the wire is recorded. `secrets`: what the logs keep
/// out already; all that is learnt while it serves is added to it.
///
/// # Errors
/// Where there is no data folder, or the trace cannot be written; nothing was answered then.
pub fn run(stdio: Stdio, trace: Option<&Path>, secrets: Redactor) -> anyhow::Result<()> {
    let trace = trace
        .map(|p| Trace::open(p).with_context(|| format!("cannot record to {}", p.display())))
        .transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let served = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let signals = shutdown.clone();
        tokio::spawn(async move {
            terminated().await;
            signals.cancel();
        });
        let parts = setup::assemble(DataDirs::from_env()?, secrets)?;
        if let Some(trace) = trace.clone() {
            parts.secrets.tell(move |secret| trace.redact(secret));
        }
        let transport = Transport::stdio(stdio, trace).context("cannot use standard input and output")?;
        let store = parts.hermes.store.clone();
        let credentials = parts.credentials.clone();
        acp::serve(acp::App::new(parts.hermes, parts.auth), transport, shutdown).await?;
        // What was queued without waiting (titles, settings) is on disk before the process ends.
        _ = tokio::time::timeout(FLUSH, store.flush()).await;
        // Then it is put into one file, if that is quick: what is cut off here is done by the next process.
        _ = tokio::time::timeout(TIDY, store.close()).await;
        // A token that is being exchanged for the next: dropped in between, the login would be lost.
        _ = tokio::time::timeout(SETTLED, credentials.settled()).await;
        anyhow::Ok(())
    });
    // Nothing that still runs may hold the process.
    runtime.shutdown_background();
    served
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

#[cfg(not(unix))]
async fn terminated() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
