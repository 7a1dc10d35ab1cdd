//! The terminal on Unix.
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{io, os::fd::AsFd};

/// A terminal that neither shows what is typed nor ends the process at Ctrl-C, which would leave it so.
pub(super) struct Silent(Termios);

impl Silent {
    pub(super) fn begin() -> io::Result<Self> {
        let input = io::stdin();
        let before = tcgetattr(input.as_fd())?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(input.as_fd(), OptionalActions::Now, &modes)?;
        Ok(Silent(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.0);
    }
}
