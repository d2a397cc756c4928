"""A run cut after any acknowledged op goes on with the uncut run's requests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.faults import database_checker
from tests.faults.restartable_mysis import Cut, Request, Story, call, live
from zoea.model.enums import CALL_TOOL, FIND_TOOL, DeliveryMode, ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall
from zoea.swarm.persistence.restore import MAY_HAVE_RUN, NEVER_RAN

OPENING = 2  # op of each life before anything can be commanded
LOST = {"pending": NEVER_RAN, "sent": MAY_HAVE_RUN}
AT_ONCE, AFTERWARDS, BY_TURNS = "at once", "after what followed was begun", "by turns"
SILENCES = (AT_ONCE, AFTERWARDS) if os.environ.get("ZOEA_SOAK") else (BY_TURNS,)
EVERY = 1 if os.environ.get("ZOEA_SOAK") else 5
"""The quick run cuts each story after every fifth op, and begins in each at another one.

The number is odd, so that in a story both callers that hear of the last op and such that do not are cut off.
"""
RARE = ("read_state", "MysisCommands.hold", "MysisCommands.dismiss", "ApprovalCommands.answer")
"""Ops that few stories have. Each story is cut after the first of each; the others are in most stories."""


def is_silent(silence: str, op: int) -> bool:
    """Return whether the caller never hears of the last op. In the quick run that holds for every other one."""
    return silence == AT_ONCE or (silence == BY_TURNS and op % 2 == 0)


def choose_cuts(ops: list[str], first: int) -> list[int]:
    """Return the numbers of the ops after which a story is cut. Ops count from one."""
    rare = {name: place for place, op in reversed([*enumerate(ops, 1)]) for name in RARE if op.startswith(name)}
    return sorted({*range(first, len(ops) + 1, EVERY), *rare.values()})


def broken(kind: ErrorClass, retry_after: float | None = None) -> ProviderError:
    return ProviderError("the script says so", kind=kind, retry_after=retry_after)


def rounds(*names: str) -> tuple[Answer, ...]:
    return tuple(Answer(text=f"round {name}", calls=(call("act", name),)) for name in names)


def by_need(name: str, text: str) -> AnswerCall:
    return AnswerCall(CALL_TOOL, json.dumps({"name": name, "arguments": {"text": text}}))


STORIES = {
    "two prompts with tools": Story(
        ("first", "second"), (*rounds("one", "two"), Answer(text="done"), *rounds("three"), Answer(text="done again"))
    ),
    "parallel and sequential calls in one message": Story(
        ("go",),
        (
            Answer(calls=(call("look", "a"), call("look", "b"), call("act", "c"), call("act", "d"), call("look", "e"))),
            Answer(text="seen"),
        ),
    ),
    "a steer while a tool runs": Story(
        ("go",),
        (*rounds("one", "two", "three"), Answer(text="as you wish")),
        during={"two": ("turn left", DeliveryMode.STEER)},
    ),
    "a hold that keeps calls back": Story(
        ("go",),
        (Answer(calls=(call("look", "a"), call("act", "b"), call("act", "c"))), *rounds("one"), Answer(text="done")),
        held_at="a",
    ),
    "a hold that keeps a request back, where a steer joins it": Story(
        ("go",),
        (*rounds("one", "two"), Answer(text="done")),
        during={"one": ("turn left", DeliveryMode.STEER)},
        held_at="one",
    ),
    "a message that waits for the next turn": Story(
        ("go",),
        (*rounds("one"), Answer(text="done"), *rounds("two"), Answer(text="that too")),
        during={"one": ("and then this", DeliveryMode.QUEUE)},
    ),
    "an interrupt while a tool runs": Story(
        ("go",),
        (*rounds("one"), *rounds("two"), Answer(text="stopped at once")),
        during={"one": ("no, that", DeliveryMode.INTERRUPT)},
    ),
    "the note of the loop guard, then the end": Story(
        ("go",), tuple(Answer(calls=(call("act", "same"),)) for _ in range(6)), counts_results=True
    ),
    "an empty answer, asked for again": Story(("go",), (Answer(), Answer(text="sorry"))),
    "two empty answers": Story(("go", "still there?"), (Answer(), Answer(), Answer(text="yes"))),
    "empty, then calls, then empty": Story(("go",), (Answer(), *rounds("one"), Answer(), Answer(text="so"))),
    "failures that pass": Story(
        ("go",),
        (
            broken(ErrorClass.TRANSIENT),
            broken(ErrorClass.TRANSIENT, 2.0),
            *rounds("one"),
            broken(ErrorClass.TRANSIENT),
            Answer(text="there"),
        ),
    ),
    "failures that outlast the retries, and the recovery": Story(
        ("go",),
        (*(broken(ErrorClass.TRANSIENT) for _ in range(4)), *rounds("one"), Answer(text="there")),
        settings={"llm": {"retries": 2}},
    ),
    "a failure that would repeat": Story(("go",), (*rounds("one"), broken(ErrorClass.BAD_REQUEST))),
    "a context that is too long": Story(
        ("go",),
        (*rounds("x" * 3000, "y" * 3000), broken(ErrorClass.CONTEXT_LENGTH), *rounds("one"), Answer(text="fits")),
        settings={"budget": {"token_budget_per_agent": 5500, "max_output_tokens": 500}},
        counts_results=True,
    ),
    "a context that stays too long": Story(
        ("go",), (broken(ErrorClass.CONTEXT_LENGTH), broken(ErrorClass.CONTEXT_LENGTH))
    ),
    "a call that asks, between calls that do not": Story(
        ("go",), (Answer(calls=(call("look", "a"), call("burn", "b"), call("act", "c"))), Answer(text="burnt"))
    ),
    "calls that cannot run": Story(
        ("go",), (Answer(calls=(call("nothing", "a"), call("act", "b"))), Answer(text="well"))
    ),
    "tools that are found and called by need": Story(
        ("go", "on"),
        (
            Answer(calls=(AnswerCall(FIND_TOOL, '{"query": "act"}'),)),
            Answer(calls=(by_need("look", "a"), by_need("burn", "b"), by_need("act", "c"))),
            Answer(text="done"),
            Answer(calls=(call("act", "d"), by_need("nothing", "e"))),
            Answer(text="well"),
        ),
        settings={"tool": {"show": "search"}},
    ),
    "the last round": Story(("go",), rounds("one", "two"), settings={"turn": {"max_iterations": 2}}),
}


def with_losses(request: Request, cut: Cut) -> Request:
    """Return a request of the uncut run with the calls lost at the cut."""
    return tuple(
        (message[0], LOST[cut.open_calls[message[2]]], *message[2:]) if message[2] in cut.open_calls else message
        for message in request
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("name", STORIES)
async def test_a_cut_after_any_acknowledged_op_changes_no_request_that_follows(
    tmp_path: Path, name: str, silence: str
) -> None:
    story = STORIES[name]
    whole = await live(tmp_path / "whole", story)
    database_checker.at_rest(tmp_path / "whole" / "zoea.db")
    assert len(whole.requests) == len(story.replies) or story.counts_results
    first = OPENING + 1 + list(STORIES).index(name) % EVERY
    for last in choose_cuts(whole.ops, first):
        folder = tmp_path / f"cut-{last}"
        path = folder / "zoea.db"
        before = await live(folder, story, last=last, silent=is_silent(silence, last))
        database_checker.always(path)
        cut = Cut.of(path)
        assert before.requests == whole.requests[: len(before.requests)], f"cut after op {last}"
        after = await live(folder, story, consumed=cut.consumed, life=1)
        database_checker.at_rest(path)
        expected = [with_losses(request, cut) for request in whole.requests[cut.consumed :]]
        if not (story.counts_results and cut.open_calls):
            assert after.requests == expected, f"cut after op {last}"
