//! The command line as clap reads it. Serving an editor does not come by here (see `main.rs`).
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Hermes: a coding agent that an editor starts, over the Agent Client Protocol.
///
/// Without arguments it serves an editor on its standard input and output.
#[derive(Debug, Parser)]
#[command(name = "hermes-editor", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Serve, as without arguments
    #[arg(long, hide = true)]
    pub acp: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Record the protocol, without secrets, in a file that can be replayed
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve an editor on standard input and output, also when started on a terminal
    Acp(ServeArgs),
    /// Watch Hermes work on a small sample project: offline, no key, a scripted model
    Demo(DemoArgs),
    /// Do one task in a folder and show it in the terminal
    Exec(ExecArgs),
    /// Say what was found: configuration, model, sandbox, editors; and what to do next
    Doctor(DoctorArgs),
    /// List, read, search, export and delete what was said
    Sessions(SessionsArgs),
    /// Sign in to a provider, or list the providers and how each is signed in to
    Login(LoginArgs),
    /// Forget what `login` stored: for one provider, or for all
    Logout(LogoutArgs),
    /// Show the configuration in force, and the permissions remembered
    Config(ConfigArgs),
}

#[derive(Debug, Args)]
pub struct LoginArgs {
    /// `codex` (a ChatGPT account), `openrouter`, or another provider, whose key is asked for; a key can be piped in
    pub provider: Option<String>,
    /// Take over the login of an installed Codex from its auth.json, which is only read
    #[arg(long, requires = "provider")]
    pub import: bool,
    /// Open the page in the browser
    #[arg(long, requires = "provider")]
    pub browser: bool,
}

#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// The provider; all without it
    pub provider: Option<String>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Allow everything that is asked; needs no terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Keep the sample project afterwards
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub struct ExecArgs {
    /// What to do; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// The folder to work in [default: the current one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Answer "allow once" to every question; needs no terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Print each update as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// The model, as `provider/model`
    #[arg(short, long)]
    pub model: Option<String>,
    /// The mode: ask, accept-edits, plan or full
    #[arg(long, value_parser = mode)]
    pub mode: Option<String>,
}

fn mode(id: &str) -> Result<String, String> {
    use crate::log::Mode;
    let known = || format!("there is: {}", Mode::ALL.map(Mode::id).join(", "));
    Mode::from_id(id).map(|mode| mode.id().to_owned()).ok_or_else(known)
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub command: SessionsCommand,
}

/// A session is named by its id, by the beginning of it, or as `last`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// The sessions, the newest first
    List {
        /// Those of this folder alone
        #[arg(short = 'C', long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Also those of `exec` and `demo`
        #[arg(long)]
        all: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// One session as Markdown
    Show {
        id: String,
        /// Instead: of each turn what was asked and answered, changed and used, and why it ended
        #[arg(long)]
        audit: bool,
    },
    /// Search in all sessions
    Search {
        #[arg(required = true)]
        words: Vec<String>,
        /// In those of this folder alone
        #[arg(short = 'C', long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// A whole session as Markdown or as JSON lines
    Export {
        id: String,
        #[arg(short, long, value_enum, default_value = "markdown")]
        format: ExportFormat,
        /// A file, which must not exist yet [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Remove a session for good
    Delete {
        id: String,
        /// Without a question
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    Markdown,
    Jsonl,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show the configuration in force and where each value comes from
    Show,
    /// The permissions remembered for projects
    Grants {
        #[command(subcommand)]
        command: GrantsCommand,
    },
}

#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// List them
    List,
    /// Take one back
    Revoke {
        /// Its number in the list
        number: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_a_line_means() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("h --trace f").is_ok_and(|c| c.serve.trace.is_some() && c.command.is_none()));
        assert!(parse("h --acp").is_ok_and(|c| c.acp));
        assert!(
            matches!(parse("h acp --trace f").unwrap().command, Some(Command::Acp(a)) if a.trace.is_some())
        );
        let exec = parse("h exec - -C /x --yes --json --model a/b --mode plan").unwrap().command;
        assert!(
            matches!(exec, Some(Command::Exec(e)) if e.prompt == "-" && e.yes && e.json && e.cwd.is_some())
        );
        let login = parse("h login codex --import").unwrap().command;
        assert!(
            matches!(login, Some(Command::Login(l)) if l.import && l.provider.as_deref() == Some("codex"))
        );
        for wrong in ["h exec", "h frob", "h exec a b", "h config grants revoke x", "h exec a --mode zz"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
        for wrong in ["h login --import", "h logout a b"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
