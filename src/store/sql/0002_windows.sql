-- Version 2.

-- What the refusals of models taught of how much they take.
CREATE TABLE model_window (
  model  TEXT    PRIMARY KEY,                  -- provider/model
  tokens INTEGER NOT NULL,
  at     INTEGER NOT NULL                      -- milliseconds since 1970
) STRICT, WITHOUT ROWID;
