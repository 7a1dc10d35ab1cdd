//! The credentials that `login` stored: one file of our own, readable by its owner alone.
//!
//! It is replaced as a whole (written beside, synced, renamed), and changed only under an advisory lock on a file beside it,
//! which also covers the refresh of a token: of all processes one at a time talks to the issuer. What is not understood, a
//! torn file or one of a newer version, is an error that says so, and is never overwritten.
use crate::{config::DataDirs, secret::Secret};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio_util::task::TaskTracker;

#[cfg_attr(unix, path = "store/unix.rs")]
#[cfg_attr(windows, path = "store/windows.rs")]
mod system;
use system::Stamp;

const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";
/// The format of the file.
const VERSION: u64 = 1;
/// A longer file is none of ours.
const LONGEST: u64 = 1 << 20;
/// How long another process may hold the lock: a refresh takes half of it at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is stored for one provider.
#[derive(Clone)]
pub enum Stored {
    /// A key, and the server that it was given for (`https://api.groq.com`): it is sent to no other.
    Key {
        key: Secret,
        origin: Option<String>,
    },
    Login(Login),
}

/// An OAuth login. Times are seconds since the Unix epoch.
#[derive(Clone)]
pub struct Login {
    pub access: Secret,
    pub refresh: Secret,
    /// Whose tokens these are, as the provider's header has it.
    pub account: Option<String>,
    /// For people.
    pub email: Option<String>,
    /// Where they are refreshed and revoked: the one that issued them.
    pub issuer: String,
    pub client_id: String,
    /// When the access token ends, as far as it says so.
    pub expires: Option<i64>,
    /// Taken over from another program, which uses the same refresh token.
    pub imported: bool,
    /// Why the issuer refuses to refresh it: there is no way on but to sign in again.
    pub dead: Option<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {why}; the file was left as it is: move it away and sign in again", file.display())]
    Unreadable { file: PathBuf, why: &'static str },
    #[error("{} was written by a newer version of hermes-editor; use that version, or move the file away", .0.display())]
    Newer(PathBuf),
    #[error("{}: {error}", file.display())]
    Io { file: PathBuf, error: Arc<io::Error> },
    #[error("another process has been signing in or refreshing a login for {} s; try again", PATIENCE.as_secs())]
    Busy,
}

/// The file; clones are the same.
#[derive(Clone)]
pub struct CredentialStore(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    read: Mutex<Option<(Stamp, Arc<Document>)>>,
    /// Exchanges of a token that must not be dropped half-way.
    tasks: TaskTracker,
}

/// The file as it was read. What we do not know in it is kept.
#[derive(Clone, Default)]
struct Document {
    raw: Map<String, Value>,
    credentials: BTreeMap<String, Stored>,
}

/// The right to change the file. Dropping it lets others in.
pub struct Locked {
    store: CredentialStore,
    /// Its lock ends with it, however the process ends.
    _lock: File,
}

impl CredentialStore {
    pub fn new(dirs: &DataDirs) -> Self {
        let (folder, read, tasks) = (dirs.data.clone(), Mutex::default(), TaskTracker::new());
        CredentialStore(Arc::new(Shared { folder, read, tasks }))
    }

    pub fn file(&self) -> PathBuf {
        self.0.folder.join(FILE)
    }

    /// What is stored for a provider, read anew where the file changed.
    ///
    /// # Errors
    /// Where there is a file that cannot be read or understood.
    pub fn get(&self, provider: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.read()?.credentials.get(provider).cloned())
    }

    /// Everything that is stored, by provider.
    ///
    /// # Errors
    /// As [`CredentialStore::get`].
    pub fn all(&self) -> Result<BTreeMap<String, Stored>, StoreError> {
        Ok(self.read()?.credentials.clone())
    }

    /// Whether others can read the file, which they should not.
    pub fn is_exposed(&self) -> bool {
        std::fs::metadata(self.file()).is_ok_and(|about| system::is_exposed(&about))
    }

    /// Waits for the lock. Dropping the future takes nothing.
    ///
    /// # Errors
    /// [`StoreError::Busy`] after a minute.
    pub async fn lock(&self) -> Result<Locked, StoreError> {
        let path = self.0.folder.join(LOCK);
        let failed = |error: io::Error| StoreError::Io { file: path.clone(), error: Arc::new(error) };
        let (mut folder, mut options) = (DirBuilder::new(), OpenOptions::new());
        folder.recursive(true);
        options.read(true).write(true).create(true).truncate(false);
        system::private(&mut folder, &mut options);
        folder.create(&self.0.folder).map_err(failed)?;
        let file = options.open(&path).map_err(failed)?;
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { store: self.clone(), _lock: file }),
                Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// Runs to its end even if nobody waits for it any more, as far as the process lives (see [`CredentialStore::settled`]).
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.0.tasks.spawn(work).await.ok()
    }

    /// When no exchange of a token is under way any more.
    pub async fn settled(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn read(&self) -> Result<Arc<Document>, StoreError> {
        let file = self.file();
        let failed = |error: io::Error| StoreError::Io { file: file.clone(), error: Arc::new(error) };
        // Looked at before it is opened: opening a pipe blocks.
        if std::fs::metadata(&file).is_ok_and(|about| !about.is_file()) {
            return Err(StoreError::Unreadable { file, why: "not a regular file" });
        }
        let open = match File::open(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            open => open.map_err(failed)?,
        };
        let about = open.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(StoreError::Unreadable { file, why: "not a regular file" });
        }
        let stamp = system::stamp(&about);
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, document)) = read.as_ref().filter(|(known, _)| *known == stamp) {
            return Ok(document.clone());
        }
        let mut text = Vec::new();
        open.take(LONGEST + 1).read_to_end(&mut text).map_err(failed)?;
        let document = Arc::new(Document::parse(&text, &file)?);
        *read = Some((stamp, document.clone()));
        Ok(document)
    }
}

impl Locked {
    /// As [`CredentialStore::get`]: what another process wrote before we had the lock.
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, provider: &str) -> Result<Option<Stored>, StoreError> {
        self.store.get(provider)
    }

    /// Stores it; on disk when this returns. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// Where the file that is there is not understood, or the new one cannot be written; then the old one stays.
    pub fn put(&self, provider: &str, stored: &Stored) -> Result<(), StoreError> {
        let mut document = (*self.store.read()?).clone();
        document.change(|entries| entries.insert(provider.to_owned(), written(stored)));
        self.replace(document)
    }

    /// Forgets it, and gives what it was.
    ///
    /// # Errors
    /// As [`Locked::put`].
    pub fn remove(&self, provider: &str) -> Result<Option<Stored>, StoreError> {
        let mut document = (*self.store.read()?).clone();
        if document.change(|entries| entries.remove(provider)).is_none() {
            return Ok(None);
        }
        let was = document.credentials.remove(provider);
        self.replace(document)?;
        Ok(was)
    }

    fn replace(&self, mut document: Document) -> Result<(), StoreError> {
        let file = self.store.file();
        document.raw.insert("version".into(), VERSION.into());
        let text = serde_json::to_string_pretty(&document.raw).unwrap_or_default();
        write_private(&file, text.as_bytes()).map_err(|e| StoreError::Io { file, error: Arc::new(e) })
    }
}

/// Replaces a file as a whole by one that only its owner can read.
fn write_private(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    // A temporary file has 0600 from its first moment on.
    let mut temp = tempfile::NamedTempFile::new_in(folder)?;
    temp.write_all(text)?;
    temp.as_file().sync_all()?;
    temp.persist(file).map_err(|e| e.error)?;
    system::sync(folder)
}

impl Document {
    fn parse(text: &[u8], file: &Path) -> Result<Self, StoreError> {
        let unreadable = |why| StoreError::Unreadable { file: file.to_owned(), why };
        // The error of the parser could quote what it read.
        let raw: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|_| unreadable("it is cut off or no file of ours (not a JSON object)"))?;
        match raw.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) if version > VERSION => return Err(StoreError::Newer(file.to_owned())),
            _ => return Err(unreadable("it is no file of ours (it has no known `version`)")),
        }
        let entries = raw.get("credentials").and_then(Value::as_object);
        let entries = entries.ok_or_else(|| unreadable("it has no table `credentials`"))?;
        // An entry of a kind we do not know is another version's: kept, and none for us.
        let credentials =
            entries.iter().filter_map(|(name, e)| Some((name.clone(), understood(e)?))).collect();
        Ok(Document { raw, credentials })
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
        let mut entries = match self.raw.remove("credentials") {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        };
        let out = change(&mut entries);
        self.raw.insert("credentials".into(), Value::Object(entries));
        out
    }
}

fn understood(entry: &Value) -> Option<Stored> {
    let text =
        |key: &str| entry.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
    Some(match entry.get("type")?.as_str()? {
        "api_key" => Stored::Key { key: Secret::new(text("key")?), origin: text("origin") },
        "oauth" => Stored::Login(Login {
            access: Secret::new(text("access_token")?),
            refresh: Secret::new(text("refresh_token")?),
            account: text("account"),
            email: text("email"),
            issuer: text("issuer")?,
            client_id: text("client_id")?,
            expires: entry.get("expires").and_then(Value::as_i64),
            imported: entry.get("imported").and_then(Value::as_bool).unwrap_or_default(),
            dead: text("dead"),
        }),
        _ => return None,
    })
}

/// The one place where secrets become text that is kept.
fn written(stored: &Stored) -> Value {
    match stored {
        Stored::Key { key, origin } => json!({"type": "api_key", "key": key.expose(), "origin": origin}),
        Stored::Login(login) => json!({
            "type": "oauth",
            "access_token": login.access.expose(),
            "refresh_token": login.refresh.expose(),
            "account": login.account,
            "email": login.email,
            "issuer": login.issuer,
            "client_id": login.client_id,
            "expires": login.expires,
            "imported": login.imported,
            "dead": login.dead,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn store(home: &Path) -> CredentialStore {
        CredentialStore::new(&DataDirs::under(home))
    }

    fn key(key: &str) -> Stored {
        Stored::Key { key: Secret::new(key), origin: None }
    }

    fn login() -> Login {
        Login {
            access: Secret::new("a-1"),
            refresh: Secret::new("r-1"),
            account: Some("acc".into()),
            email: None,
            issuer: "http://127.0.0.1:1".into(),
            client_id: "app".into(),
            expires: Some(7),
            imported: false,
            dead: None,
        }
    }

    #[tokio::test]
    async fn what_is_put_is_there_for_its_owner_alone_and_gone_when_removed() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (store(home.path()), store(home.path()));
        assert!(one.get("x").unwrap().is_none() && one.all().unwrap().is_empty());
        let lock = one.lock().await.unwrap();
        lock.put("x", &key("k-1")).unwrap();
        lock.put("codex", &Stored::Login(login())).unwrap();
        assert_eq!(std::fs::metadata(one.file()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!one.is_exposed());
        assert!(matches!(other.get("x").unwrap(), Some(Stored::Key { key, .. }) if key.expose() == "k-1"));
        let Some(Stored::Login(read)) = other.get("codex").unwrap() else { panic!("no login") };
        assert_eq!((read.refresh.expose(), read.expires, read.account), ("r-1", Some(7), Some("acc".into())));
        assert!(lock.remove("x").unwrap().is_some() && lock.remove("x").unwrap().is_none());
        assert!(other.get("x").unwrap().is_none());
        let left: Vec<_> = std::fs::read_dir(home.path().join("data")).unwrap().collect();
        assert_eq!(left.len(), 2, "the file and the lock: {left:?}");
    }

    #[tokio::test]
    async fn a_file_that_is_not_understood_is_never_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        std::fs::create_dir_all(home.path().join("data")).unwrap();
        for (text, told) in [
            ("", "cut off"),
            ("{\"version\":1,\"credentials\":{\"x\":{\"type\":\"api", "cut off"),
            ("[1]", "cut off or no file of ours"),
            ("{\"tokens\":{}}", "no known `version`"),
            ("{\"version\":1}", "no table"),
            ("{\"version\":2,\"credentials\":{}}", "newer version"),
        ] {
            std::fs::write(store.file(), text).unwrap();
            let read = store.get("x").map(|_| ()).unwrap_err().to_string();
            assert!(read.contains(told), "{text}: {read}");
            let lock = store.lock().await.unwrap();
            assert_eq!(lock.put("x", &key("k")).unwrap_err().to_string(), read);
            assert!(lock.remove("x").is_err());
            assert_eq!(std::fs::read_to_string(store.file()).unwrap(), text);
        }
    }

    #[tokio::test]
    async fn what_another_version_wrote_stays() {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        std::fs::create_dir_all(home.path().join("data")).unwrap();
        let text = r#"{"version":1,"note":"n","credentials":{"y":{"type":"passkey","blob":1}}}"#;
        std::fs::write(store.file(), text).unwrap();
        assert!(store.get("y").unwrap().is_none());
        store.lock().await.unwrap().put("x", &key("k")).unwrap();
        let value: Value = serde_json::from_str(&std::fs::read_to_string(store.file()).unwrap()).unwrap();
        assert_eq!((&value["note"], &value["credentials"]["y"]["blob"]), (&json!("n"), &json!(1)));
    }

    #[tokio::test]
    async fn the_lock_is_held_by_one_at_a_time() {
        use futures_util::FutureExt;
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (store(home.path()), store(home.path()));
        let lock = one.lock().await.unwrap();
        assert!(other.lock().now_or_never().is_none());
        drop(lock);
        assert!(other.lock().now_or_never().is_some());
    }
}
