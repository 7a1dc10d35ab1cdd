//! `login` and `logout`: the credentials that we keep ourselves.
use super::{
    Exit,
    args::{LoginArgs, LogoutArgs},
    block_on,
    client::visible,
    say, secret_line,
};
use crate::{
    config::{Config, DataDirs},
    model::{
        CredentialState, Registry,
        auth::{
            self, LoginError, LoginKind, Vault,
            codex::{self, Issuer},
            openrouter::Authorization,
            store::{CredentialStore, Stored},
        },
    },
    secret::Secret,
    setup::{self, CODEX, Revoked},
};
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::Stdio,
};

/// What both commands need.
struct Place {
    store: CredentialStore,
    config: Config,
    registry: Registry,
}

/// How a sign-in ended that is no error.
enum Done {
    SignedIn(Stored),
    GivenUp,
}

impl Place {
    fn open() -> Result<Self, String> {
        let dirs = DataDirs::from_env().map_err(|e| e.to_string())?;
        let config = Config::load(&dirs, |name| std::env::var(name).ok());
        let store = CredentialStore::new(&dirs);
        let vault = Vault { store: Some(store.clone()), ..Vault::default() };
        let registry = setup::registry(&config, vault);
        Ok(Place { store, config, registry })
    }

    fn knows(&self, provider: &str) -> bool {
        self.registry.providers().any(|(name, _)| name == provider)
    }
}

pub fn login(args: &LoginArgs) -> Exit {
    let place = match Place::open() {
        Ok(place) => place,
        Err(why) => return fail(&why),
    };
    let Some(provider) = args.provider.as_deref() else { return list(&place) };
    if !place.knows(provider) {
        let names: Vec<&str> = place.registry.providers().map(|(name, _)| name).collect();
        let text = format!("there is no provider `{provider}`; there are: {}\n", names.join(", "));
        say(&mut io::stderr(), &format!("hermes-editor: {text}"));
        return Exit::Usage;
    }
    if args.import && provider != CODEX {
        say(&mut io::stderr(), "hermes-editor: only the login of `codex` can be taken over with --import\n");
        return Exit::Usage;
    }
    // Before anybody is asked for anything.
    if let Err(e) = place.store.all() {
        return fail(&e.to_string());
    }
    let done = block_on(async {
        // A key is read before anybody listens to Ctrl-C, which then ends the process.
        tokio::select! { biased;
            done = sign_in(&place, provider, args) => done,
            _ = tokio::signal::ctrl_c() => Ok(Done::GivenUp),
        }
    });
    match done {
        Err(e) => fail(&e.to_string()),
        Ok(Err(e)) => fail(&e.to_string()),
        Ok(Ok(Done::GivenUp)) => {
            say(&mut io::stderr(), "Nothing was stored.\n");
            Exit::Cancelled
        }
        Ok(Ok(Done::SignedIn(stored))) => {
            say(&mut io::stdout(), &told(&place, provider, &stored));
            Exit::Good
        }
    }
}

async fn sign_in(place: &Place, provider: &str, args: &LoginArgs) -> Result<Done, LoginError> {
    let stored = match place.registry.login(provider) {
        Some((LoginKind::Chatgpt, issuer)) if args.import => {
            Stored::Login(codex::import(&codex_file(), &issuer)?)
        }
        Some((LoginKind::Chatgpt, issuer)) => chatgpt(place, &issuer, args.browser).await?,
        // A key that was piped in is meant to be stored.
        Some((LoginKind::Openrouter, issuer)) if args.browser || io::stdin().is_terminal() => {
            openrouter(place, provider, &issuer.url, args.browser).await?
        }
        _ => match key(place, provider)? {
            Some(key) => Stored::Key { key, origin: place.registry.origin(provider) },
            None => return Ok(Done::GivenUp),
        },
    };
    auth::save(&place.store, provider, stored.clone()).await?;
    Ok(Done::SignedIn(stored))
}

/// `auth.json` of an installed Codex.
fn codex_file() -> PathBuf {
    let home = std::env::var_os("CODEX_HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    let home = home.or_else(|| etcetera::home_dir().ok().map(|home| home.join(".codex")));
    home.unwrap_or_default().join("auth.json")
}

async fn chatgpt(place: &Place, issuer: &Issuer, browser: bool) -> Result<Stored, LoginError> {
    let code = issuer.device_code(place.registry.connections()).await?;
    let text = format!(
        "Open this page and sign in to ChatGPT:\n\n    {}\n\nThen enter this code, which is valid for 15 minutes:\n\n    \
         {}\n\nGive the code to nobody. Waiting …\n",
        code.url,
        visible(&code.code)
    );
    say(&mut io::stdout(), &text);
    if browser {
        open(&code.url);
    }
    Ok(Stored::Login(issuer.wait(place.registry.connections(), &code).await?))
}

async fn openrouter(place: &Place, provider: &str, base: &str, browser: bool) -> Result<Stored, LoginError> {
    let begun = Authorization::begin(base).await?;
    let text = format!(
        "Open this page and allow Hermes to make a key:\n\n    {}\n\nWaiting for the browser. If it cannot reach this \
         machine, paste the address it ends at, or the code in it, here:\n",
        begun.url
    );
    say(&mut io::stdout(), &text);
    if browser {
        open(&begun.url);
    }
    let pasted = async {
        loop {
            match pasted_line().await {
                None => std::future::pending().await,
                Some(line) if line.expose().trim().is_empty() => {}
                Some(line) => match begun.pasted(line.expose()) {
                    Ok(code) => break code,
                    Err(e) => say(&mut io::stderr(), &format!("{e}\n")),
                },
            }
        }
    };
    let code = tokio::select! {
        code = begun.callback() => code?,
        code = pasted => code,
    };
    let key = begun.key(place.registry.connections(), &code).await?;
    Ok(Stored::Key { key, origin: place.registry.origin(provider) })
}

/// A line of standard input, read beside the wait for the browser; `None`: there is none. Its thread ends with the process.
async fn pasted_line() -> Option<Secret> {
    let (tell, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = io::stdin().read_line(&mut text);
        let _ = tell.send(read.ok().filter(|n| *n > 0).map(|_| Secret::new(text)));
    });
    line.await.ok().flatten()
}

/// Asks for a key; `None`: nobody gave one.
fn key(place: &Place, provider: &str) -> Result<Option<Secret>, LoginError> {
    let title = place.registry.providers().find(|(name, _)| *name == provider).map_or(provider, |(_, t)| t);
    let read = secret_line::read(&format!("The key for {title} (it is not shown): "));
    let key = read.map_err(|e| LoginError::Import(format!("the key could not be read: {e}")))?;
    let Some(key) = key else { return Ok(None) };
    match key.expose() {
        "" => Err(LoginError::Import("the key is empty; nothing was stored".into())),
        text if text.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Err(LoginError::Import("a key has no blanks in it; nothing was stored".into()))
        }
        _ => Ok(Some(key)),
    }
}

/// Opens a page in the browser; where that does not work, the person has the address.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = std::process::Command::new(program);
    let quiet = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(e) = quiet.spawn() {
        say(&mut io::stderr(), &format!("{program} cannot be started ({e}); open the page yourself\n"));
    }
}

fn told(place: &Place, provider: &str, stored: &Stored) -> String {
    let file = place.store.file();
    let mut text = match stored {
        Stored::Key { origin, .. } => {
            let only = origin.as_deref().map(|o| format!(" and is sent to {o} alone")).unwrap_or_default();
            format!("The key for {provider} is stored in {}{only}.\n", file.display())
        }
        Stored::Login(login) => {
            let who = login.email.as_deref().map(|e| format!(" as {e}")).unwrap_or_default();
            format!("Signed in to {provider}{who}; stored in {}.\n", file.display())
        }
    };
    if matches!(stored, Stored::Login(login) if login.imported) {
        text.push_str(
            "Codex and Hermes now share one refresh token, which is worth one refresh: whichever refreshes second is \
             signed out, and signs in again. `hermes-editor login codex` gives Hermes a login of its own.\n",
        );
    }
    let configured = place.config.providers.get(provider).is_some_and(|p| !p.keys.is_empty());
    if configured {
        text.push_str(
            "A key of this provider is also in the environment or in config.toml; that one is used first.\n",
        );
    }
    if place.registry.default_model().is_none_or(|id| !id.starts_with(&format!("{provider}/"))) {
        text.push_str(&format!(
            "To use it, choose a model `{provider}/…` in the editor, or set `model` in config.toml.\n"
        ));
    }
    text
}

/// The providers and how each is signed in to.
fn list(place: &Place) -> Exit {
    let stored = match place.store.all() {
        Ok(stored) => stored,
        Err(e) => return fail(&e.to_string()),
    };
    let mut text = String::new();
    for (name, title) in place.registry.providers() {
        let state = match (place.registry.credential_state(name), stored.get(name)) {
            (CredentialState::Missing { .. }, Some(Stored::Login(login))) => {
                format!("sign in again ({})", login.dead.as_deref().unwrap_or("over"))
            }
            (_, Some(Stored::Login(login))) => {
                let who = login.email.as_deref().map(|e| format!(" as {e}")).unwrap_or_default();
                format!("signed in{who}")
            }
            (CredentialState::Present, Some(Stored::Key { .. })) => "a stored key".to_owned(),
            (_, Some(Stored::Key { origin, .. })) => {
                format!("a stored key, for {} only", origin.as_deref().unwrap_or("another server"))
            }
            (CredentialState::Present, None) => "a key in the environment or in config.toml".to_owned(),
            (CredentialState::NotNeeded, None) => "no key needed".to_owned(),
            (CredentialState::Missing { .. }, None) => "-".to_owned(),
        };
        text.push_str(&format!("{name:<12} {title:<20} {state}\n"));
    }
    text.push_str(
        "\n`hermes-editor login PROVIDER` signs in, `hermes-editor logout [PROVIDER]` forgets it.\n",
    );
    say(&mut io::stdout(), &text);
    Exit::Good
}

pub fn logout(args: &LogoutArgs) -> Exit {
    let place = match Place::open() {
        Ok(place) => place,
        Err(why) => return fail(&why),
    };
    let providers: Vec<String> = match (&args.provider, place.store.all()) {
        (_, Err(e)) => return fail(&e.to_string()),
        (Some(provider), Ok(_)) => vec![provider.clone()],
        (None, Ok(stored)) if stored.is_empty() => {
            say(&mut io::stdout(), "Nothing is stored.\n");
            return Exit::Good;
        }
        (None, Ok(stored)) => stored.into_keys().collect(),
    };
    for provider in providers {
        let done = block_on(setup::sign_out(&place.registry, &place.store, &provider));
        let text = match done {
            Err(e) => return fail(&e.to_string()),
            Ok(Err(e)) => return fail(&e.to_string()),
            Ok(Ok(revoked)) => forgotten(&provider, revoked),
        };
        say(&mut io::stdout(), &text);
        if place.config.providers.get(&provider).is_some_and(|p| !p.keys.is_empty()) {
            let text =
                format!("A key for {provider} in the environment or in config.toml stays where it is.\n");
            say(&mut io::stdout(), &text);
        }
    }
    Exit::Good
}

fn forgotten(provider: &str, revoked: Option<Revoked>) -> String {
    match revoked {
        None => format!("Nothing is stored for {provider}.\n"),
        Some(Revoked::Yes) => format!("Signed out of {provider}.\n"),
        Some(Revoked::Unreachable) => format!(
            "Signed out of {provider} here; its issuer could not be told, so that the login is valid until it ends.\n"
        ),
        Some(Revoked::Shared) => format!("Signed out of {provider} here; Codex stays signed in.\n"),
        Some(Revoked::IsAKey) => {
            format!(
                "The key for {provider} is forgotten here; it is valid until it is deleted at the provider.\n"
            )
        }
    }
}

fn fail(text: &str) -> Exit {
    say(&mut io::stderr(), &format!("hermes-editor: {text}\n"));
    Exit::Failed
}
