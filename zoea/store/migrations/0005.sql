-- A mysis has a goal and an end (documentation/architecture/turns.md): nudges follow its task, until it reports `zoea_done`.
-- `nothing_new` counts its last nudged turns that called no tool and said nothing new.

ALTER TABLE mysis ADD COLUMN goal TEXT NOT NULL DEFAULT '';
ALTER TABLE mysis ADD COLUMN goal_reached_at INTEGER;
ALTER TABLE mysis ADD COLUMN nothing_new INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN is_task INTEGER NOT NULL DEFAULT 0;   -- 1: the commander gave it as the new task

-- The captains of the sandbox world were nudged without a goal; their stored templates name none, so they keep going on by this.
UPDATE mysis SET goal = 'Play Reef: earn as many credits as you can.'
  WHERE template_hash IN (SELECT hash FROM template WHERE name IN ('reef','miner','scout','trader'));
-- `done` now means that the goal was reached.
UPDATE mysis SET state_reason = 'answered' WHERE state = 'idle' AND state_reason = 'done';
