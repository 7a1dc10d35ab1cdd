//! Applying planned changes: checked against what is there, then written in order, all or nothing.
use super::{
    ApplyError, Written, WsError, disk,
    editor::{Sides, blocking, editor_form, write_editor},
    freshness::{CONFLICT, Now, Truth, lock_paths, rebase},
    session::SessionWorkspace,
    text::Text,
};
use crate::effects::{Change, Place, WsPath};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// A change that was checked, as it will be applied.
struct Step {
    change: Change,
    rebased: bool,
    /// What was found when it was checked, where nothing is written between that and it.
    now: Option<Now>,
}

/// What takes one applied change back.
enum Undo {
    Wrote { path: WsPath, before: Option<Text>, after: Text, made: Vec<PathBuf> },
    Deleted { path: WsPath, was: disk::Snapshot },
    Moved { from: WsPath, to: WsPath, old: Text, after: Text, made: Vec<PathBuf> },
}

pub(super) async fn apply(ws: &SessionWorkspace, changes: &[Change]) -> Result<Vec<Written>, ApplyError> {
    let paths: Vec<&Path> = changes.iter().flat_map(Change::paths).map(WsPath::real).collect();
    let _held = lock_paths(&paths).await;
    let refused = |error| ApplyError { error, landed: Vec::new() };
    let steps = check(ws, changes).await.map_err(refused)?;
    let mut written = Vec::with_capacity(steps.len());
    let mut undo = Vec::new();
    for step in steps {
        match execute(ws, &step.change, step.now, &mut undo).await {
            Ok(mut done) => {
                done.rebased = step.rebased.then_some(step.change);
                written.push(done);
            }
            Err(error) => {
                let mut landed = Vec::new();
                for action in undo.into_iter().rev() {
                    if let Err(path) = take_back(ws, action).await {
                        landed.push(path);
                    }
                }
                landed.reverse();
                return Err(ApplyError { error, landed });
            }
        }
    }
    Ok(written)
}

/// Simulates the changes on what is there now; nothing is written before all of them are known to fit.
async fn check(ws: &SessionWorkspace, changes: &[Change]) -> Result<Vec<Step>, WsError> {
    let mut after: HashMap<&Path, Option<Text>> = HashMap::new();
    let mut steps = Vec::with_capacity(changes.len());
    // A change that stands alone is written right away: the editor need not be asked twice.
    let alone = changes.len() == 1;
    for change in changes {
        let mut found = None;
        for path in change.paths() {
            writable(ws, path)?;
            if !after.contains_key(path.real()) {
                let now = ws.look(path).await?;
                refuse_unsaved(change, path, &now)?;
                after.insert(path.real(), now.text.clone());
                found.get_or_insert(now);
            }
        }
        let mut step = fit(change, &after)?;
        // The first path is the file that is written, deleted or moved away.
        step.now = found.filter(|_| alone);
        match &step.change {
            Change::Write { new, .. } => after.insert(change.path().real(), Some(new.clone())),
            Change::Delete { .. } => after.insert(change.path().real(), None),
            Change::Move { new, .. } => {
                for path in change.paths() {
                    after.insert(path.real(), None);
                }
                after.insert(change.path().real(), Some(new.clone()))
            }
        };
        steps.push(step);
    }
    Ok(steps)
}

fn writable(ws: &SessionWorkspace, path: &WsPath) -> Result<(), WsError> {
    let why = match path.place() {
        Place::SessionFolder => "it is the agent's own folder, which is read-only".to_owned(),
        Place::Root(_) | Place::Outside if path.real().file_name().is_none() => "it is a folder".to_owned(),
        Place::Root(_) => return Ok(()),
        Place::Outside if ws.is_granted(path) => return Ok(()),
        Place::Outside => "no permission was given to write there".to_owned(),
    };
    Err(WsError::OutsideRoots { path: path.to_string(), why })
}

/// Delete and move happen on disk alone (ACP has no method for them), so the editor must not hold unsaved work.
fn refuse_unsaved(change: &Change, path: &WsPath, now: &Now) -> Result<(), WsError> {
    // Nothing that is planned anew would fit, nor does reading help: it is for the person to decide.
    let decide = |why: &str| Err(WsError::Io { path: path.to_string(), why: why.into() });
    match (now.truth, change) {
        (Truth::Conflict, _) => decide(CONFLICT),
        (Truth::Buffer, Change::Delete { .. } | Change::Move { .. }) => {
            decide("it has unsaved changes in the editor; the person has to save or discard them first")
        }
        _ => Ok(()),
    }
}

fn fit(change: &Change, after: &HashMap<&Path, Option<Text>>) -> Result<Step, WsError> {
    let there = |path: &WsPath| after.get(path.real()).and_then(Option::as_ref);
    let changed = |path: &WsPath, what: &str| WsError::Changed { path: path.to_string(), what: what.into() };
    let as_is = || Step { change: change.clone(), rebased: false, now: None };
    match change {
        Change::Write { path, old, .. } => match (old, there(path)) {
            (None, None) => Ok(as_is()),
            (None, Some(_)) => Err(changed(path, "a file of that name exists now")),
            (Some(_), None) => Err(changed(path, "it has been deleted")),
            (Some(old), Some(now)) if old == now => Ok(as_is()),
            (Some(_), Some(now)) => match rebase(change, now) {
                Some(change) => Ok(Step { change, rebased: true, now: None }),
                None => Err(changed(
                    path,
                    "the lines to be changed, or lines near them, are not the same any more",
                )),
            },
        },
        Change::Delete { path, old } | Change::Move { from: path, old, .. } => {
            match there(path) {
                None => return Err(changed(path, "it has been deleted")),
                Some(now) if now != old => return Err(changed(path, "its text is another one now")),
                Some(_) => {}
            }
            match change {
                Change::Move { from, to, .. } if from != to && there(to).is_some() => {
                    Err(changed(to, "a file of that name exists"))
                }
                _ => Ok(as_is()),
            }
        }
    }
}

async fn execute(
    ws: &SessionWorkspace,
    change: &Change,
    found: Option<Now>,
    undo: &mut Vec<Undo>,
) -> Result<Written, WsError> {
    let look = async |path| match found {
        Some(now) => Ok(now),
        None => ws.look(path).await,
    };
    match change {
        Change::Write { path, old, new } => {
            let now = look(path).await?;
            // Looked at again: time has passed since the check, with other changes written in between.
            if now.text.as_ref() != old.as_ref() {
                return Err(WsError::Changed {
                    path: path.to_string(),
                    what: "it is being written to".into(),
                });
            }
            let made = make_parents(path, &now.sides).await?;
            match write_text(ws, path, &now, new).await {
                Ok((written, after)) => {
                    undo.push(Undo::Wrote { path: path.clone(), before: old.clone(), after, made });
                    Ok(written)
                }
                Err(e) => {
                    disk::remove_folders(&made);
                    Err(e)
                }
            }
        }
        Change::Delete { path, .. } => {
            let was = snapshot(look(path).await?, path)?;
            let (real, old) = (path.real().to_path_buf(), was.clone());
            blocking(move || disk::delete(&real, &old)).await.map_err(|e| e.at(path))?;
            ws.seen.forget(path.real());
            ws.seen.saw(path, None);
            undo.push(Undo::Deleted { path: path.clone(), was });
            Ok(Written::default())
        }
        Change::Move { from, to, old, new } => move_file(ws, (from, to), (old, new), undo).await,
    }
}

async fn move_file(
    ws: &SessionWorkspace,
    (from, to): (&WsPath, &WsPath),
    (old, new): (&Text, &Text),
    undo: &mut Vec<Undo>,
) -> Result<Written, WsError> {
    let was = snapshot(ws.look(from).await?, from)?;
    let made = make_parents(to, &Sides { disk: None, editor: super::editor::EditorSide::NotAsked }).await?;
    let (source, target, stamp) = (from.real().to_path_buf(), to.real().to_path_buf(), was.clone());
    if source != target {
        let moved = blocking(move || disk::rename(&source, &target, &stamp)).await;
        if let Err(e) = moved {
            disk::remove_folders(&made);
            return Err(e.at(to));
        }
    }
    ws.seen.forget(from.real());
    ws.seen.saw(from, None);
    undo.push(Undo::Moved { from: from.clone(), to: to.clone(), old: old.clone(), after: old.clone(), made });
    if new != old {
        write_disk(to, new, Some(&was)).await?;
        if let Some(Undo::Moved { after, .. }) = undo.last_mut() {
            *after = new.clone();
        }
    }
    ws.seen.forget(to.real());
    ws.seen.saw(to, Some(new));
    Ok(Written::default())
}

fn snapshot(now: Now, path: &WsPath) -> Result<disk::Snapshot, WsError> {
    match now.sides.disk {
        Some((snapshot, _)) => Ok(snapshot),
        None => Err(WsError::NotFound { path: path.to_string(), hint: Some("it is not on disk".into()) }),
    }
}

async fn make_parents(path: &WsPath, sides: &Sides) -> Result<Vec<PathBuf>, WsError> {
    if sides.disk.is_some() {
        return Ok(Vec::new());
    }
    let real = path.real().to_path_buf();
    blocking(move || disk::create_parents(&real)).await.map_err(|e| e.at(path))
}

/// Writes one text by the side rule, reads it back, and says what is there now.
async fn write_text(
    ws: &SessionWorkspace,
    path: &WsPath,
    now: &Now,
    new: &Text,
) -> Result<(Written, Text), WsError> {
    // Asked before anything is written: what the file's encoding cannot hold is refused on either side.
    let bytes =
        new.to_bytes().map_err(|e| WsError::NotText { path: path.to_string(), why: e.to_string() })?;
    let buffers = ws.buffers();
    let (mut through_editor, mut written) = (false, Written::default());
    if now.sides.writes_to_editor(buffers) {
        // Most editors would ask the person for force, or fail without a word.
        if now.sides.snapshot().is_some_and(|s| s.mode & 0o222 == 0) {
            let why = "is read-only: change its mode first if it is meant to be edited".to_owned();
            return Err(WsError::Io { path: path.to_string(), why });
        }
        // The editor follows links: a folder that became one since the question must not lead it elsewhere (I15).
        ws.check_place(path)?;
        match write_editor(path, &editor_form(new, &now.sides.editor), buffers).await {
            Ok(()) => through_editor = true,
            Err(Some(e)) => {
                written.note = Some(landed(ws, path, now, new, e).await?);
                through_editor = true;
            }
            Err(None) => {}
        }
    }
    if !through_editor {
        written.note = write_disk(path, new, now.sides.snapshot()).await?;
    }
    // The write is done: that it cannot be read back is no failure of it, only nothing is known of the file then.
    let Ok(sides) = super::editor::fetch(path, buffers).await else {
        ws.seen.forget(path.real());
        return Ok((written, new.clone()));
    };
    let mut after = ws.seen.wrote(path, sides, new, through_editor);
    ws.knows(path);
    if through_editor && keep_form(path, now, &after, new, &bytes).await {
        let sides = super::editor::fetch(path, buffers).await;
        after = sides.map_or(after, |sides| ws.seen.wrote(path, sides, new, true));
    }
    if through_editor && nothing_happened(now, &after, new) {
        let why = "it confirmed the write, but the file is as it was before: nothing was changed".to_owned();
        return Err(WsError::Editor { what: "write", path: path.to_string(), why });
    }
    let there = after.text.unwrap_or_else(|| new.clone());
    if there.canonical() != new.canonical() {
        written.drift = Some(there.clone());
    }
    Ok((written, there))
}

/// What an editor did that answered a write with an error: some have changed the file by then. Gives what is to be told
/// where all of it was done.
///
/// # Errors
/// Its own where nothing was done, [`WsError::Unknown`] where something was.
async fn landed(
    ws: &SessionWorkspace,
    path: &WsPath,
    before: &Now,
    new: &Text,
    error: WsError,
) -> Result<String, WsError> {
    ws.seen.forget(path.real());
    if !matches!(error, WsError::Editor { .. }) {
        return Err(error);
    }
    let canonical = |text: Option<&Text>| text.map(Text::canonical);
    let (old_disk, old_buffer) = (canonical(before.sides.disk_text()), before.sides.buffer());
    let Ok(sides) = super::editor::fetch(path, ws.buffers()).await else {
        // An editor that answers nothing any more has no say in what is on disk.
        let disk = super::editor::fetch_disk(path).await;
        let same = disk.is_ok_and(|disk| canonical(disk.as_ref().map(|(_, text)| text)) == old_disk);
        return Err(if same { error } else { WsError::Unknown { path: path.to_string() } });
    };
    let (disk, buffer, new) = (canonical(sides.disk_text()), sides.buffer(), Some(new.canonical()));
    if (&disk, &buffer) == (&old_disk, &old_buffer) {
        return Err(error);
    }
    if disk == new && (buffer == new || buffer.is_none()) {
        return Ok(format!("the change is there, though {error}"));
    }
    Err(WsError::Unknown { path: path.to_string() })
}

/// Whether both sides still are what they were before a write that was to change them. One side alone proves nothing:
/// some editors write the file and go on showing the old buffer for a moment.
fn nothing_happened(before: &Now, after: &Now, new: &Text) -> bool {
    let same = |a: Option<&Text>, b: Option<&Text>| a.map(Text::canonical) == b.map(Text::canonical);
    let changes = before.text.as_ref().map(Text::canonical) != Some(new.canonical());
    changes
        && same(before.text.as_ref(), after.text.as_ref())
        && same(before.sides.disk_text(), after.sides.disk_text())
}

async fn write_disk(
    path: &WsPath,
    new: &Text,
    old: Option<&disk::Snapshot>,
) -> Result<Option<String>, WsError> {
    let bytes =
        new.to_bytes().map_err(|e| WsError::NotText { path: path.to_string(), why: e.to_string() })?;
    let (real, old) = (path.real().to_path_buf(), old.cloned());
    let note = blocking(move || disk::write(&real, &bytes, old.as_ref())).await.map_err(|e| e.at(path))?;
    let others = note.other_names;
    Ok((others > 0)
        .then(|| format!("the file has {others} other name(s) (hard links), which changed with it")))
}

/// Some editors save without the byte-order mark, line endings, encoding or mode that the file had. Where they saved our
/// text and lost its form, the form is put right on disk (I17). Returns whether anything was.
async fn keep_form(path: &WsPath, before: &Now, after: &Now, new: &Text, bytes: &[u8]) -> bool {
    let (Some(old), Some((saved, text))) = (before.sides.snapshot(), &after.sides.disk) else { return false };
    let mut put_right = false;
    if saved.bytes != bytes && text.canonical() == new.canonical() {
        put_right = write_disk(path, new, Some(saved)).await.is_ok();
    }
    if saved.mode != old.mode {
        let (real, mode) = (path.real().to_path_buf(), old.mode);
        put_right |= blocking(move || disk::set_mode(&real, mode)).await.is_ok();
    }
    put_right
}

/// Takes one change back, if what it left is still there; else says whose path stays changed.
async fn take_back(ws: &SessionWorkspace, action: Undo) -> Result<(), String> {
    match action {
        Undo::Wrote { path, before, after, made } => {
            let failed = |_| path.to_string();
            let now = ws.look(&path).await.map_err(failed)?;
            if now.text.as_ref() != Some(&after) {
                return Err(path.to_string());
            }
            match before {
                Some(before) => {
                    write_text(ws, &path, &now, &before).await.map_err(failed)?;
                }
                None => {
                    if let Some(was) = now.sides.snapshot().cloned() {
                        let real = path.real().to_path_buf();
                        blocking(move || disk::delete(&real, &was)).await.map_err(|_| path.to_string())?;
                    }
                    disk::remove_folders(&made);
                    ws.seen.forget(path.real());
                    ws.seen.saw(&path, None);
                }
            }
            Ok(())
        }
        Undo::Deleted { path, was } => {
            let real = path.real().to_path_buf();
            blocking(move || disk::restore(&real, &was)).await.map_err(|_| path.to_string())?;
            ws.seen.forget(path.real());
            Ok(())
        }
        Undo::Moved { from, to, old, after, made } => {
            let stays = || format!("{from} → {to}");
            let now = ws.look(&to).await.map_err(|_| stays())?;
            let Some(was) = now.sides.snapshot().filter(|_| now.text.as_ref() == Some(&after)) else {
                return Err(stays());
            };
            if after != old {
                write_disk(&to, &old, Some(was)).await.map_err(|_| stays())?;
            }
            let was = snapshot(ws.look(&to).await.map_err(|_| stays())?, &to).map_err(|_| stays())?;
            let (source, target) = (to.real().to_path_buf(), from.real().to_path_buf());
            if source != target {
                blocking(move || disk::rename(&source, &target, &was)).await.map_err(|_| stays())?;
            }
            disk::remove_folders(&made);
            ws.seen.forget(from.real());
            ws.seen.forget(to.real());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
