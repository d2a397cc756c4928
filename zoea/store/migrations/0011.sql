-- Context commits: what agents knew, as chains of deltas.

CREATE TABLE ctx_commit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  parent INTEGER REFERENCES ctx_commit(seq), type TEXT NOT NULL CHECK (type IN ('delta','compaction','snapshot')),
  blob_id INTEGER NOT NULL REFERENCES blob(id), format TEXT NOT NULL, template_hash BLOB REFERENCES template(hash),
  principal TEXT NOT NULL, mysis_id INTEGER REFERENCES mysis(id), machine TEXT NOT NULL, session_id INTEGER REFERENCES session(id),
  checkpoint TEXT NOT NULL CHECK (checkpoint IN ('turn_boundary','tool_call','compaction','session_end','explicit')),
  ticket_id TEXT, thread_id TEXT, first_memory_id INTEGER, last_memory_id INTEGER,
  message_count INTEGER NOT NULL, token_count INTEGER NOT NULL, created_at INTEGER NOT NULL,
  CHECK (parent IS NULL OR parent < seq)                  -- no cycles, by construction
) STRICT;
CREATE INDEX ctx_commit_parent ON ctx_commit(parent);
CREATE INDEX ctx_commit_blob ON ctx_commit(blob_id);
CREATE INDEX ctx_commit_time ON ctx_commit(principal, created_at, seq);
CREATE TRIGGER ctx_commit_immutable BEFORE UPDATE ON ctx_commit BEGIN SELECT RAISE(ABORT, 'a commit cannot be changed'); END;

CREATE TABLE ctx_blob (                                   -- lifted texts and media: collection and check need no decoding
  commit_seq INTEGER NOT NULL REFERENCES ctx_commit(seq), blob_id INTEGER NOT NULL REFERENCES blob(id), PRIMARY KEY (commit_seq, blob_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ctx_blob_blob ON ctx_blob(blob_id);

CREATE TABLE ctx_note (                                   -- summaries and tags, the newest row counts
  id INTEGER PRIMARY KEY AUTOINCREMENT, commit_seq INTEGER NOT NULL REFERENCES ctx_commit(seq), summary TEXT NOT NULL,
  tags TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)), model TEXT NOT NULL DEFAULT '', created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX ctx_note_commit ON ctx_note(commit_seq, id);

CREATE TABLE ctx_ref (
  name TEXT PRIMARY KEY CHECK (name <> ''), commit_seq INTEGER NOT NULL REFERENCES ctx_commit(seq), updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ctx_ref_commit ON ctx_ref(commit_seq);
CREATE TABLE ctx_reflog (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, old INTEGER, new INTEGER, reason TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX ctx_reflog_name ON ctx_reflog(name, id);
