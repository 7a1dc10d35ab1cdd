//! The proof that one simple command only reads, inside the roots, and no secret.

use std::path::{Path, PathBuf};

use super::leaves::Leaf;
use super::lex::{Redirect, Word};
use super::options::{Operand, Parsed, check};
use super::paths::{inside, is_stream, normalize, secret_glob, secret_like};
use super::programs::{BUILTINS, PROGRAMS, VERSIONED};
use super::{Reading, ShellContext};
use super::{git, special};

/// The folders the command may stand in: `cd` may have failed, so each one is kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folders: Vec<PathBuf>,
    /// Those left after `cd x &&`: had it failed, nothing would follow.
    chain: Option<Vec<PathBuf>>,
}

impl Place {
    pub fn new(folder: &Path) -> Self {
        Self { folders: vec![folder.to_path_buf()], chain: None }
    }
    /// Where the current command may stand.
    pub fn here(&self) -> &Vec<PathBuf> {
        self.chain.as_ref().unwrap_or(&self.folders)
    }
    /// Moves on to the next simple command.
    pub fn step(&mut self, leaf: &Leaf) {
        if !leaf.joined {
            self.chain = None;
        }
    }
}

/// More folders than this are not followed.
const MAX_FOLDERS: usize = 8;

/// Proves a simple command read-only, or says why it is not. `reads` gets its literal paths in either case.
pub(super) fn prove(
    leaf: &Leaf,
    cx: &ShellContext<'_>,
    at: &mut Place,
    reads: &mut Vec<PathBuf>,
) -> Result<Reading, String> {
    if let Some((name, _)) = leaf.assigns.first() {
        return Err(format!("it sets the variable `{name}`"));
    }
    redirects(leaf, cx, at, reads)?;
    let Some((program, args)) = leaf.words.split_first() else { return Err("it has no program".into()) };
    let all = || leaf.words.iter();
    if let Some(w) = all().find(|w| w.dynamic) {
        return Err(format!("the value of `{}` is not known here", w.text));
    }
    let name = known(program, args, cx)?;
    if all().skip(1).any(|w| w.text.starts_with('-') && !w.text.is_ascii()) {
        return Err("an option holds letters that look like others".into());
    }
    let parsed = match rules(name, args) {
        Ok(parsed) => parsed,
        Err(why) => {
            // Only what lies in the words is known: no program's grammar told operands from values.
            literal(args, cx, at, reads);
            return Err(why);
        }
    };
    // What git names may be a revision, unless it compares files as they lie there.
    let report = name != "git" || parsed.seen.iter().any(|option| option == "--no-index");
    for operand in &parsed.reads {
        reach(operand, cx, at, report.then_some(&mut *reads))?;
    }
    let reading = Reading {
        program: name.to_owned(),
        args: args.iter().map(|w| w.text.clone()).collect(),
        folders: at.here().clone(),
        operands: parsed.reads.iter().map(|o| (o.text.clone(), o.glob)).collect(),
        options: parsed.seen.clone(),
        piped: leaf.piped,
    };
    if name == "cd" {
        enter(leaf, &parsed, cx, at)?;
    }
    Ok(reading)
}

/// The program's name, when running it runs what the name says.
fn known<'a>(program: &'a Word, args: &[Word], cx: &ShellContext<'_>) -> Result<&'a str, String> {
    let text = program.text.as_str();
    if program.quoted || program.glob || !text.is_ascii() {
        return Err(format!("the program `{}` is not written plainly", super::escape_for_display(text)));
    }
    let name = super::destructive::base(text);
    if BUILTINS.contains(&text) {
        return Ok(text);
    }
    if !listed(name) && name != "git" && !VERSIONED.contains(&name) {
        let sub = args
            .first()
            .filter(|a| a.text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b':'));
        let shown = sub.map_or(text.to_owned(), |s| format!("{text} {}", s.text));
        return Err(format!("`{shown}` is not known to be read-only"));
    }
    if let Some(folder) = std::env::split_paths(cx.path).find(|p| !p.is_absolute()) {
        return Err(format!("PATH holds `{}`, so what `{name}` is depends on the folder", folder.display()));
    }
    let found = (cx.resolve)(name);
    if text.contains('/') && found.as_deref() != Some(Path::new(text)) {
        return Err(format!("`{text}` is not the `{name}` that PATH finds"));
    }
    match found {
        Some(path) if !path.is_absolute() || inside(&path, cx.roots) => {
            Err(format!("`{name}` is a file of the workspace: {}", path.display()))
        }
        Some(_) => Ok(name),
        // Nothing would run, unless the workspace gains such a program before it does.
        None if std::env::split_paths(cx.path).any(|p| inside(&p, cx.roots)) => {
            Err(format!("`{name}` was not found, and PATH leads into the workspace"))
        }
        None => Ok(name),
    }
}

/// Whether there are rules for how a program only reads.
pub(super) fn listed(name: &str) -> bool {
    name != "git" && (PROGRAMS.iter().any(|s| s.name == name) || OWN.contains(&name))
}

/// Programs with rules of their own.
const OWN: &[&str] = &["git", "find", "sed", "awk", "gawk", "mawk", "date", "tar", "jq"];

fn rules(name: &str, args: &[Word]) -> Result<Parsed, String> {
    if version(name, args) {
        return Ok(Parsed::default());
    }
    match name {
        "git" => git::check_git(args),
        "find" => special::find(args),
        "sed" => special::sed(args),
        "awk" | "gawk" | "mawk" => special::awk(args),
        "test" => special::test(args, false),
        "[" => special::test(args, true),
        "date" => special::date(args),
        "tar" => special::tar(args),
        "printf" => special::printf(args),
        "echo" => Ok(Parsed::default()),
        "cd" => change(args),
        "command" => match args {
            [ask, names @ ..] if ["-v", "-V"].contains(&ask.text.as_str()) && !names.is_empty() => {
                Ok(Parsed::default())
            }
            _ => Err("`command` runs another program".into()),
        },
        _ => {
            let found = PROGRAMS.iter().find(|s| s.name == name);
            let parsed = check(found.ok_or_else(|| format!("`{name}` is not known to be read-only"))?, args)?;
            match name {
                "jq" if !parsed.operands.iter().all(|f| special::jq_filter(f)) => {
                    Err("the filter of `jq` shows the environment or loads code".into())
                }
                _ => Ok(parsed),
            }
        }
    }
}

/// `cargo --version` and the like: exactly one word, which only prints.
fn version(name: &str, args: &[Word]) -> bool {
    let [only] = args else { return false };
    let text = only.text.as_str();
    let plain = !only.disguised && !only.glob && VERSIONED.contains(&name);
    let short = match text {
        "-V" => {
            ["cargo", "rustc", "rustup", "python", "python3", "tmux", "pip", "ssh", "curl", "grep", "wget"]
                .contains(&name)
        }
        "-version" => ["java", "javac"].contains(&name),
        "version" => ["go", "terraform", "zig", "tofu"].contains(&name),
        "-v" => ["node", "npm", "ruby", "php", "gcc", "clang"].contains(&name),
        _ => false,
    };
    plain && (text == "--version" || short)
}

/// `cd`: one literal folder.
fn change(args: &[Word]) -> Result<Parsed, String> {
    let to = match args {
        [] => return Err("`cd` alone goes home".into()),
        [to] => to,
        [dashes, to] if dashes.text == "--" => to,
        _ => return Err("`cd` with options".into()),
    };
    match to.glob || to.text.starts_with('-') || to.text.is_empty() {
        true => Err("`cd` to a folder that is not named".into()),
        false => {
            Ok(Parsed { reads: vec![Operand { text: to.text.clone(), glob: false }], ..Parsed::default() })
        }
    }
}

fn enter(leaf: &Leaf, parsed: &Parsed, cx: &ShellContext<'_>, at: &mut Place) -> Result<(), String> {
    let Some(to) = parsed.reads.first() else { return Ok(()) };
    let new: Vec<PathBuf> = at.here().iter().map(|f| normalize(&f.join(&to.text))).collect();
    if new.iter().any(|folder| !inside(folder, cx.roots)) {
        return Err(format!("`cd {}` leaves the workspace", to.text));
    }
    at.folders.extend(new.iter().filter(|f| !at.folders.contains(f)).cloned().collect::<Vec<_>>());
    let apart = leaf.pipes || leaf.piped || leaf.background || leaf.negated;
    at.chain = (leaf.guards && !apart).then_some(new);
    match at.folders.len() > MAX_FOLDERS {
        true => Err("it changes the folder too often to follow".into()),
        false => Ok(()),
    }
}

/// Whether an operand may be read unasked, from wherever the command may stand.
fn reach(
    operand: &Operand,
    cx: &ShellContext<'_>,
    at: &Place,
    mut reads: Option<&mut Vec<PathBuf>>,
) -> Result<(), String> {
    let text = operand.text.as_str();
    if text.is_empty() || text == "-" {
        return Ok(());
    }
    for folder in at.here() {
        let path = folder.join(text);
        if is_stream(&path) {
            return Ok(());
        }
        let literal = match operand.glob {
            // What stands before the first component with a wildcard is known.
            true => path
                .components()
                .take_while(|c| !c.as_os_str().to_string_lossy().contains(['*', '?', '[']))
                .collect(),
            false => path.clone(),
        };
        if let Some(reads) = reads.as_deref_mut().filter(|r| !r.contains(&literal)) {
            reads.push(literal.clone());
        }
        if !inside(&path, cx.roots) || !inside(&literal, cx.roots) {
            return Err(format!("it reads {}, outside the workspace", super::escape_for_display(text)));
        }
        if secret_like(&normalize(&path)) || operand.glob && secret_glob(text) {
            return Err(format!("{} looks like it holds secrets", super::escape_for_display(text)));
        }
    }
    Ok(())
}

/// Paths as far as words that are not options look like paths, for the guard's own checks.
fn literal(args: &[Word], _cx: &ShellContext<'_>, at: &Place, reads: &mut Vec<PathBuf>) {
    for w in args.iter().filter(|w| !w.text.starts_with('-') && !w.glob && !w.dynamic).take(64) {
        let looks = w.text.contains('/') && !w.text.contains("://") || secret_like(Path::new(&w.text));
        for folder in at.here().iter().filter(|_| looks && !w.text.contains(char::is_whitespace)) {
            let path = folder.join(&w.text);
            if !reads.contains(&path) {
                reads.push(path);
            }
        }
    }
}

/// Redirections that change nothing: to /dev/null, from a file that may be read, between descriptors.
fn redirects(leaf: &Leaf, cx: &ShellContext<'_>, at: &Place, reads: &mut Vec<PathBuf>) -> Result<(), String> {
    for r in &leaf.redirects {
        let w = &r.target;
        if w.dynamic {
            return Err(format!("the value of `{}` is not known here", w.text));
        }
        match r.kind {
            Redirect::Out | Redirect::Append if w.text == "/dev/null" => {}
            Redirect::Out | Redirect::Append => {
                return Err(format!("it writes to {}", super::escape_for_display(&w.text)));
            }
            Redirect::Duplicate if w.text == "-" || w.text.bytes().all(|b| b.is_ascii_digit()) => {}
            Redirect::Duplicate => {
                return Err(format!("it writes to {}", super::escape_for_display(&w.text)));
            }
            Redirect::In if w.glob || w.text.starts_with("/dev/tcp") || w.text.starts_with("/dev/udp") => {
                return Err("it reads from a file that is not named".into());
            }
            Redirect::In => {
                reach(&Operand { text: w.text.clone(), glob: false }, cx, at, Some(reads))?;
            }
            Redirect::String | Redirect::Here => {}
        }
    }
    match leaf.heres.iter().any(|h| h.dynamic) {
        true => Err("its here-document runs or expands something".into()),
        false => Ok(()),
    }
}
