//! Entries: appended, never changed; and the draft of the reply that is being streamed.
use super::{BlobId, Cx, SessionHead, StoreError, blobs, checksum, to_json};
use crate::{
    clock::Millis,
    id::{MessageId, SessionId},
    log::{Block, Card, Entry, Part, Shown, Stored},
};
use rusqlite::params;
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A session as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub head: SessionHead,
    /// In the order of their numbers; those in `damaged` are missing.
    pub entries: Vec<Stored>,
    /// A reply that was being streamed when its process ended.
    pub draft: Option<Draft>,
    /// What could not be read; empty for an intact session.
    pub damaged: Vec<Gap>,
    /// The database is damaged, and this was read from what is left of it: entries at the end may be missing.
    pub salvaged: bool,
    /// The number of the next entry.
    pub next: u64,
}

/// The reply that is being streamed, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub message: MessageId,
    pub text: String,
    pub thinking: String,
    pub at: Millis,
}

/// An entry that could not be read. It stays in the database as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub seq: u64,
    pub kind: GapKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// There is no row of that number.
    Missing,
    /// The row, or a long text of it, is not what was written.
    Damaged,
    /// A newer version wrote an entry of this type.
    Unknown(String),
}

/// A row as it is stored.
pub(super) struct Raw {
    pub seq: i64,
    pub at: i64,
    pub sum: i64,
    pub json: String,
}

/// Whether these entries are written in a moment, by the length of what can be long in them.
pub(super) fn are_brief(entries: &[Stored]) -> bool {
    const MOMENT: usize = 16 << 10;
    let card = |card: &Card| -> usize {
        let shown = card.shown.iter().map(|shown| match shown {
            Shown::Text { text } => text.len(),
            Shown::Diff { old, new, .. } => old.as_ref().map_or(0, |old| old.len()) + new.len(),
            Shown::Terminal { output, .. } => output.len(),
            Shown::Image(image) => image.data.len(),
        });
        shown.sum()
    };
    let block = |block: &Block| match block {
        Block::Text { text } => text.len(),
        // What is native may hold anything, and is as long as the thought at least.
        Block::Thinking { text, native, .. } => text.len() + usize::from(native.is_some()) * 4096,
        Block::Call(call) => call.args.len(),
    };
    let part = |part: &Part| match part {
        Part::Text { text } | Part::Embedded { text, .. } => text.len(),
        Part::Image(image) => image.data.len(),
        Part::Link { .. } => 0,
    };
    let size = |stored: &Stored| match &stored.entry {
        // System prompt and tools, once for many turns.
        Entry::Frame { .. } => MOMENT,
        Entry::User { parts, volatile, .. } => {
            parts.iter().map(part).sum::<usize>() + volatile.as_ref().map_or(0, String::len)
        }
        Entry::Assistant { blocks, .. } => blocks.iter().map(block).sum(),
        Entry::Result { text, images, card: shown, .. } => {
            text.len() + images.iter().map(|i| i.data.len()).sum::<usize>() + card(shown)
        }
        Entry::Began { card: shown, .. } => shown.as_ref().map_or(0, |c| card(c)),
        Entry::Action { card: shown, .. } => card(shown),
        Entry::Touched { files, .. } => files.len() * 300,
        Entry::Plan { items } => items.len() * 100,
        Entry::Prune { calls } => calls.len() * 40,
        Entry::Steer { text, .. } | Entry::Said { text, .. } | Entry::Summary { text, .. } => text.len(),
        _ => 0,
    };
    entries.iter().map(size).sum::<usize>() < MOMENT
}

/// Long texts, as JSON, that were read a moment ago: the new text of an edit is the old one of the next.
#[derive(Default)]
pub(super) struct Recent {
    texts: HashMap<BlobId, String>,
    bytes: usize,
}

impl Recent {
    /// Bytes that are kept at most.
    const LIMIT: usize = 512 << 10;

    fn note(&mut self, id: BlobId, text: String) {
        if self.bytes + text.len() > Self::LIMIT {
            self.texts.clear();
            self.bytes = 0;
        }
        if text.len() < Self::LIMIT {
            self.bytes += text.len();
            self.texts.insert(id, text);
        }
    }
}

/// The texts of diffs, each once: a file that is edited again and again is the new text of one and the old of the next.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn share(&mut self, entry: &mut Entry) {
        let card = match entry {
            Entry::Result { card, .. } | Entry::Action { card, .. } => card,
            Entry::Began { card: Some(card), .. } => &mut **card,
            _ => return,
        };
        for shown in &mut card.shown {
            if let Shown::Diff { old, new, .. } = shown {
                old.iter_mut().chain([new]).for_each(|text| self.one(text));
            }
        }
    }

    fn one(&mut self, text: &mut Arc<str>) {
        match self.0.get(text) {
            Some(known) => *text = known.clone(),
            None => _ = self.0.insert(text.clone()),
        }
    }
}

impl Raw {
    /// From the columns seq, at, sum, json, the first of them at `first`.
    pub(super) fn of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(first)?,
            at: row.get(first + 1)?,
            sum: row.get(first + 2)?,
            json: text(row.get_ref(first + 3)?),
        })
    }
}

const ROWS: &str = "SELECT seq, at, sum, json FROM entry WHERE session = ?1 ORDER BY seq";

impl Cx<'_> {
    /// The key of a session, and the number that its next entry has.
    fn end(&self, id: &SessionId) -> Result<(i64, i64), StoreError> {
        let sql = "SELECT key, (SELECT max(seq) FROM entry WHERE session = key) FROM session WHERE id = ?1";
        let end = self.one(sql, [id.as_str()], |r| Ok((r.get(0)?, r.get::<_, Option<i64>>(1)?)))?;
        let (key, last) = end.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        Ok((key, last.map_or(0, |last| last + 1)))
    }

    pub(super) fn append(&self, id: &SessionId, entries: &[Stored]) -> Result<(), StoreError> {
        let (key, first) = self.end(id)?;
        let mut touched = None;
        for (expected, stored) in (first..).zip(entries) {
            if i64::try_from(stored.seq) != Ok(expected) {
                let expected = u64::try_from(expected).unwrap_or_default();
                return Err(StoreError::Sequence { session: id.clone(), expected, got: stored.seq });
            }
            let json = self.encode(key, &stored.entry)?;
            self.run(
                "INSERT INTO entry (session, seq, at, sum, json) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![key, expected, stored.at.0, checksum(expected, stored.at.0, &json), json],
            )?;
            match stored.entry {
                Entry::Assistant { .. } => self.drop_draft(key)?,
                Entry::User { .. } | Entry::Ended { .. } => touched = Some(stored.at),
                _ => {}
            }
        }
        match touched {
            Some(at) => self.touch(id, at),
            None => Ok(()),
        }
    }

    /// The JSON of an entry, its long strings kept as blobs.
    fn encode(&self, key: i64, entry: &Entry) -> Result<String, StoreError> {
        let json = to_json(entry)?;
        if !blobs::needs_fold(&json) {
            return Ok(json);
        }
        let mut value = serde_json::to_value(entry).map_err(|e| StoreError::Encode(e.to_string()))?;
        blobs::fold(&mut value, &mut |text| self.keep(key, false, text.as_bytes()))?;
        to_json(&value)
    }

    /// The entry of a row, or why there is none. `recent`: long texts of the rows before, which often come again.
    pub(super) fn decode(
        &self,
        raw: &Raw,
        recent: &mut Recent,
    ) -> Result<Result<Entry, GapKind>, StoreError> {
        if checksum(raw.seq, raw.at, &raw.json) != raw.sum {
            return Ok(Err(GapKind::Damaged));
        }
        let text = blobs::unfold(&raw.json, |id, out| {
            if let Some(text) = recent.texts.get(&id) {
                out.push_str(text);
                return Ok::<_, StoreError>(true);
            }
            let Some(text) = self.blob(id)?.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                return Ok(false);
            };
            let text = to_json(&text)?;
            out.push_str(&text);
            recent.note(id, text);
            Ok(true)
        });
        let json = match text {
            Ok(Some(json)) => json,
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(Err(GapKind::Damaged)),
            Err(error) => return Err(error),
        };
        Ok(serde_json::from_str(&json).map_err(|_| unreadable(&json)))
    }

    pub(super) fn load(&self, id: &SessionId) -> Result<Loaded, StoreError> {
        // One snapshot of the database: an append of another process in between would look like a gap.
        let read = self.conn.unchecked_transaction().map_err(|e| self.sql(e))?;
        let head = self.head(id)?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let (key, next) = self.end(id)?;
        // As many as there are: growing would leave twice as much behind.
        let room = usize::try_from(next).unwrap_or_default().min(1 << 16);
        let mut loaded = Loaded {
            head,
            entries: Vec::with_capacity(room),
            draft: None,
            damaged: Vec::new(),
            salvaged: self.salvaged,
            next: 0,
        };
        let (mut recent, mut texts) = (Recent::default(), Texts::default());
        // One row after the other: all of them together would be in memory twice.
        let mut rows = self.conn.prepare_cached(ROWS).map_err(|e| self.sql(e))?;
        let mut rows = rows.query([key]).map_err(|e| self.sql(e))?;
        while let Some(row) = rows.next().map_err(|e| self.sql(e))? {
            let raw = Raw::of(row, 0).map_err(|e| self.sql(e))?;
            let seq = u64::try_from(raw.seq).unwrap_or_default();
            loaded.damaged.extend((loaded.next..seq).map(|seq| Gap { seq, kind: GapKind::Missing }));
            match self.decode(&raw, &mut recent)? {
                Ok(mut entry) => {
                    texts.share(&mut entry);
                    loaded.entries.push(Stored { seq, at: Millis(raw.at), entry });
                }
                Err(kind) => loaded.damaged.push(Gap { seq, kind }),
            }
            loaded.next = seq + 1;
        }
        if self.salvaged {
            // The index may know of entries that are lost: their numbers are taken.
            let noted = self.one("SELECT max(seq) FROM noted WHERE session = ?1", [key], |r| r.get(0))?;
            let end = noted.flatten().map_or(0, |seq: i64| u64::try_from(seq).unwrap_or_default() + 1);
            loaded.damaged.extend((loaded.next..end).map(|seq| Gap { seq, kind: GapKind::Missing }));
            loaded.next = loaded.next.max(end);
        }
        loaded.draft = self.stored_draft(key)?;
        read.finish().map_err(|e| self.sql(e))?;
        Ok(loaded)
    }

    pub(super) fn draft(&self, id: &SessionId, draft: &Draft) -> Result<(), StoreError> {
        self.run(
            "INSERT OR REPLACE INTO draft (session, message, text, thinking, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![self.key(id)?, draft.message.as_str(), draft.text, draft.thinking, draft.at.0],
        )
        .map(drop)
    }

    pub(super) fn clear_draft(&self, id: &SessionId) -> Result<(), StoreError> {
        self.drop_draft(self.key(id)?)
    }

    fn drop_draft(&self, key: i64) -> Result<(), StoreError> {
        self.run("DELETE FROM draft WHERE session = ?1", [key]).map(drop)
    }

    fn stored_draft(&self, key: i64) -> Result<Option<Draft>, StoreError> {
        self.one("SELECT message, text, thinking, at FROM draft WHERE session = ?1", [key], |r| {
            Ok(Draft {
                message: text(r.get_ref(0)?).as_str().into(),
                text: text(r.get_ref(1)?),
                thinking: text(r.get_ref(2)?),
                at: Millis(r.get(3)?),
            })
        })
    }
}

/// Text that may be damaged: what is not UTF-8 is replaced, and the checksum then tells.
fn text(value: rusqlite::types::ValueRef<'_>) -> String {
    match value.as_bytes() {
        Ok(bytes) => match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(text) => text,
        },
        Err(_) => String::new(),
    }
}

/// Why an intact row is no entry of ours: its type is not one this version knows, or it is of another form.
fn unreadable(json: &str) -> GapKind {
    #[derive(serde::Deserialize)]
    struct Typed {
        r#type: String,
    }
    match serde_json::from_str::<Typed>(json) {
        Ok(typed) => GapKind::Unknown(typed.r#type),
        Err(_) => GapKind::Damaged,
    }
}
