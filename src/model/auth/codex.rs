//! Signing in with a ChatGPT account, as the Codex command line does: a code that the person enters on a page of the
//! issuer's, tokens that are refreshed, and the login of an installed Codex, read on request.
//! <https://github.com/openai/codex/tree/main/codex-rs/login>
use super::{
    LoginError,
    exchange::{Answer, Body, post},
    jwt, now,
    store::Login,
};
use crate::{
    model::{
        ErrorKind,
        failure::Failure,
        http::{Connections, is_loopback},
    },
    secret::Secret,
};
use reqwest::Url;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// How long a code can be entered.
pub const CODE_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The least time between two questions whether it was.
const POLL: Duration = Duration::from_secs(3);

/// What `slow_down` adds to it for good (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Who issues the tokens, and to which application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Without a slash at its end.
    pub url: String,
    pub client_id: String,
}

/// What an issuer says to the question whether the code was entered.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Wait,
    Slower,
    Denied,
    Expired,
    /// A sign-in, or what is no answer to the question.
    Done,
}

/// The code of an error comes before the status: it is the words of RFC 8628 (section 3.5), where the status is always
/// 400, or of OpenAI's own, which answers 403 or 404 as long as the code was not entered.
fn said(status: u16, code: &str) -> Said {
    let code = code.strip_prefix("deviceauth_").unwrap_or(code);
    match (status, code) {
        (200..300, _) => Said::Done,
        (_, "slow_down") => Said::Slower,
        (_, "authorization_pending" | "authorization_unknown") => Said::Wait,
        (_, "access_denied" | "authorization_declined" | "denied") => Said::Denied,
        (_, "expired_token" | "expired") => Said::Expired,
        (403 | 404 | 429 | 500.., _) => Said::Wait,
        _ => Said::Done,
    }
}

/// A sign-in under way.
pub struct DeviceCode {
    /// The page to open.
    pub url: String,
    /// What to enter there.
    pub code: String,
    id: Secret,
    interval: Duration,
}

/// How a refresh went wrong.
pub enum Refused {
    /// The login is over: its code, for people.
    Dead(String),
    /// It may work later.
    Later(Failure),
}

impl Issuer {
    fn at(&self, path: &str) -> Result<Url, Failure> {
        Url::parse(&format!("{}{path}", self.url.trim_end_matches('/')))
            .map_err(|_| Failure::new(ErrorKind::BadRequest, "the `auth_url` of the provider is no URL"))
    }

    fn host(&self) -> String {
        self.at("").ok().and_then(|u| u.host_str().map(str::to_owned)).unwrap_or_else(|| self.url.clone())
    }

    fn failed(&self, failure: Failure) -> LoginError {
        LoginError::Issuer(failure.at(&self.host(), None, None).message)
    }

    /// Asks for a code to be entered.
    ///
    /// # Errors
    /// Where the issuer cannot be reached or does not offer it.
    pub async fn device_code(&self, connections: &Connections) -> Result<DeviceCode, LoginError> {
        let url = self.at("/api/accounts/deviceauth/usercode").map_err(|e| self.failed(e))?;
        let body = Body::Json(json!({ "client_id": self.client_id }));
        let answer = post(connections, url, body).await.map_err(|e| self.failed(e))?;
        if answer.status == 404 {
            return Err(LoginError::NoDeviceCode(self.host()));
        }
        let id = answer.text("device_auth_id").map(Secret::new);
        let code = answer.text("user_code").or_else(|| answer.text("usercode")).map(str::to_owned);
        let (Some(id), Some(code), true) = (id, code, answer.is_good()) else {
            return Err(self.unexpected("a code", &answer));
        };
        // A number, or a number in quotes.
        let interval = &answer.body["interval"];
        let quoted = || interval.as_str().and_then(|i| i.trim().parse().ok());
        let told = Duration::from_secs(interval.as_u64().or_else(quoted).unwrap_or(5).min(60));
        let local = self.at("").is_ok_and(|u| u.host_str().is_some_and(is_loopback));
        let interval = if local { told.max(Duration::from_millis(20)) } else { told.max(POLL) };
        let url = format!("{}/codex/device", self.url.trim_end_matches('/'));
        Ok(DeviceCode { url, code, id, interval })
    }

    /// Waits until the code was entered, and gives the login. Dropping the future gives up.
    ///
    /// # Errors
    /// After a quarter of an hour, and where the issuer refuses.
    pub async fn wait(&self, connections: &Connections, device: &DeviceCode) -> Result<Login, LoginError> {
        let polling = self.poll(connections, device);
        let (code, verifier) =
            tokio::time::timeout(CODE_LIFETIME, polling).await.unwrap_or(Err(LoginError::Expired))?;
        let base = self.url.trim_end_matches('/');
        let fields = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", format!("{base}/deviceauth/callback")),
            ("client_id", self.client_id.clone()),
            ("code_verifier", verifier),
        ];
        let url = self.at("/oauth/token").map_err(|e| self.failed(e))?;
        let answer = post(connections, url, Body::Form(fields)).await.map_err(|e| self.failed(e))?;
        let (Some(access), Some(refresh), true) =
            (answer.text("access_token"), answer.text("refresh_token"), answer.is_good())
        else {
            return Err(self.unexpected("tokens", &answer));
        };
        Ok(self.login(access, refresh, answer.text("id_token")))
    }

    async fn poll(
        &self,
        connections: &Connections,
        device: &DeviceCode,
    ) -> Result<(String, String), LoginError> {
        let (mut silent, mut interval) = (0, device.interval);
        loop {
            tokio::time::sleep(interval).await;
            let url = self.at("/api/accounts/deviceauth/token").map_err(|e| self.failed(e))?;
            let body = json!({"device_auth_id": device.id.expose(), "user_code": device.code});
            let answer = match post(connections, url, Body::Json(body)).await {
                Ok(answer) => answer,
                // A line that drops while a person looks for their phone is no reason to begin anew.
                Err(_) if silent < 5 => {
                    silent += 1;
                    continue;
                }
                Err(failure) => return Err(self.failed(failure)),
            };
            silent = 0;
            match said(answer.status, answer.code()) {
                Said::Wait => {}
                Said::Slower => interval += SLOWER,
                Said::Denied => return Err(LoginError::Denied),
                Said::Expired => return Err(LoginError::Expired),
                Said::Done => {
                    let code = answer.text("authorization_code");
                    return match (code, answer.text("code_verifier"), answer.is_good()) {
                        (Some(code), Some(verifier), true) => Ok((code.to_owned(), verifier.to_owned())),
                        _ => Err(self.unexpected("a sign-in", &answer)),
                    };
                }
            }
        }
    }

    fn login(&self, access: &str, refresh: &str, id: Option<&str>) -> Login {
        let id = id.unwrap_or_default();
        Login {
            account: jwt::account(id).or_else(|| jwt::account(access)),
            email: jwt::email(id).or_else(|| jwt::email(access)),
            expires: jwt::expires(access),
            access: Secret::new(access),
            refresh: Secret::new(refresh),
            issuer: self.url.trim_end_matches('/').to_owned(),
            client_id: self.client_id.clone(),
            imported: false,
            dead: None,
        }
    }

    fn unexpected(&self, what: &str, answer: &Answer) -> LoginError {
        let (host, code) = (self.host(), answer.code());
        let code = if code.is_empty() { String::new() } else { format!(" ({code})") };
        LoginError::Issuer(format!("{host} answered {}{code} and no {what}; try again", answer.status))
    }
}

/// Exchanges the refresh token of a login for new tokens. The old one is worth nothing from then on, so the new ones are
/// stored before they are used.
///
/// # Errors
/// [`Refused::Dead`] where there is no way on but to sign in again.
pub async fn refresh(connections: &Connections, login: &Login) -> Result<Login, Refused> {
    let issuer = Issuer { url: login.issuer.clone(), client_id: login.client_id.clone() };
    let url = issuer.at("/oauth/token").map_err(Refused::Later)?;
    let body = json!({"client_id": login.client_id, "grant_type": "refresh_token",
        "refresh_token": login.refresh.expose()});
    let answer = post(connections, url, Body::Json(body)).await.map_err(Refused::Later)?;
    if answer.is_good() {
        let Some(access) = answer.text("access_token") else {
            return Err(Refused::Later(Failure::malformed("the answer to a refresh has no token")));
        };
        let refresh = answer.text("refresh_token").unwrap_or(login.refresh.expose());
        let fresh = issuer.login(access, refresh, answer.text("id_token"));
        return Ok(Login {
            account: login.account.clone().or(fresh.account),
            email: fresh.email.or_else(|| login.email.clone()),
            expires: fresh.expires.or_else(|| answer.body["expires_in"].as_i64().map(|left| now() + left)),
            imported: login.imported,
            ..fresh
        });
    }
    let code = answer.code();
    let over =
        ["invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"];
    if answer.status == 401 || over.contains(&code) {
        return Err(Refused::Dead(if code.is_empty() { "refused".into() } else { code.to_owned() }));
    }
    let kind = match answer.status {
        429 => ErrorKind::Quota,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::BadRequest,
    };
    let detail = format!("{} answered {} to a refresh of the login {code}", issuer.host(), answer.status);
    let mut failure = Failure::new(kind, detail.trim_end());
    failure.retry_after = answer.retry_after;
    Err(Refused::Later(failure))
}

/// Takes the refresh token back at its issuer; `false` where that did not work, which changes nothing for us.
pub async fn revoke(connections: &Connections, login: &Login) -> bool {
    let issuer = Issuer { url: login.issuer.clone(), client_id: login.client_id.clone() };
    let Ok(url) = issuer.at("/oauth/revoke") else { return false };
    let body = json!({"token": login.refresh.expose(), "token_type_hint": "refresh_token",
        "client_id": login.client_id});
    let asked = tokio::time::timeout(Duration::from_secs(5), post(connections, url, Body::Json(body)));
    asked.await.is_ok_and(|answer| answer.is_ok_and(|a| a.is_good()))
}

/// The longest `auth.json`, in bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// The login of an installed Codex, from its `auth.json`, which is only read.
///
/// # Errors
/// Where the file does not hold both tokens of a ChatGPT login.
pub fn import(file: &Path, issuer: &Issuer) -> Result<Login, LoginError> {
    let unreadable = |why: &str| LoginError::Import(format!("{}: {why}", file.display()));
    let text = crate::config::read_regular(file, LONGEST_FILE).map_err(|e| unreadable(&e.to_string()))?;
    let text = Secret::new(String::from_utf8(text).map_err(|_| unreadable("not UTF-8"))?);
    // The parser's own words could quote a token.
    let value: Value = serde_json::from_str(text.expose()).map_err(|_| unreadable("not JSON"))?;
    let tokens = &value["tokens"];
    let token = |key: &str| tokens[key].as_str().filter(|t| !t.is_empty());
    let (Some(access), Some(refresh)) = (token("access_token"), token("refresh_token")) else {
        return Err(unreadable(
            "it does not hold both tokens of a ChatGPT login; sign in to Codex with ChatGPT",
        ));
    };
    let mut login = issuer.login(access, refresh, token("id_token"));
    login.account = token("account_id").map(str::to_owned).or(login.account);
    login.imported = true;
    Ok(login)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_the_question_is_read_by_its_code_first() {
        let cases = [
            (200, "", Said::Done),
            (200, "slow_down", Said::Done),
            (403, "", Said::Wait),
            (404, "", Said::Wait),
            (429, "", Said::Wait),
            (503, "", Said::Wait),
            (403, "deviceauth_authorization_unknown", Said::Wait),
            (400, "authorization_pending", Said::Wait),
            (400, "slow_down", Said::Slower),
            (429, "slow_down", Said::Slower),
            (400, "access_denied", Said::Denied),
            (403, "access_denied", Said::Denied),
            (403, "expired_token", Said::Expired),
            (403, "deviceauth_expired", Said::Expired),
            (404, "deviceauth_expired", Said::Expired),
            (400, "", Said::Done),
            (401, "invalid_client", Said::Done),
        ];
        for (status, code, want) in cases {
            assert_eq!(said(status, code), want, "{status} {code}");
        }
    }
}
