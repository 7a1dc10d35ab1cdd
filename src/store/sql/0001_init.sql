-- Version 1. Released schemas are never edited: a change is a new file (see ../migrate.rs).

CREATE TABLE session (
  key       INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, so that no stray row finds a new owner
  id        TEXT    NOT NULL UNIQUE,
  cwd       TEXT    NOT NULL,                  -- as the editor named it
  canonical TEXT    NOT NULL,                  -- with symbolic links followed: what lists compare
  roots     TEXT    NOT NULL,                  -- JSON array of further folders
  title     TEXT,
  settings  TEXT    NOT NULL,                  -- JSON
  origin    TEXT    NOT NULL,                  -- editor, exec, child
  parent    TEXT,                              -- JSON
  meta      TEXT    NOT NULL,                  -- JSON
  created   INTEGER NOT NULL,                  -- milliseconds since 1970
  updated   INTEGER NOT NULL
) STRICT;
CREATE INDEX session_by_time   ON session (updated DESC, key DESC);
CREATE INDEX session_by_folder ON session (canonical, updated DESC, key DESC);

-- A table with rowids, not clustered by (session, seq): an index b-tree keeps only about 1 KB of a row in the
-- page and gives each longer one overflow pages of its own.
CREATE TABLE entry (
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  sum     INTEGER NOT NULL,                    -- the first 8 bytes of the SHA-256 of seq, at and json
  json    TEXT    NOT NULL,
  UNIQUE (session, seq)
) STRICT;

-- The reply that is being streamed, as far as it came.
CREATE TABLE draft (
  session  INTEGER PRIMARY KEY,
  message  TEXT    NOT NULL,
  text     TEXT    NOT NULL,
  thinking TEXT    NOT NULL,
  at       INTEGER NOT NULL
) STRICT;

-- Long strings of entries and snapshots of files, each content once.
CREATE TABLE blob (
  id   INTEGER PRIMARY KEY,
  hash BLOB    NOT NULL UNIQUE,                -- SHA-256
  size INTEGER NOT NULL,
  data BLOB    NOT NULL
) STRICT;
CREATE TABLE blob_use (
  session  INTEGER NOT NULL,
  snapshot INTEGER NOT NULL,                   -- 0: by an entry; 1: a snapshot, which may be dropped when there are too many
  blob     INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (session, snapshot, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_by_blob ON blob_use (blob);

CREATE TABLE grant_ (
  folder TEXT    NOT NULL,                     -- canonical
  json   TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  PRIMARY KEY (folder, json)
) STRICT, WITHOUT ROWID;

-- Words only; the texts themselves stand in entry and blob.
CREATE VIRTUAL TABLE search USING fts5 (
  text, content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 2"
);
CREATE TABLE search_state (upto INTEGER NOT NULL) STRICT; -- entries to this id are in the index
INSERT INTO search_state VALUES (0);
