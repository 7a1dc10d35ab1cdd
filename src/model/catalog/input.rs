//! The configuration as the catalogue takes it.
use super::{Api, Input, ModelRow, ProviderRow};
use crate::{
    config::{self, Config, KeySource},
    model::auth::{KeyCommand, Source, Vault},
};
use reqwest::Url;
use std::sync::Arc;

impl From<&Config> for Input {
    fn from(config: &Config) -> Self {
        let row = |(name, provider): (&String, &config::Provider)| {
            // An interface that nobody wrote down is the default, which is not an answer.
            let written = config.source(&format!("providers.{name}.api")).is_some();
            let row = ProviderRow {
                base_url: provider.base_url.clone(),
                api: written.then_some(provider.api),
                headers: provider.headers.iter().cloned().collect(),
                models: provider.models.iter().map(ModelRow::named).collect(),
                context: provider.context,
                images: provider.images,
                efforts: provider.efforts.clone(),
                temperature: provider.temperature,
                first_byte_seconds: provider.first_byte_timeout.map(|d| d.as_secs().max(1)),
                idle_seconds: provider.idle_timeout.map(|d| d.as_secs().max(1)),
                keys: provider.keys.iter().map(source).collect(),
                key_policy: provider.key_policy,
                auth_url: provider.auth_url.clone(),
                client_id: provider.client_id.clone(),
                ..ProviderRow::default()
            };
            (name.clone(), row)
        };
        Input {
            providers: config.providers.iter().map(row).collect(),
            model: config.model.clone(),
            vault: Vault::default(),
        }
    }
}

fn source(key: &KeySource) -> Source {
    match key {
        KeySource::Env(name) => Source::Env(name.clone()),
        KeySource::File(path) => Source::File(path.clone()),
        KeySource::Value(secret) => Source::Value(secret.clone()),
        KeySource::Command(words) => Source::Command(Arc::new(KeyCommand::new(words.clone()))),
    }
}

/// The base URL as people write it: with or without a scheme, `/v1`, a slash at the end or the whole path. A bare word is
/// none: nothing is sent to a host that nobody meant.
pub(super) fn base_url(text: &str, api: Api) -> Option<Url> {
    let text = text.trim();
    let text = match text.contains("://") {
        true => text.to_owned(),
        false if config::is_bare_address(text) => format!("http://{text}"),
        false => return None,
    };
    let mut url =
        Url::parse(&text).ok().filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host())?;
    let mut path = url.path().trim_end_matches('/');
    let (ends, empty): (&[&str], _) = match api {
        Api::Chat => (&["/chat/completions"], "/v1"),
        Api::Responses => (&["/responses"], "/v1"),
        // The dialect's own path has the version.
        Api::Anthropic => (&["/messages", "/v1"], ""),
        Api::Gemini => (&[], "/v1beta"),
    };
    for end in ends {
        path = path.strip_suffix(end).unwrap_or(path);
    }
    let path = if path.is_empty() { empty.to_owned() } else { path.to_owned() };
    url.set_path(&path);
    Some(url)
}
