//! The policy table: mode × effect → allow, ask or deny. Pure.
//!
//! | effect | ask | accept-edits | plan | full |
//! |---|---|---|---|---|
//! | read in the roots, or our own session folder | allow | allow | allow | allow |
//! | read outside the roots, or secret-like file | ask | ask | ask | allow (secret-like: ask) |
//! | write in the roots | ask | allow | deny | allow |
//! | write to a protected path or outside | ask, not remembered | same | deny | ask |
//! | command proven read-only | allow | allow | allow | allow |
//! | other command, host, MCP tool | ask | ask | deny | allow |
//! | destructive or not understood command | ask, not remembered | same | deny | ask |
use super::{Grant, Grants};
use crate::{
    effects::{Effects, Verdict, WsPath},
    log::Mode,
};

/// What the policy says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// `why`: a line for the question. `remember`: what an "always" would cover; `None`: not to be remembered.
    Ask {
        why: String,
        remember: Option<Vec<Grant>>,
    },
    Deny(String),
}

const PLAN_MODE: &str =
    "plan mode changes nothing: say what you would do, or ask the user to leave plan mode";

/// Decides over everything a call will do: the strictest of its effects wins; one question covers all of them.
pub fn decide(mode: Mode, grants: &Grants, effects: &Effects) -> Decision {
    let mut all = Decision::Allow;
    for path in &effects.reads {
        all = stricter(all, read(mode, grants, path));
    }
    for path in effects.writes.iter().flat_map(|c| c.paths()) {
        all = stricter(all, write(mode, grants, path));
    }
    if let Some(command) = &effects.runs {
        all = stricter(all, run(mode, grants, command));
    }
    for host in &effects.reaches {
        all = stricter(all, reach(mode, grants, host));
    }
    all
}

fn read(mode: Mode, grants: &Grants, path: &WsPath) -> Decision {
    if path.is_secret() {
        return Decision::Ask { why: format!("{path} looks like it holds secrets"), remember: None };
    }
    match path.place() {
        crate::effects::Place::Root(_) | crate::effects::Place::SessionFolder => Decision::Allow,
        crate::effects::Place::Outside if mode == Mode::Full || grants.covers_read(path.as_path()) => {
            Decision::Allow
        }
        crate::effects::Place::Outside => {
            let folder = path.as_path().parent().unwrap_or(path.as_path()).to_owned();
            Decision::Ask {
                why: format!("{path} is outside the workspace"),
                remember: Some(vec![Grant::Read { folder }]),
            }
        }
    }
}

fn write(mode: Mode, grants: &Grants, path: &WsPath) -> Decision {
    if mode == Mode::Plan {
        return Decision::Deny(PLAN_MODE.into());
    }
    if let Some(why) = path.protected() {
        return Decision::Ask { why: format!("{path} is protected: {why}"), remember: None };
    }
    if !path.in_roots() {
        return Decision::Ask { why: format!("{path} is outside the workspace"), remember: None };
    }
    match mode {
        Mode::AcceptEdits | Mode::Full => Decision::Allow,
        _ if grants.edits() => Decision::Allow,
        _ => Decision::Ask { why: String::new(), remember: Some(vec![Grant::Edits]) },
    }
}

fn run(mode: Mode, grants: &Grants, command: &crate::effects::Command) -> Decision {
    let why = command.why.clone();
    match command.verdict {
        Verdict::ReadOnly => Decision::Allow,
        _ if mode == Mode::Plan => Decision::Deny(format!("{PLAN_MODE} ({why})")),
        Verdict::Destructive | Verdict::NotUnderstood => Decision::Ask { why, remember: None },
        Verdict::Ask if mode == Mode::Full => Decision::Allow,
        Verdict::Ask if command.assessment.as_ref().is_some_and(|a| grants.covers_command(a)) => {
            Decision::Allow
        }
        Verdict::Ask => {
            let prefix = command.assessment.as_ref().and_then(|a| a.prefix.clone());
            Decision::Ask { why, remember: prefix.map(|prefix| vec![Grant::Command { prefix }]) }
        }
    }
}

fn reach(mode: Mode, grants: &Grants, host: &str) -> Decision {
    match mode {
        Mode::Plan => Decision::Deny(PLAN_MODE.into()),
        Mode::Full => Decision::Allow,
        _ if grants.covers_host(host) => Decision::Allow,
        _ => Decision::Ask {
            why: format!("it reaches {host}"),
            remember: Some(vec![Grant::Host { name: host.into() }]),
        },
    }
}

/// Deny beats ask beats allow; of two questions the reasons join, and one that must not be remembered makes both so.
fn stricter(a: Decision, b: Decision) -> Decision {
    match (a, b) {
        (Decision::Deny(why), _) | (_, Decision::Deny(why)) => Decision::Deny(why),
        (Decision::Allow, other) | (other, Decision::Allow) => other,
        (Decision::Ask { why: a, remember: x }, Decision::Ask { why: b, remember: y }) => {
            let why = if a.is_empty() || a == b {
                b
            } else if b.is_empty() {
                a
            } else {
                format!("{a}; {b}")
            };
            let remember = x.zip(y).map(|(mut x, y)| {
                y.into_iter().for_each(|g| {
                    if !x.contains(&g) {
                        x.push(g)
                    }
                });
                x
            });
            Decision::Ask { why, remember }
        }
    }
}

#[cfg(test)]
mod tests;
