//! Files too large to be taken as one text: the wanted lines are streamed from the disk.
use super::{
    super::{Cx, Output, ToolError, blocking, display},
    located,
    window::{CUT, Lines, Part, WIDTH, Window},
};
use crate::effects::WsPath;
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
};

/// Reads the window without holding more than one piece of the file.
pub(super) async fn read(
    path: WsPath,
    name: String,
    window: Window,
    cx: &Cx<'_>,
) -> Result<Output, ToolError> {
    let Ok(from) = usize::try_from(window.offset) else {
        return Err(ToolError::Failed(format!(
            "{name} is too large to be read from its end: use `tail -n {}` in `terminal`",
            window.offset.unsigned_abs()
        )));
    };
    let at = path.clone();
    let part = blocking::run(&cx.cancel, move |stop| part(&at, &name, from, window, stop)).await??;
    Ok(located(part, &path))
}

fn part(
    path: &WsPath,
    name: &str,
    from: usize,
    window: Window,
    stop: &blocking::Stop,
) -> Result<Part, ToolError> {
    let failed = |e: io::Error| ToolError::Failed(format!("{name}: {e}"));
    let file = open(path.real()).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    if reader.fill_buf().map_err(failed)?.iter().take(8192).any(|b| *b == 0) {
        let size = display::size(size);
        return Err(ToolError::Failed(format!(
            "{name} is a binary file ({size}); it cannot be read as text"
        )));
    }
    let keep = window.skip.saturating_add(WIDTH + 1).saturating_mul(4).min(1 << 22);
    let mut shown = Lines { skip: window.skip, ..Lines::default() };
    let (mut number, mut ended) = (0, false);
    while number + 1 < from.saturating_add(window.limit) {
        if stop.is_set() {
            return Err(ToolError::Cancelled);
        }
        let wanted = if number + 1 >= from { keep } else { 0 };
        let Some((line, whole)) = line(&mut reader, wanted).map_err(failed)? else {
            ended = true;
            break;
        };
        if wanted > 0 && !shown.push(number + 1, &String::from_utf8_lossy(&line)) {
            break;
        }
        shown.cut |= wanted > 0 && !whole;
        number += 1;
    }
    if number < from {
        return Err(ToolError::Failed(format!("offset {from} is past the end: {name} has {number} lines")));
    }
    let mut text = shown.text;
    text.push_str(&match ended {
        true => format!("(end of file, {number} lines)"),
        false => format!(
            "(lines {from}–{number} of a file of {}; go on with offset {})",
            display::size(size),
            number + 1
        ),
    });
    if shown.cut {
        text.push_str(CUT);
    }
    Ok(Part { text, first: u32::try_from(from).unwrap_or(u32::MAX) })
}

/// Opens the file itself: not through a link that was put in its place after the guard looked.
fn open(path: &std::path::Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    options.open(path)
}

/// The next line without its ending, at most `keep` bytes of it, and whether that is all of it; `None` at the end.
fn line(reader: &mut impl BufRead, keep: usize) -> io::Result<Option<(Vec<u8>, bool)>> {
    let (mut out, mut whole, mut any) = (Vec::new(), true, false);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some((out, whole)));
        }
        any = true;
        let end = buffer.iter().position(|b| *b == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let room = keep - out.len().min(keep);
        out.extend_from_slice(&piece[..piece.len().min(room)]);
        whole &= piece.len() <= room;
        let used = end.map_or(buffer.len(), |n| n + 1);
        reader.consume(used);
        if end.is_some() {
            if whole && out.last() == Some(&b'\r') {
                out.pop();
            }
            return Ok(Some((out, whole)));
        }
    }
}
