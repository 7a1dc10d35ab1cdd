//! The credentials of the providers: whether there are some, and how to get them.
use super::{CredentialState, ProviderRow, Registry, input::base_url};
use crate::model::{
    auth::{LoginKind, Pool, Presence, Source, Vault, codex::Issuer},
    http::{Connections, Endpoint, SignIn, Timeouts},
};
use std::{sync::Arc, time::Duration};

impl Registry {
    /// Whether a provider's requests can be signed, looked up anew with each call. Unknown names need nothing.
    pub fn credential_state(&self, provider: &str) -> CredentialState {
        let Some(Ok(endpoint)) = self.entries.get(provider).map(|e| &e.endpoint) else {
            return CredentialState::NotNeeded;
        };
        match endpoint.credentials.presence() {
            Presence::Present => CredentialState::Present,
            Presence::Missing if !endpoint.needs_key => CredentialState::NotNeeded,
            Presence::Missing | Presence::Over => {
                let env = endpoint.sign_in.env.clone();
                CredentialState::Missing { env, hint: endpoint.sign_in.hint() }
            }
        }
    }

    /// The credentials of a provider.
    pub fn credentials(&self, provider: &str) -> Option<Arc<Pool>> {
        Some(self.entries.get(provider)?.endpoint.as_ref().ok()?.credentials.clone())
    }

    /// How a provider is signed in to, besides with a key, and at whom.
    pub fn login(&self, provider: &str) -> Option<(LoginKind, Issuer)> {
        let row = &self.entries.get(provider)?.row;
        let issuer = Issuer {
            url: row.auth_url.clone().unwrap_or_default(),
            client_id: row.client_id.clone().unwrap_or_default(),
        };
        Some((row.login?, issuer))
    }

    /// The server of a provider, without a path: whom a key is given for.
    pub fn origin(&self, provider: &str) -> Option<String> {
        let endpoint = self.entries.get(provider)?.endpoint.as_ref().ok()?;
        Some(endpoint.base.origin().ascii_serialization())
    }

    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }
}

/// Where a provider is reached and what signs its requests, or why it cannot be.
pub(super) fn endpoint(name: &str, row: &ProviderRow, vault: &Vault) -> Result<Endpoint, String> {
    let text = row.base_url.as_deref().ok_or_else(|| format!("The provider \"{name}\" has no address. Put `base_url` under [providers.{name}] into config.toml."))?;
    let base = base_url(text, row.api.unwrap_or_default()).ok_or_else(|| format!("The `base_url` of the provider \"{name}\" is no http or https URL. Correct it in config.toml or in the environment."))?;
    let given = [row.key.clone().map(Source::Value), row.key_file.clone().map(Source::File)];
    let mut sources: Vec<Source> = given.into_iter().flatten().chain(row.keys.iter().cloned()).collect();
    if sources.is_empty() {
        sources.extend(row.key_env.clone().map(Source::Env));
    }
    sources.push(Source::Stored);
    let pool =
        Pool::new(name, sources, row.key_policy, vault.clone()).at(base.origin().ascii_serialization());
    let mut endpoint = Endpoint::new(base, pool, row.needs_key.unwrap_or(row.key_env.is_some()));
    endpoint.needs_key |= row.login == Some(LoginKind::Chatgpt);
    let env = row.keys.iter().find_map(|k| if let Source::Env(name) = k { Some(name.clone()) } else { None });
    endpoint.sign_in =
        SignIn { provider: name.to_owned(), env: env.or_else(|| row.key_env.clone()), login: row.login };
    endpoint.headers = row.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let Timeouts { first, idle } = endpoint.timeouts;
    endpoint.timeouts = Timeouts {
        first: row.first_byte_seconds.map_or(first, Duration::from_secs),
        idle: row.idle_seconds.map_or(idle, Duration::from_secs),
    };
    Ok(endpoint)
}
