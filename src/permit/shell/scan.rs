//! The look for destruction over everything found in a command line, scripts inside it included.

use std::path::{Path, PathBuf};

use super::destructive::{SHELLS, base, code, deeper, destroys, interpreter};
use super::destructive_remote::{is_sql_client, sql};
use super::leaves::{Leaf, Leaves, leaves};
use super::lex::{Redirect, lex};
use super::paths::{is_stream, protected};

/// Why a script inside another command destroys.
pub(super) fn script(source: &str) -> Option<String> {
    deeper(|| scan(&leaves(&lex(source, None)), &[]))
}

/// Why any of these simple commands destroys.
pub(super) fn scan(all: &Leaves, roots: &[PathBuf]) -> Option<String> {
    let found = all.leaves.iter().find_map(|leaf| leaf_destroys(leaf, roots));
    found.or_else(|| bomb(all)).or_else(|| database(all))
}

fn leaf_destroys(leaf: &Leaf, roots: &[PathBuf]) -> Option<String> {
    let fields = leaf.fields();
    destroys(&fields)
        .or_else(|| vague_removal(leaf, &fields))
        .or_else(|| redirects(leaf, &fields, roots))
        .or_else(|| plants(&fields, roots))
        .or_else(|| feeds(leaf, &fields))
        .or_else(|| {
            let words = leaf.words.iter().chain(leaf.assigns.iter().map(|(_, w)| w));
            let targets = leaf.redirects.iter().map(|r| &r.target);
            let scripts = words
                .chain(targets)
                .flat_map(|w| &w.scripts)
                .chain(leaf.heres.iter().flat_map(|h| &h.scripts));
            scripts.into_iter().find_map(|s| script(s))
        })
}

fn vague_removal(leaf: &Leaf, fields: &[String]) -> Option<String> {
    let removes = fields.first().is_some_and(|p| ["rm", "unlink"].contains(&base(p)));
    let vague = leaf.words.iter().skip(1).find(|w| w.dynamic || w.glob)?;
    removes.then(|| format!("`rm {}` deletes files that are not named", vague.text))
}

fn redirects(leaf: &Leaf, fields: &[String], roots: &[PathBuf]) -> Option<String> {
    for r in leaf.redirects.iter().filter(|r| matches!(r.kind, Redirect::Out | Redirect::Append)) {
        let path = Path::new(&r.target.text);
        if let Some(why) = protected(path, roots) {
            return Some(format!("it writes to {}: {why}", r.target.text));
        }
        if r.kind == Redirect::Out && !is_stream(path) && silent(fields) {
            return Some(format!("it empties {}", r.target.text));
        }
    }
    None
}

/// Commands that print nothing, so that `>` after them empties the file.
fn silent(fields: &[String]) -> bool {
    let words: Vec<&str> = fields.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | [":" | "true" | "false", ..] => true,
        ["cat", files @ ..] => !files.is_empty() && files.iter().all(|f| *f == "/dev/null"),
        ["echo", "-n"] | ["echo", "-n", ""] | ["printf", ""] | ["printf", "%s", ""] => true,
        _ => false,
    }
}

/// Programs that write to their operands, pointed at a file that runs later.
fn plants(fields: &[String], roots: &[PathBuf]) -> Option<String> {
    let (program, args) = fields.split_first()?;
    let name = base(program);
    let edits = ["sed", "perl", "ruby"].contains(&name)
        && args.iter().any(|a| a.starts_with("-i") || a.starts_with("--in-place") || a.starts_with("-pi"));
    let last_only = ["cp", "ln", "install", "rsync", "scp"].contains(&name);
    let any = [
        "tee", "mv", "touch", "patch", "chmod", "chown", "truncate", "ed", "ex", "curl", "wget", "unzip",
        "rm",
    ];
    if !edits && !last_only && !any.contains(&name) {
        return None;
    }
    let from = if last_only { args.len().saturating_sub(1) } else { 0 };
    let target = |a: &String| {
        let value = a.split_once('=').map_or(a.as_str(), |(_, v)| v);
        let value = if name == "curl" || name == "wget" {
            value.trim_start_matches("-o").trim_start_matches("-O")
        } else {
            value
        };
        (!value.contains("://"))
            .then(|| protected(Path::new(value), roots))
            .flatten()
            .map(|why| (value.to_owned(), why))
    };
    let (path, why) = args.get(from..)?.iter().find_map(target)?;
    Some(format!("`{name}` writes to {path}: {why}"))
}

/// An interpreter that is fed its program: by a pipe, a here-document or a substitution.
fn feeds(leaf: &Leaf, fields: &[String]) -> Option<String> {
    let words: Vec<&String> = fields.iter().collect();
    let at = words.iter().take(6).position(|w| {
        let name = base(w);
        interpreter(name) || name == "source" || name == "." || name == "eval"
    })?;
    let name = base(words.get(at)?);
    if at > 0 && !super::wrappers::wraps(base(words.first()?)) {
        return None;
    }
    let args = fields.get(at + 1..).unwrap_or(&[]);
    let shell = SHELLS.contains(&name) || ["source", ".", "eval"].contains(&name);
    let substituted = leaf.words.iter().any(|w| w.process || w.scripts.iter().any(|s| fetches(s)));
    if substituted && (shell || interpreter(name)) {
        return Some(format!("`{name}` runs what another command produces, unseen"));
    }
    let takes = args.iter().any(|a| a == "-" || a == "-s" || a == "/dev/stdin")
        || !args.iter().any(|a| {
            !a.starts_with('-')
                || ["-c", "-e", "-m", "-p", "-r", "--version", "-V", "-v"].contains(&a.as_str())
        });
    if !takes || name == "eval" {
        return None;
    }
    if leaf.piped {
        return Some(format!("`{name}` runs what the pipe brings, unseen"));
    }
    let strings = leaf.redirects.iter().filter(|r| r.kind == Redirect::String).map(|r| &r.target.text);
    leaf.heres.iter().map(|h| &h.body).chain(strings).find_map(|text| match shell {
        true => script(text),
        false => code(text).then(|| "its code deletes files".to_owned()),
    })
}

/// Whether a script gets text from elsewhere, or decodes hidden text.
fn fetches(script: &str) -> bool {
    const SOURCES: &[&str] =
        &["curl", "wget", "base64", "xxd", "openssl", "nc ", "ftp", "fetch", "aria2c", "http ", "gpg"];
    SOURCES.iter().any(|s| script.contains(s))
}

/// `f() { f | f & }; f`
fn bomb(all: &Leaves) -> Option<String> {
    let calls_itself = |name: &String| {
        all.leaves
            .iter()
            .any(|l| (l.pipes || l.piped || l.background) && l.words.first().is_some_and(|w| w.text == *name))
    };
    all.functions
        .iter()
        .any(calls_itself)
        .then(|| "it is a function that starts itself again and again".to_owned())
}

/// SQL that reaches a client through a pipe or a here-document.
fn database(all: &Leaves) -> Option<String> {
    let client = all
        .leaves
        .iter()
        .find_map(|l| l.words.iter().take(6).map(|w| base(&w.text)).find(|n| is_sql_client(n)))?;
    let words = all
        .leaves
        .iter()
        .flat_map(|l| l.words.iter().chain(l.redirects.iter().map(|r| &r.target)))
        .map(|w| &w.text);
    words.chain(all.leaves.iter().flat_map(|l| &l.heres).map(|h| &h.body)).find_map(|t| sql(client, t))
}
