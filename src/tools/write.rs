//! `write`: a whole file.
use super::{Cx, Output, Tool, ToolError, changed, display};
use crate::{
    effects::{Change, Effects},
    log::{Location, ToolKind},
    workspace::{
        Freshness, Reader,
        text::{LineEnding, Text, lines},
    },
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

/// See the module.
pub struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The file: absolute, or relative to the session's folder.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The whole new text.
    #[serde(alias = "contents")]
    content: String,
}

#[async_trait]
impl Tool for Write {
    type Args = Args;
    const NAME: &'static str = "write";
    const KIND: ToolKind = ToolKind::Edit;
    const DOC: &'static str = include_str!("write.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        format!("Write {}", display::named(ws, &args.path))
    }

    fn locations(&self, args: &Args, ws: &dyn Reader) -> Vec<Location> {
        let location = |p: crate::effects::WsPath| Location { path: p.as_path().to_owned(), line: Some(1) };
        ws.resolve(&args.path).map(location).into_iter().collect()
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        let path = ws.resolve(&args.path)?;
        let shown = display::path(ws, &path);
        let Some(old) = ws.read(&path).await? else {
            let new = Text::from_editor(args.content.clone());
            return Ok(Effects {
                writes: vec![Change::Write { path, old: None, new }],
                ..Effects::default()
            });
        };
        let new = old.rewrite(&args.content);
        if new == old {
            return Ok(Effects::read(path));
        }
        match ws.freshness(&path).await {
            Freshness::Unchanged => {}
            Freshness::NeverSeen => {
                return Err(ToolError::Failed(format!(
                    "{shown} exists ({}) and was not read in this session. Read it first, then write it again; \
                     to change a part use `edit`",
                    display::count(lines(old.content()).count(), "line")
                )));
            }
            Freshness::Changed(what) => {
                return Err(ToolError::Failed(format!(
                    "{shown} changed since it was read ({what}). Read it again, then write it with those changes in it"
                )));
            }
        }
        new.to_bytes().map_err(|e| ToolError::Failed(format!("{shown}: {e}")))?;
        Ok(Effects { writes: vec![Change::Write { path, old: Some(old), new }], ..Effects::default() })
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let [Change::Write { path, old, new }] = effects.writes.as_slice() else {
            let shown = display::named(cx.workspace, &args.path);
            return Ok(Output::text(format!("{shown} has exactly this text already; nothing was written")));
        };
        let written = cx.workspace.apply(&effects.writes).await?;
        let shown = display::path(cx.workspace, path);
        let count = |text: &Text| lines(text.content()).count();
        let mut text = match old {
            None => format!("Created {shown} ({})", display::count(count(new), "line")),
            Some(old) => {
                format!(
                    "Replaced {shown} ({} before, {} now)",
                    display::count(count(old), "line"),
                    count(new)
                )
            }
        };
        text.push_str(&kept(old.as_ref(), &args.content, new));
        for written in &written {
            for remark in changed::remarks(&shown, written) {
                text.push_str(&format!("\nNote: {remark}."));
            }
            if let Some(there) = &written.drift {
                text.push_str(&format!(" These lines are now:\n{}", changed::snippet(new, there).trim_end()));
            }
        }
        let landed = changed::landed(&effects.writes, &written);
        Ok(Output {
            shown: changed::diffs(&landed),
            locations: changed::locations(&landed),
            ..Output::text(text)
        })
    }
}

/// What of the old file was kept although the new text said otherwise.
fn kept(old: Option<&Text>, sent: &str, new: &Text) -> String {
    let Some(old) = old else { return String::new() };
    let mut facts = Vec::new();
    if new.line_ending() != LineEnding::of(sent) {
        match old.line_ending() {
            LineEnding::Crlf => facts.push("CRLF line endings"),
            LineEnding::Cr => facts.push("CR line endings"),
            LineEnding::Mixed => facts.push("mixed line endings"),
            LineEnding::Lf => facts.push("LF line endings"),
            LineEnding::None => {}
        }
    }
    if old.bom() && !sent.starts_with('\u{feff}') {
        facts.push("the byte-order mark");
    }
    match facts.is_empty() {
        true => String::new(),
        false => format!("; it kept {}", facts.join(" and ")),
    }
}
