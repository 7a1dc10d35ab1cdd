//! The table of `fixtures/shell/commands.tsv`, and properties that hold for every command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Assessment, ShellContext, Verdict, assess, covered_by, covers, escape_for_display, fuzz};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/shell/commands.tsv");

/// A machine where every usual program is in /usr/bin, and `mytool` and `bin/ls` are in the workspace.
fn resolve(name: &str) -> Option<PathBuf> {
    match name {
        "mytool" => Some("/proj/app/bin/mytool".into()),
        "missing" => None,
        _ => Some(Path::new("/usr/bin").join(name)),
    }
}

fn judge_on(command: &str, path: &str, resolve: &dyn Fn(&str) -> Option<PathBuf>) -> Assessment {
    let root = PathBuf::from("/proj/app");
    let cx = ShellContext {
        cwd: &root,
        roots: std::slice::from_ref(&root),
        home: Some(Path::new("/home/kim")),
        path: OsStr::new(path),
        resolve,
    };
    assess(command, &cx)
}

fn judge(command: &str) -> Assessment {
    judge_on(command, "/usr/bin:/bin", &resolve)
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::ReadOnly => "read",
        Verdict::Ask => "ask",
        Verdict::Destructive => "destroy",
        Verdict::NotUnderstood => "unclear",
    }
}

/// `\u{…}` in the table stands for a character that an editor would spoil.
fn decode(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u{") {
        out.push_str(before);
        let (code, tail) = after.split_once('}').expect("closed");
        out.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32).expect("a character"));
        rest = tail;
    }
    out + rest
}

fn rows() -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(TABLE).expect("the table");
    let row = |l: &str| {
        let parts: Vec<&str> = l.split('\t').collect();
        let [verdict, prefix, command, _why] = parts[..] else { panic!("four columns: {l}") };
        (verdict.to_owned(), prefix.to_owned(), decode(command))
    };
    text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(row).collect()
}

#[test]
fn every_command_of_the_table_is_judged_as_written() {
    let rows = rows();
    assert!(rows.len() >= 250, "{} rows", rows.len());
    let mut wrong = vec![];
    for (verdict, prefix, command) in &rows {
        let found = judge(command);
        let remembered = found.prefix.as_ref().map_or("-".to_owned(), |p| p.join(" "));
        if (name(found.verdict), &remembered) != (verdict, prefix) {
            wrong.push(format!(
                "{command:?}\n    wanted {verdict} {prefix}, got {} {remembered}: {}",
                name(found.verdict),
                found.why
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Properties start from what is in the table, so that they meet real syntax.
fn commands() -> impl Strategy<Value = String> {
    let table: Vec<String> = rows().into_iter().map(|(_, _, c)| c).collect();
    prop::sample::select(table)
}

const PIECES: &[&str] = &[
    "ls",
    "cat",
    "rm",
    "git",
    "-rf",
    "status",
    " ",
    " ",
    " ",
    "a",
    "'",
    "\"",
    "\\",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "(",
    ")",
    "{",
    "}",
    "$",
    "$(",
    "`",
    "${",
    "<<E\n",
    "E\n",
    "<<<",
    ">",
    ">>",
    "2>&1",
    "<",
    "*",
    "[",
    "]",
    "!",
    "#",
    "=",
    "x=",
    "~",
    "$'",
    "{a,b}",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case ",
    "esac",
    "é",
    "\u{202e}",
    "\u{a0}",
    "\r",
    "\0",
    "0",
    "eval ",
    "env ",
    "bash -c ",
    "sudo ",
    "<(",
    "$((",
    "))",
    "[[",
    "]]",
    "function ",
];

/// Pieces of shell syntax, put together at random.
fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_destructive_tail_is_never_read_only(command in commands(), joint in "(;|&&|\\|\\||\\||&|\n) ?") {
        // On the line of a comment it would be text.
        prop_assume!(joint.starts_with('\n') || !command.contains('#'));
        let found = judge(&format!("{command}{joint}rm -rf /"));
        prop_assert_ne!(found.verdict, Verdict::ReadOnly);
        prop_assert!(!covered_by(&[vec!["rm".to_owned()]], &found));
    }

    #[test]
    fn a_destructive_tail_after_complete_text_is_seen(command in commands()) {
        prop_assume!(judge(&command).verdict != Verdict::NotUnderstood && !command.contains(['#', '\\']));
        prop_assert_eq!(judge(&format!("{command}\nrm -rf /")).verdict, Verdict::Destructive);
    }

    #[test]
    fn a_substitution_is_never_read_only(command in commands()) {
        for text in [format!("echo $({command})"), format!("echo \"$({command})\""), format!("cat <({command})")] {
            prop_assert_ne!(judge(&text).verdict, Verdict::ReadOnly, "{}", text);
        }
    }

    #[test]
    fn text_in_single_quotes_is_text(command in commands()) {
        prop_assume!(!command.contains('\'') && super::display::hidden(&command).is_none());
        let found = judge(&format!("echo '{command}'"));
        prop_assert_eq!(found.verdict, Verdict::ReadOnly);
        prop_assert_eq!(&found.leaves, &vec![vec!["echo".to_owned(), command]]);
    }

    #[test]
    fn a_prefix_is_offered_only_where_it_covers(command in commands()) {
        let found = judge(&command);
        if let Some(prefix) = &found.prefix {
            prop_assert_eq!(found.verdict, Verdict::Ask);
            prop_assert!(covers(prefix, &found), "{:?}", found);
        }
        prop_assert!(!covers(&[], &found));
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz(&bytes);
    }

    #[test]
    fn any_syntax_is_judged(text in soup()) {
        fuzz(text.as_bytes());
    }

    #[test]
    fn printable_ascii_is_shown_as_it_is(text in "([!-~]{1,12} {0,3}){0,10}") {
        prop_assert_eq!(escape_for_display(&text), text);
    }
}

#[test]
fn nesting_and_length_end_in_a_question() {
    for text in [
        "eval ".repeat(3000) + "ls",
        "$(".repeat(2000),
        "(".repeat(5000) + "ls",
        "ls; ".repeat(5000),
        "ls ".repeat(30_000),
        "env ".repeat(4000) + "ls",
        "\"".repeat(5001),
        "{a,".repeat(500) + "b" + &"}".repeat(500),
        "ls ".to_owned() + &"{a,b}".repeat(30),
        "bash -c 'x' ".repeat(2000),
    ] {
        let found = judge(&text);
        assert_ne!(found.verdict, Verdict::ReadOnly, "{}…", &text[..20.min(text.len())]);
    }
}

#[test]
fn a_remembered_prefix_covers_only_its_like() {
    let covered = |prefix: &[&str], command: &str| {
        covers(&prefix.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(), &judge(command))
    };
    assert!(covered(&["cargo", "test"], "cargo test -p app"));
    assert!(covered(&["cargo", "test"], "cd src && cargo test 2>&1 | tail -5"));
    assert!(covered(&["cargo"], "cargo build"), "a rule for the whole program");
    assert!(covered(&["git", "commit"], "git commit -m 'a\nb; rm -rf /'"), "a line end in quotes is text");
    assert!(covered(&["rm"], "rm a.txt"), "a rule for the whole program");
    assert!(covered(&["rm", "a.txt"], "rm a.txt"));
    for (prefix, command) in [
        (&["cargo", "test"][..], "cargo build"),
        (&["cargo", "test"], "cargo test && cargo publish"),
        (&["cargo", "test"], "cargo test > ../out"),
        (&["cargo", "test"], "cargo test $(touch x)"),
        (&["cargo", "test"], "cargo test\ntouch x"),
        (&["cargo", "test"], "cargo test; touch x"),
        (&["cargo", "test"], "PATH=. cargo test"),
        (&["cargo", "test"], "cargo --config x test"),
        (&["cargo", "test"], "cd /tmp && cargo test"),
        (&["rm", "a.txt"], "rm a.txt b.txt"),
        (&["rm"], "rm -rf a"),
        (&["git", "push"], "git push --force"),
        (&["git", "fetch"], "git fetch --upload-pack=./x"),
        (&["npm", "run", "build"], "npm run deploy"),
        (&["echo"], "echo hi && touch x"),
        (&["/proj/app/run.sh"], "cd src; ./run.sh"),
        (&["ls"], "ls"),
    ] {
        assert!(!covered(prefix, command), "{prefix:?} must not cover {command:?}");
    }
    let both = [vec!["cargo".to_owned(), "fmt".to_owned()], vec!["cargo".to_owned(), "test".to_owned()]];
    assert!(covered_by(&both, &judge("cargo fmt && cargo test")));
    assert!(!covered_by(&both[..1], &judge("cargo fmt && cargo test")));
}

#[test]
fn path_decides_what_a_name_is() {
    let elsewhere = |name: &str| Some(Path::new("/proj/app/node_modules/.bin").join(name));
    let nowhere = |_: &str| None;
    let asks = |path: &str, resolve: &dyn Fn(&str) -> Option<PathBuf>| judge_on("ls", path, resolve).verdict;
    assert_eq!(asks("/usr/bin", &resolve), Verdict::ReadOnly);
    assert_eq!(asks("/proj/app/node_modules/.bin:/usr/bin", &elsewhere), Verdict::Ask);
    assert_eq!(asks(".:/usr/bin", &resolve), Verdict::Ask, "a relative folder in PATH");
    assert_eq!(asks(":/usr/bin", &resolve), Verdict::Ask, "an empty one is the current folder");
    assert_eq!(asks("/usr/bin", &nowhere), Verdict::ReadOnly, "nothing would run");
    assert_eq!(asks("/proj/app/bin:/usr/bin", &nowhere), Verdict::Ask, "it may appear in the workspace");
}

#[test]
fn reads_are_the_literal_paths_for_the_guard() {
    let reads = |command: &str| judge(command).reads;
    assert_eq!(
        reads("cat a/../b c | grep -f pat x"),
        ["a/../b", "c", "pat", "x"].map(|p| Path::new("/proj/app").join(p))
    );
    assert_eq!(
        reads("cd src && head main.rs"),
        ["src", "src/main.rs"].map(|p| Path::new("/proj/app").join(p))
    );
    assert_eq!(reads("wc -l src/*.rs"), [Path::new("/proj/app/src")]);
    assert_eq!(reads("sort < names.txt"), [Path::new("/proj/app/names.txt")]);
    assert_eq!(reads("cat ~/notes"), [Path::new("/home/kim/notes")]);
    assert!(reads("echo a/b; git diff src/x").is_empty(), "git follows no links, echo reads nothing");
}

#[test]
fn what_hides_is_shown() {
    for (text, shown) in [
        ("ls -la\rtouch x", "ls -la\\u{d}touch x"),
        ("echo \u{1b}[2K", "echo \\u{1b}[2K"),
        ("a\u{202e}b\u{200b}c\u{a0}d", "a\\u{202e}b\\u{200b}c\\u{a0}d"),
        ("c\u{430}t файл", "c\\u{430}t файл"),
        ("\u{ff52}\u{ff4d} -rf", "\\u{ff52}\\u{ff4d} -rf"),
        ("日本語 naïve Größe ελληνικά ✔\u{fe0f}\n\ttab", "日本語 naïve Größe ελληνικά ✔\u{fe0f}\n\ttab"),
    ] {
        assert_eq!(escape_for_display(text), shown);
        assert_eq!(escape_for_display(shown), shown);
    }
    assert_eq!(escape_for_display(&format!("a{}b", " ".repeat(400))), "a⟨400 spaces⟩b");
    let why = judge(&format!("tool\u{1b}[1m{}", "x".repeat(900))).why;
    assert!(why.chars().all(|c| !c.is_control()) && why.chars().count() < 300);
}

/// Bash itself is the judge: whatever it starts for a command that was proven read-only must be among the argument
/// lists that were proven.
#[test]
fn bash_starts_what_was_proven_and_nothing_else() {
    let bash = ["/usr/bin/bash", "/bin/bash"].into_iter().find(|p| Path::new(p).exists());
    let Some(bash) = bash else { return eprintln!("no bash on this machine: nothing to compare with") };
    let folder = tempfile::tempdir().expect("a folder");
    let everywhere = |name: &str| Some(Path::new("/usr/bin").join(name));
    let mut compared = 0;
    for command in syntax() {
        let found = judge_on(&command, "/usr/bin", &everywhere);
        if found.verdict != Verdict::ReadOnly {
            continue;
        }
        compared += 1;
        let script = format!(
            "exec 9>&1; PATH=/nonexistent; command_not_found_handle() {{ printf '%s\\0' \"$@\" $'\\1' >&9; }}\n{command}\n"
        );
        let file = folder.path().join("script");
        std::fs::write(&file, script).expect("written");
        let output = std::process::Command::new(bash)
            .args([OsString::from("--norc"), file.into_os_string()])
            .env_clear()
            .env("HOME", "/home/kim")
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null())
            .output()
            .expect("bash ran");
        let started = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut proven = found.leaves.clone();
        for record in started.split("\u{1}\0").filter(|r| !r.is_empty()) {
            let argv: Vec<String> =
                record.strip_suffix('\0').unwrap_or(record).split('\0').map(str::to_owned).collect();
            let at = proven.iter().position(|p| *p == argv);
            let at = at.unwrap_or_else(|| {
                panic!("{command:?}: bash started {argv:?}, proven were {:?}", found.leaves)
            });
            proven.swap_remove(at);
        }
    }
    assert!(compared > 60, "only {compared} were proven read-only");
}

/// Words and separators in every pair, around a program that bash will not find.
fn syntax() -> Vec<String> {
    const WORDS: &[&str] = &[
        "a",
        "'x y'",
        "\"q w\"",
        "\\ ",
        "a\\\nb",
        "{a,b}",
        "a{1,2}{3,4}",
        "{a}",
        "{}",
        "HEAD@{1}",
        "a#b",
        "''#x",
        "# c",
        "''",
        "\"\\$x\\\\\"",
        "$?",
        "a=~",
        "x=y",
        "~/z",
        "!",
        "\\'",
        "5$",
        "\"a\"'b'c",
        "[",
        "%",
        "é",
        "--",
        "a\\*",
        "=~",
        "if",
        "2>/dev/null",
        ">/dev/null 2>&1",
        "<<<w",
        "3<&0",
        "<<E\nplain 'x\nE\n",
        "<<'E'\n$(x)\nE\n",
        "<<-E\n\ty\n\tE\n",
    ];
    let mut all = vec![];
    for (i, a) in WORDS.iter().enumerate() {
        for (j, b) in WORDS.iter().enumerate() {
            if (i * WORDS.len() + j).is_multiple_of(5) {
                let joint = ["; cat ", " && wc ", "\nhead ", " ", " | cat ", ""][(i + j) % 6];
                all.push(format!("ls {a}{joint}{b}"));
            }
        }
    }
    all
}

#[test]
fn git_hardening_counts_its_settings() {
    let value = |name: &str| super::GIT_HARDENING.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    let count: usize = value("GIT_CONFIG_COUNT").and_then(|c| c.parse().ok()).expect("a number");
    for i in 0..count {
        assert!(value(&format!("GIT_CONFIG_KEY_{i}")).is_some_and(|k| k.contains('.')), "key {i}");
        assert!(value(&format!("GIT_CONFIG_VALUE_{i}")).is_some(), "value {i}");
    }
    assert!(value(&format!("GIT_CONFIG_KEY_{count}")).is_none());
}

/// A repository that tries to start a program on every read, and real git under the hardened environment.
#[test]
fn hardened_git_starts_no_program_of_the_repository() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |script: &str, hardened: bool| {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", script])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        if hardened {
            bash.envs(super::GIT_HARDENING.iter().copied());
        }
        bash.stdin(std::process::Stdio::null()).output()
    };
    const SETUP: &str = "git init -q . && git config user.email a@b && git config user.name a && echo one > f.txt \
        && echo '*.txt diff=foo' > .gitattributes && git add . && git commit -qm x \
        && git config core.fsmonitor 'touch ran; false' && git config diff.external 'touch ran; true' \
        && git config diff.foo.textconv 'touch ran; cat' && git config core.pager 'touch ran; cat' && echo two >> f.txt \
        && printf '#!/bin/sh\ntouch ran\n' > gpg && chmod +x gpg && git config gpg.program \"$PWD/gpg\" \
        && git update-ref refs/heads/signed $(git cat-file commit HEAD | sed '/^committer/a \\\ngpgsig \
        -----BEGIN PGP SIGNATURE-----\\\n \\\n x\\\n -----END PGP SIGNATURE-----' | git hash-object -t commit -w --stdin)";
    let Ok(output) = run(SETUP, false) else { return eprintln!("no bash on this machine") };
    if !output.status.success() {
        return eprintln!("no usable git on this machine");
    }
    let ran = folder.path().join("ran");
    const READS: &[&str] = &[
        "git status",
        "git diff",
        "git --no-pager diff --stat",
        "git log -p -1",
        "git show HEAD",
        "git blame f.txt",
        "git grep one",
        "git log -1 --format='%G?' signed",
        "git show --format='%GS' signed",
    ];
    for command in READS {
        assert_eq!(judge(command).verdict, Verdict::ReadOnly, "{command}");
        let output = run(command, true).expect("bash ran");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!ran.exists(), "{command} started a program");
    }
    for trap in ["git status; git diff", "git log -1 --format='%G?' signed"] {
        run(trap, false).expect("bash ran");
        assert!(ran.exists(), "the trap works: {trap}");
        std::fs::remove_file(&ran).expect("it is there");
    }
}
