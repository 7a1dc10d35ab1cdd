//! What can confine commands on this machine, and what is in force.
use super::{Finding, State};
use crate::{
    config::{Config, SandboxMode},
    workspace::{process, sandbox},
};

const AREA: &str = "sandbox";

pub fn check(config: &Config) -> Vec<Finding> {
    let missing = process::shell_refusal(&process::find_shell());
    let mut all: Vec<_> =
        missing.map(|why| Finding::new("commands", State::Action, why)).into_iter().collect();
    all.extend(confinement(config));
    all
}

fn confinement(config: &Config) -> Vec<Finding> {
    if config.sandbox.mode == SandboxMode::Off {
        let text = "switched off by the configuration: commands are not confined";
        return vec![Finding::new(AREA, State::Info, text)];
    }
    let program = std::env::current_exe().unwrap_or_default();
    let mut in_force = false;
    let mut all = Vec::new();
    for (backend, works) in sandbox::survey(&program) {
        let name = backend.name();
        let first = works && !in_force;
        in_force |= works;
        all.push(match (works, !first) {
            (true, false) if backend.protects_inside_roots() => {
                Finding::new(AREA, State::Good, format!("{name} works and is in force"))
            }
            (true, false) => {
                let text = format!(
                    "{name} works and is in force; it cannot protect .git/hooks inside the project, so such commands keep asking"
                );
                Finding::new(AREA, State::Good, text)
            }
            (true, true) => Finding::new(AREA, State::Info, format!("{name} works too")),
            (false, _) => Finding::new(AREA, State::Info, format!("{name} does not work here")),
        });
    }
    if !in_force {
        let text = "nothing here can confine commands: they run as you, after your approval";
        all.push(Finding::new(AREA, State::Info, text).next("on Linux, install bubblewrap"));
    }
    all
}
