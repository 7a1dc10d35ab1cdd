//! `glob`: files by a pattern on their path.
use super::{Cx, Output, Tool, ToolError, blocking, display, walk};
use crate::{effects::Effects, log::ToolKind, workspace::Reader};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;

/// The most paths in one result.
const PATHS: usize = 200;

/// See the module.
pub struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The pattern, relative to `path`.
    #[serde(alias = "glob")]
    pattern: String,
    /// The folder to search: absolute, or relative to the session's folder. Default: all folders of the session.
    #[serde(alias = "dir", alias = "directory", alias = "dir_path")]
    path: Option<String>,
}

/// The folder that is searched, and the pattern below it.
struct Query {
    folder: Option<String>,
    pattern: String,
    /// Whether the pattern is about names at any depth.
    any_depth: bool,
}

impl Args {
    /// The leading parts without a wildcard of an absolute pattern, or of one with `..`, are its folder.
    fn query(&self) -> Query {
        let pattern = self.pattern.trim();
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if !(Path::new(pattern).is_absolute() || pattern.starts_with("../") || pattern.starts_with("~/")) {
            let any_depth = !pattern.contains('/');
            return Query { folder: self.path.clone(), pattern: pattern.to_owned(), any_depth };
        }
        let wild = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
        let (folder, rest) = pattern.split_at(pattern[..wild].rfind('/').map_or(0, |at| at + 1));
        let folder = match &self.path {
            Some(path) if pattern.starts_with("../") => format!("{path}/{folder}"),
            _ => folder.to_owned(),
        };
        Query { folder: Some(folder), pattern: rest.to_owned(), any_depth: false }
    }
}

impl Query {
    fn matcher(&self) -> Result<globset::GlobMatcher, ToolError> {
        if self.any_depth { walk::pattern(&self.pattern) } else { walk::pattern_here(&self.pattern) }
    }
}

#[async_trait]
impl Tool for Glob {
    type Args = Args;
    const NAME: &'static str = "glob";
    const KIND: ToolKind = ToolKind::Search;
    const DOC: &'static str = include_str!("glob.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        let pattern = display::one_line(&args.pattern, 100);
        match &args.path {
            Some(path) => {
                let title = format!("Find {pattern} in {}", display::named(ws, path));
                display::one_line(&title, display::TITLE)
            }
            None => format!("Find {pattern}"),
        }
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        let query = args.query();
        query.matcher()?;
        Ok(Effects { reads: walk::scope(ws, query.folder.as_deref())?, ..Effects::default() })
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let query = args.query();
        let matcher = query.matcher()?;
        let hidden = walk::asks_for_hidden(&query.pattern);
        let bases = walk::bases(cx.workspace, &effects.reads)?;
        if let Some(file) = bases.iter().find(|b| b.real.is_file()) {
            let shown = file.shown.display();
            return Err(ToolError::Failed(format!("{shown} is a file: give the folder to search in `path`")));
        }
        let searched = bases.clone();
        let found = blocking::run(&cx.cancel, move |stop| {
            let mut found = Found::default();
            for base in &searched {
                for file in walk::files(base, hidden, stop) {
                    if file.strip_prefix(&base.real).is_ok_and(|p| matcher.is_match(p)) {
                        found.add(|| base.name(&file));
                    }
                }
            }
            found
        })
        .await?;
        Ok(Output::text(found.told(&args.pattern, hidden)))
    }
}

#[derive(Default)]
struct Found {
    paths: Vec<String>,
    total: usize,
}

impl Found {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.total += 1;
        if self.paths.len() < PATHS {
            self.paths.push(name());
        }
    }
    fn told(self, pattern: &str, hidden: bool) -> String {
        if self.total == 0 {
            let pattern = display::one_line(pattern, 100);
            let left_out = if hidden { "ignored files were" } else { "ignored and hidden files were" };
            return format!("no file matches {pattern} ({left_out} left out)");
        }
        let mut out = self.paths.join("\n");
        if self.total > PATHS {
            out.push_str(&format!(
                "\n(the first {PATHS} of {} files: use a narrower pattern or a `path`)",
                self.total
            ));
        }
        out
    }
}
