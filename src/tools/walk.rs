//! Walking folders as `glob` and `grep` do: ignored and hidden files left out, links not followed, in a fixed order.
use super::{ToolError, blocking::Stop, display};
use crate::{effects::WsPath, workspace::Reader};
use globset::{GlobBuilder, GlobMatcher};
use ignore::{Walk, WalkBuilder};
use std::path::{Path, PathBuf};

/// A folder or file to search, and how its files are shown.
#[derive(Clone, Debug)]
pub(super) struct Base {
    /// On disk.
    pub real: PathBuf,
    /// As the model names it: relative to the session's folder where it lies in it, else absolute; empty for that folder itself.
    pub shown: PathBuf,
}

impl Base {
    /// A file below it, as it is shown.
    pub(super) fn name(&self, file: &Path) -> String {
        match file.strip_prefix(&self.real) {
            Ok(rest) if rest.as_os_str().is_empty() => self.shown.display().to_string(),
            Ok(rest) => self.shown.join(rest).display().to_string(),
            Err(_) => file.display().to_string(),
        }
    }
    fn of(ws: &dyn Reader, path: &WsPath) -> Self {
        let shown = match display::path(ws, path) {
            here if here == "." => PathBuf::new(),
            shown => shown.into(),
        };
        Base { real: path.real().to_owned(), shown }
    }
}

/// What a search covers: the path that was given, or every root of the session.
pub(super) fn scope(ws: &dyn Reader, path: Option<&str>) -> Result<Vec<WsPath>, ToolError> {
    match path.map(str::trim).filter(|p| !p.is_empty()) {
        Some(path) => Ok(vec![ws.resolve(path)?]),
        None => {
            let roots = ws.roots().iter().map(|root| ws.resolve(&root.to_string_lossy()));
            Ok(roots.collect::<Result<_, _>>()?)
        }
    }
}

/// The bases of permitted paths; what is not there is an error that names it.
pub(super) fn bases(ws: &dyn Reader, paths: &[WsPath]) -> Result<Vec<Base>, ToolError> {
    if paths.is_empty() {
        return Err(ToolError::Failed("this folder is not permitted".into()));
    }
    let base = |path: &WsPath| match path.real().exists() {
        true => Ok(Base::of(ws, path)),
        false => Err(super::close::missing(path, &display::path(ws, path)).into()),
    };
    paths.iter().map(base).collect()
}

/// Walks a base: `.gitignore` and `.ignore` respected (outside of repositories too), `.git` never entered, sorted by path.
/// A base that is a file, or that is ignored itself, is walked all the same: it was asked for.
pub(super) fn walk(base: &Base, hidden: bool) -> Walk {
    WalkBuilder::new(&base.real)
        .hidden(!hidden)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(std::cmp::Ord::cmp)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build()
}

/// The files of a base in order, until `stop`.
pub(super) fn files<'a>(base: &Base, hidden: bool, stop: &'a Stop) -> impl Iterator<Item = PathBuf> + 'a {
    walk(base, hidden)
        .take_while(|_| !stop.is_set())
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|t| t.is_file()))
        .map(ignore::DirEntry::into_path)
}

/// A pattern over paths relative to the base. Without a `/` it is about names at any depth.
pub(super) fn pattern(glob: &str) -> Result<GlobMatcher, ToolError> {
    let glob = glob.trim().trim_start_matches("./");
    if glob.contains('/') { pattern_here(glob) } else { pattern_here(&format!("**/{glob}")) }
}

/// A pattern over paths relative to the base, as it stands.
pub(super) fn pattern_here(glob: &str) -> Result<GlobMatcher, ToolError> {
    let glob = GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build();
    glob.map(|g| g.compile_matcher()).map_err(|e| {
        ToolError::BadArguments(format!(
            "the pattern is not a valid glob: {}. Examples: `**/*.rs`, `src/**/test_*.py`, `*.{{ts,tsx}}`",
            e.kind()
        ))
    })
}

/// Whether a pattern asks for hidden files: one of its parts begins with a dot.
pub(super) fn asks_for_hidden(glob: &str) -> bool {
    glob.split(['/', '{', ',']).any(|part| part.starts_with('.') && !matches!(part, "." | ".."))
}
