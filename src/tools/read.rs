//! `read`: a part of a file as numbered lines, or an image.
mod binary;
mod huge;
mod window;

use super::{Cx, Output, Tool, ToolError, close, display};
use crate::{
    effects::{Effects, WsPath},
    log::{Location, ToolKind},
    workspace::{Reader, WsError, text::MAX_BYTES},
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use window::Window;

/// See the module.
pub struct Read;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The file: absolute, or relative to the session's folder.
    #[serde(alias = "file_path", alias = "filePath", alias = "file")]
    path: String,
    /// The first line to read, from 1; negative: that many lines from the end. Default 1.
    offset: Option<i64>,
    /// The most lines to read. Default and at most 2000.
    limit: Option<u64>,
    /// The first character to show of each line, from 1: to go on in a line that was cut. Default 1.
    column: Option<u64>,
}

impl Args {
    fn window(&self) -> Window {
        Window::new(self.offset, self.limit, self.column)
    }
}

#[async_trait]
impl Tool for Read {
    type Args = Args;
    const NAME: &'static str = "read";
    const KIND: ToolKind = ToolKind::Read;
    const DOC: &'static str = include_str!("read.md");

    fn title(&self, args: &Args, ws: &dyn Reader) -> String {
        format!("Read {}{}", display::named(ws, &args.path), args.window().named(args.limit))
    }

    fn locations(&self, args: &Args, ws: &dyn Reader) -> Vec<Location> {
        let line = args.offset.unwrap_or(1).max(1).try_into().ok();
        let location = |p: WsPath| Location { path: p.as_path().to_owned(), line };
        ws.resolve(&args.path).map(location).into_iter().collect()
    }

    async fn plan(&self, args: &Args, ws: &dyn Reader) -> Result<Effects, ToolError> {
        Ok(Effects::read(ws.resolve(&args.path)?))
    }

    async fn run(&self, args: Args, effects: Effects, cx: Cx<'_>) -> Result<Output, ToolError> {
        let Some(path) = effects.reads.first() else {
            return Err(ToolError::Failed("this read is not permitted".into()));
        };
        let shown = display::path(cx.workspace, path);
        if binary::is_image_name(path)
            && let Some(output) = binary::image(path, &shown, &cx).await?
        {
            return Ok(output);
        }
        if std::fs::metadata(path.real()).is_ok_and(|m| m.is_file() && m.len() > MAX_BYTES as u64) {
            return huge::read(path.clone(), shown, args.window(), &cx).await;
        }
        match cx.workspace.read(path).await {
            Ok(Some(text)) => {
                let part = args.window().of(&text, &shown)?;
                cx.workspace.saw(path, &text);
                Ok(located(part, path))
            }
            Ok(None) => Err(close::missing(path, &shown).into()),
            Err(WsError::NotFound { .. }) => Err(close::missing(path, &shown).into()),
            Err(WsError::NotText { why, .. }) => match binary::image(path, &shown, &cx).await? {
                Some(output) => Ok(output),
                None => Err(binary::refused(path, &shown, &why, &cx).await),
            },
            Err(e) => Err(e.into()),
        }
    }
}

fn located(part: window::Part, path: &WsPath) -> Output {
    let location = Location { path: path.as_path().to_owned(), line: Some(part.first) };
    Output { locations: vec![location], ..Output::text(part.text) }
}

#[cfg(test)]
mod tests;
