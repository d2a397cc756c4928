-- Messages that a person or the mysis keeps: the strategy window shows them verbatim, whatever is summarised (documentation/guide/conversation-window.md).

ALTER TABLE memory ADD COLUMN preserved INTEGER NOT NULL DEFAULT 0;
CREATE INDEX memory_preserved ON memory(mysis_id, id) WHERE preserved = 1;
