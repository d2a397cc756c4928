-- Background work (summaries) has a budget of its own for each day (documentation/guide/budgets.md): a further scope.

CREATE TABLE spend_of_any_scope (                         -- counters, so that a check is one row a scope, not a SUM
  scope TEXT NOT NULL CHECK (scope IN ('turn','mission','mysis','swarm','background')), scope_id INTEGER NOT NULL, day TEXT NOT NULL,   -- '' = all time, else local date
  reserved_tokens INTEGER NOT NULL DEFAULT 0, used_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_micros INTEGER NOT NULL DEFAULT 0, used_micros INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, warned_at INTEGER,
  PRIMARY KEY (scope, scope_id, day)
) STRICT, WITHOUT ROWID;
INSERT INTO spend_of_any_scope SELECT * FROM spend;
DROP TABLE spend;
ALTER TABLE spend_of_any_scope RENAME TO spend;
