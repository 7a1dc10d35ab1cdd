//! What a command would do, as far as reading it can tell.
use super::{repository, wide};
use crate::{
    effects::{Command, Effects, Verdict, WsPath},
    permit::shell::{Reading, ShellContext, assess},
    workspace::Reader,
};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Why a command that is proven to read must be asked about all the same.
pub(super) struct Doubt {
    pub why: String,
    /// The file that it is about.
    pub file: Option<PathBuf>,
}

impl<T: Into<String>> From<T> for Doubt {
    fn from(why: T) -> Self {
        Doubt { why: why.into(), file: None }
    }
}

/// The effects of a command: itself with its verdict, and the files outside the roots or with secrets that it names.
pub(super) async fn effects(
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
        && let Some(doubt) = beyond(&found.readings, program("git", &path), ws).await
    {
        (verdict, why) = (Verdict::Ask, doubt.why);
        // Asked about as one that is named: also where other commands are not, and never remembered.
        let file = doubt.file.and_then(|file| ws.resolve(&file.to_string_lossy()).ok());
        reads.extend(file.filter(|p| p.is_secret() || !p.in_roots()));
    }
    // Its bash names files in a second way (`/c/x`) and finds programs that are not on our `PATH`.
    if cfg!(windows) && verdict == Verdict::ReadOnly {
        (verdict, why) = (Verdict::Ask, "on Windows every command is asked about".to_owned());
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

/// Why commands that are proven to read must be asked about all the same: what they read beyond what they name.
async fn beyond(readings: &[Reading], git: Option<PathBuf>, ws: &dyn Reader) -> Option<Doubt> {
    for reading in readings.iter().filter(|r| r.program == "git") {
        // Without git nothing of it runs.
        if let Some(git) = &git
            && let Some(why) = repository::why(reading, git, ws).await
        {
            return Some(why);
        }
    }
    let (readings, roots) = (readings.to_vec(), ws.roots().to_vec());
    let looked = tokio::task::spawn_blocking(move || wide::why(&readings, &roots)).await;
    looked.unwrap_or_else(|_| Some(Doubt::from("what it reads could not be looked through for secrets")))
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

    #[tokio::test]
    async fn a_repository_that_has_git_start_programs_is_asked_about() {
        let ws = Fake::new();
        let judged = async |text: &str| {
            let cwd = ws.resolve(".").unwrap();
            effects(text, cwd, Duration::from_secs(1), (false, false), &ws).await.runs.unwrap().verdict
        };
        ws.file(".git/config", "[core]\n\tbare = false\n").file("sub/x", "");
        assert_eq!(judged("git status").await, Verdict::ReadOnly);
        let asks = match program("git", &ws.search_path()) {
            Some(_) => Verdict::Ask,
            // Nothing of it would run.
            None => Verdict::ReadOnly,
        };
        let evil = "[Filter \"x\"]\n\tclean = touch here\n";
        ws.file(".git/config", evil);
        assert_eq!(judged("git status").await, asks);
        ws.file(".git/config", "[core]\n").file("sub/.git/config", evil);
        assert_eq!(judged("git status").await, Verdict::ReadOnly);
        assert_eq!(judged("cd sub && git status").await, asks);
        ws.file("tree/.git", "gitdir: ../.git/worktrees/tree\n");
        ws.file(".git/worktrees/tree/commondir", "../..\n");
        assert_eq!(judged("cd tree && git status").await, Verdict::ReadOnly);
        ws.file(".git/worktrees/tree/config.worktree", evil);
        assert_eq!(judged("cd tree && git status").await, asks);
        for (config, verdict) in [
            ("[core]\n\tworktree = /etc\n".to_owned(), asks),
            ("[core]\n\tworktree=../..\n".to_owned(), asks),
            ("[core]\n\tworktree = ../sub\n".to_owned(), Verdict::ReadOnly),
            ("[extensions]\n\tworktreeConfig = true\n".to_owned(), Verdict::ReadOnly),
            ("[diff \"x\"]\n\ttextconv = cat\n".to_owned(), asks),
            ("[diff \"x\"]\n\tcommand = ./x\n".to_owned(), asks),
            ("[diff]\n\texternal=./x\n".to_owned(), asks),
            ("[merge \"x\"]\n\tdriver = ./x\n".to_owned(), asks),
            ("[extensions]\n\tpartialClone = origin\n".to_owned(), Verdict::ReadOnly),
            ("[extensions]\n\tpartialClone = origin\n[core]\n\tsshCommand = ./x\n".to_owned(), asks),
        ] {
            ws.file(".git/config", &config);
            assert_eq!(judged("git status").await, verdict, "{config}");
        }
        ws.file(".git/config", "[core]\n").file(".git/modules/a/b/HEAD", "ref: refs/heads/main\n");
        ws.file(".git/modules/a/b/config", "[core]\n\tworktree = ../../../../sub\n");
        assert_eq!(judged("git status").await, Verdict::ReadOnly);
        ws.file(".git/modules/a/b/config", evil);
        assert_eq!(judged("git status").await, asks);
    }

    #[tokio::test]
    async fn reading_is_told_from_changing() {
        let ws = Fake::new();
        ws.file("a.txt", "");
        let of = async |text: &str| {
            effects(text, ws.resolve(".").unwrap(), Duration::from_secs(1), (false, false), &ws).await
        };
        let verdict = async |text: &str| of(text).await.runs.unwrap().verdict;
        assert_eq!(verdict("cat a.txt").await, Verdict::ReadOnly);
        assert_eq!(verdict("cargo test").await, Verdict::Ask);
        assert_eq!(verdict("rm -rf /").await, Verdict::Destructive);
        assert_eq!(
            of("cargo test").await.runs.unwrap().assessment.unwrap().prefix.clone().unwrap()[..2],
            ["cargo", "test"]
        );
        assert!(of("cat a.txt").await.reads.is_empty());
        let outside = of("cat /etc/hostname").await;
        assert!(
            outside.runs.unwrap().verdict != Verdict::ReadOnly || !outside.reads.is_empty(),
            "a file outside must be asked for"
        );
        let secret = of("cat .env").await;
        assert!(secret.runs.unwrap().verdict != Verdict::ReadOnly || !secret.reads.is_empty());
        // Named or not, it is a secret in every mode.
        ws.file(".env", "TOKEN=x\n");
        assert_eq!(
            (verdict("cat .e*").await, verdict("cat .*").await),
            (Verdict::NotUnderstood, Verdict::NotUnderstood)
        );
        let found = of("grep -r TOKEN .").await;
        assert_eq!(found.runs.unwrap().verdict, Verdict::Ask);
        assert!(found.reads.iter().any(|p| p.is_secret()), "{:?}", found.reads);
    }

    #[tokio::test]
    async fn to_leave_the_sandbox_is_asked_each_time() {
        let ws = Fake::new();
        let of = async |text: &str| {
            let cwd = ws.resolve(".").unwrap();
            effects(text, cwd, Duration::from_secs(1), (false, true), &ws).await.runs.unwrap()
        };
        for text in ["cat a.txt", "cargo test"] {
            let command = of(text).await;
            assert_eq!((command.verdict, command.assessment), (Verdict::NotUnderstood, None), "{text}");
            assert!(command.why.starts_with("to run outside the sandbox"), "{}", command.why);
        }
        assert_eq!(of("rm -rf /").await.verdict, Verdict::Destructive);
    }

    #[test]
    fn a_relative_part_of_the_path_is_not_searched() {
        assert!(program("sh", OsStr::new("/bin:/usr/bin")).is_some());
        assert_eq!(program("sh", OsStr::new(".:/bin")), None);
        assert_eq!(program("no-such-program-here", OsStr::new("/bin")), None);
    }
}
