//! `grep`: lines of files by a regular expression, with ripgrep's own crates.
mod search;

use super::{Cx, Output, Tool, ToolError, blocking, display, walk};
use crate::{effects::Effects, log::ToolKind, workspace::Reader};
use async_trait::async_trait;
use schemars::JsonSchema;
use search::{Found, Query, Search};
use serde::Deserialize;
use std::fmt::Write as _;

/// The most bytes of matches in one result.
const BYTES: usize = 45_000;

/// See the module.
pub struct Grep;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The regular expression (or, with `literal`, the text) to find in a line.
    #[serde(alias = "query", alias = "regex")]
    pattern: String,
    /// The folder or file to search: absolute, or relative to the session's folder. Default: all folders of the session.
    #[serde(alias = "dir", alias = "directory", alias = "dir_path")]
    path: Option<String>,
    /// Only files whose path matches this glob, e.g. `*.rs`.
    #[serde(alias = "glob")]
    include: Option<String>,
    /// Lines of context before and after each match, 0 to 10. Default 0.
    context: Option<u64>,
    /// Take the pattern as plain text. Default false.
    #[serde(default, alias = "fixed_strings")]
    literal: bool,
    /// Ignore case. Default false.
    #[serde(default, alias = "case_insensitive", alias = "-i")]
    ignore_case: bool,
    /// Give only the paths of files that match. Default false.
    #[serde(default)]
    files_only: bool,
}

impl Args {
    fn query(&self) -> Result<Query, ToolError> {
        let context = self.context.unwrap_or(0).min(10) as usize;
        Query::new(&self.pattern, self.literal, self.ignore_case, context, self.files_only)
    }
    fn wants_hidden(&self) -> bool {
        self.include.as_deref().is_some_and(walk::asks_for_hidden)
    }
}

#[async_trait]
impl Tool for Grep {
    type Args = Args;
    const NAME: &'static str = "grep";
    const KIND: ToolKind = ToolKind::Search;
    const DOC: &'static str = include_str!("grep.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        let mut title = format!("Search `{}`", display::one_line(&args.pattern, 80));
        if let Some(path) = &args.path {
            let _ = write!(title, " in {}", display::named(ws, path));
        }
        if let Some(include) = &args.include {
            let _ = write!(title, " ({})", display::one_line(include, 40));
        }
        display::one_line(&title, display::TITLE)
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        args.query()?;
        args.include.as_deref().map(walk::pattern).transpose()?;
        Ok(Effects { reads: walk::scope(ws, args.path.as_deref())?, ..Effects::default() })
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let bases = walk::bases(cx.workspace, &effects.reads)?;
        let mut search = Search {
            query: args.query()?,
            include: args.include.as_deref().map(walk::pattern).transpose()?,
            hidden: args.wants_hidden(),
            dirty: cx.workspace.dirty().into_iter().map(|(p, t)| (p.real().to_owned(), t)).collect(),
            bases,
        };
        // A file that looks like it holds secrets is read only where it was asked for by name, and thus by a question.
        search.bases.retain(|b| b.real.is_dir() || b.real.is_file());
        let (search, mut found) = blocking::run(&cx.cancel, move |stop| {
            let found = search.run(stop);
            (search, found)
        })
        .await?;
        let secret = hold_back(&mut found, &search, cx.workspace);
        Ok(Output::text(told(&args, &search, &found, &secret)))
    }
}

/// Takes out matches in files that look like they hold secrets, unless that very file was named; gives their names.
fn hold_back(found: &mut Found, search: &Search, ws: &dyn Reader) -> Vec<String> {
    let mut held = Vec::new();
    found.files.retain(|f| {
        let named = search.bases[f.base].real == f.path;
        let open = named || ws.resolve(&f.path.to_string_lossy()).is_ok_and(|p| !p.is_secret());
        if !open {
            held.push(search.bases[f.base].name(&f.path));
        }
        open
    });
    held
}

fn told(args: &Args, search: &Search, found: &Found, secret: &[String]) -> String {
    let mut out = String::new();
    let mut cut = false;
    for (n, file) in found.files.iter().enumerate() {
        if out.len() > BYTES {
            cut = true;
            break;
        }
        let name = search.bases[file.base].name(&file.path);
        if args.files_only {
            let _ = writeln!(out, "{name}");
            continue;
        }
        let _ = writeln!(out, "{}{name}", if n > 0 { "\n" } else { "" });
        let mut last = None;
        for line in &file.lines {
            if out.len() > BYTES {
                cut = true;
                break;
            }
            if args.context.unwrap_or(0) > 0 && last.is_some_and(|l| l + 1 < line.number) {
                out.push_str("--\n");
            }
            let _ = writeln!(out, "{}{}{}", line.number, if line.matched { ':' } else { '-' }, line.text);
            last = Some(line.number);
        }
    }
    out.push_str(&summary(args, found, cut));
    if !secret.is_empty() {
        let names = secret.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let _ = write!(out, "\n(not shown, as they look like they hold secrets: {names})");
    }
    out
}

fn summary(args: &Args, found: &Found, cut: bool) -> String {
    let matches = found.files.iter().map(|f| f.matches).sum::<usize>();
    let files = display::count(found.files.len(), "file");
    if found.files.is_empty() {
        let mut out = format!(
            "no match in {} (ignored, hidden and binary files were left out)",
            display::count(found.searched, "file")
        );
        if !args.literal && args.pattern.contains(['.', '(', '[', '{', '*', '+', '?', '|', '^', '$', '\\']) {
            out.push_str(
                "; the pattern was taken as a regular expression: `literal` searches for it as it stands",
            );
        }
        return out;
    }
    match (args.files_only, found.more || cut) {
        (true, false) => format!("({files})"),
        (true, true) => {
            format!("(the first {files}; there are more: use a narrower pattern, `include` or `path`)")
        }
        (false, false) => format!("({} in {files})", display::count(matches, "match")),
        (false, true) => format!(
            "(the first {}; there are more: use a narrower pattern, `include`, `path` or `files_only`)",
            display::count(matches, "match")
        ),
    }
}

#[cfg(test)]
mod tests;
