//! The tool: plans with [`matching`], applies what was permitted, and says what is there now.
use super::{
    super::{Cx, Output, Tool, ToolError, changed, close, display},
    matching::{self, Edited, Replacement},
};
use crate::{
    effects::{Change, Effects, WsPath},
    log::{Location, ToolKind},
    workspace::{Reader, text::Text},
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

/// `edit`: replaces text in one file.
pub struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The file: absolute, or relative to the session's folder.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The text to replace, exactly as it stands in the file.
    #[serde(alias = "oldString", alias = "old_str", alias = "old_text", alias = "old")]
    old_string: Option<String>,
    /// The text that takes its place.
    #[serde(alias = "newString", alias = "new_str", alias = "new_text", alias = "new")]
    new_string: Option<String>,
    /// Replace every place where it stands. Default false.
    #[serde(default, alias = "replaceAll")]
    replace_all: bool,
    /// Several replacements at once, in place of `old_string` and `new_string`.
    edits: Option<Vec<One>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct One {
    /// The text to replace.
    #[serde(alias = "oldString", alias = "old_str", alias = "old_text", alias = "old")]
    old_string: String,
    /// The text that takes its place.
    #[serde(alias = "newString", alias = "new_str", alias = "new_text", alias = "new")]
    new_string: String,
    /// Replace every place where it stands. Default false.
    #[serde(default, alias = "replaceAll")]
    replace_all: bool,
}

impl Args {
    /// The replacements in order: the single one first where both forms were given.
    fn replacements(&self) -> Result<Vec<Replacement>, ToolError> {
        let missing = |field| {
            ToolError::BadArguments(format!(
                "invalid arguments for edit: missing field `{field}` (or `edits`, a list of old_string and new_string)"
            ))
        };
        let several = self.edits.as_ref().is_some_and(|e| !e.is_empty());
        let one = match (&self.old_string, &self.new_string) {
            // Some models fill in every field.
            (Some(old), _) if several && old.is_empty() => None,
            (Some(old), Some(new)) => {
                Some(Replacement { old: old.clone(), new: new.clone(), replace_all: self.replace_all })
            }
            (None, Some(_)) if !several => return Err(missing("old_string")),
            (Some(_), None) => return Err(missing("new_string")),
            (None, _) => None,
        };
        let more = self.edits.iter().flatten().map(|e| Replacement {
            old: e.old_string.clone(),
            new: e.new_string.clone(),
            replace_all: e.replace_all,
        });
        let mut all: Vec<_> = one.into_iter().chain(more).collect();
        // Said in both places, it is one edit: some models fill in every field with the same.
        if let [first, rest @ ..] = all.as_slice()
            && self.old_string.is_some()
            && rest.iter().any(|r| r.old == first.old && r.new == first.new)
        {
            all.remove(0);
        }
        if all.is_empty() { Err(missing("old_string")) } else { Ok(all) }
    }
}

#[async_trait]
impl Tool for Edit {
    type Args = Args;
    const NAME: &'static str = "edit";
    const KIND: ToolKind = ToolKind::Edit;
    const DOC: &'static str = include_str!("edit.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        let count = args.replacements().map_or(1, |all| all.len());
        match count {
            0 | 1 => format!("Edit {}", display::named(ws, &args.path)),
            n => format!("Edit {} ({n} changes)", display::named(ws, &args.path)),
        }
    }

    fn locations(&self, args: &Args, ws: &dyn Reader) -> Vec<Location> {
        let location = |p: WsPath| Location { path: p.as_path().to_owned(), line: None };
        ws.resolve(&args.path).map(location).into_iter().collect()
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        let edits = args.replacements()?;
        let path = ws.resolve(&args.path)?;
        let shown = display::path(ws, &path);
        let Some(old) = ws.read(&path).await? else {
            return match edits.as_slice() {
                [Replacement { old, new, .. }] if old.is_empty() => {
                    let new = Text::from_editor(new.clone());
                    Ok(Effects { writes: vec![Change::Write { path, old: None, new }], ..Effects::default() })
                }
                _ => Err(close::missing(&path, &shown).into()),
            };
        };
        let edited = match matching::apply(&old, &edits) {
            Ok(edited) => edited,
            Err(refusal) => {
                return Err(refused(refusal.to_string(), &shown, changed::stale(ws, &path).await));
            }
        };
        edited.text.to_bytes().map_err(|e| ToolError::Failed(format!("{shown}: {e}")))?;
        let writes = vec![Change::Write { path, old: Some(old), new: edited.text }];
        Ok(Effects { writes, ..Effects::default() })
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let [Change::Write { path, .. }] = effects.writes.as_slice() else {
            return Err(ToolError::Failed("nothing of this edit was permitted; nothing was written".into()));
        };
        let shown = display::path(cx.workspace, path);
        let stale = changed::stale(cx.workspace, path).await;
        let written = cx.workspace.apply(&effects.writes).await?;
        let landed = changed::landed(&effects.writes, &written);
        let [Change::Write { old, new, .. }] = landed.as_slice() else {
            return Ok(Output::text(format!("Edited {shown}")));
        };
        let empty = new.with_content("");
        let before = old.as_ref().unwrap_or(&empty);
        let now = written.first().and_then(|w| w.drift.as_ref()).unwrap_or(new);
        let verb = if old.is_some() { "Edited" } else { "Created" };
        let mut text = format!("{verb} {shown}. These lines are now:\n{}", changed::snippet(before, now));
        // The plan matched on this very text; where hunks were left out, the notes still tell how the rest was found.
        if let Ok(edited) = matching::apply(before, &args.replacements()?) {
            notes(&edited, &mut text);
        }
        if let Some(what) = stale {
            text.push_str(&format!(
                "Note: {shown} had changed since you read it ({what}); the edit was made on what is there now.\n"
            ));
        }
        for remark in written.iter().flat_map(|w| changed::remarks(&shown, w)) {
            text.push_str(&format!("Note: {remark}.\n"));
        }
        Ok(Output {
            shown: changed::diffs(&landed),
            locations: changed::locations(&landed),
            ..Output::text(text.trim_end())
        })
    }
}

fn refused(why: String, shown: &str, stale: Option<String>) -> ToolError {
    let changed = stale.map(|what| format!("\n{shown} changed since you read it ({what}): read it again."));
    ToolError::Failed(format!("{shown} was not edited: {why}{}", changed.unwrap_or_default()))
}

/// How each replacement was found, where that was not exact, and how many places it had.
fn notes(edited: &Edited, text: &mut String) {
    for (n, applied) in edited.applied.iter().enumerate() {
        let which = if edited.applied.len() > 1 { format!("edit {}: ", n + 1) } else { String::new() };
        if applied.places.len() > 1 {
            text.push_str(&format!("Note: {which}replaced in {} places.\n", applied.places.len()));
        }
        if let Some(note) = applied.rung.note() {
            text.push_str(&format!("Note: {which}{note}.\n"));
        }
    }
}
