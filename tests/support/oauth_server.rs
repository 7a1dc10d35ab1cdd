//! An issuer of logins on the loopback: codes to enter, tokens that end, refresh tokens that are worth one refresh.
use super::model_server::{Gate, Head, request};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What a person reads on the terminal or in the editor.
pub const CODE: &str = "ABCD-EFGH";
pub const ACCOUNT: &str = "acc-1";

/// What happened at the issuer, and what will.
#[derive(Default)]
pub struct State {
    /// The code was entered.
    pub entered: bool,
    /// Seconds that tokens issued from now on are valid.
    pub lifetime: i64,
    /// Answers to the next refreshes, in place of tokens.
    pub refusals: VecDeque<(u16, Value)>,
    /// Refreshes that gave tokens, and those with a token that was worth nothing any more.
    pub refreshes: usize,
    pub reused: usize,
    pub revoked: Vec<String>,
    /// Questions whether the code was entered.
    pub polls: usize,
    /// The challenge that a key of OpenRouter's was allowed for.
    pub challenge: String,
    issued: usize,
}

impl State {
    /// The access token issued last.
    pub fn access(&self) -> String {
        access(self.issued, self.lifetime)
    }
    pub fn refresh(&self) -> String {
        format!("refresh-token-{}", self.issued)
    }
    fn issue(&mut self) -> Value {
        self.issued += 1;
        json!({"access_token": self.access(), "refresh_token": self.refresh(), "id_token": id_token()})
    }
}

fn jwt(claims: &Value, signature: &str) -> String {
    format!("e30.{}.{signature}", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// Ends after so many seconds, counted from a day that is fixed for the process: the same call gives the same token.
pub fn access(number: usize, lifetime: i64) -> String {
    static START: std::sync::LazyLock<i64> = std::sync::LazyLock::new(|| {
        std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs() as i64)
    });
    jwt(&json!({"exp": *START + lifetime}), &format!("signature-{number}"))
}

fn id_token() -> String {
    let claims = json!({"email": "person@example.org",
        "https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT}});
    jwt(&claims, "id")
}

/// The server. It ends when it is dropped.
pub struct OAuthServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    /// Refreshes wait here, if it is closed.
    gate: Mutex<Option<Gate>>,
}

impl Drop for OAuthServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OAuthServer {
    pub async fn start() -> OAuthServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = State { lifetime: 86_400, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), gate: Mutex::default() });
        let own = shared.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, own.clone()));
            }
        });
        OAuthServer { addr, shared, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// From now on refreshes wait until the gate is opened.
    pub fn hold(&self) -> Gate {
        let gate = Gate::default();
        *self.shared.gate.lock().unwrap() = Some(gate.clone());
        gate
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = request(&mut stream).await {
        let (status, answer) = answer(&head, &body, &shared).await;
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: ");
        let text = format!("{head}{}\r\n\r\n{answer}", answer.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn answer(head: &Head, body: &[u8], shared: &Shared) -> (u16, Value) {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    match head.path.as_str() {
        "/api/accounts/deviceauth/usercode" => {
            assert_eq!(json["client_id"], "app-test");
            (200, json!({"device_auth_id": "device-1", "user_code": CODE, "interval": "0"}))
        }
        "/api/accounts/deviceauth/token" => {
            let mut state = shared.state.lock().unwrap();
            state.polls += 1;
            assert_eq!(json, json!({"device_auth_id": "device-1", "user_code": CODE}));
            match state.entered {
                false => (403, json!({"error": "authorization_pending"})),
                true => (200, json!({"authorization_code": "code-1", "code_verifier": "verifier-1"})),
            }
        }
        "/oauth/token" if json["grant_type"] == "refresh_token" => {
            let gate = shared.gate.lock().unwrap().clone();
            if let Some(gate) = gate {
                gate.reached.cancel();
                gate.open.cancelled().await;
            }
            refresh(&json, &mut shared.state.lock().unwrap())
        }
        "/oauth/token" => {
            let form = String::from_utf8_lossy(body).into_owned();
            for field in ["grant_type=authorization_code", "code=code-1", "code_verifier=verifier-1"] {
                assert!(form.split('&').any(|f| f == field), "{field} in {form}");
            }
            assert!(
                form.contains("%2Fdeviceauth%2Fcallback") && form.contains("client_id=app-test"),
                "{form}"
            );
            (200, shared.state.lock().unwrap().issue())
        }
        "/oauth/revoke" => {
            let token = json["token"].as_str().unwrap_or_default().to_owned();
            shared.state.lock().unwrap().revoked.push(token);
            (200, json!({}))
        }
        "/api/v1/auth/keys" => {
            let verifier = json["code_verifier"].as_str().unwrap_or_default();
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
            let good = json["code"] == "or-code" && digest == shared.state.lock().unwrap().challenge;
            if good { (200, json!({"key": "sk-or-made-1"})) } else { (403, json!({"error": "invalid code"})) }
        }
        path => (404, json!({ "error": path })),
    }
}

fn refresh(json: &Value, state: &mut State) -> (u16, Value) {
    assert_eq!(json["client_id"], "app-test");
    if let Some(refusal) = state.refusals.pop_front() {
        return refusal;
    }
    if json["refresh_token"] != state.refresh() {
        state.reused += 1;
        return (401, json!({"error": {"code": "refresh_token_reused", "message": "used before"}}));
    }
    state.refreshes += 1;
    (200, state.issue())
}
