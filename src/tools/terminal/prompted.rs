//! A word on commands that wanted to ask a person: what they print then is known, and what helps too.
use crate::workspace::Ran;

/// What programs print that find no terminal, or end-of-file where they expected an answer. In small letters.
const WANTED_A_PERSON: &[&str] = &[
    "/dev/tty: no such device",
    "/dev/tty: device not configured",
    "terminal prompts disabled",
    "a terminal is required",
    "no tty present",
    "is not a tty",
    "not a tty",
    "is not a terminal",
    "must be run from a terminal",
    "inappropriate ioctl for device",
    "eof when reading a line",
    "no askpass program",
    "unable to read password",
    "cannot read password",
    "host key verification failed",
    "requires an interactive",
    "cannot prompt",
    "user input required",
    "non-interactive mode",
    "aborted by user",
    "prompt aborted",
];
/// An editor was started; ours ends at once.
const WANTED_AN_EDITOR: &[&str] = &[
    "problem with the editor 'false'",
    "there was a problem with the editor",
    "editor 'false'",
    "error running editor",
];
/// Lines from the end that are looked at.
const LINES: usize = 20;
const HELP: &str = "nobody answers here: give the answer on the command line (flags such as -y, --no-input, -m TEXT) or \
    by a file or a pipe, or ask the user to run it";

/// The note for the model, where the command failed for want of a person.
pub(super) fn of(ran: &Ran) -> Option<String> {
    if ran.waiting.is_some() {
        return Some(HELP.into());
    }
    if ran.job.is_some() || ran.cancelled || !ran.timed_out && ran.exit.code == Some(0) {
        return None;
    }
    let lines: Vec<String> = ran.output.lines().rev().take(LINES).map(str::to_lowercase).collect();
    let says = |words: &[&str]| lines.iter().any(|line| words.iter().any(|w| line.contains(w)));
    if says(WANTED_AN_EDITOR) {
        return Some(
            "it wanted an editor, and there is none here: give the text on the command line (git: -m TEXT, --no-edit, or \
             GIT_SEQUENCE_EDITOR=true for a rebase as it stands)"
                .into(),
        );
    }
    if says(WANTED_A_PERSON) {
        return Some(format!("it wanted somebody to type, and {HELP}"));
    }
    let asks =
        lines.iter().find(|l| !l.trim().is_empty()).filter(|_| ran.timed_out).is_some_and(|l| is_question(l));
    asks.then(|| format!("its last line looks like a question, and {HELP}"))
}

/// `Continue? [y/N]`, `Password:`
fn is_question(line: &str) -> bool {
    let line = line.trim();
    let ends = [
        "[y/n]",
        "(y/n)",
        "(yes/no)",
        "[yes/no]",
        "(yes/no/[fingerprint])?",
        "password:",
        "passphrase:",
        "?",
    ];
    ends.iter().any(|end| line.trim_end_matches([' ', ':', '>']).ends_with(end.trim_end_matches(':')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Exit;

    #[test]
    fn what_wanted_a_person_is_told_so() {
        let ran = |code: Option<i32>, output: &str, timed_out| Ran {
            exit: Exit { code, signal: None },
            output: output.into(),
            timed_out,
            ..Ran::default()
        };
        for output in [
            "sh: 1: cannot open /dev/tty: No such device or address\n",
            "sudo: a terminal is required to read the password; either use the -S option\n",
            "the input device is not a TTY\n",
            "EOFError: EOF when reading a line\n",
            "Host key verification failed.\nfatal: Could not read from remote repository.\n",
        ] {
            assert!(
                of(&ran(Some(1), output, false)).is_some_and(|n| n.contains("nobody answers")),
                "{output}"
            );
            assert_eq!(of(&ran(Some(0), output, false)), None);
        }
        let commit = "error: There was a problem with the editor 'false'.\nPlease supply the message\n";
        assert!(of(&ran(Some(1), commit, false)).is_some_and(|n| n.contains("-m TEXT")));
        for (output, asks) in
            [("Proceed? [y/N] ", true), ("Password: ", true), ("Overwrite? ", true), ("building\n", false)]
        {
            assert_eq!(of(&ran(None, output, true)).is_some(), asks, "{output}");
        }
        assert_eq!(of(&ran(Some(1), "assertion failed\n", false)), None);
    }
}
