//! Landlock and seccomp, applied to the process that becomes the command (landlock(7), seccomp(2)).
use super::Policy;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{collections::BTreeMap, io::Error};

const RIGHTS: ABI = ABI::V6;

/// Files outside the writable folders that everything writes to.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];
const DEVICE_FOLDERS: &[&str] = &["/dev/pts", "/dev/shm", "/dev/mqueue"];

/// Confines this thread and all it starts; cannot be undone. The process must have no other threads.
pub(super) fn confine(policy: &Policy) -> std::io::Result<()> {
    files(policy).map_err(|e| Error::other(format!("Landlock: {e}")))?;
    if !policy.network {
        no_network()?;
    }
    Ok(())
}

fn files(policy: &Policy) -> Result<(), Box<dyn std::error::Error>> {
    let write = AccessFs::from_write(RIGHTS);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?;
    for folder in policy.writable.iter().map(|p| p.as_path()).chain(DEVICE_FOLDERS.iter().map(|p| p.as_ref()))
    {
        // A cache that is not there needs no right.
        if let Ok(fd) = PathFd::new(folder) {
            let access = if folder.is_dir() { write } else { write & AccessFs::from_file(RIGHTS) };
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    for device in DEVICES {
        if let Ok(fd) = PathFd::new(device) {
            rules = rules.add_rule(PathBeneath::new(fd, write & AccessFs::from_file(RIGHTS)))?;
        }
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel does not enforce it".into()),
        _ => Ok(()),
    }
}

#[cfg(target_arch = "x86_64")]
mod calls {
    pub const SOCKET: i64 = 41;
    pub const CONNECT: i64 = 42;
    pub const IO_URING_SETUP: i64 = 425;
    /// The x32 ABI numbers the same calls with this bit.
    pub const ALSO: &[i64] = &[0x4000_0000];
}
#[cfg(not(target_arch = "x86_64"))]
mod calls {
    // The numbers of the generic table (aarch64, riscv64).
    pub const SOCKET: i64 = 198;
    pub const CONNECT: i64 = 203;
    pub const IO_URING_SETUP: i64 = 425;
    pub const ALSO: &[i64] = &[];
}

/// Unix and netlink sockets may be made (name look-ups, `socketpair`), the rest not; nothing may be connected to by name,
/// since a Unix socket can be a way to a daemon that does what the command may not. io_uring would go round the filter.
fn no_network() -> std::io::Result<()> {
    const AF_UNIX: u64 = 1;
    const AF_NETLINK: u64 = 16;
    const EACCES: u32 = 13;
    let fail = |e: seccompiler::BackendError| Error::other(format!("seccomp: {e}"));
    let domain_is_not = |domain| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, domain);
    let other_domains = || -> Result<SeccompRule, seccompiler::BackendError> {
        SeccompRule::new(vec![domain_is_not(AF_UNIX)?, domain_is_not(AF_NETLINK)?])
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for bit in std::iter::once(&0).chain(calls::ALSO) {
        rules.insert(calls::SOCKET | bit, vec![other_domains().map_err(fail)?]);
        rules.insert(calls::CONNECT | bit, Vec::new());
        rules.insert(calls::IO_URING_SETUP | bit, Vec::new());
    }
    let arch = std::env::consts::ARCH.try_into().map_err(fail)?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EACCES), arch).map_err(fail)?;
    let program: BpfProgram = filter.try_into().map_err(fail)?;
    seccompiler::apply_filter(&program).map_err(|e| Error::other(format!("seccomp: {e}")))
}
