//! Credentials: where they come from, which of several is used, and how they are renewed.
//!
//! A request asks its [`Pool`] for a [`Credential`]. What is behind it, a variable, a file, a helper command or a login that
//! must first be refreshed, is the business of its [`Source`]. Every secret that passes here is made known to the redactor.
pub mod codex;
mod command;
mod exchange;
mod jwt;
mod login;
pub mod openrouter;
mod pool;
pub mod store;

pub use command::KeyCommand;
pub use pool::{Failed, Pool, Presence};

use crate::{
    clock::Millis,
    secret::{Redactor, Secret},
};
use serde::Deserialize;
use std::{path::PathBuf, sync::Arc};
use store::{CredentialStore, StoreError};

/// What signs one request.
#[derive(Clone, Debug)]
pub struct Credential {
    pub secret: Secret,
    /// The account that it is for, where the provider wants to know: `chatgpt-account-id`.
    pub account: Option<String>,
    /// Its place in the pool.
    slot: usize,
}

/// Where a key comes from. It is looked up for each request, so a session works once the key is there.
#[derive(Clone, Debug)]
pub enum Source {
    /// An environment variable.
    Env(String),
    Value(Secret),
    /// The first line of a file.
    File(PathBuf),
    /// The first line that a command prints.
    Command(Arc<KeyCommand>),
    /// What `hermes-editor login` stored for the provider.
    Stored,
}

/// How a provider is signed in to, besides with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginKind {
    /// A ChatGPT account, by a code that is entered on a page.
    Chatgpt,
    /// A key that OpenRouter makes, by way of the browser.
    Openrouter,
}

/// What the credentials of a process share.
#[derive(Clone, Default)]
pub struct Vault {
    /// `None`: nothing is stored, as in tests of other things.
    pub store: Option<CredentialStore>,
    pub secrets: Redactor,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("stored", &self.store.is_some()).finish_non_exhaustive()
    }
}

/// Why somebody could not be signed in. It says what to do, and holds no secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    #[error("{0}")]
    Issuer(String),
    #[error(
        "{0} does not offer a sign-in by code; allow it in the security settings of the ChatGPT account, or check `auth_url`"
    )]
    NoDeviceCode(String),
    #[error("the code is valid no more: it was not entered within its time (15 minutes); sign in again")]
    Expired,
    #[error("the sign-in was refused on the page; sign in again, and allow it there")]
    Denied,
    #[error("{0}")]
    Import(String),
    #[error("the answer of the browser is not for this sign-in (its state differs); start it again")]
    State,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seconds since the Unix epoch.
fn now() -> i64 {
    Millis::now().0 / 1000
}

/// Stores a credential in place of what was there.
///
/// # Errors
/// [`StoreError`].
pub async fn save(store: &CredentialStore, provider: &str, stored: store::Stored) -> Result<(), StoreError> {
    let (lock, provider) = (store.lock().await?, provider.to_owned());
    blocking(move || lock.put(&provider, &stored)).await
}

/// Forgets what is stored for a provider, and gives what it was.
///
/// # Errors
/// [`StoreError`].
pub async fn forget(store: &CredentialStore, provider: &str) -> Result<Option<store::Stored>, StoreError> {
    let (lock, provider) = (store.lock().await?, provider.to_owned());
    blocking(move || lock.remove(&provider)).await
}

/// Runs what waits for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Busy))
}
