//! What a person allowed beyond once.
use super::shell::{Assessment, covered_by};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How long a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
    /// Persisted for the folder.
    Project,
}

/// What a remembered permission covers. Never wider than what its option said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Grant {
    /// Edits of files in the roots (not protected ones).
    Edits,
    /// Commands each of whose parts starts with one of the remembered prefixes; this is one.
    Command {
        prefix: Vec<String>,
    },
    /// Reading in this folder outside the roots.
    Read {
        folder: PathBuf,
    },
    Host {
        name: String,
    },
}

/// The grants in force, of the session and the project together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Self {
        let mut all = Self::default();
        grants.into_iter().for_each(|g| all.add(g));
        all
    }
    pub fn add(&mut self, grant: Grant) {
        if !self.0.contains(&grant) {
            self.0.push(grant);
        }
    }
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }
    pub fn edits(&self) -> bool {
        self.0.contains(&Grant::Edits)
    }
    /// Whether every part of a command that needs permission is covered.
    pub fn covers_command(&self, command: &Assessment) -> bool {
        let prefixes = self.0.iter().filter_map(|g| match g {
            Grant::Command { prefix } => Some(prefix.as_slice()),
            _ => None,
        });
        covered_by(&prefixes.collect::<Vec<_>>(), command)
    }
    pub fn covers_read(&self, path: &std::path::Path) -> bool {
        self.0.iter().any(|g| matches!(g, Grant::Read { folder } if path.starts_with(folder)))
    }
    pub fn covers_host(&self, host: &str) -> bool {
        self.0.iter().any(|g| matches!(g, Grant::Host { name } if name == host))
    }
}
