//! Logs: warnings on stderr, where editors show them; all of them also in a file, where one is configured. Never on
//! standard output, which belongs to the protocol.
use crate::config::{Config, DataDirs};
use std::{fs::OpenOptions, sync::Arc};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::LevelFilter,
    fmt,
    layer::{Filter, SubscriberExt},
    util::SubscriberInitExt,
};

/// Starts them for this process, as `log.filter` and `log.file` (or `HERMES_EDITOR_LOG`) say. A file that cannot be
/// opened is told on stderr and left out, as is what is wrong with the configuration.
pub fn start() {
    let config = DataDirs::from_env().map(|dirs| Config::load(&dirs, |name| std::env::var(name).ok()));
    let Config { log, problems, .. } = config.unwrap_or_default();
    // Parsing a filter costs more than all the rest of a start, so without one there is only a level.
    let filter = || -> Box<dyn Filter<Registry> + Send + Sync> {
        match log.filter.as_deref().and_then(|filter| EnvFilter::try_new(filter).ok()) {
            Some(filter) => Box::new(filter),
            None => Box::new(LevelFilter::WARN),
        }
    };
    let opened = log.file.as_ref().map(|file| {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        (file, options.open(file))
    });
    let (file, failed) = match opened {
        None => (None, None),
        Some((_, Ok(file))) => (Some(Arc::new(file)), None),
        Some((path, Err(e))) => (None, Some((path, e))),
    };
    let mut layers =
        vec![fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_filter(filter()).boxed()];
    layers.extend(
        file.map(|file| fmt::layer().with_writer(file).with_ansi(false).with_filter(filter()).boxed()),
    );
    // A second start in one process keeps the first.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    tracing::info!("hermes-editor {} starts", env!("CARGO_PKG_VERSION"));
    for problem in problems {
        tracing::warn!("{problem}");
    }
    if let Some((path, e)) = failed {
        tracing::warn!("the log file {} cannot be opened: {e}", path.display());
    }
}
