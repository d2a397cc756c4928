-- Search: FTS5 proposes candidates, the stored text decides.
-- The texts of calls are written after the memory that makes them, so they have an index of their own; both are read
-- backwards and merged. The ranked index holds memories and calls as documents side by side: memory * 4096, then
-- + 1 + position. (The exact one may not: gaps between row ids would make it three times as large.)
-- Existing rows are indexed by code after this file (zoea.store.search.fts_index), which can say how far it is.

-- Three private-use characters, so that one trigram, and one word, names a text's mysis; see `encode_owner`.
ALTER TABLE memory ADD COLUMN owner TEXT GENERATED ALWAYS AS (char(983040 + mysis_id / 3600, 987040 + (mysis_id / 60) % 60, 988040 + mysis_id % 60)) VIRTUAL;

CREATE VIEW call_text AS
SELECT k.id, m.owner, k.name || '(' || k.arguments || ')' AS content FROM tool_call k JOIN memory m ON m.id = k.memory_id;

-- A direct message is found as a memory; only broadcasts are indexed themselves.
CREATE VIEW broadcast AS SELECT id, content FROM message WHERE kind = 'broadcast';

CREATE VIEW document AS
SELECT id * 4096 AS id, owner, content, reasoning FROM memory
UNION ALL
SELECT k.memory_id * 4096 + 1 + min(k.position, 4094), m.owner, k.name || '(' || k.arguments || ')', ''
FROM tool_call k JOIN memory m ON m.id = k.memory_id;

CREATE VIRTUAL TABLE memory_exact USING fts5(owner, content, reasoning, content='memory', content_rowid='id', columnsize=0, detail=none, tokenize='trigram case_sensitive 1');
CREATE VIRTUAL TABLE call_exact USING fts5(owner, content, content='call_text', content_rowid='id', columnsize=0, detail=none, tokenize='trigram case_sensitive 1');
CREATE VIRTUAL TABLE message_exact USING fts5(content, content='broadcast', content_rowid='id', columnsize=0, detail=none, tokenize='trigram case_sensitive 1');
CREATE VIRTUAL TABLE memory_words USING fts5(owner, content, reasoning, content='document', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE message_words USING fts5(content, content='broadcast', content_rowid='id', tokenize='unicode61 remove_diacritics 2');

-- The calls found newest first belong to memories found newest first.
CREATE TRIGGER call_in_order BEFORE INSERT ON tool_call
WHEN new.memory_id < (SELECT memory_id FROM tool_call ORDER BY id DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'calls are stored in the order of the memories that make them'); END;

-- FTS5 writes out what it holds at every savepoint, and each op of a group has one: indexed row by row, a turn would cost
-- a fifth more. So a row is noted here, and the writer indexes noted rows before each COMMIT (fts_index.catch_up):
-- a row and its index entries are still one transaction, and a row that any other connection wrote is never lost.
CREATE TABLE unindexed (
  kind TEXT NOT NULL CHECK (kind IN ('memory','call','broadcast')), id INTEGER NOT NULL, PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER memory_search_insert AFTER INSERT ON memory BEGIN
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('memory', new.id);
END;
CREATE TRIGGER memory_search_delete AFTER DELETE ON memory BEGIN
  INSERT INTO memory_exact(memory_exact, rowid, owner, content, reasoning)
    SELECT 'delete', old.id, old.owner, old.content, old.reasoning WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'memory' AND id = old.id);
  INSERT INTO memory_words(memory_words, rowid, owner, content, reasoning)
    SELECT 'delete', old.id * 4096, old.owner, old.content, old.reasoning WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'memory' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'memory' AND id = old.id;
END;
CREATE TRIGGER memory_search_update AFTER UPDATE OF id, mysis_id, content, reasoning ON memory BEGIN
  INSERT INTO memory_exact(memory_exact, rowid, owner, content, reasoning)
    SELECT 'delete', old.id, old.owner, old.content, old.reasoning WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'memory' AND id = old.id);
  INSERT INTO memory_words(memory_words, rowid, owner, content, reasoning)
    SELECT 'delete', old.id * 4096, old.owner, old.content, old.reasoning WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'memory' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'memory' AND id = old.id;
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('memory', new.id);
END;

CREATE TRIGGER call_search_insert AFTER INSERT ON tool_call BEGIN
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('call', new.id);
END;
CREATE TRIGGER call_search_delete AFTER DELETE ON tool_call BEGIN
  INSERT INTO call_exact(call_exact, rowid, owner, content)
    SELECT 'delete', old.id, owner, old.name || '(' || old.arguments || ')' FROM memory
    WHERE id = old.memory_id AND NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'call' AND id = old.id);
  INSERT INTO memory_words(memory_words, rowid, owner, content, reasoning)
    SELECT 'delete', old.memory_id * 4096 + 1 + min(old.position, 4094), owner, old.name || '(' || old.arguments || ')', '' FROM memory
    WHERE id = old.memory_id AND NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'call' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'call' AND id = old.id;
END;
CREATE TRIGGER call_search_update AFTER UPDATE OF id, memory_id, position, name, arguments ON tool_call BEGIN
  INSERT INTO call_exact(call_exact, rowid, owner, content)
    SELECT 'delete', old.id, owner, old.name || '(' || old.arguments || ')' FROM memory
    WHERE id = old.memory_id AND NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'call' AND id = old.id);
  INSERT INTO memory_words(memory_words, rowid, owner, content, reasoning)
    SELECT 'delete', old.memory_id * 4096 + 1 + min(old.position, 4094), owner, old.name || '(' || old.arguments || ')', '' FROM memory
    WHERE id = old.memory_id AND NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'call' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'call' AND id = old.id;
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('call', new.id);
END;

CREATE TRIGGER message_search_insert AFTER INSERT ON message WHEN new.kind = 'broadcast' BEGIN
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('broadcast', new.id);
END;
CREATE TRIGGER message_search_delete AFTER DELETE ON message WHEN old.kind = 'broadcast' BEGIN
  INSERT INTO message_exact(message_exact, rowid, content) SELECT 'delete', old.id, old.content WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'broadcast' AND id = old.id);
  INSERT INTO message_words(message_words, rowid, content) SELECT 'delete', old.id, old.content WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'broadcast' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'broadcast' AND id = old.id;
END;
CREATE TRIGGER message_search_update AFTER UPDATE OF id, content ON message WHEN old.kind = 'broadcast' BEGIN
  INSERT INTO message_exact(message_exact, rowid, content) SELECT 'delete', old.id, old.content WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'broadcast' AND id = old.id);
  INSERT INTO message_words(message_words, rowid, content) SELECT 'delete', old.id, old.content WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE kind = 'broadcast' AND id = old.id);
  DELETE FROM unindexed WHERE kind = 'broadcast' AND id = old.id;
  INSERT OR IGNORE INTO unindexed(kind, id) VALUES ('broadcast', new.id);
END;

CREATE TABLE removal (                                    -- who removed what, when and how much: purges, retention, redaction
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL CHECK (kind IN ('purge','keep','redact')), who TEXT NOT NULL, why TEXT NOT NULL DEFAULT '',
  mysis_id INTEGER REFERENCES mysis(id), turns INTEGER NOT NULL, memories INTEGER NOT NULL, characters INTEGER NOT NULL, created_at INTEGER NOT NULL
) STRICT;
