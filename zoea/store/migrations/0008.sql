-- What a strategy was told when a turn was opened, beside rows by id: summaries, hits of a search, messages of a topic
-- (documentation/architecture/planning.md). Written once, before the first plan, and used by each request of the turn.

CREATE TABLE turn_answer (
  turn_id INTEGER NOT NULL REFERENCES turn(id), need TEXT NOT NULL, answer TEXT NOT NULL CHECK (json_valid(answer)),
  created_at INTEGER NOT NULL, PRIMARY KEY (turn_id, need)
) STRICT, WITHOUT ROWID;
