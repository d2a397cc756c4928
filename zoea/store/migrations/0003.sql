-- The commander is also asked about budgets (documentation/architecture/planning.md): a question is of a tool call, or of a turn.
-- One about a call keeps the tool's schema, so that a grant given without a waiting call is bound to it all the same.

CREATE TABLE approval_of_any_kind (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL DEFAULT 'tool' CHECK (kind IN ('tool','budget')),
  tool_call_id INTEGER REFERENCES tool_call(id), turn_id INTEGER REFERENCES turn(id), mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  about TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(about)),   -- of a budget: its scope, tokens used with this request, the limit
  schema_hash TEXT NOT NULL DEFAULT '',
  answer TEXT CHECK (answer IN ('once','session','template','denied','expired')), sentence TEXT NOT NULL DEFAULT '', answered_by TEXT,
  asked_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, answered_at INTEGER,
  CHECK ((kind = 'tool') = (tool_call_id IS NOT NULL)), CHECK ((kind = 'budget') = (turn_id IS NOT NULL))
) STRICT;
INSERT INTO approval_of_any_kind(id, kind, tool_call_id, mysis_id, answer, sentence, answered_by, asked_at, expires_at, answered_at)
  SELECT id, 'tool', tool_call_id, mysis_id, answer, sentence, answered_by, asked_at, expires_at, answered_at FROM approval;
DROP TABLE approval;
ALTER TABLE approval_of_any_kind RENAME TO approval;
CREATE INDEX approval_open ON approval(id) WHERE answer IS NULL;
CREATE UNIQUE INDEX approval_call ON approval(tool_call_id) WHERE answer IS NULL;
CREATE INDEX approval_turn ON approval(turn_id) WHERE turn_id IS NOT NULL;
