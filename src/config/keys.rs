//! The known keys: what each takes and where it goes.
use super::{Api, Backend, Config, KeyPolicy, KeySource, SandboxMode};
use crate::{log::Mode, secret::Secret};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::DeValue;

/// All keys; `*` stands for a name of the user's. The suggestions for unknown keys come from here.
pub(super) const KEYS: &[&str] = &[
    "model",
    "fallback",
    "side_model",
    "side.title",
    "side.summary",
    "effort",
    "probe_local",
    "mode",
    "instructions",
    "providers.*.base_url",
    "providers.*.api_key",
    "providers.*.api_key_env",
    "providers.*.api_key_file",
    "providers.*.api_key_command",
    "providers.*.api_keys",
    "providers.*.api_key_envs",
    "providers.*.api_key_files",
    "providers.*.key_policy",
    "providers.*.auth_url",
    "providers.*.client_id",
    "providers.*.api",
    "providers.*.models",
    "providers.*.context",
    "providers.*.images",
    "providers.*.efforts",
    "providers.*.temperature",
    "providers.*.headers.*",
    "providers.*.connect_timeout_s",
    "providers.*.first_byte_timeout_s",
    "providers.*.idle_timeout_s",
    "terminal.backend",
    "terminal.timeout_s",
    "terminal.login_shell",
    "sandbox.mode",
    "sandbox.network.unasked",
    "sandbox.network.approved",
    "sandbox.roots",
    "limits.iterations",
    "limits.tool_result_bytes",
    "limits.retry_budget_s",
    "log.filter",
    "log.file",
];

/// Why a key was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unknown,
    Expected(&'static str),
}

type Set<T> = Result<T, Fault>;

/// Puts one value into its place.
pub(super) fn set(config: &mut Config, path: &[&str], value: &DeValue<'_>) -> Set<()> {
    match path {
        ["model"] => config.model = Some(model(value)?),
        ["fallback"] => config.fallback = models(value)?,
        ["side_model"] => config.side.model = Some(model(value)?),
        ["side", "title"] => config.side.title = Some(model(value)?),
        ["side", "summary"] => config.side.summary = Some(model(value)?),
        ["effort"] => config.effort = Some(text(value)?),
        ["probe_local"] => config.probe_local = flag(value)?,
        ["mode"] => config.mode = mode(value)?,
        ["instructions"] => {
            let all = texts(value, "a list of file names")?;
            config.instructions = all.into_iter().map(|p| expand(Path::new(""), &p)).collect();
        }
        ["providers", name, rest @ ..] => provider(config, name, rest, value)?,
        ["terminal", "backend"] => {
            config.terminal.backend = match value.as_str() {
                Some("agent") => Backend::Agent,
                Some("editor") => Backend::Editor,
                _ => return Err(Fault::Expected("\"agent\" or \"editor\"")),
            };
        }
        ["terminal", "timeout_s"] => config.terminal.timeout = seconds(value)?,
        ["terminal", "login_shell"] => config.terminal.login_shell = flag(value)?,
        ["sandbox", "mode"] => {
            config.sandbox.mode = match value.as_str() {
                Some("workspace-write") => SandboxMode::WorkspaceWrite,
                Some("read-only") => SandboxMode::ReadOnly,
                Some("off") => SandboxMode::Off,
                _ => return Err(Fault::Expected("\"workspace-write\", \"read-only\" or \"off\"")),
            };
        }
        ["sandbox", "network", "unasked"] => config.sandbox.network_unasked = flag(value)?,
        ["sandbox", "network", "approved"] => config.sandbox.network_approved = flag(value)?,
        ["sandbox", "roots"] => config.sandbox.roots = roots(value)?,
        ["limits", "iterations"] => {
            config.limits.iterations = whole(value, 1, 10_000, "a whole number from 1 to 10000")? as u32;
        }
        ["limits", "tool_result_bytes"] => {
            config.limits.tool_result_bytes =
                whole(value, 1_024, 1 << 20, "a whole number of bytes from 1024 to 1048576")? as usize;
        }
        ["limits", "retry_budget_s"] => {
            let none = number(value).is_some_and(|n| n == 0.0);
            config.limits.retry_budget = if none { Duration::ZERO } else { seconds(value)? };
        }
        ["log", "filter"] => config.log.filter = Some(text(value)?),
        ["log", "file"] => config.log.file = Some(expand(&config.folder, &text(value)?)),
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

fn provider(config: &mut Config, name: &str, rest: &[&str], value: &DeValue<'_>) -> Set<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Fault::Expected("a name of a provider without `/`"));
    }
    let given = sources(&config.folder, rest, value)?;
    let entry = config.providers.entry(name.to_owned()).or_default();
    match rest {
        _ if !given.is_empty() => entry.keys.extend(given),
        ["key_policy"] => {
            entry.key_policy = match value.as_str() {
                Some("fill-first") => KeyPolicy::FillFirst,
                Some("round-robin") => KeyPolicy::RoundRobin,
                _ => return Err(Fault::Expected("\"fill-first\" or \"round-robin\"")),
            };
        }
        ["auth_url"] => entry.auth_url = Some(url(value)?),
        ["client_id"] => entry.client_id = Some(text(value)?),
        ["base_url"] => entry.base_url = Some(url(value)?),
        ["api"] => {
            let api = value.as_str().and_then(Api::from_name);
            entry.api = api.ok_or(Fault::Expected("\"chat\", \"responses\", \"anthropic\" or \"gemini\""))?;
        }
        ["models"] => entry.models = texts(value, "a list of names of models")?,
        ["context"] => {
            const WHAT: &str = "a whole number of tokens from 2000 to 100000000";
            entry.context = Some(whole(value, 2_000, 100_000_000, WHAT)?.unsigned_abs());
        }
        ["images"] => entry.images = Some(flag(value)?),
        ["efforts"] => entry.efforts = Some(texts(value, "a list of efforts")?),
        ["temperature"] => {
            let number = number(value).filter(|t| (0.0..=2.0).contains(t));
            entry.temperature = Some(number.ok_or(Fault::Expected("a number from 0 to 2"))?);
        }
        ["headers", header] => {
            let value = Secret::new(text(value)?);
            entry.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
            entry.headers.push(((*header).to_owned(), value));
        }
        ["connect_timeout_s"] => entry.connect_timeout = Some(seconds(value)?),
        ["first_byte_timeout_s"] => entry.first_byte_timeout = Some(seconds(value)?),
        ["idle_timeout_s"] => entry.idle_timeout = Some(seconds(value)?),
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// The keys that one entry gives; none for an entry of another kind. Several entries make a pool, in their order.
fn sources(folder: &Path, rest: &[&str], value: &DeValue<'_>) -> Set<Vec<KeySource>> {
    const MANY: &str = "a list of texts";
    let some = |all: Vec<String>, what| if all.is_empty() { Err(Fault::Expected(what)) } else { Ok(all) };
    let key = |text: String| KeySource::Value(Secret::new(text.trim()));
    let file = |path: String| KeySource::File(expand(folder, &path));
    Ok(match rest {
        ["api_key"] => vec![key(text(value)?)],
        ["api_key_env"] => vec![KeySource::Env(text(value)?)],
        ["api_key_file"] => vec![file(text(value)?)],
        ["api_keys"] => some(texts(value, MANY)?, MANY)?.into_iter().map(key).collect(),
        ["api_key_envs"] => some(texts(value, MANY)?, MANY)?.into_iter().map(KeySource::Env).collect(),
        ["api_key_files"] => some(texts(value, MANY)?, MANY)?.into_iter().map(file).collect(),
        ["api_key_command"] => {
            const WHAT: &str = "a command, as a text for the shell or as a list of its words";
            let words = match value.as_str().map(str::trim) {
                Some("") => return Err(Fault::Expected(WHAT)),
                Some(line) => vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()],
                None => some(texts(value, WHAT)?, WHAT)?,
            };
            vec![KeySource::Command(words)]
        }
        _ => Vec::new(),
    })
}

/// Whether a table at this path is looked into; else it stands where a value should.
pub(super) fn is_section(path: &[&str]) -> bool {
    KEYS.iter().any(|key| {
        let mut parts = key.split('.');
        path.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == *name))
            && parts.next().is_some()
    })
}

/// The known key that is most like an unknown one.
pub(super) fn nearest(path: &[&str]) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for key in KEYS {
        // The user's own names stay as they are.
        let known: Vec<&str> = key
            .split('.')
            .enumerate()
            .map(|(i, p)| if p == "*" { *path.get(i).unwrap_or(&p) } else { p })
            .collect();
        let known = known.join(".");
        let far = strsim::damerau_levenshtein(&known, &path.join("."));
        if best.as_ref().is_none_or(|(least, _)| far < *least) {
            best = Some((far, known));
        }
    }
    best.filter(|(far, key)| *far <= 2.max(key.len() / 4)).map(|(_, key)| key)
}

pub(super) fn mode(value: &DeValue<'_>) -> Set<Mode> {
    value
        .as_str()
        .and_then(Mode::from_id)
        .ok_or(Fault::Expected("\"ask\", \"accept-edits\", \"plan\" or \"full\""))
}

pub(super) fn model(value: &DeValue<'_>) -> Set<String> {
    const WHAT: Fault = Fault::Expected("a model as \"provider/model\"");
    let text = value.as_str().ok_or(WHAT)?;
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(text.to_owned()),
        _ => Err(WHAT),
    }
}

fn models(value: &DeValue<'_>) -> Set<Vec<String>> {
    const WHAT: Fault = Fault::Expected("a list of models as \"provider/model\"");
    let items = value.as_array().ok_or(WHAT)?;
    items.iter().map(|item| model(item.get_ref()).map_err(|_| WHAT)).collect()
}

fn text(value: &DeValue<'_>) -> Set<String> {
    value
        .as_str()
        .filter(|t| !t.trim().is_empty())
        .map(str::to_owned)
        .ok_or(Fault::Expected("a text that is not empty"))
}

fn url(value: &DeValue<'_>) -> Set<String> {
    let text = value.as_str().map(str::trim).unwrap_or_default();
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.trim_end_matches('/').to_owned()),
        // `localhost:8080/v1`, as people write it; a bare word is a mistake.
        None if super::is_bare_address(text) => Ok(format!("http://{}", text.trim_end_matches('/'))),
        _ => Err(Fault::Expected("an address that starts with http:// or https://")),
    }
}

fn flag(value: &DeValue<'_>) -> Set<bool> {
    value.as_bool().ok_or(Fault::Expected("true or false"))
}

fn whole(value: &DeValue<'_>, least: i64, most: i64, what: &'static str) -> Set<i64> {
    value
        .as_integer()
        .and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|n| (least..=most).contains(n))
        .ok_or(Fault::Expected(what))
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
        DeValue::Float(n) => n.as_str().parse().ok(),
        _ => None,
    }
}

fn seconds(value: &DeValue<'_>) -> Set<Duration> {
    number(value)
        .filter(|n| (0.001..=86_400.0).contains(n))
        .map(Duration::from_secs_f64)
        .ok_or(Fault::Expected("a number of seconds above 0, at most 86400"))
}

fn texts(value: &DeValue<'_>, what: &'static str) -> Set<Vec<String>> {
    let items = value.as_array().ok_or(Fault::Expected(what))?;
    items
        .iter()
        .map(|item| item.get_ref().as_str().filter(|t| !t.is_empty()).map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or(Fault::Expected(what))
}

fn roots(value: &DeValue<'_>) -> Set<Vec<PathBuf>> {
    const WHAT: &str = "a list of absolute folders";
    let all: Vec<PathBuf> = texts(value, WHAT)?.iter().map(|p| expand(Path::new(""), p)).collect();
    if all.iter().all(|p| p.is_absolute()) { Ok(all) } else { Err(Fault::Expected(WHAT)) }
}

/// A path in a file: `~/` is the home folder, others are relative to `folder`.
fn expand(folder: &Path, path: &str) -> PathBuf {
    match path.strip_prefix("~/").zip(etcetera::home_dir().ok()) {
        Some((rest, home)) => home.join(rest),
        None => folder.join(path),
    }
}
