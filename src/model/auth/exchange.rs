//! One question to an issuer of credentials: a small POST, its answer bounded in time and size. No retries here.
use crate::model::{
    ErrorKind,
    failure::Failure,
    http::{Connections, broken, wait_of},
};
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// For one question. Less than half of what another process waits for the lock.
const LIMIT: Duration = Duration::from_secs(25);
const LONGEST: usize = 1 << 20;

/// What is sent. It is never logged.
pub(super) enum Body {
    Json(Value),
    Form(Vec<(&'static str, String)>),
}

/// What came back; `body` is null where it was no JSON.
pub(super) struct Answer {
    pub status: u16,
    pub body: Value,
    pub retry_after: Option<Duration>,
}

impl Answer {
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key).and_then(Value::as_str).filter(|t| !t.is_empty())
    }
    /// The code of an error, in any of the forms it has: `{"error": "x"}`, `{"error": {"code": "x"}}`, `{"code": "x"}`.
    pub fn code(&self) -> &str {
        let error = &self.body["error"];
        let code = error.as_str().or_else(|| error["code"].as_str()).or_else(|| self.body["code"].as_str());
        code.filter(|c| c.len() < 100 && c.bytes().all(|b| b.is_ascii_graphic())).unwrap_or_default()
    }
}

/// # Errors
/// Where there was no answer at all.
pub(super) async fn post(connections: &Connections, url: Url, body: Body) -> Result<Answer, Failure> {
    let call = connections.to(&url)?.post(url).header("accept", "application/json");
    let call = match body {
        Body::Json(value) => call.header("content-type", "application/json").body(value.to_string()),
        Body::Form(fields) => {
            call.header("content-type", "application/x-www-form-urlencoded").body(form(&fields))
        }
    };
    let exchange = async {
        let mut response = call.send().await.map_err(|e| broken(&e))?;
        let after = response.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let status = response.status().as_u16();
        let mut text = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|e| broken(&e))? {
            text.extend_from_slice(&bytes);
            if text.len() > LONGEST {
                break;
            }
        }
        let body = serde_json::from_slice(&text).unwrap_or_default();
        Ok(Answer { status, body, retry_after: wait_of(None, after.as_deref()) })
    };
    let late = || Failure::new(ErrorKind::Timeout, format!("no answer for {} s", LIMIT.as_secs()));
    timeout(LIMIT, exchange).await.unwrap_or_else(|_| Err(late()))
}

fn form(fields: &[(&'static str, String)]) -> String {
    // Any address will do: only its query is of use.
    let Ok(mut url) = Url::parse("http://localhost/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded_and_codes_found() {
        assert_eq!(form(&[("a", "x y&z".into()), ("b", "é".into())]), "a=x+y%26z&b=%C3%A9");
        let code = |body: &str| {
            let body = serde_json::from_str(body).unwrap();
            Answer { status: 400, body, retry_after: None }.code().to_owned()
        };
        assert_eq!(code(r#"{"error":"invalid_grant"}"#), "invalid_grant");
        assert_eq!(code(r#"{"error":{"code":"refresh_token_reused"}}"#), "refresh_token_reused");
        assert_eq!(code(r#"{"code":"x"}"#), "x");
        assert_eq!(code(r#"{"error":"a b"}"#), "");
        assert_eq!(code("[]"), "");
    }
}
