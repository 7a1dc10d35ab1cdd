//! The console on Windows: std cannot switch its echo off, so the person is told before they type.
use std::io::{self, Write};

/// Says that what is typed is shown.
pub(super) struct Silent;

impl Silent {
    pub(super) fn begin() -> io::Result<Self> {
        let mut err = io::stderr();
        err.write_all(b"(what you type is SHOWN on this console; Ctrl-C ends it, a pipe shows nothing) ")?;
        err.flush()?;
        Ok(Silent)
    }
}
