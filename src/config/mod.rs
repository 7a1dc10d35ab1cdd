//! Configuration, merged per key from defaults < `config.toml` of the user < `.hermes-editor/config.toml` of the
//! project < environment. Each value remembers where it came from, for the texts of errors.
//!
//! Loading never fails: what is wrong becomes a [`Problem`] and the value below it stays in force, so that an editor
//! always gets its agent. The file of a project is written by whoever wrote the repository: it may choose among what
//! the user configured and be stricter, nothing else.
pub mod dirs;
mod keys;
mod layers;
#[cfg(test)]
mod tests;

pub use dirs::{DataDirs, HOME_VAR, NoHome};

use crate::{log::Mode, secret::Secret};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// `provider/model`; `None`: nothing was chosen.
    pub model: Option<String>,
    /// What to ask where the chosen model cannot answer, in this order: `provider/model`.
    pub fallback: Vec<String>,
    pub side: SideModels,
    /// How hard the model thinks in new sessions; `None`: as it does by itself, or as was chosen last.
    pub effort: Option<String>,
    /// Whether servers of models on this machine that nobody named are looked for, where there is no other model.
    pub probe_local: bool,
    /// The mode that new sessions start in.
    pub mode: Mode,
    /// Further files of instructions; relative ones are looked for in the project.
    pub instructions: Vec<PathBuf>,
    pub providers: BTreeMap<String, Provider>,
    pub terminal: Terminal,
    pub sandbox: Sandbox,
    pub limits: Limits,
    pub log: Log,
    /// What is wrong with the files and the environment, for `doctor` and a notice.
    pub problems: Vec<Problem>,
    sources: BTreeMap<String, Source>,
    /// Keys in the files are relative to this folder.
    folder: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            model: None,
            fallback: Vec::new(),
            side: SideModels::default(),
            effort: None,
            probe_local: true,
            mode: Mode::default(),
            instructions: Vec::new(),
            providers: BTreeMap::new(),
            terminal: Terminal::default(),
            sandbox: Sandbox::default(),
            limits: Limits::default(),
            log: Log::default(),
            problems: Vec::new(),
            sources: BTreeMap::new(),
            folder: PathBuf::new(),
        }
    }
}

/// The models for work beside the conversation, as `provider/model`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideModels {
    /// For all of it.
    pub model: Option<String>,
    /// For one kind alone.
    pub title: Option<String>,
    pub summary: Option<String>,
}

/// An endpoint of models.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    pub base_url: Option<String>,
    /// Where keys come from, in the order in which they are tried.
    pub keys: Vec<KeySource>,
    pub key_policy: KeyPolicy,
    pub api: Api,
    /// Names of models to offer; empty: ask the endpoint.
    pub models: Vec<String>,
    /// What is true of all its models; `None`: what is known of each.
    pub context: Option<u64>,
    pub images: Option<bool>,
    pub efforts: Option<Vec<String>>,
    /// Of 0 to 2; `None`: the server's own.
    pub temperature: Option<f64>,
    /// Sent with each request; may hold secrets.
    pub headers: Vec<(String, Secret)>,
    /// Who signs people in; `None`: the provider's own.
    pub auth_url: Option<String>,
    /// What the application is called there.
    pub client_id: Option<String>,
    /// `None`: the default of the client.
    pub connect_timeout: Option<Duration>,
    /// From the request to the first byte of the answer.
    pub first_byte_timeout: Option<Duration>,
    /// Between two pieces of a stream.
    pub idle_timeout: Option<Duration>,
}

/// Where a key comes from; it is read when it is needed.
#[derive(Clone, Debug)]
pub enum KeySource {
    Env(String),
    File(PathBuf),
    Value(Secret),
    /// A program and its arguments; the first line that it prints.
    Command(Vec<String>),
}

/// Which of several keys is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyPolicy {
    /// The first, until it is refused or used up.
    #[default]
    FillFirst,
    /// Each in its turn.
    RoundRobin,
}

/// Whether this is an address without `http://`: a port, `localhost` or numbers tell it from a word.
pub fn is_bare_address(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let has_port = !host.is_empty() && port.parse::<u16>().is_ok();
    let plain = authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    plain && (has_port || authority == "localhost" || authority.parse::<std::net::IpAddr>().is_ok())
}

/// The wire that an endpoint speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
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

impl Api {
    pub const ALL: [Api; 4] = [Api::Chat, Api::Responses, Api::Anthropic, Api::Gemini];
    /// As configuration and environment write it.
    pub fn name(self) -> &'static str {
        match self {
            Api::Chat => "chat",
            Api::Responses => "responses",
            Api::Anthropic => "anthropic",
            Api::Gemini => "gemini",
        }
    }
    pub fn from_name(name: &str) -> Option<Api> {
        Api::ALL.into_iter().find(|api| api.name() == name)
    }
}

/// Commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminal {
    pub backend: Backend,
    /// For commands that name none.
    pub timeout: Duration,
    /// Whether variables that the editor did not pass are taken from a login shell.
    pub login_shell: bool,
}
impl Default for Terminal {
    fn default() -> Self {
        Self { backend: Backend::Agent, timeout: Duration::from_secs(120), login_shell: true }
    }
}

/// Who runs commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// We do, in the sandbox.
    #[default]
    Agent,
    /// The editor's terminals, which cannot be confined.
    Editor,
}

/// How commands are confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub mode: SandboxMode,
    /// Network of commands that run without a question.
    pub network_unasked: bool,
    /// Network of commands that the user approved.
    pub network_approved: bool,
    /// Further folders that commands may write to; absolute.
    pub roots: Vec<PathBuf>,
}
impl Default for Sandbox {
    fn default() -> Self {
        Self {
            mode: SandboxMode::default(),
            network_unasked: false,
            network_approved: true,
            roots: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    #[default]
    WorkspaceWrite,
    ReadOnly,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model requests of one turn.
    pub iterations: u32,
    /// Bytes of a tool's result that the model reads; the rest is spilled to the session's folder.
    pub tool_result_bytes: usize,
    /// For all retries of one request together.
    pub retry_budget: Duration,
}
impl Default for Limits {
    fn default() -> Self {
        Self { iterations: 90, tool_result_bytes: 48 << 10, retry_budget: Duration::from_secs(20) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// As `RUST_LOG` has it; `None`: warnings.
    pub filter: Option<String>,
    /// Also to this file.
    pub file: Option<PathBuf>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    User(PathBuf),
    Project(PathBuf),
    Env(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(file) | Self::Project(file) => file.display().fmt(f),
            Self::Env(name) => f.write_str(name),
        }
    }
}

/// Something wrong with the configuration. It names the key, never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub source: Source,
    /// Counts from 1.
    pub line: Option<usize>,
    /// With dots; empty where it is about the whole file.
    pub key: String,
    pub kind: ProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The file cannot be read or is not TOML: it is left out as a whole.
    Unreadable(String),
    /// There is no such key; the nearest that there is.
    Unknown(Option<String>),
    /// The value is not what the key takes; it is left out.
    Expected(&'static str),
    /// A project may not set this.
    Refused(&'static str),
    /// Others can read a file with a key in it.
    Exposed,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        let key = &self.key;
        match &self.kind {
            ProblemKind::Unreadable(why) => write!(f, "{why}; the file was left out"),
            ProblemKind::Unknown(None) => write!(f, "`{key}` is not a known key"),
            ProblemKind::Unknown(Some(near)) => {
                write!(f, "`{key}` is not a known key; did you mean `{near}`?")
            }
            ProblemKind::Expected(what) if key.is_empty() => write!(f, "expected {what}"),
            ProblemKind::Expected(what) => write!(f, "`{key}`: expected {what}"),
            ProblemKind::Refused(why) => {
                write!(f, "`{key}` cannot be set by a project ({why}); set it in your own config.toml")
            }
            ProblemKind::Exposed => {
                write!(f, "`{key}` holds a key that other users can read; run `chmod 600` on the file")
            }
        }
    }
}

/// Why the key of a provider could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "the environment variable {0} is not set; set it where the editor is started, or use api_key_file"
    )]
    NotSet(String),
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: std::sync::Arc<std::io::Error> },
    #[error("{} is empty; put the key into it", .0.display())]
    Empty(PathBuf),
}

impl Config {
    /// The user's configuration and the environment: what holds where there is no project.
    pub fn load(dirs: &DataDirs, env: impl Fn(&str) -> Option<String>) -> Self {
        layers::load(dirs, env)
    }

    /// The same with the file of the project in this folder, if it has one.
    pub fn for_project(&self, folder: &Path) -> Self {
        layers::project(self, folder)
    }

    /// Where the value of a key (`providers.openai.base_url`) came from; `None`: it is the default.
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.sources.get(key)
    }
}

/// The bytes of a regular file of at most `longest` bytes: a pipe or a device would block or never end.
///
/// # Errors
/// As opening and reading; where it is no regular file or longer.
pub fn read_regular(file: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let refused = || io::Error::other("not a regular file");
    // Looked at before it is opened, since opening a pipe blocks; and after, since it may have become another.
    if !std::fs::metadata(file)?.is_file() {
        return Err(refused());
    }
    let open = std::fs::File::open(file)?;
    if !open.metadata()?.is_file() {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    open.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        return Err(io::Error::other(format!("longer than {longest} bytes")));
    }
    Ok(bytes)
}

impl KeySource {
    /// The key, read now; `None`: it takes a command to know it.
    ///
    /// # Errors
    /// Where the variable or the file has none.
    pub fn read(&self, env: impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, KeyError> {
        match self {
            KeySource::Command(_) => Ok(None),
            KeySource::Value(secret) => Ok(Some(secret.clone())),
            KeySource::Env(name) => match env(name).filter(|v| !v.trim().is_empty()) {
                Some(value) => Ok(Some(Secret::new(value.trim()))),
                None => Err(KeyError::NotSet(name.clone())),
            },
            KeySource::File(file) => {
                let text = layers::read_bounded(file)
                    .map_err(|e| KeyError::File { file: file.clone(), error: std::sync::Arc::new(e) })?;
                let text = Secret::new(text);
                match text.expose().trim() {
                    "" => Err(KeyError::Empty(file.clone())),
                    key => Ok(Some(Secret::new(key))),
                }
            }
        }
    }
}
