//! The credentials of one provider: which of several is used, and which rests because it was refused.
use super::{Credential, Source, Vault, login, store::Stored};
use crate::{
    config::KeyPolicy,
    model::{ErrorKind, failure::Failure, http::Connections, policy},
    secret::Secret,
};
use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// How long a key rests that was refused.
const REFUSED: Duration = Duration::from_secs(5 * 60);
/// How long one rests whose quota is used up, where the provider does not say until when.
const USED_UP: Duration = Duration::from_secs(60 * 60);

/// The credentials of one provider, in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Pool {
    provider: String,
    /// The server that the credentials are sent to.
    origin: Option<String>,
    slots: Vec<Slot>,
    policy: KeyPolicy,
    vault: Vault,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    source: Source,
    rest: Mutex<Option<Rest>>,
}

/// A key that is left alone for a while.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    cause: ErrorKind,
}

/// Whether there is a credential, without a look at the network or at a helper command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    Missing,
    /// A stored login that nobody can refresh any more, and nothing else.
    Over,
}

/// What follows from a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// There is another credential to go on with: its name, which is no secret.
    Next(String),
    /// That was the last.
    Last,
}

impl Pool {
    pub fn new(provider: &str, sources: Vec<Source>, policy: KeyPolicy, vault: Vault) -> Self {
        let slots = sources.into_iter().map(|source| Slot { source, rest: Mutex::default() }).collect();
        Pool { provider: provider.to_owned(), slots, policy, vault, ..Pool::default() }
    }

    /// For the server of this origin: a key that was stored for another one is not sent there.
    pub fn at(self, origin: String) -> Self {
        Pool { origin: Some(origin), ..self }
    }

    /// The credential for the next request; `None`: there is none. Which it is is the policy's choice among those that do
    /// not rest; if all rest, it is the one whose rest ends first, so that the provider's own words are heard.
    ///
    /// # Errors
    /// Where a source that should have one fails, and no other has one.
    pub async fn credential(&self, connections: &Arc<Connections>) -> Result<Option<Credential>, Failure> {
        let mut failure = None;
        for slot in self.order() {
            match self.get(slot, connections, None).await {
                Ok(Some(credential)) => {
                    if self.policy == KeyPolicy::RoundRobin {
                        self.next.store(slot + 1, Ordering::Relaxed);
                    }
                    return Ok(Some(credential));
                }
                Ok(None) => {}
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Another secret from the place that this one came from, after the provider did not take it: a refreshed login, the
    /// command run again, a file that changed. `None`: it is the same.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub async fn renewed(
        &self,
        used: &Credential,
        connections: &Arc<Connections>,
    ) -> Result<Option<Credential>, Failure> {
        let new = self.get(used.slot, connections, Some(&used.secret)).await?;
        Ok(new.filter(|n| n.secret.expose() != used.secret.expose()))
    }

    /// Says that a request with this credential failed, before anything of the reply was seen.
    pub fn failed(&self, used: &Credential, failure: &Failure) -> Failed {
        let rest = match failure.kind {
            kind if !policy::of(kind).rotate => return Failed::Last,
            ErrorKind::Auth => REFUSED,
            _ => failure.retry_after.unwrap_or(USED_UP),
        };
        // At least a moment: two keys that may be tried again at once would be tried for ever.
        let rest = rest.clamp(Duration::from_secs(1), Duration::from_secs(31 * 86_400));
        let until = Instant::now() + rest;
        if let Some(slot) = self.slots.get(used.slot) {
            *slot.rest() = Some(Rest { until, cause: failure.kind });
        }
        let now = Instant::now();
        let free =
            |at: &usize| self.slots[*at].resting(now).is_none() && self.is_there(&self.slots[*at].source);
        match self.order().into_iter().find(free) {
            Some(at) => Failed::Next(self.name(at)),
            None => Failed::Last,
        }
    }

    /// Says that the provider took it.
    pub fn worked(&self, used: &Credential) {
        if let Some(slot) = self.slots.get(used.slot) {
            *slot.rest() = None;
        }
    }

    pub fn presence(&self) -> Presence {
        let over = |source: &Source| {
            matches!(source, Source::Stored) && matches!(self.stored(), Some(Stored::Login(_)))
        };
        match () {
            () if self.slots.iter().any(|s| self.is_there(&s.source)) => Presence::Present,
            () if self.slots.iter().any(|s| over(&s.source)) => Presence::Over,
            () => Presence::Missing,
        }
    }

    /// Whether the next credential can be had without asking anybody: no helper command is run and no login refreshed
    /// for work that nobody waits for.
    pub fn is_at_hand(&self) -> bool {
        let sources = self.order().into_iter().map(|at| &self.slots[at].source);
        match sources.into_iter().find(|source| self.is_there(source)) {
            Some(Source::Command(_)) => false,
            Some(Source::Stored) => {
                !matches!(self.stored(), Some(Stored::Login(login)) if !login::is_fit(&login, None))
            }
            _ => true,
        }
    }

    /// Whether the stored login is there but was not taken, even after it was refreshed.
    pub fn login_was_refused(&self) -> bool {
        let refused = |slot: &Slot| {
            slot.resting(Instant::now()).is_some_and(|rest| rest.cause == ErrorKind::Auth)
                && matches!(slot.source, Source::Stored)
        };
        self.slots.iter().any(refused)
    }

    /// Slots in the order in which they are tried: those that do not rest first.
    fn order(&self) -> Vec<usize> {
        let (count, now) = (self.slots.len(), Instant::now());
        let start = match self.policy {
            KeyPolicy::FillFirst => 0,
            KeyPolicy::RoundRobin => self.next.load(Ordering::Relaxed),
        };
        let mut order: Vec<usize> = (0..count).map(|n| (start + n) % count).collect();
        order.sort_by_key(|at| self.slots[*at].resting(now).map(|rest| rest.until));
        order
    }

    async fn get(
        &self,
        at: usize,
        connections: &Arc<Connections>,
        refused: Option<&Secret>,
    ) -> Result<Option<Credential>, Failure> {
        let Some(slot) = self.slots.get(at) else { return Ok(None) };
        let (secret, account) = match &slot.source {
            Source::Command(command) => (Some(command.key(refused).await?), None),
            Source::Stored => match &self.vault.store {
                None => (None, None),
                Some(store) => match login::current(store, &self.provider, connections, refused).await? {
                    None => (None, None),
                    Some(Stored::Key { key, origin }) => {
                        (Some(key).filter(|_| self.is_for(origin.as_deref())), None)
                    }
                    Some(Stored::Login(login)) => {
                        self.learn(at, &login.refresh);
                        (Some(login.access), login.account)
                    }
                },
            },
            Source::File(file) => (Some(key_in(file).map_err(|why| unread(file, &why))?), None),
            source => (source.read(), None),
        };
        let Some(secret) = secret.filter(|s| !s.expose().trim().is_empty()) else { return Ok(None) };
        self.learn(at, &secret);
        Ok(Some(Credential { secret, account, slot: at }))
    }

    fn learn(&self, at: usize, secret: &Secret) {
        let name = match &self.slots[at].source {
            Source::Env(name) => name.clone(),
            _ => format!("{}.key", self.provider),
        };
        self.vault.secrets.add([(name, secret.clone())]);
    }

    fn stored(&self) -> Option<Stored> {
        self.vault.store.as_ref()?.get(&self.provider).ok()?
    }

    fn is_there(&self, source: &Source) -> bool {
        match source {
            Source::Command(_) => true,
            Source::Stored => match self.stored() {
                Some(Stored::Key { origin, .. }) => self.is_for(origin.as_deref()),
                Some(Stored::Login(login)) => login.dead.is_none(),
                None => false,
            },
            source => source.read().is_some(),
        }
    }

    /// What a person calls it. Never the key.
    fn name(&self, at: usize) -> String {
        let mut name = match &self.slots[at].source {
            Source::Env(variable) => format!("the key in {variable}"),
            Source::Value(_) => "the key in config.toml".to_owned(),
            Source::File(file) => format!("the key in {}", file.display()),
            Source::Command(_) => "the key of api_key_command".to_owned(),
            Source::Stored => "the stored login".to_owned(),
        };
        let there: Vec<usize> =
            (0..self.slots.len()).filter(|n| self.is_there(&self.slots[*n].source)).collect();
        let place = there.iter().position(|n| *n == at).map_or(there.len(), |n| n + 1);
        let _ = write!(name, " ({place} of {})", there.len());
        name
    }

    /// Whether a key that was stored for this server may be sent to ours.
    fn is_for(&self, origin: Option<&str>) -> bool {
        origin.is_none_or(|origin| self.origin.as_deref() == Some(origin))
    }
}

impl Slot {
    fn rest(&self) -> MutexGuard<'_, Option<Rest>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn resting(&self, now: Instant) -> Option<Rest> {
        self.rest().filter(|rest| rest.until > now)
    }
}

/// The longest key file, in bytes.
const LONGEST_FILE: u64 = 64 * 1024;

/// The first line of a key file.
fn key_in(file: &std::path::Path) -> Result<Secret, String> {
    let bytes = crate::config::read_regular(file, LONGEST_FILE).map_err(|e| e.to_string())?;
    // The error of `String` holds the bytes; they must not get into a message.
    let text = Secret::new(String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?);
    match text.expose().lines().next().map(str::trim) {
        Some(key) if !key.is_empty() => Ok(Secret::new(key)),
        _ => Err("its first line is empty".into()),
    }
}

fn unread(file: &std::path::Path, why: &str) -> Failure {
    let detail = format!("no key could be read from the api_key_file {}: {why}", file.display());
    Failure::new(ErrorKind::Auth, detail)
}

impl Source {
    /// The key of a source that is read in place.
    fn read(&self) -> Option<Secret> {
        let found = match self {
            Source::Env(name) => std::env::var(name).ok().map(Secret::new),
            Source::Value(secret) => Some(secret.clone()),
            Source::File(path) => key_in(path).ok(),
            Source::Command(_) | Source::Stored => None,
        };
        found.filter(|key| !key.expose().trim().is_empty())
    }
}

impl From<Source> for Pool {
    fn from(source: Source) -> Self {
        Pool::new("test", vec![source], KeyPolicy::FillFirst, Vault::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(keys: &[&str], policy: KeyPolicy) -> Pool {
        let sources = keys.iter().map(|k| Source::Value(Secret::new(*k))).collect();
        Pool::new("x", sources, policy, Vault::default())
    }
    async fn take(pool: &Pool) -> Credential {
        pool.credential(&Arc::default()).await.unwrap().unwrap()
    }
    async fn key(pool: &Pool) -> String {
        take(pool).await.secret.expose().to_owned()
    }
    fn failure(kind: ErrorKind, after: Option<u64>) -> Failure {
        Failure { retry_after: after.map(Duration::from_secs), ..Failure::new(kind, "no") }
    }

    #[test]
    fn a_helper_command_is_not_at_hand_but_behind_a_key_it_does_not_matter() {
        let words = || vec!["false".to_owned()];
        let command =
            || Source::Command(std::sync::Arc::new(crate::model::auth::command::KeyCommand::new(words())));
        assert!(!Pool::from(command()).is_at_hand());
        let both = vec![Source::Value(Secret::new("key-aaaa")), command()];
        assert!(Pool::new("x", both, KeyPolicy::FillFirst, Vault::default()).is_at_hand());
        assert!(Pool::from(Source::Stored).is_at_hand());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_used_until_it_is_refused_and_again_when_its_rest_is_over() {
        use ErrorKind::*;
        for (kind, after, rest) in [
            (Auth, None, 300),
            (Auth, Some(2), 300),
            (Quota, None, 3600),
            (RateLimit, None, 3600),
            (RateLimit, Some(7), 7),
            (RateLimit, Some(0), 1),
            (Quota, Some(86_400), 86_400),
        ] {
            let pool = pool(&["key-aaaa", "key-bbbb"], KeyPolicy::FillFirst);
            let used = take(&pool).await;
            let next = Failed::Next("the key in config.toml (2 of 2)".into());
            assert_eq!(pool.failed(&used, &failure(kind, after)), next, "{kind:?}");
            assert_eq!(key(&pool).await, "key-bbbb");
            tokio::time::advance(Duration::from_secs(rest - 1)).await;
            assert_eq!(key(&pool).await, "key-bbbb", "{kind:?} {after:?}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(key(&pool).await, "key-aaaa", "{kind:?} {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_rest_the_one_that_rests_shortest_is_used_and_a_good_answer_ends_its_rest() {
        let pool = pool(&["key-aaaa", "key-bbbb"], KeyPolicy::FillFirst);
        let a = take(&pool).await;
        pool.failed(&a, &failure(ErrorKind::Quota, None));
        let b = take(&pool).await;
        assert_eq!(pool.failed(&b, &failure(ErrorKind::Auth, None)), Failed::Last);
        assert_eq!(key(&pool).await, "key-bbbb");
        pool.worked(&a);
        assert_eq!(key(&pool).await, "key-aaaa");
    }

    #[tokio::test]
    async fn what_is_no_fault_of_the_key_lets_nothing_rest() {
        use ErrorKind::*;
        for kind in
            [Overloaded, Network, Timeout, TooLong, BadRequest, ModelNotFound, Malformed, Tls, Refused]
        {
            let pool = pool(&["key-aaaa", "key-bbbb"], KeyPolicy::FillFirst);
            let used = take(&pool).await;
            assert_eq!(pool.failed(&used, &failure(kind, Some(9))), Failed::Last, "{kind:?}");
            assert_eq!(key(&pool).await, "key-aaaa", "{kind:?}");
        }
    }

    #[tokio::test]
    async fn in_turn_each_is_used_and_one_that_rests_is_passed_over() {
        let pool = pool(&["key-aaaa", "key-bbbb", "key-cccc"], KeyPolicy::RoundRobin);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(key(&pool).await);
        }
        assert_eq!(seen, ["key-aaaa", "key-bbbb", "key-cccc", "key-aaaa"]);
        let b = take(&pool).await;
        assert_eq!(
            pool.failed(&b, &failure(ErrorKind::Auth, None)),
            Failed::Next("the key in config.toml (3 of 3)".into())
        );
        assert_eq!(
            [key(&pool).await, key(&pool).await, key(&pool).await],
            ["key-cccc", "key-aaaa", "key-cccc"]
        );
    }

    #[tokio::test]
    async fn a_key_that_was_stored_for_one_server_is_sent_to_no_other() {
        let home = tempfile::tempdir().unwrap();
        let store = super::super::store::CredentialStore::new(&crate::config::DataDirs::under(home.path()));
        let origin = Some("https://api.x.example".to_owned());
        super::super::save(&store, "x", Stored::Key { key: Secret::new("key-aaaa"), origin }).await.unwrap();
        let vault = Vault { store: Some(store), ..Vault::default() };
        let pool = |origin: &str| {
            let pool = Pool::new("x", vec![Source::Stored], KeyPolicy::FillFirst, vault.clone());
            pool.at(origin.to_owned())
        };
        assert_eq!(key(&pool("https://api.x.example")).await, "key-aaaa");
        for other in ["http://api.x.example", "https://api.x.example:8443", "https://proxy.example"] {
            let pool = pool(other);
            assert_eq!(pool.presence(), Presence::Missing, "{other}");
            assert!(pool.credential(&Arc::default()).await.unwrap().is_none(), "{other}");
        }
    }

    #[tokio::test]
    async fn keys_come_from_the_first_place_that_has_one_and_are_learnt() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let vault = Vault::default();
        let sources = vec![Source::Env("HERMES_TEST_NOT_SET".into()), Source::File(file.clone())];
        let pool = Pool::new("x", sources, KeyPolicy::FillFirst, vault.clone());
        assert_eq!(pool.presence(), Presence::Missing);
        let error = pool.credential(&Arc::default()).await.unwrap_err().detail;
        assert!(error.contains("api_key_file") && error.contains("No such file"), "{error}");
        std::fs::write(&file, "\n").unwrap();
        assert!(
            pool.credential(&Arc::default()).await.unwrap_err().detail.ends_with("its first line is empty")
        );
        std::fs::write(&file, "from-file-1\nrest").unwrap();
        assert_eq!((pool.presence(), key(&pool).await.as_str()), (Presence::Present, "from-file-1"));
        assert_eq!(vault.secrets.text("from-file-1"), "[secret:x.key]");
        let used = take(&pool).await;
        assert!(pool.renewed(&used, &Arc::default()).await.unwrap().is_none());
        std::fs::write(&file, "from-file-2\n").unwrap();
        let renewed = pool.renewed(&used, &Arc::default()).await.unwrap().unwrap();
        assert_eq!(renewed.secret.expose(), "from-file-2");
    }
}
