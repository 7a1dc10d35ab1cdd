//! Names that a write always asks about, and names that say that a file holds secrets.
//!
//! Compared without regard to case on every system, and without the characters that some file systems ignore: a
//! workspace may lie on a disk that folds them (CVE-2014-9390 was `.GIT/config`).
use std::path::Path;

const GIT: &str = "git runs what is written here";
const OWN: &str = "it holds the agent's own settings";
const EDITOR: &str = "the editor runs what is written here";
const SHELL: &str = "a shell runs it when it starts";
const TOOL: &str = "a tool runs or trusts what is written here";
const KEYS: &str = "it decides who may log in, or holds keys";

/// A run of components, and why it is protected. `true`: everything below it too.
const PROTECTED: &[(&[&str], bool, &str)] = &[
    (&[".git"], false, GIT),
    (&[".git", "hooks"], true, GIT),
    (&[".git", "config"], false, GIT),
    (&[".git", "config.worktree"], false, GIT),
    (&[".git", "info", "attributes"], false, GIT),
    (&[".git", "modules"], true, GIT),
    (&[".git", "worktrees"], true, GIT),
    (&[".gitmodules"], false, GIT),
    (&[".gitconfig"], false, GIT),
    (&[".config", "git"], true, GIT),
    (&[".husky"], true, GIT),
    (&[".hermes-editor"], true, OWN),
    (&["hermes-editor", "config.toml"], false, OWN),
    (&[".vscode", "tasks.json"], false, EDITOR),
    (&[".vscode", "settings.json"], false, EDITOR),
    (&[".vscode", "launch.json"], false, EDITOR),
    (&[".vscode", "mcp.json"], false, EDITOR),
    (&[".vscode", "extensions.json"], false, EDITOR),
    (&[".idea"], true, EDITOR),
    (&[".zed"], true, EDITOR),
    (&[".nvim.lua"], false, EDITOR),
    (&[".nvimrc"], false, EDITOR),
    (&[".exrc"], false, EDITOR),
    (&[".vimrc"], false, EDITOR),
    (&[".dir-locals.el"], false, EDITOR),
    (&[".dir-locals-2.el"], false, EDITOR),
    (&[".emacs.d"], true, EDITOR),
    (&[".emacs"], false, EDITOR),
    (&[".devcontainer"], true, EDITOR),
    (&[".bashrc"], false, SHELL),
    (&[".bash_profile"], false, SHELL),
    (&[".bash_login"], false, SHELL),
    (&[".bash_logout"], false, SHELL),
    (&[".bash_aliases"], false, SHELL),
    (&[".profile"], false, SHELL),
    (&[".zshrc"], false, SHELL),
    (&[".zshenv"], false, SHELL),
    (&[".zprofile"], false, SHELL),
    (&[".zlogin"], false, SHELL),
    (&[".zlogout"], false, SHELL),
    (&[".kshrc"], false, SHELL),
    (&[".cshrc"], false, SHELL),
    (&[".tcshrc"], false, SHELL),
    (&[".inputrc"], false, SHELL),
    (&[".config", "fish"], true, SHELL),
    (&[".xprofile"], false, SHELL),
    (&[".xinitrc"], false, SHELL),
    (&[".envrc"], false, SHELL),
    (&[".config", "autostart"], true, SHELL),
    (&[".config", "systemd"], true, SHELL),
    (&["library", "launchagents"], true, SHELL),
    (&[".ssh"], true, KEYS),
    (&[".gnupg"], true, KEYS),
    (&[".aws"], true, KEYS),
    (&[".kube"], true, KEYS),
    (&[".docker", "config.json"], false, KEYS),
    (&[".mcp.json"], false, TOOL),
    (&[".ripgreprc"], false, TOOL),
    (&[".npmrc"], false, TOOL),
    (&[".yarnrc"], false, TOOL),
    (&[".yarnrc.yml"], false, TOOL),
    (&[".pypirc"], false, TOOL),
    (&[".netrc"], false, TOOL),
    (&[".cargo", "config"], false, TOOL),
    (&[".cargo", "config.toml"], false, TOOL),
    (&[".claude"], true, TOOL),
    (&[".codex"], true, TOOL),
];

/// Of these, what a sandbox is told to keep read-only below a root.
pub(super) const BELOW_ROOT: &[&str] = &[
    ".git/hooks",
    ".git/config",
    ".hermes-editor",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".idea",
    ".zed",
    ".envrc",
    ".mcp.json",
];

/// Why a write to this path always asks.
pub(super) fn protected(path: &Path) -> Option<&'static str> {
    let names = folded(path);
    PROTECTED.iter().find(|(run, below, _)| holds(&names, run, *below)).map(|(.., why)| *why)
}

/// Whether the run ends the path; or, with `below`, lies anywhere in it.
fn holds(names: &[String], run: &[&str], below: bool) -> bool {
    let at = |start: usize| names[start..].iter().zip(run).all(|(a, b)| a == b);
    if names.len() < run.len() {
        return false;
    }
    if below { (0..=names.len() - run.len()).any(at) } else { at(names.len() - run.len()) }
}

const SECRET_NAMES: &[&str] = &[
    ".npmrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "service-account.json",
    "kubeconfig",
    "shadow",
    "gshadow",
    "terraform.tfstate",
];
const SECRET_ENDS: &[&str] =
    &[".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".ovpn", ".tfvars"];
const SECRET_FOLDERS: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube", ".azure", ".password-store"];
const OPEN_ENDS: &[&str] = &["example", "sample", "template", "dist", "defaults", "schema"];

/// Whether the name says that the file holds secrets.
pub(super) fn secret(path: &Path) -> bool {
    let names = folded(path);
    let Some(name) = names.last() else { return false };
    let name = &crate::permit::shell::original(name).to_owned();
    let open = name.rsplit('.').next().is_some_and(|end| OPEN_ENDS.contains(&end));
    if name == ".env"
        || name == ".envrc"
        || [".env.", ".env-", ".env_"].iter().any(|start| name.starts_with(start))
    {
        return !open;
    }
    if name.ends_with(".env") || name.starts_with("id_") && !name.ends_with(".pub") && is_ssh_key(name) {
        return !open;
    }
    let below = &names[..names.len() - 1];
    SECRET_NAMES.contains(&name.as_str())
        || SECRET_ENDS.iter().any(|end| name.ends_with(end) && name.len() > end.len())
        || (below.iter().any(|f| SECRET_FOLDERS.contains(&f.as_str())) && !name.ends_with(".pub"))
        || (name == "config.json" && below.last().is_some_and(|f| f == ".docker"))
        || (name == "environ" && names.first().is_some_and(|n| n == "proc"))
}

fn is_ssh_key(name: &str) -> bool {
    ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss"].iter().any(|k| name.starts_with(k))
}

/// The normal components, as a disk that folds names would compare them.
fn folded(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|c| match c {
            std::path::Component::Normal(name) => Some(fold(&name.to_string_lossy())),
            _ => None,
        })
        .collect()
}

fn fold(name: &str) -> String {
    // HFS+ ignores these in names; NTFS ignores trailing dots and spaces, what follows a colon, and knows short names.
    let ignored = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let name: String = name.chars().filter(|c| !ignored(*c)).flat_map(char::to_lowercase).collect();
    let name = name.trim_end_matches(['.', ' ']);
    let name = match name.split_once("::$") {
        Some((head, _)) => head,
        None => name,
    };
    if name == "git~1" { ".git".into() } else { name.to_owned() }
}
