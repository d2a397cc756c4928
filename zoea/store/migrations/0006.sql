-- The result of a call that was on its way when its turn was stopped (documentation/architecture/turns.md). The call's own
-- result says `unknown` and stays; this is shown beside it, and told to the next turn in a note.

CREATE TABLE late_result (
  tool_call_id INTEGER PRIMARY KEY REFERENCES tool_call(id), content TEXT NOT NULL, is_error INTEGER NOT NULL,
  arrived_at INTEGER NOT NULL, told_in_turn INTEGER REFERENCES turn(id)
) STRICT;
CREATE INDEX late_result_untold ON late_result(tool_call_id) WHERE told_in_turn IS NULL;
CREATE INDEX late_result_told ON late_result(told_in_turn) WHERE told_in_turn IS NOT NULL;
