//! The rows: providers and models as data.
use crate::{
    config::{Api, KeyPolicy},
    model::{
        auth::{LoginKind, Source},
        dialect::{Dialect, anthropic, gemini, openai_chat, openai_responses},
        price::Price,
    },
    secret::Secret,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// A provider as `providers.toml` and `config.toml` write it; what is missing comes from the row below.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderRow {
    pub title: Option<String>,
    pub base_url: Option<String>,
    pub api: Option<Api>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// The key itself; better kept in a file or in the environment.
    #[serde(deserialize_with = "secret")]
    pub key: Option<Secret>,
    /// A file whose first line is the key.
    pub key_file: Option<PathBuf>,
    /// Where further keys come from, in the order in which they are tried.
    #[serde(skip)]
    pub keys: Vec<Source>,
    #[serde(skip)]
    pub key_policy: KeyPolicy,
    /// How it is signed in to, besides with a key.
    pub login: Option<LoginKind>,
    /// Who signs people in.
    pub auth_url: Option<String>,
    /// What we are called there.
    pub client_id: Option<String>,
    /// Requests without a key are not sent. Never asked of a loopback host, but for one with a `login` of its own.
    pub needs_key: Option<bool>,
    #[serde(deserialize_with = "secrets")]
    pub headers: BTreeMap<String, Secret>,
    pub models: Vec<ModelRow>,
    /// The model to take when none is chosen.
    pub model: Option<String>,
    /// Tokens, for models that say nothing themselves.
    pub context: Option<u64>,
    pub images: Option<bool>,
    /// For models of which nothing else is known.
    pub efforts: Option<Vec<String>>,
    /// The largest image that it takes, in bytes, and how many of them in one request.
    pub image_bytes: Option<usize>,
    pub image_count: Option<usize>,
    /// Sent with every request; `None`: the server's own.
    pub temperature: Option<f64>,
    pub chat: Option<openai_chat::Options>,
    pub responses: Option<openai_responses::Options>,
    pub anthropic: Option<anthropic::Options>,
    pub gemini: Option<gemini::Options>,
    pub first_byte_seconds: Option<u64>,
    pub idle_seconds: Option<u64>,
}

/// A model as a provider's row, `models.toml` or a list of the provider's says it. What is `None` is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRow {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens of input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Tokens of input, where that is less than the context leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens of one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// How hard it can be told to think, in the provider's words, least first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efforts: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl ModelRow {
    /// Only the name.
    pub fn named(id: impl Into<String>) -> Self {
        ModelRow { id: id.into(), ..ModelRow::default() }
    }

    /// This row, with what it leaves open taken from `below`.
    pub fn over(self, below: &ModelRow) -> ModelRow {
        ModelRow {
            id: self.id,
            name: self.name.or_else(|| below.name.clone()),
            context: self.context.or(below.context),
            input: self.input.or(below.input),
            output: self.output.or(below.output),
            images: self.images.or(below.images),
            tools: self.tools.or(below.tools),
            efforts: self.efforts.or_else(|| below.efforts.clone()),
            price: self.price.or(below.price),
        }
    }

    /// The most tokens that a request may have.
    pub fn window(&self) -> Option<u64> {
        match (self.input, self.context) {
            (Some(input), Some(context)) => Some(input.min(context)),
            (input, context) => input.or(context),
        }
    }
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.map(Secret::new))
}
fn secrets<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, Secret>, D::Error> {
    Ok(BTreeMap::<String, String>::deserialize(d)?.into_iter().map(|(k, v)| (k, Secret::new(v))).collect())
}

impl ProviderRow {
    /// The dialect of the provider, with its options.
    pub(super) fn dialect(&self, name: &str) -> Arc<dyn Dialect> {
        let (api, temperature) = (self.api.unwrap_or_default(), self.temperature);
        let warm = |extra: &mut Map<String, Value>| {
            extra.extend(temperature.map(|t| ("temperature".to_owned(), t.into())));
        };
        match api {
            Api::Chat => {
                let mut options = self.chat.clone().unwrap_or_default();
                warm(&mut options.extra);
                Arc::new(openai_chat::OpenAiChat::new(name, options))
            }
            Api::Responses => {
                let mut options = self.responses.clone().unwrap_or_default();
                warm(&mut options.extra);
                Arc::new(openai_responses::OpenAiResponses::new(name, options))
            }
            Api::Anthropic => {
                let mut options = self.anthropic.clone().unwrap_or_default();
                warm(&mut options.extra);
                Arc::new(anthropic::Anthropic::new(name, options))
            }
            Api::Gemini => {
                let mut options = self.gemini.clone().unwrap_or_default();
                options.temperature = temperature.or(options.temperature);
                Arc::new(gemini::Gemini::new(name, options))
            }
        }
    }

    /// This row, with what it leaves open taken from `below`.
    pub(super) fn over(self, below: ProviderRow) -> ProviderRow {
        let mut headers = below.headers;
        headers.extend(self.headers);
        ProviderRow {
            title: self.title.or(below.title),
            base_url: self.base_url.or(below.base_url),
            api: self.api.or(below.api),
            key_env: self.key_env.or(below.key_env),
            keys: if self.keys.is_empty() { below.keys } else { self.keys },
            key_policy: self.key_policy,
            login: self.login.or(below.login),
            auth_url: self.auth_url.or(below.auth_url),
            client_id: self.client_id.or(below.client_id),
            key: self.key.or(below.key),
            key_file: self.key_file.or(below.key_file),
            needs_key: self.needs_key.or(below.needs_key),
            headers,
            models: if self.models.is_empty() { below.models } else { self.models },
            model: self.model.or(below.model),
            context: self.context.or(below.context),
            images: self.images.or(below.images),
            efforts: self.efforts.or(below.efforts),
            image_bytes: self.image_bytes.or(below.image_bytes),
            image_count: self.image_count.or(below.image_count),
            temperature: self.temperature.or(below.temperature),
            chat: self.chat.or(below.chat),
            responses: self.responses.or(below.responses),
            anthropic: self.anthropic.or(below.anthropic),
            gemini: self.gemini.or(below.gemini),
            first_byte_seconds: self.first_byte_seconds.or(below.first_byte_seconds),
            idle_seconds: self.idle_seconds.or(below.idle_seconds),
        }
    }
}
