//! What a person is told who starts the server on a terminal.
use super::client::Style;
use serde_json::json;
use std::path::PathBuf;

/// What it is and what to type next.
pub fn banner(style: Style) -> String {
    format!(
        "{} {}\n\nA coding agent that works inside your editor. An editor starts this program and speaks the\n\
         Agent Client Protocol with it on standard input and output; on a terminal there is nobody to\n\
         speak with, so here is what to do next:\n\n\
         \x20 {}          watch it work on a sample project, offline and without a key\n\
         \x20 {}      do one task in this folder, with your model\n\
         \x20 {}        what was found here, and what is missing\n\
         \x20 {}        all commands\n\n{}",
        style.bold("Hermes for editors"),
        env!("CARGO_PKG_VERSION"),
        style.cyan("hermes-editor demo"),
        style.cyan("hermes-editor exec \"…\""),
        style.cyan("hermes-editor doctor"),
        style.cyan("hermes-editor --help"),
        how_to_add(style),
    )
}

/// The lines that add this program to each editor.
pub fn how_to_add(style: Style) -> String {
    let program = program();
    let zed = json!({ "agent_servers": { "Hermes": { "type": "custom", "command": program, "args": [], "env": {} } } });
    let jetbrains = json!({ "agent_servers": { "Hermes": { "command": program, "args": [], "env": {} } } });
    let mut out = format!("{}\n\n", style.bold("To add Hermes to your editor"));
    let rows = [
        ("Zed", "~/.config/zed/settings.json", zed.to_string()),
        ("JetBrains", "~/.jetbrains/acp.json", jetbrains.to_string()),
        ("Neovim", "CodeCompanion or Avante", "see editors/neovim/README.md".to_owned()),
        ("Emacs", "agent-shell", "see editors/emacs/README.md".to_owned()),
    ];
    for (editor, place, text) in rows {
        out.push_str(&format!("  {} ({place})\n    {text}\n", style.cyan(editor)));
    }
    out.push_str(&format!(
        "  {}\n    start {program} without arguments\n",
        style.cyan("Any other ACP client")
    ));
    out
}

/// Where this program lies, as an editor must be told it.
pub fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("hermes-editor"));
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_to_paste_are_json_that_names_this_program() {
        let text = how_to_add(Style::default());
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| l.starts_with('{')).collect();
        assert_eq!(lines.len(), 2);
        for line in lines {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["agent_servers"]["Hermes"]["command"], program());
        }
        for word in ["demo", "exec", "doctor", "Neovim", "Emacs"] {
            assert!(banner(Style::default()).contains(word), "{word}");
        }
    }
}
