"""What must hold of a database however its process ended: the invariants I8 and I9, as SQL.

Each query finds what is wrong, so that a broken promise shows itself by its rows.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit_rows import read_commit
from zoea.chain.verification import verify_chains
from zoea.store.database_file import open_reader

ALWAYS = {
    "a taken delivery names one turn of its mysis, and the memory of its message in that turn": """
        SELECT d.id FROM delivery d LEFT JOIN turn t ON t.id = d.turn_id LEFT JOIN memory m ON m.id = d.memory_id
        WHERE d.state = 'taken' AND (t.mysis_id IS NOT d.mysis_id OR m.turn_id IS NOT d.turn_id
          OR m.message_id IS NOT d.message_id OR m.mysis_id IS NOT d.mysis_id OR m.role <> 'user')""",
    "a delivery that no turn took has no memory": """
        SELECT d.id FROM delivery d JOIN memory m ON m.message_id = d.message_id AND m.mysis_id = d.mysis_id
        WHERE d.state <> 'taken'""",
    "no message is two prompts of one mysis": """
        SELECT message_id, mysis_id FROM memory WHERE role = 'user' GROUP BY 1, 2 HAVING count(*) <> 1""",
    "every prompt is of one delivery": """
        SELECT m.id FROM memory m WHERE m.role = 'user'
        AND (SELECT count(*) FROM delivery d WHERE d.memory_id = m.id) <> 1""",
    "messages of topics are taken in the order of the ledger": """
        SELECT mysis_id, number FROM (
          SELECT d.mysis_id, t.number,
            lag(t.number) OVER (PARTITION BY d.mysis_id ORDER BY g.topic_message_id) AS before
          FROM delivery d JOIN message g ON g.id = d.message_id JOIN turn t ON t.id = d.turn_id
          WHERE g.topic_message_id IS NOT NULL) WHERE before >= number""",
    "a message of a topic is the only prompt that opened its turn": """
        SELECT m.turn_id FROM memory m JOIN message g ON g.id = m.message_id
        WHERE g.topic_message_id IS NOT NULL AND m.seq <> 1""",
    "a message of a topic was never delivered to its sender, and only on a topic that its reader subscribes to": """
        SELECT d.id FROM delivery d JOIN message g ON g.id = d.message_id
          JOIN topic_message p ON p.id = g.topic_message_id JOIN mysis y ON y.id = d.mysis_id
          JOIN template f ON f.hash = y.template_hash
        WHERE p.sender_id IS d.mysis_id OR p.topic NOT IN (SELECT value FROM json_each(f.body, '$.subscribes'))""",
    "the newest state snapshot comes after each message that changed the state": """
        SELECT max(id) FROM topic_message WHERE topic = 'WORKER_PROGRESS'
        HAVING max(id) > (SELECT max(id) FROM topic_message WHERE topic = 'STATE_SNAPSHOT')""",
    "one open turn a mysis": """
        SELECT mysis_id FROM turn WHERE outcome IS NULL GROUP BY 1 HAVING count(*) > 1""",
    "the numbers of turns have no gaps": """
        SELECT mysis_id FROM turn GROUP BY 1 HAVING max(number) <> count(*) OR min(number) <> 1""",
    "a closed turn says when, and did not break off": """
        SELECT id FROM turn WHERE (outcome IS NULL) <> (ended_at IS NULL)
          OR (outcome IS NOT NULL AND broke_off IS NOT NULL)""",
    "a turn with prompts was opened by them": """
        SELECT t.id FROM turn t WHERE t.opened_by = 'prompt'
        AND NOT EXISTS (SELECT 1 FROM memory m WHERE m.turn_id = t.id AND m.role = 'user' AND m.seq = 1)""",
    "memories belong to a turn of their mysis": """
        SELECT m.id FROM memory m LEFT JOIN turn t ON t.id = m.turn_id WHERE t.mysis_id IS NOT m.mysis_id""",
    "every call of a closed turn has its result": """
        SELECT c.id, c.state FROM tool_call c JOIN memory m ON m.id = c.memory_id JOIN turn t ON t.id = m.turn_id
        WHERE t.outcome IS NOT NULL AND (c.result_memory_id IS NULL OR c.state IN ('pending', 'approval', 'sent'))""",
    "a call has a result exactly when it is over": """
        SELECT id FROM tool_call WHERE (result_memory_id IS NULL) <> (state IN ('pending', 'approval', 'sent'))""",
    "an answered turn ends with an answer without calls, or in a wait that was asked for": """
        SELECT t.id FROM turn t WHERE t.outcome = 'answered' AND NOT EXISTS (
          SELECT 1 FROM memory m WHERE m.turn_id = t.id AND m.role = 'assistant' AND m.partial = 0
          AND m.seq = (SELECT max(seq) FROM memory WHERE turn_id = t.id)
          AND NOT EXISTS (SELECT 1 FROM tool_call c WHERE c.memory_id = m.id))
        AND NOT EXISTS (SELECT 1 FROM memory m JOIN tool_call c ON c.memory_id = m.id
          WHERE m.turn_id = t.id AND c.name IN ('zoea_wait', 'zoea_done') AND c.state = 'done')""",
    "results stand in the places that their call reserved": """
        SELECT c.id FROM tool_call c JOIN memory a ON a.id = c.memory_id JOIN memory r ON r.id = c.result_memory_id
        WHERE r.turn_id <> a.turn_id OR r.seq <> a.seq + 1 + c.position OR r.role <> 'tool'""",
    "nothing else stands in reserved places": """
        SELECT m.id FROM memory a JOIN memory m ON m.turn_id = a.turn_id AND m.seq > a.seq
          AND m.seq <= a.seq + (SELECT count(*) FROM tool_call c WHERE c.memory_id = a.id)
        WHERE a.role = 'assistant'
          AND NOT EXISTS (SELECT 1 FROM tool_call c WHERE c.memory_id = a.id AND c.result_memory_id = m.id)""",
    "every result is of one call": """
        SELECT m.id FROM memory m WHERE m.role = 'tool'
        AND (SELECT count(*) FROM tool_call c WHERE c.result_memory_id = m.id) <> 1""",
    "one answer a request": """
        SELECT request_id FROM memory WHERE request_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "commits of a mysis cover memories in order, each once": """
        SELECT seq FROM (SELECT seq, mysis_id, first_memory_id,
          lag(last_memory_id) OVER (PARTITION BY mysis_id ORDER BY seq) AS before
          FROM ctx_commit WHERE mysis_id IS NOT NULL AND first_memory_id IS NOT NULL)
        WHERE before >= first_memory_id""",
    "the branch of a mysis names its newest commit": """
        SELECT y.id FROM mysis y JOIN ctx_ref r ON r.name IN ('@' || y.name, 'deleted/' || y.name || '-' || y.id)
        WHERE (y.deleted_at IS NULL) = (r.name LIKE '@%')
        AND r.commit_seq <> (SELECT max(seq) FROM ctx_commit WHERE mysis_id = y.id AND principal = y.name)""",
    "the ref of a thread names its newest commit": """
        SELECT r.name FROM ctx_ref r WHERE r.name LIKE 'thread/%' AND r.commit_seq <>
        (SELECT max(c.seq) FROM ctx_commit c JOIN template p ON p.hash = c.template_hash
         WHERE c.principal <> 'commander' AND 'thread/' || c.thread_id || '/' || p.name = r.name)""",
    "the newest entry of a ref's log is where it is": """
        SELECT name FROM ctx_ref r WHERE commit_seq IS NOT
        (SELECT new FROM ctx_reflog l WHERE l.name = r.name ORDER BY l.id DESC LIMIT 1)""",
    "each entry of a ref's log begins where the one before ended": """
        SELECT id FROM (SELECT id, old, lag(new) OVER (PARTITION BY name ORDER BY id) AS before FROM ctx_reflog)
        WHERE old IS NOT before""",
    "each summary of a window has its commit, and the commit its summary": """
        SELECT s.id, x.commit_seq FROM summary s FULL JOIN ctx_compaction x ON x.summary_id = s.id
        LEFT JOIN ctx_commit c ON c.seq = x.commit_seq
        WHERE (s.id IS NULL OR c.type IS NOT 'compaction' OR c.parent IS NULL)
        -- several ranges that one op stores have one commit, which is of the last of them
        AND NOT EXISTS (SELECT 1 FROM summary l JOIN ctx_compaction y ON y.summary_id = l.id
        WHERE l.mysis_id = s.mysis_id AND l.id > s.id AND l.created_at = s.created_at)""",
    "answered requests are settled": """
        SELECT m.id FROM memory m JOIN request r ON r.id = m.request_id
        WHERE m.partial = 0 AND r.state NOT IN ('settled', 'estimated')""",
    "a request in flight is the newest of its open turn": """
        SELECT r.id FROM request r JOIN turn t ON t.id = r.turn_id WHERE r.state = 'reserved'
        AND (t.outcome IS NOT NULL OR r.id <> (SELECT max(id) FROM request WHERE turn_id = t.id))""",
    "spending of a mysis is the sum of its requests": """
        WITH used AS (SELECT mysis_id, sum(CASE
            WHEN input_tokens IS NOT NULL OR output_tokens IS NOT NULL
              THEN coalesce(input_tokens, 0) + coalesce(output_tokens, 0)
            WHEN state = 'estimated' THEN estimated_tokens ELSE 0 END) AS tokens,
            sum(CASE WHEN state = 'reserved' THEN reserved_tokens ELSE 0 END) AS reserved FROM request GROUP BY 1)
        SELECT y.mysis_id, y.tokens, u.tokens, s.used_tokens, u.reserved, s.reserved_tokens
        FROM tally y LEFT JOIN used u ON u.mysis_id = y.mysis_id
          LEFT JOIN spend s ON s.scope = 'mysis' AND s.scope_id = y.mysis_id AND s.day = ''
        WHERE y.tokens <> coalesce(u.tokens, 0) OR coalesce(s.used_tokens, 0) <> coalesce(u.tokens, 0)
          OR coalesce(s.reserved_tokens, 0) <> coalesce(u.reserved, 0)""",
    "money of a mysis is the sum of its requests": """
        WITH used AS (SELECT mysis_id, sum(coalesce(cost_micros, 0)) AS micros,
            sum(CASE WHEN state = 'reserved' THEN coalesce(reserved_micros, 0) ELSE 0 END) AS reserved
          FROM request GROUP BY 1)
        SELECT u.*, s.used_micros, s.reserved_micros FROM used u
          JOIN spend s ON s.scope = 'mysis' AND s.scope_id = u.mysis_id AND s.day = ''
        WHERE s.used_micros <> u.micros OR s.reserved_micros <> u.reserved""",
    "spending of a message's total is the sum of the requests of its turns": """
        WITH used AS (SELECT t.frozen ->> 'mission_id' AS mission, sum(CASE
            WHEN q.input_tokens IS NOT NULL OR q.output_tokens IS NOT NULL
              THEN coalesce(q.input_tokens, 0) + coalesce(q.output_tokens, 0)
            WHEN q.state = 'estimated' THEN q.estimated_tokens ELSE 0 END) AS tokens,
            sum(CASE WHEN q.state = 'reserved' THEN q.reserved_tokens ELSE 0 END) AS reserved
          FROM request q JOIN turn t ON t.id = q.turn_id WHERE q.state <> 'refused' GROUP BY 1)
        SELECT u.*, s.used_tokens, s.reserved_tokens FROM used u
          LEFT JOIN spend s ON s.scope = 'mission' AND s.scope_id = u.mission
        WHERE u.mission IS NOT NULL
          AND (coalesce(s.used_tokens, 0) <> u.tokens OR coalesce(s.reserved_tokens, 0) <> u.reserved)""",
    "spending of the swarm is that of its myses": """
        SELECT 1 WHERE (SELECT coalesce(sum(used_tokens), 0) FROM spend WHERE scope = 'swarm')
          <> (SELECT coalesce(sum(used_tokens), 0) FROM spend WHERE scope = 'mysis')
        OR (SELECT coalesce(sum(reserved_tokens), 0) FROM spend WHERE scope = 'swarm')
          <> (SELECT coalesce(sum(reserved_tokens), 0) FROM spend WHERE scope = 'mysis')""",
    "tallies count what is there": """
        SELECT y.mysis_id FROM tally y WHERE
          y.turns <> (SELECT count(*) FROM turn t WHERE t.mysis_id = y.mysis_id)
          OR y.requests <> (SELECT count(*) FROM request r WHERE r.mysis_id = y.mysis_id AND r.purpose = 'turn')
          OR y.tool_calls <> (SELECT count(*) FROM tool_call c JOIN memory m ON m.id = c.memory_id
                              WHERE m.mysis_id = y.mysis_id)
          OR y.errors <> (SELECT count(*) FROM tool_call c JOIN memory m ON m.id = c.memory_id
                          WHERE m.mysis_id = y.mysis_id AND c.result_memory_id IS NOT NULL AND c.state <> 'done')
            + (SELECT count(*) FROM request r WHERE r.mysis_id = y.mysis_id AND r.state = 'released'
                AND r.error_class IS NOT 'cancelled')
            + (SELECT count(*) FROM turn t WHERE t.mysis_id = y.mysis_id AND t.outcome IN ('failed', 'timeout'))""",
    "a session is open exactly while its mysis runs": """
        SELECT y.id FROM mysis y WHERE (y.state = 'running')
        <> ((SELECT count(*) FROM session s WHERE s.mysis_id = y.id AND s.ended_at IS NULL) = 1)""",
    "an approval that waits is of a call that waits": """
        SELECT a.id FROM approval a JOIN tool_call c ON c.id = a.tool_call_id
        WHERE a.answer IS NULL AND c.state <> 'approval'""",
    "a question on a budget that waits is of an open turn": """
        SELECT a.id FROM approval a JOIN turn t ON t.id = a.turn_id
        WHERE a.answer IS NULL AND t.outcome IS NOT NULL""",
    "state changes are told": """
        SELECT y.id, y.state FROM mysis y WHERE y.state_at > y.created_at AND y.state <> (
          SELECT e.data ->> 'state' FROM event e WHERE e.mysis_id = y.id AND e.kind = 'mysis.state'
          ORDER BY e.id DESC LIMIT 1)""",
    "who is stopped waits for nothing": """
        SELECT id, wait FROM mysis WHERE wait IS NOT NULL AND state = 'stopped'""",
    "a wait is of a turn that was answered, and outlasts nothing but nudges": """
        SELECT y.id, y.wait FROM mysis y WHERE y.wait IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM turn t WHERE t.mysis_id = y.id AND t.outcome = 'answered' AND NOT EXISTS (
            SELECT 1 FROM turn n WHERE n.mysis_id = y.id AND n.number > t.number
            AND EXISTS (SELECT 1 FROM delivery d WHERE d.turn_id = n.id)))""",
    "an answer after zoea_wait waits, unless something came since": """
        SELECT y.id, t.id FROM mysis y JOIN turn t ON t.mysis_id = y.id
          AND t.number = (SELECT max(number) FROM turn WHERE mysis_id = y.id)
        JOIN memory m ON m.turn_id = t.id JOIN tool_call c ON c.memory_id = m.id
        WHERE c.name = 'zoea_wait' AND c.state = 'done' AND t.outcome = 'answered' AND y.wait IS NULL
          AND y.state = 'running' AND y.state_at < t.ended_at
          AND m.seq = (SELECT max(seq) FROM memory WHERE turn_id = t.id AND id IN (SELECT memory_id FROM tool_call))
          AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.mysis_id = y.id
                          AND (d.state = 'pending' OR d.created_at >= t.opened_at))""",
    "nudges in vain are counted from the one that was sent last": """
        SELECT y.id, y.encouragement, t.nudge_level, t.outcome FROM mysis y LEFT JOIN turn t ON t.mysis_id = y.id
          AND t.number = (SELECT max(number) FROM turn WHERE mysis_id = y.id)
        WHERE y.encouragement <> 0 AND (t.id IS NULL OR t.opened_by <> 'nudge' OR y.encouragement <> t.nudge_level)""",
    "a nudge that is open counts, unless something was said since": """
        SELECT y.id, y.encouragement, t.nudge_level FROM mysis y JOIN turn t ON t.mysis_id = y.id
        WHERE t.outcome IS NULL AND t.broke_off IS NULL AND t.opened_by = 'nudge' AND y.state = 'running'
          AND y.state_at <= t.opened_at AND y.encouragement <> t.nudge_level
          AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.mysis_id = y.id AND d.created_at >= t.opened_at)""",
    "who went in circles, or failed for good, runs no more": """
        SELECT y.id, t.id, t.outcome FROM mysis y JOIN turn t ON t.mysis_id = y.id
          AND t.number = (SELECT max(number) FROM turn WHERE mysis_id = y.id)
        WHERE t.outcome IN ('loop', 'failed') AND y.state = 'running' AND y.state_at < t.ended_at""",
    "turns that ended are told once": """
        SELECT id FROM turn WHERE outcome IS NOT NULL
        EXCEPT SELECT data ->> 'turn' FROM event WHERE kind = 'turn.ended' GROUP BY 1 HAVING count(*) = 1""",
    "deliveries that were taken are told once": """
        SELECT id FROM delivery WHERE state = 'taken'
        EXCEPT SELECT data ->> 'delivery' FROM event WHERE kind = 'delivery.taken' GROUP BY 1 HAVING count(*) = 1""",
}

AFTER_START = {
    "only started myses run": """
        SELECT id FROM mysis WHERE state = 'running' AND state_reason = 'Zoea was closed'""",
    "an open turn stands still for a reason": """
        SELECT t.id FROM turn t JOIN mysis y ON y.id = t.mysis_id
        WHERE t.outcome IS NULL AND t.broke_off IS NULL AND y.state <> 'running'""",
    "what a dead process had in flight is paid for": """
        SELECT r.id FROM request r JOIN mysis y ON y.id = r.mysis_id
        WHERE r.state = 'reserved' AND y.state <> 'running'""",
}

AT_REST = {
    **AFTER_START,
    "who can answer has nothing left to answer": """
        SELECT d.id, d.mysis_id FROM delivery d JOIN mysis y ON y.id = d.mysis_id
        WHERE d.state = 'pending' AND y.deleted_at IS NULL AND y.state IN ('idle', 'running')""",
    "who can work has no turn left open": """
        SELECT t.id, t.mysis_id FROM turn t JOIN mysis y ON y.id = t.mysis_id
        WHERE t.outcome IS NULL AND y.deleted_at IS NULL AND y.state IN ('idle', 'running')""",
    "nothing is reserved": "SELECT id FROM request WHERE state = 'reserved'",
}


def check(path: Path, checks: dict[str, str]) -> None:
    """Raises AssertionError that names each broken promise, with the first rows that break it."""
    with closing(open_reader(path)) as connection:
        found = {promise: [tuple(r) for r in connection.execute(sql).fetchmany(5)] for promise, sql in checks.items()}
    broken = [f"not so: {promise}: {rows}" for promise, rows in found.items() if rows]
    if broken:
        raise AssertionError("\n".join(broken))


WHOLE = {
    "the file is whole": "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
    "rows name rows that are there": "SELECT * FROM pragma_foreign_key_check",
}


def always(path: Path) -> None:
    """After any end of any process, where all providers are metered: the file is whole, and every promise holds."""
    check(path, {**WHOLE, **ALWAYS})


def after_start(path: Path) -> None:
    """When a swarm was just opened on it, or closed."""
    check(path, AFTER_START)


def at_rest(path: Path) -> None:
    """When a swarm had all the time it wanted, and was closed."""
    check(path, {**WHOLE, **ALWAYS, **AT_REST})


def contexts(path: Path) -> int:
    """Check that each mysis's commits hold its memories in order and can be read.

    Return how many do.
    """
    found = 0
    with closing(open_reader(path)) as connection:
        assert list(verify_chains(connection)) == []
        for mysis_id, tip, first in connection.execute(
            "SELECT mysis_id, max(seq), min(iif(type = 'delta', seq, NULL)) AS first FROM ctx_commit"
            " WHERE mysis_id IS NOT NULL AND principal <> 'commander' GROUP BY 1 HAVING first IS NOT NULL"
        ).fetchall():
            commit = read_commit(connection, tip)
            begin = read_commit(connection, first)  # before it is what it was made from
            assert commit is not None
            entries = ChainReader(connection).read_messages(commit, stop=begin)
            known = [(str(one.role), one.content) for one in entries if not one.is_synthetic]
            stored = connection.execute(
                "SELECT m.role, m.content FROM memory m JOIN turn t ON t.id = m.turn_id WHERE m.mysis_id = ?"
                " ORDER BY t.number, m.seq",
                (mysis_id,),
            ).fetchall()
            assert _sort_results(known) == _sort_results(list(map(tuple, stored)))
            found += 1
    return found


def compactions(path: Path) -> tuple[int, int]:
    """Count the summaries of windows that are commits, and the compactions that a model wrote."""
    with closing(open_reader(path)) as connection:
        windows = connection.execute("SELECT count(*) FROM ctx_compaction").fetchone()[0]
        sql = "SELECT count(*) FROM ctx_commit c JOIN ctx_note n ON n.commit_seq = c.seq"
        written = connection.execute(f"{sql} WHERE c.type = 'compaction' AND n.model <> ''").fetchone()[0]
    return windows, written


def _sort_results(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort the results of each answer: a kill may put those of one answer into two commits, as they arrived."""
    number, keyed = 0, []
    for role, content in messages:
        number += role != "tool"
        keyed.append((number, role == "tool", content if role == "tool" else "", role, content))
    return [(role, content) for *_, role, content in sorted(keyed)]
