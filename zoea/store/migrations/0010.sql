-- A summary of the strategy `window` (documentation/architecture/planning.md). It covers the messages from one place of a
-- conversation to another, a place being turn id and seq; a later one extends it and covers its messages too.

CREATE TABLE summary (
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  first_turn INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_turn INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  messages INTEGER NOT NULL, tokens INTEGER NOT NULL,     -- of all that it covers, estimated
  kept INTEGER NOT NULL,                                  -- newer messages that stayed verbatim when it was written
  content TEXT NOT NULL,                                  -- redacted before it was stored
  model TEXT NOT NULL DEFAULT '',                         -- empty: the lines were chosen without a model
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX summary_mysis ON summary(mysis_id, id);
