//! The model that a prompt would go to: whether it is chosen, whether its key is there, whether its server answers.
use super::{Finding, State};
use crate::{
    cli::config::masked,
    config::Config,
    model::{CredentialState, Registry, auth::Vault, demo},
};
use std::time::Duration;

const AREA: &str = "model";
/// For the list of models.
const LIMIT: Duration = Duration::from_secs(3);
/// For the refresh of a login.
const SETTLED: Duration = Duration::from_secs(25);
/// Names that are shown of a list.
const NAMES: usize = 8;

pub fn check(config: &Config, vault: Vault) -> Vec<Finding> {
    let registry = crate::setup::registry(config, vault.clone());
    let examined = async {
        let all = examine(&registry, config.probe_local).await;
        // A login that had to be refreshed for the question: its new token must be kept even if the answer took too long.
        if let Some(store) = &vault.store {
            _ = tokio::time::timeout(SETTLED, store.settled()).await;
        }
        all
    };
    let mut all = super::super::block_on(examined)
        .unwrap_or_else(|e| vec![Finding::new(AREA, State::Action, format!("nothing could be asked: {e}"))]);
    all.extend(side(config, &registry));
    all
}

async fn examine(registry: &Registry, probe: bool) -> Vec<Finding> {
    let mut chosen = registry.default_model();
    let mut found = "chosen";
    if chosen.is_none() && probe {
        // A server on this machine shows itself.
        registry.refresh_models().await;
        chosen = registry.default_model();
        found = "found on this machine";
    }
    let Some(id) = chosen else {
        return vec![Finding::new(AREA, State::Action, "no model is configured").next(
            "set OPENAI_API_KEY and OPENAI_MODEL (and OPENAI_BASE_URL for another server) where the editor is \
             started, run `hermes-editor login`, or set `model` in config.toml; `hermes-editor demo` needs none",
        )];
    };
    if id == demo::ID {
        let text = format!("{id}: scripted, for demonstrations only");
        return vec![Finding::new(AREA, State::Info, text)];
    }
    let mut all = vec![Finding::new(AREA, State::Good, format!("{id} is {found}"))];
    let provider = id.split_once('/').map_or(id.as_str(), |(provider, _)| provider);
    match registry.credential_state(provider) {
        CredentialState::Present => {
            all.push(Finding::new(AREA, State::Good, "a key or a login is there (not shown)"));
        }
        CredentialState::NotNeeded => all.push(Finding::new(AREA, State::Good, "no key is needed")),
        CredentialState::Missing { hint, .. } => {
            all.push(Finding::new(AREA, State::Action, format!("there is no key for {provider}")).next(hint));
            return all;
        }
    }
    all.push(reach(registry, provider, &id).await);
    all.extend(known(registry, &id));
    all
}

/// What is known of the model, and what a person should know before relying on it.
fn known(registry: &Registry, id: &str) -> Vec<Finding> {
    let Ok(info) = registry.provider(id).map(|p| p.info()) else { return vec![] };
    let window = info.context.map_or_else(|| "window not known".to_owned(), |n| format!("window {n} tokens"));
    let price = match info.price {
        Some(p) => format!("${} in and ${} out for a million tokens", p.input, p.output),
        None => "price not known".to_owned(),
    };
    let images = if info.images { "images" } else { "no images" };
    let mut all = vec![Finding::new(AREA, State::Info, format!("{window}, {images}, {price}"))];
    if info.context.is_none() {
        let provider = id.split_once('/').map_or(id, |(provider, _)| provider);
        let next =
            format!("if you know its window, write `context` under [providers.{provider}] into config.toml");
        all[0] = all[0].clone().next(next);
    }
    if let Some(caution) = registry.caution(id) {
        all.push(Finding::new(AREA, State::Action, caution));
    }
    if info.tools == Some(false) {
        let text = format!("{id} calls no tools, and an agent can do nothing without them");
        all.push(Finding::new(AREA, State::Action, text).next("choose another model"));
    }
    all
}

/// The models for work beside the conversation.
fn side(config: &Config, registry: &Registry) -> Vec<Finding> {
    let chosen = &config.side;
    let keys =
        [("side_model", &chosen.model), ("side.title", &chosen.title), ("side.summary", &chosen.summary)];
    let each = keys.into_iter().filter_map(|(key, id)| {
        let id = id.as_ref()?;
        let provider = id.split_once('/').map_or(id.as_str(), |(provider, _)| provider);
        Some(match (registry.provider(id), registry.credential_state(provider)) {
            (Err(e), _) => Finding::new(AREA, State::Action, format!("{key}: {}", e.message)),
            (_, CredentialState::Missing { hint, .. }) => {
                Finding::new(AREA, State::Action, format!("{key}: there is no key for {provider}")).next(hint)
            }
            _ => Finding::new(AREA, State::Good, format!("{key}: {id}")),
        })
    });
    each.collect()
}

async fn reach(registry: &Registry, provider: &str, id: &str) -> Finding {
    let url = registry.base_url(provider).map_or_else(|| provider.to_owned(), |url| masked(&url));
    let models = match registry.probe(provider, LIMIT).await {
        Ok(models) => models,
        Err(e) => {
            return Finding::new(AREA, State::Action, e.to_string())
                .next("check that the server runs and that the address is right, up to /v1");
        }
    };
    let names: Vec<&str> = models.iter().map(|m| m.id.as_str()).collect();
    let text = format!("{url} answers and lists {} models", names.len());
    if names.is_empty() || names.contains(&id) {
        return Finding::new(AREA, State::Good, text);
    }
    let more = names.len().saturating_sub(NAMES);
    let shown = names[..names.len().min(NAMES)].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Finding::new(AREA, State::Action, format!("{text}, but not {id}"))
        .next(format!("choose one of them: {shown}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::catalog::{Input, ProviderRow};
    use std::io::{Read, Write};

    /// A server that answers each request with this body; its address.
    fn server(body: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
            }
        });
        format!("http://{address}/v1")
    }

    fn findings(url: &str, model: &str) -> Vec<Finding> {
        let row = ProviderRow { base_url: Some(url.to_owned()), ..ProviderRow::default() };
        let providers = [("mine".to_owned(), row)].into();
        let registry = Registry::from_config(
            Input { providers, model: Some(model.to_owned()), ..Input::default() },
            |_| None,
        );
        super::super::super::block_on(examine(&registry, false)).unwrap()
    }

    #[test]
    fn a_server_is_asked_for_its_models() {
        let url = server(r#"{"data": [{"id": "a"}, {"id": "b"}]}"#);
        let good = findings(&url, "mine/a");
        assert!(good.iter().all(|f| f.state != State::Action), "{good:?}");
        assert!(good.last().unwrap().text.contains("window not known"), "{good:?}");
        let other = findings(&url, "mine/c");
        let last = other.iter().find(|f| f.state == State::Action).unwrap();
        assert_eq!(last.next.as_deref(), Some("choose one of them: mine/a, mine/b"));
    }

    #[test]
    fn a_server_that_cuts_prompts_needs_action() {
        // One body for each path: the list, and what Ollama has loaded.
        let url = server(
            r#"{"data": [{"id": "q", "owned_by": "library"}], "models": [{"model": "q", "context_length": 4096}]}"#,
        );
        let told = findings(&url, "mine/q");
        let last = told.last().unwrap();
        assert!(last.state == State::Action && last.text.contains("OLLAMA_CONTEXT_LENGTH"), "{told:?}");
    }

    #[test]
    fn models_for_side_work_are_looked_at() {
        let mut config = Config::default();
        config.side.model = Some("nobody/m".into());
        config.side.title = Some("demo/scripted".into());
        let registry = crate::setup::registry(&config, Vault::default());
        let states: Vec<State> = side(&config, &registry).iter().map(|f| f.state).collect();
        assert_eq!(states, [State::Action, State::Good]);
    }

    #[test]
    fn a_server_that_is_not_there_and_a_missing_key_need_action() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        drop(listener);
        let gone = findings(&url, "mine/a");
        assert!(gone.iter().any(|f| f.state == State::Action), "{gone:?}");
        let no_key = findings(&url, "openai/gpt-5");
        assert!(no_key.last().unwrap().text.contains("no key for openai"), "{no_key:?}");
    }
}
