//! The layers: the user's file, the environment, the project's file.
use super::{
    Config, DataDirs, Problem, ProblemKind, Source,
    keys::{self, Fault},
};
use crate::log::Mode;
use std::{
    io::{self, ErrorKind},
    path::{Component, Path},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A longer file is none of ours.
const LONGEST: u64 = 1 << 20;
/// The file of a project, in its folder.
const PROJECT_FILE: &str = ".hermes-editor/config.toml";
/// Variables and the keys they set. `model` takes a name of the `openai` provider from `OPENAI_MODEL`.
const VARIABLES: &[(&str, &[&str])] = &[
    ("OPENAI_BASE_URL", &["providers", "openai", "base_url"]),
    ("OPENAI_API_KEY", &["providers", "openai", "api_key"]),
    ("OPENAI_API", &["providers", "openai", "api"]),
    ("OPENAI_MODEL", &["model"]),
    ("HERMES_EDITOR_CODEX_AUTH_URL", &["providers", "codex", "auth_url"]),
    ("HERMES_EDITOR_CODEX_BASE_URL", &["providers", "codex", "base_url"]),
    ("HERMES_EDITOR_CODEX_CLIENT_ID", &["providers", "codex", "client_id"]),
    ("HERMES_EDITOR_OPENROUTER_AUTH_URL", &["providers", "openrouter", "auth_url"]),
    ("HERMES_EDITOR_OPENROUTER_BASE_URL", &["providers", "openrouter", "base_url"]),
    ("HERMES_EDITOR_MODEL", &["model"]),
    ("HERMES_EDITOR_LOG", &["log", "filter"]),
];

pub(super) fn load(dirs: &DataDirs, env: impl Fn(&str) -> Option<String>) -> Config {
    let mut config = Config { folder: dirs.config.clone(), ..Config::default() };
    let file = dirs.config_file();
    read_layer(&mut config, &Source::User(file.clone()), |config, path, value| {
        keys::set(config, path, value).map_err(|fault| problem(path, fault))
    });
    exposed(&mut config, &file);
    for (name, path) in VARIABLES {
        let Some(text) = env(name).filter(|v| !v.trim().is_empty()) else { continue };
        let text = if *name == "OPENAI_MODEL" { format!("openai/{}", text.trim()) } else { text };
        let source = Source::Env(name);
        if path.ends_with(&["api_key"])
            && let Some(provider) = config.providers.get_mut(path[1])
        {
            provider.keys.clear();
        }
        match keys::set(&mut config, path, &DeValue::String(text.trim().into())) {
            Ok(()) => drop(config.sources.insert(path.join("."), source)),
            Err(fault) => {
                // The variable is its own name.
                let kind = problem(path, fault);
                config.problems.push(Problem { source, line: None, key: String::new(), kind });
            }
        }
    }
    config
}

/// What a project may say: which of the configured models, a stricter mode, files of instructions inside it.
pub(super) fn project(config: &Config, folder: &Path) -> Config {
    let mut config = config.clone();
    let base = config.clone();
    read_layer(&mut config, &Source::Project(folder.join(PROJECT_FILE)), |config, path, value| {
        let fixed = matches!(base.source(&path.join(".")), Some(Source::Env(_)));
        match path {
            ["model"] => {
                let model = keys::model(value).map_err(|fault| problem(path, fault))?;
                if !configured(&base, &model) {
                    return Err(ProblemKind::Refused("it is none of the models you configured"));
                }
                if !fixed {
                    config.model = Some(model);
                }
            }
            ["mode"] => {
                let mode = keys::mode(value).map_err(|fault| problem(path, fault))?;
                if freedom(mode) > freedom(base.mode) {
                    return Err(ProblemKind::Refused("it allows more than your own mode"));
                }
                config.mode = mode;
            }
            ["instructions"] => {
                let mut own = Config::default();
                keys::set(&mut own, path, value).map_err(|fault| problem(path, fault))?;
                if !own.instructions.iter().all(|file| stays_inside(file)) {
                    return Err(ProblemKind::Refused("it names a file outside the project"));
                }
                config.instructions.extend(own.instructions);
            }
            _ => {
                // Known or not is told apart on a copy that is thrown away.
                return Err(match keys::set(&mut Config::default(), path, value) {
                    Err(Fault::Unknown) => problem(path, Fault::Unknown),
                    _ => ProblemKind::Refused(
                        "repositories must not widen what is allowed or choose endpoints",
                    ),
                });
            }
        }
        Ok(())
    });
    config
}

/// How much a mode allows without a question.
fn freedom(mode: Mode) -> u8 {
    match mode {
        Mode::Plan => 0,
        Mode::Ask => 1,
        Mode::AcceptEdits => 2,
        Mode::Full => 3,
    }
}

fn configured(config: &Config, model: &str) -> bool {
    let Some((provider, name)) = model.split_once('/') else { return false };
    config.model.as_deref() == Some(model)
        || config
            .providers
            .get(provider)
            .is_some_and(|p| p.models.is_empty() || p.models.iter().any(|known| known == name))
}

fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn problem(path: &[&str], fault: Fault) -> ProblemKind {
    match fault {
        Fault::Unknown => ProblemKind::Unknown(keys::nearest(path)),
        Fault::Expected(what) => ProblemKind::Expected(what),
    }
}

/// Reads a file and hands each value of it to `set`; a file that does not exist is no layer.
fn read_layer(
    config: &mut Config,
    source: &Source,
    mut set: impl FnMut(&mut Config, &[&str], &DeValue<'_>) -> Result<(), ProblemKind>,
) {
    let (Source::User(file) | Source::Project(file)) = source else { return };
    let whole = |why: String, line| Problem {
        source: source.clone(),
        line,
        key: String::new(),
        kind: ProblemKind::Unreadable(why),
    };
    let text = match read_bounded(file) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return,
        Err(error) => return config.problems.push(whole(error.to_string(), None)),
    };
    let text = text.trim_start_matches('\u{feff}');
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            // Its own `Display` would show the line, which may hold a key.
            let line = error.span().map(|span| line_of(text, span.start));
            return config.problems.push(whole(format!("not valid TOML: {}", error.message()), line));
        }
    };
    let mut values = Vec::new();
    flatten(table.get_ref(), &mut Vec::new(), &mut values);
    // As they were written: the keys of a provider are tried in that order.
    values.sort_by_key(|(_, value)| value.span().start);
    for (path, value) in values {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let key = names.join(".");
        match set(config, &names, value.get_ref()) {
            Ok(()) => drop(config.sources.insert(key, source.clone())),
            Err(kind) => {
                let line = Some(line_of(text, value.span().start));
                config.problems.push(Problem { source: source.clone(), line, key, kind });
            }
        }
    }
}

/// The values of a table with their paths; tables that are no section are values.
fn flatten<'t, 'i>(
    table: &'t DeTable<'i>,
    path: &mut Vec<String>,
    out: &mut Vec<(Vec<String>, &'t Spanned<DeValue<'i>>)>,
) {
    for (name, value) in table.iter() {
        path.push(name.get_ref().to_string());
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match value.get_ref().as_table() {
            Some(inner) if keys::is_section(&names) => flatten(inner, path, out),
            _ => out.push((path.clone(), value)),
        }
        path.pop();
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

/// At most 1 MiB of UTF-8 text, as [`super::read_regular`] reads it.
pub(super) fn read_bounded(file: &Path) -> io::Result<String> {
    let bytes = super::read_regular(file, LONGEST)?;
    // The error of `String` holds the bytes; they must not get into a message.
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}

/// Warns where others can read a file that holds a key, of ours or the one an `api_key_file` names.
#[cfg(unix)]
fn exposed(config: &mut Config, file: &Path) {
    use super::KeySource;
    use std::os::unix::fs::PermissionsExt;
    let open = |f: &Path| std::fs::metadata(f).is_ok_and(|m| m.permissions().mode() & 0o077 != 0);
    let mut found = Vec::new();
    for (name, provider) in &config.providers {
        let held = provider.keys.iter().any(|k| matches!(k, KeySource::Value(_)));
        if held && open(file) {
            found.push((file, format!("providers.{name}.api_key")));
        } else if !provider.headers.is_empty() && open(file) {
            found.push((file, format!("providers.{name}.headers")));
        }
        let files = provider.keys.iter().filter_map(|k| match k {
            KeySource::File(key) if open(key) => Some(key.as_path()),
            _ => None,
        });
        found.extend(files.map(|key| (key, format!("providers.{name}.api_key_file"))));
    }
    let found = found.into_iter().map(|(file, key)| Problem {
        source: Source::User(file.to_owned()),
        line: None,
        key,
        kind: ProblemKind::Exposed,
    });
    config.problems.extend(found);
}

/// std cannot read access lists.
#[cfg(not(unix))]
fn exposed(_: &mut Config, _: &Path) {}
