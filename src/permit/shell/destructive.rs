//! Commands that destroy work, reach outside for code or plant something: never remembered, always asked.
//!
//! Looked for on every piece found, whatever stands around it, and behind every wrapper. A false alarm costs one
//! question; so names decide, not proofs.

use std::cell::Cell;

use super::git_destructive::git;
use super::wrappers::{inner_commands, quoted_scripts, wraps};

/// Most commands looked into, wrappers and scripts inside included.
const MAX_DEPTH: usize = 8;
const MAX_LOOKS: usize = 4000;

thread_local! {
    /// How deep the look-through is, and how many looks were taken since [`reset`].
    static LOOKS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Starts the count of a new command line.
pub(super) fn reset() {
    LOOKS.set((0, 0));
}

/// Runs a look one level down; too deep or too many is an answer of its own.
pub(super) fn deeper(look: impl FnOnce() -> Option<String>) -> Option<String> {
    let (depth, looks) = LOOKS.get();
    if depth >= MAX_DEPTH || looks >= MAX_LOOKS {
        return Some("it is nested too deep to check".into());
    }
    LOOKS.set((depth + 1, looks + 1));
    let found = look();
    LOOKS.set((depth, LOOKS.get().1));
    found
}

/// Programs that run whatever they are told as another user.
const ELEVATING: &[&str] =
    &["sudo", "doas", "su", "pkexec", "run0", "runuser", "sudoedit", "gosu", "su-exec"];

pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "mksh", "fish", "ash", "csh", "tcsh", "rbash", "yash", "nu", "elvish",
];

/// Whether a program takes code from its standard input or its arguments.
pub(super) fn interpreter(program: &str) -> bool {
    let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    SHELLS.contains(&program)
        || [
            "python",
            "perl",
            "ruby",
            "node",
            "php",
            "lua",
            "osascript",
            "tclsh",
            "Rscript",
            "julia",
            "deno",
            "bun",
            "pwsh",
        ]
        .contains(&base)
}

/// The last component: `/bin/rm` and `rm` do the same harm.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Why running this destroys; `None` when it is not known to.
pub(super) fn destroys(argv: &[String]) -> Option<String> {
    deeper(|| {
        let (program, args) = argv.split_first()?;
        let name = base(program);
        direct(name, args).or_else(|| {
            let inner = inner_commands(name, args)
                .into_iter()
                .find_map(|a| unseen(name, a).or_else(|| destroys(a)))
                .or_else(|| wraps(name).then(|| quoted_scripts(args)).flatten())?;
            Some(format!("behind `{name}`, {inner}"))
        })
    })
}

/// Inner commands whose operands come from elsewhere (`xargs rm`, `find -exec rm`).
fn unseen(wrapper: &str, argv: &[String]) -> Option<String> {
    let feeding = ["xargs", "gxargs", "parallel", "find", "fd", "fdfind", "entr"].contains(&wrapper);
    let name = base(argv.first()?);
    (feeding
        && ["rm", "unlink", "rmdir", "mv", "shred", "truncate", "chmod", "chown", "kill"].contains(&name))
    .then(|| format!("`{name}` takes its operands from what is found, unseen"))
    .or_else(|| (feeding && interpreter(name)).then(|| format!("`{name}` runs what is found, unseen")))
}

fn has(args: &[String], short: &str, long: &[&str]) -> bool {
    let options = args.iter().take_while(|a| *a != "--");
    options.into_iter().any(|a| match a.strip_prefix("--") {
        // GNU accepts any unambiguous beginning of a long option.
        Some(body) => {
            let name = body.split('=').next().unwrap_or(body);
            !name.is_empty() && long.iter().any(|l| l.starts_with(name) && (name.len() > 1 || l.len() == 1))
        }
        None => a.len() > 1 && a.starts_with('-') && a[1..].chars().any(|c| short.contains(c)),
    })
}

fn operands(args: &[String]) -> Vec<&str> {
    let mut over = false;
    let keep = |a: &&String| {
        let dashes = *a == "--" && !over;
        over |= dashes;
        !dashes && (over || !a.starts_with('-') || *a == "-")
    };
    args.iter().filter(keep).map(String::as_str).collect()
}

fn say(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn direct(name: &str, args: &[String]) -> Option<String> {
    let first = operands(args).first().copied().unwrap_or("");
    if ELEVATING.contains(&name) {
        return Some(format!("`{name}` runs it as another user"));
    }
    match name {
        "git" => git(args),
        "rm" | "grm" | "srm" | "trash-empty" => remove(args),
        "find" | "gfind" if args.iter().any(|a| a == "-delete") => {
            say("`find -delete` deletes all that it finds")
        }
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "xattr" => modes(name, args),
        "mv" | "cp" | "ln" | "install" => moves(name, args),
        "kill" | "killall" | "pkill" | "killall5" | "xkill" | "taskkill" => kills(name, args),
        "rsync" | "rclone" | "robocopy" => mirrors(name, args),
        "crontab" if !(has(args, "l", &[]) && args.len() == 1) => say("`crontab` changes what runs later"),
        "at" | "batch" if first != "-l" => say("it plants a command that runs later"),
        "dd" if args.iter().any(|a| a.starts_with("of=")) => say("`dd` overwrites its target"),
        "eval" => super::scan::script(&args.join(" ")),
        "trap" => super::scan::script(args.first()?),
        _ if SHELLS.contains(&name) => shell_script(args),
        _ if interpreter(name) && args.iter().any(|a| code(a)) => say("its code deletes files"),
        "tar" if has(args, "", &["remove-files", "recursive-unlink"]) => say("`tar` deletes what it packed"),
        "fuser" if has(args, "k", &["kill"]) => say("`fuser -k` ends processes"),
        "history" if has(args, "c", &[]) => say("it clears the history"),
        "loginctl" | "systemctl" | "service" | "launchctl" | "rc-service" | "initctl" | "sc" => {
            services(name, args)
        }
        "iptables" | "ip6tables" | "nft" | "ufw" | "pfctl" | "firewall-cmd" => say("it changes the firewall"),
        "zpool" | "zfs" | "lvm" | "btrfs" | "diskutil" | "mdadm" | "dmsetup" => storage(args),
        _ if disk(name) => Some(format!("`{name}` overwrites a disk or a file for good")),
        "init" | "telinit" if ["0", "1", "6"].contains(&first) => say("it stops the machine"),
        "format" if first.ends_with(':') => say("it formats a disk"),
        _ if system(name) => Some(format!("`{name}` changes the whole system")),
        _ => super::destructive_remote::remote(name, args),
    }
}

/// `sh -c script`; the option may be joined with others (`-lc`).
fn shell_script(args: &[String]) -> Option<String> {
    let at = args.iter().position(|a| a.starts_with('-') && !a.starts_with("--") && a.contains('c'))?;
    args.get(at + 1..)?.iter().find_map(|a| super::scan::script(a))
}

/// Whether program text calls something that deletes.
pub(super) fn code(text: &str) -> bool {
    const CALLS: &[&str] = &[
        "rmtree",
        "rmSync",
        "rmdirSync",
        "unlinkSync",
        "rm_rf",
        "rm_r",
        "remove_tree",
        "os.remove",
        "os.unlink",
        "os.rmdir",
        "File.delete",
        "FileUtils.rm",
        "unlink(",
        "unlink ",
        "rm -r",
        "rm -f",
        "removeSync",
        "truncateSync",
        "fs.rm(",
        "fs.unlink",
        ".unlink()",
        ".rmdir()",
        "deleteSync",
        "Remove-Item",
        "dropDatabase",
        "drop_all",
        "Deno.remove",
    ];
    CALLS.iter().any(|c| text.contains(c))
}

fn disk(name: &str) -> bool {
    name.starts_with("mkfs")
        || [
            "shred",
            "wipe",
            "wipefs",
            "fdisk",
            "sfdisk",
            "cfdisk",
            "gdisk",
            "sgdisk",
            "parted",
            "mkswap",
            "blkdiscard",
            "cryptsetup",
            "truncate",
            "lvremove",
            "vgremove",
            "pvremove",
            "hdparm",
            "badblocks",
            "newfs",
            "fallocate",
            "nvme",
            "mke2fs",
            "scrub",
        ]
        .contains(&name)
}

fn system(name: &str) -> bool {
    [
        "shutdown",
        "reboot",
        "halt",
        "poweroff",
        "userdel",
        "usermod",
        "useradd",
        "adduser",
        "deluser",
        "groupdel",
        "passwd",
        "chpasswd",
        "visudo",
        "vipw",
        "swapoff",
        "umount",
        "rmmod",
        "insmod",
        "modprobe",
        "sysctl",
        "update-grub",
        "grub-install",
        "kexec",
        "dropdb",
        "dropuser",
        "pg_dropcluster",
        "mysqladmin",
        "bcdedit",
        "setenforce",
        "csrutil",
        "nvram",
        "efibootmgr",
        "update-rc.d",
        "chkconfig",
    ]
    .contains(&name)
}

fn remove(args: &[String]) -> Option<String> {
    if has(args, "rR", &["recursive"]) {
        return say("`rm` deletes whole folders");
    }
    if has(args, "", &["no-preserve-root"]) {
        return say("`rm` without its safeguard");
    }
    let vague =
        |o: &&str| o.contains(['*', '?', '$', '`', '[']) || o.starts_with('/') && o.matches('/').count() < 3;
    operands(args).iter().find(|o| vague(o)).map(|o| format!("`rm {o}` deletes files that are not named"))
}

fn modes(name: &str, args: &[String]) -> Option<String> {
    if has(args, "R", &["recursive"]) {
        return Some(format!("`{name} -R` changes a whole folder, without a way back"));
    }
    let special = |m: &str| {
        let set = m.contains("+s") || m.contains("=s") || m.contains("u+s");
        let octal = m.len() == 4
            && m.bytes().all(|b| (b'0'..b'8').contains(&b))
            && matches!(m.as_bytes()[0], b'2'..=b'7');
        set || octal || ["000", "0", "0000", "a-rwx", "-r", "a-r"].contains(&m)
    };
    (name == "chmod" && args.iter().any(|a| special(a)))
        .then(|| "`chmod` gives or takes more than it should".to_owned())
}

fn moves(name: &str, args: &[String]) -> Option<String> {
    let operands = operands(args);
    let last = operands.last().copied().unwrap_or("");
    if name == "mv" && last == "/dev/null" {
        return say("moving to /dev/null deletes");
    }
    if name == "cp"
        && operands.len() > 1
        && operands.iter().rev().skip(1).any(|o| *o == "/dev/null" || *o == "/dev/zero")
    {
        return say("copying /dev/null over a file empties it");
    }
    let wide = |o: &&str| ["/", "~", "*", ".", "./*", "$HOME", "/*", "~/*"].contains(o);
    (name == "mv" && operands.iter().rev().skip(1).any(wide)).then(|| "it moves everything away".to_owned())
}

fn kills(name: &str, args: &[String]) -> Option<String> {
    if name != "kill" {
        return Some(format!("`{name}` ends processes by name"));
    }
    let listed = args.first().is_some_and(|a| a == "-l" || a == "-L");
    let all = |a: &String| a == "-1" || a == "0" || a.contains('$') || a.contains('`');
    let targets = args.iter().skip(usize::from(args.first().is_some_and(|a| a.starts_with('-')))).any(all);
    (!listed && targets).then(|| "`kill` ends every process, or ones not named".to_owned())
}

fn mirrors(name: &str, args: &[String]) -> Option<String> {
    let deletes = args.iter().any(|a| {
        a.starts_with("--del")
            || a.starts_with("--remove-s")
            || a.eq_ignore_ascii_case("/mir")
            || a.eq_ignore_ascii_case("/purge")
    });
    let verb = args.iter().any(|a| {
        ["sync", "delete", "purge", "cleanup", "rmdirs", "deletefile", "move"].contains(&a.as_str())
    });
    (deletes || name == "rclone" && verb).then(|| format!("`{name}` deletes at its target"))
}

fn services(name: &str, args: &[String]) -> Option<String> {
    const VERBS: &[&str] = &[
        "stop",
        "disable",
        "mask",
        "kill",
        "isolate",
        "poweroff",
        "reboot",
        "halt",
        "enable",
        "start",
        "restart",
        "bootout",
        "bootstrap",
        "unload",
        "load",
        "remove",
        "terminate-user",
        "kill-user",
        "suspend",
        "hibernate",
        "set-default",
        "emergency",
        "rescue",
        "delete",
        "link",
        "edit",
        "submit",
    ];
    let verb = args.iter().find(|a| VERBS.contains(&a.as_str()))?;
    Some(format!("`{name} {verb}` changes what runs on the system"))
}

fn storage(args: &[String]) -> Option<String> {
    let verbs = [
        "destroy",
        "delete",
        "remove",
        "rollback",
        "erase",
        "wipe",
        "zero",
        "subvolume",
        "eraseDisk",
        "eraseVolume",
    ];
    let verb =
        args.iter().find(|a| verbs.iter().any(|v| a.eq_ignore_ascii_case(v) || a.starts_with("--zero")))?;
    Some(format!("`{verb}` removes stored data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_options_may_be_abbreviated() {
        let args = |s: &str| s.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(has(&args("--recurs x"), "", &["recursive"]));
        assert!(has(&args("-fR x"), "rR", &[]));
        assert!(!has(&args("-- -r"), "rR", &["recursive"]));
    }
}
