"""One word of status for every state, reason, activity and hold."""

from __future__ import annotations

from msgspec.structs import replace

from tests.case_tables import walk_cases
from zoea.ipc.codec import decode, encode
from zoea.model.enums import Activity, MysisState
from zoea.model.status import MEANINGS, StatusWord, next_change_at
from zoea.model.values import Failure, MysisView

IDLE = MysisView(1, "m", "t", "p", "x", MysisState.IDLE, "", 0, Activity.IDLE, None, None, False, ())
RUNNING = replace(IDLE, state=MysisState.RUNNING)
WORKING = replace(RUNNING, in_turn=True, activity=Activity.LLM)
ERRORED = replace(IDLE, state=MysisState.ERRORED, failure=Failure("x", "It failed"))
STOPPED = replace(IDLE, state=MysisState.STOPPED)


@walk_cases(
    ("view", "word"),
    [
        (WORKING, "working"),
        (replace(WORKING, activity=Activity.TOOL), "working"),
        (replace(RUNNING, in_turn=True), "working"),
        (RUNNING, "idle"),
        (IDLE, "idle"),
        (replace(WORKING, queue_place=3, queue_name="ollama"), "queued"),
        (replace(WORKING, queue_place=3, queue_name="ollama", queue_until=9), "waiting"),
        (replace(WORKING, attempt=3, attempts=5, attempt_at=9, attempt_why="429"), "retrying"),
        (replace(ERRORED, retry_at=9), "retrying"),
        (replace(RUNNING, waiting_until=9), "waiting"),
        (replace(RUNNING, in_turn=True, activity=Activity.WAITING), "waiting"),
        (replace(IDLE, retry_at=9, state_reason="nudged 60 times"), "waiting"),
        (replace(RUNNING, approvals=1), "asking"),
        (replace(RUNNING, activity=Activity.ASKING), "asking"),
        (replace(IDLE, state_reason="done"), "done"),
        (replace(IDLE, state_reason="done", pending=1), "idle"),
        (replace(IDLE, state_reason="nothing new"), "idle"),
        (STOPPED, "stopped"),
        (ERRORED, "errored"),
    ],
)
def test_each_situation_has_one_word(view: MysisView, word: str) -> None:
    assert view.status == word


def test_a_hold_hides_what_it_stops_and_nothing_else() -> None:
    waiting = replace(RUNNING, waiting_until=9)
    for view in (WORKING, RUNNING, waiting, replace(ERRORED, retry_at=9), replace(IDLE, pending=1)):
        assert replace(view, swarm_held=True).status is StatusWord.HELD
    for view in (WORKING, RUNNING, waiting, replace(ERRORED, retry_at=9), IDLE):
        assert replace(view, held=True).status is StatusWord.PAUSED
        assert replace(view, held=True, swarm_held=True).status is StatusWord.PAUSED
    for view in (STOPPED, ERRORED, replace(IDLE, state_reason="done"), replace(RUNNING, approvals=1)):
        assert replace(view, held=True, swarm_held=True).status is view.status
    assert replace(IDLE, swarm_held=True).status is StatusWord.IDLE


def test_the_time_of_the_next_change_is_known_where_the_status_promises_one() -> None:
    assert next_change_at(replace(WORKING, attempt_at=7, attempts=5)) == 7
    assert next_change_at(replace(ERRORED, retry_at=8)) == 8
    assert next_change_at(replace(RUNNING, waiting_until=9)) == 9
    assert next_change_at(replace(IDLE, retry_at=6)) == 6
    assert next_change_at(replace(ERRORED, retry_at=8, swarm_held=True)) is None
    assert next_change_at(WORKING) is None


def test_every_word_has_a_meaning_for_the_legend() -> None:
    assert set(MEANINGS) == set(StatusWord)


def test_json_holds_the_status_beside_the_state_and_decoding_leaves_it_out() -> None:
    sent = encode(WORKING)
    assert (sent["state"], sent["status"]) == ("running", "working")
    assert decode(MysisView, sent) == WORKING
