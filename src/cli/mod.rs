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

/// Writes what a command is for to standard output, and ends with `exit`; a script must not take half a text for a whole
/// one, so what cannot be written is a failure. A reader that left (`| head`) has what it wanted.
fn print(text: &str, exit: Exit) -> Exit {
    print_to(&mut io::stdout(), &mut io::stderr(), text, exit)
}

fn print_to(out: &mut impl Write, err: &mut impl Write, text: &str, exit: Exit) -> Exit {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            say(err, &format!("hermes-editor: the output is not complete, writing it failed: {e}\n"));
            Exit::Failed
        }
        _ => exit,
    }
}

/// Runs the one future of a command to its end, on this thread.
///
/// # Errors
/// Where the system gives no runtime (no file descriptors left).
fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(io::ErrorKind);
    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_that_is_not_written_fails_the_command_unless_the_reader_left() {
        let cases = [
            (io::ErrorKind::StorageFull, Exit::Good, Exit::Failed),
            (io::ErrorKind::Other, Exit::Good, Exit::Failed),
            (io::ErrorKind::BrokenPipe, Exit::Good, Exit::Good),
            (io::ErrorKind::BrokenPipe, Exit::Failed, Exit::Failed),
        ];
        for (kind, exit, want) in cases {
            let mut err = Vec::new();
            assert_eq!(print_to(&mut Fails(kind), &mut err, "text", exit), want, "{kind:?}");
            assert_eq!(err.is_empty(), kind == io::ErrorKind::BrokenPipe, "{kind:?}");
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert_eq!(print_to(&mut out, &mut err, "text", Exit::Good), Exit::Good);
        assert_eq!((&out[..], &err[..]), (&b"text"[..], &b""[..]));
    }
}
