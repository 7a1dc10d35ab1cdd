//! Which providers and models there are: rows of data, overridden by the configuration and by the environment.
//!
//! Nothing here waits for the network but [`Registry::refresh_models`].
mod ask;
mod choices;
mod credentials;
mod facts;
mod input;
mod list;
mod lists;
mod row;
#[cfg(test)]
mod tests;

pub use crate::config::Api;
pub use choices::Choices;
pub use lists::Lists;
pub use row::{ModelRow, ProviderRow};

use super::{
    ErrorKind, ImageLimits, ModelError, ModelInfo, Provider,
    auth::Vault,
    dialect::Dialect,
    http::{Connections, Endpoint, HttpProvider},
};
use credentials::endpoint;
use input::base_url;
use std::{collections::BTreeMap, sync::Arc};

/// What the registry is made from.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The `[providers.<name>]` tables of the configuration.
    pub providers: BTreeMap<String, ProviderRow>,
    /// `provider/model` of the configuration.
    pub model: Option<String>,
    /// What is stored, and whom secrets are told to.
    pub vault: Vault,
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
    /// The section of `models.toml`: that of the row with the same host.
    facts: Option<String>,
    /// What the user says of all models of the provider.
    own: ModelRow,
}

/// The providers of the process.
pub struct Registry {
    connections: Arc<Connections>,
    entries: BTreeMap<String, Entry>,
    /// Providers that are no HTTP endpoint.
    others: Vec<(ModelInfo, Arc<dyn Provider>)>,
    model: Option<String>,
    lists: Arc<Lists>,
    vault: Vault,
}

/// Models of one provider that are offered.
const OFFERED: usize = 300;
const ROWS: &str = include_str!("providers.toml");

impl Registry {
    /// Configuration over rows, and the environment over both: `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL`,
    /// `OPENAI_API`, and the same of `ANTHROPIC`.
    pub fn from_config(input: Input, env: impl Fn(&str) -> Option<String>) -> Self {
        let env = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        // The rows are compiled in and tested; without them only what is configured works.
        let mut rows: BTreeMap<String, ProviderRow> = toml::from_str(ROWS).unwrap_or_default();
        let generic = rows.remove("generic").unwrap_or_default();
        let hosts: Vec<(String, String)> = rows
            .iter()
            .filter_map(|(name, row)| Some((host(row.base_url.as_deref()?)?, name.clone())))
            .collect();
        let unnamed = ProviderRow { title: None, ..generic.clone() };
        let mut providers = input.providers;
        let mut model = input.model;
        from_environment(&mut providers, &mut model, env);
        let configured: Vec<String> = providers.keys().cloned().collect();
        let mut own = BTreeMap::new();
        for (name, row) in providers {
            let said = ModelRow {
                context: row.context,
                images: row.images,
                efforts: row.efforts.clone(),
                ..ModelRow::default()
            };
            own.insert(name.clone(), said);
            let mut below = rows.remove(&name).unwrap_or_else(|| unnamed.clone());
            // Another server behind OpenAI's name: none of OpenAI's own habits can be taken for granted.
            if name == "openai" && row.base_url.as_ref().is_some_and(|url| !url.contains("api.openai.com")) {
                below = ProviderRow { title: below.title, key_env: below.key_env, ..generic.clone() };
            }
            // A local server that speaks a hosted provider's wire has models of its own.
            let local = |url: &String| {
                reqwest::Url::parse(url).is_ok_and(|u| u.host_str().is_some_and(super::http::is_loopback))
            };
            if row.base_url.as_ref().is_some_and(local) {
                below.context = None;
            }
            rows.insert(name, row.over(below));
        }
        let entries = rows
            .into_iter()
            .map(|(name, row)| {
                let named = configured.contains(&name);
                let at = row.base_url.as_deref().and_then(host);
                let facts = hosts.iter().find(|(host, _)| at.as_ref() == Some(host)).map(|(_, n)| n.clone());
                let own = own.remove(&name).unwrap_or_default();
                let entry = Entry { facts, own, ..Entry::new(&name, row, named, &input.vault) };
                (name, entry)
            })
            .collect();
        Registry {
            connections: Arc::default(),
            entries,
            others: Vec::new(),
            model,
            lists: Arc::default(),
            vault: input.vault,
        }
    }

    /// With the lists that were kept, and a place for new ones.
    pub fn with_lists(mut self, lists: Arc<Lists>) -> Self {
        self.lists = lists;
        self
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
        let info = self.info(name, entry, model);
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
            let usable = self.is_usable(name, entry);
            if usable && let Some(id) = &entry.row.model {
                push(self.info(name, entry, id));
            }
            self.offered(name, entry, usable).into_iter().for_each(|id| push(self.info(name, entry, &id)));
        }
        self.others.iter().for_each(|(info, _)| push(info.clone()));
        all
    }

    /// The model to take when a session has none: what was configured, else the first that could be
    /// reached.
    pub fn default_model(&self) -> Option<String> {
        let of = |name: &str, entry: &Entry| {
            let own = entry.row.model.clone();
            own.or_else(|| self.offered(name, entry, false).into_iter().next())
                .map(|id| format!("{name}/{id}"))
        };
        self.model
            .clone()
            .or_else(|| {
                let mut usable = self.entries.iter().filter(|(name, entry)| self.is_usable(name, entry));
                usable.find_map(|(name, entry)| of(name, entry))
            })
            .or_else(|| {
                self.entries.iter().find_map(|(name, entry)| {
                    let first = self.offered(name, entry, false).into_iter().next()?;
                    Some(format!("{name}/{first}"))
                })
            })
    }

    /// The user named the provider, or there is a key for it.
    fn is_usable(&self, name: &str, entry: &Entry) -> bool {
        entry.configured || self.credential_state(name) == CredentialState::Present
    }

    /// Whether a model that was chosen once could still be asked.
    pub fn is_reachable(&self, id: &str) -> bool {
        let name = id.split_once('/').map_or(id, |(name, _)| name);
        self.others.iter().any(|(info, _)| info.id == id)
            || self
                .entries
                .get(name)
                .is_some_and(|entry| self.is_usable(name, entry) || self.listed(name, entry).is_some())
    }

    /// The names of the providers, each with its title.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.title.as_str()))
    }

    /// Where a provider's models are reached, for `doctor`.
    pub fn base_url(&self, provider: &str) -> Option<String> {
        self.entries.get(provider)?.endpoint.as_ref().ok().map(|e| e.base.to_string())
    }

    fn listed(&self, name: &str, entry: &Entry) -> Option<lists::Listed> {
        self.lists.of(name, entry.endpoint.as_ref().ok()?.base.as_str())
    }

    /// The names of a provider's models to choose from: those that the user names; else those that it lists; else, if
    /// it could be asked, those that are known of it.
    fn offered(&self, name: &str, entry: &Entry, usable: bool) -> Vec<String> {
        if !entry.row.models.is_empty() {
            return entry.row.models.iter().map(|m| m.id.clone()).collect();
        }
        if let Some(listed) = self.listed(name, entry) {
            let able = listed.models.into_iter().filter(|m| m.tools != Some(false));
            return able.take(OFFERED).map(|m| m.id).collect();
        }
        let known = entry.facts.iter().filter(|_| usable);
        known.flat_map(|section| facts::ids(section)).map(str::to_owned).collect()
    }

    /// What is known of a model: by the user, by its provider, by `models.toml`, in this order.
    fn info(&self, provider: &str, entry: &Entry, id: &str) -> ModelInfo {
        let mut row =
            entry.row.models.iter().find(|m| m.id == id).cloned().unwrap_or_else(|| ModelRow::named(id));
        row = row.over(&entry.own);
        let base = entry.endpoint.as_ref().ok().map(|e| e.base.as_str());
        if let Some(listed) = base.and_then(|base| self.lists.model(provider, base, id)) {
            row = row.over(&listed);
        }
        if let Some(known) = entry.facts.as_deref().and_then(|section| facts::of(section, id)) {
            row = row.over(&known);
        }
        entry.info(provider, &row)
    }
}

/// `OPENAI_BASE_URL`, `OPENAI_MODEL`, `OPENAI_API`, and the same of `ANTHROPIC`.
fn from_environment(
    providers: &mut BTreeMap<String, ProviderRow>,
    model: &mut Option<String>,
    env: impl Fn(&str) -> Option<String>,
) {
    for (name, prefix) in [("openai", "OPENAI"), ("anthropic", "ANTHROPIC")] {
        let var = |what: &str| env(&format!("{prefix}_{what}"));
        let (url, chosen, api) = (var("BASE_URL"), var("MODEL"), var("API").and_then(|a| Api::from_name(&a)));
        if url.is_none() && chosen.is_none() && api.is_none() {
            continue;
        }
        let row = providers.entry(name.into()).or_default();
        row.base_url = url.or(row.base_url.take());
        row.api = api.or(row.api);
        if let Some(chosen) = chosen {
            model.get_or_insert(format!("{name}/{chosen}"));
            row.model = Some(chosen);
        }
    }
}

impl Entry {
    fn new(name: &str, row: ProviderRow, configured: bool, vault: &Vault) -> Self {
        let title = row.title.clone().unwrap_or_else(|| name.to_owned());
        let dialect = row.dialect(name);
        let endpoint = endpoint(name, &row, vault).map(Arc::new);
        Entry { title, row, dialect, endpoint, configured, facts: None, own: ModelRow::default() }
    }

    /// It can be asked without a helper command or the refresh of a login.
    fn is_at_hand(&self) -> bool {
        self.endpoint.as_ref().is_ok_and(|e| e.credentials.is_at_hand())
    }

    /// Its server is on this machine or in its network.
    fn is_near(&self) -> bool {
        self.endpoint.as_ref().is_ok_and(|e| e.is_near())
    }

    fn info(&self, provider: &str, model: &ModelRow) -> ModelInfo {
        let name = model.name.clone().unwrap_or_else(|| model.id.clone());
        let limits = ImageLimits::default();
        ModelInfo {
            id: format!("{provider}/{}", model.id),
            name: format!("{name} ({})", self.title),
            context: model.window().or(self.row.context),
            output: model.output,
            images: model.images.or(self.row.images).unwrap_or(true),
            tools: model.tools,
            efforts: model.efforts.clone().or_else(|| self.row.efforts.clone()).unwrap_or_default(),
            price: model.price,
            limits: ImageLimits {
                bytes: self.row.image_bytes.unwrap_or(limits.bytes),
                count: self.row.image_count.unwrap_or(limits.count),
            },
        }
    }
}

/// The host of an address, for comparison.
fn host(url: &str) -> Option<String> {
    let url = base_url(url, Api::Chat)?;
    let host = url.host_str()?;
    // Many servers share this machine.
    (!host.eq_ignore_ascii_case("localhost") && host.parse::<std::net::IpAddr>().is_err())
        .then(|| host.to_ascii_lowercase())
}

fn wrong(kind: ErrorKind, message: String) -> ModelError {
    ModelError { kind, message, host: String::new(), status: None, retry_after: None }
}
