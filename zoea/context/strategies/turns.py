"""The strategy `turns`: the current turn, and the parts of the past it needs.

Order of packs: system prompt, inherited conversation, earlier turns, standing order, latest slice, last answer,
situation, recall.
"""

from __future__ import annotations

from collections.abc import Mapping

from zoea.context.forms import BARE, ORDER, Form, FormKind, data_block, note_message, render_memories, render_memory
from zoea.context.frozen_turn import FrozenTurn
from zoea.context.inherited_pack import inherited_needs, inherited_pack
from zoea.context.needs import LastAnswer, LatestSlice, MemoriesById, Need, NeedAnswer, StandingOrder, TurnSoFar
from zoea.context.past_packs import (
    earlier_need,
    earlier_pack,
    hit_ids,
    is_shown_earlier,
    memories_of,
    past_form,
    recall_need,
    recall_pack,
    rows_of,
)
from zoea.context.plan_values import Pack, Priority
from zoea.context.turn_packs import first_form
from zoea.context.units import latest_slice
from zoea.model.enums import Role
from zoea.model.values import Memory

SAID_COMPACT = 400
HISTORY_COMPACT = 1000
SITUATION_COMPACT = 200


def needs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Need, ...]:
    """Return the reads: turn, latest slice, last answer, and the standing order if nudged.

    A turn that a message opened may want earlier turns too; once it is known what these show, hits of a search
    among what is older; and then the memories that were hit.
    """
    wanted: list[Need] = [TurnSoFar(frozen.turn_id), *inherited_needs(frozen)]
    if frozen.before:
        wanted.append(LatestSlice(frozen.before, frozen.scan_window))
        if frozen.keep_answer:
            wanted.append(LastAnswer(frozen.before))
        if frozen.is_nudged:
            wanted.append(StandingOrder(frozen.before))
    if frozen.earlier:
        wanted.append(earlier_need(frozen))
    if frozen.recall_items and all(need in answers for need in wanted if not isinstance(need, TurnSoFar)):
        shown = [one.id for one in (*_find_history(frozen, answers), *_find_said(frozen, answers))]
        recall = recall_need(frozen, answers, shown)
        wanted.append(recall)
        if (recalled := answers.get(recall)) is not None and (hits := hit_ids(recalled)):
            wanted.append(MemoriesById(hits))
    return tuple(wanted)


def packs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Pack, ...]:
    """Return the packs before the turn, in order."""
    system = Pack("system", "system", Priority.REQUIRED, frozen.system, preserve=True)
    made = [
        system,
        inherited_pack(frozen, answers),
        earlier_pack(frozen, answers),
        order_pack(frozen, answers),
        _history(frozen, answers),
        _said(frozen, answers),
        situation_pack(frozen),
        recall_pack(frozen, answers),
    ]
    return tuple(pack for pack in made if pack is not None)


def order_pack(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    """Return the standing order for a nudged turn, which has no prompt of its own."""
    if not frozen.is_nudged:
        return None
    memories = memories_of(frozen, answers, StandingOrder(frozen.before)) if frozen.before else ()
    prompt = max((one for one in memories if one.role is Role.USER), key=lambda one: one.id, default=None)
    if prompt is None:
        return Pack("order", "order", Priority.REQUIRED, (), preserve=True)
    full = (render_memory(prompt, ORDER),)
    return Pack("order", "order", Priority.REQUIRED, full, preserve=True, full_forms={prompt.id: ORDER})


def _find_history(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Memory, ...]:
    """Return the latest slice, unless an earlier turn shows it."""
    window = frozen.scan_window
    rows = rows_of(answers, LatestSlice(frozen.before, window)) if frozen.before else ()
    unit = latest_slice((one for one in rows if frozen.inherited_upto < one.id <= frozen.before), window)
    if unit is None or is_shown_earlier(frozen, unit.memories[0].turn_id, whole=True):
        return ()
    return unit.memories


def _history(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack:
    memories = _find_history(frozen, answers)
    if not memories:
        return Pack("history", "history", Priority.HIGH, ())
    full = {memory.id: past_form(memory, frozen.max_result_chars) for memory in memories}
    least = min(HISTORY_COMPACT, frozen.max_result_chars)
    compact = {memory.id: _elided_form(memory, least) for memory in memories}
    shown = render_memories(memories, compact)
    full_shown = render_memories(memories, full)
    return Pack(
        "history",
        "history",
        Priority.HIGH,
        full_shown,
        shown if shown != full_shown else None,
        full_forms=full,
        compact_forms=compact,
    )


def _find_said(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Memory, ...]:
    """Return the final answer of the previous turn, unless an earlier turn shows it."""
    rows = rows_of(answers, LastAnswer(frozen.before)) if frozen.before and frozen.keep_answer else ()
    finals = [one for one in rows if _is_final(one, frozen) and one.id > frozen.inherited_upto][-1:]
    return () if not finals or is_shown_earlier(frozen, finals[0].turn_id) else tuple(finals)


def _said(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    """Return the final answer of the previous turn, which may hold the mysis's intentions."""
    if not frozen.keep_answer:
        return None
    found = _find_said(frozen, answers)
    if not found:
        return Pack("said", "said", Priority.MEDIUM, ())
    answer = found[0]
    tail = Form(FormKind.TAIL, SAID_COMPACT)
    compact = (render_memory(answer, tail),) if len(answer.content) > SAID_COMPACT else None
    return Pack(
        "said",
        "said",
        Priority.MEDIUM,
        (render_memory(answer, BARE),),
        compact,
        full_forms={answer.id: BARE},
        compact_forms={answer.id: tail},
    )


def _is_final(memory: Memory, frozen: FrozenTurn) -> bool:
    """Return whether a memory is a complete final answer of the previous turn."""
    is_answer = memory.role is Role.ASSISTANT and not memory.calls and not memory.partial
    return is_answer and bool(memory.content) and memory.turn_number == frozen.turn_number - 1


def situation_pack(frozen: FrozenTurn) -> Pack:
    """Return what Zoea tells of the present, as data."""
    if not frozen.situation:
        return Pack("situation", "situation", Priority.MEDIUM, ())
    line = " ".join(frozen.situation[: 4 * SITUATION_COMPACT].split())[:SITUATION_COMPACT]
    compact = note_message(data_block("situation", line))
    full = note_message(data_block("situation", frozen.situation))
    shorter = (compact,) if len(compact.content) < len(full.content) else None
    return Pack("situation", "situation", Priority.MEDIUM, (full,), shorter)


def _elided_form(memory: Memory, keep: int) -> Form:
    return Form(FormKind.CUT, keep) if memory.role is Role.ASSISTANT else first_form(memory, keep)
