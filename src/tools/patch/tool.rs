//! The tool: simulates the patch on what is there, applies what was permitted, all or nothing.
use super::{
    super::{Cx, Output, Tool, ToolError, changed, display},
    FileOp, VirtualChange, parse, simulate, touched,
};
use crate::{
    effects::{Change, Effects, WsPath},
    log::{Location, ToolKind},
    workspace::{
        Freshness, Reader, Written, WsError,
        text::{Text, lines},
    },
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::HashMap, fmt::Write as _};

/// `apply_patch`: several changes to several files at once.
pub struct ApplyPatch;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The patch, from `*** Begin Patch` to `*** End Patch`.
    #[serde(alias = "input", alias = "patch_text", alias = "diff")]
    patch: String,
}

/// A file that the patch names: where it is, and what it says now.
struct File {
    path: WsPath,
    text: Result<Option<Text>, String>,
}

#[async_trait]
impl Tool for ApplyPatch {
    type Args = Args;
    const NAME: &'static str = "apply_patch";
    const KIND: ToolKind = ToolKind::Edit;
    const DOC: &'static str = include_str!("apply_patch.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        let Ok(ops) = parse(&args.patch) else { return "Apply a patch".into() };
        let names: Vec<_> = touched(&ops).into_iter().map(|p| display::named(ws, p)).collect();
        match names.as_slice() {
            [one] => format!("Patch {one}"),
            names => {
                let all = format!("Patch {} files: {}", names.len(), names.join(", "));
                display::one_line(&all, display::TITLE)
            }
        }
    }

    fn locations(&self, args: &Args, ws: &dyn Reader) -> Vec<Location> {
        let ops = parse(&args.patch).unwrap_or_default();
        let location = |p: WsPath| Location { path: p.as_path().to_owned(), line: None };
        touched(&ops).into_iter().filter_map(|p| ws.resolve(p).ok()).map(location).collect()
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        let mut ops = parse(&args.patch).map_err(refused)?;
        gone_links(&ops, ws)?;
        let mut files = HashMap::new();
        // One spelling for each file, so that the patch meets it as one.
        for name in ops.iter_mut().flat_map(FileOp::paths_mut) {
            let path = ws.resolve(name)?;
            *name = display::path(ws, &path);
            if !files.contains_key(name) {
                let text = read(ws, &path).await?;
                files.insert(name.clone(), File { path, text });
            }
        }
        let read = |name: &str| files.get(name).map_or(Ok(None), |f| f.text.clone());
        let changes = simulate(&ops, &read).map_err(refused)?;
        unseen(&ops, &files, ws).await?;
        let writes = changes.into_iter().filter_map(|c| change(c, &files)).collect::<Vec<_>>();
        for change in &writes {
            if let Change::Write { new, path, .. } | Change::Move { new, to: path, .. } = change {
                let name = display::path(ws, path);
                new.to_bytes().map_err(|e| refused(format!("{name}: {e}")))?;
            }
        }
        Ok(Effects { writes, ..Effects::default() })
    }

    async fn run(&self, _: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        if effects.writes.is_empty() {
            return Err(ToolError::Failed("nothing of this patch was permitted; nothing was written".into()));
        }
        let written = cx.workspace.apply(&effects.writes).await?;
        let landed = changed::landed(&effects.writes, &written);
        Ok(Output {
            shown: changed::diffs(&landed),
            locations: changed::locations(&landed),
            ..Output::text(told(&landed, &written, cx.workspace))
        })
    }
}

fn refused(why: impl std::fmt::Display) -> ToolError {
    ToolError::Failed(format!("The patch was not applied, none of its files was changed: {why}"))
}

/// A name that is a link stands for the file that it leads to, which is not what somebody means who deletes or moves it.
fn gone_links(ops: &[FileOp], ws: &dyn Reader) -> Result<(), ToolError> {
    let Some(folder) = ws.roots().first() else { return Ok(()) };
    for op in ops {
        let name = match op {
            FileOp::Delete { path } | FileOp::Update { path, move_to: Some(_), .. } => path,
            FileOp::Add { .. } | FileOp::Update { .. } => continue,
        };
        if folder.join(name).symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Err(refused(format!(
                "{name} is a symbolic link. Name the file that it leads to, or remove or move the link with a command"
            )));
        }
    }
    Ok(())
}

/// What the patch will find; that something cannot be read is for the simulation to tell, where it matters.
async fn read(ws: &dyn Reader, path: &WsPath) -> Result<Result<Option<Text>, String>, ToolError> {
    match ws.read(path).await {
        Ok(text) => Ok(Ok(text)),
        Err(WsError::NotFound { .. }) => Ok(Ok(None)),
        Err(e @ (WsError::Cancelled | WsError::Editor { .. })) => Err(e.into()),
        Err(WsError::NotText { why, .. } | WsError::Io { why, .. } | WsError::OutsideRoots { why, .. }) => {
            Ok(Err(why))
        }
        Err(WsError::IsFolder { .. }) => Ok(Err("it is a folder".into())),
        Err(e) => Ok(Err(e.to_string())),
    }
}

/// A file that is replaced whole must be one that the model knows, as for `write`: by `Add File`, or as the target of a move.
async fn unseen(ops: &[FileOp], files: &HashMap<String, File>, ws: &dyn Reader) -> Result<(), ToolError> {
    let mut updated: Vec<&str> = Vec::new();
    for op in ops {
        let replaced = match op {
            FileOp::Add { path, .. } => Some(path),
            FileOp::Update { path, move_to, .. } => {
                updated.push(path);
                move_to.as_ref().filter(|to| *to != path)
            }
            FileOp::Delete { .. } => None,
        };
        let Some(name) = replaced.filter(|name| !updated.contains(&name.as_str())) else { continue };
        let Some(file) = files.get(name).filter(|f| matches!(f.text, Ok(Some(_)))) else { continue };
        let why = match ws.freshness(&file.path).await {
            Freshness::Unchanged => continue,
            Freshness::NeverSeen => "exists and was not read in this session".to_owned(),
            Freshness::Changed(what) => format!("changed since it was read ({what})"),
        };
        return Err(refused(format!("{name} {why}, and the patch would replace all of it. Read it first")));
    }
    Ok(())
}

/// The change with its real paths. All names are keys: they were resolved before.
fn change(change: VirtualChange, files: &HashMap<String, File>) -> Option<Change> {
    let path = |name: &str| files.get(name).map(|f| f.path.clone());
    Some(match change {
        VirtualChange::Write { path: name, old, new } => Change::Write { path: path(&name)?, old, new },
        VirtualChange::Delete { path: name, old } => Change::Delete { path: path(&name)?, old },
        VirtualChange::Move { from, to, old, new } => {
            Change::Move { from: path(&from)?, to: path(&to)?, old, new }
        }
    })
}

/// One line for each file: A added, M modified, D deleted, R renamed; then what was not as planned.
fn told(landed: &[Change], written: &[Written], ws: &dyn Reader) -> String {
    let shown = |path: &WsPath| display::path(ws, path);
    let mut out = "Applied the patch:".to_owned();
    for change in landed {
        let _ = match change {
            Change::Write { path, old: None, new } => {
                write!(out, "\nA {} ({})", shown(path), display::count(lines(new.content()).count(), "line"))
            }
            Change::Write { path, .. } => {
                let line = changed::locations(std::slice::from_ref(change)).first().and_then(|l| l.line);
                write!(out, "\nM {} (from line {})", shown(path), line.unwrap_or(1))
            }
            Change::Delete { path, .. } => write!(out, "\nD {}", shown(path)),
            Change::Move { from, to, .. } => write!(out, "\nR {} -> {}", shown(from), shown(to)),
        };
    }
    for (change, written) in landed.iter().zip(written) {
        for remark in changed::remarks(&shown(change.path()), written) {
            let _ = write!(out, "\nNote: {remark}.");
        }
        if let (Some(there), Change::Write { new, .. } | Change::Move { new, .. }) = (&written.drift, change)
        {
            let _ = write!(out, " These lines are now:\n{}", changed::snippet(new, there).trim_end());
        }
    }
    out
}
