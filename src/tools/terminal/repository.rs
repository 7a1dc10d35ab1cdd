//! What git would show: it is asked itself, by the same command with names in the place of contents. Nothing else knows
//! for certain what a revision, a pathspec or a stash holds.
use super::judge::Doubt;
use super::wide::is_secret;
use crate::{
    permit::shell::Reading,
    workspace::{Reader, Said},
};
use std::path::{Path, PathBuf};

/// Options by which names alone are shown.
const NAMES: &[&str] = &["--name-only", "--name-status"];
/// The same, unless contents are asked for beside them.
const SUMMARIES: &[&str] = &[
    "--stat",
    "--numstat",
    "--shortstat",
    "--dirstat",
    "-X",
    "--summary",
    "--compact-summary",
    "--raw",
    "-s",
    "--no-patch",
    "--quiet",
    "--cumulative",
];
/// Options by which contents are shown.
const CONTENTS: &[&str] = &[
    "-p",
    "-u",
    "-U",
    "--patch",
    "--unified",
    "--patch-with-raw",
    "--patch-with-stat",
    "--binary",
    "--word-diff",
    "--word-diff-regex",
    "--color-words",
    "-c",
    "--cc",
    "-m",
    "--remerge-diff",
    "--dd",
    "--diff-merges",
    "--combined-all-paths",
    "--check",
    "-W",
    "--function-context",
    "--inter-hunk-context",
];
/// Names are written another way, or from elsewhere.
const OTHER_NAMES: &[&str] = &["--relative", "--submodule", "--line-prefix"];
/// Of `git grep`, what shows names and numbers.
const GREP_NAMES: &[&str] = &[
    "-l",
    "--files-with-matches",
    "--name-only",
    "-L",
    "--files-without-match",
    "-c",
    "--count",
    "-q",
    "--quiet",
];

/// Git's words for what it does not find, before it shows anything.
const NOTHING_THERE: &[&str] = &[
    "unknown revision",
    "bad revision",
    "ambiguous argument",
    "bad object",
    "invalid object name",
    "does not have any commits",
    "not a git repository",
    "unable to resolve revision",
    "no such path",
    "not a valid object name",
    "no stash entries found",
    "is not a stash reference",
    "is not a valid reference",
    "only has",
    "is not valid",
];

/// How a git command is asked for what it would show.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// It shows no content of files.
    Nothing,
    /// It may, and it cannot be told of which.
    Unclear(&'static str),
    /// This tells the names, and these are revisions that must not be contents themselves.
    Names { args: Vec<String>, revisions: Vec<String> },
}

/// Why a git command must be asked about: the secret-like file that it would show, or programs that git would start.
pub(super) async fn why(reading: &Reading, git: &Path, ws: &dyn Reader) -> Option<Doubt> {
    for folder in &reading.folders {
        if let Some(why) = configured(folder, ws.roots()) {
            return Some(why.into());
        }
        let found = match question(reading) {
            Question::Nothing => None,
            Question::Unclear(why) => Some(why.into()),
            _ if repository(folder).is_none() && !reading.args.iter().any(|a| a == "--no-index") => None,
            Question::Names { args, revisions } => names(&args, &revisions, git, folder, ws).await,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

async fn names(
    args: &[String],
    revisions: &[String],
    git: &Path,
    folder: &Path,
    ws: &dyn Reader,
) -> Option<Doubt> {
    const UNKNOWN: &str = "git did not say of which files it would show the content";
    if !revisions.is_empty() {
        let asked = ["cat-file".to_owned(), "--batch-check=%(objecttype)".to_owned()];
        // A tag may stand for a content, too.
        let lines: String = revisions.iter().map(|r| format!("{r}\n{r}^{{}}\n")).collect();
        let types = ws.query(git, folder, &asked, &lines).await;
        let Some(types) = types else { return Some(UNKNOWN.into()) };
        if types.code != 0 {
            return (!finds_nothing(&types)).then(|| UNKNOWN.into());
        }
        if String::from_utf8_lossy(&types.output).lines().any(|line| line == "blob") {
            return Some("it shows the content of a file that it does not name".into());
        }
    }
    if args.is_empty() {
        return None;
    }
    let Some(told) = ws.query(git, folder, args, "").await else { return Some(UNKNOWN.into()) };
    if told.code > 1 {
        return (!finds_nothing(&told)).then(|| UNKNOWN.into());
    }
    let told = String::from_utf8_lossy(&told.output).into_owned();
    let secret =
        if args.iter().any(|a| a == "--files-with-matches") { matching(&told) } else { changed(&told) };
    secret.map(|path| {
        let named = crate::permit::shell::escape_for_display(&path);
        let why = format!("it would show the content of {named}, which looks like it holds secrets");
        Doubt { why, file: Some(folder.join(path)) }
    })
}

/// Whether git failed for want of what it was to show: the command itself will fail by the same words.
fn finds_nothing(said: &Said) -> bool {
    let errors = said.errors.to_lowercase();
    NOTHING_THERE.iter().any(|words| errors.contains(words))
}

/// The first secret-like name in `git grep -lz`; before a colon stands the revision.
fn matching(told: &str) -> Option<String> {
    let parts = told.split('\0').filter(|name| !name.is_empty());
    parts.map(|name| name.trim_start_matches('\n')).find(|name| secret_name(name)).map(str::to_owned)
}

/// The first secret-like name in `--name-status -z`, whatever else (messages, graphs) stands between.
fn changed(told: &str) -> Option<String> {
    let parts: Vec<&str> = told.split('\0').collect();
    let secret = parts.windows(2).enumerate().find_map(|(at, pair)| {
        let status = pair[0].rsplit('\n').next().unwrap_or("");
        let status = status.trim_matches(|c: char| "|/\\*_. ".contains(c));
        let letters = status.trim_end_matches(|c: char| c.is_ascii_digit());
        if letters.is_empty() || !letters.chars().all(|c| "ACDMRTUXB".contains(c)) {
            return None;
        }
        // A rename and a copy name two; a merge may name one for each parent.
        parts[at + 1..].iter().take(1 + letters.len()).find(|name| secret_name(name))
    });
    secret.map(|name| (*name).to_owned())
}

fn secret_name(name: &str) -> bool {
    is_secret(Path::new(name)) || name.split(':').skip(1).any(|part| is_secret(Path::new(part)))
}

fn question(r: &Reading) -> Question {
    const GLOBAL: &[&str] =
        &["--no-pager", "--no-optional-locks", "--no-replace-objects", "--literal-pathspecs"];
    let skip = r.args.iter().take_while(|a| GLOBAL.contains(&a.as_str())).count();
    let (global, args) = r.args.split_at(skip);
    let Some((name, rest)) = args.split_first() else { return Question::Nothing };
    let has = |names: &[&str]| r.options.iter().any(|o| names.contains(&o.as_str()));
    let (words, rest) = match (name.as_str(), rest.first().map(String::as_str)) {
        ("stash", Some("list" | "show")) | ("reflog", Some("show")) => args.split_at(2),
        _ => (&args[..1], rest),
    };
    let (name, form) = (name.as_str(), words.last().map_or("", String::as_str));
    let log = ["log", "show", "whatchanged", "reflog"].contains(&name) || (name, form) == ("stash", "list");
    let shows_by_itself = ["diff", "show"].contains(&name) || (name, form) == ("stash", "show");
    let named: Vec<String> = revisions(r);
    match name {
        "status" if has(&["-v", "--verbose"]) => Question::Names {
            args: twin(global, &["diff".into(), "HEAD".into()], false, &[]),
            revisions: vec![],
        },
        "cat-file" if !has(&["-t", "-s", "-e", "--batch-check"]) => {
            Question::Names { args: vec![], revisions: named }
        }
        "grep" if has(GREP_NAMES) => Question::Nothing,
        "grep" => {
            let own =
                ["grep", "--files-with-matches", "-z", "--no-textconv", "--no-color"].map(str::to_owned);
            Question::Names {
                args: global.iter().cloned().chain(own).chain(rest.to_vec()).collect(),
                revisions: named,
            }
        }
        _ if !(log || shows_by_itself || name.starts_with("diff-")) => Question::Nothing,
        _ if r.options.iter().any(|o| o == "-L") => lines(r),
        _ if has(NAMES) && !has(&["--check"]) => Question::Nothing,
        _ if !has(CONTENTS) && (!shows_by_itself || has(SUMMARIES)) => blobs(shows_by_itself, named),
        _ if has(OTHER_NAMES) || has(&["-s", "--no-patch"]) || has(NAMES) => {
            Question::Unclear("it may show the content of files that could not be told")
        }
        _ => {
            let Some(rest) = unchecked(r, rest) else {
                return Question::Unclear("it may show the content of files that could not be told");
            };
            Question::Names { args: twin(global, words, log, &rest), revisions: named }
        }
    }
}

/// With `--stat` alone, `git show` still shows a file that is named by its number.
fn blobs(shows: bool, revisions: Vec<String>) -> Question {
    match shows && !revisions.is_empty() {
        true => Question::Names { args: vec![], revisions },
        false => Question::Nothing,
    }
}

/// The same command, with names instead of contents. Its own words come first, so that nothing of the command's can be
/// taken for the value of another.
fn twin(global: &[String], words: &[String], log: bool, rest: &[String]) -> Vec<String> {
    let own = [
        "--name-status",
        "-z",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-relative",
        "--submodule=short",
    ];
    let more = match words.first().map(String::as_str) {
        // By itself it names folders.
        Some("diff-tree") => Some("-r".to_owned()),
        _ => log.then(|| "--format=".to_owned()),
    };
    let (all, own) = (global.iter().chain(words).cloned(), own.into_iter().map(str::to_owned));
    all.chain(own).chain(more).chain(rest.iter().cloned()).collect()
}

/// Without `--check`, which excludes names; `None` where such a word may be something else.
fn unchecked(r: &Reading, rest: &[String]) -> Option<Vec<String>> {
    let given = r.options.iter().filter(|o| *o == "--check").count();
    let words = rest.iter().filter(|a| *a == "--check").count();
    (given == words).then(|| rest.iter().filter(|a| *a != "--check").cloned().collect())
}

/// `-L 1,9:file` shows that file alone.
fn lines(r: &Reading) -> Question {
    let given = r.options.iter().filter(|o| *o == "-L").count();
    let mut values = Vec::new();
    let mut args = r.args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix("-L") {
            Some("") => values.extend(args.next().cloned()),
            Some(value) => values.push(value.to_owned()),
            None => {}
        }
    }
    match values.len() == given && !values.iter().any(|v| v.split(':').skip(1).any(secret_name)) {
        true => Question::Nothing,
        false => Question::Unclear("it may show lines of a file that looks like it holds secrets"),
    }
}

/// What may be the number of a file's content: a name with a colon says which file, and was looked at.
fn revisions(r: &Reading) -> Vec<String> {
    let parts = r.operands.iter().flat_map(|(text, _)| text.split(".."));
    parts
        .map(|part| part.trim_matches(['.', '^']))
        .filter(|part| !part.is_empty() && !part.contains([':', '\n', '*']))
        .map(str::to_owned)
        .collect()
}

fn repository(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())
}

/// Why the repository's own configuration needs a person's look: it has what no setting of ours can switch off.
fn configured(folder: &Path, roots: &[PathBuf]) -> Option<String> {
    let git = repository(folder)?;
    let Some(home) = git_folder(&git) else { return Some(format!("{} could not be read", git.display())) };
    // Of a worktree: the repository that it belongs to.
    let common = match std::fs::read_to_string(home.join("commondir")) {
        Ok(text) => home.join(text.trim_end_matches('\n')),
        Err(_) => home.clone(),
    };
    let mut configs = vec![common.join("config"), home.join("config.worktree")];
    submodules(&common.join("modules"), 0, &mut configs);
    configs.iter().find_map(|config| {
        let text = match std::fs::read(config) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).to_lowercase(),
            // git would find none either.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(e) => return Some(format!("{} could not be read: {e}", config.display())),
        };
        told_by(&text, config, roots).map(|what| format!("{} {what}", config.display()))
    })
}

/// The configurations of submodules, which git reads when it looks whether they changed.
fn submodules(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    const DEEPEST: usize = 6;
    const MOST: usize = 500;
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if depth > DEEPEST || out.len() > MOST {
            return;
        }
        if path.join("HEAD").is_file() {
            out.push(path.join("config"));
            submodules(&path.join("modules"), depth + 1, out);
        } else if path.is_dir() {
            submodules(&path, depth + 1, out);
        }
    }
}

/// `filter.*.clean` runs on a mere `git diff`; an include can bring anything in; a missing object may be fetched by a
/// program of the repository's choosing (git before 2.44); files may lie elsewhere.
fn told_by(text: &str, config: &Path, roots: &[PathBuf]) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if has(&["[filter", "[include"]) {
        return Some("may make git start a program (a filter or an include)");
    }
    // Not every way to a diff is hardened: `git reflog -p`, options in front of the command.
    let is = |line: &str, key: &str| {
        line.trim().strip_prefix(key).is_some_and(|v| v.trim_start().starts_with('='))
    };
    if has(&["textconv", "[merge"]) || text.lines().any(|l| is(l, "external") || is(l, "command")) {
        return Some("may make git start a program (to show a diff or to merge)");
    }
    if has(&["promisor", "partialclone"]) && has(&["sshcommand", "uploadpack", "vcs", "gitproxy"]) {
        return Some("may make git start a program (to fetch what is missing)");
    }
    let elsewhere =
        text.lines().filter_map(|line| line.trim().strip_prefix("worktree")?.trim_start().strip_prefix('='));
    let mut elsewhere = elsewhere.map(|path| config.with_file_name(path.trim().trim_matches('"')));
    let outside = |path: PathBuf| !path.canonicalize().is_ok_and(|p| roots.iter().any(|r| p.starts_with(r)));
    // Small letters: what differs in them alone is asked about.
    elsewhere.any(outside).then_some("has git look at files outside the workspace")
}

/// Where the repository lies: `.git` itself, or what that file names.
fn git_folder(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    let text = std::fs::read_to_string(git).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(git.parent()?.join(named)).filter(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests;
