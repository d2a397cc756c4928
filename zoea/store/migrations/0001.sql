-- The first schema: myses, messages, turns, memories, calls, requests, spending.
-- Times are integer microseconds UTC. Search indexes, context commits and missions are later migrations.

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
  created_at INTEGER NOT NULL, deleted_at INTEGER         -- delete = hide + stop; purge is its own verb
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
  CHECK ((sender_kind = 'mysis') = (sender_id IS NOT NULL))
) STRICT;
CREATE INDEX message_sender ON message(sender_id, created_at) WHERE sender_id IS NOT NULL;
CREATE INDEX message_broadcast ON message(sender_kind, created_at) WHERE kind = 'broadcast';

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
  UNIQUE (turn_id, seq)
) STRICT;
CREATE INDEX memory_mysis ON memory(mysis_id, id);
CREATE INDEX memory_prompt ON memory(mysis_id, id) WHERE role = 'user';   -- the standing order, however long ago

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

CREATE TABLE blob (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), size INTEGER NOT NULL,
  place TEXT NOT NULL CHECK (place IN ('row','file','redacted')), data BLOB, CHECK ((place = 'row') = (data IS NOT NULL))
) STRICT;
CREATE TABLE memory_blob (
  memory_id INTEGER NOT NULL REFERENCES memory(id), position INTEGER NOT NULL, blob_id INTEGER NOT NULL REFERENCES blob(id),
  media_type TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', PRIMARY KEY (memory_id, position)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE catalogue (                                  -- the tools a request offered, so that the inspector can show them years later
  hash TEXT PRIMARY KEY, tools BLOB NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spend (                                      -- counters, so that a check is one row a scope, not a SUM
  scope TEXT NOT NULL CHECK (scope IN ('turn','mission','mysis','swarm')), scope_id INTEGER NOT NULL, day TEXT NOT NULL,   -- '' = all time, else local date
  reserved_tokens INTEGER NOT NULL DEFAULT 0, used_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_micros INTEGER NOT NULL DEFAULT 0, used_micros INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, warned_at INTEGER,
  PRIMARY KEY (scope, scope_id, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE calibration (
  provider TEXT NOT NULL, model TEXT NOT NULL, ratio REAL NOT NULL, samples INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval (
  id INTEGER PRIMARY KEY AUTOINCREMENT, tool_call_id INTEGER NOT NULL REFERENCES tool_call(id), mysis_id INTEGER NOT NULL REFERENCES mysis(id),
  answer TEXT CHECK (answer IN ('once','session','template','denied','expired')), sentence TEXT NOT NULL DEFAULT '', answered_by TEXT,
  asked_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, answered_at INTEGER
) STRICT;
CREATE INDEX approval_open ON approval(id) WHERE answer IS NULL;
CREATE UNIQUE INDEX approval_call ON approval(tool_call_id) WHERE answer IS NULL;
CREATE TABLE grant_ (                                     -- bound to the upstream and the tool's schema: a changed tool asks again
  id INTEGER PRIMARY KEY AUTOINCREMENT, template TEXT NOT NULL, mysis_id INTEGER REFERENCES mysis(id), session_id INTEGER REFERENCES session(id),
  upstream TEXT NOT NULL DEFAULT '', tool TEXT NOT NULL, schema_hash TEXT NOT NULL DEFAULT '', created_at INTEGER NOT NULL, revoked_at INTEGER
) STRICT;
CREATE INDEX grant_tool ON grant_(tool, template) WHERE revoked_at IS NULL;

CREATE TABLE event (                                      -- durable facts only: state, error, budget, approval, delivery
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id INTEGER REFERENCES mysis(id), kind TEXT NOT NULL, data TEXT NOT NULL CHECK (json_valid(data)), created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_mysis ON event(mysis_id, id);
