//! The forms of git that lose work, rewrite what others have, or make git run something later.

/// Why this git command destroys. Global options are skipped, so that `git -C x push -f` is seen too.
pub(super) fn git(args: &[String]) -> Option<String> {
    let mut at = 0;
    while let Some(arg) = args.get(at).filter(|a| a.starts_with('-')) {
        let valued =
            ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"];
        at += 1 + usize::from(valued.contains(&arg.as_str()));
    }
    let command = args.get(at)?.as_str();
    let rest = args.get(at + 1..).unwrap_or(&[]);
    let next = rest.first().map_or("", String::as_str);
    let why = match command {
        "reset" if long(rest, "hard") || long(rest, "merge") => {
            "it throws away changes that are not committed"
        }
        "clean" if !(long(rest, "dry-run") || short(rest, "n")) => "it deletes files that git does not know",
        "checkout" => return checkout(rest),
        "switch" if long(rest, "discard-changes") || long(rest, "force") || short(rest, "fC") => {
            "it throws away changes that are not committed"
        }
        "restore"
            if !(long(rest, "staged") || short(rest, "S")) || long(rest, "worktree") || short(rest, "W") =>
        {
            "it throws away changes that are not committed"
        }
        "push" => return push(rest),
        "stash" if ["drop", "clear"].contains(&next) => "it deletes stashed work",
        "branch" if short(rest, "dDfMC") || long(rest, "delete") || long(rest, "force") => {
            "it deletes or moves a branch"
        }
        "tag" if short(rest, "df") || long(rest, "delete") || long(rest, "force") => {
            "it deletes or moves a tag"
        }
        "rm" if short(rest, "rf") || long(rest, "force") => "it deletes files",
        "filter-branch" | "filter-repo" | "bfg" => "it rewrites the history",
        "reflog" if ["expire", "delete", "drop"].contains(&next) => "it deletes the way back to lost commits",
        "gc" if rest.iter().any(|a| a.starts_with("--prune") || a == "--aggressive") => {
            "it deletes unreachable commits"
        }
        "prune" | "prune-packed" => "it deletes unreachable commits",
        "update-ref" if short(rest, "d") || long(rest, "stdin") => "it deletes a reference",
        "symbolic-ref" if short(rest, "d") || long(rest, "delete") => "it deletes a reference",
        "replace" => "it replaces objects in the history",
        "worktree" if ["remove", "prune"].contains(&next) => "it deletes a work tree",
        "remote" if ["rm", "remove", "prune"].contains(&next) => "it removes a remote and its branches",
        "submodule" if next == "deinit" => "it deletes a submodule's files",
        "submodule" if next == "foreach" => return foreach(rest),
        "bisect" if next == "run" => return foreach(rest),
        "notes" if ["remove", "prune"].contains(&next) => "it deletes notes",
        "lfs" if ["prune", "migrate"].contains(&next) => "it rewrites or deletes stored files",
        "checkout-index" if short(rest, "f") || long(rest, "force") => "it overwrites files",
        "read-tree" if long(rest, "reset") || short(rest, "u") => "it overwrites files",
        "sparse-checkout" if next != "list" => "it removes files from the work tree",
        "config" => return config(rest),
        _ => return None,
    };
    Some(format!("`git {command}`: {why}"))
}

fn foreach(rest: &[String]) -> Option<String> {
    super::destructive::destroys(rest.get(1..)?)
        .or_else(|| rest.get(1..)?.iter().find_map(|a| super::scan::script(a)))
}

fn short(args: &[String], letters: &str) -> bool {
    let options = args.iter().take_while(|a| *a != "--");
    options.into_iter().any(|a| {
        a.len() > 1
            && a.starts_with('-')
            && !a.starts_with("--")
            && a[1..].chars().any(|c| letters.contains(c))
    })
}

/// Git too takes the beginning of a long option.
fn long(args: &[String], name: &str) -> bool {
    let options = args.iter().take_while(|a| *a != "--");
    options.into_iter().filter_map(|a| a.strip_prefix("--")).any(|a| {
        let given = a.split('=').next().unwrap_or(a);
        given.len() > 1 && name.starts_with(given)
    })
}

fn checkout(rest: &[String]) -> Option<String> {
    let operand = |a: &&String| !a.starts_with('-');
    let whole = rest.iter().filter(operand).any(|a| [".", "./", ":/", "*", ".."].contains(&a.as_str()));
    let file = rest.iter().filter(operand).any(|a| {
        let name = a.rsplit('/').next().unwrap_or(a);
        let end = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
        end.is_some_and(|(_, e)| (1..=5).contains(&e.len()) && e.bytes().all(|b| b.is_ascii_lowercase()))
    });
    let forced = short(rest, "fB") || long(rest, "force") || long(rest, "ours") || long(rest, "theirs");
    let after = rest.iter().position(|a| a == "--").is_some_and(|i| i + 1 < rest.len());
    (forced || after || whole || file)
        .then(|| "`git checkout`: it throws away changes that are not committed".to_owned())
}

fn push(rest: &[String]) -> Option<String> {
    let forced = short(rest, "f") || rest.iter().any(|a| a.starts_with("--force")) || long(rest, "force");
    if forced || long(rest, "mirror") || rest.iter().any(|a| a.starts_with('+')) {
        return Some("`git push`: it overwrites what others have".into());
    }
    let deletes = short(rest, "d") || long(rest, "delete") || long(rest, "prune");
    (deletes || rest.iter().any(|a| a.starts_with(':')))
        .then(|| "`git push`: it deletes a branch for all".to_owned())
}

const RUNS: &[&str] = &[
    "alias.",
    "core.hookspath",
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.askpass",
    "core.gitproxy",
    "core.worktree",
    "core.attributesfile",
    "diff.",
    "difftool.",
    "mergetool.",
    "merge.",
    "filter.",
    "credential.",
    "include.",
    "includeif.",
    "url.",
    "pager.",
    "sequence.editor",
    "gpg.",
    "http.",
    "protocol.",
    "uploadpack.",
    "receive.",
    "remote.",
    "submodule.",
    "browser.",
    "man.",
    "web.browser",
    "init.templatedir",
    "safe.",
    "sendemail.",
    "trailer.",
    "tar.",
    "interactive.difffilter",
    "instaweb.",
    "ssh.variant",
];

/// Settings that make git run a program, or send its traffic elsewhere.
fn config(rest: &[String]) -> Option<String> {
    let reads = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "get",
        "list",
        "--get-urlmatch",
        "--get-color",
    ];
    if rest.iter().any(|a| reads.contains(&a.as_str())) {
        return None;
    }
    let key = rest.iter().find(|a| {
        let lower = a.to_lowercase();
        RUNS.iter().any(|r| lower.starts_with(r))
    });
    let writes =
        rest.iter().filter(|a| !a.starts_with('-')).count() > 1 || rest.iter().any(|a| a.contains("unset"));
    let section = rest
        .iter()
        .any(|a| ["--remove-section", "--edit", "-e", "edit", "remove-section"].contains(&a.as_str()));
    if let Some(key) = key.filter(|_| writes) {
        return Some(format!("`git config {key}` changes what git runs or trusts"));
    }
    (section).then(|| "`git config` changes whole sections".to_owned())
}
