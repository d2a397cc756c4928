"""One block says what happened, since when, what Zoea does and what to do."""

from __future__ import annotations

from msgspec.structs import replace

from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, MysisView
from zoea.queries.error_report import report_error

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
FAILURE = Failure("ProviderError", "The provider failed", "ollama answered 500: busy", "look at its log")
ERRORED = MysisView(
    1, "m", "t", "ollama", "x", MysisState.ERRORED, "", NOW - 90 * SECOND, Activity.IDLE, FAILURE, None, False, ()
)  # fmt: skip


def plan(view: MysisView) -> str:
    found = report_error(view, NOW)
    assert found is not None
    return found.plan


def test_an_error_says_all_four_parts() -> None:
    found = report_error(ERRORED, NOW)
    assert found is not None
    assert (found.what, found.title) == ("ollama answered 500: busy", "The provider failed")
    assert found.since.startswith("since ")
    assert found.since.endswith("(1 min)")
    assert (found.plan, found.advice) == ("Zoea does not try again by itself", "Look at its log")


def test_the_plan_follows_the_retry_and_the_holds() -> None:
    retried = replace(ERRORED, retry_at=NOW + 27 * SECOND, retry_count=2)
    assert plan(retried) == "Zoea tries again in 27 s, 2nd retry"
    assert plan(replace(retried, held=True)) == "Zoea tries again when you resume this mysis"
    assert plan(replace(retried, swarm_held=True)) == "Zoea tries again when the hold is lifted"


def test_a_stored_promise_of_a_retry_is_not_repeated() -> None:
    def advice(hint: str) -> str:
        found = report_error(replace(ERRORED, failure=replace(FAILURE, hint=hint)), NOW)
        assert found is not None
        return found.advice

    assert advice("Zoea tries again by itself.") == ""
    assert advice("Check that it runs; Zoea tries again by itself.") == "Check that it runs."


def test_a_mysis_that_runs_again_has_no_report() -> None:
    assert report_error(replace(ERRORED, state=MysisState.RUNNING), NOW) is None
    assert report_error(replace(ERRORED, failure=None), NOW) is None
