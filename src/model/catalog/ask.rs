//! Asks a provider what models it has and, of a server nearby, what is really in force there.
use super::{
    CredentialState, Entry, Registry,
    list::{self, Server},
    lists::Listed,
    row::ModelRow,
    wrong,
};
use crate::model::{
    ErrorKind, ModelError, ModelInfo,
    failure::Failure,
    http::{Connections, Endpoint, get_json},
};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long a server on this machine that nobody named has to show itself.
const PROBE: Duration = Duration::from_millis(300);
/// How long a list may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a server nearby may take while a prompt waits.
const MOMENT: Duration = Duration::from_secs(1);
/// A window below this is too small to work in; Ollama's own advice for agents is 64,000.
const NARROW: u64 = 32_000;

impl Registry {
    /// Asks all providers that could answer for their models, servers on this machine that nobody named included, all at
    /// once; `true` if the choices changed.
    pub async fn refresh_models(&self) -> bool {
        self.ask(
            |name, _| !matches!(self.credential_state(name), CredentialState::Missing { .. }),
            None,
            PATIENCE,
        )
        .await
    }

    /// Asks for the lists that are missing or old: of the providers that the user named and of the one of this model.
    /// No other host is asked but, with `probe` and where there is no model at all, this machine.
    pub async fn refresh(&self, model: Option<&str>, probe: bool) -> bool {
        let default = self.default_model();
        let model = model.or(default.as_deref());
        let own = model.and_then(|id| id.split_once('/'));
        let worth = |name: &str, entry: &Entry| match self.credential_state(name) {
            CredentialState::Missing { .. } => false,
            _ if !entry.is_at_hand() => false,
            _ if entry.configured || own.is_some_and(|(provider, _)| provider == name) => true,
            _ => probe && model.is_none() && entry.is_near(),
        };
        self.ask(worth, own, PATIENCE).await
    }

    /// Learns what is in force at a server nearby before its model is asked; a moment at most. Where there is no model at
    /// all, and with `probe`, this machine is looked at. `true` if something is news.
    pub async fn prepare(&self, model: Option<&str>, probe: bool) -> bool {
        let default = self.default_model();
        let model = model.or(default.as_deref());
        let own = model.and_then(|id| id.split_once('/'));
        let worth = |name: &str, entry: &Entry| {
            entry.is_near()
                && entry.is_at_hand()
                && match own {
                    Some((provider, _)) => provider == name,
                    None => probe && model.is_none(),
                }
        };
        self.ask(worth, own, MOMENT).await
    }

    /// What a person should know of a model before relying on it: its server cuts long prompts without a word.
    pub fn caution(&self, id: &str) -> Option<String> {
        let (name, model) = id.split_once('/')?;
        let entry = self.entries.get(name)?;
        let cuts = self.listed(name, entry)?.cuts;
        let window = self.info(name, entry, model).context.filter(|n| cuts && *n < NARROW)?;
        Some(format!(
            "Ollama runs {model} with a window of {window} tokens and cuts off what does not fit without a word. Start it \
             with OLLAMA_CONTEXT_LENGTH=65536, or set `num_ctx` in a Modelfile, and load the model again."
        ))
    }

    /// Asks those that are worth it and of which nothing new is known, all at once.
    async fn ask(
        &self,
        worth: impl Fn(&str, &Entry) -> bool,
        own: Option<(&str, &str)>,
        patience: Duration,
    ) -> bool {
        let asked =
            self.entries.iter().filter(|(name, entry)| worth(name, entry)).filter_map(|(name, entry)| {
                let endpoint = entry.endpoint.as_ref().ok()?;
                let base = endpoint.base.as_str();
                let model = own.filter(|(provider, _)| provider == name).map(|(_, model)| model);
                let unsure = model.is_some_and(|id| self.info(name, entry, id).context.is_none());
                if self.lists.is_fresh(name, base, unsure) {
                    return None;
                }
                let patience = if entry.configured || model.is_some() { patience } else { PROBE };
                Some(async move {
                    let said = ask(&self.connections, name, entry, endpoint, model);
                    let said = tokio::time::timeout(patience, said).await.ok().and_then(Result::ok);
                    (endpoint.is_near(), self.lists.put(name, base, endpoint.is_near(), said))
                })
            });
        let news = join_all(asked).await;
        if news.contains(&(false, true)) {
            let lists = self.lists.clone();
            // Left to itself: nobody waits for the file, and what is lost is asked for again.
            drop(tokio::task::spawn_blocking(move || lists.save()));
        }
        news.iter().any(|(_, news)| *news)
    }

    /// Asks one provider for its models now, for `doctor`. The error says what is wrong in words for a person.
    pub async fn probe(&self, provider: &str, limit: Duration) -> Result<Vec<ModelInfo>, ModelError> {
        let unknown =
            || wrong(ErrorKind::ModelNotFound, format!("There is no provider called \"{provider}\"."));
        let entry = self.entries.get(provider).ok_or_else(unknown)?;
        let endpoint = entry.endpoint.as_ref().map_err(|why| wrong(ErrorKind::BadRequest, why.clone()))?;
        let model = self.model_of(provider);
        let list = ask(&self.connections, provider, entry, endpoint, model.as_deref());
        let late = || Failure::new(ErrorKind::Timeout, format!("no answer in {} s", limit.as_secs()));
        let list = tokio::time::timeout(limit, list).await.unwrap_or_else(|_| Err(late()));
        let list = list.map_err(|e| {
            let mut error = e.at(&endpoint.host(), None, None);
            error.message = self.vault.secrets.text(&error.message).into_owned();
            error
        })?;
        let models = list.models.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
        self.lists.put(provider, endpoint.base.as_str(), endpoint.is_near(), Some(list));
        Ok(models.iter().map(|id| self.info(provider, entry, id)).collect())
    }

    /// The default model, if it is of this provider.
    fn model_of(&self, provider: &str) -> Option<String> {
        let default = self.default_model()?;
        let (name, model) = default.split_once('/')?;
        (name == provider).then(|| model.to_owned())
    }
}

/// What a provider says. `model` is the one that will be used, if that is known.
async fn ask(
    connections: &Arc<Connections>,
    name: &str,
    entry: &Entry,
    endpoint: &Endpoint,
    model: Option<&str>,
) -> Result<Listed, Failure> {
    let said = get_json(connections, endpoint, &*entry.dialect, entry.dialect.models_path(), None).await?;
    let mut listed = Listed { models: list::rows(&said), ..Listed::default() };
    if !endpoint.is_near() {
        return Ok(listed);
    }
    let root = Root { connections, entry, endpoint: endpoint.root() };
    match Server::of(name, &said) {
        Server::Ollama => {
            listed.cuts = true;
            root.ollama(&mut listed.models, model).await;
        }
        Server::LlamaCpp => root.llamacpp(&mut listed.models, model).await,
        Server::LmStudio => root.lm_studio(&mut listed.models).await,
        Server::Other => {}
    }
    Ok(listed)
}

/// A server's own interface, beside the one of its models. What it does not answer stays unknown.
struct Root<'a> {
    connections: &'a Arc<Connections>,
    entry: &'a Entry,
    endpoint: Endpoint,
}

impl Root<'_> {
    async fn get(&self, path: &str, body: Option<Value>) -> Option<Value> {
        get_json(self.connections, &self.endpoint, &*self.entry.dialect, path, body.as_ref()).await.ok()
    }

    /// The window of a loaded model is what counts; one that is not loaded will get what its Modelfile says, else a
    /// default that depends on the machine: <https://docs.ollama.com/context-length>.
    async fn ollama(&self, models: &mut [ModelRow], model: Option<&str>) {
        let show = async {
            let id = model?;
            Some((id, self.get("api/show", Some(json!({ "model": id }))).await?))
        };
        let (loaded, show) = join(self.get("api/ps", None), show).await;
        let loaded = loaded.map(|ps| list::ollama_loaded(&ps)).unwrap_or_default();
        // `qwen3` and `qwen3:latest` are one model.
        let same = |a: &str, b: &str| {
            a == b || a.strip_suffix(":latest") == Some(b) || b.strip_suffix(":latest") == Some(a)
        };
        if let Some((id, show)) = show {
            let (known, set) = list::ollama_show(id, &show);
            if let Some(row) = models.iter_mut().find(|row| same(&row.id, id)) {
                (row.images, row.tools) = (known.images, known.tools);
                row.context = set.map(|set| known.context.map_or(set, |most| set.min(most)));
            }
        }
        for row in models {
            if let Some((_, window)) = loaded.iter().find(|(id, _)| same(id, &row.id)) {
                row.context = Some(*window);
            }
        }
    }

    async fn llamacpp(&self, models: &mut [ModelRow], model: Option<&str>) {
        let Some(props) = self.get("props", None).await else { return };
        let (window, images) = list::llamacpp_props(&props);
        // One server, one model; a router has several, and these are of the one that was used last.
        let single = models.len() == 1;
        for row in models.iter_mut().filter(|row| single || model == Some(row.id.as_str())) {
            row.context = window.or(row.context);
            row.images = images.or(row.images);
        }
    }

    /// Its other interface says what is loaded: <https://lmstudio.ai/docs/developer/rest/endpoints>.
    async fn lm_studio(&self, models: &mut Vec<ModelRow>) {
        let Some(said) = self.get("api/v0/models", None).await else { return };
        let rows = list::lm_studio(&said);
        if !rows.is_empty() {
            *models = rows;
        }
    }
}
