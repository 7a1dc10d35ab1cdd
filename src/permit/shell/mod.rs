//! Reading a shell command before it runs: what it would do, and whether that may happen without asking.
//!
//! Two readers must agree on the words: our tokenizer ([`lex`], [`cook`]), which cooks them as bash does, and tree-sitter's
//! grammar ([`tree`]), which judges the structure. A command runs unasked only when every simple command in it is
//! proven to read: an allow-list of programs, each with an allow-list of options ([`programs`], [`git`],
//! [`special`]), found by `PATH` outside the workspace. Everything else asks. What is known to destroy
//! ([`destructive`]) is looked for on every piece found, in broken and nested text too, and is never remembered.
//!
//! Pure: no file is opened. Symbolic links are the guard's matter, which gets [`Assessment::reads`].

mod cook;
mod destructive;
mod destructive_remote;
mod display;
mod git;
mod git_destructive;
mod leaves;
mod lex;
mod options;
mod paths;
mod programs;
mod readonly;
mod remember;
mod scan;
mod special;
#[cfg(test)]
mod tests;
mod tree;
mod wrappers;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use display::escape_for_display;
pub use paths::{original, secret_like};

use leaves::Leaves;
use readonly::Place;
use remember::Cover;
use tree::Structure;

/// What a command is, as far as reading it can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every simple command in it is proven to change nothing and to read only inside the roots.
    ReadOnly,
    /// Understood, but not proven read-only: a person decides, and may be offered to remember it.
    Ask,
    /// Known to destroy work, to run code from elsewhere, or to plant something that runs later: a person decides,
    /// each time.
    Destructive,
    /// Not read with certainty: a person decides, each time.
    NotUnderstood,
}

/// What reading a command gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub verdict: Verdict,
    /// One line a person understands. Text from the command stands in it escaped and cut.
    pub why: String,
    /// The arguments of each simple command as the programs would get them; of an unknown value, its source text.
    pub leaves: Vec<Vec<String>>,
    /// What "remember this command" may cover (`["cargo", "test"]`); `None`: it must not be remembered.
    pub prefix: Option<Vec<String>>,
    /// Literal paths that it reads, absolute but with `..` and links unresolved, for the guard's own check.
    pub reads: Vec<PathBuf>,
    /// The simple commands that are proven to read. What they read beyond what they name is for who can look.
    pub readings: Vec<Reading>,
    covers: Vec<Cover>,
}

/// A simple command that is proven to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The program's name.
    pub program: String,
    /// Its arguments; wildcards stand in them as they were written.
    pub args: Vec<String>,
    /// The folders that it may stand in.
    pub folders: Vec<PathBuf>,
    /// What it is to read, and whether that is a wildcard; of git, revisions too.
    pub operands: Vec<(String, bool)>,
    /// Its options, without their values.
    pub options: Vec<String>,
    /// A pipe feeds it.
    pub piped: bool,
}

/// What is known about the place where the command would run.
pub struct ShellContext<'a> {
    /// Absolute path of the folder the command starts in, links resolved as in `roots`.
    pub cwd: &'a Path,
    /// Absolute paths of the folders the session may read.
    pub roots: &'a [PathBuf],
    /// The home folder that `~` stands for, if known.
    pub home: Option<&'a Path>,
    /// The value of `PATH` that the command will see.
    pub path: &'a OsStr,
    /// Finds a program by its name in [`ShellContext::path`], links resolved; `None` when there is none.
    pub resolve: &'a dyn Fn(&str) -> Option<PathBuf>,
}

/// Environment of commands that run unasked, so that git starts no program of the repository's choosing.
///
/// `core.fsmonitor` and hooks run on plain `git status`; a folder laid out as a bare repository inside the workspace
/// would bring settings of its own (`safe.bareRepository`); `diff.external` cannot be emptied by a setting (git then
/// fails), so the exported function adds `--no-ext-diff --no-textconv` where git takes them. It reaches bash only:
/// run such commands with bash. Sources: git-config(1), git(1), git-diff(1); measured with git 2.47.
pub const GIT_HARDENING: &[(&str, &str)] = &[
    ("GIT_CONFIG_COUNT", "13"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ("GIT_CONFIG_KEY_2", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_2", "explicit"),
    ("GIT_CONFIG_KEY_3", "core.pager"),
    ("GIT_CONFIG_VALUE_3", "cat"),
    ("GIT_CONFIG_KEY_4", "log.showSignature"),
    ("GIT_CONFIG_VALUE_4", "false"),
    ("GIT_CONFIG_KEY_5", "diff.ignoreSubmodules"),
    ("GIT_CONFIG_VALUE_5", "dirty"),
    ("GIT_CONFIG_KEY_6", "core.untrackedCache"),
    ("GIT_CONFIG_VALUE_6", "keep"),
    // What is shown must be what was looked at before.
    ("GIT_CONFIG_KEY_7", "diff.submodule"),
    ("GIT_CONFIG_VALUE_7", "short"),
    ("GIT_CONFIG_KEY_8", "diff.relative"),
    ("GIT_CONFIG_VALUE_8", "false"),
    // A format with `%G?` asks a program whether a signature is good, and `format.pretty` may be such a one.
    ("GIT_CONFIG_KEY_9", "gpg.program"),
    ("GIT_CONFIG_VALUE_9", "false"),
    ("GIT_CONFIG_KEY_10", "gpg.openpgp.program"),
    ("GIT_CONFIG_VALUE_10", "false"),
    ("GIT_CONFIG_KEY_11", "gpg.x509.program"),
    ("GIT_CONFIG_VALUE_11", "false"),
    ("GIT_CONFIG_KEY_12", "gpg.ssh.program"),
    ("GIT_CONFIG_VALUE_12", "false"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Else `cd src` may go elsewhere.
    ("CDPATH", ""),
    // Else `go version` fetches the toolchain that `go.mod` names.
    ("GOTOOLCHAIN", "local"),
    (
        "BASH_FUNC_git%%",
        "() { case \"$1\" in diff|log|show|whatchanged|diff-tree|diff-index|diff-files) \
         command git \"$1\" --no-ext-diff --no-textconv \"${@:2}\";; blame|grep) \
         command git \"$1\" --no-textconv \"${@:2}\";; --no-pager) shift; git \"$@\";; *) command git \"$@\";; esac; }",
    ),
];

/// Longest command that is read, in bytes.
const MAX_LEN: usize = 64 * 1024;

/// Reads a command as bash would, and judges it.
pub fn assess(command: &str, cx: &ShellContext<'_>) -> Assessment {
    destructive::reset();
    if command.len() > MAX_LEN {
        return refused(Verdict::NotUnderstood, "it is too long to check".into());
    }
    let home = cx.home.and_then(Path::to_str);
    let lexed = lex::lex(command, home);
    let all = leaves::leaves(&lexed);
    let mut found = judge(command, &lexed, &all, cx);
    found.why = brief(&found.why);
    found
}

fn refused(verdict: Verdict, why: String) -> Assessment {
    Assessment { verdict, why, leaves: vec![], prefix: None, reads: vec![], readings: vec![], covers: vec![] }
}

fn judge(command: &str, lexed: &lex::Lexed, all: &Leaves, cx: &ShellContext<'_>) -> Assessment {
    let mut at = Place::new(cx.cwd);
    let (mut covers, mut reads, mut readings, mut asks) = (vec![], vec![], vec![], None);
    for leaf in &all.leaves {
        at.step(leaf);
        let before = at.clone();
        match readonly::prove(leaf, cx, &mut at, &mut reads) {
            Ok(reading) => {
                readings.push(reading);
                covers.push(Cover::ReadOnly);
            }
            Err(why) => {
                covers.push(remember::cover(leaf, cx, &before));
                asks.get_or_insert(why);
            }
        }
    }
    let argv = all.leaves.iter().map(leaves::Leaf::argv).filter(|a| !a.is_empty()).collect();
    let (verdict, why) = (Verdict::Ask, String::new());
    let base = Assessment { verdict, why, leaves: argv, prefix: None, reads, readings, covers };
    if let Some(why) = scan::scan(all, cx.roots) {
        return Assessment { verdict: Verdict::Destructive, why, covers: vec![], ..base };
    }
    let unclear =
        |why: String| Assessment { verdict: Verdict::NotUnderstood, why, covers: vec![], ..base.clone() };
    if all.leaves.is_empty() {
        return unclear("it is empty".into());
    }
    if let Some(why) = display::hidden(command).or(lexed.fault).or_else(|| foreign(all)) {
        return unclear(why.into());
    }
    // Which files it would show is not in the text, but what they are for is.
    let secrets = all.leaves.iter().flat_map(|l| &l.words).find(|w| w.glob && paths::secret_glob(&w.text));
    if let (Some(word), Some(why)) = (secrets, &asks)
        && why.contains(&escape_for_display(&word.text))
    {
        return unclear(why.clone());
    }
    match tree::structure(command, lexed) {
        Structure::Unclear(why) => unclear(why.into()),
        Structure::Live(why) => {
            let dynamic = all.leaves.iter().any(|l| l.words.first().is_some_and(|w| w.dynamic));
            if dynamic {
                return unclear("the program it runs is not known from the text".into());
            }
            if !all.functions.is_empty() {
                return unclear(why.into());
            }
            with_prefix(Assessment { why: asks.unwrap_or_else(|| why.to_owned()), ..base })
        }
        Structure::Plain => match asks {
            None => Assessment {
                verdict: Verdict::ReadOnly,
                why: "it only reads in the workspace".into(),
                ..base
            },
            Some(why) => with_prefix(Assessment { why, ..base }),
        },
    }
}

/// The prefix of the one simple command that asks; two different ones cannot be remembered together.
fn with_prefix(mut a: Assessment) -> Assessment {
    let mut asking = a.covers.iter().filter(|c| **c != Cover::ReadOnly);
    a.prefix = match (asking.next(), asking.next()) {
        (Some(Cover::Prefix(p) | Cover::Exact(p)), None) => Some(p.clone()),
        _ => None,
    };
    a
}

/// Lines of another shell, which bash would read as something else.
fn foreign(all: &Leaves) -> Option<&'static str> {
    let first = |l: &leaves::Leaf| l.words.first().map(|w| w.text.clone()).unwrap_or_default();
    let verb_noun = |p: &str| {
        p.split_once('-').is_some_and(|(v, n)| {
            v.starts_with(|c: char| c.is_ascii_uppercase())
                && n.starts_with(|c: char| c.is_ascii_uppercase())
                && p.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
        })
    };
    const CMD: &[&str] = &[
        "powershell",
        "powershell.exe",
        "pwsh",
        "cmd",
        "cmd.exe",
        "iex",
        "iwr",
        "del",
        "erase",
        "rd",
        "copy",
        "xcopy",
        "move",
        "ren",
        "cls",
        "reg",
        "wmic",
        "schtasks",
        "certutil",
        "rundll32",
        "mshta",
        "regsvr32",
        "bitsadmin",
        "vssadmin",
    ];
    let windows = |l: &leaves::Leaf| {
        let p = first(l);
        verb_noun(&p) || CMD.contains(&p.to_lowercase().as_str()) || p.to_lowercase().ends_with(".exe")
    };
    all.leaves.iter().any(windows).then_some("it looks like a command of Windows, not of bash")
}

/// One short line, with nothing that a terminal or an editor would act on.
fn brief(why: &str) -> String {
    let line: String = why.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect();
    let line = escape_for_display(&line);
    match line.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Whether a remembered prefix covers every simple command that needs permission.
///
/// Never for destructive commands and for those not understood.
pub fn covers(prefix: &[String], a: &Assessment) -> bool {
    covered_by(&[prefix], a)
}

/// Whether these remembered prefixes together cover every simple command that needs permission: with `cargo fmt`
/// and `cargo test` remembered, `cargo fmt && cargo test` is covered.
pub fn covered_by<P: AsRef<[String]>>(prefixes: &[P], a: &Assessment) -> bool {
    let one = |own: &[String], exact: bool| {
        prefixes
            .iter()
            .map(AsRef::as_ref)
            .any(|p| !p.is_empty() && own.starts_with(p) && (!exact || p.len() == own.len() || p.len() == 1))
    };
    a.verdict == Verdict::Ask
        && a.covers.iter().any(|c| *c != Cover::ReadOnly)
        && a.covers.iter().all(|c| match c {
            Cover::ReadOnly => true,
            Cover::Prefix(own) => one(own, false),
            Cover::Exact(own) => one(own, true),
            Cover::Never => false,
        })
}

/// Runs everything that reads untrusted text, for fuzzing: must neither panic nor call `rm -rf /` read-only.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (root, none) = (PathBuf::from("/w"), |_: &str| None);
    let cx = ShellContext {
        cwd: &root,
        roots: std::slice::from_ref(&root),
        home: Some(Path::new("/home/u")),
        path: OsStr::new("/usr/bin:/bin"),
        resolve: &none,
    };
    let found = assess(&text, &cx);
    assert!(!found.why.contains('\n') && !found.why.is_empty());
    assert_ne!(assess(&format!("{text}\n; rm -rf /"), &cx).verdict, Verdict::ReadOnly);
    let shown = escape_for_display(&text);
    assert_eq!(escape_for_display(&shown), shown);
}
