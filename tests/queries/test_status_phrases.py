"""The words beside a status."""

from __future__ import annotations

from msgspec.structs import replace

from tests.case_tables import walk_cases
from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, MysisView
from zoea.queries.status_phrases import describe_status, format_span, ordinal

SECOND = 1_000_000
NOW = 10_000 * SECOND
IDLE = MysisView(1, "m", "t", "p", "x", MysisState.IDLE, "", 0, Activity.IDLE, None, None, False, ())
RUNNING = replace(IDLE, state=MysisState.RUNNING, in_turn=True)
ERRORED = replace(IDLE, state=MysisState.ERRORED, failure=Failure("x", "The provider failed", "429 from ollama"))
SOON = NOW + 8 * SECOND


@walk_cases(
    ("view", "said"),
    [
        (RUNNING, "working"),
        (replace(RUNNING, queue_place=3, queue_name="ollama"), "queued (3rd for ollama)"),
        (
            replace(RUNNING, queue_place=1, queue_name="ollama", queue_why="2 requests are under way"),
            "queued (1st for ollama: 2 requests are under way)",
        ),
        (
            replace(RUNNING, queue_place=1, queue_name="fake", queue_why="rate limit of fake/bad", queue_until=SOON),
            "waiting (rate limit of fake/bad, 8 s left)",
        ),
        (
            replace(RUNNING, attempt=3, attempts=5, attempt_at=SOON, attempt_why="429"),
            "retrying (3/5 in 8 s: 429 too many requests)",
        ),
        (replace(ERRORED, retry_at=SOON, retry_count=2), "retrying (2nd retry in 8 s: 429 from ollama)"),
        (ERRORED, "errored: 429 from ollama"),
        (replace(RUNNING, waiting_until=SOON, waiting_for="arrival_tick 12"), "waiting (arrives at tick 12, 8 s left)"),
        (replace(RUNNING, held=True), "paused"),
        (replace(RUNNING, held=True, activity=Activity.LLM), "paused: the call under way finishes first"),
        (replace(RUNNING, held=True, held_reason="lunch\x1b[2J"), "paused: lunch\\u001b[2J"),
        (
            replace(RUNNING, held=True, held_reason="lunch", activity=Activity.TOOL),
            "paused: lunch; the call under way finishes first",
        ),
        (replace(RUNNING, swarm_held=True), "held"),
        (replace(IDLE, state=MysisState.STOPPED, state_reason="you stopped it"), "stopped: you stopped it"),
        (replace(IDLE, state=MysisState.STOPPED, state_reason="loop"), "stopped: it repeated itself"),
        (replace(RUNNING, in_turn=False), "idle: Zoea reminds it of its task soon"),
        (replace(RUNNING, in_turn=False, is_at_rest=True), "idle"),
        (replace(RUNNING, in_turn=False, pending=1), "idle"),
        (replace(IDLE, state_reason="done"), "done: review its result"),
        (replace(IDLE, state_reason="done", is_reviewed=True), "done: reviewed"),
        (replace(IDLE, state_reason="Zoea was killed"), "idle: Zoea was killed"),
    ],
)
def test_a_status_says_place_time_and_cause(view: MysisView, said: str) -> None:
    assert describe_status(view, NOW) == said


def test_numbers_and_times_are_written_as_people_say_them() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th",
    ]  # fmt: skip
    assert [format_span(seconds * SECOND) for seconds in (-3, 8, 125, 7200, 200_000)] == [
        "0 s", "8 s", "2 min", "2 h", "2 d",
    ]  # fmt: skip
