//! Heads: what is known of a session beside its entries.
use super::{Cx, StoreError, canonical, to_json};
use crate::{clock::Millis, id::SessionId, log::Settings};
use rusqlite::{Row, params, types::Value as Sql};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is known of a session beside its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHead {
    pub id: SessionId,
    /// Absolute, as the editor named it.
    pub cwd: PathBuf,
    /// Further folders, absolute.
    pub roots: Vec<PathBuf>,
    pub title: Option<String>,
    pub settings: Settings,
    pub origin: Origin,
    pub parent: Option<Parent>,
    /// What the agent keeps beside; a JSON object, not read by the store.
    pub meta: Value,
    pub created: Millis,
    /// The last prompt, end of a turn or [`super::Store::touch`].
    pub updated: Millis,
}

impl SessionHead {
    /// A new session of an editor, now, in this folder.
    pub fn new(id: SessionId, cwd: PathBuf) -> Self {
        let now = Millis::now();
        Self {
            id,
            cwd,
            roots: Vec::new(),
            title: None,
            settings: Settings::default(),
            origin: Origin::Editor,
            parent: None,
            meta: Value::Object(Default::default()),
            created: now,
            updated: now,
        }
    }
}

/// Who made a session; an editor's list shows [`Origin::Editor`] alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    #[default]
    Editor,
    /// `exec` and `demo`.
    Exec,
    /// A turn of another session.
    Child,
}

impl Origin {
    fn as_str(self) -> &'static str {
        match self {
            Self::Editor => "editor",
            Self::Exec => "exec",
            Self::Child => "child",
        }
    }
    fn parse(text: &str) -> Self {
        match text {
            "exec" => Self::Exec,
            "child" => Self::Child,
            _ => Self::Editor,
        }
    }
}

/// The session that another was forked from or started by, and the entry before which it left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub session: SessionId,
    pub seq: u64,
}

/// Which sessions a list shows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of this folder, compared with symbolic links followed; `None`: of all.
    pub cwd: Option<PathBuf>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// At most this many; 0: 50. Never more than 500.
    pub limit: usize,
    /// Also those without a single entry.
    pub empty: bool,
    /// Also those that no editor made.
    pub all_origins: bool,
}

/// A piece of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub heads: Vec<SessionHead>,
    /// The cursor of the next piece; `None`: this is the last.
    pub next: Option<String>,
    /// The database is damaged, and this is what is left of it: sessions may be missing.
    pub salvaged: bool,
}

const COLUMNS: &str = "key, id, cwd, roots, title, settings, origin, parent, meta, created, updated";

/// A head with its key. JSON that cannot be read becomes the default: a session is never lost for its settings.
fn head(row: &Row<'_>) -> rusqlite::Result<(i64, SessionHead)> {
    fn json<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
        serde_json::from_str(text).ok()
    }
    let text = |i| row.get_ref(i).and_then(|v| v.as_str().map_err(Into::into));
    let parent: Option<String> = row.get(7)?;
    let head = SessionHead {
        id: text(1)?.into(),
        cwd: text(2)?.into(),
        roots: json(text(3)?).unwrap_or_default(),
        title: row.get(4)?,
        settings: json(text(5)?).unwrap_or_default(),
        origin: Origin::parse(text(6)?),
        parent: parent.and_then(|p| json(&p)),
        meta: json(text(8)?).unwrap_or_default(),
        created: Millis(row.get(9)?),
        updated: Millis(row.get(10)?),
    };
    Ok((row.get(0)?, head))
}

impl Cx<'_> {
    /// The key of a session in the other tables.
    pub(super) fn key(&self, id: &SessionId) -> Result<i64, StoreError> {
        self.one("SELECT key FROM session WHERE id = ?1", [id.as_str()], |r| r.get(0))?
            .ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    pub(super) fn create(&self, head: &SessionHead) -> Result<(), StoreError> {
        let added = self.run(
            "INSERT INTO session (id, cwd, canonical, roots, title, settings, origin, parent, meta, created, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (id) DO NOTHING",
            params![
                head.id.as_str(),
                head.cwd.to_string_lossy(),
                canonical(&head.cwd),
                to_json(&head.roots)?,
                head.title,
                to_json(&head.settings)?,
                head.origin.as_str(),
                head.parent.as_ref().map(to_json).transpose()?,
                to_json(&head.meta)?,
                head.created.0,
                head.updated.0,
            ],
        )?;
        if added == 1 { Ok(()) } else { Err(StoreError::Exists(head.id.clone())) }
    }

    pub(super) fn fork(
        &self,
        from: &SessionId,
        upto: Option<u64>,
        head: &SessionHead,
    ) -> Result<(), StoreError> {
        let parent = self.key(from)?;
        self.create(head)?;
        let child = self.key(&head.id)?;
        let upto = upto.and_then(|u| i64::try_from(u).ok()).unwrap_or(i64::MAX);
        self.run(
            "INSERT INTO entry (session, seq, at, sum, json)
             SELECT ?2, seq, at, sum, json FROM entry WHERE session = ?1 AND seq < ?3 ORDER BY seq",
            [parent, child, upto],
        )?;
        // Perhaps more than the prefix needs: they are the parent's anyway, and go with the last of both.
        self.run(
            "INSERT INTO blob_use (session, snapshot, blob, at)
             SELECT ?2, snapshot, blob, at FROM blob_use WHERE session = ?1",
            [parent, child],
        )?;
        Ok(())
    }

    pub(super) fn head(&self, id: &SessionId) -> Result<Option<SessionHead>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM session WHERE id = ?1");
        Ok(self.one(&sql, [id.as_str()], head)?.map(|(_, head)| head))
    }

    pub(super) fn heads(&self, filter: &Filter) -> Result<Page, StoreError> {
        let limit = if filter.limit == 0 { 50 } else { filter.limit.min(500) };
        let mut sql = format!("SELECT {COLUMNS} FROM session WHERE true");
        let mut params: Vec<Sql> = Vec::new();
        if let Some(cwd) = &filter.cwd {
            sql += " AND canonical = ?";
            params.push(canonical(cwd).into());
        }
        if let Some(cursor) = &filter.cursor {
            let (updated, key) = parse_cursor(cursor).ok_or(StoreError::Cursor)?;
            sql += " AND (updated, key) < (?, ?)";
            params.extend([updated.into(), key.into()]);
        }
        if !filter.all_origins {
            sql += " AND origin = 'editor'";
        }
        // Of a damaged file a session is also listed whose entries are lost: loading it tells how many.
        if !filter.empty && !self.salvaged {
            sql += " AND EXISTS (SELECT 1 FROM entry WHERE entry.session = session.key)";
        }
        // One more than asked tells whether there is a next page.
        sql += &format!(" ORDER BY updated DESC, key DESC LIMIT {}", limit + 1);
        let mut rows = self.all(&sql, rusqlite::params_from_iter(params), head)?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|(key, head)| cursor(head.updated.0, *key));
        let heads = rows.into_iter().map(|(_, head)| head).collect();
        Ok(Page { heads, next, salvaged: self.salvaged })
    }

    fn set(&self, id: &SessionId, sql: &str, value: impl rusqlite::ToSql) -> Result<(), StoreError> {
        match self.run(sql, params![id.as_str(), value])? {
            0 => Err(StoreError::NotFound(id.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        self.set(id, "UPDATE session SET title = ?2 WHERE id = ?1", title)
    }

    pub(super) fn set_settings(&self, id: &SessionId, settings: &Settings) -> Result<(), StoreError> {
        self.set(id, "UPDATE session SET settings = ?2 WHERE id = ?1", to_json(settings)?)
    }

    pub(super) fn set_meta(&self, id: &SessionId, meta: &Value) -> Result<(), StoreError> {
        self.set(id, "UPDATE session SET meta = ?2 WHERE id = ?1", to_json(meta)?)
    }

    pub(super) fn set_folders(
        &self,
        id: &SessionId,
        cwd: &Path,
        roots: &[PathBuf],
    ) -> Result<(), StoreError> {
        let changed = self.run(
            "UPDATE session SET cwd = ?2, canonical = ?3, roots = ?4 WHERE id = ?1",
            params![id.as_str(), cwd.to_string_lossy(), canonical(cwd), to_json(&roots)?],
        )?;
        if changed == 0 { Err(StoreError::NotFound(id.clone())) } else { Ok(()) }
    }

    /// Never backwards: clocks are set back.
    pub(super) fn touch(&self, id: &SessionId, at: Millis) -> Result<(), StoreError> {
        self.set(id, "UPDATE session SET updated = max(updated, ?2) WHERE id = ?1", at.0)
    }

    pub(super) fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        let key = match self.key(id) {
            Ok(key) => key,
            Err(StoreError::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.run("DELETE FROM search WHERE rowid IN (SELECT id FROM entry WHERE session = ?1)", [key])?;
        self.run("DELETE FROM entry WHERE session = ?1", [key])?;
        // Ids of removed rows at the end are used again: they must be indexed again.
        self.run("UPDATE search_state SET upto = min(upto, (SELECT coalesce(max(id), 0) FROM entry))", [])?;
        self.run("DELETE FROM draft WHERE session = ?1", [key])?;
        self.run(
            "DELETE FROM blob WHERE id IN (SELECT blob FROM blob_use WHERE session = ?1)
             AND NOT EXISTS (SELECT 1 FROM blob_use u WHERE u.blob = blob.id AND u.session <> ?1)",
            [key],
        )?;
        self.run("DELETE FROM blob_use WHERE session = ?1", [key])?;
        self.run("DELETE FROM session WHERE key = ?1", [key])?;
        Ok(true)
    }
}

/// Where a page ended. The form is ours alone and may change.
fn cursor(updated: i64, key: i64) -> String {
    format!("{updated:x}.{key:x}")
}

fn parse_cursor(text: &str) -> Option<(i64, i64)> {
    let (updated, key) = text.split_once('.')?;
    Some((i64::from_str_radix(updated, 16).ok()?, i64::from_str_radix(key, 16).ok()?))
}
