//! The binary: without arguments it serves an editor; every other word is a command for people.
use clap::Parser;
use hermes::cli::{self, Exit, args::Cli};
use std::io::IsTerminal;

fn main() -> Exit {
    // The way an editor starts it costs no parsing.
    if std::env::args_os().len() == 1 {
        return if std::io::stdin().is_terminal() { cli::explain() } else { Exit::Usage };
    }
    let cli = Cli::parse();
    match cli.command {
        Some(command) => cli::run(&command),
        None => Exit::Usage,
    }
}
