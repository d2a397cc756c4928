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

ALTER TABLE message ADD COLUMN topic_message_id INTEGER REFERENCES topic_message(id);
CREATE INDEX message_topic ON message(topic_message_id) WHERE topic_message_id IS NOT NULL;
