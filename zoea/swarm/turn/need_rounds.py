"""Answers the needs of a turn in rounds, before its first plan.

Rows are read from the store. An `OutsideNeed` is answered by the reader registered for its class in `READERS`,
once in the life of a turn: the first reservation stores the answer in `turn_answer`, before anything is sent, and
after a restart it is read from there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from zoea.context import (
    MAX_ROUNDS,
    CriteriaHints,
    EarlierTurns,
    FrozenTurn,
    InheritedContext,
    MemoriesById,
    Need,
    NeedAnswer,
    OutsideNeed,
    Recall,
    ShownConversation,
    SourceMessages,
    StoredAnswer,
    missing_needs,
)
from zoea.context.past_packs import hit_ids
from zoea.model.enums import Role
from zoea.model.errors import PlanError, StoreError
from zoea.model.values import Memory
from zoea.store.search import find_related
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.inherited_context import begin_inherited, read_inherited
from zoea.swarm.persistence import turn_ops, turn_records
from zoea.swarm.services import Services
from zoea.swarm.turn.source_stage import read_criteria_hints, read_source_messages
from zoea.swarm.turn.summary_stage import OpenedTurnFacts, SummaryStage
from zoea.swarm.turn.window_stage import read_conversation_view

RECALL_S = 0.1
"""The longest search for related memories, because each first request of a turn waits for it."""
NeedReader = Callable[[OpenedTurnFacts, Any], Awaitable[StoredAnswer | None]]
"""Answers one class of needs. It has a deadline of its own, and an answer for every failure that may happen.

None means that a model has to write a part of the summary first (`OpenedTurnFacts.summaries`).
"""


async def recall(facts: OpenedTurnFacts, need: Recall) -> StoredAnswer:
    """Search the older memories of the mysis for the words of the prompts, within `RECALL_S`."""
    text = "\n".join(prompt.content for prompt in facts.prompts)
    try:
        async with asyncio.timeout(RECALL_S), facts.services.store.search_reader() as reader:
            hits = await reader.run(
                lambda connection: find_related(
                    connection, facts.frozen.mysis_id, text, need.before, need.items, need.shown
                )
            )
    except (TimeoutError, StoreError):
        return StoredAnswer.of({"hits": [], "late": True})
    return StoredAnswer.of({"hits": [list(hit) for hit in hits], "late": False})


READERS: dict[type[OutsideNeed], NeedReader] = {
    Recall: recall,
    ShownConversation: read_conversation_view,
    SourceMessages: read_source_messages,
    CriteriaHints: read_criteria_hints,
}


class AnsweredNeeds(Struct, frozen=True):
    """The answers to all needs of a turn.

    Attributes:
        store: Stores the new answers of readers, and reports recalled memories; None where there are none.
    """

    before: turn_records.BeforeTurn
    store: Callable[[WriterConnection], None] | None


async def answer_needs(
    services: Services,
    frozen: FrozenTurn,
    memories: Sequence[Memory],
    known: turn_records.BeforeTurn | None,
    summaries: SummaryStage,
    capture: CommitCapture,
) -> AnsweredNeeds | None:
    """Return the answers to all that the turn's strategy wants. `known` are already there.

    None where a model has to write a part of a summary first, which `summaries` then wants.

    Args:
        memories: Those of the turn, in conversation order.
        known: What the op that opened the turn read; None where the turn is resumed, which may have stored answers.

    Raises:
        PlanError: The strategy wants something new after `MAX_ROUNDS` rounds, or no reader knows a need.
    """
    prompts = tuple(itertools.takewhile(lambda memory: memory.role is Role.USER, memories))
    facts = OpenedTurnFacts(services, frozen, prompts, summaries, capture)
    stored: Mapping[str, str] = {}
    if known is None:
        stored = await turn_records.read_answers(services.store, frozen.turn_id)
        known = await turn_records.read_before_turn(services.store, frozen.mysis_id, missing_needs(frozen))
    answers: dict[Any, NeedAnswer] = dict(known.answers)
    new: dict[str, str] = {}
    recalled = 0
    for _ in range(MAX_ROUNDS):
        wanted = missing_needs(frozen, answers)
        if not wanted:
            break
        for need in wanted:
            if not isinstance(need, OutsideNeed):
                rows = await _read_rows(facts, need)
                if rows is None:
                    return None
                answers |= rows
            elif need.key in stored:
                answers[need] = StoredAnswer(stored[need.key])
            elif (answer := await _reader_of(need)(facts, need)) is None:
                return None
            else:
                answers[need], new[need.key] = answer, answer.text
                recalled += len(hit_ids(answer)) if isinstance(need, Recall) else 0
    else:
        wanted = missing_needs(frozen, answers)
    if wanted:
        raise PlanError(
            f"The strategy {frozen.strategy} still wants {type(wanted[0]).__name__} after {MAX_ROUNDS} rounds.",
            hint="This is a defect of Zoea: report it with zoea.log; `zoea config path` says where it is.",
        )
    store = partial(_store, frozen=frozen, answers=new, recalled=recalled) if new else None
    return AnsweredNeeds(turn_records.BeforeTurn(answers, known.calls, known.texts), store)


async def _read_rows(facts: OpenedTurnFacts, need: Need) -> Mapping[Need, NeedAnswer] | None:
    """Return the rows that a need names, also where the turn is resumed.

    None where a model has to write a part of a summary first.
    """
    services, frozen = facts.services, facts.frozen
    match need:
        case EarlierTurns():
            return {need: await turn_records.read_earlier(services.store, need)}
        case InheritedContext():
            if frozen.turn_number == frozen.inherited_turn + 1:
                begun = await begin_inherited(services, facts.capture, need, facts.summaries)
                return None if begun is None else {need: begun}
            return {need: await read_inherited(services.store, need, frozen.mysis_id)}
        case MemoriesById():
            return {need: await turn_records.read_by_id(services.store, need)}
        case _:
            return (await turn_records.read_before_turn(services.store, frozen.mysis_id, (need,))).answers


def _reader_of(need: OutsideNeed) -> NeedReader:
    reader = READERS.get(type(need))
    if reader is None:
        raise PlanError(
            f"Nothing answers the need {type(need).__name__}.",
            hint="This is a defect of Zoea: report it with zoea.log; `zoea config path` says where it is.",
        )
    return reader


def _store(conn: WriterConnection, frozen: FrozenTurn, answers: Mapping[str, str], recalled: int) -> None:
    turn_ops.store_answers(conn, frozen.turn_id, answers)
    if recalled:
        conn.emit("context.recalled", frozen.mysis_id, turn=frozen.turn_id, items=recalled)
