-- Contexts of myses: what each inherited when it was made, and the commits between which a session ran.

CREATE TABLE ctx_origin (                                 -- only of myses that were made from a commit
  mysis_id INTEGER PRIMARY KEY REFERENCES mysis(id), commit_seq INTEGER NOT NULL REFERENCES ctx_commit(seq),
  ticket_id TEXT, thread_id TEXT, created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX ctx_origin_commit ON ctx_origin(commit_seq);
CREATE TABLE ctx_session (                                -- no references: a commit may be collected later
  session_id INTEGER PRIMARY KEY, start_commit INTEGER, end_commit INTEGER
) STRICT;
