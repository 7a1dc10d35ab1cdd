mod credentials;

use super::{
    endpoint::{is_local, is_loopback},
    *,
};
use crate::model::{
    auth::{Pool, Source},
    dialect::{
        matrix,
        openai_chat::{OpenAiChat, Options},
    },
    retry::{Budget, Retrying},
};
use std::sync::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// A step of the server's answer to one request.
#[derive(Clone)]
enum Do {
    Send(String),
    /// Waits until the test says so.
    Wait(Arc<Notify>),
    /// Waits until the client is gone, and says so.
    Gone(Arc<Notify>),
    /// Closes with a reset.
    Reset,
    Close,
}

struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    /// Answers the requests in order, whatever connection they come by.
    async fn start(answers: Vec<Vec<Do>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let (seen, count) = (requests.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                tokio::spawn(serve(socket, answers.clone(), seen.clone()));
            }
        });
        Server { port, requests, connections }
    }
    fn provider(&self, key: impl Into<Pool>) -> HttpProvider {
        let base = Url::parse(&format!("http://127.0.0.1:{}/v1", self.port)).unwrap();
        provider(Endpoint::new(base, key, true))
    }
    fn request(&self, n: usize) -> String {
        self.requests.lock().unwrap()[n].clone()
    }
}

async fn serve(
    mut socket: TcpStream,
    answers: Arc<Mutex<std::vec::IntoIter<Vec<Do>>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = read_request(&mut socket, &mut buffer).await else { return };
        seen.lock().unwrap().push(request);
        let Some(answer) = answers.lock().unwrap().next() else { return };
        for step in answer {
            match step {
                Do::Send(text) => {
                    if socket.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Do::Wait(gate) => gate.notified().await,
                Do::Gone(told) => {
                    let mut byte = [0];
                    while socket.read(&mut byte).await.is_ok_and(|n| n > 0) {}
                    return told.notify_one();
                }
                Do::Reset => {
                    socket.set_zero_linger().unwrap();
                    return;
                }
                Do::Close => return,
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(buffer).to_string();
        if let Some(at) = text.find("\r\n\r\n") {
            let head = text[..at].to_ascii_lowercase();
            let length: usize = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .map_or(0, |l| l.parse().unwrap());
            if buffer.len() >= at + 4 + length {
                buffer.drain(..at + 4 + length);
                return Some(text[..at + 4 + length].to_owned());
            }
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn provider(endpoint: Endpoint) -> HttpProvider {
    HttpProvider {
        connections: Arc::default(),
        endpoint: Arc::new(endpoint),
        dialect: Arc::new(OpenAiChat::new("test", Options::default())),
        model: "test-model".into(),
        info: ModelInfo { id: "test/test-model".into(), images: true, ..ModelInfo::default() },
    }
}

fn head(status: &str, more: &str) -> Do {
    Do::Send(format!("HTTP/1.1 {status}\r\n{more}\r\n"))
}
fn stream_head() -> Do {
    head("200 OK", "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n")
}
fn chunk(data: &str) -> Do {
    let text = format!("data: {data}\n\n");
    Do::Send(format!("{:x}\r\n{text}\r\n", text.len()))
}
fn text(words: &str) -> Do {
    chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{words}"}},"finish_reason":null}}]}}"#))
}
fn stop() -> Vec<Do> {
    vec![
        chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#),
        chunk("[DONE]"),
        Do::Send("0\r\n\r\n".into()),
    ]
}
fn reply(words: &str) -> Vec<Do> {
    [vec![stream_head(), text(words)], stop()].concat()
}
fn body(status: &str, more: &str, body: &str) -> Vec<Do> {
    vec![head(status, &format!("content-length: {}\r\n{more}", body.len())), Do::Send(body.into())]
}

async fn all(provider: &dyn Provider) -> (String, Option<ModelError>) {
    let request = matrix::request(vec![matrix::user("hi")]);
    let (mut said, mut error) = (String::new(), None);
    let mut stream = provider.stream(&request);
    while let Some(delta) = stream.next().await {
        assert!(error.is_none(), "something behind an error");
        match delta {
            Ok(Delta::Text(text)) => said.push_str(&text),
            Ok(Delta::End(_)) => said.push('.'),
            Ok(_) => {}
            Err(e) => error = Some(e),
        }
    }
    (said, error)
}
fn key() -> Source {
    Source::Value(Secret::new("sk-test-0123456789"))
}

#[tokio::test]
async fn a_reply_streams_and_its_connection_is_used_again() {
    let server = Server::start(vec![reply("one"), reply("two")]).await;
    let provider = server.provider(key());
    assert_eq!(all(&provider).await.0, "one.");
    // What is left of the first reply is read in a task of its own.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(all(&provider).await.0, "two.");
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let request = server.request(0).to_ascii_lowercase();
    assert!(request.starts_with("post /v1/chat/completions http/1.1"), "{request}");
    assert!(request.contains("authorization: bearer sk-test-0123456789"));
    assert!(request.contains(r#""model":"test-model""#));
}

#[tokio::test]
async fn the_first_delta_does_not_wait_for_the_second() {
    let gate = Arc::new(Notify::new());
    let server = Server::start(vec![
        [vec![stream_head(), text("a"), Do::Wait(gate.clone()), text("b")], stop()].concat(),
    ])
    .await;
    let (provider, request) = (server.provider(key()), matrix::request(vec![matrix::user("hi")]));
    let mut stream = provider.stream(&request);
    assert_eq!(stream.next().await.unwrap().unwrap(), Delta::Text("a".into()));
    gate.notify_one();
    assert_eq!(stream.next().await.unwrap().unwrap(), Delta::Text("b".into()));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let gone = Arc::new(Notify::new());
    let server = Server::start(vec![vec![stream_head(), text("a"), Do::Gone(gone.clone())]]).await;
    let (provider, request) = (server.provider(key()), matrix::request(vec![matrix::user("hi")]));
    let mut stream = provider.stream(&request);
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    timeout(Duration::from_secs(5), gone.notified()).await.expect("the server still sends");
}

#[tokio::test]
async fn statuses_become_errors_that_name_host_and_status() {
    let wrong = r#"{"error":{"message":"Incorrect API key provided: sk-test-0123456789."}}"#;
    let server = Server::start(vec![
        body("401 Unauthorized", "", wrong),
        body("429 Too Many Requests", "retry-after: 7\r\n", "{}"),
        body("429 Too Many Requests", "retry-after: 7\r\nretry-after-ms: 1500\r\n", "{}"),
        body("503 Service Unavailable", "", r#"{"error":{"message":"Loading model"}}"#),
        body("307 Temporary Redirect", "location: https://elsewhere.example/v1\r\n", ""),
        body("400 Bad Request", "", &"x".repeat(1 << 20)),
    ])
    .await;
    let provider = server.provider(key());
    let host = format!("127.0.0.1:{}", server.port);
    let expect = |kind, status, words: &'static str| (kind, Some(status), words);
    for (kind, status, words) in [
        expect(ErrorKind::Auth, 401, "[key]"),
        expect(ErrorKind::RateLimit, 429, "rate limited"),
        expect(ErrorKind::RateLimit, 429, "rate limited"),
        expect(ErrorKind::Loading, 503, "Loading model"),
        expect(ErrorKind::BadRequest, 307, "elsewhere.example"),
        expect(ErrorKind::BadRequest, 400, "xxx…"),
    ] {
        let error = all(&provider).await.1.unwrap();
        assert_eq!((error.kind, error.status), (kind, status), "{error}");
        assert!(
            error.message.contains(&host) && error.message.contains(&status.unwrap().to_string()),
            "{error}"
        );
        assert!(error.message.contains(words), "{error}");
        assert!(!error.message.contains("0123456789") && error.message.len() < 700, "{error}");
        if words == "rate limited" {
            assert!(
                [Some(Duration::from_secs(7)), Some(Duration::from_millis(1500))]
                    .contains(&error.retry_after)
            );
        }
    }
}

#[tokio::test]
async fn a_refused_image_is_left_out_and_the_request_sent_again() {
    let no = r#"{"error":{"message":"This model does not support image input."}}"#;
    let server =
        Server::start(vec![body("400 Bad Request", "", no), reply("blind"), body("400 Bad Request", "", no)])
            .await;
    let provider = server.provider(key());
    let mut request = matrix::request(vec![crate::model::Message::User {
        parts: vec![crate::log::Part::Image(matrix::image())],
    }]);
    let said: Vec<_> = provider.stream(&request).collect().await;
    assert!(said.iter().all(Result::is_ok), "{said:?}");
    assert!(server.request(0).contains("aGk=") && !server.request(1).contains("aGk="));
    // Without one there is nothing to leave out.
    request.messages = vec![matrix::user("hi")];
    let said: Vec<_> = provider.stream(&request).collect().await;
    assert_eq!(said.len(), 1);
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_no_reply_is_malformed() {
    let server = Server::start(vec![
        body("200 OK", "content-type: text/html\r\n", "<!doctype html><title>x</title>"),
        body("200 OK", "content-type: text/event-stream\r\n", ""),
        vec![stream_head(), text("half"), Do::Send("0\r\n\r\n".into())],
        body(
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#,
        ),
    ])
    .await;
    let provider = server.provider(key());
    for said in ["", "", "half"] {
        let (text, error) = all(&provider).await;
        assert_eq!(text, said);
        assert_eq!(error.unwrap().kind, ErrorKind::Malformed);
    }
    let (text, error) = all(&provider).await;
    assert!(error.is_none() && text == "whole.", "{text} {error:?}");
}

#[tokio::test]
async fn a_reset_in_the_reply_is_an_error_and_nothing_is_said_twice() {
    let server = Server::start(vec![vec![stream_head(), text("half"), Do::Reset], reply("again")]).await;
    let provider = Retrying::new(server.provider(key()), Budget::default(), |_| {});
    let (text, error) = all(&provider).await;
    assert_eq!(text, "half");
    assert_eq!(error.unwrap().kind, ErrorKind::Network);
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_break_behind_the_finish_loses_nothing() {
    let finish = chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let server = Server::start(vec![vec![stream_head(), text("x"), finish, Do::Close]]).await;
    let (text, error) = all(&server.provider(key())).await;
    assert!(error.is_none() && text == "x.", "{text} {error:?}");
}

#[tokio::test]
async fn a_failure_before_the_reply_is_tried_again() {
    let server = Server::start(vec![
        body("429 Too Many Requests", "retry-after-ms: 20\r\n", "{}"),
        vec![Do::Close],
        body("503 Service Unavailable", "retry-after-ms: 10\r\n", "{}"),
        reply("hi"),
    ])
    .await;
    let quick = Budget { first: Duration::from_millis(1), ..Budget::default() };
    let provider = Retrying::new(server.provider(key()), quick, |_| {});
    let (text, error) = all(&provider).await;
    assert!(error.is_none() && text == "hi.", "{error:?}");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let hang = || Do::Wait(Arc::new(Notify::new()));
    let server = Server::start(vec![
        vec![hang()],
        vec![stream_head(), hang()],
        vec![stream_head(), text("a"), hang()],
    ])
    .await;
    let mut endpoint = (*server.provider(key()).endpoint).clone();
    endpoint.timeouts = Timeouts { first: Duration::from_millis(50), idle: Duration::from_millis(60) };
    let provider = provider(endpoint);
    for said in ["", "", "a"] {
        let (text, error) = all(&provider).await;
        assert_eq!(text, said);
        assert_eq!(error.unwrap().kind, ErrorKind::Timeout);
    }
}

#[tokio::test]
async fn no_server_is_a_network_error_that_asks_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let base = Url::parse(&format!("http://127.0.0.1:{port}/v1")).unwrap();
    let error = all(&provider(Endpoint::new(base, key(), true))).await.1.unwrap();
    assert_eq!(error.kind, ErrorKind::Network);
    assert!(
        error.message.contains(&format!("127.0.0.1:{port}")) && error.message.contains("running"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_key_is_told_without_a_request() {
    let base = Url::parse("https://models.invalid/v1").unwrap();
    let env = Source::Env("HERMES_TEST_KEY_THAT_IS_NOT_SET".into());
    let mut endpoint = Endpoint::new(base, env, true);
    endpoint.sign_in.env = Some("HERMES_TEST_KEY_THAT_IS_NOT_SET".into());
    let error = all(&provider(endpoint)).await.1.unwrap();
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, None));
    assert!(
        error.message.contains("models.invalid") && error.message.contains("HERMES_TEST_KEY_THAT_IS_NOT_SET"),
        "{error}"
    );
    // A loopback server is asked all the same.
    let server = Server::start(vec![reply("hi")]).await;
    assert_eq!(all(&server.provider(Pool::default())).await.0, "hi.");
    assert!(!server.request(0).to_ascii_lowercase().contains("authorization"));
}

/// The environment of a process cannot be changed safely in it, so the test runs itself with another.
#[tokio::test]
async fn loopback_is_never_reached_by_proxy() {
    const INNER: &str = "HERMES_TEST_PROXY_INNER";
    if std::env::var_os(INNER).is_none() {
        let mut run = std::process::Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", "model::http::tests::loopback_is_never_reached_by_proxy"]).env(INNER, "1");
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
            run.env(name, "http://127.0.0.1:1");
        }
        let out = run.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
        return;
    }
    let server = Server::start(vec![reply("direct"), reply("direct")]).await;
    assert_eq!(all(&server.provider(key())).await.0, "direct.");
    let base = Url::parse(&format!("http://localhost:{}/v1", server.port)).unwrap();
    assert_eq!(all(&provider(Endpoint::new(base, key(), true))).await.0, "direct.");
    // The proxies do count elsewhere: this one is dead.
    let base = Url::parse("http://192.0.2.1/v1").unwrap();
    let error = all(&provider(Endpoint::new(base, key(), true))).await.1.unwrap();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
}

#[test]
fn hosts_and_urls() {
    for host in ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "[::1]", "a.localhost", "0.0.0.0"] {
        assert!(is_loopback(host), "{host}");
    }
    for host in ["192.168.0.1", "example.com", "localhost.example.com", "127.0.0.1.example.com"] {
        assert!(!is_loopback(host), "{host}");
    }
    assert!(is_local("192.168.0.1") && is_local("box.local") && !is_local("8.8.8.8"));
    let endpoint =
        Endpoint::new(Url::parse("https://x.example/openai/?api-version=1").unwrap(), Pool::default(), true);
    assert_eq!(
        endpoint.url("chat/completions").as_str(),
        "https://x.example/openai/chat/completions?api-version=1"
    );
    assert!(endpoint.needs_key && endpoint.timeouts == Timeouts::REMOTE);
}

#[test]
fn retry_after_in_all_its_forms() {
    assert_eq!(wait_of(None, Some("2")), Some(Duration::from_secs(2)));
    assert_eq!(wait_of(Some("250"), Some("2")), Some(Duration::from_millis(250)));
    assert_eq!(wait_of(None, Some("Wed, 21 Oct 2015 07:28:00 GMT")), Some(Duration::ZERO));
    assert!(wait_of(None, Some("Wed, 21 Oct 2099 07:28:00 GMT")).unwrap() > Duration::from_secs(86_400));
    assert_eq!(wait_of(None, Some("soon")), None);
    assert_eq!(wait_of(None, Some("-1")), None);
}

#[tokio::test]
async fn what_was_refused_once_is_left_out_from_then_on() {
    let refused = r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported"}}"#;
    let server = Server::start(vec![body("400 Bad Request", "", refused), reply("a"), reply("b")]).await;
    let provider = server.provider(key());
    for want in ["a.", "b."] {
        let (said, error) = all(&provider).await;
        assert_eq!((said.as_str(), error.map(|e| e.message)), (want, None));
    }
    let had: Vec<bool> = (0..3).map(|n| server.request(n).contains("max_tokens")).collect();
    assert_eq!(had, [true, false, false]);
}
