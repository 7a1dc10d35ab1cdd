//! What a login shell knows and the editor did not pass: an editor started from a desktop lacks what `~/.profile` sets.
use super::{
    Collector, ENVIRONMENT, Running, SCRIPT, Settings,
    environment::{Env, is_own, parse_state},
    helper::Spec,
};
use crate::workspace::OutputSink;
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The shells that understand what they are asked.
const SHELLS: &[&str] = &["bash", "zsh", "ksh", "mksh", "dash", "sh"];

struct Nothing;
impl OutputSink for Nothing {
    fn output(&self, _: &[u8]) {}
}

/// The environment with its gaps filled from the user's login shell, started in `cwd`. A shell that takes longer than
/// `limit`, or whose start-up files end it, fills nothing; all that it started ends with it.
pub(super) async fn filled(
    base: &Env,
    settings: &Settings,
    (cwd, roots, folder): (&Path, &[PathBuf], &Path),
    limit: Duration,
) -> Env {
    let Some(shell) = shell(base) else { return base.clone() };
    let spill = folder.join(format!("login-{}.txt", uuid::Uuid::now_v7().simple()));
    let snapshot = tokio::time::timeout(limit, snapshot(base, settings, cwd, shell, spill.clone())).await;
    // A start-up file may say more than is kept in memory.
    let _ = std::fs::remove_file(spill);
    match snapshot {
        Ok(Some(snapshot)) => fill(base, snapshot, settings, roots),
        Ok(None) => base.clone(),
        Err(_) => {
            tracing::warn!(
                "the login shell did not end in {limit:?}: its variables are not used (terminal.login_shell)"
            );
            base.clone()
        }
    }
}

fn shell(base: &Env) -> Option<PathBuf> {
    let shell = PathBuf::from(base.get(OsStr::new("SHELL"))?);
    let known = shell.file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name));
    (known && shell.is_absolute() && shell.is_file()).then_some(shell)
}

async fn snapshot(
    base: &Env,
    settings: &Settings,
    cwd: &Path,
    shell: PathBuf,
    spill: PathBuf,
) -> Option<Env> {
    let spec = Spec {
        patience: None,
        shell,
        arguments: ["-l", "-c", SCRIPT, "sh"].map(str::to_owned).to_vec(),
        text: ":".into(),
        last_words: ENVIRONMENT.into(),
        sandbox: None,
    };
    // Where this future is dropped, so is the helper's control, and with it all that runs under it.
    let running = Running::start(&settings.helper, &spec, cwd, base).await.ok()?;
    let collector = Mutex::new(Collector::new(spill));
    let ended = running.finish(Arc::new(Nothing), &collector, None, CancellationToken::new()).await.ok()?;
    parse_state(&ended.report.state)?.1
}

/// What the editor gave stays as it is; of `PATH`, folders that are missing come behind.
fn fill(base: &Env, snapshot: Env, settings: &Settings, roots: &[PathBuf]) -> Env {
    let mut env = base.clone();
    for (name, value) in snapshot {
        if name == "PATH" {
            let given = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
            env.insert(name, path(&given, &value, roots));
        } else if !is_own(&name) && !settings.withholds(&name, &value) {
            env.entry(name).or_insert(value);
        }
    }
    env
}

/// Folders of the workspace do not join: what is in them is no program that the user installed.
fn path(given: &OsStr, found: &OsStr, roots: &[PathBuf]) -> OsString {
    let mut all: Vec<PathBuf> = std::env::split_paths(given).collect();
    let mut known: BTreeSet<PathBuf> = all.iter().cloned().collect();
    for folder in std::env::split_paths(found) {
        let trusted = folder.is_absolute() && !roots.iter().any(|root| folder.starts_with(root));
        if trusted && known.insert(folder.clone()) {
            all.push(folder);
        }
    }
    std::env::join_paths(all).unwrap_or_else(|_| given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_are_filled() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
        };
        let settings = Settings { env: vec![], strip: vec!["MINE".into()], ..Settings::default() };
        let base = env(&[("PATH", "/b:/a"), ("LANG", "C")]);
        let found = env(&[
            ("PATH", "/a:/new:rel::/ws/bin:/b"),
            ("LANG", "de"),
            ("GOPATH", "/go"),
            ("OPENAI_API_KEY", "k"),
            ("MINE", "k"),
            ("BASH_ENV", "/evil"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("TMPDIR", "/t"),
        ]);
        let filled = fill(&base, found, &settings, &["/ws".into()]);
        assert_eq!(filled, env(&[("PATH", "/b:/a:/new"), ("LANG", "C"), ("GOPATH", "/go")]));
    }

    #[test]
    fn a_shell_that_is_not_understood_is_not_started() {
        let of = |shell: &str| super::shell(&[("SHELL".into(), shell.into())].into_iter().collect());
        assert_eq!(of("/bin/sh"), Some("/bin/sh".into()));
        for other in ["/usr/bin/fish", "sh", "/nowhere/bash", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
