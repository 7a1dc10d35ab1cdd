//! Paths as a command names them: inside the roots or not, secret-like, or planted to run later.
//!
//! Pure: symbolic links are for the guard, which gets every literal path of [`super::Assessment::reads`].

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` without looking at the disk.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for c in path.components() {
        match c {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            c => out.push(c),
        }
    }
    out
}

pub(super) fn inside(path: &Path, roots: &[PathBuf]) -> bool {
    let path = normalize(path);
    roots.iter().any(|r| path.starts_with(r))
}

/// Files that are read by programs and hold no data of their own.
pub(super) fn is_stream(path: &Path) -> bool {
    matches!(
        path.to_str(),
        Some(
            "/dev/null"
                | "/dev/stdin"
                | "/dev/stdout"
                | "/dev/stderr"
                | "/dev/zero"
                | "/dev/fd/0"
                | "/dev/fd/1"
                | "/dev/fd/2"
        )
    )
}

/// Whether a path's name says that it holds secrets: keys, tokens, passwords, the environment of a process.
pub fn secret_like(path: &Path) -> bool {
    let folders =
        [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".gcloud", "gcloud"];
    let lower = path.to_string_lossy().to_lowercase();
    let path = Path::new(&lower);
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return false };
    let in_folder = path.components().any(|c| c.as_os_str().to_str().is_some_and(|c| folders.contains(&c)));
    let public = name.ends_with(".pub") || name == "known_hosts" && in_folder;
    in_folder && !public || name_is_secret(name) || in_proc(&lower)
}

fn in_proc(path: &str) -> bool {
    path.strip_prefix("/proc/").is_some_and(|rest| {
        ["/environ", "/mem", "/maps", "/cmdline", "/fd"].iter().any(|part| rest.contains(part))
    })
}

const SECRET_NAMES: &[&str] = &[
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".dockerconfigjson",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yml",
    "credentials.yaml",
    "secrets.json",
    "secrets.toml",
    "secrets.yml",
    "secrets.yaml",
    "secret.json",
    "secret.yml",
    "secret.yaml",
    "token.json",
    "tokens.json",
    "auth.json",
    "kubeconfig",
    "master.key",
    "shadow",
    "gshadow",
    "sudoers",
    ".vault-token",
    ".s3cfg",
    ".boto",
    "application_default_credentials.json",
    ".envrc",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    "terraform.tfvars",
];

const SECRET_ENDS: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".ovpn",
    ".asc",
    ".gpg",
    ".tfstate",
    ".tfstate.backup",
    ".age",
];

const SAMPLE_ENDS: &[&str] = &["example", "sample", "template", "dist", "defaults", "schema"];

/// A name without what editors and people add to a copy: `.env~`, `key.pem.bak`, `#.env#`.
pub fn original(name: &str) -> &str {
    let mut rest = name.trim_end_matches(['~', '#']);
    rest = rest.strip_prefix('#').or_else(|| rest.strip_prefix(".#")).unwrap_or(rest);
    const ENDS: &[&str] =
        &[".bak", ".backup", ".old", ".orig", ".save", ".copy", ".swp", ".tmp", ".gz", ".1"];
    while let Some(shorter) = ENDS.iter().find_map(|end| rest.strip_suffix(end)).filter(|r| !r.is_empty()) {
        rest = shorter;
    }
    rest
}

fn name_is_secret(name: &str) -> bool {
    let name = original(name);
    let env = name == ".env"
        || name == "env.local"
        || [".env.", ".env-", ".env_"].iter().any(|start| name.starts_with(start))
        || name.ends_with(".env");
    let sample = name.rsplit('.').next().is_some_and(|e| SAMPLE_ENDS.contains(&e));
    let key = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|k| name.starts_with(k))
        && !name.ends_with(".pub");
    let account =
        name.ends_with(".json") && (name.contains("service-account") || name.contains("service_account"));
    env && !sample
        || key
        || account
        || SECRET_NAMES.contains(&name)
        || SECRET_ENDS.iter().any(|e| name.ends_with(e))
}

/// Whether a pattern of file names was made for secret ones (`.e*`, `id_*`, `*.pem`).
pub(super) fn secret_glob(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or(text).to_lowercase();
    let plain: String = name.chars().filter(|c| !"*?[]".contains(*c)).collect();
    let head: String = name.chars().take_while(|c| !"*?[".contains(*c)).collect();
    let samples = ["id_rsa", "id_ed25519", "credentials", "secrets.", "service-account"];
    let named = head.len() > 1 && samples.iter().any(|s| s.starts_with(&head));
    head.starts_with('.') && ".env.netrc.npmrc.pypirc.pgpass".contains(&head) && head != name
        || named
        || name_is_secret(&plain)
        || secret_like(Path::new(&plain))
}

const STARTUP_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".inputrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".kshrc",
    "config.fish",
    ".xinitrc",
    ".xprofile",
    ".envrc",
    ".vimrc",
    "init.vim",
    ".emacs",
    ".tmux.conf",
    ".screenrc",
];

const TOOL_SETTINGS: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".mcp.json",
    "authorized_keys",
    "known_hosts",
    "pip.conf",
    ".netrc",
];

const RUN_LATER: &[(&str, &str)] = &[
    (".ssh", "it holds keys"),
    (".gnupg", "it holds keys"),
    (".aws", "it holds keys"),
    (".kube", "it holds keys"),
    (".vscode", "the editor runs what stands there"),
    (".idea", "the editor runs what stands there"),
    (".zed", "the editor runs what stands there"),
    (".fleet", "the editor runs what stands there"),
    (".devcontainer", "the editor runs what stands there"),
    (".claude", "an agent obeys what stands there"),
    (".codex", "an agent obeys what stands there"),
    (".cursor", "an agent obeys what stands there"),
    (".gemini", "an agent obeys what stands there"),
    (".windsurf", "an agent obeys what stands there"),
    (".hermes", "an agent obeys what stands there"),
    (".hermes-editor", "an agent obeys what stands there"),
    (".husky", "git runs what stands there"),
    ("autostart", "it is run at login"),
    ("launchagents", "it is run at login"),
    ("launchdaemons", "it is run at login"),
];

/// Why writing there plants something that runs later, or changes the system; `None` for an ordinary file.
pub(super) fn protected(path: &Path, roots: &[PathBuf]) -> Option<&'static str> {
    let lower = path.to_string_lossy().to_lowercase();
    let parts: Vec<&str> = lower.split('/').filter(|p| !p.is_empty()).collect();
    let name = *parts.last()?;
    let git = parts.iter().position(|p| *p == ".git").map(|i| &parts[i + 1..]);
    let in_git =
        git.is_some_and(|rest| rest.is_empty() || ["hooks", "config", "info", "modules"].contains(&rest[0]));
    let cargo = parts.windows(2).any(|w| w[0] == ".cargo" && w[1].starts_with("config"));
    let systemd = parts.windows(2).any(|w| w[0] == "systemd" && ["user", "system"].contains(&w[1]));
    let system =
        ["/etc/", "/usr/", "/bin/", "/sbin/", "/lib", "/boot/", "/sys/", "/proc/", "/var/spool/", "/system/"];
    if STARTUP_FILES.contains(&name) {
        return Some("a shell or an editor runs it at start");
    }
    if TOOL_SETTINGS.contains(&name) || cargo {
        return Some("a tool takes its settings from there");
    }
    if in_git {
        return Some("git runs what stands there");
    }
    if parts
        .windows(2)
        .any(|w| ["share", ".config", "application support"].contains(&w[0]) && w[1] == "hermes-editor")
    {
        return Some("our own settings stand there");
    }
    if systemd {
        return Some("it is run at login");
    }
    if lower.starts_with("/dev/") && !is_stream(path) && lower != "/dev/tty" && !lower.starts_with("/dev/fd/")
    {
        return Some("it is a device");
    }
    if system.iter().any(|s| lower.starts_with(s)) && !inside(path, roots) {
        return Some("it belongs to the system");
    }
    let folders = parts.split_last().map_or(&[][..], |(_, f)| f);
    RUN_LATER.iter().find(|(f, _)| folders.contains(f)).map(|(_, why)| *why)
}
