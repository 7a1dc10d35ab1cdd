//! Which providers and models there are: rows of data, overridden by the configuration and by the environment.
//!
//! Nothing here waits for the network but [`Registry::refresh_models`].
mod input;
#[cfg(test)]
mod tests;

use super::{
    ErrorKind, ModelError, ModelInfo, Provider,
    dialect::{Dialect, anthropic, gemini, openai_chat, openai_responses},
    failure::Failure,
    http::{Connections, Endpoint, HttpProvider, KeySource, Timeouts, get_json},
};
use crate::secret::Secret;
use futures_util::future::join_all;
use input::base_url;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The wire that a provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// OpenAI Chat Completions.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
}

/// A provider as `providers.toml` and `config.toml` write it; what is missing comes from the row below.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderRow {
    pub title: Option<String>,
    pub base_url: Option<String>,
    pub api: Option<Api>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// The key itself; better kept in a file or in the environment.
    #[serde(deserialize_with = "secret")]
    pub key: Option<Secret>,
    /// A file whose first line is the key.
    pub key_file: Option<PathBuf>,
    /// Requests without a key are not sent. Never asked of a loopback host.
    pub needs_key: Option<bool>,
    #[serde(deserialize_with = "secrets")]
    pub headers: BTreeMap<String, Secret>,
    pub models: Vec<ModelRow>,
    /// The model to take when none is chosen.
    pub model: Option<String>,
    /// Tokens, for models that say nothing themselves.
    pub context: Option<u64>,
    pub images: Option<bool>,
    pub chat: Option<openai_chat::Options>,
    pub responses: Option<openai_responses::Options>,
    pub anthropic: Option<anthropic::Options>,
    pub gemini: Option<gemini::Options>,
    pub first_byte_seconds: Option<u64>,
    pub idle_seconds: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRow {
    pub id: String,
    pub name: Option<String>,
    pub context: Option<u64>,
    pub images: Option<bool>,
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.map(Secret::new))
}
fn secrets<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, Secret>, D::Error> {
    Ok(BTreeMap::<String, String>::deserialize(d)?.into_iter().map(|(k, v)| (k, Secret::new(v))).collect())
}

impl Api {
    fn from_name(name: &str) -> Option<Api> {
        Some(match name {
            "chat" => Api::Chat,
            "responses" => Api::Responses,
            "anthropic" => Api::Anthropic,
            "gemini" => Api::Gemini,
            _ => return None,
        })
    }
}

impl ProviderRow {
    /// This row, with what it leaves open taken from `below`.
    fn over(self, below: ProviderRow) -> ProviderRow {
        let mut headers = below.headers;
        headers.extend(self.headers);
        ProviderRow {
            title: self.title.or(below.title),
            base_url: self.base_url.or(below.base_url),
            api: self.api.or(below.api),
            key_env: self.key_env.or(below.key_env),
            key: self.key.or(below.key),
            key_file: self.key_file.or(below.key_file),
            needs_key: self.needs_key.or(below.needs_key),
            headers,
            models: if self.models.is_empty() { below.models } else { self.models },
            model: self.model.or(below.model),
            context: self.context.or(below.context),
            images: self.images.or(below.images),
            chat: self.chat.or(below.chat),
            responses: self.responses.or(below.responses),
            anthropic: self.anthropic.or(below.anthropic),
            gemini: self.gemini.or(below.gemini),
            first_byte_seconds: self.first_byte_seconds.or(below.first_byte_seconds),
            idle_seconds: self.idle_seconds.or(below.idle_seconds),
        }
    }
}

/// What the registry is made from.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The `[providers.<name>]` tables of the configuration.
    pub providers: BTreeMap<String, ProviderRow>,
    /// `provider/model` of the configuration.
    pub model: Option<String>,
}

/// Whether requests to a provider can be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialState {
    Present,
    NotNeeded,
    /// `env`: the variable that would hold the key; `hint`: what to do, for a person.
    Missing {
        env: Option<String>,
        hint: String,
    },
}

struct Entry {
    title: String,
    row: ProviderRow,
    dialect: Arc<dyn Dialect>,
    /// The address, or why there is none.
    endpoint: Result<Arc<Endpoint>, String>,
    /// The user named it, so that its models are offered before anything was heard of it.
    configured: bool,
}

/// The providers of the process.
pub struct Registry {
    connections: Arc<Connections>,
    entries: BTreeMap<String, Entry>,
    /// Providers that are no HTTP endpoint.
    others: Vec<(ModelInfo, Arc<dyn Provider>)>,
    model: Option<String>,
    listed: Mutex<BTreeMap<String, Listed>>,
}

/// The models that a provider said it has.
struct Listed {
    at: Instant,
    models: Vec<ModelInfo>,
}

const LIST_AGE: Duration = Duration::from_secs(600);
const ROWS: &str = include_str!("providers.toml");

impl Registry {
    /// Configuration over rows, and the environment over both: `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL`,
    /// `OPENAI_API`, and the same of `ANTHROPIC`.
    pub fn from_config(input: Input, env: impl Fn(&str) -> Option<String>) -> Self {
        let env = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        // The rows are compiled in and tested; without them only what is configured works.
        let mut rows: BTreeMap<String, ProviderRow> = toml::from_str(ROWS).unwrap_or_default();
        let generic = rows.remove("generic").unwrap_or_default();
        let unnamed = ProviderRow { title: None, ..generic.clone() };
        let mut providers = input.providers;
        let mut model = input.model;
        for (name, prefix) in [("openai", "OPENAI"), ("anthropic", "ANTHROPIC")] {
            let var = |what: &str| env(&format!("{prefix}_{what}"));
            let (url, chosen, api) =
                (var("BASE_URL"), var("MODEL"), var("API").and_then(|a| Api::from_name(&a)));
            if url.is_some() || chosen.is_some() || api.is_some() {
                let row = providers.entry(name.into()).or_default();
                row.base_url = url.or(row.base_url.take());
                row.api = api.or(row.api);
                if let Some(chosen) = chosen {
                    model.get_or_insert(format!("{name}/{chosen}"));
                    row.model = Some(chosen);
                }
            }
        }
        let configured: Vec<String> = providers.keys().cloned().collect();
        for (name, row) in providers {
            let mut below = rows.remove(&name).unwrap_or_else(|| unnamed.clone());
            // Another server behind OpenAI's name: none of OpenAI's own habits can be taken for granted.
            if name == "openai" && row.base_url.as_ref().is_some_and(|url| !url.contains("api.openai.com")) {
                below = ProviderRow { title: below.title, key_env: below.key_env, ..generic.clone() };
            }
            rows.insert(name, row.over(below));
        }
        let entries = rows
            .into_iter()
            .map(|(name, row)| {
                let known = configured.contains(&name);
                let entry = Entry::new(&name, row, known);
                (name, entry)
            })
            .collect();
        Registry { connections: Arc::default(), entries, others: Vec::new(), model, listed: Mutex::default() }
    }

    /// Adds a model that is no HTTP endpoint, under its own `provider/model`.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        self.others.push((provider.info(), provider));
    }

    /// The provider of a model, by `provider/model`.
    pub fn provider(&self, id: &str) -> Result<Arc<dyn Provider>, ModelError> {
        if let Some((_, provider)) = self.others.iter().find(|(info, _)| info.id == id) {
            return Ok(provider.clone());
        }
        let unknown = || {
            let names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
            wrong(
                ErrorKind::ModelNotFound,
                format!(
                    "There is no provider for the model \"{id}\". Write provider/model, with one of: {}.",
                    names.join(", ")
                ),
            )
        };
        let (name, model) = id.split_once('/').filter(|(_, model)| !model.is_empty()).ok_or_else(unknown)?;
        let entry = self.entries.get(name).ok_or_else(unknown)?;
        let endpoint = entry.endpoint.clone().map_err(|why| wrong(ErrorKind::BadRequest, why))?;
        let info = self
            .known(name)
            .into_iter()
            .find(|i| i.id == id)
            .unwrap_or_else(|| entry.info(name, &ModelRow { id: model.into(), ..ModelRow::default() }));
        Ok(Arc::new(HttpProvider {
            connections: self.connections.clone(),
            endpoint,
            dialect: entry.dialect.clone(),
            model: model.into(),
            info,
        }))
    }

    /// The models to choose from, as far as they are known; never waits.
    pub fn choices(&self) -> Vec<ModelInfo> {
        let mut all: Vec<ModelInfo> = Vec::new();
        let default = self.default_model();
        let mut push = |info: ModelInfo| {
            if !all.iter().any(|i| i.id == info.id) {
                all.push(info);
            }
        };
        if let Some(provider) = default.as_deref().and_then(|id| self.provider(id).ok()) {
            push(provider.info());
        }
        for (name, entry) in &self.entries {
            if entry.configured || self.credential_state(name) == CredentialState::Present {
                entry.row.model.iter().for_each(|id| {
                    push(entry.info(name, &ModelRow { id: id.clone(), ..ModelRow::default() }))
                });
            }
            self.known(name).into_iter().for_each(&mut push);
        }
        self.others.iter().for_each(|(info, _)| push(info.clone()));
        all
    }

    /// The model to take when a session has none: what was configured, else the first that could be reached.
    pub fn default_model(&self) -> Option<String> {
        let of = |name: &str, entry: &Entry| {
            let own = entry.row.model.as_ref().map(|m| format!("{name}/{m}"));
            own.or_else(|| self.known(name).into_iter().next().map(|i| i.id))
        };
        let usable = |name: &str, entry: &Entry| {
            entry.configured || self.credential_state(name) == CredentialState::Present
        };
        self.model
            .clone()
            .or_else(|| {
                self.entries
                    .iter()
                    .filter(|(name, entry)| usable(name, entry))
                    .find_map(|(name, entry)| of(name, entry))
            })
            .or_else(|| {
                self.entries.iter().find_map(|(name, _)| self.known(name).into_iter().next().map(|i| i.id))
            })
    }

    /// Whether a provider's requests can be signed, looked up anew with each call. Unknown names need nothing.
    pub fn credential_state(&self, provider: &str) -> CredentialState {
        let Some(Ok(endpoint)) = self.entries.get(provider).map(|e| &e.endpoint) else {
            return CredentialState::NotNeeded;
        };
        if endpoint.key.key().is_some() {
            return CredentialState::Present;
        }
        if !endpoint.needs_key {
            return CredentialState::NotNeeded;
        }
        let env = endpoint.key.env().map(str::to_owned);
        let hint = match &env {
            Some(env) => format!(
                "Set {env} where the editor starts the agent, or put `api_key` or `api_key_file` under [providers.{provider}] into config.toml."
            ),
            None => format!("Put `api_key` or `api_key_file` under [providers.{provider}] into config.toml."),
        };
        CredentialState::Missing { env, hint }
    }

    /// The names of the providers, each with its title.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.title.as_str()))
    }

    /// Where a provider's models are reached, for `doctor`.
    pub fn base_url(&self, provider: &str) -> Option<String> {
        self.entries.get(provider)?.endpoint.as_ref().ok().map(|e| e.base.to_string())
    }

    /// Asks the providers that could answer for their models, all at once; `true` if the choices changed. Lists are
    /// kept for ten minutes. A local server that the user did not name has 300 ms to show itself.
    pub async fn refresh_models(&self) -> bool {
        let ask = self.entries.iter().filter(|(name, entry)| self.worth_asking(name, entry)).map(
            |(name, entry)| async move {
                let Ok(endpoint) = &entry.endpoint else { return false };
                let wait =
                    if entry.configured { Duration::from_secs(10) } else { Duration::from_millis(300) };
                let list = tokio::time::timeout(
                    wait,
                    get_json(&self.connections, endpoint, &*entry.dialect, entry.dialect.models_path()),
                );
                let models = match list.await {
                    Ok(Ok(list)) => entry.list(name, &list),
                    Ok(Err(_)) | Err(_) => Vec::new(),
                };
                let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
                let before =
                    listed.insert(name.clone(), Listed { at: Instant::now(), models: models.clone() });
                before.map_or(!models.is_empty(), |b| b.models != models)
            },
        );
        join_all(ask).await.contains(&true)
    }

    /// Asks one provider for its models now, for `doctor`. The error says what is wrong in words for a person.
    pub async fn probe(&self, provider: &str, limit: Duration) -> Result<Vec<ModelInfo>, ModelError> {
        let unknown =
            || wrong(ErrorKind::ModelNotFound, format!("There is no provider called \"{provider}\"."));
        let entry = self.entries.get(provider).ok_or_else(unknown)?;
        let endpoint = entry.endpoint.as_ref().map_err(|why| wrong(ErrorKind::BadRequest, why.clone()))?;
        let list = get_json(&self.connections, endpoint, &*entry.dialect, entry.dialect.models_path());
        let late = || Failure::new(ErrorKind::Timeout, format!("no answer in {} s", limit.as_secs()));
        let list = tokio::time::timeout(limit, list).await.unwrap_or_else(|_| Err(late()));
        let list = list.map_err(|e| e.at(&endpoint.host(), endpoint.key.key().as_ref(), None))?;
        Ok(entry.list(provider, &list))
    }

    fn worth_asking(&self, name: &str, entry: &Entry) -> bool {
        let fresh = self
            .listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .is_some_and(|l| l.at.elapsed() < LIST_AGE);
        let reachable = match self.credential_state(name) {
            CredentialState::Missing { .. } => false,
            CredentialState::Present => true,
            CredentialState::NotNeeded => true,
        };
        !fresh && reachable && entry.endpoint.is_ok()
    }

    /// The models of a provider that are configured or were listed.
    fn known(&self, name: &str) -> Vec<ModelInfo> {
        let Some(entry) = self.entries.get(name) else { return Vec::new() };
        let mut all: Vec<ModelInfo> = entry.row.models.iter().map(|m| entry.info(name, m)).collect();
        if let Some(listed) = self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            for info in &listed.models {
                if !all.iter().any(|i| i.id == info.id) {
                    all.push(info.clone());
                }
            }
        }
        all
    }
}

impl Entry {
    fn new(name: &str, row: ProviderRow, configured: bool) -> Self {
        let title = row.title.clone().unwrap_or_else(|| name.to_owned());
        let dialect: Arc<dyn Dialect> = match row.api.unwrap_or_default() {
            Api::Chat => Arc::new(openai_chat::OpenAiChat::new(name, row.chat.clone().unwrap_or_default())),
            Api::Responses => Arc::new(openai_responses::OpenAiResponses::new(
                name,
                row.responses.clone().unwrap_or_default(),
            )),
            Api::Anthropic => {
                Arc::new(anthropic::Anthropic::new(name, row.anthropic.clone().unwrap_or_default()))
            }
            Api::Gemini => Arc::new(gemini::Gemini::new(name, row.gemini.clone().unwrap_or_default())),
        };
        let endpoint = endpoint(name, &row).map(Arc::new);
        Entry { title, row, dialect, endpoint, configured }
    }

    fn info(&self, provider: &str, model: &ModelRow) -> ModelInfo {
        let name = model.name.clone().unwrap_or_else(|| model.id.clone());
        ModelInfo {
            id: format!("{provider}/{}", model.id),
            name: format!("{name} ({})", self.title),
            context: model.context.or(self.row.context),
            images: model.images.or(self.row.images).unwrap_or(true),
        }
    }

    /// What a `/models` answer says, in any of the forms it has.
    fn list(&self, provider: &str, list: &Value) -> Vec<ModelInfo> {
        let models = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array();
        let row = |model: &Value| {
            let text = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
            let context = [
                "/context_length",
                "/inputTokenLimit",
                "/max_input_tokens",
                "/context_window",
                "/max_model_len",
                "/loaded_context_length",
                "/max_context_length",
                "/meta/n_ctx",
                "/meta/n_ctx_train",
            ];
            let list_has = |at: &str, what: &str| {
                model.pointer(at).and_then(Value::as_array).map(|l| l.iter().any(|v| v == what))
            };
            Some(ModelRow {
                id: text("id")
                    .or_else(|| text("name"))
                    .map(|id| id.strip_prefix("models/").unwrap_or(&id).to_owned())?,
                name: text("display_name").or_else(|| text("displayName")).or_else(|| text("name")),
                context: context.iter().find_map(|at| model.pointer(at)?.as_u64()),
                images: list_has("/architecture/input_modalities", "image")
                    .or_else(|| list_has("/capabilities", "multimodal")),
            })
        };
        models.into_iter().flatten().take(2000).filter_map(row).map(|m| self.info(provider, &m)).collect()
    }
}

fn endpoint(name: &str, row: &ProviderRow) -> Result<Endpoint, String> {
    let text = row.base_url.as_deref().ok_or_else(|| format!("The provider \"{name}\" has no address. Put `base_url` under [providers.{name}] into config.toml."))?;
    let base = base_url(text, row.api.unwrap_or_default()).ok_or_else(|| format!("The `base_url` of the provider \"{name}\" is no http or https URL. Correct it in config.toml or in the environment."))?;
    let keys = [
        row.key.clone().map(KeySource::Value),
        row.key_file.clone().map(KeySource::File),
        row.key_env.clone().map(KeySource::Env),
    ];
    let key = KeySource::First(keys.into_iter().flatten().collect());
    let mut endpoint = Endpoint::new(base, key, row.needs_key.unwrap_or(row.key_env.is_some()));
    endpoint.headers = row.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let Timeouts { first, idle } = endpoint.timeouts;
    endpoint.timeouts = Timeouts {
        first: row.first_byte_seconds.map_or(first, Duration::from_secs),
        idle: row.idle_seconds.map_or(idle, Duration::from_secs),
    };
    Ok(endpoint)
}

fn wrong(kind: ErrorKind, message: String) -> ModelError {
    ModelError { kind, message, host: String::new(), status: None, retry_after: None }
}
