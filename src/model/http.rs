//! Bytes to and from a model over HTTP: connections, time-outs, credentials, errors that say what to do.
//!
//! Nothing is built before the first request. A loopback host is never reached through a proxy, whatever the
//! environment says: <https://github.com/NVIDIA/NemoClaw/issues/2616>.
mod endpoint;
#[cfg(test)]
mod tests;

pub(super) use endpoint::is_loopback;
pub use endpoint::{Connections, Endpoint, SignIn, Timeouts};

use super::{
    Delta, ErrorKind, ModelError, ModelInfo, Provider, Request,
    auth::{Credential, Failed},
    dialect::{Decoded, Dialect},
    failure::Failure,
    reply::Reply,
    strip,
};
use crate::secret::Secret;
use endpoint::deepest;
use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use reqwest::{Response, Url};
use std::{borrow::Cow, error::Error as StdError, fmt::Write, sync::Arc, time::Duration};
use tokio::time::timeout;

/// The most bytes read of an error's body.
const ERROR_BODY_CAP: usize = 64 << 10;
/// What a reply that is complete may take to close its stream.
const CLOSING: Duration = Duration::from_secs(2);

/// A model at an endpoint.
pub struct HttpProvider {
    pub(super) connections: Arc<Connections>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) dialect: Arc<dyn Dialect>,
    /// The model's name as the provider knows it.
    pub(super) model: String,
    pub(super) info: ModelInfo,
}

impl HttpProvider {
    async fn open(&self, request: &Request, credential: Option<&Credential>) -> Result<Response, Failure> {
        let endpoint = &*self.endpoint;
        let url = endpoint.url(&self.dialect.path(&self.model, request));
        let body = self.dialect.body(&self.model, request);
        let mut call = self
            .connections
            .to(&url)?
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream");
        for (name, value) in self.dialect.headers() {
            call = call.header(*name, *value);
        }
        if let Some(credential) = credential {
            call = signed(call, &*self.dialect, credential)?;
        }
        for (name, value) in &endpoint.headers {
            call = call.header(name, secret_header("", value)?);
        }
        let response = match timeout(endpoint.timeouts.first, call.body(body).send()).await {
            Err(_) => return Err(silent("no answer", endpoint.timeouts.first)),
            Ok(Err(error)) => return Err(broken(&error)),
            Ok(Ok(response)) => response,
        };
        if response.status().as_u16() == 200 { Ok(response) } else { Err(refused(response).await) }
    }

    /// What a refusal is remembered by.
    fn place(&self) -> String {
        format!("{} {}", self.endpoint.base, self.model)
    }

    /// The credential for the next request; `None` where the provider takes requests without.
    async fn credential(&self) -> Result<Option<Credential>, Failure> {
        let found = self.endpoint.credentials.credential(&self.connections).await?;
        if found.is_none() && self.endpoint.needs_key {
            return Err(Failure::new(ErrorKind::Auth, "there is no key and no login"));
        }
        Ok(found)
    }

    fn error(&self, failure: Failure, used: Option<&Credential>) -> ModelError {
        let hint = self.endpoint.hint(failure.kind);
        failure.at(&self.endpoint.host(), used.map(|u| &u.secret), hint.as_deref())
    }
}

fn signed(
    call: reqwest::RequestBuilder,
    dialect: &dyn Dialect,
    credential: &Credential,
) -> Result<reqwest::RequestBuilder, Failure> {
    let (name, prefix) = dialect.auth();
    let call = call.header(name, secret_header(prefix, &credential.secret)?);
    Ok(match &credential.account {
        // <https://github.com/openai/codex/blob/main/codex-rs/model-provider/src/bearer_auth_provider.rs>
        Some(account) => call.header("chatgpt-account-id", account),
        None => call,
    })
}

fn secret_header(prefix: &str, secret: &Secret) -> Result<reqwest::header::HeaderValue, Failure> {
    let mut value = reqwest::header::HeaderValue::from_str(&format!("{prefix}{}", secret.expose().trim()))
        .map_err(|_| Failure::new(ErrorKind::Auth, "the key has characters that no header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// An answer other than 200, as a failure.
async fn refused(mut response: Response) -> Failure {
    let status = response.status().as_u16();
    let headers = response.headers();
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let wait = wait_of(header("retry-after-ms").as_deref(), header("retry-after").as_deref());
    let place = header("location");
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = timeout(Duration::from_secs(5), response.chunk()).await {
        body.extend_from_slice(&bytes);
        if body.len() >= ERROR_BODY_CAP {
            body.truncate(ERROR_BODY_CAP);
            break;
        }
    }
    let mut failure = Failure::of_response(status, &String::from_utf8_lossy(&body));
    failure.retry_after = wait.or(failure.retry_after);
    if let Some(place) = place.filter(|_| (300..400).contains(&status)) {
        let host = Url::parse(&place).ok().and_then(|u| u.host_str().map(str::to_owned)).unwrap_or(place);
        failure.detail = format!("it redirects to {host}: correct the base URL");
    }
    failure
}

/// `Retry-After`: seconds or a date; `retry-after-ms` is more exact. RFC 9110, section 10.2.3.
pub(super) fn wait_of(millis: Option<&str>, after: Option<&str>) -> Option<Duration> {
    if let Some(millis) = millis.and_then(|m| m.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let after = after?.trim();
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(after).ok()?;
    Some(Duration::try_from(at.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

fn silent(what: &str, after: Duration) -> Failure {
    Failure::new(ErrorKind::Timeout, format!("{what} for {} s", after.as_secs()))
}

/// An error of the connection, as a failure; it never holds the URL.
pub(super) fn broken(error: &reqwest::Error) -> Failure {
    let (mut tls, mut at): (bool, Option<&(dyn StdError + 'static)>) = (false, Some(error));
    while let Some(one) = at {
        tls |= one.is::<rustls::Error>()
            || one
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.get_ref().is_some_and(|e| e.is::<rustls::Error>()));
        at = one.source();
    }
    let kind = match () {
        () if tls => ErrorKind::Tls,
        () if error.is_timeout() => ErrorKind::Timeout,
        () => ErrorKind::Network,
    };
    let mut detail = String::new();
    if error.is_connect() {
        detail.push_str("cannot connect: ");
    }
    let _ = write!(detail, "{}", deepest(error));
    Failure::new(kind, detail)
}

/// One request while it runs. Dropping it closes the connection, which is how the server learns.
struct Run<'a> {
    provider: &'a HttpProvider,
    request: &'a Request,
    /// The request without what the provider would not take.
    stripped: Option<Request>,
    /// What was taken out, not yet known to have helped.
    taken: Vec<strip::What>,
    /// What signs it, once that was looked up.
    credential: Option<Credential>,
    /// The credential was renewed after it was refused: that is done but once.
    renewed: bool,
    /// Something of the reply was passed on: nothing is sent again.
    spoke: bool,
    phase: Phase,
    ready: std::vec::IntoIter<Decoded>,
}

enum Phase {
    Begin,
    Body {
        response: Box<Response>,
        reply: Reply,
        /// A byte of the body was read.
        begun: bool,
    },
    Over,
}

impl Run<'_> {
    fn request(&self) -> &Request {
        self.stripped.as_ref().unwrap_or(self.request)
    }

    async fn open(&mut self) -> Result<Response, Failure> {
        if self.credential.is_none() {
            self.credential = self.provider.credential().await?;
        }
        self.provider.open(self.request(), self.credential.as_ref()).await
    }

    /// Renews the credential after a 401, once, so that the request can be sent again.
    ///
    /// # Errors
    /// What the request failed with in the end.
    async fn renew(&mut self, failure: Failure) -> Result<(), Failure> {
        let Some(used) = self.credential.as_ref().filter(|_| failure.status == Some(401) && !self.renewed)
        else {
            return Err(failure);
        };
        self.renewed = true;
        let (pool, connections) = (&self.provider.endpoint.credentials, &self.provider.connections);
        self.credential = Some(pool.renewed(used, connections).await?.ok_or(failure)?);
        Ok(())
    }

    /// The error as it is told. Where the provider has another credential to go on with, it is one that is tried again at
    /// once (see `retry`), and says so.
    fn failed(&self, failure: Failure) -> ModelError {
        let used = self.credential.as_ref();
        let next =
            used.filter(|_| !self.spoke).map(|u| self.provider.endpoint.credentials.failed(u, &failure));
        let Some(Failed::Next(name)) = next else { return self.provider.error(failure, used) };
        let host = self.provider.endpoint.host();
        let mut error = failure.at(&host, used.map(|u| &u.secret), Some(&format!("Going on with {name}.")));
        error.kind = ErrorKind::Rotated;
        error
    }

    /// The provider took the request: what helped is remembered, and the reply is read.
    fn taken(&mut self, response: Response) -> Phase {
        let (place, learned) = (self.provider.place(), &self.provider.connections.learned);
        self.taken.drain(..).for_each(|what| learned.remember(&place, what, self.request));
        if let Some(used) = &self.credential {
            self.provider.endpoint.credentials.worked(used);
        }
        let reply = Reply::new(self.provider.dialect.decoder(self.request()));
        Phase::Body { response: Box::new(response), reply, begun: false }
    }

    async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            if let Some(decoded) = self.ready.next() {
                if decoded.is_err() {
                    self.phase = Phase::Over;
                    self.ready = Vec::new().into_iter();
                }
                let out = decoded.map_err(|failure| self.failed(failure));
                self.spoke = true;
                return Some(out);
            }
            let out = match &mut self.phase {
                Phase::Over => return None,
                Phase::Begin => {
                    match self.open().await {
                        Err(failure) => {
                            let failure = match self.renew(failure).await {
                                Ok(()) => continue,
                                Err(failure) => failure,
                            };
                            // Each kind of thing can be taken out but once, so this ends.
                            if let Some((what, less)) = strip::without(&failure, self.request()) {
                                self.taken.push(what);
                                self.stripped = Some(less);
                                continue;
                            }
                            vec![Err(failure)]
                        }
                        Ok(response) => {
                            self.phase = self.taken(response);
                            continue;
                        }
                    }
                }
                Phase::Body { response, reply, begun } => {
                    let out = read(response, reply, begun, &self.provider.endpoint.timeouts).await;
                    if matches!(out.last(), Some(Err(_))) {
                        self.phase = Phase::Over;
                    } else if reply.over()
                        && let Phase::Body { response, .. } = std::mem::replace(&mut self.phase, Phase::Over)
                    {
                        drain(response);
                    }
                    out
                }
            };
            self.ready = out.into_iter();
        }
    }
}

/// The deltas of the next read, which may be none.
async fn read(
    response: &mut Response,
    reply: &mut Reply,
    begun: &mut bool,
    timeouts: &Timeouts,
) -> Vec<Decoded> {
    let mut out = Vec::new();
    let wait = match () {
        () if reply.settled() => CLOSING,
        () if *begun => timeouts.idle,
        () => timeouts.first,
    };
    match timeout(wait, response.chunk()).await {
        Ok(Ok(Some(bytes))) => {
            *begun = true;
            reply.feed(&bytes, &mut out);
        }
        Ok(Ok(None)) => reply.finish(&mut out),
        // The model had said that it was done: what is lost is the count of tokens at most.
        _ if reply.settled() => reply.finish(&mut out),
        Ok(Err(error)) => {
            let failure = broken(&error);
            let what = if *begun {
                "the connection broke in the middle of the reply"
            } else {
                "the connection broke before the reply"
            };
            out.push(Err(Failure { detail: format!("{what}: {}", failure.detail), ..failure }));
        }
        Err(_) => out
            .push(Err(silent(if *begun { "the reply stalled: nothing came" } else { "nothing came" }, wait))),
    }
    out
}

/// Reads what is left of a reply that is over, so that its connection can be used again.
fn drain(mut response: Box<Response>) {
    if !matches!(response.chunk().now_or_never(), Some(Ok(None) | Err(_))) {
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = timeout(CLOSING, rest).await;
        });
    }
}

impl Provider for HttpProvider {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        let stripped = match self.connections.learned.fit(&self.place(), request) {
            Cow::Borrowed(_) => None,
            Cow::Owned(less) => Some(less),
        };
        let run = Run {
            provider: self,
            request,
            stripped,
            taken: Vec::new(),
            credential: None,
            renewed: false,
            spoke: false,
            phase: Phase::Begin,
            ready: Vec::new().into_iter(),
        };
        stream::unfold(run, |mut run| async move { run.next().await.map(|item| (item, run)) }).boxed()
    }

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }
}

/// The JSON at a path below the endpoint, bounded in bytes and time: what a server says of its models. With a body it
/// is asked by POST.
pub(super) async fn get_json(
    connections: &Arc<Connections>,
    endpoint: &Endpoint,
    dialect: &dyn Dialect,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<serde_json::Value, Failure> {
    let url = endpoint.url(path);
    let client = connections.to(&url)?;
    let mut call = match body {
        None => client.get(url),
        Some(body) => client.post(url).header("content-type", "application/json").body(body.to_string()),
    };
    call = call.header("accept", "application/json");
    for (name, value) in dialect.headers() {
        call = call.header(*name, *value);
    }
    if let Some(credential) = endpoint.credentials.credential(connections).await? {
        call = signed(call, dialect, &credential)?;
    }
    for (name, value) in &endpoint.headers {
        call = call.header(name, secret_header("", value)?);
    }
    let read = async {
        let mut response = call.send().await.map_err(|e| broken(&e))?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|e| broken(&e))? {
            body.extend_from_slice(&bytes);
            if body.len() > 8 << 20 {
                return Err(Failure::malformed("the list of models is larger than 8 MiB"));
            }
        }
        serde_json::from_slice(&body).map_err(|_| Failure::malformed("the list of models is no JSON"))
    };
    timeout(Duration::from_secs(10), read)
        .await
        .unwrap_or_else(|_| Err(silent("no list of models", Duration::from_secs(10))))
}
