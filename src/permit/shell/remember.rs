//! What "always allow this command" may stand for.
//!
//! A remembered command is the beginning of one simple command's arguments. It never covers what only looks like
//! it: a redirection into a file, a word whose value is not known, an option that runs another program, a wrapper.

use std::path::Path;

use super::ShellContext;
use super::destructive::{base, interpreter};
use super::leaves::Leaf;
use super::lex::Redirect;
use super::paths::{inside, is_stream, normalize, secret_glob, secret_like};
use super::programs::BUILTINS;
use super::readonly::Place;
use super::wrappers::wraps;

/// How one simple command may be covered by what a person allowed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cover {
    /// It needs no permission.
    ReadOnly,
    /// By this beginning, or a shorter one.
    Prefix(Vec<String>),
    /// By exactly this, or by a rule for the program as a whole.
    Exact(Vec<String>),
    /// By nothing.
    Never,
}

/// Programs whose first operand is a subcommand that says what happens.
const TWO: &[&str] = &[
    "cargo",
    "git",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "go",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "pipenv",
    "pdm",
    "hatch",
    "dotnet",
    "mvn",
    "gradle",
    "gradlew",
    "make",
    "just",
    "task",
    "ninja",
    "rustup",
    "brew",
    "docker",
    "docker-compose",
    "podman",
    "kubectl",
    "helm",
    "terraform",
    "tofu",
    "gh",
    "glab",
    "aws",
    "gcloud",
    "az",
    "bundle",
    "rake",
    "rails",
    "mix",
    "composer",
    "php",
    "swift",
    "zig",
    "stack",
    "cabal",
    "dune",
    "sbt",
    "lein",
    "ng",
    "nx",
    "turbo",
    "lerna",
    "tox",
    "nox",
    "hg",
    "jj",
    "svn",
    "flutter",
    "dart",
    "bazel",
    "meson",
    "cmake",
    "apt",
    "apt-get",
    "conda",
    "nix",
];

/// Subcommands that run what their own argument names: three words then.
const THREE: &[(&str, &str)] = &[
    ("npm", "run"),
    ("npm", "run-script"),
    ("pnpm", "run"),
    ("yarn", "run"),
    ("bun", "run"),
    ("deno", "task"),
    ("uv", "run"),
    ("uv", "pip"),
    ("uv", "tool"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("bundle", "exec"),
    ("docker", "compose"),
    ("composer", "run"),
    ("gh", "pr"),
    ("gh", "issue"),
    ("gh", "run"),
    ("gh", "repo"),
    ("gh", "release"),
    ("gh", "workflow"),
    ("go", "tool"),
    ("go", "mod"),
    ("cargo", "xtask"),
    ("npm", "exec"),
    ("pnpm", "exec"),
    ("pnpm", "dlx"),
    ("yarn", "dlx"),
    ("nx", "run"),
    ("turbo", "run"),
    ("git", "stash"),
    ("git", "remote"),
    ("git", "worktree"),
    ("git", "submodule"),
    ("docker", "image"),
    ("docker", "container"),
    ("aws", "s3"),
    ("aws", "ec2"),
    ("dotnet", "tool"),
    ("php", "artisan"),
];

/// Programs that change or send the files they are given: only the very same command again.
const EXACT: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "mv",
    "cp",
    "ln",
    "touch",
    "mkdir",
    "tee",
    "chmod",
    "chown",
    "install",
    "rsync",
    "scp",
    "curl",
    "wget",
    "sed",
    "patch",
    "tar",
    "zip",
    "unzip",
    "gzip",
    "gunzip",
    "kill",
    "find",
    "sort",
    "uniq",
    "awk",
    "sftp",
    "ftp",
    "nc",
    "gpg",
    "openssl",
    "7z",
    "cpio",
    "split",
    "csplit",
    "ed",
    "ex",
    "less",
    "more",
    "man",
    "cat",
    "head",
    "tail",
    "grep",
    "rg",
    "ls",
    "jq",
    "diff",
    "cd",
    "fd",
    "tree",
    "stat",
    "xxd",
    "base64",
    "dd",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "mongosh",
];

/// What changes the shell itself, or shows what must not be shown: never remembered.
const NEVER: &[&str] = &[
    "cd", "export", "unset", "alias", "unalias", "set", "source", ".", "printenv", "env", "declare",
    "typeset", "local", "readonly", "shopt", "exec", "ulimit", "umask", "hash", "enable", "bind", "complete",
    "let", "read", "pushd", "popd", "eval", "trap", "builtin", "mapfile", "getopts", "history", "fc", "[[",
    "((", "disown", "bg", "fg", "jobs", // Editors run what their arguments or their files say.
    "vi", "vim", "nvim", "view", "emacs", "nano", "ed", "ex", "pico", "joe", "code",
];

/// Subcommands of git that change something in a way of their own. Those that read are proven each time, and one
/// that is not known may be an alias.
const GIT: &[&str] = &[
    "add",
    "am",
    "apply",
    "bisect",
    "branch",
    "checkout",
    "cherry-pick",
    "clone",
    "commit",
    "fetch",
    "format-patch",
    "gc",
    "init",
    "lfs",
    "maintenance",
    "merge",
    "mv",
    "notes",
    "pull",
    "push",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "submodule",
    "switch",
    "tag",
    "worktree",
];

/// Wrappers that add nothing but a limit: the command behind them is what counts.
const THIN: &[(&str, usize)] = &[("timeout", 1), ("gtimeout", 1), ("time", 0), ("nice", 0), ("command", 0)];

/// Variables that change how a program talks, not what it does.
const QUIET_VARIABLES: &[&str] = &[
    "RUST_BACKTRACE",
    "RUST_LOG",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "TERM",
    "COLUMNS",
    "LINES",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "CARGO_BUILD_JOBS",
    "RAILS_ENV",
    "RACK_ENV",
    "MIX_ENV",
    "DEBUG",
    "VERBOSE",
    "CGO_ENABLED",
    "GOOS",
    "GOARCH",
    "PROPTEST_CASES",
    "UPDATE",
];

pub(super) fn cover(leaf: &Leaf, cx: &ShellContext<'_>, at: &Place) -> Cover {
    let quiet = |(name, w): &(String, super::lex::Word)| {
        QUIET_VARIABLES.contains(&name.as_str()) && !w.dynamic && !w.text.contains('/')
    };
    let writes = leaf.redirects.iter().any(|r| match r.kind {
        Redirect::Out | Redirect::Append => !is_stream(Path::new(&r.target.text)),
        Redirect::Duplicate => !(r.target.text == "-" || r.target.text.bytes().all(|b| b.is_ascii_digit())),
        Redirect::In => r.target.dynamic || leaves_roots(std::slice::from_ref(&r.target.text), cx, at),
        Redirect::String | Redirect::Here => false,
    });
    let live = leaf.words.iter().any(|w| w.dynamic || w.disguised) || leaf.heres.iter().any(|h| h.dynamic);
    let named = leaf.words.first().is_some_and(|w| !w.quoted && !w.glob);
    if writes || live || !named || !leaf.assigns.iter().all(quiet) {
        return Cover::Never;
    }
    let argv = leaf.argv();
    let argv = thin(&argv);
    let fed =
        !leaf.heres.is_empty() || leaf.piped || leaf.redirects.iter().any(|r| r.kind == Redirect::String);
    match of(argv, fed, cx, at) {
        // A wildcard stands for other files the next time.
        Cover::Exact(_) if leaf.words.iter().any(|w| w.glob) => Cover::Never,
        cover => cover,
    }
}

/// The command behind `timeout 60`.
fn thin(argv: &[String]) -> &[String] {
    let mut argv = argv;
    while let Some((_, skip)) = argv.first().and_then(|p| THIN.iter().find(|(n, _)| n == p)) {
        match argv.get(1 + skip..) {
            Some(rest) if argv[1..1 + skip].iter().all(|a| a.starts_with(|c: char| c.is_ascii_digit())) => {
                argv = rest
            }
            _ => break,
        }
    }
    argv
}

fn of(argv: &[String], fed: bool, cx: &ShellContext<'_>, at: &Place) -> Cover {
    let Some((program, args)) = argv.split_first() else { return Cover::Never };
    let name = base(program);
    if !program.is_ascii()
        || NEVER.contains(&name)
        || BUILTINS.contains(&name)
        || runs_other(name, args)
        || leaves_roots(args, cx, at)
    {
        return Cover::Never;
    }
    if name == "git" && !args.first().is_some_and(|a| GIT.contains(&a.as_str())) {
        return Cover::Never;
    }
    let mut prefix = vec![program.clone()];
    if program.contains('/') {
        // `./run.sh` is another program in another folder.
        let [only] = at.here().as_slice() else { return Cover::Never };
        let path = normalize(&only.join(program));
        if !inside(&path, cx.roots) && (cx.resolve)(name).as_deref() != Some(path.as_path()) {
            return Cover::Never;
        }
        prefix[0] = path.to_string_lossy().into_owned();
    }
    let word = |i: usize| args.get(i).filter(|a| plain(a)).cloned();
    if interpreter(name) {
        return script_of(name, prefix, args, fed);
    }
    if wraps(name) && !TWO.contains(&name) && !["npx", "bunx"].contains(&name) {
        return Cover::Never;
    }
    if EXACT.contains(&name) || super::readonly::listed(name) {
        prefix.extend(args.iter().cloned());
        return Cover::Exact(prefix);
    }
    let toolchain = args.first().filter(|a| a.starts_with('+') && name == "cargo");
    let skip = usize::from(toolchain.is_some());
    prefix.extend(toolchain.cloned());
    match word(skip) {
        Some(sub) => {
            let three = THREE.contains(&(name, sub.as_str()));
            prefix.push(sub);
            match (three, word(skip + 1)) {
                (true, Some(third)) if interpreter(&third) || wraps(&third) => return Cover::Never,
                (true, Some(third)) => prefix.push(third),
                (true, None) if args.len() > skip + 1 => return Cover::Never,
                _ => {}
            }
        }
        // `git -c … push`, `npx --package …`: what runs stands further on.
        None if !args.is_empty() && (TWO.contains(&name) || wraps(name)) => return Cover::Never,
        None => {}
    }
    Cover::Prefix(prefix)
}

/// `python tool.py` and `python -m pytest`, but no code given as text.
fn script_of(_name: &str, mut prefix: Vec<String>, args: &[String], fed: bool) -> Cover {
    match args {
        [flag, module, ..] if flag == "-m" && plain(module) => prefix.extend([flag.clone(), module.clone()]),
        [file, ..] if !file.starts_with('-') && !fed => prefix.push(file.clone()),
        _ => return Cover::Never,
    }
    Cover::Prefix(prefix)
}

/// A word that can name a subcommand, a target or a script.
fn plain(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:.@".contains(&b))
        && word.len() <= 64
}

/// Options and variables that make a known program run another one.
fn runs_other(name: &str, args: &[String]) -> bool {
    const ANY: &[&str] = &[
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--ext-diff",
        "--extcmd",
        "--open-files-in-pager",
        "--config",
        "--config-env",
        "--exec-path",
        "--script-shell",
        "-exec",
        "-toolexec",
        "-vettool",
        "--eval",
        "--checkpoint",
        "--to-command",
        "--use-compress-program",
        "--rsh",
        "--pre",
        "--hostname-bin",
        "--compress-program",
        "--node-options",
        "--require",
        "--import",
        "--loader",
        "--init-file",
        "--rcfile",
        "--plugin",
        "--git-dir",
        "--work-tree",
        "--manifest-path",
        "--prefix",
        "--privileged",
        "--volume",
        "--mount",
    ];
    let given = |a: &String| ANY.contains(&a.split('=').next().unwrap_or(a));
    let letters: &[&str] = match name {
        "git" => &["-c", "-x", "-O", "-C"],
        "docker" | "podman" => &["-v", "exec", "run"],
        "make" | "just" | "ninja" => &["-f", "-C", "-E", "--file", "--justfile"],
        "kubectl" => &["exec", "run"],
        "npm" | "npx" | "pnpm" => &["-c", "-C", "--call"],
        "node" | "ruby" | "perl" | "php" | "lua" => &["-r", "-e", "-p"],
        "cargo" => &["-C", "-Z"],
        _ => &[],
    };
    let variable = name == "make" && args.iter().any(|a| a.contains('='));
    variable || args.iter().any(|a| given(a) || letters.contains(&a.as_str()))
}

/// Whether an argument names a path outside the roots, or a secret: each such read is a question of its own.
fn leaves_roots(args: &[String], cx: &ShellContext<'_>, at: &Place) -> bool {
    args.iter().any(|a| {
        let value = a.split_once('=').map_or(a.as_str(), |(_, v)| v);
        if secret_like(Path::new(value)) || value.contains(['*', '?', '[']) && secret_glob(value) {
            return true;
        }
        let path = value.starts_with(['/', '~']) || value.starts_with("..") || value.contains("/../");
        path && !value.contains(' ')
            && at.here().iter().any(|f| {
                let path = f.join(value);
                !is_stream(&path) && !inside(&path, cx.roots)
            })
    })
}
