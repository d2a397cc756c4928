-- How long the texts of commits stay: pinned, or let go after a time although refs reach them (documentation/guide/contexts.md).

CREATE TABLE ctx_policy (
  commit_seq INTEGER PRIMARY KEY REFERENCES ctx_commit(seq), policy TEXT NOT NULL CHECK (policy IN ('pin','ephemeral')),
  until INTEGER, created_at INTEGER NOT NULL, CHECK ((policy = 'ephemeral') = (until IS NOT NULL))
) STRICT;
CREATE INDEX ctx_policy_until ON ctx_policy(until) WHERE until IS NOT NULL;
ALTER TABLE blob ADD COLUMN released_at INTEGER;          -- when its bytes were let go on purpose; its place is then 'file', without a file
