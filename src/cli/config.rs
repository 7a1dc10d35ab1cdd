//! `config`: the configuration in force with the source of each value, and the permissions that were remembered.
use super::{
    Exit,
    args::{ConfigArgs, ConfigCommand, GrantsCommand},
    block_on, print, say,
};
use crate::{
    config::{Backend, Config, DataDirs, KeyPolicy, KeySource, Provider, SandboxMode},
    permit::Grant,
    secret::mask,
    store::Store,
};
use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

pub fn config(args: &ConfigArgs) -> Exit {
    let dirs = match DataDirs::from_env() {
        Ok(dirs) => dirs,
        Err(e) => return fail(&e.to_string()),
    };
    match &args.command {
        None | Some(ConfigCommand::Show) => show(&dirs),
        Some(ConfigCommand::Grants { command }) => match grants(&dirs, command) {
            Ok((text, exit)) => print(&text, exit),
            Err(e) => fail(&e.to_string()),
        },
    }
}

fn fail(text: &str) -> Exit {
    say(&mut io::stderr(), &format!("hermes-editor: {text}\n"));
    Exit::Failed
}

fn show(dirs: &DataDirs) -> Exit {
    let config = Config::load(dirs, |name| std::env::var(name).ok());
    let config = match std::env::current_dir() {
        Ok(here) => config.for_project(&here),
        Err(_) => config,
    };
    let style = super::client::Style::of(io::stdout().is_terminal());
    let mut text = String::new();
    for (key, value) in values(&config) {
        let source = config.source(&key).map_or_else(|| "default".to_owned(), ToString::to_string);
        text.push_str(&format!("{key} = {value}  {}\n", style.dim(&format!("# {source}"))));
    }
    let exit = print(&text, if config.problems.is_empty() { Exit::Good } else { Exit::Failed });
    for problem in &config.problems {
        say(&mut io::stderr(), &format!("hermes-editor: {problem}\n"));
    }
    exit
}

/// Every key with its value as TOML would have it; a secret only says that it is there.
fn values(config: &Config) -> Vec<(String, String)> {
    let model = config.model.as_deref().map_or_else(|| "(none chosen)".to_owned(), quoted);
    let mut all = vec![
        ("model".to_owned(), model),
        ("mode".to_owned(), quoted(config.mode.id())),
        ("fallback".to_owned(), list(config.fallback.iter().cloned())),
        ("probe_local".to_owned(), config.probe_local.to_string()),
        ("instructions".to_owned(), list(config.instructions.iter().map(|p| p.display().to_string()))),
    ];
    let chosen = [
        ("effort", &config.effort),
        ("side_model", &config.side.model),
        ("side.title", &config.side.title),
        ("side.summary", &config.side.summary),
    ];
    all.extend(
        chosen.into_iter().filter_map(|(key, value)| Some((key.to_owned(), quoted(value.as_deref()?)))),
    );
    for (name, provider) in &config.providers {
        let mut values = provider_values(name, provider);
        // Unless somebody chose it, it is the provider's own.
        values.retain(|(key, _)| !key.ends_with(".api") || config.source(key).is_some());
        all.extend(values);
    }
    let backend = match config.terminal.backend {
        Backend::Agent => "agent",
        Backend::Editor => "editor",
    };
    let sandbox = match config.sandbox.mode {
        SandboxMode::WorkspaceWrite => "workspace-write",
        SandboxMode::ReadOnly => "read-only",
        SandboxMode::Off => "off",
    };
    let rest = [
        ("terminal.backend", quoted(backend)),
        ("terminal.timeout_s", seconds(config.terminal.timeout)),
        ("terminal.login_shell", config.terminal.login_shell.to_string()),
        ("sandbox.mode", quoted(sandbox)),
        ("sandbox.network.unasked", config.sandbox.network_unasked.to_string()),
        ("sandbox.network.approved", config.sandbox.network_approved.to_string()),
        ("sandbox.roots", list(config.sandbox.roots.iter().map(|p| p.display().to_string()))),
        ("limits.iterations", config.limits.iterations.to_string()),
        ("limits.tool_result_bytes", config.limits.tool_result_bytes.to_string()),
        ("limits.retry_budget_s", seconds(config.limits.retry_budget)),
        ("log.filter", quoted(config.log.filter.as_deref().unwrap_or("warn"))),
    ];
    all.extend(rest.map(|(key, value)| (key.to_owned(), value)));
    if let Some(file) = &config.log.file {
        all.push(("log.file".to_owned(), quoted(&file.display().to_string())));
    }
    all
}

fn provider_values(name: &str, provider: &Provider) -> Vec<(String, String)> {
    let key = |field: &str| format!("providers.{name}.{field}");
    let api = provider.api.name();
    let mut all = Vec::new();
    if let Some(url) = &provider.base_url {
        all.push((key("base_url"), quoted(&masked(url))));
    }
    all.extend(key_values(provider).into_iter().map(|(field, value)| (key(field), value)));
    all.extend(provider.auth_url.iter().map(|url| (key("auth_url"), quoted(&masked(url)))));
    all.extend(provider.client_id.iter().map(|id| (key("client_id"), quoted(id))));
    all.push((key("api"), quoted(api)));
    if !provider.models.is_empty() {
        all.push((key("models"), list(provider.models.iter().cloned())));
    }
    let known = [
        ("context", provider.context.map(|n| n.to_string())),
        ("images", provider.images.map(|yes| yes.to_string())),
        ("efforts", provider.efforts.as_ref().map(|all| list(all.iter().cloned()))),
        ("temperature", provider.temperature.map(|t| t.to_string())),
    ];
    all.extend(known.into_iter().filter_map(|(name, value)| Some((key(name), value?))));
    for (header, _) in &provider.headers {
        all.push((key(&format!("headers.{header}")), "(set, not shown)".to_owned()));
    }
    let limits = [
        ("connect_timeout_s", provider.connect_timeout),
        ("first_byte_timeout_s", provider.first_byte_timeout),
        ("idle_timeout_s", provider.idle_timeout),
    ];
    all.extend(limits.into_iter().filter_map(|(name, limit)| Some((key(name), seconds(limit?)))));
    all
}

/// A URL without what may be a secret in it: the user's part, and the values of its query that are not plain words or
/// versions (`api-version=2024-10-21`).
pub(super) fn masked(url: &str) -> String {
    const HIDDEN: &str = "(hidden)";
    let (url, fragment) = url.split_once('#').map_or((url, ""), |(url, _)| (url, "#(hidden)"));
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(s, rest)| (s, rest));
    let (place, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
    let place =
        place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, host)| format!("{HIDDEN}@{host}"));
    let begin = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let query = query.map(|query| {
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, value)) if is_secret(name, value) => format!("{name}={HIDDEN}"),
            _ => mask(pair).into_owned(),
        };
        format!("?{}", query.split('&').map(pair).collect::<Vec<_>>().join("&"))
    });
    format!("{begin}{place}{}{}{fragment}", mask(path), query.unwrap_or_default())
}

/// Whether the value of a query may be a secret, by its name or because it is long.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = ["key", "token", "secret", "sig", "pass", "pw", "auth", "code", "cred"];
    !value.is_empty() && (value.len() > 20 || named.iter().any(|n| name.contains(n)))
}

/// Where its keys come from; none of them is shown.
fn key_values(provider: &Provider) -> Vec<(&'static str, String)> {
    let (mut envs, mut files, mut count) = (Vec::new(), Vec::new(), 0);
    let mut all = Vec::new();
    for source in &provider.keys {
        match source {
            KeySource::Value(_) => count += 1,
            KeySource::Env(variable) => envs.push(variable.clone()),
            KeySource::File(file) => files.push(file.display().to_string()),
            KeySource::Command(words) => all.push(("api_key_command", list(words.iter().cloned()))),
        }
    }
    match count {
        0 => {}
        1 => all.push(("api_key", "(set, not shown)".to_owned())),
        n => all.push(("api_keys", format!("({n} set, not shown)"))),
    }
    for (one, many, names) in
        [("api_key_env", "api_key_envs", envs), ("api_key_file", "api_key_files", files)]
    {
        match names.as_slice() {
            [] => {}
            [name] => all.push((one, quoted(name))),
            _ => all.push((many, list(names.into_iter()))),
        }
    }
    if provider.key_policy == KeyPolicy::RoundRobin {
        all.push(("key_policy", quoted("round-robin")));
    }
    all
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
fn list(all: impl Iterator<Item = String>) -> String {
    toml::Value::Array(all.map(toml::Value::String).collect()).to_string()
}
fn seconds(limit: Duration) -> String {
    limit.as_secs_f64().to_string()
}

/// Lists or revokes; the numbers count in the order of the list.
fn grants(dirs: &DataDirs, command: &GrantsCommand) -> anyhow::Result<(String, Exit)> {
    if !dirs.database().exists() {
        let exit = if matches!(command, GrantsCommand::List) { Exit::Good } else { Exit::Failed };
        return Ok(("No permissions are remembered.\n".to_owned(), exit));
    }
    let store = Store::open(dirs)?;
    block_on(async {
        let all: Vec<(PathBuf, Grant)> = store
            .all_grants()
            .await?
            .into_iter()
            .flat_map(|(folder, grants)| grants.into_iter().map(move |grant| (folder.clone(), grant)))
            .collect();
        match command {
            GrantsCommand::List if all.is_empty() => {
                Ok(("No permissions are remembered.\n".to_owned(), Exit::Good))
            }
            GrantsCommand::List => {
                let lines = all.iter().enumerate().map(|(n, (folder, grant))| line(n, folder, grant));
                Ok((lines.collect(), Exit::Good))
            }
            GrantsCommand::Revoke { number } => {
                let Some((folder, grant)) = number.checked_sub(1).and_then(|n| all.get(n)).cloned() else {
                    let text = format!("There is no number {number}; `config grants list` shows them.\n");
                    return Ok((text, Exit::Usage));
                };
                let text = format!("Revoked: {} in {}\n", words(&grant), folder.display());
                store.revoke(folder, Some(grant)).await?;
                store.flush().await?;
                Ok((text, Exit::Good))
            }
        }
    })?
}

fn line(n: usize, folder: &Path, grant: &Grant) -> String {
    format!("{:>3}  {}: {}\n", n + 1, folder.display(), words(grant))
}

/// What a grant allows, for people.
fn words(grant: &Grant) -> String {
    match grant {
        Grant::Edits => "edit files in this folder".to_owned(),
        Grant::Command { prefix } => format!("run `{} …`", prefix.join(" ")),
        Grant::Read { folder } => format!("read in {}", folder.display()),
        Grant::Host { name } => format!("reach {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_and_secrets_stay_out() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        let env = |name: &str| match name {
            "OPENAI_API_KEY" => Some("sk-very-secret".to_owned()),
            "OPENAI_MODEL" => Some("m".to_owned()),
            _ => None,
        };
        let config = Config::load(&dirs, env);
        let all = values(&config);
        let text: String = all.iter().map(|(k, v)| format!("{k} = {v}\n")).collect();
        assert!(text.contains("model = \"openai/m\"\n"), "{text}");
        assert!(text.contains("providers.openai.api_key = (set, not shown)\n"), "{text}");
        assert!(!text.contains("sk-very-secret"));
        let plain: String = text.lines().filter(|l| !l.contains('(')).map(|l| format!("{l}\n")).collect();
        toml::from_str::<toml::Table>(&plain).unwrap();
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let cases = [
            ("http://localhost:8080/v1", "http://localhost:8080/v1"),
            ("https://h/v1?api-version=2024-10-21&x", "https://h/v1?api-version=2024-10-21&x"),
            ("http://user:hunter2@h:1/v1", "http://(hidden)@h:1/v1"),
            ("http://tok3n@h", "http://(hidden)@h"),
            ("http://u:p@ss@h/a@b", "http://(hidden)@h/a@b"),
            ("user:hunter2@h/v1", "(hidden)@h/v1"),
            ("https://h/v1?key=AIzaShort&a=b#frag", "https://h/v1?key=(hidden)&a=b#(hidden)"),
            ("https://h?x=0123456789012345678901", "https://h?x=(hidden)"),
            ("https://h?Access_Token=t", "https://h?Access_Token=(hidden)"),
            ("https://h/sk-12345678901234/v1", "https://h/[key]/v1"),
            ("", ""),
        ];
        for (url, want) in cases {
            assert_eq!(masked(url), want);
        }
        let config = Config::load(&DataDirs::under("/nowhere".as_ref()), |name| match name {
            "OPENAI_API_KEY" => Some("k".to_owned()),
            "OPENAI_BASE_URL" => Some("http://u:hunter2@h/v1?key=AIza1".to_owned()),
            _ => None,
        });
        let text: String = values(&config).iter().map(|(k, v)| format!("{k} = {v}\n")).collect();
        assert!(text.contains("http://(hidden)@h/v1?key=(hidden)") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn what_was_written_is_shown_and_what_was_not_is_not() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        let written = "effort = \"high\"\nprobe_local = false\nside_model = \"x/s\"\nside.title = \"x/t\"\n\
                       side.summary = \"x/u\"\nproviders.x.api = \"chat\"\nproviders.x.context = 5000\n\
                       providers.x.images = true\nproviders.x.efforts = [\"low\"]\nproviders.x.temperature = 0.5\n\
                       limits.retry_budget_s = 0\n";
        std::fs::create_dir_all(dirs.config_file().parent().unwrap()).unwrap();
        std::fs::write(dirs.config_file(), written).unwrap();
        let config = Config::load(&dirs, |name| (name == "ANTHROPIC_API_KEY").then(|| "k".to_owned()));
        assert!(config.problems.is_empty(), "{:?}", config.problems);
        let text: String = values(&config).iter().map(|(k, v)| format!("{k} = {v}\n")).collect();
        for line in written.lines() {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
        assert!(!text.contains("providers.anthropic.api ="), "{text}");
    }

    #[test]
    fn grants_are_listed_by_number_and_revoked_by_it() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        let list = || grants(&dirs, &GrantsCommand::List).unwrap();
        assert_eq!(list().0, "No permissions are remembered.\n");
        let folder = home.path().canonicalize().unwrap();
        let cargo = Grant::Command { prefix: vec!["cargo".into(), "test".into()] };
        block_on(async {
            let store = Store::open(&dirs).unwrap();
            store.add_grant(folder.clone(), Grant::Edits).await.unwrap();
            store.add_grant(folder.clone(), cargo).await.unwrap();
        })
        .unwrap();
        assert_eq!(list().0.lines().count(), 2, "{}", list().0);
        let row = list().0.lines().position(|l| l.contains("cargo test")).unwrap();
        let (text, exit) = grants(&dirs, &GrantsCommand::Revoke { number: row + 1 }).unwrap();
        assert_eq!(exit, Exit::Good);
        assert!(text.starts_with("Revoked: run `cargo test …` in "), "{text}");
        assert!(list().0.contains("edit files") && !list().0.contains("cargo"));
        assert_eq!(grants(&dirs, &GrantsCommand::Revoke { number: 7 }).unwrap().1, Exit::Usage);
    }
}
