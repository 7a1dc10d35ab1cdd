//! What a person allowed for ever in a project.
use super::{Cx, StoreError, canonical, to_json};
use crate::{clock::Millis, permit::Grant};
use rusqlite::params;
use std::path::{Path, PathBuf};

impl Cx<'_> {
    /// A grant that this version cannot read grants nothing.
    pub(super) fn grants(&self, folder: &Path) -> Result<Vec<Grant>, StoreError> {
        let rows = self.all(
            "SELECT json FROM grant_ WHERE folder = ?1 ORDER BY at, json",
            [canonical(folder)],
            |r| r.get::<_, String>(0),
        )?;
        Ok(rows.iter().filter_map(|json| serde_json::from_str(json).ok()).collect())
    }

    pub(super) fn all_grants(&self) -> Result<Vec<(PathBuf, Vec<Grant>)>, StoreError> {
        let rows = self.all("SELECT folder, json FROM grant_ ORDER BY folder, at, json", [], |r| {
            Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?))
        })?;
        let mut all: Vec<(PathBuf, Vec<Grant>)> = Vec::new();
        for (folder, json) in rows {
            let Ok(grant) = serde_json::from_str(&json) else { continue };
            let folder = PathBuf::from(folder);
            match all.last_mut() {
                Some((last, grants)) if *last == folder => grants.push(grant),
                _ => all.push((folder, vec![grant])),
            }
        }
        Ok(all)
    }

    pub(super) fn add_grant(&self, folder: &Path, grant: &Grant) -> Result<(), StoreError> {
        self.run(
            "INSERT INTO grant_ (folder, json, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            params![canonical(folder), to_json(grant)?, Millis::now().0],
        )
        .map(drop)
    }

    pub(super) fn revoke(&self, folder: &Path, grant: Option<&Grant>) -> Result<usize, StoreError> {
        let folder = canonical(folder);
        match grant {
            Some(grant) => self
                .run("DELETE FROM grant_ WHERE folder = ?1 AND json = ?2", params![folder, to_json(grant)?]),
            None => self.run("DELETE FROM grant_ WHERE folder = ?1", [folder]),
        }
    }
}
