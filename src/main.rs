//! The binary: without arguments it serves an editor; every other word is a command for people.
use clap::Parser;
use hermes::{
    cli::{self, Exit, args::Cli},
    workspace::process::{HELPER, helper_main},
};
use std::{
    io::IsTerminal,
    process::{ExitCode, Termination},
};

fn main() -> ExitCode {
    // Each command runs under this binary as a helper: before anything else, since every command pays for it.
    if std::env::args_os().nth(1).is_some_and(|word| word == HELPER) {
        return helper_main();
    }
    // The way an editor starts it costs no parsing.
    if std::env::args_os().len() == 1 {
        return if std::io::stdin().is_terminal() { cli::explain() } else { Exit::Usage }.report();
    }
    let cli = Cli::parse();
    match cli.command {
        Some(command) => cli::run(&command),
        None => Exit::Usage,
    }
    .report()
}
