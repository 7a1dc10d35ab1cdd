//! Programs that run other programs, and where in their arguments the inner command may begin.

/// Programs that run the program named in their arguments, and how many operands stand before it.
const WRAPPERS: &[(&str, usize)] = &[
    ("env", 0),
    ("nice", 0),
    ("ionice", 0),
    ("timeout", 1),
    ("gtimeout", 1),
    ("time", 0),
    ("nohup", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("command", 0),
    ("builtin", 0),
    ("exec", 0),
    ("xargs", 0),
    ("gxargs", 0),
    ("parallel", 0),
    ("watch", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("perf", 1),
    ("unshare", 0),
    ("chroot", 1),
    ("nsenter", 0),
    ("taskset", 1),
    ("chrt", 1),
    ("flock", 1),
    ("busybox", 0),
    ("toybox", 0),
    ("caffeinate", 0),
    ("coproc", 0),
    ("unbuffer", 0),
    ("proxychains", 0),
    ("proxychains4", 0),
    ("firejail", 0),
    ("bwrap", 9),
    ("torsocks", 0),
    ("faketime", 1),
    ("direnv", 2),
    ("entr", 0),
    ("hyperfine", 0),
    ("npx", 0),
    ("bunx", 0),
    ("systemd-run", 0),
    ("ssh", 1),
    ("tmux", 9),
    ("screen", 9),
    ("script", 0),
    ("valgrind", 0),
    ("xvfb-run", 0),
    ("wsl", 0),
    ("setarch", 1),
    ("dbus-run-session", 0),
    ("catchsegv", 0),
    ("numactl", 0),
    ("cgexec", 0),
    ("chpst", 0),
    ("setpriv", 0),
    ("rlwrap", 0),
    ("script", 0),
    ("then", 0),
    ("do", 0),
    ("else", 0),
    ("!", 0),
    ("{", 0),
    ("function", 1),
];

/// Subcommands that run a program: what follows them is a command, after that many operands.
const RUNNERS: &[(&str, &str, usize)] = &[
    ("docker", "exec", 1),
    ("docker", "run", 1),
    ("docker", "compose", 3),
    ("podman", "exec", 1),
    ("podman", "run", 1),
    ("nerdctl", "exec", 1),
    ("kubectl", "exec", 1),
    ("kubectl", "run", 1),
    ("oc", "exec", 1),
    ("npm", "exec", 0),
    ("pnpm", "exec", 0),
    ("pnpm", "dlx", 0),
    ("yarn", "dlx", 0),
    ("yarn", "exec", 0),
    ("bundle", "exec", 0),
    ("uv", "run", 0),
    ("poetry", "run", 0),
    ("pipenv", "run", 0),
    ("pdm", "run", 0),
    ("rye", "run", 0),
    ("hatch", "run", 0),
    ("conda", "run", 0),
    ("mise", "exec", 0),
    ("asdf", "exec", 0),
    ("nix", "develop", 9),
    ("nix", "shell", 9),
    ("nix-shell", "--run", 0),
    ("rustup", "run", 1),
    ("docker-compose", "exec", 1),
    ("find", "-exec", 0),
    ("find", "-execdir", 0),
    ("find", "-ok", 0),
    ("find", "-okdir", 0),
    ("gfind", "-exec", 0),
    ("fd", "-x", 0),
    ("fd", "-X", 0),
    ("fd", "--exec", 0),
    ("fd", "--exec-batch", 0),
    ("fdfind", "-x", 0),
    ("fdfind", "-X", 0),
    ("fdfind", "--exec", 0),
    ("vagrant", "ssh", 0),
    ("lxc", "exec", 1),
    ("adb", "shell", 0),
    ("gcloud", "ssh", 1),
    ("go", "-exec", 0),
    ("cargo", "--", 0),
    ("sudo", "--", 0),
    ("direnv", "exec", 1),
];

/// Whether a program is known to run the program named in its arguments.
pub(super) fn wraps(name: &str) -> bool {
    WRAPPERS.iter().any(|(w, _)| *w == name) || RUNNERS.iter().any(|(w, _, _)| *w == name)
}

/// Scripts handed over as one argument (`ssh host 'rm -rf x'`).
pub(super) fn quoted_scripts(args: &[String]) -> Option<String> {
    args.iter().filter(|a| a.contains([' ', '\t', '\n', ';'])).find_map(|a| super::scan::script(a))
}

/// Where inner commands may start. A word after an option may be its value or the command: both are tried.
pub(super) fn inner_commands<'a>(name: &str, args: &'a [String]) -> Vec<&'a [String]> {
    let mut found = vec![];
    if let Some((_, skip)) = WRAPPERS.iter().find(|(w, _)| *w == name) {
        starts(args, *skip, &mut found);
    }
    for (_, verb, skip) in RUNNERS.iter().filter(|(w, _, _)| *w == name) {
        for at in args.iter().enumerate().filter(|(_, a)| a == verb).map(|(i, _)| i + 1).take(16) {
            starts(args.get(at..).unwrap_or(&[]), *skip, &mut found);
        }
    }
    found
}

fn starts<'a>(args: &'a [String], skip: usize, found: &mut Vec<&'a [String]>) {
    let (mut left, mut after_option) = (skip, false);
    for (i, arg) in args.iter().enumerate().take(64) {
        let option = arg.starts_with('-') || arg.starts_with('+');
        let passed = super::cook::assignment(arg).is_some();
        if !option && !passed {
            found.push(&args[i..]);
            if !after_option {
                if left == 0 {
                    return;
                }
                left -= 1;
            }
        }
        after_option = option && !arg.contains('=') && arg != "--";
    }
}
