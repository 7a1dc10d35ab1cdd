//! What a token says about itself. Nothing is verified: the provider does that; we only want to know when it ends.
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// The claims of a JWT; null for what is none.
fn claims(token: &str) -> Value {
    let mut parts = token.split('.');
    let (Some(_), Some(body), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Value::Null;
    };
    let body = URL_SAFE_NO_PAD.decode(body.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&body).unwrap_or_default()
}

/// When it ends, in seconds since the Unix epoch.
pub fn expires(token: &str) -> Option<i64> {
    let exp = &claims(token)["exp"];
    exp.as_i64().or_else(|| exp.as_f64().map(|e| e as i64))
}

/// The ChatGPT account (workspace) that it is for.
pub fn account(token: &str) -> Option<String> {
    let claims = claims(token);
    let auth = &claims["https://api.openai.com/auth"];
    auth["chatgpt_account_id"].as_str().or_else(|| claims["chatgpt_account_id"].as_str()).map(str::to_owned)
}

pub fn email(token: &str) -> Option<String> {
    let claims = claims(token);
    let email =
        claims["email"].as_str().or_else(|| claims["https://api.openai.com/profile"]["email"].as_str());
    email.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_and_nonsense_has_none() {
        let body = r#"{"exp":1700000000,"https://api.openai.com/auth":{"chatgpt_account_id":"acc"},
            "https://api.openai.com/profile":{"email":"a@b.example"}}"#;
        let token = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(body));
        assert_eq!(expires(&token), Some(1_700_000_000));
        assert_eq!(account(&token).as_deref(), Some("acc"));
        assert_eq!(email(&token).as_deref(), Some("a@b.example"));
        for nonsense in ["", "a.b.c", "..", "a.b.c.d", "e30.e30.x", "opaque-token"] {
            assert_eq!((expires(nonsense), account(nonsense)), (None, None), "{nonsense}");
        }
    }
}
