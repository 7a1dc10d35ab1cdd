//! The command line: everything that is for people, and not for an editor.
pub mod args;
mod banner;
pub mod client;
mod config;
mod demo;
mod doctor;
mod exec;
mod login;
mod secret_line;
mod sessions;

use args::Command;
use std::{
    io::{self, Write},
    process::{ExitCode, Termination},
};

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Good = 0,
    /// An error, a refusal, or something in `doctor` that needs action.
    Failed = 1,
    /// The command line, or what it names, is wrong.
    Usage = 2,
    /// Ctrl-C.
    Cancelled = 130,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Runs a command for people; `Acp` is the caller's.
pub fn run(command: &Command) -> Exit {
    match command {
        Command::Acp(_) => Exit::Usage,
        Command::Demo(args) => demo::demo(args),
        Command::Exec(args) => exec::exec(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Sessions(args) => sessions::sessions(args),
        Command::Login(args) => login::login(args),
        Command::Logout(args) => login::logout(args),
        Command::Config(args) => config::config(args),
    }
}

/// What a person sees who starts the server by hand.
pub fn explain() -> Exit {
    say(&mut io::stdout(), &banner::banner(client::Style::of(true)));
    Exit::Good
}

/// Writes to a stream of the process. A reader that left is no error of ours.
fn say(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Runs the one future of a command to its end, on this thread.
///
/// # Errors
/// Where the system gives no runtime (no file descriptors left).
fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}
