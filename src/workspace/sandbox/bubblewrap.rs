//! bubblewrap (bwrap(1)): the disk read-only, what may be written bound over it, a network of its own where it is off.
use super::Policy;
use std::{ffi::OsString, path::Path};

/// Devices come from a small `/dev` of its own, so `/dev/null` can be written to. The process table is the real one:
/// the helper outside ends everything, and a container may refuse to mount another.
pub(super) fn arguments(policy: &Policy, argv: Vec<OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut push = |args: &[&std::ffi::OsStr]| out.extend(args.iter().map(|a| a.to_os_string()));
    let words = |s: &'static str| std::ffi::OsStr::new(s);
    push(&[words("--die-with-parent"), words("--unshare-ipc")]);
    push(&[words("--ro-bind"), words("/"), words("/"), words("--dev"), words("/dev")]);
    if !policy.network {
        push(&[words("--unshare-net")]);
    }
    for folder in &policy.writable {
        push(&[words("--bind-try"), folder.as_os_str(), folder.as_os_str()]);
    }
    // What is missing cannot be bound without leaving an empty file behind in the project; those paths ask instead.
    for path in policy.protected.iter().filter(|p| is_there(p)) {
        push(&[words("--ro-bind"), path.as_os_str(), path.as_os_str()]);
    }
    push(&[words("--")]);
    out.extend(argv);
    out
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
