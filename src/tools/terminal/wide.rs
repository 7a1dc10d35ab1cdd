//! Commands that read more files than they name: by a wildcard, by a recursive search. Where a secret-like file is in
//! their reach, or a link that leads out of the workspace, they are asked about, as naming that file would be.
use super::glob;
use super::judge::Doubt;
use crate::{
    permit::shell::{Reading, secret_like},
    workspace::guard::is_secret_name,
};
use ignore::{WalkBuilder, overrides::OverrideBuilder, types::TypesBuilder};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Programs that show no content of files.
const NAMES_ONLY: &[&str] = &[
    "ls", "dir", "tree", "du", "df", "stat", "file", "wc", "cd", "basename", "dirname", "realpath",
    "readlink", "which", "type", "find", "fd", "fdfind", "git",
];
/// As many files are looked at; more would cost more than the question.
const ENTRIES: usize = 50_000;
/// So long it may take.
const TIME: Duration = Duration::from_secs(1);

/// Why a command that reads must be asked about: the secret-like file in its reach.
pub(super) fn why(readings: &[Reading], roots: &[PathBuf]) -> Option<Doubt> {
    let mut look = Look { roots, left: ENTRIES, end: Instant::now() + TIME };
    let stop = readings
        .iter()
        .filter(|r| !names_only(r))
        .find_map(|r| r.folders.iter().find_map(|folder| look.reading(r, folder).err()))?;
    Some(match stop {
        Stop::Secret(path) => Doubt {
            why: format!("it may read {}, which looks like it holds secrets", shown(&path)),
            file: Some(path),
        },
        Stop::Leaves(path) => Doubt {
            why: format!("it may read {}, a link that leads out of the workspace", shown(&path)),
            file: Some(path),
        },
        Stop::TooMany => Doubt::from(
            "it reads more files than could be looked through for secrets: name a smaller folder, or use the `grep` tool",
        ),
    })
}

fn names_only(r: &Reading) -> bool {
    const COUNTS: &[&str] = &[
        "-l",
        "-L",
        "-c",
        "-q",
        "--files-with-matches",
        "--files-without-match",
        "--count",
        "--count-matches",
        "--quiet",
        "--silent",
        "--files",
        "--type-list",
    ];
    // Of ripgrep, `-L` follows links, and `--json` overrules the others.
    let counts = |o: &String| COUNTS.contains(&o.as_str()) && !(r.program == "rg" && o == "-L");
    NAMES_ONLY.contains(&r.program.as_str())
        || matches!(r.program.as_str(), "grep" | "egrep" | "fgrep" | "rg")
            && r.options.iter().any(counts)
            && !r.options.iter().any(|o| o == "--json")
}

fn shown(path: &Path) -> String {
    crate::permit::shell::escape_for_display(&path.display().to_string())
}

pub(super) fn is_secret(path: &Path) -> bool {
    is_secret_name(path) || secret_like(path)
}

enum Stop {
    Secret(PathBuf),
    Leaves(PathBuf),
    TooMany,
}

struct Look<'a> {
    roots: &'a [PathBuf],
    left: usize,
    end: Instant,
}

impl Look<'_> {
    fn reading(&mut self, r: &Reading, folder: &Path) -> Result<(), Stop> {
        let tree = Tree::of(r);
        for (text, is_glob) in &r.operands {
            let named = folder.join(text);
            if !is_glob {
                if let Some(tree) = &tree
                    && named.is_dir()
                {
                    self.walk(&named, tree)?;
                }
                continue;
            }
            for path in glob::expand(folder, text, &mut self.left).ok_or(Stop::TooMany)? {
                self.file(&path)?;
                if let Some(tree) = &tree
                    && path.is_dir()
                {
                    self.walk(&path, tree)?;
                }
            }
        }
        match &tree {
            // With its input from a pipe, ripgrep searches that.
            Some(tree) if r.operands.is_empty() && tree.by_itself && !(r.program == "rg" && r.piped) => {
                self.walk(folder, tree)
            }
            _ => Ok(()),
        }
    }

    /// One path that a wildcard stands for, or one file below a folder.
    fn file(&mut self, path: &Path) -> Result<(), Stop> {
        if is_secret(path) {
            return Err(Stop::Secret(path.to_owned()));
        }
        match path.canonicalize() {
            Ok(real) if is_secret(&real) => Err(Stop::Secret(path.to_owned())),
            Ok(real) if !self.roots.iter().any(|root| real.starts_with(root)) => {
                Err(Stop::Leaves(path.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn walk(&mut self, folder: &Path, tree: &Tree) -> Result<(), Stop> {
        for entry in tree.walk(folder).flatten() {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 || Instant::now() > self.end {
                return Err(Stop::TooMany);
            }
            let kind = entry.file_type();
            if entry.path_is_symlink() && entry.depth() > 0 {
                if tree.links {
                    self.file(entry.path())?;
                }
            } else if kind.is_some_and(|t| t.is_file()) && is_secret(entry.path()) && tree.reads(entry.path())
            {
                return Err(Stop::Secret(entry.into_path()));
            }
        }
        Ok(())
    }
}

/// How a program goes through folders.
struct Tree {
    /// It starts in the folder that it stands in, where none is named.
    by_itself: bool,
    links: bool,
    hidden: bool,
    /// What .gitignore and its like name is left out.
    ignoring: bool,
    /// Only files of such names are read, of all that lie there.
    only: Option<Vec<String>>,
    types: Vec<String>,
}

impl Tree {
    fn of(r: &Reading) -> Option<Tree> {
        let has = |names: &[&str]| r.options.iter().any(|o| names.contains(&o.as_str()));
        let all =
            Tree { by_itself: true, links: false, hidden: true, ignoring: false, only: None, types: vec![] };
        match r.program.as_str() {
            "grep" | "egrep" | "fgrep" => {
                has(&["-r", "-R", "--recursive", "--dereference-recursive", "-d", "--directories"]).then(
                    || Tree {
                        links: has(&["-R", "--dereference-recursive"]),
                        only: values(r, None, "--include"),
                        ..all
                    },
                )
            }
            "rg" => {
                let loose = has(&["-u", "--unrestricted", "-.", "--hidden"]);
                let globs = values(r, Some("-g"), "--glob").filter(|_| !has(&["--iglob"]));
                let given = has(&["-g", "--glob", "--iglob"]);
                // A glob that selects overrules what is hidden and what is ignored; one that begins with `!` does not.
                let selects = given && globs.as_ref().is_none_or(|g| g.iter().any(|g| !g.starts_with('!')));
                let only = globs.map(|g| g.into_iter().filter(|g| !g.starts_with('!')).collect::<Vec<_>>());
                Some(Tree {
                    links: has(&["-L", "--follow"]),
                    hidden: loose || selects,
                    ignoring: !selects && !loose && !r.options.iter().any(|o| o.starts_with("--no-ignore")),
                    only: only.filter(|g| !g.is_empty()),
                    types: values(r, Some("-t"), "--type").unwrap_or_default(),
                    ..all
                })
            }
            // Of two folders it compares what lies in them; it follows links.
            "diff" => Some(Tree { by_itself: false, links: true, ..all }),
            _ => None,
        }
    }

    fn walk(&self, folder: &Path) -> ignore::Walk {
        let mut walk = WalkBuilder::new(folder);
        walk.standard_filters(self.ignoring).hidden(!self.hidden).follow_links(self.links);
        // Other people's code and what a build made: secrets there are samples, and they would all be asked about.
        walk.filter_entry(|e| !matches!(e.file_name().to_str(), Some(".git" | "node_modules" | "target")));
        walk.build()
    }

    /// Whether the names that it was narrowed to cover the file. In doubt they do.
    fn reads(&self, path: &Path) -> bool {
        let root = path.parent().unwrap_or(path);
        let by_name = self.only.as_ref().is_none_or(|globs| {
            let mut all = OverrideBuilder::new(root);
            let added = globs.iter().all(|g| !g.contains('/') && all.add(g).is_ok());
            !added || all.build().map_or(true, |all| all.matched(path, false).is_whitelist())
        });
        let by_type = self.types.is_empty() || {
            let mut types = TypesBuilder::new();
            types.add_defaults();
            for name in &self.types {
                types.select(name);
            }
            types.build().map_or(true, |types| types.matched(path, false).is_whitelist())
        };
        by_name && by_type
    }
}

/// The values of an option; `None` where it was not given, or it cannot be told for certain which words are its values.
fn values(r: &Reading, short: Option<&str>, long: &str) -> Option<Vec<String>> {
    let given = r.options.iter().filter(|o| *o == long || short.is_some_and(|s| *o == s)).count();
    let mut found = Vec::new();
    let mut args = r.args.iter();
    while let Some(arg) = args.next() {
        if arg == long || short.is_some_and(|s| arg == s) {
            found.push(args.next()?.clone());
        } else if let Some(value) = arg.strip_prefix(long).and_then(|rest| rest.strip_prefix('=')) {
            found.push(value.to_owned());
        } else if let Some(value) = short.and_then(|s| arg.strip_prefix(s)) {
            found.push(value.to_owned());
        }
    }
    (given > 0 && found.len() == given).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permit::shell::{ShellContext, Verdict, assess};

    fn judged(text: &str, root: &Path) -> bool {
        let roots = [root.to_owned()];
        let found = |name: &str| Some(Path::new("/usr/bin").join(name));
        let cx =
            ShellContext { cwd: root, roots: &roots, home: None, path: "/usr/bin".as_ref(), resolve: &found };
        let found = assess(text, &cx);
        found.verdict != Verdict::ReadOnly || why(&found.readings, &roots).is_some()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in [("a.txt", "a"), ("src/lib.rs", "b"), ("src/deep/er/and/deeper/still/x.rs", "c")]
        {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), text).unwrap();
        }
        std::fs::write(root.join(".gitignore"), "ignored\n").unwrap();
        (folder, root)
    }

    const WIDE: &[&str] = &[
        "cat k/*",
        "cat */server.*",
        "head k/s?rver.pem",
        "cat k/[s]erver.pem",
        "cat ./k/../k/*.pem",
        "cd k && cat *",
        "cd src && cd .. ; cat k/*",
        "grep -rn x",
        "grep -rn x .",
        "grep -R x k",
        "grep -rn --include=*.rs --include=*.p* x .",
        "grep -r -e --include=*.rs .",
        "grep --directories=recurse x k",
        "grep x -d recurse k",
        "rg x",
        "rg x k",
        "rg -g '*.pem' x",
        "rg -uu x",
        "rg -L x",
        "rg -l --json x",
        "ls | rg x .",
        "diff -r k src",
        "diff k src",
        "awk '{print}' k/*",
        "tac */*",
        "cat k/\"server\".*",
    ];
    const NARROW: &[&str] = &[
        "ls *",
        "ls -R",
        "wc -l k/*",
        "cat a.txt",
        "cat *.txt",
        "cat src/*.rs",
        "grep x a.txt",
        "grep 'a.*b?[c]' a.txt",
        "grep -rn x src",
        "grep -rn --include=*.rs x .",
        "grep -rn --include='*.rs' x",
        "cat a.txt | grep x",
        "rg x src",
        "rg -t rust x",
        "rg -g '*.rs' x",
        "ls | rg x",
        "rg --files",
        "rg -l x",
        "grep -rl x .",
        "grep -rc x k",
        "find . -name *.rs",
        "diff a.txt src/lib.rs",
        "cd src && cat *",
    ];

    #[test]
    fn a_wide_command_is_told_where_a_secret_lies() {
        let (_held, root) = folder();
        for text in WIDE.iter().chain(NARROW) {
            // A wildcard made for such names is asked about in any case.
            let made_for_it = text.contains("pem") || text.contains(".p*") || text.contains("[s]");
            assert!(!judged(text, &root) || made_for_it, "{text}: nothing secret is there yet");
        }
        std::fs::create_dir(root.join("k")).unwrap();
        std::fs::write(root.join("k/server.pem"), "x").unwrap();
        for text in WIDE {
            assert!(judged(text, &root), "{text}");
        }
        for text in NARROW {
            assert!(!judged(text, &root), "{text}");
        }
    }

    #[test]
    fn what_is_hidden_ignored_or_deep_is_found_by_what_reads_it() {
        let (_held, root) = folder();
        std::fs::write(root.join("src/deep/er/and/deeper/still/.env"), "x").unwrap();
        for text in ["grep -r x .", "rg --hidden x", "rg -. x", "rg -g .env x", "grep -rn x src/deep"] {
            assert!(judged(text, &root), "{text}");
        }
        for text in ["rg x", "cat src/*/er/and/deeper/still/*", "rg -g '!*.rs' x"] {
            assert!(!judged(text, &root), "{text}");
        }
        // As ripgrep, it heeds .gitignore in a repository alone.
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::create_dir(root.join("ignored")).unwrap();
        std::fs::write(root.join("ignored/auth.json"), "x").unwrap();
        assert!(judged("rg --no-ignore x", &root) && !judged("rg x", &root));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_workspace_is_no_file_of_it() {
        let (_held, root) = folder();
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("plain"), "x").unwrap();
        std::os::unix::fs::symlink(other.path().join("plain"), root.join("notes")).unwrap();
        for text in ["cat n*", "grep -R x .", "rg -L x", "diff -r . src"] {
            assert!(judged(text, &root), "{text}");
        }
        for text in ["ls *", "grep -r x .", "rg x", "cat a*"] {
            assert!(!judged(text, &root), "{text}");
        }
    }
}
