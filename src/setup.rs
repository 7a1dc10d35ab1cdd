//! Puts the parts together: configuration, store, models and workspaces.
use crate::{
    acp::{Auth, Credentials},
    agent::{
        hermes::{Hermes, OpenError, Workspaces},
        session::{Folders, Instruction, Limits, Models},
    },
    config::{self, Config, DataDirs, KeySource},
    log::Settings,
    model::{CredentialState, ErrorKind, ModelError, ModelInfo, Provider, Registry},
    secret::Secret,
    store::Store,
    tools::{self, Tools},
    workspace::{EditorSide, SessionWorkspace, Setup, Workspace, process, sandbox},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

/// The agent with all its parts, from the configuration and the environment of this process.
pub struct Assembly {
    pub hermes: Arc<Hermes>,
    pub auth: Box<dyn Auth>,
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// # Errors
/// Where there is no folder for data, with what to do.
pub fn assemble(dirs: DataDirs) -> anyhow::Result<Assembly> {
    let config = Config::load(&dirs, env);
    let store = Store::open(&dirs)?;
    let limits = Limits {
        iterations: config.limits.iterations,
        result_bytes: config.limits.tool_result_bytes,
        retry_budget: config.limits.retry_budget,
    };
    let settings = Settings { mode: config.mode, model: None, effort: None };
    let models = Arc::new(Catalogue::new(dirs, &config));
    let workspaces = Box::new(Local { config });
    let hermes = Hermes::new(store, models.clone(), limits, settings, workspaces);
    Ok(Assembly { hermes: Arc::new(hermes), auth: Box::new(models) })
}

/// The models of the configuration; read again at `authenticate`.
struct Catalogue {
    dirs: DataDirs,
    registry: RwLock<Arc<Registry>>,
    signed_out: std::sync::atomic::AtomicBool,
}

impl Catalogue {
    fn new(dirs: DataDirs, config: &Config) -> Self {
        Catalogue { dirs, registry: RwLock::new(Arc::new(registry(config))), signed_out: false.into() }
    }
    fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn is_signed_out(&self) -> bool {
        self.signed_out.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The registry of a configuration, with the scripted model beside it.
pub fn registry(config: &Config) -> Registry {
    let mut registry = Registry::from_config(config.into(), env);
    registry.add(Arc::new(crate::model::demo::Demo::from_env()));
    registry
}

const NO_MODEL: &str = "no model is configured: set OPENAI_API_KEY and OPENAI_MODEL (and OPENAI_BASE_URL for another \
     server) where the editor is started, or write `model = \"provider/model\"` into config.toml; `hermes-editor doctor` \
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
            return Err(missing("you are signed out; sign in to use this model again"));
        }
        registry.provider(&id)
    }
    fn choices(&self) -> Vec<ModelInfo> {
        self.registry().choices()
    }
    fn default_id(&self) -> Option<String> {
        self.registry().default_model()
    }
}

fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

impl Auth for Arc<Catalogue> {
    fn refresh(&self) -> Credentials {
        let config = Config::load(&self.dirs, env);
        let registry = Arc::new(registry(&config));
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
    fn sign_out(&self) {
        self.signed_out.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Workspaces on this machine, with the editor's buffers in front.
struct Local {
    config: Config,
}

/// How commands run, by the configuration.
fn commands(config: &Config) -> process::Settings {
    let keys = config.providers.values().filter_map(|p| match &p.key {
        Some(KeySource::Env(name)) => Some(name.clone()),
        _ => None,
    });
    let secrets = config.providers.values().filter_map(|p| p.read_key(env).ok().flatten());
    process::Settings {
        strip: keys.chain(KEY_VARIABLES.iter().map(|k| (*k).to_owned())).collect(),
        secrets: secrets.chain(KEY_VARIABLES.iter().filter_map(|k| env(k)).map(Secret::new)).collect(),
        sandbox: match config.sandbox.mode {
            config::SandboxMode::WorkspaceWrite => sandbox::Mode::WorkspaceWrite,
            config::SandboxMode::ReadOnly => sandbox::Mode::ReadOnly,
            config::SandboxMode::Off => sandbox::Mode::Off,
        },
        network_unasked: config.sandbox.network_unasked,
        network_approved: config.sandbox.network_approved,
        writable: config.sandbox.roots.clone(),
        ..process::Settings::default()
    }
}

/// Variables that hold keys of models by convention; commands do not get them.
const KEY_VARIABLES: &[&str] =
    &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// The longest `AGENTS.md` that is taken, in bytes.
const INSTRUCTIONS: u64 = 32 * 1024;

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
            process: commands(&self.config.for_project(&folders.cwd)),
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
        let agents = folders.cwd.join("AGENTS.md");
        let config = self.config.for_project(&folders.cwd);
        std::iter::once(agents)
            .chain(config.instructions)
            .filter_map(|path| read(&folders.cwd, &path))
            .collect()
    }
}

/// A file of instructions; one that is missing, too long or no text is left out.
fn read(cwd: &Path, path: &Path) -> Option<Instruction> {
    use std::io::Read;
    let path = cwd.join(path);
    let mut text = String::new();
    std::fs::File::open(&path).ok()?.take(INSTRUCTIONS).read_to_string(&mut text).ok()?;
    let source = path.strip_prefix(cwd).unwrap_or(&path).display().to_string();
    (!text.trim().is_empty()).then_some(Instruction { source, text, replaces: false })
}
