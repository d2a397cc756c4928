-- What Zoea has learnt of a model from its answers, kept so that the next turns and starts heed it.

CREATE TABLE model_fact (
  provider TEXT NOT NULL, model TEXT NOT NULL,
  name TEXT NOT NULL,                                     -- tool_mode: json_schema; reading_rate: tokens a second
  value TEXT NOT NULL, learned_at INTEGER NOT NULL,
  PRIMARY KEY (provider, model, name)
) STRICT, WITHOUT ROWID;
