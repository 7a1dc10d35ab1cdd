//! The environment of commands: what the editor gave the agent, without our keys, without anything that would wait for a
//! person; and what commands exported, carried on to later ones.
use super::Settings;
use crate::{effects::Verdict, permit::shell::GIT_HARDENING};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

pub(super) type Env = BTreeMap<OsString, OsString>;

/// Silences what pages, colours, or asks. The editors fail at once: `git commit` without a message then says why.
const FIXED: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("AWS_PAGER", ""),
    ("GH_PAGER", "cat"),
    ("BAT_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
];

/// Forces colour, runs start-up files, or names a terminal that is not there.
const DROPPED: &[&str] = &[
    "COLORTERM",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "CARGO_TERM_COLOR",
    "BASH_ENV",
    "ENV",
    "SHLVL",
    "OLDPWD",
    "PWD",
    "_",
    "COLUMNS",
    "LINES",
    "PROMPT_COMMAND",
];

/// Keys of model providers: an agent's own, not the project's.
pub(crate) const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
];

/// As much of exports as is carried on, in bytes.
const CARRY_LIMIT: usize = 128 * 1024;

/// What commands start from in this session.
pub(super) fn base(settings: &Settings) -> Env {
    let mut env: Env = settings.env.iter().map(|(name, value)| (spelled(name), value.clone())).collect();
    env.retain(|name, value| {
        !DROPPED.contains(&&*name.to_string_lossy()) && !settings.withholds(name, value)
    });
    // An editor that was started from a desktop may have given none; without it not even `ls` is found.
    env.entry("PATH".into())
        .or_insert_with(|| "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    for (name, value) in FIXED {
        env.insert(name.into(), value.into());
    }
    env
}

/// Case counts in names of variables, but on Windows, where the lists here must not miss `Path` or a key.
fn spelled(name: &OsStr) -> OsString {
    if cfg!(windows) { name.to_ascii_uppercase() } else { name.to_owned() }
}

impl Settings {
    /// Whether commands must not have this variable: a key of ours, by its name or its value.
    pub(super) fn withholds(&self, name: &OsStr, value: &OsStr) -> bool {
        let named = |strip: &String| spelled(OsStr::new(strip)) == name;
        if self.strip.iter().any(named) {
            return true;
        }
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        KEYS.contains(&&*name) || self.secrets.is_in(value.as_bytes())
    }
}

/// Variables that we set or drop: no shell's word on them counts.
pub(super) fn is_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    DROPPED.contains(&&*name)
        || FIXED.iter().any(|(n, _)| *n == name)
        || GIT_HARDENING.iter().any(|(n, _)| *n == name)
        || name.starts_with("BASH_FUNC_")
        || name == "TMPDIR"
}

/// The environment of one command. One that runs unasked was judged by the session's own environment, so exports of other
/// commands reach it only where its text names them and no program takes orders from them.
pub(super) fn of(base: &Env, carried: &Carried, verdict: Verdict, text: &str) -> Env {
    let mut env = base.clone();
    for (name, value) in carried.for_command(verdict, text) {
        match value {
            Some(value) => env.insert(name.clone(), value.clone()),
            None => env.remove(name),
        };
    }
    if verdict == Verdict::ReadOnly {
        env.retain(|name, _| !name.to_string_lossy().starts_with("BASH_FUNC_"));
        env.extend(GIT_HARDENING.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))));
    }
    env
}

/// What a command in a terminal of the editor gets beside the editor's own environment. One that runs unasked was judged by
/// our `PATH`, so it has that one.
pub(super) fn in_editor(
    base: &Env,
    carried: &Carried,
    verdict: Verdict,
    text: &str,
) -> Vec<(String, String)> {
    let own = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
    let mut env: Vec<_> = FIXED.iter().map(own).collect();
    let exports = carried.for_command(verdict, text);
    env.extend(exports.filter_map(|(n, v)| Some((n.to_str()?.to_owned(), v.as_ref()?.to_str()?.to_owned()))));
    if verdict == Verdict::ReadOnly {
        env.extend(GIT_HARDENING.iter().map(own));
        env.extend(["BASH_ENV", "ENV"].map(|n| (n.to_owned(), String::new())));
        let path = base.get(OsStr::new("PATH")).map(|p| p.to_string_lossy().into_owned());
        env.extend(path.map(|path| ("PATH".to_owned(), path)));
    }
    env
}

fn named_in(name: &OsStr, text: &str) -> bool {
    let Some(name) = name.to_str() else { return false };
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end] == name
    })
}

fn harmless(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    const STARTS: &[&str] =
        &["LD_", "DYLD_", "GIT_", "BASH", "LC_", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA_", "SSH_"];
    const PARTS: &[&str] =
        &["PATH", "OPT", "PAGER", "CONFIG", "EDITOR", "SHELL", "LESS", "IFS", "ENV", "HOME"];
    !STARTS.iter().any(|s| name.starts_with(s)) && !PARTS.iter().any(|p| name.contains(p))
}

/// What commands exported (`Some`) and unset (`None`).
#[derive(Clone, Debug, Default)]
pub(super) struct Carried(BTreeMap<OsString, Option<OsString>>);

impl Carried {
    /// What a command is given of it: see [`of`].
    fn for_command<'a>(
        &'a self,
        verdict: Verdict,
        text: &'a str,
    ) -> impl Iterator<Item = (&'a OsString, &'a Option<OsString>)> {
        let asked = verdict != Verdict::ReadOnly;
        self.0.iter().filter(move |(name, _)| asked || named_in(name, text) && harmless(name))
    }

    /// Names of variables that commands unset, as far as a shell can be told so.
    pub fn unset(&self) -> Vec<String> {
        let names = self.0.iter().filter(|(_, value)| value.is_none()).filter_map(|(name, _)| name.to_str());
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        names.filter(plain).map(str::to_owned).collect()
    }

    /// Takes over how a command's environment at its end differs from the one that it was given.
    ///
    /// # Errors
    /// It would be too large; what was carried before stays.
    pub fn take(&mut self, given: &Env, base: &Env, ended: &Env) -> Result<(), ()> {
        let mut next = self.0.clone();
        for (name, value) in ended.iter().filter(|(n, v)| given.get(*n) != Some(v) && !is_own(n)) {
            next.insert(name.clone(), Some(value.clone()));
        }
        for name in given.keys().filter(|n| !ended.contains_key(*n) && !is_own(n)) {
            next.insert(name.clone(), None);
        }
        next.retain(|name, value| base.get(name) != value.as_ref());
        let size: usize = next.iter().map(|(n, v)| n.len() + v.as_ref().map_or(0, |v| v.len())).sum();
        if size > CARRY_LIMIT {
            return Err(());
        }
        self.0 = next;
        Ok(())
    }
}

/// Reads what the shell wrote at its end: its folder on a line, and perhaps a NUL and `NAME=value` each, NUL-ended.
pub(super) fn parse_state(state: &str) -> Option<(&str, Option<Env>)> {
    let (folder, rest) = match state.split_once('\0') {
        Some((folder, rest)) => (folder, Some(rest)),
        None => (state, None),
    };
    let folder = folder.strip_suffix('\n').filter(|f| std::path::Path::new(f).is_absolute())?;
    // An empty one means that `env` could not run: that is no order to unset everything.
    let env = rest.and_then(|rest| rest.strip_suffix('\0')).map(|rest| {
        rest.split('\0').filter_map(|p| p.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect()
    });
    Some((folder, env))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
    }

    #[test]
    fn keys_and_secrets_do_not_reach_commands() {
        let settings = Settings {
            env: env(&[
                ("OPENAI_API_KEY", "k"),
                ("MY_KEY", "k2"),
                ("LEAK", "--token=super-secret-value"),
                ("PATH", "/bin"),
                ("BASH_ENV", "/evil"),
                ("PAGER", "less"),
            ])
            .into_iter()
            .collect(),
            strip: vec!["MY_KEY".into()],
            secrets: crate::secret::Redactor::new([(
                "K".to_owned(),
                crate::secret::Secret::new("super-secret-value"),
            )]),
            ..Settings::default()
        };
        let env = base(&settings);
        for gone in ["OPENAI_API_KEY", "MY_KEY", "LEAK", "BASH_ENV"] {
            assert!(!env.contains_key(OsStr::new(gone)), "{gone}");
        }
        assert_eq!(env[OsStr::new("PATH")], "/bin");
        assert_eq!(env[OsStr::new("PAGER")], "cat");
    }

    #[test]
    fn exports_are_carried_but_not_for_commands_that_run_unasked() {
        let base = env(&[("PATH", "/bin"), ("KEEP", "1"), ("GONE", "1")]);
        let mut carried = Carried::default();
        let ended =
            env(&[("PATH", "/ws/bin:/bin"), ("KEEP", "1"), ("NEW", "n"), ("PAGER", "less"), ("_", "x")]);
        carried.take(&base, &base, &ended).unwrap();
        let asked = of(&base, &carried, Verdict::Ask, "make");
        assert_eq!(asked, env(&[("PATH", "/ws/bin:/bin"), ("KEEP", "1"), ("NEW", "n")]));
        let unasked = of(&base, &carried, Verdict::ReadOnly, "echo ${NEW} $PATH");
        assert_eq!(unasked[OsStr::new("PATH")], "/bin");
        assert_eq!(unasked[OsStr::new("NEW")], "n");
        assert_eq!(unasked[OsStr::new("GIT_TERMINAL_PROMPT")], "0");
        assert!(!of(&base, &carried, Verdict::ReadOnly, "echo $NEWER").contains_key(OsStr::new("NEW")));
        // Set back to what it was: nothing to carry.
        carried.take(&asked, &base, &base).unwrap();
        assert_eq!(of(&base, &carried, Verdict::Ask, ""), base);
    }

    #[test]
    fn too_much_is_refused_and_the_old_stays() {
        let base = Env::new();
        let mut carried = Carried::default();
        carried.take(&base, &base, &env(&[("A", "1")])).unwrap();
        let big = "x".repeat(CARRY_LIMIT + 1);
        carried.take(&base, &base, &env(&[("A", "2"), ("B", &big)])).unwrap_err();
        assert_eq!(carried.0[OsStr::new("A")].as_deref(), Some(OsStr::new("1")));
    }

    #[test]
    fn state_is_read_or_refused() {
        let (folder, got) = parse_state("/ws\n\0A=1\0B=x=y\n z\0").unwrap();
        assert_eq!((folder, got), ("/ws", Some(env(&[("A", "1"), ("B", "x=y\n z")]))));
        for without in ["/a\nb\n", "/a\nb\n\0", "/a\nb\n\0A=1"] {
            assert_eq!(parse_state(without), Some(("/a\nb", None)), "{without:?}");
        }
        for bad in ["", "/ws", "relative\n\0A=1\0"] {
            assert!(parse_state(bad).is_none(), "{bad:?}");
        }
    }
}
