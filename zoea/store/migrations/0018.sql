-- Sessions that begin with a conversation of their own mysis, and the summaries that compaction commits hold.

ALTER TABLE ctx_origin ADD COLUMN after_memory INTEGER NOT NULL DEFAULT 0;  -- the newest memory that the commit holds
ALTER TABLE ctx_origin ADD COLUMN after_turn INTEGER NOT NULL DEFAULT 0;    -- the number of its turn
CREATE TABLE ctx_compaction (                             -- no references: either may be removed later
  commit_seq INTEGER PRIMARY KEY, summary_id INTEGER NOT NULL
) STRICT;
