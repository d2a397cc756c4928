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
