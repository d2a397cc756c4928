-- Commits that came in a bundle: what their ids are made of and what has another value, or none, in this database (documentation/guide/contexts.md).

CREATE TABLE ctx_import (
  commit_seq INTEGER PRIMARY KEY REFERENCES ctx_commit(seq), seq INTEGER NOT NULL, session_id INTEGER, template_hash BLOB, created_at INTEGER NOT NULL
) STRICT;
