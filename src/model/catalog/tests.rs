use super::*;
use crate::model::scripted::Scripted;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn registry(config: &str, env: &[(&str, &str)]) -> Registry {
    let providers = toml::from_str(config).unwrap();
    let env: BTreeMap<String, String> = env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Registry::from_config(Input { providers, model: None }, move |name| env.get(name).cloned())
}

#[test]
fn the_rows_are_sound() {
    let rows: BTreeMap<String, ProviderRow> = toml::from_str(ROWS).unwrap();
    assert!(rows.len() >= 7);
    for (name, row) in &rows {
        let url = row.base_url.as_deref();
        assert!(
            name == "generic" || url.and_then(|u| base_url(u, row.api.unwrap_or_default())).is_some(),
            "{name}"
        );
        assert!(row.title.is_some(), "{name}");
    }
}

#[test]
fn the_environment_selects_the_model() {
    let env = [("OPENAI_BASE_URL", "http://127.0.0.1:9"), ("OPENAI_MODEL", "mock"), ("OPENAI_API_KEY", "k")];
    let registry = registry("", &env);
    assert_eq!(registry.default_model().as_deref(), Some("openai/mock"));
    assert_eq!(registry.base_url("openai").as_deref(), Some("http://127.0.0.1:9/v1"));
    assert_eq!(registry.choices()[0].id, "openai/mock");
    assert!(registry.provider("openai/mock").is_ok());
    // OpenAI's own habits are not taken for granted behind another address.
    assert!(registry.entries["openai"].row.chat.is_none());
}

#[test]
fn the_wire_of_a_provider_is_data() {
    let api = |env: &[(&str, &str)], name: &str| registry("", env).entries[name].row.api.unwrap_or_default();
    assert_eq!(api(&[], "openai"), Api::Responses);
    assert_eq!(api(&[], "anthropic"), Api::Anthropic);
    assert_eq!(api(&[("OPENAI_API", "chat")], "openai"), Api::Chat);
    let local = ("OPENAI_BASE_URL", "http://127.0.0.1:9");
    assert_eq!(api(&[local], "openai"), Api::Chat);
    assert_eq!(api(&[local, ("OPENAI_API", "responses")], "openai"), Api::Responses);
    let env = [("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/v1"), ("ANTHROPIC_MODEL", "claude-x")];
    let registry = registry("", &env);
    assert_eq!(registry.default_model().as_deref(), Some("anthropic/claude-x"));
    assert_eq!(registry.base_url("anthropic").as_deref(), Some("http://127.0.0.1:9/"));
    assert_eq!(registry.entries["anthropic"].row.api, Some(Api::Anthropic));
}

#[test]
fn the_configuration_overrides_single_fields_and_adds_providers() {
    let registry = registry(
        "[openai]\nmodel = 'gpt-x'\n[mine]\nbase_url = 'box.local:8080'\nmodel = 'm'\nkey = 'secret'\nheaders = { x-team = 'a' }\n[[mine.models]]\nid = 'big'\nname = 'Big'\ncontext = 1000\nimages = false",
        &[],
    );
    assert_eq!(registry.base_url("openai").as_deref(), Some("https://api.openai.com/v1"));
    assert_eq!(registry.base_url("mine").as_deref(), Some("http://box.local:8080/v1"));
    let big = registry.choices().into_iter().find(|i| i.id == "mine/big").unwrap();
    assert_eq!((big.name.as_str(), big.context, big.images), ("Big (mine)", Some(1000), false));
    assert_eq!(registry.credential_state("mine"), CredentialState::Present);
    assert!(!format!("{:?}", registry.entries["mine"].row).contains("secret"));
    let wrong = toml::from_str::<BTreeMap<String, ProviderRow>>("[mine]\nbase_ulr = 'x'").unwrap_err();
    assert!(wrong.to_string().contains("base_ulr"));
}

#[test]
fn credentials_are_looked_up_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    let config = format!(
        "[far]\nbase_url = 'https://far.example/v1'\nneeds_key = true\nkey_file = '{}'\n[near]\nbase_url = 'http://localhost:1'\nneeds_key = true\n[var]\nbase_url = 'https://var.example'\nkey_env = 'HERMES_TEST_NEVER_SET'",
        file.display()
    );
    let registry = registry(&config, &[]);
    assert!(matches!(registry.credential_state("far"), CredentialState::Missing { env: None, .. }));
    assert_eq!(registry.credential_state("near"), CredentialState::NotNeeded);
    let CredentialState::Missing { env: Some(env), hint } = registry.credential_state("var") else {
        panic!("no hint")
    };
    assert!(
        env == "HERMES_TEST_NEVER_SET"
            && hint.contains("HERMES_TEST_NEVER_SET")
            && hint.contains("[providers.var]")
    );
    std::fs::write(&file, "k").unwrap();
    assert_eq!(registry.credential_state("far"), CredentialState::Present);
}

#[test]
fn what_is_not_known_is_refused_with_what_is() {
    let registry = registry("[bad]\nbase_url = 'ftp://x'", &[]);
    for id in ["nope/x", "gpt-5", "openai/", ""] {
        let error = registry.provider(id).err().unwrap();
        assert_eq!(error.kind, ErrorKind::ModelNotFound, "{id}");
        assert!(error.message.contains("openrouter"), "{error}");
    }
    assert!(registry.provider("bad/x").err().unwrap().message.contains("base_url"));
    assert!(registry.provider("openrouter/anthropic/claude").is_ok());
}

#[test]
fn a_provider_in_memory_can_be_chosen() {
    let mut registry = registry("", &[]);
    registry.add(Arc::new(Scripted::default()));
    assert!(registry.provider("scripted/scripted").is_ok());
    assert!(registry.choices().iter().any(|i| i.id == "scripted/scripted"));
}

#[test]
fn base_urls_as_people_write_them() {
    for (text, want) in [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("h:1/api/v1", "http://h:1/api/v1"),
        (" https://h/v1/chat/completions ", "https://h/v1"),
    ] {
        assert_eq!(base_url(text, Api::Chat).unwrap().as_str(), want, "{text}");
    }
    for text in ["https://h", "https://h/", "https://h/v1/", "https://h/v1/messages"] {
        assert_eq!(base_url(text, Api::Anthropic).unwrap().as_str(), "https://h/", "{text}");
    }
    assert_eq!(base_url("https://h", Api::Gemini).unwrap().as_str(), "https://h/v1beta");
    assert_eq!(base_url("https://h/v1/responses", Api::Responses).unwrap().as_str(), "https://h/v1");
    for text in ["ftp://h", "", "http://"] {
        assert!(base_url(text, Api::Chat).is_none(), "{text}");
    }
}

async fn list_server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.is_ok_and(|n| n > 0) {}
            assert!(head.starts_with(b"GET /v1/models "));
            let text = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            let _ = socket.write_all(text.as_bytes()).await;
        }
    });
    port
}

#[tokio::test]
async fn models_are_listed_once_and_then_known() {
    let answer = r#"{"object":"list","data":[{"id":"a","context_length":4096},{"id":"b","max_model_len":8,"architecture":{"input_modalities":["text"]}},{"no":"id"}]}"#;
    let port = list_server(answer).await;
    let registry = registry(&format!("[mine]\nbase_url = 'http://127.0.0.1:{port}'"), &[]);
    assert_eq!(registry.default_model(), None);
    assert!(registry.refresh_models().await);
    let mine: Vec<_> = registry.choices().into_iter().filter(|i| i.id.starts_with("mine/")).collect();
    assert_eq!(mine.len(), 2);
    assert_eq!((mine[0].context, mine[1].context, mine[1].images), (Some(4096), Some(8), false));
    assert_eq!(registry.default_model().as_deref(), Some("mine/a"));
    assert!(!registry.refresh_models().await);
}
