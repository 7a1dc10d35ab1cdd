//! The server: ACP's methods over the agent. The only module that names ACP types (I23).
mod admit;
mod auth;
mod commands;
mod config;
mod editor;
mod fork;
mod from_acp;
mod init;
mod prompt;
mod quirks;
mod session;
mod sizes;
mod steer;
mod terminals;
mod to_acp;

use crate::agent::{hermes::Hermes, session::Session};
use hermes_protocol::{End, Options, RegisterMethodError, Routes, Transport, acp};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// What the handlers share: the agent, and what the client said at `initialize`.
pub struct App {
    hermes: Arc<Hermes>,
    quirks: Mutex<quirks::Quirks>,
    auth: Box<dyn auth::Auth>,
}

pub use auth::{Auth, Credentials, SignedOut};

impl App {
    pub fn new(hermes: Arc<Hermes>, auth: Box<dyn Auth>) -> Self {
        App { hermes, quirks: Mutex::default(), auth }
    }

    fn quirks(&self) -> quirks::Quirks {
        *self.quirks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that is active on this connection.
    fn live(&self, id: &acp::SessionId) -> Result<Arc<Session>, acp::Error> {
        self.hermes.live(&(&*id.0).into()).ok_or_else(|| unknown_session(id))
    }
}

/// -32002, with the id.
fn unknown_session(id: &acp::SessionId) -> acp::Error {
    let mut error = acp::Error::resource_not_found(None);
    error.message = format!("Session not found: {}", sizes::short(&id.0, 200));
    error.data(serde_json::json!({ "sessionId": id }))
}

/// Every method, one line each: the table of contents of the server. *Request* runs concurrently, behind what was
/// admitted before it; *in order* takes effect before the next line is read.
fn routes(app: Arc<App>) -> Result<Routes<App>, RegisterMethodError> {
    let names = acp::AGENT_METHOD_NAMES;
    let mut routes = Routes::new(app);
    routes
        .in_order(names.initialize, |app: &App, p, call| init::initialize(app, p, call))?
        .request(names.authenticate, |app: Arc<App>, p, call| async move {
            auth::authenticate(&app, p, call).await
        })?
        .request(names.logout, |app: Arc<App>, p, _| async move { auth::logout(&app, p).await })?
        .request(names.session_new, |app: Arc<App>, p, call| async move { session::new(&app, p, call) })?
        .request(
            names.session_load,
            |app: Arc<App>, p, call| async move { session::load(&app, p, call).await },
        )?
        .request(names.session_resume, |app: Arc<App>, p, call| async move {
            session::resume(&app, p, call).await
        })?
        .request(
            names.session_list,
            |app: Arc<App>, p, call| async move { session::list(&app, p, call).await },
        )?
        .request(
            names.session_close,
            |app: Arc<App>, p, call| async move { session::close(&app, p, call).await },
        )?
        .request(names.session_delete, |app: Arc<App>, p, call| async move {
            session::delete(&app, p, call).await
        })?
        .request(names.session_fork, |app: Arc<App>, p, call| async move { fork::fork(&app, p, call).await })?
        .request(names.session_set_title, |app: Arc<App>, p, call| async move {
            fork::set_title(&app, p, call).await
        })?
        .request(names.session_prompt, |app: Arc<App>, p, call| async move {
            prompt::prompt(&app, p, call).await
        })?
        .notification(names.session_cancel, |app: &App, p, _| prompt::cancel(app, &p))?
        .in_order(names.session_set_mode, |app: &App, p, call| config::set_mode(app, p, call))?
        .in_order(names.session_set_config_option, |app: &App, p, call| config::set_option(app, p, call))?
        .in_order("session/set_model", |app: &App, p, call| config::set_model_alias(app, p, call))?;
    Ok(routes)
}

/// Serves one client to its end.
///
/// # Errors
/// Only where two methods have one name, which a test rules out.
pub async fn serve(
    app: App,
    transport: Transport,
    shutdown: CancellationToken,
) -> Result<End, RegisterMethodError> {
    let app = Arc::new(app);
    let methods = routes(app.clone())?.finish();
    let options = Options { admit: Some(Arc::new(admit::Admission(app))), shutdown, ..Options::default() };
    Ok(hermes_protocol::serve(methods, transport, options).await)
}
