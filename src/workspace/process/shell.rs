//! Which shell runs commands: bash, since the verdicts on commands are for it.
use crate::effects::WsPath;
use std::path::{Path, PathBuf};

#[cfg(unix)]
pub(crate) fn find() -> PathBuf {
    let bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash"];
    let found = bash.iter().map(PathBuf::from).find(|p| p.is_file());
    found.unwrap_or_else(|| "/bin/sh".into())
}

/// Git for Windows's: on `PATH`, beside the `git` that is there, or where it is installed for all. Never the one in the
/// system's folder, which runs in another machine (WSL).
#[cfg(windows)]
pub(crate) fn find() -> PathBuf {
    let system = std::env::var_os("SystemRoot").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|f| f.is_absolute() && !system.as_ref().is_some_and(|s| below(f, s)))
        .filter(|f| !f.to_string_lossy().contains("WindowsApps"))
        .collect();
    let on_path = folders.iter().map(|f| f.join("bash.exe"));
    let with_git = folders.iter().filter(|f| f.join("git.exe").is_file()).filter_map(|f| f.parent());
    let installed = ["ProgramFiles", "ProgramW6432"].iter().filter_map(std::env::var_os);
    let places = with_git.map(Path::to_path_buf).chain(installed.map(|p| PathBuf::from(p).join("Git")));
    let all = on_path.chain(places.map(|p| p.join("bin").join("bash.exe")));
    all.into_iter().find(|p| p.is_file()).unwrap_or_else(|| "bash.exe".into())
}

#[cfg(windows)]
fn below(folder: &Path, above: &Path) -> bool {
    let lower = |p: &Path| PathBuf::from(p.to_string_lossy().to_lowercase());
    lower(folder).starts_with(lower(above))
}

/// Why no command can be run with this shell.
pub(crate) fn refusal(shell: &Path) -> Option<&'static str> {
    let missing = cfg!(windows) && !(shell.is_absolute() && shell.is_file());
    missing.then_some(
        "there is no bash: install Git for Windows (https://gitforwindows.org) and start the editor again; \
         cmd.exe and PowerShell are not used, because what commands do can be judged for bash alone",
    )
}

/// The folder to start a command in. On Windows programs do not take the canonical form (`\\?\C:\…`) as theirs.
pub(super) fn folder(cwd: &WsPath) -> PathBuf {
    match cwd.real().to_str().and_then(|real| real.strip_prefix(r"\\?\")) {
        Some(plain) if cfg!(windows) && plain.as_bytes().get(1) == Some(&b':') => plain.into(),
        _ => cwd.real().to_path_buf(),
    }
}
