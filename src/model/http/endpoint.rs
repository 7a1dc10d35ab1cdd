//! Where models are reached, with which key, over which connections.
use crate::{
    model::{
        ErrorKind,
        auth::{LoginKind, Pool},
        failure::Failure,
    },
    secret::Secret,
};
use reqwest::{Client, Url};
use std::{
    error::Error as StdError,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeouts {
    /// For the first byte of the reply: a local server first reads the whole prompt.
    pub first: Duration,
    /// Between two reads of the reply.
    pub idle: Duration,
}

impl Timeouts {
    pub const REMOTE: Timeouts = Timeouts { first: Duration::from_secs(60), idle: Duration::from_secs(120) };
    pub const LOCAL: Timeouts = Timeouts { first: Duration::from_secs(900), idle: Duration::from_secs(120) };
}

/// How a person gets a key for a provider.
#[derive(Clone, Debug, Default)]
pub struct SignIn {
    /// The provider's name, as `hermes-editor login` takes it.
    pub provider: String,
    /// The environment variable to set.
    pub env: Option<String>,
    pub login: Option<LoginKind>,
}

impl SignIn {
    /// What to do, as a sentence that ends with a full stop.
    pub fn hint(&self) -> String {
        let name = &self.provider;
        match (&self.env, self.login) {
            (_, Some(LoginKind::Chatgpt)) => format!("Run `hermes-editor login {name}` in a terminal."),
            (Some(env), _) if name.is_empty() => format!("Set {env} to a valid key."),
            (None, _) if name.is_empty() => "Put a valid key into config.toml.".into(),
            (Some(env), _) => format!(
                "Run `hermes-editor login {name}`, or set {env} to a valid key where the editor starts the agent."
            ),
            (None, _) => format!("Run `hermes-editor login {name}`, or put a valid key into config.toml."),
        }
    }
}

/// One place that models are reached at.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub base: Url,
    pub credentials: Arc<Pool>,
    /// A request without a key makes no sense here.
    pub needs_key: bool,
    /// How to get a key, for hints.
    pub sign_in: SignIn,
    pub headers: Vec<(String, Secret)>,
    pub timeouts: Timeouts,
}

impl Endpoint {
    pub fn new(base: Url, credentials: impl Into<Pool>, needs_key: bool) -> Self {
        let local = base.host_str().is_some_and(is_local);
        let needs_key = needs_key && !base.host_str().is_some_and(is_loopback);
        let timeouts = if local { Timeouts::LOCAL } else { Timeouts::REMOTE };
        let (credentials, sign_in) = (Arc::new(credentials.into()), SignIn::default());
        Endpoint { base, credentials, needs_key, sign_in, headers: Vec::new(), timeouts }
    }
    /// The host, with its port where that is not the usual one: what errors name.
    pub fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or("?");
        self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
    /// The address of a path below the base; a query of the base is kept (Azure's `api-version`).
    pub fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        if let Some(query) = query {
            let all = url.query().map_or_else(|| query.to_owned(), |q| format!("{q}&{query}"));
            url.set_query(Some(&all));
        }
        url
    }
    /// On this machine or in its network.
    pub fn is_near(&self) -> bool {
        self.base.host_str().is_some_and(is_local)
    }
    /// The server itself, without the path of its API.
    pub fn root(&self) -> Endpoint {
        let mut root = self.clone();
        root.base.set_path("/");
        root.base.set_query(None);
        root
    }
    pub(super) fn hint(&self, kind: ErrorKind) -> Option<String> {
        match kind {
            ErrorKind::Auth => Some(format!("{} Then send the prompt again.", self.sign_in.hint())),
            ErrorKind::Network if self.base.host_str().is_some_and(is_local) => {
                Some(format!("Is the model server running at {}?", self.base.origin().ascii_serialization()))
            }
            ErrorKind::Network => Some("Check the network and the proxy settings.".into()),
            ErrorKind::Tls => Some("Check SSL_CERT_FILE, the system's certificates and the clock.".into()),
            _ => None,
        }
    }
}

pub(in crate::model) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    bare.eq_ignore_ascii_case("localhost")
        || bare.to_ascii_lowercase().ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Loopback or in the same network: a machine of the user's, which may be slow.
pub(super) fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let private = bare.parse::<IpAddr>().is_ok_and(|ip| match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    });
    is_loopback(host) || private || bare.ends_with(".local") || bare == "host.docker.internal"
}

/// The connections of the process, shared by all providers; each client is built when it is first needed.
#[derive(Debug, Default)]
pub struct Connections {
    /// To loopback over plain HTTP: no proxy, and no certificates to load.
    plain: OnceLock<Result<Client, String>>,
    /// To loopback over TLS: no proxy.
    direct: OnceLock<Result<Client, String>>,
    /// To everywhere else: proxies from the environment, certificates of the system.
    outside: OnceLock<Result<Client, String>>,
    /// What the providers behind them refused.
    pub(in crate::model) learned: crate::model::strip::Learned,
}

impl Connections {
    pub(in crate::model) fn to(&self, url: &Url) -> Result<&Client, Failure> {
        let loopback = url.host_str().is_some_and(is_loopback);
        let (cell, proxies, tls) = match (loopback, url.scheme()) {
            (true, "http") => (&self.plain, false, false),
            (true, _) => (&self.direct, false, true),
            (false, _) => (&self.outside, true, true),
        };
        cell.get_or_init(|| client(proxies, tls))
            .as_ref()
            .map_err(|e| Failure::new(ErrorKind::Tls, e.clone()))
    }
}

fn client(proxies: bool, tls: bool) -> Result<Client, String> {
    // Somebody else may have installed one; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("hermes-editor/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        // Servers and routers forget idle connections without a word: <https://github.com/zed-industries/zed/issues/56508>.
        .pool_idle_timeout(Duration::from_secs(15))
        .tcp_keepalive(Duration::from_secs(15))
        .tcp_nodelay(true)
        // A redirect would send the prompt, and some keys, where nobody decided to.
        .redirect(reqwest::redirect::Policy::none())
        // A compressed stream is a buffered stream.
        .no_gzip();
    if !proxies {
        builder = builder.no_proxy();
    }
    if tls {
        for certificate in extra_roots()? {
            builder = builder.add_root_certificate(certificate);
        }
    } else {
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder = builder.use_preconfigured_tls(config);
    }
    builder.build().map_err(|e| deepest(&e))
}

/// `SSL_CERT_FILE`. On Linux the loader of the system's roots reads it itself, and takes it in place of them; elsewhere
/// it adds to the roots of the system.
fn extra_roots() -> Result<Vec<reqwest::Certificate>, String> {
    if cfg!(all(unix, not(target_vendor = "apple"))) {
        return Ok(Vec::new());
    }
    let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|p| !p.is_empty()) else {
        return Ok(Vec::new());
    };
    let pem = crate::config::read_regular(path.as_ref(), 8 << 20)
        .map_err(|e| format!("SSL_CERT_FILE cannot be read: {e}"))?;
    reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|e| format!("SSL_CERT_FILE holds no certificates: {}", deepest(&e)))
}

pub(super) fn deepest(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
