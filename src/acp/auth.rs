//! Signing in: keys are read from the environment and `config.toml`; `authenticate` reads them again.
use super::App;
use hermes_protocol::{Call, acp, invalid_params};

/// The one method so far.
const KEYS: &str = "api-key";

/// Credentials, as the server sees them.
pub trait Auth: Send + Sync {
    /// Reads keys and configuration again, and says what is there for the default model.
    fn refresh(&self) -> Credentials;
    /// Forgets keys until [`Auth::refresh`]. Nothing on disk is changed.
    fn sign_out(&self);
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

pub fn methods() -> Vec<acp::AuthMethod> {
    let description =
        "Uses the key in OPENAI_API_KEY or in config.toml. Set it, then choose this. Local models need none.";
    vec![acp::AuthMethod::Agent(
        acp::AuthMethodAgent::new(acp::AuthMethodId::new(KEYS), "API key")
            .description(description.to_owned()),
    )]
}

/// # Errors
/// -32602 for an unknown method; -32000 where there is still no key.
pub async fn authenticate(
    app: &App,
    request: acp::AuthenticateRequest,
    _call: Call,
) -> Result<acp::AuthenticateResponse, acp::Error> {
    if &*request.method_id.0 != KEYS {
        return Err(invalid_params("methodId", &format!("the only method is `{KEYS}`")));
    }
    match app.auth.refresh() {
        Credentials::Present | Credentials::NotNeeded => Ok(acp::AuthenticateResponse::new()),
        Credentials::Missing { hint } => Err(required(&hint)),
    }
}

pub fn logout(app: &App, _: acp::LogoutRequest) -> Result<acp::LogoutResponse, acp::Error> {
    app.auth.sign_out();
    Ok(acp::LogoutResponse::new())
}

/// -32000 with the methods and what to do.
pub fn required(hint: &str) -> acp::Error {
    let mut error = acp::Error::auth_required();
    error.message = format!("Authentication required: {hint}");
    error.data(serde_json::json!({"kind": "auth", "hint": hint, "authMethods": methods()}))
}
