//! Which credential signs a request, and what follows when it is not taken.
use super::*;
use crate::model::auth::{KeyCommand, Vault};

fn status(code: u16, body: &str) -> Vec<Do> {
    let length = body.len();
    vec![Do::Send(format!("HTTP/1.1 {code} X\r\ncontent-length: {length}\r\n\r\n{body}"))]
}

fn pool(keys: &[&str]) -> Pool {
    let sources = keys.iter().map(|k| Source::Value(Secret::new(*k))).collect();
    Pool::new("x", sources, crate::config::KeyPolicy::FillFirst, Vault::default())
}

#[tokio::test]
async fn a_401_renews_the_credential_and_sends_again_but_once() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let command = || {
        let text = format!("echo x >> {0}; echo key-$(wc -l < {0})", count.display());
        Source::Command(Arc::new(KeyCommand::new(vec!["sh".into(), "-c".into(), text])))
    };
    let server = Server::start(vec![status(401, "{}"), reply("hi")]).await;
    let provider = server.provider(command());
    assert_eq!(all(&provider).await.0, "hi.");
    assert!(server.request(0).contains("Bearer key-1\r\n") && server.request(1).contains("Bearer key-2\r\n"));
    let server = Server::start(vec![status(401, "{}"), status(401, "{}"), reply("never")]).await;
    let error = all(&server.provider(command())).await.1.unwrap();
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(401)));
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn the_next_of_several_keys_is_tried_at_once_and_told_without_any_of_them() {
    let answers = vec![
        status(401, r#"{"error":{"message":"Incorrect API key provided: key-aaaa-1"}}"#),
        status(402, "{}"),
        status(503, "{}"),
        reply("hi"),
        reply("again"),
    ];
    let server = Server::start(answers).await;
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = notices.clone();
    let provider = server.provider(pool(&["key-aaaa-1", "key-bbbb-2", "key-cccc-3"]));
    let quick = Budget { first: Duration::from_micros(10), ..Budget::default() };
    let retrying =
        Retrying::new(provider, quick, move |n| told.lock().unwrap().push(n.error.message.clone()));
    assert_eq!(all(&retrying).await.0, "hi.");
    assert_eq!(all(&retrying).await.0, "again.");
    let notices = notices.lock().unwrap();
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices[0].ends_with("Going on with the key in config.toml (2 of 3)."), "{notices:?}");
    assert!(notices[1].contains("402") && notices[1].ends_with("(3 of 3)."), "{notices:?}");
    assert!(!notices[2].contains("Going on"), "an overload is no fault of the key: {notices:?}");
    assert!(!notices.concat().contains("key-"), "{notices:?}");
    let used: Vec<_> =
        server.requests.lock().unwrap().iter().map(|r| r.find("key-cccc-3").is_some()).collect();
    assert_eq!(used, [false, false, true, true, true]);
}

#[tokio::test]
async fn every_key_of_a_large_pool_is_tried() {
    let names: Vec<String> = (0..12).map(|n| format!("key-number-{n:02}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let refused = (0..11).map(|_| body("429 X", "retry-after: 0\r\n", "{}"));
    let server = Server::start(refused.chain([reply("hi")]).collect()).await;
    let retrying = Retrying::new(server.provider(pool(&keys)), Budget::default(), |_| {});
    assert_eq!(all(&retrying).await.0, "hi.");
    assert!(server.request(11).contains("key-number-11"));
}

#[tokio::test]
async fn when_the_last_key_is_refused_the_error_says_what_to_do() {
    let server = Server::start(vec![status(401, "{}"), status(403, "{}")]).await;
    let mut endpoint = Endpoint::new(
        Url::parse(&format!("http://127.0.0.1:{}/v1", server.port)).unwrap(),
        pool(&["key-aaaa-1", "key-bbbb-2"]),
        true,
    );
    endpoint.sign_in = SignIn { provider: "groq".into(), env: Some("GROQ_API_KEY".into()), login: None };
    let retrying = Retrying::new(provider(endpoint), Budget::default(), |_| {});
    let error = all(&retrying).await.1.unwrap();
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(403)));
    for word in ["hermes-editor login groq", "GROQ_API_KEY"] {
        assert!(error.message.contains(word), "{error}");
    }
}

#[tokio::test]
async fn once_something_was_said_no_other_key_is_tried() {
    let error = r#"data: {"error":{"message":"quota","type":"insufficient_quota","code":429}}"#;
    let begun = r#"data: {"choices":[{"index":0,"delta":{"content":"half"}}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let said = vec![Do::Send(format!("{head}{begun}\n\n{error}\n\n")), Do::Close];
    let server = Server::start(vec![said, reply("never")]).await;
    let retrying =
        Retrying::new(server.provider(pool(&["key-aaaa-1", "key-bbbb-2"])), Budget::default(), |_| {});
    let (text, error) = all(&retrying).await;
    assert_eq!((text.as_str(), error.is_some()), ("half", true));
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}
