//! `list`: the entries of one folder.
use super::{Cx, Output, Tool, ToolError, blocking, close, display};
use crate::{effects::Effects, log::ToolKind, workspace::Reader};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt::Write as _, fs, io, path::Path};

/// The most entries in one result.
const ENTRIES: usize = 500;

/// See the module.
pub struct List;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The folder: absolute, or relative to the session's folder. Default: the session's folder.
    #[serde(default = "here", alias = "dir", alias = "directory", alias = "dir_path")]
    path: String,
}

fn here() -> String {
    ".".into()
}

#[async_trait]
impl Tool for List {
    type Args = Args;
    const NAME: &'static str = "list";
    const KIND: ToolKind = ToolKind::Search;
    const DOC: &'static str = include_str!("list.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        format!("List {}", display::named(ws, &args.path))
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        Ok(Effects::read(ws.resolve(&args.path)?))
    }

    async fn run(&self, _: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let Some(path) = effects.reads.first().cloned() else {
            return Err(ToolError::Failed("this folder is not permitted".into()));
        };
        let shown = display::path(cx.workspace, &path);
        let folder = path.real().to_owned();
        match blocking::run(&cx.cancel, move |_| entries(&folder)).await? {
            Ok((folders, files)) => Ok(Output::text(listed(&shown, folders, files))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(close::missing(&path, &shown).into()),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                Err(ToolError::Failed(format!("{shown} is a file, not a folder: use `read`")))
            }
            Err(e) => Err(ToolError::Failed(format!("{shown}: {e}"))),
        }
    }
}

/// Folders and files as they are shown, each by name.
fn entries(folder: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = display::one_line(&entry.file_name().to_string_lossy(), 255);
        match entry.file_type() {
            _ if entry.file_name() == ".git" => {}
            Ok(kind) if kind.is_dir() => folders.push(format!("{name}/")),
            Ok(kind) if kind.is_symlink() => {
                let target = fs::read_link(entry.path()).unwrap_or_default();
                let slash = if entry.path().is_dir() { "/" } else { "" };
                files.push(format!("{name} -> {}{slash}", display::one_line(&target.to_string_lossy(), 255)));
            }
            Ok(kind) if kind.is_file() => {
                let size = entry.metadata().map(|m| m.len()).unwrap_or_default();
                files.push(format!("{name}  {}", display::size(size)));
            }
            _ => files.push(format!("{name}  (neither a file nor a folder)")),
        }
    }
    folders.sort();
    files.sort();
    Ok((folders, files))
}

fn listed(shown: &str, folders: Vec<String>, files: Vec<String>) -> String {
    let total = folders.len() + files.len();
    if total == 0 {
        return format!("{shown} is empty");
    }
    let mut out = String::new();
    for entry in folders.iter().chain(&files).take(ENTRIES) {
        out.push_str(entry);
        out.push('\n');
    }
    let _ =
        write!(out, "({}, {}", display::count(folders.len(), "folder"), display::count(files.len(), "file"));
    if total > ENTRIES {
        let _ =
            write!(out, "; the first {ENTRIES} of {total} are shown: use `glob` with a pattern for the rest");
    }
    out.push(')');
    out
}
