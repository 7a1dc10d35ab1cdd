//! Reading a damaged database: what SQLite cannot reach any more is read from the raw pages.
//!
//! The copy holds every row that is still whole; reads go to it, the file itself is not touched. Rows are told from
//! rubbish by what they say of themselves: an entry by its checksum, a blob by its hash.
//! File format: <https://www.sqlite.org/fileformat2.html>.
use super::{BlobId, StoreError, checksum, migrate};
use rusqlite::{Connection, params, types::Value};
use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// Our files have pages of SQLite's default size, in bytes.
const PAGE: usize = 4096;
/// No row of ours is longer.
const LONGEST: usize = 256 << 20;

/// A temporary database with the sessions, entries, drafts and blobs that can still be read.
///
/// `open`: the database file, opened. Closing it would end the locks that SQLite holds on it in this process
/// (<https://www.sqlite.org/howtocorrupt.html>, section 2.2), so the caller keeps it.
pub(super) fn rebuild(file: &Path, open: &File) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(file, e);
    let pages = Pages::open(file, open).map_err(|e| StoreError::io(file, e))?;
    // The empty name is a file of SQLite's own that is gone with the connection.
    let copy = Connection::open("").map_err(sql)?;
    copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA cache_size = -4096").map_err(sql)?;
    migrate::schema(&copy).and_then(|()| copy.execute_batch("BEGIN")).map_err(sql)?;
    let mut kept = 0u64;
    let mut names = Names::default();
    for number in 1..=pages.count {
        let Some(page) = pages.read(number) else { continue };
        for (rowid, record) in cells(&page, number, &pages) {
            match rowid {
                Some(rowid) => kept += u64::from(keep(&copy, rowid, record).map_err(sql)?),
                None => names.note(&record),
            }
        }
    }
    names.add_missing(&copy).map_err(sql)?;
    copy.execute_batch("COMMIT").map_err(sql)?;
    if kept == 0 {
        return Err(StoreError::Foreign { file: file.to_owned() });
    }
    tracing::warn!(file = %file.display(), rows = kept, "the database is damaged; reading what is left of it");
    Ok(copy)
}

/// What the indexes tell of rows that are lost.
#[derive(Default)]
struct Names {
    ids: HashMap<i64, String>,
    folders: HashMap<i64, (String, i64)>,
    /// The last number of an entry, by session.
    last: HashMap<i64, i64>,
}

impl Names {
    fn note(&mut self, record: &[Value]) {
        match record {
            [Value::Text(id), Value::Integer(key)] if id.starts_with("s_") => {
                self.ids.insert(*key, id.clone());
            }
            [Value::Text(folder), Value::Integer(updated), Value::Integer(key)] => {
                self.folders.insert(*key, (folder.clone(), *updated));
            }
            // Not the index of blob_use, whose third column is 0 or 1; here it is the rowid.
            [Value::Integer(session), Value::Integer(seq), Value::Integer(rowid)] if *rowid > 1 => {
                let last = self.last.entry(*session).or_default();
                *last = (*last).max(*seq);
            }
            _ => {}
        }
    }

    /// Adds the sessions that have entries, with defaults for what is lost, and the numbers that are taken.
    fn add_missing(&self, copy: &Connection) -> rusqlite::Result<()> {
        for (key, id) in &self.ids {
            let (folder, updated) = self.folders.get(key).map_or(("/", 0), |(f, u)| (f, *u));
            copy.execute(
                "INSERT OR IGNORE INTO session (key, id, cwd, canonical, roots, settings, origin, meta, created, updated)
                 SELECT ?1, ?2, ?3, ?3, '[]', '{}', 'editor', '{}', ?4, ?4
                 WHERE EXISTS (SELECT 1 FROM entry WHERE session = ?1)",
                params![key, id, folder, updated],
            )?;
        }
        copy.execute_batch("CREATE TABLE noted (session INTEGER PRIMARY KEY, seq INTEGER)")?;
        for (session, seq) in &self.last {
            copy.execute("INSERT INTO noted VALUES (?1, ?2)", [session, seq])?;
        }
        Ok(())
    }
}

/// Puts a record into the table it is of, if it is whole.
fn keep(copy: &Connection, rowid: i64, record: Vec<Value>) -> rusqlite::Result<bool> {
    use Value::{Blob, Integer, Null, Text};
    let insert = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<bool> {
        Ok(copy.prepare_cached(sql)?.execute(params)? == 1)
    };
    match &record[..] {
        [Null, Integer(session), Integer(seq), Integer(at), Integer(sum), Text(json)]
            if checksum(*seq, *at, json) == *sum =>
        {
            insert(
                "INSERT OR IGNORE INTO entry (session, seq, at, sum, json) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![session, seq, at, sum, json],
            )
        }
        [Null, Blob(hash), Integer(size), Blob(data)] if BlobId::of(data).bytes() == &hash[..] => insert(
            "INSERT OR IGNORE INTO blob (hash, size, data) VALUES (?1, ?2, ?3)",
            params![hash, size, data],
        ),
        [Null, Text(message), Text(text), Text(thinking), Integer(at)] => insert(
            "INSERT OR IGNORE INTO draft (session, message, text, thinking, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![rowid, message, text, thinking, at],
        ),
        [Null, rest @ ..]
            if matches!(
                rest,
                [Text(_), Text(_), Text(_), Text(_), _, Text(_), Text(_), _, Text(_), Integer(_), Integer(_)]
            ) =>
        {
            let mut all: Vec<&dyn rusqlite::ToSql> = vec![&rowid];
            all.extend(rest.iter().map(|v| v as &dyn rusqlite::ToSql));
            insert(
                "INSERT OR IGNORE INTO session (key, id, cwd, canonical, roots, title, settings, origin, parent, meta, created, updated)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                &all,
            )
        }
        _ => Ok(false),
    }
}

/// The pages as SQLite sees them: of the write-ahead log as far as it is whole, else of the file.
struct Pages<'f> {
    file: &'f File,
    wal: Option<File>,
    /// Where in the log the newest form of a page is.
    logged: HashMap<u32, u64>,
    count: u32,
}

impl<'f> Pages<'f> {
    fn open(name: &Path, file: &'f File) -> std::io::Result<Self> {
        let mut wal = name.as_os_str().to_owned();
        wal.push("-wal");
        let count = u32::try_from(file.metadata()?.len().div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let mut pages = Self { file, wal: File::open(wal).ok(), logged: HashMap::new(), count };
        pages.read_log();
        Ok(pages)
    }

    /// Notes the pages of the committed transactions, up to the first frame that is not whole.
    fn read_log(&mut self) -> Option<()> {
        let wal = self.wal.as_ref()?;
        let header: [u8; 32] = read_at(wal, 0)?;
        let big = match be32(&header, 0)? {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let mut sum = log_sum((0, 0), &header[..24], big);
        if be32(&header, 8)? as usize != PAGE || sum != (be32(&header, 24)?, be32(&header, 28)?) {
            return None;
        }
        let mut pending = Vec::new();
        let mut offset = 32u64;
        while let Some(frame) = read_at::<{ 24 + PAGE }>(wal, offset) {
            sum = log_sum(log_sum(sum, &frame[..8], big), &frame[24..], big);
            if frame[8..16] != header[16..24] || sum != (be32(&frame, 16)?, be32(&frame, 20)?) {
                break;
            }
            pending.push((be32(&frame, 0)?, offset + 24));
            let size = be32(&frame, 4)?;
            if size != 0 {
                self.logged.extend(pending.drain(..));
                self.count = self.count.max(size);
            }
            offset += 24 + PAGE as u64;
        }
        Some(())
    }

    fn read(&self, number: u32) -> Option<Box<[u8; PAGE]>> {
        match self.logged.get(&number) {
            Some(at) => read_at(self.wal.as_ref()?, *at).map(Box::new),
            None => {
                let at = u64::from(number.checked_sub(1)?) * PAGE as u64;
                read_at(self.file, at).map(Box::new)
            }
        }
    }
}

fn read_at<const N: usize>(mut file: &File, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The checksum of the log, which goes on from frame to frame (section 4.2 of the file format).
fn log_sum((mut a, mut b): (u32, u32), bytes: &[u8], big: bool) -> (u32, u32) {
    let word = |w: &[u8]| {
        let w = [w[0], w[1], w[2], w[3]];
        if big { u32::from_be_bytes(w) } else { u32::from_le_bytes(w) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
    }
    (a, b)
}

/// The rows of a page, if it is a leaf: of a table with their rowids, of an index without (section 1.6).
fn cells(page: &[u8; PAGE], number: u32, pages: &Pages<'_>) -> Vec<(Option<i64>, Vec<Value>)> {
    let start = if number == 1 { 100 } else { 0 };
    let table = match page[start] {
        0x0d => true,
        0x0a => false,
        _ => return Vec::new(),
    };
    let count = be16(page, start + 3).unwrap_or(0);
    (0..count)
        .filter_map(|i| {
            let mut at = be16(page, start + 8 + 2 * i)?;
            let mut number = || {
                let (number, used) = varint(page.get(at..)?)?;
                at += used;
                Some(number)
            };
            let length = usize::try_from(number()?).ok()?;
            let rowid = if table { Some(number()?) } else { None };
            let most = if table { PAGE - 35 } else { (PAGE - 12) * 64 / 255 - 23 };
            Some((rowid, record(&payload(page, at, length, most, pages)?)?))
        })
        .collect()
}

/// The bytes of a row, with those on overflow pages. At most `most` are on the page itself.
fn payload(page: &[u8; PAGE], at: usize, length: usize, most: usize, pages: &Pages<'_>) -> Option<Vec<u8>> {
    if length > LONGEST {
        return None;
    }
    let local = if length <= most {
        length
    } else {
        let least = (PAGE - 12) * 32 / 255 - 23;
        let fits = least + (length - least) % (PAGE - 4);
        if fits <= most { fits } else { least }
    };
    let mut bytes = page.get(at..at + local)?.to_vec();
    let mut next = if local < length { be32(page, at + local)? } else { 0 };
    while bytes.len() < length {
        let more = pages.read(next)?;
        next = be32(&more[..], 0)?;
        let rest = (length - bytes.len()).min(PAGE - 4);
        bytes.extend_from_slice(&more[4..4 + rest]);
    }
    Some(bytes)
}

/// The values of a row (section 2.1).
fn record(bytes: &[u8]) -> Option<Vec<Value>> {
    let (header, used) = varint(bytes)?;
    let header = usize::try_from(header).ok()?;
    let (mut types, mut at) = (bytes.get(used..header)?, header);
    let mut values = Vec::new();
    while !types.is_empty() {
        let (kind, used) = varint(types)?;
        types = &types[used..];
        let kind = u64::try_from(kind).ok()?;
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        let value = bytes.get(at..at.checked_add(size)?)?;
        at += size;
        values.push(match kind {
            0 => Value::Null,
            1..=6 => Value::Integer(integer(value)),
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            // No column of ours is a real number.
            7 => return None,
            _ if kind % 2 == 0 => Value::Blob(value.to_vec()),
            _ => Value::Text(String::from_utf8(value.to_vec()).ok()?),
        });
    }
    Some(values)
}

fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |n, b| (n << 8) | i64::from(*b))
}

/// A number of 1 to 9 bytes, and how many they are.
fn varint(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut n = 0u64;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        if i == 8 {
            return Some((((n << 8) | u64::from(*byte)) as i64, 9));
        }
        n = (n << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((n as i64, i + 1));
        }
    }
    None
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let pair = bytes.get(at..at + 2)?;
    Some(usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
