//! `doctor`: what was found on this machine, and what to do about what is missing. Changes nothing.
mod editors;
mod files;
mod logins;
mod model;
mod sandbox;

use super::{Exit, args::DoctorArgs, client::Style, print};
use crate::{
    config::{Config, DataDirs},
    model::auth::{Vault, store::CredentialStore},
};
use serde::Serialize;
use std::io::{self, IsTerminal};

/// How a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Good,
    /// Nothing wrong, or nothing that keeps Hermes from working.
    Info,
    /// Somebody has to do something.
    Action,
}

/// One thing that was found. It never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub area: &'static str,
    pub state: State,
    pub text: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Finding {
    pub fn new(area: &'static str, state: State, text: impl Into<String>) -> Self {
        Finding { area, state, text: text.into(), next: None }
    }
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// Looks at everything; 1 if something needs action.
pub fn doctor(args: &DoctorArgs) -> Exit {
    let findings = examine();
    let needs_action = findings.iter().any(|f| f.state == State::Action);
    let text = if args.json {
        let report = serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "good": !needs_action,
                                         "findings": findings });
        format!("{report}\n")
    } else {
        render(&findings, Style::of(io::stdout().is_terminal()))
    };
    print(&text, if needs_action { Exit::Failed } else { Exit::Good })
}

fn examine() -> Vec<Finding> {
    let mut all = vec![version()];
    match DataDirs::from_env() {
        Err(e) => all.push(Finding::new("folders", State::Action, e.to_string())),
        Ok(dirs) => {
            let config = Config::load(&dirs, |name| std::env::var(name).ok());
            // What a session in this folder would have, and what its project may not set.
            let config = std::env::current_dir().map(|here| config.for_project(&here)).unwrap_or(config);
            let vault = Vault { store: Some(CredentialStore::new(&dirs)), ..Vault::default() };
            all.extend(files::config(&dirs, &config));
            all.extend(files::store(&dirs));
            all.extend(logins::check(&config, &vault));
            all.extend(model::check(&config, vault));
            all.extend(sandbox::check(&config));
        }
    }
    all.extend(editors::check(&editors::Places::here()));
    all
}

fn version() -> Finding {
    let program = super::banner::program();
    let version = env!("CARGO_PKG_VERSION");
    Finding::new("program", State::Good, format!("hermes-editor {version}, protocol version 1, at {program}"))
}

fn render(findings: &[Finding], style: Style) -> String {
    let mut out = String::new();
    let mut area = "";
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            out.push_str(&format!("{}\n", style.bold(area)));
        }
        let mark = match finding.state {
            State::Good => style.green("✓"),
            State::Info => style.dim("·"),
            State::Action => style.red("✗"),
        };
        out.push_str(&format!("  {mark} {}\n", finding.text));
        if let Some(next) = &finding.next {
            out.push_str(&format!("    {}\n", style.dim(&format!("→ {next}"))));
        }
    }
    let actions = findings.iter().filter(|f| f.state == State::Action).count();
    out.push_str(&match actions {
        0 => format!("\n{}\n", style.green("Nothing needs to be done.")),
        1 => format!("\n{}\n", style.yellow("One thing needs to be done (✗).")),
        n => format!("\n{}\n", style.yellow(&format!("{n} things need to be done (✗)."))),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_groups_findings_and_counts_what_is_to_do() {
        let findings = [
            Finding::new("model", State::Action, "no key").next("set it"),
            Finding::new("model", State::Good, "reachable"),
            Finding::new("editors", State::Info, "none"),
        ];
        assert_eq!(
            render(&findings, Style::default()),
            "model\n  ✗ no key\n    → set it\n  ✓ reachable\neditors\n  · none\n\nOne thing needs to be done (✗).\n"
        );
        assert!(render(&findings[1..], Style::default()).ends_with("Nothing needs to be done.\n"));
    }
}
