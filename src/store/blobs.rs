//! Contents that are kept once: long strings of entries, and snapshots of files.
//!
//! In the JSON of an entry a long string is the marker `{"$blob":"<sha-256>"}`. An object that only looks like one
//! is told apart by its key: each key of `$`s followed by `blob` is stored with one `$` more.
use super::{Cx, StoreError};
use crate::{clock::Millis, id::SessionId};
use rusqlite::params;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{borrow::Cow, fmt};

/// Strings of an entry from this many bytes on are kept as blobs.
pub(super) const INLINE: usize = 1024;
/// The largest snapshot of one file, in bytes.
pub const SNAPSHOT_LIMIT: u64 = 16 << 20;
/// All snapshots of one session, in bytes.
pub const SNAPSHOTS_LIMIT: u64 = 256 << 20;
const MARKER: &str = "{\"$blob\":\"";

/// The SHA-256 of a content; printed in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// The id that these bytes have.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
    /// From 64 hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            let digit = |d: u8| char::from(d).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether the text of an entry could need [`fold`]: it may hold a long string or a key like the marker's.
pub(super) fn needs_fold(json: &str) -> bool {
    json.len() >= INLINE || json.contains("$blob\"")
}

/// Takes the long strings out of a value.
pub(super) fn fold(
    value: &mut Value,
    keep: &mut impl FnMut(&str) -> Result<BlobId, StoreError>,
) -> Result<(), StoreError> {
    match value {
        Value::String(text) if text.len() >= INLINE => {
            let id = keep(text)?;
            *value =
                Value::Object([("$blob".to_owned(), Value::String(id.to_string()))].into_iter().collect());
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| fold(item, keep))?,
        Value::Object(fields) => {
            if fields.keys().any(|k| looks_like_marker(k)) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(k, v)| (if looks_like_marker(&k) { format!("${k}") } else { k }, v))
                    .collect();
            }
            fields.values_mut().try_for_each(|field| fold(field, keep))?;
        }
        _ => {}
    }
    Ok(())
}

fn looks_like_marker(key: &str) -> bool {
    key.strip_suffix("blob").is_some_and(|dollars| !dollars.is_empty() && dollars.bytes().all(|b| b == b'$'))
}

/// Puts the long strings back into the text of an entry; `None` where one of them is missing. `find` adds one, as JSON.
///
/// Works on the compact text that [`fold`] led to. A raw quotation mark after `{` or `,` opens a string there and
/// nowhere else, since inside a string it would be escaped: so no text of a person is taken for a marker.
pub(super) fn unfold<E>(
    json: &str,
    mut find: impl FnMut(BlobId, &mut String) -> Result<bool, E>,
) -> Result<Option<Cow<'_, str>>, E> {
    if !json.contains("$blob\":") {
        return Ok(Some(json.into()));
    }
    let mut out = String::with_capacity(json.len() * 2);
    let mut rest = json;
    while let Some(at) = rest.find("\"$") {
        let marker = at.checked_sub(1).and_then(|start| {
            let hex = rest[start..].strip_prefix(MARKER)?.get(..64)?;
            rest[start + MARKER.len() + 64..].starts_with("\"}").then_some((start, BlobId::parse(hex)?))
        });
        if let Some((start, id)) = marker {
            out.push_str(&rest[..start]);
            if !find(id, &mut out)? {
                return Ok(None);
            }
            rest = &rest[start + MARKER.len() + 64 + 2..];
            continue;
        }
        let opens = at > 0 && matches!(rest.as_bytes()[at - 1], b'{' | b',');
        let dollars = rest[at + 1..].bytes().take_while(|b| *b == b'$').count();
        let escaped = opens && dollars > 1 && rest[at + 1 + dollars..].starts_with("blob\":");
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1 + usize::from(escaped)..];
    }
    out.push_str(rest);
    Ok(Some(out.into()))
}

impl Cx<'_> {
    /// Keeps a content once, and that the session uses it.
    pub(super) fn keep(&self, key: i64, snapshot: bool, bytes: &[u8]) -> Result<BlobId, StoreError> {
        let id = BlobId::of(bytes);
        let found = self.one("SELECT id FROM blob WHERE hash = ?1", [&id.0[..]], |r| r.get::<_, i64>(0))?;
        let row = match found {
            Some(row) => row,
            None => {
                self.run(
                    "INSERT INTO blob (hash, size, data) VALUES (?1, ?2, ?3)",
                    params![&id.0[..], bytes.len() as i64, bytes],
                )?;
                self.conn.last_insert_rowid()
            }
        };
        self.run(
            "INSERT INTO blob_use (session, snapshot, blob, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET at = excluded.at WHERE snapshot = 1",
            params![key, snapshot, row, Millis::now().0],
        )?;
        Ok(id)
    }

    /// The bytes, if they are there and are still those of the id.
    pub(super) fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        let data =
            self.one("SELECT data FROM blob WHERE hash = ?1", [&id.0[..]], |r| r.get::<_, Vec<u8>>(0))?;
        Ok(data.filter(|bytes| BlobId::of(bytes) == id))
    }

    pub(super) fn put_snapshot(&self, session: &SessionId, bytes: &[u8]) -> Result<BlobId, StoreError> {
        let size = bytes.len() as u64;
        if size > SNAPSHOT_LIMIT {
            return Err(StoreError::TooLarge { size, limit: SNAPSHOT_LIMIT });
        }
        let key = self.key(session)?;
        let id = self.keep(key, true, bytes)?;
        self.drop_old_snapshots(key, SNAPSHOTS_LIMIT)?;
        Ok(id)
    }

    pub(super) fn put_snapshots(&self, session: &SessionId, contents: &[Vec<u8>]) -> Result<(), StoreError> {
        let key = self.key(session)?;
        for bytes in contents.iter().filter(|b| b.len() as u64 <= SNAPSHOT_LIMIT) {
            self.keep(key, true, bytes)?;
        }
        self.drop_old_snapshots(key, SNAPSHOTS_LIMIT)
    }

    pub(super) fn drop_old_snapshots(&self, key: i64, limit: u64) -> Result<(), StoreError> {
        let all = self.all(
            "SELECT u.blob, b.size FROM blob_use u JOIN blob b ON b.id = u.blob
             WHERE u.session = ?1 AND u.snapshot = 1 ORDER BY u.at DESC, u.blob DESC",
            [key],
            |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)),
        )?;
        let mut sum = 0u64;
        for (blob, size) in all {
            sum = sum.saturating_add(u64::try_from(size).unwrap_or_default());
            if sum > limit {
                self.run(
                    "DELETE FROM blob_use WHERE session = ?1 AND snapshot = 1 AND blob = ?2",
                    [key, blob],
                )?;
                self.run(
                    "DELETE FROM blob WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob = ?1)",
                    [blob],
                )?;
            }
        }
        Ok(())
    }
}
