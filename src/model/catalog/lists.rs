//! The lists of models that providers gave: in memory, and in a file so that the next process need not ask.
//!
//! Servers on this machine are not kept in the file: what they have loaded changes with every start.
use super::row::ModelRow;
use crate::clock::Millis;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a list is taken as it is.
const FAR: Duration = Duration::from_secs(24 * 3600);
const NEAR: Duration = Duration::from_secs(600);
/// How long after a failure, or after an answer without the window that is in force, a provider is left alone.
const AGAIN: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(5);
/// A larger file is none of ours.
const LARGEST: u64 = 8 << 20;

/// What one provider said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listed {
    /// The address that was asked: another one has another list.
    pub base: String,
    pub at: Millis,
    pub models: Vec<ModelRow>,
    /// The server is on this machine or near it.
    #[serde(skip)]
    pub near: bool,
    /// It cuts what does not fit, without a word (Ollama).
    #[serde(skip)]
    pub cuts: bool,
    /// When this process asked last.
    #[serde(skip)]
    pub(super) tried: Option<Instant>,
    #[serde(skip)]
    pub(super) failed: bool,
}

/// The lists of all providers. Shared by the registries that one process makes.
#[derive(Debug, Default)]
pub struct Lists {
    file: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file was read.
    read: bool,
    by: BTreeMap<String, Listed>,
}

impl Lists {
    /// Kept in this file too.
    pub fn in_file(file: PathBuf) -> Self {
        Lists { file: Some(file), state: Mutex::default() }
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<String, Listed>) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut state.read, true)
            && let Some(file) = &self.file
        {
            state.by = read(file);
        }
        f(&mut state.by)
    }

    /// What a provider at this address said.
    pub fn of(&self, provider: &str, base: &str) -> Option<Listed> {
        self.with(|by| by.get(provider).filter(|l| l.base == base && !l.models.is_empty()).cloned())
    }

    /// What it said of one model.
    pub fn model(&self, provider: &str, base: &str, id: &str) -> Option<ModelRow> {
        self.with(|by| {
            by.get(provider).filter(|l| l.base == base)?.models.iter().find(|m| m.id == id).cloned()
        })
    }

    /// Whether it need not be asked now. `unsure`: the window of the model at hand is not known.
    pub fn is_fresh(&self, provider: &str, base: &str, unsure: bool) -> bool {
        self.with(|by| {
            let Some(listed) = by.get(provider).filter(|l| l.base == base) else { return false };
            let tried = |wait: Duration| listed.tried.is_some_and(|t| t.elapsed() < wait);
            if listed.failed {
                return tried(if listed.near && unsure { SOON } else { AGAIN });
            }
            match (listed.near, unsure) {
                (true, true) => tried(SOON),
                (true, false) => tried(NEAR),
                (false, _) => {
                    let age = Millis::now().0.saturating_sub(listed.at.0);
                    (0..FAR.as_millis() as i64).contains(&age) || tried(FAR)
                }
            }
        })
    }

    /// Keeps what a provider said; `None`: it did not answer, and what it said before stays. Whether that is news.
    pub fn put(&self, provider: &str, base: &str, near: bool, said: Option<Listed>) -> bool {
        self.with(|by| {
            let known = by.entry(provider.to_owned()).or_default();
            if known.base != base {
                *known = Listed { base: base.to_owned(), ..Listed::default() };
            }
            let Some(said) = said else {
                (known.near, known.tried, known.failed) = (near, Some(Instant::now()), true);
                return false;
            };
            let news = known.models != said.models || known.cuts != said.cuts;
            *known = Listed {
                base: base.to_owned(),
                at: Millis::now(),
                near,
                tried: Some(Instant::now()),
                failed: false,
                ..said
            };
            news
        })
    }

    /// Writes the file. Blocks for a moment; what cannot be written is asked for again the next time.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let kept: BTreeMap<String, Listed> = self.with(|by| {
            let far = by.iter().filter(|(_, l)| !l.near && !l.models.is_empty());
            far.map(|(name, l)| (name.clone(), l.clone())).collect()
        });
        if let Err(e) = write(file, &kept) {
            tracing::debug!("the lists of models were not kept: {e}");
        }
    }
}

/// A file that is not ours, damaged or of another form is as good as none.
fn read(file: &Path) -> BTreeMap<String, Listed> {
    let read = crate::config::read_regular(file, LARGEST);
    read.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Whole or not at all.
fn write(file: &Path, kept: &BTreeMap<String, Listed>) -> std::io::Result<()> {
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".models.{}.tmp", std::process::id()));
    let done = std::fs::File::create(&temporary)
        .and_then(|mut f| f.write_all(serde_json::to_string(kept)?.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, file));
    if done.is_err() {
        _ = std::fs::remove_file(&temporary);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: &str) -> Option<Listed> {
        Some(Listed { models: vec![ModelRow::named(id)], ..Listed::default() })
    }

    #[test]
    fn lists_outlive_the_process_but_not_their_address() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("cache/models.json");
        let lists = Lists::in_file(file.clone());
        assert!(!lists.is_fresh("far", "https://far/", false));
        assert!(lists.put("far", "https://far/", false, said("a")));
        assert!(!lists.put("far", "https://far/", false, said("a")));
        assert!(lists.put("near", "http://127.0.0.1/", true, said("b")));
        lists.save();
        let next = Lists::in_file(file.clone());
        assert_eq!(next.of("far", "https://far/").unwrap().models, [ModelRow::named("a")]);
        assert!(next.is_fresh("far", "https://far/", false));
        assert!(next.of("far", "https://other/").is_none() && !next.is_fresh("far", "https://other/", false));
        assert!(next.of("near", "http://127.0.0.1/").is_none());
        std::fs::write(&file, "{broken").unwrap();
        assert!(Lists::in_file(file).of("far", "https://far/").is_none());
    }

    #[test]
    fn a_failure_costs_nothing_that_was_known() {
        let lists = Lists::default();
        lists.put("p", "b", true, said("a"));
        assert!(!lists.put("p", "b", true, None));
        assert_eq!(lists.of("p", "b").unwrap().models.len(), 1);
        assert!(lists.is_fresh("p", "b", true));
        // Nobody there at all: not asked again at once either.
        assert!(!lists.put("q", "b", false, None) && lists.is_fresh("q", "b", false));
    }
}
