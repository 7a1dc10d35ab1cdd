//! Whether a command that failed did so because it was confined. What a command prints is no proof of it: a test may
//! print "Permission denied" for reasons of its own. So a refusal counts only together with what the sandbox forbids and
//! the system would not: a path named beside it, or the network where that is off.
use super::{Backend, Policy};
use crate::log::Exit;
use std::path::{Path, PathBuf};

const REFUSED: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "eperm",
    "erofs",
    "permissionerror",
    "permissiondenied",
];
/// Said of the network, where nothing else is said.
const NO_NETWORK: &[&str] = &[
    "network is unreachable",
    "temporary failure in name resolution",
    "could not resolve",
    "name or service not known",
    "no address associated",
    "enetunreach",
    "eai_again",
    "failed to lookup address",
    "getaddrinfo",
];
/// Words that make a refusal one of the network.
const OF_NETWORK: &[&str] = &["socket", "connect", "resolv", "network", "http", "dns", "bind"];
/// Lines from the end that are read, and lines before a refusal that may name its path.
const LINES: usize = 200;
const BEFORE: usize = 4;

/// The line that says so, with what the sandbox forbade.
pub(in crate::workspace) fn denial(exit: &Exit, output: &str, policy: &Policy, cwd: &Path) -> Option<String> {
    // 126 and 127: the program cannot be started, which the sandbox does not touch.
    if policy.backend == Backend::None || matches!(exit.code, None | Some(0 | 126 | 127)) {
        return None;
    }
    let lines: Vec<&str> = output.lines().rev().take(LINES).collect();
    lines.iter().enumerate().find_map(|(at, line)| {
        let lower = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|w| lower.contains(w));
        let told =
            |what: &str| Some(format!("{what}: {}", line.trim().chars().take(200).collect::<String>()));
        if lower.starts_with("bwrap: ") {
            return told("bubblewrap could not start it");
        }
        if !policy.network && has(NO_NETWORK) {
            return told("it has no network");
        }
        if !has(REFUSED) {
            return None;
        }
        let mut paths = paths(line, cwd);
        if paths.is_empty() {
            paths = before(&lines[at + 1..], cwd);
        }
        if let Some(path) = paths.iter().find(|path| forbids(policy, path)) {
            return told(&format!("{} is not for it to write", path.display()));
        }
        (paths.is_empty() && !policy.network && has(OF_NETWORK)).then(|| told("it has no network")).flatten()
    })
}

/// What the lines before a refusal without a path say that failed.
fn before(lines: &[&str], cwd: &Path) -> Vec<PathBuf> {
    const FAILED: &[&str] = &["failed to ", "cannot ", "can't ", "could not ", "couldn't ", "unable to "];
    let failed = |line: &&&str| FAILED.iter().any(|f| line.to_lowercase().contains(f));
    lines.iter().take(BEFORE).filter(failed).flat_map(|line| paths(line, cwd)).collect()
}

/// Whether the sandbox stands in the way of a write there, and the system would not.
fn forbids(policy: &Policy, path: &Path) -> bool {
    let Some(real) = real(path) else { return false };
    if real.starts_with("/dev") || real.starts_with("/proc") {
        return false;
    }
    let within = |folders: &[PathBuf]| folders.iter().any(|f| real.starts_with(f));
    let kept = policy.backend.protects_inside_roots() && within(&policy.protected);
    (!within(&policy.writable) || kept) && writable(&real)
}

/// Where a path leads, as far as it is there.
fn real(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|p| p.symlink_metadata().is_ok())?;
    let rest = path.strip_prefix(there).ok()?;
    let real = there.canonicalize().ok()?;
    Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// Whether we ourselves, who are not confined, could write there.
#[cfg(unix)]
fn writable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let there = path.ancestors().find(|p| p.symlink_metadata().is_ok());
    there.is_some_and(|p| accessat(CWD, p, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}
#[cfg(not(unix))]
fn writable(_: &Path) -> bool {
    true
}

/// What may be a path in a line: what stands in quotes, and what has a slash.
fn paths(line: &str, cwd: &Path) -> Vec<PathBuf> {
    const QUOTES: &[char] = &['\'', '"', '`', '‘', '’', '“', '”'];
    let quoted = line.split(QUOTES).skip(1).step_by(2).filter(|t| !t.is_empty() && !t.contains('\n'));
    let words = line.split(|c: char| c.is_whitespace() || QUOTES.contains(&c) || "()[]{}<>,;=".contains(c));
    let words =
        words.map(|w| w.trim_end_matches([':', '.'])).filter(|w| w.contains('/') && !w.contains("://"));
    let plain = |text: &str| {
        let path = text.trim_end_matches(':');
        (!path.is_empty() && path.len() < 1000).then(|| cwd.join(path))
    };
    quoted.chain(words).filter_map(plain).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_with_what_the_sandbox_forbids() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (ws, out) = (base.join("ws"), base.join("out"));
        for folder in [&ws, &out, &ws.join(".git/hooks")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(out.join("f"), "").unwrap();
        let policy = |backend, network| Policy {
            backend,
            writable: vec![ws.clone()],
            protected: vec![ws.join(".git/hooks")],
            network,
        };
        let (out, inside, base) = (out.display(), ws.display(), base.display());
        let failed = |code| Exit { code: Some(code), signal: None };
        let table: &[(Exit, String, bool)] = &[
            (failed(1), format!("touch: cannot touch '{out}/x': Permission denied\n"), true),
            (failed(1), "touch: cannot touch '../out/x': Permission denied\n".into(), true),
            (failed(1), "touch: cannot touch ‘../out/f’: Permission denied\n".into(), true),
            (
                failed(2),
                format!("/bin/sh: 1: cannot create {out}/x: Permission denied\nmake: *** Error 2\n"),
                true,
            ),
            (failed(1), format!("bash: line 1: {out}/x: Permission denied\n"), true),
            (
                failed(101),
                format!("error: failed to write `{out}/f`\n\nCaused by:\n  Permission denied (os error 13)"),
                true,
            ),
            (failed(1), format!("PermissionError: [Errno 13] Permission denied: '{out}/y/z'\n"), true),
            (
                failed(243),
                format!("npm error code EACCES\nnpm error syscall mkdir\nnpm error path {out}/m\n"),
                false,
            ),
            (
                failed(243),
                format!("npm error path {out}/m\nnpm error EACCES: permission denied, mkdir '{out}/m'\n"),
                true,
            ),
            (failed(1), "bwrap: setting up uid map: Permission denied\n".into(), true),
            // What a test prints of its own matter.
            (failed(1), "  File \"/usr/lib/x.py\", line 3\nPermission denied (os error 13)\n".into(), false),
            (
                failed(101),
                "thread 'denied' panicked: Permission denied (os error 13)\ntest result: FAILED\n".into(),
                false,
            ),
            (failed(1), format!("assert: '{inside}/locked' says Permission denied\n"), false),
            (failed(1), "expected \"permission denied\", got \"operation not permitted\"\n".into(), false),
            (failed(1), "test result: FAILED. 1 passed; 1 failed\n".into(), false),
            (failed(1), "cat: /proc/1/mem: Permission denied\n".into(), false),
            (failed(0), format!("find: '{out}/x': Permission denied\n"), false),
            (failed(126), format!("bash: {out}/f: Permission denied\n"), false),
            (Exit { code: None, signal: Some("SIGSYS".into()) }, String::new(), false),
            (failed(1), format!("touch: cannot touch '{inside}/.git/hooks/x': Permission denied"), false),
            (failed(1), format!("{base}x/none/such: no such file"), false),
        ];
        for (exit, output, expected) in table {
            let found = denial(exit, output, &policy(Backend::Landlock, true), &ws);
            assert_eq!(found.is_some(), *expected, "{output:?}: {found:?}");
        }
        let hook = format!("touch: cannot touch '{inside}/.git/hooks/x': Read-only file system");
        assert!(denial(&failed(1), &hook, &policy(Backend::Bubblewrap("b".into()), true), &ws).is_some());
        for line in [
            "curl: (6) Could not resolve host: example.com",
            "connect: Permission denied",
            "socket: Operation not permitted",
            "getaddrinfo EAI_AGAIN registry.npmjs.org",
        ] {
            assert!(denial(&failed(6), line, &policy(Backend::Landlock, false), &ws).is_some(), "{line}");
            assert!(denial(&failed(6), line, &policy(Backend::Landlock, true), &ws).is_none(), "{line}");
            assert!(denial(&failed(6), line, &policy(Backend::None, false), &ws).is_none(), "{line}");
        }
    }

    /// What the system refuses anyway, it refuses outside the sandbox too.
    #[cfg(unix)]
    #[test]
    fn what_the_system_refuses_is_not_the_sandbox() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let locked = dir.path().canonicalize().unwrap().join("locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
        let policy =
            Policy { backend: Backend::Landlock, writable: vec![], protected: vec![], network: true };
        let line = format!("touch: cannot touch '{}/x': Permission denied", locked.display());
        let found = denial(&Exit { code: Some(1), signal: None }, &line, &policy, &locked);
        // The superuser could write there.
        assert_eq!(found.is_some(), std::fs::write(locked.join("probe"), "").is_ok());
    }
}
