//! The binary: without arguments it serves an editor; every other word is a command for people.
use clap::Parser;
use hermes::{
    cli::{
        self, Exit,
        args::{Cli, Command},
    },
    logs, server,
    workspace::process::{HELPER, helper_main},
};
use hermes_protocol::Stdio;
use std::{
    io::IsTerminal,
    path::Path,
    process::{ExitCode, Termination},
};

fn main() -> ExitCode {
    // Each command runs under this binary as a helper: before anything else, since every command pays for it.
    if std::env::args_os().nth(1).is_some_and(|word| word == HELPER) {
        return helper_main();
    }
    // The way an editor starts it costs no parsing.
    if std::env::args_os().len() == 1 {
        return if std::io::stdin().is_terminal() { cli::explain().report() } else { serve(None) };
    }
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Acp(args)) => serve(args.trace.as_deref()),
        Some(command) => cli::run(&command).report(),
        None => serve(cli.serve.trace.as_deref()),
    }
}

/// Serves an editor. Standard output is taken before anything could print to it.
fn serve(trace: Option<&Path>) -> ExitCode {
    let secrets = logs::start();
    let served = Stdio::take().map_err(Into::into).and_then(|stdio| server::run(stdio, trace, secrets));
    match served {
        Ok(()) => Exit::Good.report(),
        Err(error) => {
            tracing::error!("{error:#}");
            Exit::Failed.report()
        }
    }
}
