//! The configuration as the catalogue takes it.
use super::{Api, Input, ModelRow, ProviderRow};
use crate::config::{self, Config, KeySource};
use reqwest::Url;

impl From<&Config> for Input {
    fn from(config: &Config) -> Self {
        let row = |(name, provider): (&String, &config::Provider)| {
            // An interface that nobody wrote down is the default, which is not an answer.
            let written = config.source(&format!("providers.{name}.api")).is_some();
            let mut row = ProviderRow {
                base_url: provider.base_url.clone(),
                api: written.then_some(provider.api),
                headers: provider.headers.iter().cloned().collect(),
                models: provider.models.iter().map(ModelRow::named).collect(),
                first_byte_seconds: provider.first_byte_timeout.map(|d| d.as_secs().max(1)),
                idle_seconds: provider.idle_timeout.map(|d| d.as_secs().max(1)),
                ..ProviderRow::default()
            };
            match &provider.key {
                Some(KeySource::Env(name)) => row.key_env = Some(name.clone()),
                Some(KeySource::File(path)) => row.key_file = Some(path.clone()),
                Some(KeySource::Value(secret)) => row.key = Some(secret.clone()),
                None => {}
            }
            (name.clone(), row)
        };
        Input {
            providers: config.providers.iter().map(row).collect(),
            model: config.model.clone(),
            remembered: None,
        }
    }
}

/// The base URL as people write it: with or without a scheme, `/v1`, a slash at the end or the whole path.
pub(super) fn base_url(text: &str, api: Api) -> Option<Url> {
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
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
