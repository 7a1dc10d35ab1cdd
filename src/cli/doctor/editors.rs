//! Which editors are here, and whether each knows of this program.
use super::{Finding, State};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Where editors are looked for.
pub struct Places {
    pub path: OsString,
    pub home: PathBuf,
    /// `~/.config`, or what moves it.
    pub config: PathBuf,
}

impl Places {
    pub fn here() -> Self {
        let home = etcetera::home_dir().unwrap_or_default();
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
        let config = config.unwrap_or_else(|| home.join(".config"));
        Places { path: std::env::var_os("PATH").unwrap_or_default(), home, config }
    }
    /// The first of these programs on the path.
    fn program(&self, names: &[&str]) -> Option<PathBuf> {
        std::env::split_paths(&self.path)
            .filter(|dir| dir.is_absolute())
            .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
            .find(|file| file.is_file())
    }
}

struct Editor {
    name: &'static str,
    programs: &'static [&'static str],
    /// Further signs of it, below the home folder.
    folders: &'static [&'static str],
    /// Settings in which it would be named: below the config folder, and below the home folder.
    settings: [&'static [&'static str]; 2],
    next: &'static str,
}

const EDITORS: [Editor; 5] = [
    Editor {
        name: "Zed",
        programs: &["zed", "zeditor", "zedit"],
        folders: &["Applications/Zed.app", ".local/zed.app"],
        settings: [&["zed/settings.json"], &[]],
        next: "add the lines of `hermes-editor` (without arguments) to its settings; see editors/zed/README.md",
    },
    Editor {
        name: "JetBrains",
        programs: &["idea", "pycharm", "webstorm", "clion", "goland", "rider", "rustrover", "phpstorm"],
        folders: &[".config/JetBrains", "Library/Application Support/JetBrains"],
        settings: [&[], &[".jetbrains/acp.json"]],
        next: "add it to ~/.jetbrains/acp.json; see editors/jetbrains/README.md",
    },
    Editor {
        name: "Neovim",
        programs: &["nvim"],
        folders: &[],
        settings: [&["nvim/init.lua"], &[]],
        next: "it needs a plugin that speaks the protocol; see editors/neovim/README.md",
    },
    Editor {
        name: "Emacs",
        programs: &["emacs"],
        folders: &[],
        settings: [&["emacs/init.el"], &[".emacs.d/init.el", ".emacs"]],
        next: "it needs the package agent-shell; see editors/emacs/README.md",
    },
    Editor {
        name: "VS Code",
        programs: &["code", "codium", "code-server"],
        folders: &[],
        settings: [&["Code/User/settings.json"], &[]],
        next: "it needs an extension that speaks the protocol; any works, start hermes-editor without arguments",
    },
];

pub fn check(places: &Places) -> Vec<Finding> {
    let found: Vec<Finding> = EDITORS.iter().filter_map(|editor| look(editor, places)).collect();
    if found.is_empty() {
        let text = "no editor was found on the PATH";
        return vec![
            Finding::new("editors", State::Info, text)
                .next("any client of the protocol works: it starts hermes-editor without arguments"),
        ];
    }
    found
}

fn look(editor: &Editor, places: &Places) -> Option<Finding> {
    let sign = places.program(editor.programs).or_else(|| {
        editor.folders.iter().map(|folder| places.home.join(folder)).find(|folder| folder.exists())
    })?;
    let [below_config, below_home] = editor.settings;
    let settings = below_config.iter().map(|s| places.config.join(s));
    let settings = settings.chain(below_home.iter().map(|s| places.home.join(s)));
    Some(match settings.into_iter().find(|file| names_us(file)) {
        Some(file) => {
            let text = format!("{}: Hermes is named in {}", editor.name, file.display());
            Finding::new("editors", State::Good, text)
        }
        None => {
            let text = format!("{} ({}): Hermes is not in its settings", editor.name, sign.display());
            Finding::new("editors", State::Info, text).next(editor.next)
        }
    })
}

fn names_us(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("hermes-editor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_are_found_with_what_to_do_next() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        let config = home.path().join("config");
        let places = Places { path: bin.clone().into(), home: home.path().into(), config: config.clone() };
        assert!(check(&places)[0].text.starts_with("no editor"));

        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(config.join("zed")).unwrap();
        std::fs::create_dir_all(home.path().join(".config/JetBrains")).unwrap();
        std::fs::write(bin.join("zeditor"), "").unwrap();
        std::fs::write(bin.join("nvim"), "").unwrap();
        std::fs::write(config.join("zed/settings.json"), r#"{"command": "/x/hermes-editor"}"#).unwrap();
        let found: Vec<(String, bool)> =
            check(&places).into_iter().map(|f| (f.text, f.next.is_some())).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].0.starts_with("Zed: Hermes is named in") && !found[0].1);
        assert!(found[1].0.starts_with("JetBrains (") && found[1].1);
        assert!(found[2].0.starts_with("Neovim (") && found[2].1);
    }
}
