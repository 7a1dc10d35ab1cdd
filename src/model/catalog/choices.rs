//! What was chosen last in an editor: the model and the effort that new sessions begin with where the configuration
//! names none. The mode is not remembered: what is allowed without a question is never taken over unseen.
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Last {
    /// `provider/model`.
    model: Option<String>,
    effort: Option<String>,
}

/// The choices in their file.
#[derive(Debug)]
pub struct Choices {
    file: PathBuf,
    last: Mutex<Last>,
}

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

impl Choices {
    /// Reads the file; one that is missing or damaged says nothing.
    pub fn in_file(file: PathBuf) -> Self {
        let last = crate::config::read_regular(&file, LARGEST)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Choices { file, last: Mutex::new(last.unwrap_or_default()) }
    }

    pub fn model(&self) -> Option<String> {
        self.last().model
    }

    pub fn effort(&self) -> Option<String> {
        self.last().effort
    }

    /// Takes a choice. It is a few bytes, written at once; if they cannot be, only this process remembers them.
    pub fn remember(&self, model: Option<&str>, effort: Option<&str>) {
        let new = Last { model: model.map(str::to_owned), effort: effort.map(str::to_owned) };
        if std::mem::replace(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner), new.clone())
            == new
        {
            return;
        }
        if let Err(e) = write(&self.file, &new) {
            tracing::warn!("the choice of a model was not kept for new sessions: {e}");
        }
    }

    fn last(&self) -> Last {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whole or not at all.
fn write(file: &Path, last: &Last) -> std::io::Result<()> {
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".choices.{}.tmp", std::process::id()));
    std::fs::write(&temporary, serde_json::to_vec(last)?).and_then(|()| std::fs::rename(&temporary, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_outlives_the_process() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data/choices.json");
        let choices = Choices::in_file(file.clone());
        assert_eq!((choices.model(), choices.effort()), (None, None));
        choices.remember(Some("p/m"), Some("high"));
        let next = Choices::in_file(file.clone());
        assert_eq!((next.model().as_deref(), next.effort().as_deref()), (Some("p/m"), Some("high")));
        next.remember(Some("p/m"), None);
        assert_eq!(Choices::in_file(file.clone()).effort(), None);
        std::fs::write(&file, "[]").unwrap();
        assert_eq!(Choices::in_file(file).model(), None);
    }
}
