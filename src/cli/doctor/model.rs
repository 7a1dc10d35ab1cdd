//! The model that a prompt would go to: whether it is chosen, whether its key is there, whether its server answers.
use super::{Finding, State};
use crate::{
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
        let all = examine(&registry).await;
        // A login that had to be refreshed for the question: its new token must be kept even if the answer took too long.
        if let Some(store) = &vault.store {
            _ = tokio::time::timeout(SETTLED, store.settled()).await;
        }
        all
    };
    super::super::block_on(examined)
        .unwrap_or_else(|e| vec![Finding::new(AREA, State::Action, format!("nothing could be asked: {e}"))])
}

async fn examine(registry: &Registry) -> Vec<Finding> {
    let mut chosen = registry.default_model();
    let mut found = "chosen";
    if chosen.is_none() {
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
    all
}

async fn reach(registry: &Registry, provider: &str, id: &str) -> Finding {
    let url = registry.base_url(provider).unwrap_or_else(|| provider.to_owned());
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
        super::super::super::block_on(examine(&registry)).unwrap()
    }

    #[test]
    fn a_server_is_asked_for_its_models() {
        let url = server(r#"{"data": [{"id": "a"}, {"id": "b"}]}"#);
        let good = findings(&url, "mine/a");
        assert!(good.iter().all(|f| f.state == State::Good), "{good:?}");
        let other = findings(&url, "mine/c");
        let last = other.last().unwrap();
        assert_eq!(last.state, State::Action);
        assert_eq!(last.next.as_deref(), Some("choose one of them: mine/a, mine/b"));
    }

    #[test]
    fn a_server_that_is_not_there_and_a_missing_key_need_action() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        drop(listener);
        let gone = findings(&url, "mine/a");
        assert_eq!(gone.last().unwrap().state, State::Action, "{gone:?}");
        let no_key = findings(&url, "openai/gpt-5");
        assert!(no_key.last().unwrap().text.contains("no key for openai"), "{no_key:?}");
    }
}
