//! What the model is told: the fixed system prompt, and what rides with each prompt.
use super::{
    context,
    session::{Instruction, Session},
};
use crate::log::{Entry, Mode, Part, Stored, ToolSpec};
use std::sync::Arc;

const IDENTITY: &str = include_str!("system.md");

/// A new frame, where the one in force does not fit any more: none yet, or other tools. The system prompt of a
/// session stays as it was first written, byte for byte, because the provider's prompt cache hangs on it.
pub fn frame(session: &Session, entries: &[Stored]) -> Option<Entry> {
    let tools: Vec<ToolSpec> = session.tools.iter().map(|t| t.spec()).collect();
    let system = match context::frame(entries) {
        Some((_, current)) if current == tools => return None,
        Some((system, _)) => system,
        None => system(session).into(),
    };
    Some(Entry::Frame { system, tools })
}

fn system(session: &Session) -> String {
    let replaced = session.instructions.iter().any(|i| i.replaces);
    let mut out = String::new();
    if !replaced {
        out.push_str(IDENTITY.trim());
    }
    let roots: Vec<String> = session.workspace.roots().iter().map(|r| format!("- {}", r.display())).collect();
    out.push_str(&format!(
        "\n\n# Environment\nOperating system: {}\nWorking directory: {}\nWorkspace folders:\n{}\n",
        std::env::consts::OS,
        session.folders.cwd.display(),
        roots.join("\n")
    ));
    for Instruction { source, text, .. } in session.instructions.iter().filter(|i| !i.text.is_empty()) {
        out.push_str(&format!("\n# Instructions from {source}\n{}\n", text.trim()));
    }
    out
}

/// Context that changes and so must not stand in the system prompt: the mode, unsaved files, files that changed outside.
pub async fn volatile(session: &Session) -> Option<String> {
    let mut lines = Vec::new();
    if session.settings().mode == Mode::Plan {
        lines.push(
            "Plan mode is on: read and plan; nothing may be changed until the user leaves it.".to_owned(),
        );
    }
    let dirty = session.workspace.dirty();
    if !dirty.is_empty() {
        let names: Vec<String> = dirty.iter().map(|(path, _)| path.to_string()).collect();
        lines
            .push(format!("Unsaved in the editor (commands do not see these changes): {}", names.join(", ")));
    }
    let changed = session.workspace.changed_outside().await;
    if !changed.is_empty() {
        const NAMED: usize = 20;
        let names: Vec<String> =
            changed.iter().take(NAMED).map(|(path, how)| format!("{path} ({how})")).collect();
        let more = changed.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("Changed on disk since you last saw them: {}{more}", names.join(", ")));
    }
    (!lines.is_empty()).then(|| format!("[Context]\n{}", lines.join("\n")))
}

/// A title by words: the first line of the first prompt, at most 60 characters.
pub fn title(parts: &[Part]) -> Option<String> {
    let text = parts.iter().find_map(|p| match p {
        Part::Text { text } => text.lines().map(str::trim).find(|l| !l.is_empty()),
        _ => None,
    })?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut title = String::new();
    for word in words {
        if title.chars().count() + word.chars().count() > 60 {
            if title.is_empty() {
                title.extend(word.chars().take(60));
            }
            title.push('…');
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
    }
    Some(title)
}

/// All text that the person wrote.
pub fn text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|p| match p {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The system prompt and the tools of a session as its next request will carry them.
pub fn in_force(session: &Session, entries: &[Stored]) -> (Arc<str>, Vec<ToolSpec>) {
    match frame(session, entries) {
        Some(Entry::Frame { system, tools }) => (system, tools),
        _ => context::frame(entries).map(|(s, t)| (s, t.to_vec())).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        let of = |text: &str| title(&[Part::Text { text: text.into() }]);
        assert_eq!(of("\n  Fix the   bug\nin main"), Some("Fix the bug".into()));
        assert_eq!(of("   "), None);
        let long = of(&"word ".repeat(40)).unwrap();
        assert!(long.chars().count() <= 61 && long.ends_with('…'), "{long}");
        assert_eq!(of(&"x".repeat(100)).unwrap().chars().count(), 61);
    }
}
