//! Puts the parts together: configuration, store, models and workspaces.
mod instructions;

use crate::{
    acp::{Auth, Credentials, SignedOut},
    agent::{
        hermes::{Hermes, OpenError, Workspaces},
        session::{Folders, Instruction, Limits, Models, Prepared},
        side::Side,
    },
    config::{self, Config, DataDirs, KeySource},
    log::Settings,
    model::{
        CredentialState, ErrorKind, ModelError, ModelInfo, Provider, Registry,
        auth::{
            self, LoginError, Vault,
            codex::{self, DeviceCode},
            store::{CredentialStore, Stored},
        },
        catalog::{Choices, Input, Lists},
    },
    secret::{Redactor, Secret},
    store::Store,
    tools::{self, Tools},
    workspace::{
        EditorSide, SessionWorkspace, Setup, Workspace,
        process::{self, environment::KEYS},
        sandbox,
    },
};
use futures_util::future::BoxFuture;
use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// The agent with all its parts, from the configuration and the environment of this process.
pub struct Assembly {
    pub hermes: Arc<Hermes>,
    pub auth: Box<dyn Auth>,
    /// What nothing may show or keep; grows with what is learnt.
    pub secrets: Redactor,
    /// What `login` stored.
    pub credentials: CredentialStore,
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// # Errors
/// Where there is no folder for data, with what to do.
pub fn assemble(dirs: DataDirs, secrets: Redactor) -> anyhow::Result<Assembly> {
    let config = Config::load(&dirs, env);
    let credentials = CredentialStore::new(&dirs);
    let vault = Vault { store: Some(credentials.clone()), secrets: secrets.clone() };
    learn(&config, &vault);
    let store = Store::open(&dirs)?;
    let limits = Limits {
        iterations: config.limits.iterations,
        result_bytes: config.limits.tool_result_bytes,
        retry_budget: config.limits.retry_budget,
    };
    let settings = Settings { mode: config.mode, model: None, effort: None };
    let models = Arc::new(Catalogue::new(dirs, &config, vault));
    let workspaces = Box::new(Local { config, secrets: secrets.clone() });
    let hermes = Hermes::new(store, models.clone(), limits, settings, workspaces);
    Ok(Assembly { hermes: Arc::new(hermes), auth: Box::new(models), secrets, credentials })
}

/// The models of the configuration; read again at `authenticate`.
struct Catalogue {
    dirs: DataDirs,
    vault: Vault,
    registry: RwLock<Arc<Registry>>,
    lists: Arc<Lists>,
    choices: Choices,
    configured: RwLock<Chosen>,
    signed_out: std::sync::atomic::AtomicBool,
}

/// The provider of ChatGPT accounts.
pub const CODEX: &str = "codex";

impl Catalogue {
    fn new(dirs: DataDirs, config: &Config, vault: Vault) -> Self {
        let lists = Arc::new(Lists::in_file(dirs.model_lists()));
        let choices = Choices::in_file(dirs.choices());
        let registry = registry_with(config, vault.clone(), lists.clone());
        Catalogue {
            dirs,
            vault,
            registry: RwLock::new(Arc::new(registry)),
            lists,
            choices,
            configured: RwLock::new(Chosen::of(config)),
            signed_out: false.into(),
        }
    }
    fn configured(&self) -> Chosen {
        self.configured.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Whether the choice of models, or the default, is another after this.
    async fn learn(&self, work: impl AsyncFnOnce(&Registry, bool) -> bool) -> bool {
        let registry = self.registry();
        let before = (registry.default_model(), registry.choices());
        work(&registry, self.configured().probe).await
            && before != (registry.default_model(), registry.choices())
    }
    fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn is_signed_out(&self) -> bool {
        self.signed_out.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// What the configuration says beside its models.
#[derive(Clone)]
struct Chosen {
    model: bool,
    fallback: Vec<String>,
    effort: Option<String>,
    side: config::SideModels,
    probe: bool,
}

impl Chosen {
    fn of(config: &Config) -> Self {
        Chosen {
            model: config.model.is_some(),
            fallback: config.fallback.clone(),
            effort: config.effort.clone(),
            side: config.side.clone(),
            probe: config.probe_local,
        }
    }
}

/// The registry of a configuration, with the scripted model beside it.
pub fn registry(config: &Config, vault: Vault) -> Registry {
    registry_with(config, vault, Arc::default())
}

fn registry_with(config: &Config, vault: Vault, lists: Arc<Lists>) -> Registry {
    let input = Input { vault, ..config.into() };
    let mut registry = Registry::from_config(input, env).with_lists(lists);
    registry.add(Arc::new(crate::model::demo::Demo::from_env()));
    registry
}

const NO_MODEL: &str = "no model is configured: set OPENAI_API_KEY and OPENAI_MODEL (and OPENAI_BASE_URL for another \
     server) where the editor is started, run `hermes-editor login codex` for a ChatGPT account, or write `model = \"provider/model\"` into config.toml; `hermes-editor doctor` \
     shows what was found";

impl Models for Catalogue {
    fn provider(&self, model: Option<&str>) -> Result<Arc<dyn Provider>, ModelError> {
        let missing = |message: &str| ModelError {
            kind: ErrorKind::Auth,
            message: message.into(),
            host: String::new(),
            status: None,
            retry_after: None,
        };
        let registry = self.registry();
        let id =
            model.map(str::to_owned).or_else(|| registry.default_model()).ok_or_else(|| missing(NO_MODEL))?;
        if self.is_signed_out() && registry.credential_state(provider_of(&id)) == CredentialState::Present {
            return Err(missing(
                "you are signed out; sign in to use this model again. Its key is in the environment, in config.toml or \
                 was stored later: signing out removes only what `hermes-editor login` had stored",
            ));
        }
        registry.provider(&id)
    }
    fn choices(&self) -> Vec<ModelInfo> {
        self.registry().choices()
    }
    fn default_id(&self) -> Option<String> {
        self.registry().default_model()
    }
    fn fallback(&self) -> Vec<String> {
        self.configured().fallback
    }
    fn side(&self, side: Side) -> Option<Arc<dyn Provider>> {
        let chosen = self.configured().side;
        let own = match side {
            Side::Title => chosen.title,
            Side::Summary => chosen.summary,
        };
        self.provider(Some(&own.or(chosen.model)?)).ok()
    }
    fn prepare(&self, model: Option<&str>) -> BoxFuture<'_, Prepared> {
        let model = model.map(str::to_owned);
        Box::pin(async move {
            let changed = self
                .learn(async |registry: &Registry, probe| registry.prepare(model.as_deref(), probe).await)
                .await;
            let registry = self.registry();
            let model = model.or_else(|| registry.default_model());
            Prepared { changed, caution: model.and_then(|id| registry.caution(&id)) }
        })
    }
    fn refresh(&self, model: Option<&str>) -> BoxFuture<'_, bool> {
        let model = model.map(str::to_owned);
        Box::pin(async move {
            self.learn(async |registry: &Registry, probe| registry.refresh(model.as_deref(), probe).await)
                .await
        })
    }
    fn remember(&self, settings: &Settings) {
        if settings.model.as_deref() == Some(crate::model::demo::ID) {
            return;
        }
        self.choices.remember(settings.model.as_deref(), settings.effort.as_deref());
    }
    fn initial(&self) -> (Option<String>, Option<String>) {
        let chosen = self.configured();
        if chosen.model {
            return (None, chosen.effort);
        }
        let model = self.choices.model().filter(|id| self.registry().is_reachable(id));
        // What was chosen last goes with the model that was chosen last.
        let effort = chosen.effort.or_else(|| self.choices.effort());
        (model, effort)
    }
}

fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

#[async_trait::async_trait]
impl Auth for Arc<Catalogue> {
    fn refresh(&self) -> Credentials {
        let config = Config::load(&self.dirs, env);
        learn(&config, &self.vault);
        let registry = Arc::new(registry_with(&config, self.vault.clone(), self.lists.clone()));
        *self.configured.write().unwrap_or_else(PoisonError::into_inner) = Chosen::of(&config);
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = registry.clone();
        self.signed_out.store(false, std::sync::atomic::Ordering::Relaxed);
        // Without a model there is nothing to sign in to; a prompt says what to configure.
        let Some(model) = registry.default_model() else { return Credentials::NotNeeded };
        match registry.credential_state(provider_of(&model)) {
            CredentialState::Present => Credentials::Present,
            CredentialState::NotNeeded => Credentials::NotNeeded,
            CredentialState::Missing { hint, .. } => Credentials::Missing { hint },
        }
    }
    async fn sign_out(&self) -> Result<SignedOut, LoginError> {
        self.signed_out.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut out = SignedOut::default();
        let registry = self.registry();
        if let Some(store) = &self.vault.store {
            for provider in store.all()?.into_keys() {
                sign_out(&registry, store, &provider).await?;
                out.removed.push(provider);
            }
        }
        let kept = registry.providers().map(|(name, _)| name.to_owned());
        out.kept = kept.filter(|p| registry.credential_state(p) == CredentialState::Present).collect();
        Ok(out)
    }
    fn has_chatgpt(&self) -> bool {
        let registry = self.registry();
        registry.credential_state(CODEX) == CredentialState::Present
            && !registry.credentials(CODEX).is_some_and(|pool| pool.login_was_refused())
    }
    async fn chatgpt_code(&self) -> Result<DeviceCode, LoginError> {
        let registry = self.registry();
        let (_, issuer) = registry.login(CODEX).unwrap_or_else(unknown);
        issuer.device_code(registry.connections()).await
    }
    async fn chatgpt_wait(&self, code: &DeviceCode) -> Result<(), LoginError> {
        let registry = self.registry();
        let (_, issuer) = registry.login(CODEX).unwrap_or_else(unknown);
        let login = issuer.wait(registry.connections(), code).await?;
        if let Some(store) = &self.vault.store {
            auth::save(store, CODEX, Stored::Login(login)).await?;
        }
        Ok(())
    }
}

/// What a row without an issuer gives: its empty address is told as what is wrong.
fn unknown() -> (auth::LoginKind, codex::Issuer) {
    (auth::LoginKind::Chatgpt, codex::Issuer { url: String::new(), client_id: String::new() })
}

/// Forgets what is stored for a provider, and takes it back at its issuer where it is ours alone.
///
/// # Errors
/// Where the store cannot be changed. That the issuer could not be told is no error.
pub async fn sign_out(
    registry: &Registry,
    store: &CredentialStore,
    provider: &str,
) -> Result<Option<Revoked>, LoginError> {
    Ok(match auth::forget(store, provider).await? {
        None => None,
        Some(Stored::Key { .. }) => Some(Revoked::IsAKey),
        Some(Stored::Login(login)) if login.imported => Some(Revoked::Shared),
        Some(Stored::Login(login)) => match codex::revoke(registry.connections(), &login).await {
            true => Some(Revoked::Yes),
            false => Some(Revoked::Unreachable),
        },
    })
}

/// What became of a credential at its issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    Yes,
    Unreachable,
    /// Another program uses the same login.
    Shared,
    /// It is valid until it is deleted on the provider's pages.
    IsAKey,
}

/// Workspaces on this machine, with the editor's buffers in front.
struct Local {
    config: Config,
    secrets: Redactor,
}

/// How long the login shell may take.
const LOGIN_SHELL: std::time::Duration = std::time::Duration::from_secs(3);

/// How commands run, by the configuration.
fn commands(config: &Config, secrets: &Redactor) -> process::Settings {
    let keys = config.providers.values().flat_map(|p| &p.keys).filter_map(|key| match key {
        KeySource::Env(name) => Some(name.clone()),
        _ => None,
    });
    process::Settings {
        strip: keys.collect(),
        secrets: secrets.clone(),
        sandbox: match config.sandbox.mode {
            config::SandboxMode::WorkspaceWrite => sandbox::Mode::WorkspaceWrite,
            config::SandboxMode::ReadOnly => sandbox::Mode::ReadOnly,
            config::SandboxMode::Off => sandbox::Mode::Off,
        },
        network_unasked: config.sandbox.network_unasked,
        network_approved: config.sandbox.network_approved,
        writable: config.sandbox.roots.clone(),
        login_shell: config.terminal.login_shell.then_some(LOGIN_SHELL),
        ..process::Settings::default()
    }
}

/// Our own secret values, by the names under which placeholders show them: keys of the configured providers, variables
/// that hold keys of models by convention, and headers that carry credentials.
pub fn secrets(config: &Config) -> Redactor {
    let redactor = Redactor::default();
    learn(config, &Vault { store: None, secrets: redactor.clone() });
    redactor
}

/// Makes them known, with all that is stored. What a helper command prints is learnt when it is run.
fn learn(config: &Config, vault: &Vault) {
    let keys = config.providers.iter().flat_map(|(id, p)| p.keys.iter().map(move |key| (id, key)));
    let keys = keys.filter_map(|(id, key)| {
        let name = match key {
            KeySource::Env(name) => name.clone(),
            _ => format!("{id}.key"),
        };
        Some((name, key.read(env).ok().flatten()?))
    });
    let variables = KEYS.iter().filter_map(|k| Some(((*k).to_owned(), Secret::new(env(k)?))));
    let headers = config.providers.iter().flat_map(|(id, p)| {
        p.headers.iter().filter(|(name, _)| is_credential(name)).map(move |(name, value)| {
            // `Bearer KEY`: the key is what must not be seen.
            let value = value.expose().trim();
            let token = value.split_once(' ').map_or(value, |(_, token)| token);
            (format!("{id}.headers.{name}"), Secret::new(token))
        })
    });
    // A variable is the better name where the value is that of a provider too.
    vault.secrets.add(variables.chain(keys).chain(headers));
    // A file that cannot be read is told by whoever wants to use it.
    let stored = vault.store.as_ref().and_then(|store| store.all().ok()).unwrap_or_default();
    for (provider, stored) in stored {
        let name = format!("{provider}.key");
        match stored {
            Stored::Key { key, .. } => vault.secrets.add([(name, key)]),
            Stored::Login(login) => vault.secrets.add([(name.clone(), login.access), (name, login.refresh)]),
        }
    }
}

fn is_credential(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|part| name.contains(part))
}

impl Workspaces for Local {
    fn open(
        &self,
        folders: &Folders,
        spill: PathBuf,
        editor: EditorSide,
    ) -> Result<Arc<dyn Workspace>, OpenError> {
        let mut roots = vec![folders.cwd.clone()];
        roots.extend(folders.additional.iter().cloned());
        let setup = Setup {
            roots,
            session_folder: spill,
            home: etcetera::home_dir().ok(),
            buffers: editor.buffers,
            process: commands(&self.config.for_project(&folders.cwd), &self.secrets),
        };
        let workspace = SessionWorkspace::new(setup).map_err(|e| OpenError::Workspace(e.to_string()))?;
        Ok(Arc::new(match self.config.terminal.backend {
            config::Backend::Agent => workspace,
            config::Backend::Editor => workspace.in_editor(editor.terminals),
        }))
    }
    fn tools(&self) -> Tools {
        tools::builtin_with(self.config.terminal.timeout)
    }
    fn instructions(&self, folders: &Folders) -> Vec<Instruction> {
        instructions::read(folders, &self.config.for_project(&folders.cwd).instructions)
    }
}
