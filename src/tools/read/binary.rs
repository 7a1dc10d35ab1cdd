//! Files that are not text: images are shown, the rest is refused with what it is.
use super::super::{Cx, Output, ToolError, display};
use crate::{
    effects::WsPath,
    log::{Image, Location, Shown},
    workspace::text::MAX_BYTES,
};
use base64::{Engine, engine::general_purpose::STANDARD};

/// The largest image that is handed to a model, in bytes: providers take 5 MB as base64.
const LARGEST: u64 = 3_700_000;

/// Whether the name is that of an image, so that the editor need not be asked for its text.
pub(super) fn is_image_name(path: &WsPath) -> bool {
    let extension = path.as_path().extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg", "gif", "webp"].iter().any(|e| extension.eq_ignore_ascii_case(e))
}

/// The image in the file; `None` when its bytes are not those of an image that models take.
pub(super) async fn image(path: &WsPath, name: &str, cx: &Cx<'_>) -> Result<Option<Output>, ToolError> {
    let Some(size) = file_size(path) else { return Ok(None) };
    let head = cx.workspace.read_bytes(path, MAX_BYTES as u64).await.unwrap_or_default();
    let Some(mime) = infer::get(&head).map(|t| t.mime_type()).filter(|m| shown_to_models(m)) else {
        return Ok(None);
    };
    let pixels =
        imagesize::blob_size(&head).map(|s| format!("{}×{}, ", s.width, s.height)).unwrap_or_default();
    let facts = format!("{mime}, {pixels}{}", display::size(size));
    if !cx.images {
        return Err(ToolError::Failed(format!(
            "{name} is an image ({facts}), and the current model takes no images"
        )));
    }
    if size > LARGEST {
        return Err(ToolError::Failed(format!(
            "{name} is an image ({facts}), larger than the {} that can be shown: make a smaller copy with a command",
            display::size(LARGEST)
        )));
    }
    let image = Image { mime: mime.into(), data: STANDARD.encode(&head).into(), uri: None };
    Ok(Some(Output {
        shown: vec![Shown::Image(image.clone())],
        images: vec![image],
        locations: vec![Location { path: path.as_path().to_owned(), line: None }],
        ..Output::text(format!("{name}: {facts}"))
    }))
}

/// The refusal of a binary file: its type and size, and what to do instead.
pub(super) async fn refused(path: &WsPath, name: &str, why: &str, cx: &Cx<'_>) -> ToolError {
    let Some(size) = file_size(path) else { return ToolError::Failed(format!("{name}: {why}")) };
    let head = cx.workspace.read_bytes(path, MAX_BYTES as u64).await.unwrap_or_default();
    let kind = infer::get(&head).map(|t| format!("{}, ", t.mime_type())).unwrap_or_default();
    ToolError::Failed(format!("{name} ({kind}{}): {why}", display::size(size)))
}

fn shown_to_models(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

fn file_size(path: &WsPath) -> Option<u64> {
    std::fs::metadata(path.real()).ok().filter(|m| m.is_file()).map(|m| m.len())
}
