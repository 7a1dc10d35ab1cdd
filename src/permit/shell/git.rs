//! Git: which subcommands only read, and which destroy. Options from the manual pages of git 2.47.

use super::lex::Word;
use super::options::Operands::{None as Nothing, OnePath, Paths, PatternPaths, Revisions, Text};
use super::options::{Operand, Parsed, Spec, check, spec};

/// Diff output without programs (`--ext-diff`, `--textconv`) and without a file (`--output`).
macro_rules! diff_options {
    ($more:literal) => {
        concat!(
            "-pusRabwzDW -M? -C? -B? -U= -S= -G= -O@ -l= -X? --patch --no-patch --unified= --raw --patch-with-raw \
             --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored= --diff-algorithm= \
             --stat? --compact-summary --numstat --shortstat --dirstat? --cumulative --summary --patch-with-stat \
             --name-only --name-status --submodule? --color? --no-color --color-moved? --word-diff? \
             --word-diff-regex= --color-words? --no-renames --rename-empty --check --full-index --binary --abbrev? \
             --break-rewrites? --find-renames? --find-copies? --find-copies-harder --diff-filter= \
             --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines \
             --ignore-cr-at-eol --inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff \
             --no-textconv --ignore-submodules? --src-prefix= --dst-prefix= --no-prefix --default-prefix \
             --line-prefix= --relative? --text --pickaxe-all --pickaxe-regex --stat-width= --stat-count= ",
            $more
        )
    };
}

const DIFF: &str = diff_options!("--cached --staged --merge-base -0123c --cc --base --ours --theirs -q");

const LOG: &str = diff_options!(
    "-n= -L= -# -gimEFPicqt -c --follow --decorate? --no-decorate --source --mailmap --no-mailmap --full-diff \
     --log-size --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= \
     --grep-reflog= --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings \
     --perl-regexp --merges --no-merges --min-parents= --max-parents= --first-parent --not --all --branches? --tags? \
     --remotes? --glob= --exclude= --reflog --merge --boundary --cherry-mark --cherry-pick --left-only --right-only \
     --cherry --walk-reflogs --simplify-by-decoration --full-history --dense --sparse --simplify-merges \
     --ancestry-path? --date-order --author-date-order --topo-order --reverse --oneline --pretty? --format= \
     --abbrev-commit --no-abbrev-commit --encoding= --notes? --no-notes --show-notes? --relative-date --date= \
     --parents --children --left-right --graph --no-graph --show-linear-break? --count --cc --combined-all-paths \
     --diff-merges= --no-diff-merges --remerge-diff --dd"
);

const SUBCOMMANDS: &[Spec] = &[
    spec(
        "status",
        Paths,
        "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignore-submodules? \
         --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames?",
    ),
    spec("diff", Revisions, DIFF),
    spec("log", Revisions, LOG),
    spec("show", Revisions, LOG),
    spec("whatchanged", Revisions, LOG),
    spec(
        "shortlog",
        Revisions,
        "-nsec -w? --numbered --summary --email --format= --group= --committer --since= --until= --all --no-merges",
    ),
    spec(
        "rev-parse",
        Revisions,
        "-q --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir \
         --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref? \
         --short? --symbolic --symbolic-full-name --verify --quiet --all --branches? --tags? --remotes? --revs-only \
         --no-revs --flags --no-flags --show-superproject-working-tree --show-object-format? --git-path= --not",
    ),
    spec(
        "rev-list",
        Revisions,
        "-n= -# --count --all --max-count= --since= --until= --author= --grep= --merges --no-merges --first-parent \
         --left-right --branches? --tags? --remotes? --reverse --oneline --parents --topo-order --date-order \
         --no-walk? --objects --left-only --right-only --cherry-pick --cherry-mark --format= --pretty? \
         --abbrev-commit --skip= --ancestry-path? --disk-usage?",
    ),
    spec("merge-base", Revisions, "-a --all --octopus --independent --is-ancestor --fork-point"),
    spec("describe", Revisions, "--all --tags --contains --abbrev= --candidates= --exact-match --long --match= --exclude= --always --first-parent --dirty? --broken?"),
    spec("name-rev", Revisions, "--tags --refs= --exclude= --name-only --no-undefined --always --all"),
    spec(
        "ls-files",
        Paths,
        "-cdomsiuktvfz -x= -X@ --cached --deleted --others --modified --stage --ignored --unmerged --killed --directory \
         --no-empty-directory --eol --full-name --recurse-submodules --error-unmatch --exclude= --exclude-from@ \
         --exclude-per-directory= --exclude-standard --abbrev? --debug --deduplicate --format= --sparse",
    ),
    spec("ls-tree", Revisions, "-drltz --name-only --name-status --object-only --full-name --full-tree --abbrev? --long --format="),
    spec("cat-file", Revisions, "-tspe --allow-unknown-type --batch-check? --use-mailmap"),
    spec("show-ref", Text, "-sdq --head --heads --branches --tags --dereference --hash? --verify --abbrev? --quiet --exists"),
    spec(
        "for-each-ref",
        Text,
        "--count= --sort= --format= --color? --points-at= --merged? --no-merged? --contains? --no-contains? \
         --ignore-case --omit-empty --exclude= --include-root-refs",
    ),
    spec("symbolic-ref", OnePath, "-q --short --quiet"),
    spec("count-objects", Nothing, "-vH --verbose --human-readable"),
    spec("check-ignore", Paths, "-qvn --quiet --verbose --non-matching --no-index"),
    spec("check-attr", Text, "-a --all --cached"),
    spec("diff-tree", Revisions, diff_options!("-rtmcv --cc --root --no-commit-id --stdin --pretty? --format= --always --merge-base")),
    spec("diff-index", Revisions, diff_options!("-m --cached --merge-base")),
    spec("diff-files", Paths, diff_options!("-0123cq --base --ours --theirs")),
    spec(
        "blame",
        Revisions,
        "-bcltfnsepw -L= -M? -C? -S@ --root --show-stats --porcelain --line-porcelain --incremental --first-parent \
         --date= --abbrev= --show-name --show-number --show-email --ignore-rev= --ignore-revs-file@ --reverse \
         --color-lines --color-by-age --no-textconv",
    ),
    spec(
        "grep",
        PatternPaths,
        "-aIirhHnlLzcpWEGFPqvwox -e= -f@ -A= -B= -C= -m= -# --cached --untracked --no-index --recurse-submodules --text \
         --ignore-case --max-depth= --recursive --no-recursive --word-regexp --invert-match --full-name \
         --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column --files-with-matches \
         --name-only --files-without-match --null --only-matching --count --color? --no-color --break --heading \
         --show-function --function-context --context= --after-context= --before-context= --max-count= --and --or \
         --not --all-match --quiet --no-textconv --exclude-standard --no-exclude-standard",
    )
    .pattern("-e -f"),
    spec("version", Nothing, "--build-options"),
    spec("var", Text, ""),
];

/// Read-only forms of subcommands that can also write, by the word after them.
const FORMS: &[(&str, &str, Spec)] = &[
    ("stash", "list", spec("stash list", Revisions, LOG)),
    ("stash", "show", spec("stash show", Revisions, diff_options!("--include-untracked --only-untracked"))),
    ("remote", "get-url", spec("remote get-url", Text, "--push --all")),
    ("worktree", "list", spec("worktree list", Nothing, "-vz --porcelain --verbose")),
    ("reflog", "show", spec("reflog show", Revisions, LOG)),
    ("notes", "list", spec("notes list", Revisions, "")),
    ("notes", "show", spec("notes show", Revisions, "")),
    ("bisect", "log", spec("bisect log", Nothing, "")),
];

const BRANCH: Spec = spec(
    "branch",
    Text,
    "-avrqi -l --list --all --remotes --verbose --quiet --show-current --color? --no-color --column? --no-column \
     --sort= --format= --abbrev? --no-abbrev --contains? --no-contains? --merged? --no-merged? --points-at= \
     --ignore-case",
);
const TAG: Spec = spec(
    "tag",
    Text,
    "-l -n? -i --list --sort= --format= --color? --column? --no-column --contains? --no-contains? --merged? \
     --no-merged? --points-at= --ignore-case",
);
const REMOTE: Spec = spec("remote", Nothing, "-v --verbose");
const REFLOG: Spec = spec("reflog", Revisions, LOG);
const CONFIG: Spec = spec(
    "config",
    Text,
    "-z --get --get-all --local --global --system --worktree --show-origin --show-scope --name-only --null --type= \
     --bool --int --path --default= --includes --no-includes",
);

/// The read-only check of `git …` (`args` without the `git`).
pub(super) fn check_git(args: &[Word]) -> Result<Parsed, String> {
    subcommand(args).map_err(|why| match why.strip_prefix('`') {
        Some(rest) if !rest.starts_with("git ") => format!("`git {rest}"),
        _ => why,
    })
}

fn subcommand(args: &[Word]) -> Result<Parsed, String> {
    let mut args = args;
    while let Some((first, rest)) = args.split_first()
        && ["--no-pager", "--no-optional-locks", "--no-replace-objects", "--literal-pathspecs"]
            .contains(&first.text.as_str())
        && !first.disguised
    {
        args = rest;
    }
    let Some((name, rest)) = args.split_first() else { return Err("`git` without a subcommand".into()) };
    let text = name.text.as_str();
    if text.starts_with('-') {
        return match text {
            "--version" if rest.is_empty() => Ok(Parsed::default()),
            _ => Err(format!("`git {text}` may change what git runs or where")),
        };
    }
    if name.quoted || name.glob {
        return Err(format!("the subcommand `git {text}` is not written plainly"));
    }
    let next = rest.first().map_or("", |w| w.text.as_str());
    if let Some((_, _, form)) = FORMS.iter().find(|(a, b, _)| *a == text && *b == next) {
        return revisions(check(form, rest.get(1..).unwrap_or(&[]))?);
    }
    match text {
        "branch" | "tag" => listing(text, rest),
        "remote" => check(&REMOTE, rest),
        "reflog" if !["expire", "delete", "drop"].contains(&next) => revisions(check(&REFLOG, rest)?),
        "config" => config(rest),
        "symbolic-ref" => {
            check(&SUBCOMMANDS.iter().find(|s| s.name == text).copied().unwrap_or(REMOTE), rest).and_then(
                |p| {
                    if p.reads.len() == 1 {
                        Ok(Parsed::default())
                    } else {
                        Err("`git symbolic-ref` may write".into())
                    }
                },
            )
        }
        _ => match SUBCOMMANDS.iter().find(|s| s.name == text) {
            Some(found) => revisions(check(found, rest)?),
            None => Err(format!("`git {text}` is not known to be read-only")),
        },
    }
}

/// `git branch`, `git tag`: a bare operand creates one, unless the listing was asked for.
fn listing(name: &str, args: &[Word]) -> Result<Parsed, String> {
    let parsed = check(if name == "branch" { &BRANCH } else { &TAG }, args)?;
    let lists = ["--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    let asked = parsed.seen.iter().any(|s| lists.contains(&s.as_str()));
    match asked || parsed.operands.is_empty() {
        true => Ok(parsed),
        false => Err(format!("`git {name}` with a name creates one")),
    }
}

/// `git config`: one value, and none that may hold a token.
fn config(args: &[Word]) -> Result<Parsed, String> {
    let (args, verb) = match args.first().map(|w| w.text.as_str()) {
        Some("get") => (&args[1..], true),
        _ => (args, false),
    };
    let parsed = check(&CONFIG, args)?;
    let asked = verb || parsed.seen.iter().any(|s| s == "--get" || s == "--get-all");
    let secret = |k: &String| {
        let k = k.to_lowercase();
        ["http", "credential", "token", "password", "secret", "key", "sendemail"]
            .iter()
            .any(|s| k.contains(s))
    };
    match parsed.operands.as_slice() {
        // With one operand and no verb it asks for the value too.
        [key] if !secret(key) && key.contains('.') => Ok(parsed),
        [_] => Err("that git setting may hold a token".into()),
        _ if asked => Err("`git config` with more than a name is not known to be read-only".into()),
        _ => Err("`git config` may write, or show tokens".into()),
    }
}

/// `HEAD:path` names a path too, and a secret-like one is a secret in history as well.
fn revisions(mut parsed: Parsed) -> Result<Parsed, String> {
    let paths: Vec<Operand> = parsed
        .reads
        .iter()
        .filter_map(|o| o.text.split_once(':'))
        .map(|(_, path)| Operand {
            text: path.trim_start_matches(['/', '!', '(', ')']).to_owned(),
            glob: false,
        })
        .filter(|o| !o.text.is_empty())
        .collect();
    parsed.reads.extend(paths);
    Ok(parsed)
}
