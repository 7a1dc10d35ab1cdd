use super::*;
use crate::model::scripted::Scripted;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn registry(config: &str, env: &[(&str, &str)]) -> Registry {
    let providers = toml::from_str(config).unwrap();
    let env: BTreeMap<String, String> = env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Registry::from_config(Input { providers, ..Input::default() }, move |name| env.get(name).cloned())
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
            && hint.contains("hermes-editor login var")
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

#[test]
fn facts_are_those_of_the_host_and_the_user_has_the_last_word() {
    let registry = registry(
        "[openai]\nkey = 'k'\n[again]\nbase_url = 'https://api.deepseek.com/v1'\n[[again.models]]\nid = 'deepseek-chat'\ncontext = 5000\n[proxy]\nbase_url = 'https://proxy.example/v1'",
        &[],
    );
    let info = |id: &str| registry.provider(id).unwrap().info();
    let gpt = info("openai/gpt-5");
    assert_eq!((gpt.context, gpt.output, gpt.images), (Some(272_000), Some(128_000), true));
    assert_eq!(gpt.efforts, ["minimal", "low", "medium", "high"]);
    assert_eq!(gpt.price.unwrap().output, 10.0);
    let own = info("again/deepseek-chat");
    assert_eq!((own.context, own.images, own.price.is_some()), (Some(5_000), false, true));
    // The same name at another host is another model for all we know.
    let other = info("proxy/gpt-5");
    assert_eq!((other.context, other.price, other.efforts.len()), (None, None, 0));
    let offered: Vec<String> = registry.choices().into_iter().map(|m| m.id).collect();
    assert!(offered.contains(&"openai/gpt-5-mini".to_owned()), "{offered:?}");
    assert_eq!(offered.iter().filter(|id| id.starts_with("again/")).count(), 1);
    assert!(!offered.iter().any(|id| id.starts_with("anthropic/")), "{offered:?}");
}

#[test]
fn behind_another_address_nothing_is_taken_for_granted() {
    let env = [("OPENAI_BASE_URL", "http://127.0.0.1:9"), ("OPENAI_MODEL", "gpt-5"), ("OPENAI_API_KEY", "k")];
    let info = registry("", &env).provider("openai/gpt-5").unwrap().info();
    assert_eq!((info.context, info.price), (None, None));
    let env = [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
        ("ANTHROPIC_MODEL", "qwen"),
        ("ANTHROPIC_API_KEY", "k"),
    ];
    let info = registry("", &env).provider("anthropic/qwen").unwrap().info();
    assert_eq!(info.context, None);
    let info = registry("", &env[1..]).provider("anthropic/qwen").unwrap().info();
    assert_eq!(info.context, Some(200_000), "at Anthropic's own address");
}

/// A server that answers by path; what it has no answer for is 404.
async fn server(answers: &'static [(&'static str, &'static str)]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.windows(4).any(|w| w == b"\r\n\r\n")
                && socket.read_buf(&mut head).await.is_ok_and(|n| n > 0)
            {}
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let found = answers.iter().find(|(p, _)| *p == path);
            let (status, body) = found.map_or(("404 Not Found", "{}"), |(_, body)| ("200 OK", *body));
            let text = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(text.as_bytes()).await;
        }
    });
    port
}

async fn learned(answers: &'static [(&'static str, &'static str)], id: &str) -> (Registry, ModelInfo) {
    let port = server(answers).await;
    let registry = registry(&format!("[mine]\nbase_url = 'http://127.0.0.1:{port}'\nmodel = '{id}'"), &[]);
    assert!(registry.prepare(None, false).await);
    let info = registry.provider(&format!("mine/{id}")).unwrap().info();
    (registry, info)
}

#[tokio::test]
async fn ollama_cuts_without_a_word_and_that_is_told() {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "/v1/models",
            r#"{"data":[{"id":"q:latest","owned_by":"library"},{"id":"big","owned_by":"library"}]}"#,
        ),
        ("/api/ps", r#"{"models":[{"name":"q:latest","model":"q:latest","context_length":4096}]}"#),
        ("/api/show", r#"{"capabilities":["completion","tools"],"model_info":{"q.context_length":40960}}"#),
    ];
    let (registry, info) = learned(ANSWERS, "q:latest").await;
    assert_eq!((info.context, info.tools, info.images), (Some(4_096), Some(true), false));
    let caution = registry.caution("mine/q:latest").unwrap();
    assert!(caution.contains("4096 tokens") && caution.contains("OLLAMA_CONTEXT_LENGTH"), "{caution}");
    // Of what is not loaded the window is not known, and nothing is said.
    assert_eq!(registry.caution("mine/big"), None);
    assert!(!registry.prepare(None, false).await);
}

#[tokio::test]
async fn the_window_of_llama_cpp_is_that_of_a_slot() {
    const ANSWERS: &[(&str, &str)] = &[
        ("/v1/models", r#"{"data":[{"id":"m.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":32768}}]}"#),
        ("/props", r#"{"default_generation_settings":{"n_ctx":1024},"modalities":{"vision":true}}"#),
    ];
    let (registry, info) = learned(ANSWERS, "m.gguf").await;
    assert_eq!((info.context, info.images), (Some(1_024), true));
    assert_eq!(registry.caution("mine/m.gguf"), None);
}

#[tokio::test]
async fn only_hosts_that_were_named_are_asked() {
    const ANSWERS: &[(&str, &str)] = &[("/v1/models", r#"{"data":[{"id":"a"}]}"#)];
    let port = server(ANSWERS).await;
    let row = |name: &str| format!("[{name}]\nbase_url = 'http://127.0.0.1:{port}'\n");
    let named = registry(&row("mine"), &[]);
    assert!(named.refresh(None, false).await);
    assert_eq!(named.default_model().as_deref(), Some("mine/a"));
    // A row that nobody named is not asked, but for probing.
    let mut silent = registry(&row("ollama"), &[]);
    silent.entries.retain(|name, entry| {
        entry.configured = false;
        name == "ollama"
    });
    assert!(!silent.refresh(None, false).await && silent.default_model().is_none());
    assert!(silent.refresh(None, true).await);
    assert_eq!(silent.default_model().as_deref(), Some("ollama/a"));
}

#[tokio::test]
async fn a_list_that_was_kept_is_not_asked_for_again() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("models.json");
    let kept = Lists::in_file(file.clone());
    let listed = lists::Listed { models: vec![ModelRow::named("gpt-9")], ..Default::default() };
    kept.put("openai", "https://api.openai.com/v1", false, Some(listed));
    kept.save();
    let registry = registry("[openai]\nkey = 'k'", &[]).with_lists(Arc::new(Lists::in_file(file)));
    assert!(registry.choices().iter().any(|m| m.id == "openai/gpt-9"));
    // Nothing goes out: the list is fresh.
    assert!(!registry.refresh(None, false).await);
}

#[test]
fn a_model_that_was_chosen_once_may_be_out_of_reach() {
    let registry = registry("[mine]\nbase_url = 'https://h'\nmodel = 'm'", &[]);
    assert!(registry.is_reachable("mine/other"));
    // Its provider is gone, or there is no key for it any more.
    assert!(!registry.is_reachable("nobody/m") && !registry.is_reachable("vllm/m"));
}

/// A temperature is sent where the wire has it, and only where it was set.
#[test]
fn a_temperature_is_sent_on_every_wire() {
    let request = crate::model::dialect::matrix::request(vec![]);
    for (api, at) in [
        ("chat", "/temperature"),
        ("responses", "/temperature"),
        ("anthropic", "/temperature"),
        ("gemini", "/generationConfig/temperature"),
    ] {
        let config = format!("[a]\napi = \"{api}\"\nbase_url = \"http://127.0.0.1:1\"\n");
        let sent = |config: &str| -> Option<f64> {
            let body = registry(config, &[]).entries["a"].dialect.body("m", &request);
            serde_json::from_str::<serde_json::Value>(&body).unwrap().pointer(at)?.as_f64()
        };
        assert_eq!(sent(&config), None, "{api}");
        assert_eq!(sent(&format!("{config}temperature = 0\n")), Some(0.0), "{api}");
        assert_eq!(sent(&format!("{config}temperature = 0.25\n")), Some(0.25), "{api}");
    }
}
