//! What a command would do, as far as reading it can tell.
use crate::{
    effects::{Command, Effects, Verdict, WsPath},
    permit::shell::{ShellContext, assess},
    workspace::Reader,
};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The effects of a command: itself with its verdict, and the files outside the roots or with secrets that it names.
pub(super) fn effects(
    text: &str,
    cwd: WsPath,
    timeout: Duration,
    (background, unconfined): (bool, bool),
    ws: &dyn Reader,
) -> Effects {
    let path = ws.search_path();
    let home = std::env::home_dir();
    let found = assess(
        text,
        &ShellContext {
            cwd: cwd.real(),
            roots: ws.roots(),
            home: home.as_deref(),
            path: &path,
            resolve: &|name| program(name, &path),
        },
    );
    let mut reads = Vec::new();
    let (mut verdict, mut why) = (found.verdict, found.why.clone());
    for read in &found.reads {
        match ws.resolve(&read.to_string_lossy()) {
            Ok(p) if p.in_roots() && !p.is_secret() => {}
            Ok(p) => reads.push(p),
            // Where a path leads could not be told: a person decides.
            Err(e) if verdict == Verdict::ReadOnly => (verdict, why) = (Verdict::Ask, e.to_string()),
            Err(_) => {}
        }
    }
    if verdict == Verdict::ReadOnly
        && found.leaves.iter().any(|leaf| leaf.first().is_some_and(|program| program == "git"))
        && let Some(config) = starts_programs(cwd.real())
    {
        why = format!("{} may make git start a program (a filter or an include)", config.display());
        verdict = Verdict::Ask;
    }
    if verdict == Verdict::ReadOnly
        && let Some(secret) = super::wide::secret_in_reach(&found.leaves, cwd.real())
    {
        why = format!("it may read {}, which looks like it holds secrets", secret.display());
        verdict = Verdict::Ask;
    }
    let mut assessment = Some(Arc::new(found));
    if unconfined {
        // Asked each time, in every mode, and never remembered: what was read in the text is no bound any more.
        why = format!("to run outside the sandbox; {why}");
        assessment = None;
        if verdict != Verdict::Destructive {
            verdict = Verdict::NotUnderstood;
        }
    }
    if ws.runs_in_editor() && !background {
        const WHERE: &str = "it runs in a terminal of the editor, outside the sandbox";
        why = if why.is_empty() { WHERE.to_owned() } else { format!("{why}; {WHERE}") };
    }
    let command =
        Command { text: text.to_owned(), cwd, timeout, verdict, why, assessment, background, unconfined };
    Effects { reads, runs: Some(command), ..Effects::default() }
}

/// The repository's own configuration, where it has what no setting of ours can switch off: `filter.*.clean` runs on a
/// mere `git diff`, and an include can bring it in. What cannot be read counts as such.
fn starts_programs(cwd: &Path) -> Option<PathBuf> {
    let git = cwd.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    // In a worktree `.git` is a file that names the repository, whose configuration lies elsewhere.
    let config = if git.is_dir() { git.join("config") } else { git };
    let text = std::fs::read(&config).map(|bytes| String::from_utf8_lossy(&bytes).to_lowercase());
    match text {
        Ok(text) if !config.ends_with(".git") && !text.contains("[filter") && !text.contains("[include") => {
            None
        }
        _ => Some(config),
    }
}

/// The file that a program's name stands for, links followed.
fn program(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    std::env::split_paths(path)
        // An empty or relative part means the folder that the command runs in: never a place to trust.
        .take_while(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| executable(file))
        .and_then(|file| file.canonicalize().ok())
}

#[cfg(unix)]
fn executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
#[cfg(not(unix))]
fn executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fake::Fake;

    #[test]
    fn a_repository_that_has_git_start_programs_is_asked_about() {
        let ws = Fake::new();
        let judged = || {
            let cwd = ws.resolve(".").unwrap();
            effects("git status", cwd, Duration::from_secs(1), (false, false), &ws).runs.unwrap().verdict
        };
        ws.file(".git/config", "[core]\n\tbare = false\n");
        let plain = judged();
        ws.file(".git/config", "[Filter \"x\"]\n\tclean = touch here\n");
        assert_eq!(judged(), Verdict::Ask);
        // Where git is not installed nothing of it is proven either way.
        assert!(plain == Verdict::ReadOnly || program("git", &ws.search_path()).is_none());
    }

    #[test]
    fn reading_is_told_from_changing() {
        let ws = Fake::new();
        ws.file("a.txt", "");
        let of =
            |text: &str| effects(text, ws.resolve(".").unwrap(), Duration::from_secs(1), (false, false), &ws);
        let verdict = |text: &str| of(text).runs.unwrap().verdict;
        assert_eq!(verdict("cat a.txt"), Verdict::ReadOnly);
        assert_eq!(verdict("cargo test"), Verdict::Ask);
        assert_eq!(verdict("rm -rf /"), Verdict::Destructive);
        assert_eq!(
            of("cargo test").runs.unwrap().assessment.unwrap().prefix.clone().unwrap()[..2],
            ["cargo", "test"]
        );
        assert!(of("cat a.txt").reads.is_empty());
        let outside = of("cat /etc/hostname");
        assert!(
            outside.runs.unwrap().verdict != Verdict::ReadOnly || !outside.reads.is_empty(),
            "a file outside must be asked for"
        );
        let secret = of("cat .env");
        assert!(secret.runs.unwrap().verdict != Verdict::ReadOnly || !secret.reads.is_empty());
    }

    #[test]
    fn to_leave_the_sandbox_is_asked_each_time() {
        let ws = Fake::new();
        let of = |text: &str| {
            effects(text, ws.resolve(".").unwrap(), Duration::from_secs(1), (false, true), &ws).runs.unwrap()
        };
        for text in ["cat a.txt", "cargo test"] {
            let command = of(text);
            assert_eq!((command.verdict, command.assessment), (Verdict::NotUnderstood, None), "{text}");
            assert!(command.why.starts_with("to run outside the sandbox"), "{}", command.why);
        }
        assert_eq!(of("rm -rf /").verdict, Verdict::Destructive);
    }

    #[test]
    fn a_relative_part_of_the_path_is_not_searched() {
        assert!(program("sh", OsStr::new("/bin:/usr/bin")).is_some());
        assert_eq!(program("sh", OsStr::new(".:/bin")), None);
        assert_eq!(program("no-such-program-here", OsStr::new("/bin")), None);
    }
}
