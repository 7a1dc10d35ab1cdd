//! The files of instructions that join the system prompt: `AGENTS.md`, and those that the configuration names.
//!
//! They are sent to a model without a question, so a project may name only what its session could read unasked: regular
//! text files inside its folders that do not look like secrets, every link followed. The person's own configuration may
//! name any file, by an absolute path.
use crate::{
    agent::session::{Folders, Instruction},
    workspace::{guard, text::Text},
};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The longest part of a file that is taken, in bytes.
const LONGEST: usize = 32 * 1024;
/// The longest file that is looked at, in bytes: what UTF-16 or a legacy encoding takes for the longest part.
const LARGEST: u64 = 4 * LONGEST as u64;

/// Reads `AGENTS.md` and the configured files; one that is missing or empty is passed over, another that is not taken
/// leaves word in the instruction's `note`.
pub(super) fn read(folders: &Folders, configured: &[PathBuf]) -> Vec<Instruction> {
    let agents = Path::new("AGENTS.md");
    let files = std::iter::once(agents).chain(configured.iter().map(PathBuf::as_path));
    files.filter_map(|file| one(folders, file)).collect()
}

fn one(folders: &Folders, file: &Path) -> Option<Instruction> {
    let path = folders.cwd.join(file);
    let source = path.strip_prefix(&folders.cwd).unwrap_or(&path).display().to_string();
    let out = |text: String, note: Option<String>| Instruction {
        source: source.clone(),
        text,
        replaces: false,
        note,
    };
    let left_out =
        |why: &str| Some(out(String::new(), Some(format!("{source} is not among the instructions: {why}."))));
    let real = match std::fs::canonicalize(&path) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => return left_out(&e.to_string()),
    };
    // A relative path leads wherever the project wants.
    if !file.is_absolute() {
        let mut roots = std::iter::once(&folders.cwd).chain(&folders.additional);
        if !roots.any(|root| std::fs::canonicalize(root).is_ok_and(|root| real.starts_with(root))) {
            return left_out(
                "it leads out of the project. Write its absolute path into your own config.toml to take it",
            );
        }
        if guard::is_secret_name(&real) || guard::is_secret_name(&path) {
            return left_out("its name says that it holds secrets");
        }
    }
    let bytes = match bounded(&real) {
        Ok(bytes) => bytes,
        Err(e) => return left_out(&e.to_string()),
    };
    let Ok(text) = Text::from_bytes(&bytes) else { return left_out("it is not a text file") };
    let text = text.canonical();
    if text.trim().is_empty() {
        return None;
    }
    let end = text.floor_char_boundary(LONGEST);
    if end == text.len() {
        return Some(out(text, None));
    }
    let note = format!(
        "Only the first {} KiB of {source} are among the instructions; it is longer.",
        LONGEST / 1024
    );
    Some(out(format!("{}\n[cut here: {source} goes on]", &text[..end]), Some(note)))
}

/// A pipe or a device would block or never end.
fn bounded(file: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(cwd: &Path) -> Folders {
        Folders { cwd: cwd.to_owned(), additional: vec![] }
    }

    fn only(cwd: &Path, configured: &[&Path]) -> Instruction {
        let configured: Vec<PathBuf> = configured.iter().map(|p| p.to_path_buf()).collect();
        let mut read = read(&folders(cwd), &configured);
        assert_eq!(read.len(), 1, "{read:?}");
        read.remove(0)
    }

    #[test]
    fn text_of_any_encoding_is_taken_and_a_long_one_is_cut_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let agents = dir.path().join("AGENTS.md");
        assert!(read(&folders(dir.path()), &[]).is_empty());
        std::fs::write(&agents, " \n").unwrap();
        assert!(read(&folders(dir.path()), &[]).is_empty());

        std::fs::write(&agents, b"R\xe9ponds en fran\xe7ais, s'il te pla\xeet, toujours.\n").unwrap();
        assert_eq!(only(dir.path(), &[]).text, "Réponds en français, s'il te plaît, toujours.\n");

        // 3 bytes each: the limit lies inside a character.
        std::fs::write(&agents, "国".repeat(20_000)).unwrap();
        let cut = only(dir.path(), &[]);
        assert_eq!(cut.text.matches('国').count(), LONGEST / 3);
        assert!(cut.text.ends_with("[cut here: AGENTS.md goes on]"), "{}", &cut.text[cut.text.len() - 60..]);
        assert_eq!(
            cut.note.as_deref(),
            Some("Only the first 32 KiB of AGENTS.md are among the instructions; it is longer.")
        );
        std::fs::write(&agents, [0u8, 159, 0, 1, 255, 0]).unwrap();
        let none = only(dir.path(), &[]);
        assert_eq!((none.text.as_str(), none.note.is_some()), ("", true));
    }

    #[cfg(unix)]
    #[test]
    fn a_project_takes_nothing_that_lies_elsewhere_is_a_secret_or_blocks() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (cwd, agents) = (dir.path(), dir.path().join("AGENTS.md"));
        let key = outside.path().join("notes.txt");
        std::fs::write(&key, "not for the model\n").unwrap();
        std::fs::write(cwd.join(".env"), "TOKEN=not for the model\n").unwrap();
        let refused = |word: &str| {
            let read = only(cwd, &[]);
            assert_eq!(read.text, "");
            let note = read.note.unwrap();
            assert!(
                note.starts_with("AGENTS.md is not among the instructions: ") && note.contains(word),
                "{note}"
            );
        };
        for (target, word) in [(key.as_path(), "out of the project"), (Path::new(".env"), "secrets")] {
            std::os::unix::fs::symlink(target, &agents).unwrap();
            refused(word);
            std::fs::remove_file(&agents).unwrap();
        }
        std::fs::create_dir(&agents).unwrap();
        refused("not a regular file");
        std::fs::remove_dir(&agents).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&agents).status().unwrap().success());
        refused("not a regular file");
        std::fs::remove_file(&agents).unwrap();

        for file in [".env", "linked.md"] {
            let _ = std::os::unix::fs::symlink(&key, cwd.join("linked.md"));
            assert_eq!(only(cwd, &[Path::new(file)]).text, "", "{file}");
        }
        // What the person names by its whole path is theirs to name.
        assert_eq!(only(cwd, &[&key]).text, "not for the model\n");
    }
}
