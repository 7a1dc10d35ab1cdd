//! What a path that is not there may have meant.
use crate::{effects::WsPath, workspace::WsError};
use std::path::Path;

/// The error for a missing file, with the names in its folder that come closest.
pub(crate) fn missing(path: &WsPath, shown: &str) -> WsError {
    // Names outside the workspace are not ours to tell.
    let hint = if path.in_roots() { hint(path.real()) } else { None };
    WsError::NotFound { path: shown.to_owned(), hint }
}

fn hint(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    if !folder.is_dir() {
        return Some(format!(
            "there is no folder `{}` either: use `glob` to find it",
            folder.file_name()?.display()
        ));
    }
    let wanted = path.file_name()?.to_string_lossy().to_lowercase();
    let stem = path.file_stem()?.to_string_lossy().to_lowercase();
    let mut close: Vec<(f64, String)> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .take(5000)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let same_stem = Path::new(&lower).file_stem().is_some_and(|s| s.to_string_lossy() == stem);
            let score =
                if same_stem { 0.95 } else { strsim::normalized_damerau_levenshtein(&lower, &wanted) };
            (score >= 0.6).then_some((score, name))
        })
        .collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let names: Vec<_> = close.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    match names.is_empty() {
        true => Some("use `glob` to find it".into()),
        false => Some(format!("in that folder there is {}", names.join(", "))),
    }
}
