use super::*;
use crate::{
    effects::Verdict,
    tools::{fake::Fake, terminal::judge},
};
use std::{process::Command, time::Duration};

/// A repository with a secret-like file that an old commit has, one that is tracked, and plain ones.
fn repository() -> Option<Fake> {
    let ws = Fake::new();
    let git = |args: &[&str]| {
        let who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        ];
        let mut command = Command::new("git");
        command.args(who).args(args).current_dir(ws.root());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.output().is_ok_and(|out| out.status.success())
    };
    if !git(&["init", "-q"]) {
        return None;
    }
    let commit = |text: &str| assert!(git(&["add", "-A"]) && git(&["commit", "-qm", text]));
    ws.file(".env", "KEY=old\n").file("a.txt", "one\n").file("src/lib.rs", "fn a() {}\n");
    commit("first: M\n\nA .env here");
    assert!(git(&["rm", "-q", ".env"]));
    ws.file("a.txt", "two\n");
    commit("second, without .env");
    ws.file("k/server.pem", "KEY\n");
    commit("third");
    assert!(git(&["tag", "-a", "v1", "-m", "x", "HEAD:k/server.pem"]));
    ws.file("src/lib.rs", "fn b() {}\n").file("b.txt", "b\n");
    commit("fourth");
    ws.file("k/server.pem", "KEY2\n").file("a.txt", "three\n");
    assert!(git(&["stash"]));
    ws.file("a.txt", "four\n");
    Some(ws)
}

async fn asks(ws: &Fake, text: &str) -> bool {
    let cwd = ws.resolve(".").unwrap();
    let effects = judge::effects(text, cwd, Duration::from_secs(1), (false, false), ws).await;
    let verdict = effects.runs.as_ref().unwrap().verdict;
    assert!(matches!(verdict, Verdict::ReadOnly | Verdict::Ask), "{text}: {verdict:?}");
    verdict != Verdict::ReadOnly || !effects.reads.is_empty()
}

const PLAIN: &[&str] = &[
    "git status",
    "git status -sb",
    "git status -v",
    "git diff",
    "git diff --stat",
    "git diff HEAD",
    "git diff --check",
    "git diff HEAD~1",
    "git diff HEAD~1 HEAD -- src",
    "git diff --cached",
    "git diff --name-only HEAD~3",
    "git diff --stat HEAD~3",
    "git diff a.txt",
    "git log",
    "git log --oneline -5",
    "git log --stat",
    "git log --oneline --graph --all",
    "git log -p -1",
    "git log -p --graph -1",
    "git log -p --oneline -1 -- src",
    "git log -p -- a.txt",
    "git log -L1,1:a.txt",
    "git log -S KEY --oneline",
    "git show",
    "git show HEAD",
    "git show --stat HEAD~3",
    "git show HEAD:a.txt",
    "git show HEAD:k",
    "git blame a.txt",
    "git blame HEAD -- src/lib.rs",
    "git grep two",
    "git grep -n fn",
    "git grep -l KEY",
    "git grep KEY -- src",
    "git ls-files",
    "git ls-tree -r HEAD",
    "git cat-file -t HEAD",
    "git cat-file -p HEAD",
    "git cat-file -p HEAD:a.txt",
    "git stash list",
    "git stash show --stat",
    "git branch -a",
    "git rev-parse HEAD",
    "git reflog -3",
    "git shortlog -sn HEAD",
    "git log --format=%s -3 | head -2",
    "cd src && git diff",
    "git diff HEAD~99",
    "git diff HEAD~99 -- src/lib.rs",
    "git show nothing",
    "git log -p nothing..HEAD",
    "git grep x nothing",
    "git stash show -p stash@{9}",
    "git diff -- no/such/path",
];
const SECRET: &[&str] = &[
    "git diff HEAD~2",
    "git diff HEAD~2 HEAD~3",
    "git diff HEAD~3..HEAD~2",
    "git diff HEAD~3...HEAD -- k",
    "git diff --stat -p HEAD~3",
    "git diff -R HEAD~3",
    "git diff --word-diff HEAD~3",
    "git diff --check HEAD~3",
    "git log -p",
    "git log -p --all",
    "git log -u -3",
    "git log --patch --oneline --graph",
    "git log -p --format=%x00%s",
    "git log -1 -p HEAD~3",
    "git log -p --reverse",
    "git log -U0",
    "git log --cc -m",
    "git log --patch-with-stat",
    "git log -L1,1:.env HEAD~3",
    "git log -p -S KEY",
    "git log -p -S --check",
    "git log -s -p",
    "git log -p --relative=k",
    "git log -p --line-prefix=x",
    "git show HEAD~1",
    "git show HEAD~3",
    "git show HEAD~3:.env",
    "git show v1",
    "git show --stat v1",
    "git show :0:k/server.pem",
    "git show :k/server.pem",
    "git show HEAD HEAD~1",
    "git show stash@{0}",
    "git show main:k/server.pem",
    "git cat-file -p HEAD~3:.env",
    "git cat-file -p v1",
    "git cat-file blob HEAD:k/server.pem",
    "git grep KEY",
    "git grep KEY HEAD~3",
    "git grep -h KEY -- k",
    "git grep --cached KEY",
    "git grep --untracked KEY",
    "git grep --no-index KEY",
    "git stash show -p",
    "git stash list -p",
    "git blame k/server.pem",
    "git blame HEAD~3 -- .env",
    "git whatchanged -p",
    "git reflog -p",
    "git diff-tree -p HEAD~1",
    "git diff-tree -p HEAD~2 HEAD",
    "git diff-index -p HEAD~3",
    "git --no-pager log -p",
    "git diff --no-index a.txt k/server.pem",
    "cd src && git log -p",
    "cd k && git show HEAD:./server.pem",
];

#[tokio::test]
async fn what_git_would_show_is_known_before() {
    let Some(ws) = repository() else { return };
    for text in PLAIN {
        assert!(!asks(&ws, text).await, "asked: {text}");
    }
    for text in SECRET {
        assert!(asks(&ws, text).await, "not asked: {text}");
    }
}

#[tokio::test]
async fn where_nothing_is_committed_nothing_is_shown() {
    let ws = Fake::new();
    let git = |args: &[&str]| {
        Command::new("git").args(args).current_dir(ws.root()).output().is_ok_and(|o| o.status.success())
    };
    for made in [true, git(&["init", "-q"])] {
        if !made {
            return;
        }
        for text in [
            "git diff HEAD",
            "git log -p",
            "git show",
            "git diff",
            "git stash show -p",
            "git show HEAD:a.txt",
        ] {
            assert!(!asks(&ws, text).await, "asked: {text}");
        }
    }
}

#[tokio::test]
async fn a_content_named_by_its_number_is_asked_about() {
    let Some(ws) = repository() else { return };
    let number = |name: &str| {
        let out = Command::new("git").args(["rev-parse", name]).current_dir(ws.root()).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    let (key, plain) = (number("HEAD~3:.env"), number("HEAD:a.txt"));
    for text in [
        format!("git show {key}"),
        format!("git show {}", &key[..7]),
        format!("git cat-file -p {key}"),
        format!("git diff {plain} {key}"),
        format!("git diff {plain}..{key}"),
        format!("git grep KEY {key}"),
    ] {
        assert!(asks(&ws, &text).await, "not asked: {text}");
    }
    assert!(!asks(&ws, &format!("git show --stat {}", number("HEAD"))).await);
    // A file of that name does not make it one.
    ws.file(&key, "x");
    assert!(asks(&ws, &format!("git show {key} --")).await);
}

#[tokio::test]
async fn what_is_staged_and_deleted_is_shown_too() {
    let Some(ws) = repository() else { return };
    let run = |args: &[&str]| {
        assert!(Command::new("git").args(args).current_dir(ws.root()).status().unwrap().success())
    };
    run(&["rm", "-q", "--cached", "k/server.pem"]);
    for text in ["git diff --cached", "git diff HEAD", "git status -v"] {
        assert!(asks(&ws, text).await, "not asked: {text}");
    }
    assert!(!asks(&ws, "git diff").await && !asks(&ws, "git diff --cached --stat").await);
    run(&["config", "diff.relative", "true"]);
    run(&["config", "diff.submodule", "diff"]);
    assert!(asks(&ws, "git diff --cached").await);
}
