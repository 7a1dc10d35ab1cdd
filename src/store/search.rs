//! Full-text search over what was said in all sessions.
//!
//! The index holds words alone (contentless FTS5); texts are read from the entries. It is filled in pieces before a
//! search, never while an entry is appended: an append must not wait for it.
use super::{
    Cx, StoreError,
    entries::{Raw, Recent},
};
use crate::{
    clock::Millis,
    id::SessionId,
    log::{Block, Entry, Part},
};
use rusqlite::params;
use std::path::PathBuf;

/// Entries that are indexed in one transaction.
pub(super) const PIECE: usize = 500;
/// Of a tool's result so many bytes are indexed: long ones are the contents of files.
const RESULT: usize = 4 << 10;
/// Of a message.
const MESSAGE: usize = 64 << 10;
/// Length of the pieces of text in a hit, in characters.
const EXCERPT: usize = 240;

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Words; all must occur. The last may be the beginning of one.
    pub text: String,
    /// Sessions of this folder alone.
    pub cwd: Option<PathBuf>,
    /// One session alone.
    pub session: Option<SessionId>,
    /// At most this many hits; 0: 20.
    pub limit: usize,
    /// So many lines before and after each hit.
    pub around: usize,
}

/// A place where the words occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub session: SessionId,
    pub title: Option<String>,
    pub cwd: PathBuf,
    pub line: Line,
    /// In their order in the log.
    pub before: Vec<Line>,
    pub after: Vec<Line>,
}

/// An entry, as far as it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub seq: u64,
    pub at: Millis,
    /// `user`, `assistant` or `result`.
    pub role: &'static str,
    /// An extract: around the first word found, or the beginning.
    pub text: String,
}

/// Who says an entry and what; `None` where there is nothing to search.
fn words(entry: &Entry) -> Option<(&'static str, String)> {
    let (role, text, limit) = match entry {
        Entry::User { parts, .. } => {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::Link { name, .. } => Some(name),
                Part::Embedded { uri, .. } => Some(uri),
                Part::Image(_) => None,
            });
            ("user", texts.collect::<Vec<_>>().join("\n"), MESSAGE)
        }
        Entry::Steer { text, .. } => ("user", text.clone(), MESSAGE),
        Entry::Assistant { blocks, .. } => {
            let texts = blocks.iter().filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                Block::Call(_) | Block::Thinking { .. } => None,
            });
            ("assistant", texts.collect::<Vec<_>>().join("\n"), MESSAGE)
        }
        Entry::Result { text, card, .. } => ("result", format!("{}\n{text}", card.title), RESULT),
        Entry::Summary { text, .. } => ("assistant", text.clone(), MESSAGE),
        _ => return None,
    };
    let text = head(&text, limit);
    (!text.trim().is_empty()).then(|| (role, text.to_owned()))
}

/// At most so many bytes of the beginning, never a piece of a character.
fn head(text: &str, limit: usize) -> &str {
    &text[..boundary(text, limit)]
}

/// The last place of a character at or before this one.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

/// The query in FTS5's syntax: each word quoted, so that no character of a person is syntax.
fn query(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).take(32).collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    (!quoted.is_empty()).then(|| format!("{}*", quoted.join(" ")))
}

/// The text around the first of the words.
fn excerpt(text: &str, search: &str) -> String {
    let lower = text.to_lowercase();
    let words = search.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    let at = words.filter_map(|w| lower.find(&w.to_lowercase())).min().unwrap_or(0);
    // Lower case may be longer than the text itself; a place that is a little off is good enough.
    let start = boundary(text, at.saturating_sub(EXCERPT / 3));
    let piece: String = text[start..].chars().take(EXCERPT).collect();
    let (left, right) = (start > 0, start + piece.len() < text.len());
    format!("{}{}{}", if left { "…" } else { "" }, piece.trim(), if right { "…" } else { "" })
}

impl Cx<'_> {
    /// Indexes at most so many entries that are not yet; `true`: there may be more.
    pub(super) fn index(&self, limit: usize) -> Result<bool, StoreError> {
        let upto = self.one("SELECT upto FROM search_state", [], |r| r.get::<_, i64>(0))?.unwrap_or(0);
        let rows = self.all(
            "SELECT id, seq, at, sum, json FROM entry WHERE id > ?1 ORDER BY id LIMIT ?2",
            params![upto, limit as i64],
            |r| Ok((r.get::<_, i64>(0)?, Raw::of(r, 1)?)),
        )?;
        let Some((last, _)) = rows.last() else { return Ok(false) };
        let mut recent = Recent::default();
        for (id, raw) in &rows {
            let Some((_, text)) = self.decode(raw, &mut recent)?.ok().as_ref().and_then(words) else {
                continue;
            };
            self.run("INSERT INTO search (rowid, text) VALUES (?1, ?2)", params![id, text])?;
        }
        self.run("UPDATE search_state SET upto = ?1", [last])?;
        Ok(rows.len() == limit)
    }

    pub(super) fn search(&self, search: &Search) -> Result<Vec<Hit>, StoreError> {
        let query = query(&search.text).ok_or(StoreError::EmptySearch)?;
        let limit = if search.limit == 0 { 20 } else { search.limit.min(200) };
        let cwd = search.cwd.as_deref().map(super::canonical);
        let rows = self.all(
            "SELECT e.session, s.id, s.title, s.cwd, e.seq FROM search
             JOIN entry e ON e.id = search.rowid JOIN session s ON s.key = e.session
             WHERE search MATCH ?1 AND (?2 IS NULL OR s.canonical = ?2) AND (?3 IS NULL OR s.id = ?3)
             ORDER BY search.rank, e.id DESC LIMIT ?4",
            params![query, cwd, search.session.as_ref().map(SessionId::as_str), limit as i64],
            |r| {
                let id = SessionId::from(r.get::<_, String>(1)?.as_str());
                Ok((r.get(0)?, id, r.get(2)?, r.get::<_, String>(3)?, r.get::<_, i64>(4)?))
            },
        )?;
        let mut hits = Vec::new();
        for (key, session, title, cwd, seq) in rows {
            let Some(line) = self.lines(key, seq, 0, true, &search.text)?.pop() else { continue };
            let mut before = self.lines(key, seq - 1, search.around, false, "")?;
            before.reverse();
            let after = self.lines(key, seq + 1, search.around, true, "")?;
            hits.push(Hit { session, title, cwd: cwd.into(), line, before, after });
        }
        Ok(hits)
    }

    /// Lines of text from an entry on, forwards or backwards. `count` 0: of that entry alone.
    fn lines(
        &self,
        key: i64,
        from: i64,
        count: usize,
        forwards: bool,
        search: &str,
    ) -> Result<Vec<Line>, StoreError> {
        let sql = if forwards {
            "SELECT seq, at, sum, json FROM entry WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3"
        } else {
            "SELECT seq, at, sum, json FROM entry WHERE session = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?3"
        };
        // Entries without text lie between those with: look a little further.
        let rows = self.all(sql, params![key, from, (count * 4).max(1) as i64], |r| Raw::of(r, 0))?;
        let mut lines = Vec::new();
        let mut recent = Recent::default();
        for raw in rows {
            if lines.len() == count.max(1) {
                break;
            }
            let Some((role, text)) = self.decode(&raw, &mut recent)?.ok().as_ref().and_then(words) else {
                continue;
            };
            let seq = u64::try_from(raw.seq).unwrap_or_default();
            lines.push(Line { seq, at: Millis(raw.at), role, text: excerpt(&text, search) });
        }
        if count == 0 && lines.first().is_some_and(|l| l.seq != u64::try_from(from).unwrap_or_default()) {
            lines.clear();
        }
        Ok(lines)
    }
}
