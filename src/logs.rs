//! Logs: warnings on stderr, where editors show them; all of them also in a file, where one is configured. Never on
//! standard output, which belongs to the protocol.
use crate::{
    config::{Config, DataDirs},
    secret::{Redactor, mask},
};
use std::{
    fs::OpenOptions,
    io::{self, Write},
    sync::Arc,
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::LevelFilter,
    fmt::{self, MakeWriter},
    layer::{Filter, SubscriberExt},
    util::SubscriberInitExt,
};

/// Starts them for this process, as `log.filter` and `log.file` (or `HERMES_EDITOR_LOG`) say. A file that cannot be
/// opened is told on stderr and left out, as is what is wrong with the configuration. Gives the secrets that they keep out:
/// what is added to them later is kept out too.
pub fn start() -> Redactor {
    let config = DataDirs::from_env().map(|dirs| Config::load(&dirs, |name| std::env::var(name).ok()));
    let config = config.unwrap_or_default();
    let secrets = crate::setup::secrets(&config);
    let Config { log, problems, .. } = config;
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
    let mut layers = vec![
        fmt::layer()
            .with_writer(Masked(io::stderr, secrets.clone()))
            .with_ansi(false)
            .with_filter(filter())
            .boxed(),
    ];
    layers.extend(file.map(|file| {
        fmt::layer().with_writer(Masked(file, secrets.clone())).with_ansi(false).with_filter(filter()).boxed()
    }));
    // A second start in one process keeps the first.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    tracing::info!("hermes-editor {} starts", env!("CARGO_PKG_VERSION"));
    for problem in problems {
        tracing::warn!("{problem}");
    }
    if let Some((path, e)) = failed {
        tracing::warn!("the log file {} cannot be opened: {e}", path.display());
    }
    secrets
}

/// Writes lines without our own secrets, and without what is shaped like a key.
struct Masked<W>(W, Redactor);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Masked<M> {
    type Writer = Masked<M::Writer>;
    fn make_writer(&'a self) -> Self::Writer {
        Masked(self.0.make_writer(), self.1.clone())
    }
}

impl<W: Write> Write for Masked<W> {
    /// Each call has a whole line: the formatter writes none in pieces.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(mask(&self.1.text(&text)).as_bytes())?;
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_line_shows_no_secret() {
        let redactor = Redactor::new([("K".to_owned(), Secret::new("my-own-key-1"))]);
        let mut out = Masked(Vec::new(), redactor);
        out.write_all(b"a my-own-key-1 and sk-0123456789abcdef\n").unwrap();
        assert_eq!(out.0, b"a [secret:K] and [key]\n");
    }
}
