//! Commands that read more files than they name: a glob, a recursive search. Where a secret-like file lies in reach,
//! such a command is asked about, as naming the file would be.
use crate::workspace::guard::is_secret_name;
use ignore::WalkBuilder;
use std::path::{Path, PathBuf};

/// Programs that show no content of files.
const NAMES_ONLY: &[&str] = &[
    "ls", "tree", "du", "df", "stat", "file", "wc", "pwd", "cd", "echo", "printf", "test", "[", "basename",
    "dirname", "realpath", "readlink", "which", "type", "command", "true", "false", "date", "uname", "id",
    "whoami", "find", "cargo", "rustc", "node",
];
/// How far is looked for such a file: more would cost more than the question.
const DEPTH: usize = 4;
const ENTRIES: usize = 3000;

/// The secret-like file that one of the commands may read without naming it.
pub(super) fn secret_in_reach(leaves: &[Vec<String>], cwd: &Path) -> Option<PathBuf> {
    if !leaves.iter().any(|leaf| is_wide(leaf)) {
        return None;
    }
    WalkBuilder::new(cwd)
        .standard_filters(false)
        .max_depth(Some(DEPTH))
        .filter_entry(|e| !matches!(e.file_name().to_str(), Some(".git" | "node_modules" | "target")))
        .build()
        .flatten()
        .take(ENTRIES)
        .find(|e| e.file_type().is_some_and(|t| t.is_file()) && is_secret_name(e.path()))
        .map(|e| e.into_path())
}

fn is_wide(leaf: &[String]) -> bool {
    let Some((program, args)) = leaf.split_first() else { return false };
    let flag = |letters: [char; 2]| {
        args.iter().any(|a| a.starts_with('-') && !a.starts_with("--") && a.contains(letters))
            || args.iter().any(|a| a.starts_with("--recursive"))
    };
    match program.as_str() {
        name if NAMES_ONLY.contains(&name) => false,
        // Of what is tracked, git shows nothing that is not in the repository already.
        "git" => args.iter().any(|a| ["--no-index", "--cached", "--staged"].contains(&a.as_str())),
        "grep" | "egrep" | "fgrep" => flag(['r', 'R']) || globs(args),
        // What .gitignore names and what is hidden is left out by itself.
        "rg" => args
            .iter()
            .any(|a| a.starts_with("-u") || a.starts_with("--hidden") || a.starts_with("--no-ignore")),
        _ => globs(args),
    }
}

fn globs(args: &[String]) -> bool {
    args.iter().any(|a| a.contains(['*', '?', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_command_is_told_where_a_secret_lies() {
        let folder = tempfile::tempdir().unwrap();
        let leaf = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let reach = |text: &str| secret_in_reach(&[leaf(text)], folder.path()).is_some();
        let wide = [
            "cat *",
            "head k/*",
            "cat i?_rsa",
            "grep -rn x",
            "grep -R x k",
            "git grep --no-index x",
            "git diff --cached",
        ];
        let narrow = [
            "ls *",
            "cat a.txt",
            "grep x a.txt",
            "rg x",
            "git status",
            "git diff",
            "git grep x",
            "find . -name *.rs",
        ];
        for text in wide {
            assert!(!reach(text), "{text}: nothing secret is there yet");
        }
        std::fs::create_dir(folder.path().join("k")).unwrap();
        std::fs::write(folder.path().join("k/server.pem"), "x").unwrap();
        for text in wide {
            assert!(reach(text), "{text}");
        }
        for text in narrow {
            assert!(!reach(text), "{text}");
        }
    }
}
