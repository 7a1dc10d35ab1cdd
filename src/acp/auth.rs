//! Signing in: keys are read from the environment, `config.toml` and what `hermes-editor login` stored; `authenticate` reads
//! them again, or signs in with a ChatGPT account by a code that the editor shows.
use super::App;
use crate::model::auth::{LoginError, codex::DeviceCode};
use hermes_protocol::{Call, Caps, acp, invalid_params};
use serde_json::json;

const KEYS: &str = "api-key";
const CHATGPT: &str = "chatgpt";
/// Sign-ins that are a command in a terminal: id, name, what it is for, what follows the name of the program.
const TERMINAL: &[(&str, &str, &str, &[&str])] = &[
    (
        "login-chatgpt",
        "ChatGPT in a terminal",
        "Shows a page and a code to enter there.",
        &["login", "codex"],
    ),
    (
        "login-openrouter",
        "OpenRouter in a terminal",
        "Opens OpenRouter in the browser, which makes a key.",
        &["login", "openrouter", "--browser"],
    ),
];

/// Credentials, as the server sees them.
#[async_trait::async_trait]
pub trait Auth: Send + Sync {
    /// Reads keys and configuration again, and says what is there for the default model.
    fn refresh(&self) -> Credentials;
    /// Removes what was stored, and uses no key until [`Auth::refresh`]. The environment and `config.toml` stay.
    async fn sign_out(&self) -> Result<SignedOut, LoginError>;
    /// Whether there is a ChatGPT login that was not refused.
    fn has_chatgpt(&self) -> bool;
    /// Begins to sign in with a ChatGPT account.
    async fn chatgpt_code(&self) -> Result<DeviceCode, LoginError>;
    /// Waits until the code was entered, and stores the login.
    async fn chatgpt_wait(&self, code: &DeviceCode) -> Result<(), LoginError>;
}

/// Whether the default model can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    Present,
    /// A local model, or one that needs none.
    NotNeeded,
    /// With what to do about it.
    Missing {
        hint: String,
    },
}

/// What signing out did, by names of providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedOut {
    pub removed: Vec<String>,
    /// Those with a key in the environment or in `config.toml`, which is not ours to remove.
    pub kept: Vec<String>,
}

/// The methods for this client: one in a terminal only where it can open one.
pub fn methods(caps: &Caps) -> Vec<acp::AuthMethod> {
    let agent = |id: &str, name: &str, description: &str| {
        let method = acp::AuthMethodAgent::new(acp::AuthMethodId::new(id), name);
        acp::AuthMethod::Agent(method.description(description.to_owned()))
    };
    let mut all = vec![
        agent(
            KEYS,
            "API key",
            "Uses the key in OPENAI_API_KEY, in config.toml or stored by `hermes-editor login`. Set it, then choose this. \
             Local models need none.",
        ),
        agent(
            CHATGPT,
            "ChatGPT account",
            "Signs in with a ChatGPT plan, by a code that is entered on a page of OpenAI's.",
        ),
    ];
    if caps.terminal_auth {
        all.extend(TERMINAL.iter().map(|(id, name, description, args)| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            let mut method = acp::AuthMethodTerminal::new(acp::AuthMethodId::new(*id), *name)
                .description((*description).to_owned());
            if caps.terminal_auth_meta {
                let program = std::env::current_exe().unwrap_or_else(|_| "hermes-editor".into());
                let command = json!({"command": program, "args": args, "label": name});
                method = method.meta(super::to_acp::meta("terminal-auth", command));
            }
            acp::AuthMethod::Terminal(method.args(args))
        }));
    }
    all
}

/// # Errors
/// -32602 for an unknown method; -32000 where there is still no key, or nobody signed in.
pub async fn authenticate(
    app: &App,
    request: acp::AuthenticateRequest,
    call: Call,
) -> Result<acp::AuthenticateResponse, acp::Error> {
    let caps = call.peer.caps();
    let id = &*request.method_id.0;
    if id == CHATGPT {
        if !app.auth.has_chatgpt() {
            call.or_cancelled(chatgpt(app, &call)).await?;
        }
        // Whether the default model is another's is told when it is asked.
        app.auth.refresh();
        return Ok(acp::AuthenticateResponse::new());
    }
    // A client with the older form of terminal methods comes here after the terminal has closed.
    if id != KEYS && !TERMINAL.iter().any(|(known, ..)| *known == id) {
        return Err(invalid_params("methodId", "is none of the methods that `initialize` told"));
    }
    match app.auth.refresh() {
        Credentials::Present | Credentials::NotNeeded => Ok(acp::AuthenticateResponse::new()),
        Credentials::Missing { hint } => Err(required(&hint, &caps)),
    }
}

/// Shows page and code by whatever the client has for it, and waits for the person.
async fn chatgpt(app: &App, call: &Call) -> Result<(), acp::Error> {
    let caps = call.peer.caps();
    let failed = |e: LoginError| required(&e.to_string(), &caps);
    let Some(id) = call.id.clone().filter(|_| caps.elicit_url || caps.elicit_form) else {
        let hint = "this editor cannot show the code: run `hermes-editor login codex` in a terminal, then choose \
                    this again";
        return Err(required(hint, &caps));
    };
    let code = app.auth.chatgpt_code().await.map_err(failed)?;
    let elicitation = acp::ElicitationId::new(crate::id::MessageId::new().as_str());
    let question = question(&caps, id, &elicitation, &code);
    let asked = call.peer.request::<acp::CreateElicitationResponse>(
        acp::CLIENT_METHOD_NAMES.elicitation_create,
        &question,
        None,
    );
    let waiting = app.auth.chatgpt_wait(&code);
    tokio::pin!(asked, waiting);
    let mut answered = false;
    loop {
        tokio::select! { biased;
            done = &mut waiting => {
                done.map_err(failed)?;
                break;
            }
            answer = &mut asked, if !answered => match answer.map(|a| a.action) {
                Ok(acp::ElicitationAction::Accept(_)) => answered = true,
                Ok(_) => return Err(required("the sign-in was cancelled; choose it again to sign in", &caps)),
                Err(error) => {
                    tracing::warn!("the editor did not show the code: {error}");
                    let hint = "the editor did not show the code: run `hermes-editor login codex` in a terminal";
                    return Err(required(hint, &caps));
                }
            },
        }
    }
    if caps.elicit_url {
        let done = acp::CompleteElicitationNotification::new(elicitation);
        // A client that is gone needs no word.
        _ = call.peer.notify(acp::CLIENT_METHOD_NAMES.elicitation_complete, &done).await;
    }
    Ok(())
}

fn question(
    caps: &Caps,
    request: acp::RequestId,
    elicitation: &acp::ElicitationId,
    device: &DeviceCode,
) -> acp::CreateElicitationRequest {
    let scope = acp::ElicitationRequestScope::new(request);
    let (url, code) = (device.url.as_str(), device.code.as_str());
    if caps.elicit_url {
        let mode = acp::ElicitationUrlMode::new(scope, elicitation.clone(), url);
        let message = format!(
            "Sign in to ChatGPT on this page and enter the code {code} (valid for 15 minutes; give it to nobody)."
        );
        acp::CreateElicitationRequest::new(mode, message)
    } else {
        let mode = acp::ElicitationFormMode::new(scope, acp::ElicitationSchema::new());
        let message = format!(
            "Open {url} in a browser, sign in to ChatGPT and enter the code {code} (valid for 15 minutes; give it to nobody)."
        );
        acp::CreateElicitationRequest::new(mode, message)
    }
}

/// # Errors
/// -32603 where what is stored cannot be removed.
pub async fn logout(app: &App, _: acp::LogoutRequest) -> Result<acp::LogoutResponse, acp::Error> {
    let out = app.auth.sign_out().await.map_err(|e| {
        let mut error = acp::Error::internal_error();
        error.message = e.to_string();
        error.data(json!({"kind": "credentials", "hint": "no key is used until you sign in again"}))
    })?;
    let done = json!({"removed": out.removed, "kept": out.kept});
    Ok(acp::LogoutResponse::new().meta(super::to_acp::meta("hermes-editor", done)))
}

/// -32000 with the methods and what to do.
pub fn required(hint: &str, caps: &Caps) -> acp::Error {
    let mut error = acp::Error::auth_required();
    error.message = format!("Authentication required: {hint}");
    error.data(json!({"kind": "auth", "hint": hint, "authMethods": methods(caps)}))
}
