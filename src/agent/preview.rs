//! What a plan shows before it happens: the exact diff, the whole command.
use crate::{
    effects::{Change, Effects},
    log::{Location, Shown},
    workspace::text::Text,
};
use std::sync::Arc;

/// The content and the locations of a card, from the effects.
pub fn of(effects: &Effects) -> (Vec<Shown>, Vec<Location>) {
    let mut shown: Vec<Shown> = effects.writes.iter().flat_map(diffs).collect();
    if let Some(command) = &effects.runs {
        shown.push(Shown::Text {
            text: fence("sh", &crate::permit::shell::escape_for_display(&command.text)),
        });
    }
    let mut locations = Vec::new();
    for change in &effects.writes {
        let line = match change {
            Change::Write { old, new, .. } => first_difference(old.as_ref(), new),
            _ => None,
        };
        locations.push(Location { path: change.path().as_path().to_owned(), line });
    }
    (shown, locations)
}

/// A change as diffs: a move is a deletion and a new file, since ACP's v1 diff has one path.
pub fn diffs(change: &Change) -> Vec<Shown> {
    let diff = |path: &crate::effects::WsPath, old: Option<Arc<str>>, new: Arc<str>| Shown::Diff {
        path: path.as_path().to_owned(),
        old,
        new,
    };
    let text = |t: &Text| -> Arc<str> { t.shown().as_ref().into() };
    match change {
        Change::Write { path, old, new } => vec![diff(path, old.as_ref().map(text), text(new))],
        Change::Delete { path, old } => vec![diff(path, Some(text(old)), "".into())],
        Change::Move { from, to, old, new } => {
            vec![diff(from, Some(text(old)), "".into()), diff(to, None, text(new))]
        }
    }
}

/// The first line, from 1, that differs.
fn first_difference(old: Option<&Text>, new: &Text) -> Option<u32> {
    let new = new.shown();
    let old = old?.shown();
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    u32::try_from(same + 1).ok()
}

/// A fenced block whose fence is longer than any in the text.
pub fn fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence("sh", "ls\n"), "```sh\nls\n```");
        assert_eq!(fence("", "a ``` b"), "````\na ``` b\n````");
    }
}
