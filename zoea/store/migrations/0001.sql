-- The first schema, of release 0.1.0. Times are integer microseconds UTC.

CREATE TABLE setting (                                    -- what the swarm itself remembers: hold and its reason, workspace id
  key TEXT PRIMARY KEY, value TEXT NOT NULL CHECK (json_valid(value)), updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE template (
  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),        -- BLAKE3 of the resolved text
  name TEXT NOT NULL, body TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mysis (
  id INTEGER PRIMARY KEY AUTOINCREMENT,                   -- never reused: memories, events and search owners hang on it
  uid TEXT NOT NULL UNIQUE,                               -- survives export and import
  name TEXT NOT NULL COLLATE NOCASE CHECK (length(name) BETWEEN 1 AND 40),
  template_hash BLOB NOT NULL REFERENCES template(hash),
  provider TEXT NOT NULL, model TEXT NOT NULL,
  overrides TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(overrides)),
  state TEXT NOT NULL CHECK (state IN ('idle','running','stopped','errored')),
  state_reason TEXT NOT NULL DEFAULT '', state_at INTEGER NOT NULL,
  error TEXT CHECK (error IS NULL OR json_valid(error)),  -- class, title, what, hint; kept until dismissed
  error_dismissed_at INTEGER,
  retry_at INTEGER, retry_count INTEGER NOT NULL DEFAULT 0,
  encouragement INTEGER NOT NULL DEFAULT 0,
  held INTEGER NOT NULL DEFAULT 0, held_reason TEXT NOT NULL DEFAULT '',
  wait TEXT CHECK (wait IS NULL OR json_valid(wait)),     -- what it waits for: until (us), reason; cleared when the wait ends
  created_at INTEGER NOT NULL, deleted_at INTEGER,        -- delete = hide + stop; purge is its own verb
  goal TEXT NOT NULL DEFAULT '', goal_reached_at INTEGER, -- nudges follow the goal, until the mysis reports `zoea_done`
  nothing_new INTEGER NOT NULL DEFAULT 0                  -- its last nudged turns that called no tool and said nothing new
) STRICT;
CREATE UNIQUE INDEX mysis_name ON mysis(name) WHERE deleted_at IS NULL;
CREATE TABLE mysis_tag (mysis_id INTEGER NOT NULL REFERENCES mysis(id), tag TEXT NOT NULL, PRIMARY KEY (mysis_id, tag)) STRICT, WITHOUT ROWID;

CREATE TABLE tally (                                      -- counters of a mysis, so that a list is one row each, not a COUNT
  mysis_id INTEGER PRIMARY KEY REFERENCES mysis(id), turns INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL DEFAULT 0, requests INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, cost_micros INTEGER
) STRICT;

CREATE TABLE session (                                    -- one start-to-stop of a mysis (chain.md)
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  template_hash BLOB NOT NULL REFERENCES template(hash),
  started_at INTEGER NOT NULL, ended_at INTEGER, outcome TEXT
) STRICT;
CREATE INDEX session_mysis ON session(mysis_id, id);

CREATE TABLE message (                                    -- what was said, once, however many hear it
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('direct','broadcast')),
  sender_kind TEXT NOT NULL CHECK (sender_kind IN ('commander','mysis','client')),
  sender_id INTEGER REFERENCES mysis(id), sender_name TEXT NOT NULL DEFAULT '',
  content TEXT NOT NULL CHECK (content <> ''),
  hop INTEGER NOT NULL DEFAULT 0,                         -- 0 from a person; else 1 + the hop of the turn that sent it
  idempotency_key TEXT UNIQUE, recipients_filter TEXT, created_at INTEGER NOT NULL,
  is_task INTEGER NOT NULL DEFAULT 0,                     -- 1: the commander gave it as the new task
  topic_message_id INTEGER REFERENCES topic_message(id),
  context TEXT NOT NULL DEFAULT '',                       -- limits of the turn that it opens, as a JSON object; empty for none
  CHECK ((sender_kind = 'mysis') = (sender_id IS NOT NULL))
) STRICT;
CREATE INDEX message_sender ON message(sender_id, created_at) WHERE sender_id IS NOT NULL;
CREATE INDEX message_broadcast ON message(sender_kind, created_at) WHERE kind = 'broadcast';
CREATE INDEX message_topic ON message(topic_message_id) WHERE topic_message_id IS NOT NULL;

CREATE TABLE turn (
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER NOT NULL REFERENCES mysis(id), session_id INTEGER REFERENCES session(id),
  number INTEGER NOT NULL,                                -- 1.. per mysis
  opened_by TEXT NOT NULL CHECK (opened_by IN ('prompt','nudge')), nudge_level INTEGER NOT NULL DEFAULT 0, hop INTEGER NOT NULL DEFAULT 0,
  frozen TEXT NOT NULL CHECK (json_valid(frozen)),        -- all that a later plan of it needs besides its own memories
  attempt INTEGER NOT NULL DEFAULT 1,                     -- grows when a crash or a transient error resumes it
  broke_off TEXT CHECK (broke_off IN ('failed','timeout','crashed')),  -- why an open turn stands still
  outcome TEXT CHECK (outcome IN ('answered','iteration_limit','loop','budget','cancelled','interrupted','failed','timeout','crashed')),
  failure TEXT CHECK (failure IS NULL OR json_valid(failure)),  -- why it broke off or failed: class, title, what, hint
  opened_at INTEGER NOT NULL, ended_at INTEGER,
  UNIQUE (mysis_id, number), CHECK ((outcome IS NULL) = (ended_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX turn_open ON turn(mysis_id) WHERE outcome IS NULL;   -- one open turn, by construction
CREATE TABLE turn_note (                                  -- what Zoea itself put into a turn's requests (loop warning, budget warning)
  turn_id INTEGER NOT NULL REFERENCES turn(id), after_seq INTEGER NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (turn_id, after_seq, kind)
) STRICT, WITHOUT ROWID;

-- What a strategy was told when a turn was opened, beside rows by id: summaries, hits of a search, messages of a topic
-- (documentation/architecture/planning.md). Written once, before the first plan, and used by each request of the turn.
CREATE TABLE turn_answer (
  turn_id INTEGER NOT NULL REFERENCES turn(id), need TEXT NOT NULL, answer TEXT NOT NULL CHECK (json_valid(answer)),
  created_at INTEGER NOT NULL, PRIMARY KEY (turn_id, need)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (                                    -- every call to a model: plan, reservation and usage in one row
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER NOT NULL REFERENCES mysis(id), turn_id INTEGER REFERENCES turn(id),
  purpose TEXT NOT NULL CHECK (purpose IN ('turn','summary')), iteration INTEGER NOT NULL, attempt INTEGER NOT NULL DEFAULT 1,
  provider TEXT NOT NULL, model TEXT NOT NULL,
  plan BLOB,                                              -- zstd JSON: decisions, and each message as memory id + form or literal text; NULL once thinned out
  catalogue_hash TEXT NOT NULL DEFAULT '', estimated_tokens INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL CHECK (state IN ('reserved','settled','estimated','released','refused')),
  reserved_tokens INTEGER NOT NULL, reserved_micros INTEGER,
  input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER, cost_micros INTEGER,   -- NULL = not reported, price unknown
  error_class TEXT, finish_reason TEXT, first_token_us INTEGER, duration_us INTEGER, created_at INTEGER NOT NULL, ended_at INTEGER
) STRICT;
CREATE INDEX request_mysis ON request(mysis_id, id);
CREATE INDEX request_turn ON request(turn_id, id);
CREATE INDEX request_open ON request(id) WHERE state = 'reserved';

CREATE TABLE memory (
  id INTEGER PRIMARY KEY AUTOINCREMENT,                   -- storage order: search, paging, events
  mysis_id INTEGER NOT NULL REFERENCES mysis(id), turn_id INTEGER NOT NULL REFERENCES turn(id),
  seq INTEGER NOT NULL,                                   -- conversation order: (turn, seq); results get theirs when the call is stored
  role TEXT NOT NULL CHECK (role IN ('user','assistant','tool')),
  source TEXT NOT NULL CHECK (source IN ('direct','broadcast','topic','llm','tool')),
  message_id INTEGER REFERENCES message(id), sender_id INTEGER REFERENCES mysis(id),
  content TEXT NOT NULL DEFAULT '', reasoning TEXT NOT NULL DEFAULT '',
  native TEXT CHECK (native IS NULL OR json_valid(native)),  -- provider, model and the blocks that must go back unchanged within the turn
  partial INTEGER NOT NULL DEFAULT 0,                     -- cut off by stop, interrupt or crash: shown, never replayed as an answer
  tokens INTEGER NOT NULL,                                -- estimate, made once
  request_id INTEGER REFERENCES request(id), created_at INTEGER NOT NULL, redacted_at INTEGER,
  -- Three private-use characters, so that one trigram, and one word, names a text's mysis; see `encode_owner`.
  owner TEXT GENERATED ALWAYS AS (char(983040 + mysis_id / 3600, 987040 + (mysis_id / 60) % 60, 988040 + mysis_id % 60)) VIRTUAL,
  preserved INTEGER NOT NULL DEFAULT 0,                   -- 1: the strategy window shows it verbatim, whatever is summarised
  UNIQUE (turn_id, seq)
) STRICT;
CREATE INDEX memory_mysis ON memory(mysis_id, id);
CREATE INDEX memory_prompt ON memory(mysis_id, id) WHERE role = 'user';   -- the standing order, however long ago
CREATE INDEX memory_preserved ON memory(mysis_id, id) WHERE preserved = 1;
-- Rows that `memory.keep` removes are looked for in every table that refers to them: by these, and others like them.
CREATE INDEX memory_request ON memory(request_id) WHERE request_id IS NOT NULL;
CREATE INDEX memory_message ON memory(message_id) WHERE message_id IS NOT NULL;

CREATE TABLE delivery (                                   -- the inbox: one row per recipient
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id INTEGER NOT NULL REFERENCES message(id), mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  mode TEXT NOT NULL CHECK (mode IN ('queue','steer','interrupt')),
  state TEXT NOT NULL CHECK (state IN ('pending','taken','skipped','withdrawn')), reason TEXT NOT NULL DEFAULT '',
  turn_id INTEGER REFERENCES turn(id), memory_id INTEGER REFERENCES memory(id),
  created_at INTEGER NOT NULL, taken_at INTEGER,
  UNIQUE (message_id, mysis_id),
  CHECK ((state = 'taken') = (turn_id IS NOT NULL AND memory_id IS NOT NULL))
) STRICT;
CREATE INDEX delivery_pending ON delivery(mysis_id, id) WHERE state = 'pending';
CREATE INDEX delivery_turn ON delivery(turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX delivery_memory ON delivery(memory_id) WHERE memory_id IS NOT NULL;

CREATE TABLE blob (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), size INTEGER NOT NULL,
  place TEXT NOT NULL CHECK (place IN ('row','file','redacted')), data BLOB,
  released_at INTEGER,                                    -- when its bytes were let go on purpose; its place is then 'file', without a file
  replaced_by INTEGER REFERENCES blob(id),                -- what stands instead of one from which a text was redacted
  CHECK ((place = 'row') = (data IS NOT NULL))
) STRICT;
CREATE INDEX blob_replaced ON blob(replaced_by) WHERE replaced_by IS NOT NULL;
CREATE TABLE memory_blob (
  memory_id INTEGER NOT NULL REFERENCES memory(id), position INTEGER NOT NULL, blob_id INTEGER NOT NULL REFERENCES blob(id),
  media_type TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', PRIMARY KEY (memory_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_blob_blob ON memory_blob(blob_id);

CREATE TABLE tool_call (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id INTEGER NOT NULL REFERENCES memory(id), position INTEGER NOT NULL,
  provider_call_id TEXT NOT NULL DEFAULT '',              -- kept for the record; requests carry Zoea's own id, 'c' || id, unique for ever
  name TEXT NOT NULL, upstream TEXT NOT NULL DEFAULT '', arguments TEXT NOT NULL,
  fingerprint BLOB NOT NULL, result_fingerprint BLOB,     -- canonical name+arguments; result without volatile fields
  state TEXT NOT NULL CHECK (state IN ('pending','approval','sent','done','error','denied','cancelled','unknown')),
  result_memory_id INTEGER REFERENCES memory(id), started_at INTEGER, ended_at INTEGER,
  UNIQUE (memory_id, position)
) STRICT;
CREATE INDEX tool_call_open ON tool_call(state) WHERE state IN ('pending','approval','sent');
CREATE INDEX tool_call_result ON tool_call(result_memory_id) WHERE result_memory_id IS NOT NULL;
-- The calls found newest first belong to memories found newest first.
CREATE TRIGGER call_in_order BEFORE INSERT ON tool_call
WHEN new.memory_id < (SELECT memory_id FROM tool_call ORDER BY id DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'calls are stored in the order of the memories that make them'); END;

-- The result of a call that was on its way when its turn was stopped (documentation/architecture/turns.md). The call's own
-- result says `unknown` and stays; this is shown beside it, and told to the next turn in a note.
CREATE TABLE late_result (
  tool_call_id INTEGER PRIMARY KEY REFERENCES tool_call(id), content TEXT NOT NULL, is_error INTEGER NOT NULL,
  arrived_at INTEGER NOT NULL, told_in_turn INTEGER REFERENCES turn(id)
) STRICT;
CREATE INDEX late_result_untold ON late_result(tool_call_id) WHERE told_in_turn IS NULL;
CREATE INDEX late_result_told ON late_result(told_in_turn) WHERE told_in_turn IS NOT NULL;

CREATE TABLE catalogue (                                  -- the tools a request offered, so that the inspector can show them years later
  hash TEXT PRIMARY KEY, tools BLOB NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spend (                                      -- counters, so that a check is one row a scope, not a SUM
  scope TEXT NOT NULL CHECK (scope IN ('turn','mission','mysis','swarm','background')), scope_id INTEGER NOT NULL, day TEXT NOT NULL,   -- '' = all time, else local date
  reserved_tokens INTEGER NOT NULL DEFAULT 0, used_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_micros INTEGER NOT NULL DEFAULT 0, used_micros INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, warned_at INTEGER,
  PRIMARY KEY (scope, scope_id, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE calibration (
  provider TEXT NOT NULL, model TEXT NOT NULL, ratio REAL NOT NULL, samples INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;

-- The commander is asked about tool calls and budgets (documentation/architecture/planning.md): of a call, or of a turn.
-- One about a call keeps the tool's schema, so that a grant given without a waiting call is bound to it all the same.
CREATE TABLE approval (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL DEFAULT 'tool' CHECK (kind IN ('tool','budget')),
  tool_call_id INTEGER REFERENCES tool_call(id), turn_id INTEGER REFERENCES turn(id), mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  about TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(about)),   -- of a budget: its scope, tokens used with this request, the limit
  schema_hash TEXT NOT NULL DEFAULT '',
  answer TEXT CHECK (answer IN ('once','session','template','denied','expired')), sentence TEXT NOT NULL DEFAULT '', answered_by TEXT,
  asked_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, answered_at INTEGER,
  CHECK ((kind = 'tool') = (tool_call_id IS NOT NULL)), CHECK ((kind = 'budget') = (turn_id IS NOT NULL))
) STRICT;
CREATE INDEX approval_open ON approval(id) WHERE answer IS NULL;
CREATE UNIQUE INDEX approval_call ON approval(tool_call_id) WHERE answer IS NULL;
CREATE INDEX approval_any_call ON approval(tool_call_id) WHERE tool_call_id IS NOT NULL;
CREATE INDEX approval_turn ON approval(turn_id) WHERE turn_id IS NOT NULL;
CREATE TABLE grant_ (                                     -- bound to the upstream and the tool's schema: a changed tool asks again
  id INTEGER PRIMARY KEY AUTOINCREMENT, template TEXT NOT NULL, mysis_id INTEGER REFERENCES mysis(id), session_id INTEGER REFERENCES session(id),
  upstream TEXT NOT NULL DEFAULT '', tool TEXT NOT NULL, schema_hash TEXT NOT NULL DEFAULT '', created_at INTEGER NOT NULL, revoked_at INTEGER
) STRICT;
CREATE INDEX grant_tool ON grant_(tool, template) WHERE revoked_at IS NULL;

CREATE TABLE event (                                      -- durable facts only: state, error, budget, approval, delivery
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER REFERENCES mysis(id), kind TEXT NOT NULL, data TEXT NOT NULL CHECK (json_valid(data)), created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_mysis ON event(mysis_id, id);

CREATE TABLE removal (                                    -- who removed what, when and how much: purges, retention, redaction
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL CHECK (kind IN ('purge','keep','redact')), who TEXT NOT NULL, why TEXT NOT NULL DEFAULT '',
  mysis_id INTEGER REFERENCES mysis(id), turns INTEGER NOT NULL, memories INTEGER NOT NULL, characters INTEGER NOT NULL, created_at INTEGER NOT NULL
) STRICT;

-- What the swarm did, a row for each minute in which it ran: charts and `zoea stats` show the last hour, day and week.
-- `tokens` and `cost_micros` are totals of all time, so that a restart loses nothing: a minute is the difference of two rows.

CREATE TABLE minute_stat (
  minute INTEGER PRIMARY KEY,                             -- minutes since the epoch, UTC
  event_id INTEGER NOT NULL,                              -- newest event that `outcomes` counts
  tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL,
  statuses TEXT NOT NULL CHECK (json_valid(statuses)),    -- myses by status at the end of the minute
  outcomes TEXT NOT NULL CHECK (json_valid(outcomes)),    -- turns that ended since the row before, by outcome
  waiting INTEGER NOT NULL                                -- messages that no turn has taken
) STRICT;

-- What Zoea has learnt of a model from its answers, kept so that the next turns and starts heed it.

CREATE TABLE model_fact (
  provider TEXT NOT NULL, model TEXT NOT NULL,
  name TEXT NOT NULL,                                     -- tool_mode: json_schema; reading_rate: tokens a second
  value TEXT NOT NULL, learned_at INTEGER NOT NULL,
  PRIMARY KEY (provider, model, name)
) STRICT, WITHOUT ROWID;

-- A summary of the strategy `window` (documentation/architecture/planning.md). It covers the messages from one place of a
-- conversation to another, a place being turn id and seq; a later one extends it and covers its messages too.

CREATE TABLE summary (
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  first_turn INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_turn INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  messages INTEGER NOT NULL, tokens INTEGER NOT NULL,     -- of all that it covers, estimated
  kept INTEGER NOT NULL,                                  -- newer messages that stayed verbatim when it was written
  content TEXT NOT NULL,                                  -- redacted before it was stored
  model TEXT NOT NULL DEFAULT '',                         -- empty: the lines were chosen without a model
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX summary_mysis ON summary(mysis_id, id);

-- The ledger of topics (documentation/guide/topics.md): messages in one order, stored before they are delivered.
-- A message with subscribers has one row in `message`, and a delivery for each of them, as any other prompt.

CREATE TABLE topic_message (
  id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id INTEGER NOT NULL DEFAULT 0,   -- 0: the swarm, else a mission
  topic TEXT NOT NULL CHECK (topic <> ''),
  sender_kind TEXT NOT NULL CHECK (sender_kind IN ('commander','mysis','client','zoea')),
  sender_id INTEGER REFERENCES mysis(id), sender TEXT NOT NULL, receiver TEXT NOT NULL DEFAULT 'broadcast',
  content TEXT NOT NULL DEFAULT '', data TEXT CHECK (data IS NULL OR json_valid(data)),
  is_raw INTEGER NOT NULL DEFAULT 0, hop INTEGER NOT NULL DEFAULT 0, turn_id INTEGER REFERENCES turn(id),
  idempotency_key TEXT UNIQUE, created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX topic_message_topic ON topic_message(cluster_id, topic, id);
CREATE INDEX topic_message_turn ON topic_message(turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX topic_message_sender ON topic_message(sender_id, created_at) WHERE sender_id IS NOT NULL;

CREATE TABLE topic_cursor (                               -- ledger positions of a mysis; 0 is the start
  mysis_id INTEGER NOT NULL REFERENCES mysis(id), cluster_id INTEGER NOT NULL DEFAULT 0,
  last_agent_start INTEGER NOT NULL DEFAULT 0,            -- when its previous turn was first planned
  last_task_end INTEGER NOT NULL DEFAULT 0,               -- after what it had published when its last answered turn ended
  PRIMARY KEY (mysis_id, cluster_id)
) STRICT, WITHOUT ROWID;

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

-- What each mysis inherited when it was made, and the commits between which a session ran.

CREATE TABLE ctx_origin (                                 -- only of myses that were made from a commit
  mysis_id INTEGER PRIMARY KEY REFERENCES mysis(id), commit_seq INTEGER NOT NULL REFERENCES ctx_commit(seq),
  ticket_id TEXT, thread_id TEXT, created_at INTEGER NOT NULL,
  after_memory INTEGER NOT NULL DEFAULT 0,                -- the newest memory that the commit holds
  after_turn INTEGER NOT NULL DEFAULT 0,                  -- the number of its turn
  birth_seq INTEGER REFERENCES ctx_commit(seq),           -- the commit that it was made from; NULL for one that was not
  fresh_at INTEGER                                        -- when its newest session began without the conversation, because that could not be read
) STRICT;
CREATE INDEX ctx_origin_commit ON ctx_origin(commit_seq);
CREATE TABLE ctx_session (                                -- no references: a commit may be collected later
  session_id INTEGER PRIMARY KEY, start_commit INTEGER, end_commit INTEGER
) STRICT;

-- Commits that came in a bundle: what their ids are made of and what has another value, or none, in this database (documentation/guide/contexts.md).

CREATE TABLE ctx_import (
  commit_seq INTEGER PRIMARY KEY REFERENCES ctx_commit(seq), seq INTEGER NOT NULL, session_id INTEGER, template_hash BLOB, created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE ctx_compaction (                             -- no references: either may be removed later
  commit_seq INTEGER PRIMARY KEY, summary_id INTEGER NOT NULL
) STRICT;

-- How long the texts of commits stay: pinned, or let go after a time although refs reach them (documentation/guide/contexts.md).

CREATE TABLE ctx_policy (
  commit_seq INTEGER PRIMARY KEY REFERENCES ctx_commit(seq), policy TEXT NOT NULL CHECK (policy IN ('pin','ephemeral')),
  until INTEGER, created_at INTEGER NOT NULL, CHECK ((policy = 'ephemeral') = (until IS NOT NULL))
) STRICT;
CREATE INDEX ctx_policy_until ON ctx_policy(until) WHERE until IS NOT NULL;

-- Search: FTS5 proposes candidates, the stored text decides.
-- The texts of calls are written after the memory that makes them, so they have an index of their own; both are read
-- backwards and merged. The ranked index holds memories and calls as documents side by side: memory * 4096, then
-- + 1 + position. (The exact one may not: gaps between row ids would make it three times as large.)

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
