//! A key of OpenRouter's, made by way of the browser: an authorization code with PKCE that comes back to a port of ours.
//! <https://openrouter.ai/docs/oauth>
use super::{
    LoginError,
    exchange::{Body, post},
};
use crate::{model::http::Connections, secret::Secret};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// The longest first line of a request to our port.
const LINE: usize = 8 << 10;

/// A sign-in under way: its port is open until it is dropped.
pub struct Authorization {
    /// The page to open.
    pub url: String,
    base: String,
    listener: TcpListener,
    verifier: Secret,
    state: String,
}

impl Authorization {
    /// Opens a port and makes the address of the page. `base`: `https://openrouter.ai`.
    ///
    /// # Errors
    /// Where no port of the loopback can be opened.
    pub async fn begin(base: &str) -> Result<Self, LoginError> {
        let failed = |e: &dyn std::fmt::Display| LoginError::Issuer(format!("no port for the answer: {e}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| failed(&e))?;
        let port = listener.local_addr().map_err(|e| failed(&e))?.port();
        let (verifier, state) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let base = base.trim_end_matches('/').to_owned();
        let mut url = Url::parse(&format!("{base}/auth"))
            .map_err(|_| LoginError::Issuer("the `auth_url` of openrouter is no URL".into()))?;
        // The state is a part of the path: a query of the address we give would get a second one behind it.
        url.query_pairs_mut()
            .append_pair("callback_url", &format!("http://localhost:{port}/callback/{state}"))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(Authorization { url: url.into(), base, listener, verifier: Secret::new(verifier), state })
    }

    /// Waits for the browser to come back, and gives the code. Whatever else knocks at the port is answered and ignored.
    ///
    /// # Errors
    /// Where the person refused.
    pub async fn callback(&self) -> Result<String, LoginError> {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let limit = tokio::time::timeout(Duration::from_secs(5), self.answer(stream)).await;
            match limit.ok().flatten() {
                Some(Ok(code)) => return Ok(code),
                Some(Err(LoginError::State)) | None => {}
                Some(Err(refused)) => return Err(refused),
            }
        }
    }

    async fn answer(&self, stream: TcpStream) -> Option<Result<String, LoginError>> {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        let mut limited = tokio::io::AsyncReadExt::take(&mut stream, LINE as u64);
        limited.read_until(b'\n', &mut line).await.ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let target = line.strip_prefix("GET ")?.split_whitespace().next()?.to_owned();
        let code = self.code(&format!("http://localhost{target}"));
        let (status, text) = match &code {
            Ok(_) => ("200 OK", "You are signed in. This page can be closed."),
            Err(LoginError::State) => ("404 Not Found", "This is not the page of a sign-in."),
            Err(_) => ("200 OK", "The sign-in was refused. This page can be closed."),
        };
        let head = "content-type: text/plain; charset=utf-8\r\nconnection: close";
        let answer = format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        // A browser that left has given its code all the same.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        Some(code)
    }

    /// The code in what a person pasted: the code alone, or the address that the browser could not open.
    ///
    /// # Errors
    /// [`LoginError::State`] for the address of another sign-in.
    pub fn pasted(&self, text: &str) -> Result<String, LoginError> {
        let text = text.trim();
        match text.contains("://") {
            true => self.code(text),
            false if text.is_empty() => Err(LoginError::State),
            false => Ok(text.to_owned()),
        }
    }

    fn code(&self, address: &str) -> Result<String, LoginError> {
        let url = Url::parse(address).map_err(|_| LoginError::State)?;
        if url.path().strip_prefix("/callback/") != Some(self.state.as_str()) {
            return Err(LoginError::State);
        }
        let value = |key: &str| url.query_pairs().find(|(k, _)| k == key).map(|(_, v)| v.into_owned());
        if let Some(code) = value("code").filter(|c| !c.is_empty()) {
            return Ok(code);
        }
        let why =
            value("error").map(|e| e.chars().filter(char::is_ascii_graphic).take(60).collect::<String>());
        Err(LoginError::Issuer(format!(
            "the sign-in was refused ({})",
            why.unwrap_or_else(|| "no code".into())
        )))
    }

    /// Exchanges the code for a key.
    ///
    /// # Errors
    /// Where the provider cannot be reached or refuses.
    pub async fn key(&self, connections: &Connections, code: &str) -> Result<Secret, LoginError> {
        let url = Url::parse(&format!("{}/api/v1/auth/keys", self.base))
            .map_err(|_| LoginError::Issuer("the `auth_url` of openrouter is no URL".into()))?;
        let host = url.host_str().unwrap_or("openrouter").to_owned();
        let body =
            json!({"code": code, "code_verifier": self.verifier.expose(), "code_challenge_method": "S256"});
        let answer = post(connections, url, Body::Json(body))
            .await
            .map_err(|e| LoginError::Issuer(e.at(&host, None, None).message))?;
        match answer.text("key").filter(|_| answer.is_good()) {
            Some(key) => Ok(Secret::new(key)),
            None => Err(LoginError::Issuer(format!(
                "{host} answered {} and no key; start the sign-in again",
                answer.status
            ))),
        }
    }
}

/// 32 random bytes, as RFC 7636 wants a verifier: 43 characters.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| LoginError::Issuer("the system gives no random numbers".into()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn get(port: u16, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn the_browser_brings_the_code_and_nobody_else_does() {
        let begun = Authorization::begin("https://openrouter.ai/").await.unwrap();
        let url = Url::parse(&begun.url).unwrap();
        assert!(begun.url.starts_with("https://openrouter.ai/auth?callback_url=http%3A%2F%2Flocalhost%3A"));
        let pairs: std::collections::HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!(pairs["code_challenge_method"], "S256");
        let digest = Sha256::digest(begun.verifier.expose().as_bytes());
        assert_eq!(pairs["code_challenge"], URL_SAFE_NO_PAD.encode(digest));
        assert_eq!(begun.verifier.expose().len(), 43);
        let callback = Url::parse(&pairs["callback_url"]).unwrap();
        let (port, path) = (callback.port().unwrap(), callback.path().to_owned());
        let browser = async {
            assert!(get(port, "/callback/forged?code=evil").await.starts_with("HTTP/1.1 404"));
            assert!(get(port, "/favicon.ico").await.starts_with("HTTP/1.1 404"));
            drop(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            get(port, &format!("{path}?code=c%2B1")).await
        };
        let (code, page) = tokio::join!(begun.callback(), browser);
        assert_eq!(code.unwrap(), "c+1");
        assert!(page.contains("You are signed in"), "{page}");
        let denied = format!("{path}?error=access_denied");
        let (refused, _) = tokio::join!(begun.callback(), get(port, &denied));
        assert!(refused.unwrap_err().to_string().contains("access_denied"));
    }

    #[tokio::test]
    async fn a_code_can_be_pasted_alone_or_in_its_address() {
        let begun = Authorization::begin("http://127.0.0.1:1").await.unwrap();
        assert_eq!(begun.pasted(" abc\n").unwrap(), "abc");
        let own = format!("http://localhost:1/callback/{}?code=abc", begun.state);
        assert_eq!(begun.pasted(&own).unwrap(), "abc");
        assert!(matches!(begun.pasted("http://localhost:1/callback/x?code=abc"), Err(LoginError::State)));
        assert!(begun.pasted("  ").is_err());
    }
}
