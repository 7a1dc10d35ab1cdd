//! The side rule: which of the two sides of a file, the editor's and the disk's, is read and written (invariant I16).
//!
//! | client can | read | write |
//! |---|---|---|
//! | read and write | editor | editor |
//! | read | editor | disk |
//! | neither, or write alone | disk | disk |
//!
//! A file on disk that the editor does not know (-32002) is the disk's for both. Any other error, or no answer in time, is
//! the call's failure: never a silent write to disk. Paths outside the roots are never sent to the client.
use super::{
    BufferError, Buffers, WsError,
    disk::{self, Snapshot},
    text::{Encoding, Text},
};
use crate::effects::WsPath;

/// Both sides of one file, fetched together.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    /// What is on disk, with the text in it.
    pub disk: Option<(Snapshot, Text)>,
    pub editor: EditorSide,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EditorSide {
    /// It cannot be asked: no capability, or a path that is none of its business.
    NotAsked,
    /// It does not know the file, or cannot represent it.
    Unknown,
    Text(String),
}

impl Sides {
    pub fn disk_text(&self) -> Option<&Text> {
        self.disk.as_ref().map(|(_, text)| text)
    }
    /// The buffer's text, canonical.
    pub fn buffer(&self) -> Option<String> {
        match &self.editor {
            EditorSide::Text(text) => Some(Text::from_editor(text.clone()).canonical()),
            EditorSide::NotAsked | EditorSide::Unknown => None,
        }
    }
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.disk.as_ref().map(|(snapshot, _)| snapshot)
    }
    /// Whether a write goes through the editor.
    pub fn writes_to_editor(&self, buffers: &dyn Buffers) -> bool {
        match self.editor {
            EditorSide::NotAsked => false,
            // New to both sides: the editor creates it, so it lands in its review.
            EditorSide::Unknown => self.disk.is_none() && buffers.can_write(),
            EditorSide::Text(_) => buffers.can_write(),
        }
    }
}

/// Reads the disk's side. Blocking work, on the pool for it.
pub(super) async fn fetch_disk(path: &WsPath) -> Result<Option<(Snapshot, Text)>, WsError> {
    let real = path.real().to_path_buf();
    let read = move || -> Result<_, disk::DiskError> {
        let Some(snapshot) = disk::read(&real, disk::TEXT_LIMIT)? else { return Ok(None) };
        let text = Text::from_bytes(&snapshot.bytes).map_err(|e| disk::DiskError::NotText(e.to_string()))?;
        Ok(Some((snapshot, text)))
    };
    blocking(read).await.map_err(|e| e.at(path))
}

/// Runs file work off the runtime's threads; a slow network disk must not stop the wire.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, disk::DiskError> + Send + 'static,
) -> Result<T, disk::DiskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(disk::DiskError::Io(format!("the file work did not end: {e}"))),
    }
}

/// Fetches both sides of a file.
///
/// # Errors
/// What is no text on disk; a failure or silence of the editor for a file that is there.
pub(super) async fn fetch(path: &WsPath, buffers: &dyn Buffers) -> Result<Sides, WsError> {
    let disk = fetch_disk(path).await?;
    let editor = if path.in_roots() && buffers.can_read() {
        fetch_editor(path, buffers, disk.as_ref().map(|(_, text)| text)).await?
    } else {
        EditorSide::NotAsked
    };
    Ok(Sides { disk, editor })
}

async fn fetch_editor(
    path: &WsPath,
    buffers: &dyn Buffers,
    disk: Option<&Text>,
) -> Result<EditorSide, WsError> {
    let failed = |why: String| WsError::Editor { what: "read", path: path.to_string(), why };
    let utf8 = disk.is_none_or(|text| text.encoding() == Encoding::Utf8);
    match buffers.read(path.as_path()).await {
        // CodeCompanion reads a missing file as "".
        Ok(text) if text.is_empty() && disk.is_none() => Ok(EditorSide::Unknown),
        // A client that decodes everything as UTF-8 has replaced what it could not: its text cannot be written back.
        Ok(text) if !utf8 && text.contains('\u{fffd}') => Ok(EditorSide::Unknown),
        Ok(text) => Ok(EditorSide::Text(text)),
        Err(BufferError::NotFound) => Ok(EditorSide::Unknown),
        Err(BufferError::Timeout) => Err(failed("no answer in time".into())),
        // Many clients answer any error for a file that is not there; and one that cannot decode a file has no buffer
        // of it that could be unsaved.
        Err(BufferError::Failed(_)) if disk.is_none() || !utf8 => Ok(EditorSide::Unknown),
        Err(BufferError::Failed(why)) => Err(failed(why)),
    }
}

/// The new text in the form in which this editor gave the old one: some normalise line endings and keep the byte-order
/// mark to themselves, and put both back when they save.
pub(super) fn editor_form(new: &Text, editor: &EditorSide) -> String {
    let EditorSide::Text(old) = editor else { return new.shown().into_owned() };
    let normalises = old.contains('\n') && !old.contains('\r');
    let content = if normalises { new.canonical() } else { new.content().to_owned() };
    if new.bom() && old.starts_with('\u{feff}') { format!("\u{feff}{content}") } else { content }
}

/// Writes through the editor.
///
/// # Errors
/// `None`: it does not know the file (-32002), and the disk is the side for it. Else its reason, or [`WsError::Unknown`]
/// when it did not answer in time.
pub(super) async fn write_editor(
    path: &WsPath,
    text: &str,
    buffers: &dyn Buffers,
) -> Result<(), Option<WsError>> {
    match buffers.write(path.as_path(), text).await {
        Ok(()) => Ok(()),
        Err(BufferError::NotFound) => Err(None),
        Err(BufferError::Timeout) => Err(Some(WsError::Unknown { path: path.to_string() })),
        Err(BufferError::Failed(why)) => {
            Err(Some(WsError::Editor { what: "write", path: path.to_string(), why }))
        }
    }
}
