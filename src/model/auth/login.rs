//! A stored login in use: refreshed before it ends, by one process at a time.
//!
//! A refresh token is worth one refresh. So the exchange runs under the lock of the store, after looking whether another
//! process was faster; it is not dropped with the request that wanted it; and its result is on disk before it is used.
use super::{
    codex::{self, Refused},
    now,
    store::{CredentialStore, Locked, Login, StoreError, Stored},
};
use crate::{
    model::{ErrorKind, failure::Failure, http::Connections},
    secret::Secret,
};
use std::sync::Arc;

/// A token that ends sooner is refreshed first, in seconds.
const AHEAD: i64 = 120;

/// What is stored for a provider, fit for a request; `None`: nothing. `refused`: the secret that the provider just did not
/// take; one that is still the same afterwards could not be renewed.
pub(super) async fn current(
    store: &CredentialStore,
    provider: &str,
    connections: &Arc<Connections>,
    refused: Option<&Secret>,
) -> Result<Option<Stored>, Failure> {
    let login = match store.get(provider).map_err(failed)? {
        Some(Stored::Login(login)) => login,
        other => return Ok(other),
    };
    if let Some(why) = &login.dead {
        return Err(over(why, login.imported));
    }
    if is_fit(&login, refused) {
        return Ok(Some(Stored::Login(login)));
    }
    let work = exchange(store.clone(), provider.to_owned(), connections.clone(), refused.cloned());
    let stopped = || Err(Failure::new(ErrorKind::Network, "the refresh of the login was broken off"));
    store.finish(work).await.unwrap_or_else(stopped)
}

pub(super) fn is_fit(login: &Login, refused: Option<&Secret>) -> bool {
    let other = refused.is_none_or(|r| r.expose() != login.access.expose());
    other && login.expires.is_none_or(|end| end - now() >= AHEAD)
}

async fn exchange(
    store: CredentialStore,
    provider: String,
    connections: Arc<Connections>,
    refused: Option<Secret>,
) -> Result<Option<Stored>, Failure> {
    let lock = store.lock().await.map_err(failed)?;
    let login = match lock.get(&provider).map_err(failed)? {
        Some(Stored::Login(login)) => login,
        other => return Ok(other),
    };
    if let Some(why) = &login.dead {
        return Err(over(why, login.imported));
    }
    if is_fit(&login, refused.as_ref()) {
        return Ok(Some(Stored::Login(login)));
    }
    // Where the result could not be kept, the exchange must not be made.
    let lock = keep(lock, &provider, login.clone()).await?;
    match codex::refresh(&connections, &login).await {
        Ok(fresh) => {
            keep(lock, &provider, fresh.clone()).await?;
            Ok(Some(Stored::Login(fresh)))
        }
        Err(Refused::Dead(why)) => {
            tracing::warn!(provider, why, "the login is over; somebody has to sign in again");
            keep(lock, &provider, Login { dead: Some(why.clone()), ..login.clone() }).await?;
            Err(over(&why, login.imported))
        }
        Err(Refused::Later(failure)) => {
            let valid = refused.is_none() && login.expires.is_none_or(|end| end > now());
            tracing::warn!(provider, valid, "the login could not be refreshed: {}", failure.detail);
            if valid { Ok(Some(Stored::Login(login))) } else { Err(failure) }
        }
    }
}

async fn keep(lock: Locked, provider: &str, login: Login) -> Result<Locked, Failure> {
    let provider = provider.to_owned();
    let put = move || lock.put(&provider, &Stored::Login(login)).map(|()| lock);
    super::blocking(put).await.map_err(failed)
}

fn failed(error: StoreError) -> Failure {
    let kind = if matches!(error, StoreError::Busy) { ErrorKind::Timeout } else { ErrorKind::Auth };
    Failure::new(kind, error.to_string())
}

fn over(why: &str, imported: bool) -> Failure {
    let shared =
        if imported { "; it was taken over from Codex, which uses the same refresh token" } else { "" };
    Failure::new(ErrorKind::Auth, format!("the login is over ({why}){shared}"))
}
