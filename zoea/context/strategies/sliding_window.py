"""The strategy `window`: the conversation of a mysis as a sliding window with a summary.

Order of packs: system prompt, primers, summary, recents, standing order, situation, recall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from msgspec import Struct

from zoea.context.forms import BARE, FULL, Form, FormKind, data_block, note_message, render_memories, render_memory
from zoea.context.frozen_turn import FrozenTurn
from zoea.context.inherited_pack import inherited_needs, inherited_pack
from zoea.context.labels import with_labels
from zoea.context.measure import Counter
from zoea.context.needs import MemoriesById, Need, NeedAnswer, ShownConversation, StandingOrder, StoredAnswer, TurnSoFar
from zoea.context.past_packs import hit_ids, recall_need, recall_pack
from zoea.context.plan_values import Pack, Priority
from zoea.context.strategies import turns
from zoea.context.turn_packs import first_form
from zoea.context.units import Unit, read_units
from zoea.context.window.conversation_shape import FEWEST_RECENTS, FULL_SHARE, LONG_RESULT, Conversation
from zoea.context.window.conversation_summary import TITLE
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Memory


class _View(Struct, frozen=True):
    """The messages before the turn that stay verbatim, and the summary of those between them."""

    primers: tuple[Memory, ...] = ()
    recents: tuple[Memory, ...] = ()
    elided: frozenset[int] = frozenset()
    summary: str = ""
    compact: str = ""


def needs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Need, ...]:
    """Return the reads: turn, view of the conversation, its memories, order if nudged."""
    wanted: list[Need] = [TurnSoFar(frozen.turn_id), *inherited_needs(frozen)]
    if frozen.before:
        view = ShownConversation(frozen.before)
        wanted.append(view)
        if view in answers:
            shown = _shown_memories(answers, view)
            wanted.append(shown)
            if frozen.recall_items and _stored(answers, view)["summary"]:
                recall = recall_need(frozen, answers, shown.memory_ids)
                wanted.append(recall)
                if (recalled := answers.get(recall)) is not None and (hits := hit_ids(recalled)):
                    wanted.append(MemoriesById(hits))
        if frozen.is_nudged:
            wanted.append(StandingOrder(frozen.before))
    return tuple(wanted)


def packs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Pack, ...]:
    """Return the packs before the turn, in order."""
    answer = _read_view(frozen, answers)
    shown = {memory.id for memory in (*answer.primers, *answer.recents)}
    # In a very small window not even the fewest may fit beside the turn; the last exchange is shown then.
    few = FEWEST_RECENTS if len(answer.recents) > FEWEST_RECENTS or not answer.summary else FEWEST_RECENTS // 2
    made = [
        Pack("system", "system", Priority.REQUIRED, frozen.system, preserve=True),
        inherited_pack(frozen, answers),
        _messages("primers", answer.primers, answer.elided, frozen, 1, from_end=False),
        _summary(answer),
        _messages("recents", answer.recents, answer.elided, frozen, few, from_end=True),
        _order(frozen, answers, shown),
        turns.situation_pack(frozen),
        recall_pack(frozen, answers),
    ]
    return tuple(pack for pack in made if pack is not None)


def is_trimmed(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> bool:
    """Return whether the view of the conversation gave something up because of the budget."""
    need = ShownConversation(frozen.before)
    return need in answers and bool(_stored(answers, need).get("is_for_budget"))


def budgets_of_conversation(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[int, int]:
    """Return two budgets for the whole conversation; each is 0 where it is unknown.

    Under the first no more is summarised, before the turn grows; it is 0, too, where the window cannot show all. The
    second holds all messages that may be shown, alone; it is the larger one where names and frames outweigh texts.
    """
    need = ShownConversation(frozen.before)
    if frozen.window is None or need not in answers:
        return 0, 0
    stored = _stored(answers, need)
    whole: int = stored.get("whole", 0)
    verbatim: int = stored.get("verbatim", 0)
    return ceil(whole / min(frozen.window.trigger, FULL_SHARE) * max(1.0, frozen.calibration)), verbatim


def count_verbatim(conversation: Conversation, frozen: FrozenTurn) -> int:
    """Return the tokens of all messages that a request may show, as it shows them."""
    newest = conversation.newer[-frozen.window.size :] if frozen.window is not None else conversation.newer
    parts = (conversation.opening, newest, conversation.marked)
    memories = {memory.id: memory for part in parts for memory in part}
    counter = Counter(frozen.calibration)
    return sum(
        counter.message(render_memory(memory, BARE if memory.role is Role.ASSISTANT else FULL))
        for memory in with_labels(memories.values(), frozen.label_to)
    )


def _stored(answers: Mapping[Need, NeedAnswer], need: ShownConversation) -> dict[str, Any]:
    answer = answers[need]
    assert isinstance(answer, StoredAnswer)
    value: dict[str, Any] = answer.value
    return value


def _shown_memories(answers: Mapping[Need, NeedAnswer], need: ShownConversation) -> MemoriesById:
    stored = _stored(answers, need)
    return MemoriesById((*stored["primers"], *stored["recents"]))


def _read_view(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> _View:
    if not frozen.before:
        return _View()
    need = ShownConversation(frozen.before)
    stored = _stored(answers, need)
    found = answers[_shown_memories(answers, need)]
    assert isinstance(found, tuple)
    memories = {memory.id: memory for memory in with_labels(found, frozen.label_to)}
    return _View(
        tuple([memories[one] for one in stored["primers"] if one in memories]),
        tuple([memories[one] for one in stored["recents"] if one in memories]),
        frozenset(stored["elided"]),
        stored["summary"],
        stored.get("compact", ""),
    )


def _messages(
    name: str, memories: tuple[Memory, ...], elided: frozenset[int], frozen: FrozenTurn, fewest: int, *, from_end: bool
) -> Pack:
    """Return a pack of messages. Its short form has the outermost units only, with shorter results."""
    full = {memory.id: _form(memory, memory.id in elided, frozen) for memory in memories}
    shown = render_memories(memories, full)
    units, _ = read_units(memories)
    kept = _outermost(units[::-1] if from_end else units, fewest)
    few = [memory for unit in (kept[::-1] if from_end else kept) for memory in unit.memories]
    compact = {memory.id: _form(memory, True, frozen) for memory in few}
    short = render_memories(few, compact)
    return Pack(
        name,
        name,
        Priority.HIGH,
        shown,
        short if short and short != shown else None,
        full_forms=full,
        compact_forms=compact,
    )


def _outermost(units: Iterable[Unit], messages: int) -> list[Unit]:
    """Return the first units with at least so many messages."""
    kept: list[Unit] = []
    taken = 0
    for unit in units:
        if taken >= messages:
            break
        kept.append(unit)
        taken += len(unit.memories)
    return kept


def _form(memory: Memory, is_elided: bool, frozen: FrozenTurn) -> Form:
    if memory.role is Role.ASSISTANT:
        return BARE
    limit = frozen.max_result_chars
    if is_elided and memory.role is Role.TOOL and len(memory.content) > min(LONG_RESULT, limit):
        return Form(FormKind.CUT, min(LONG_RESULT, limit))
    return first_form(memory, limit)


def _summary(view: _View) -> Pack:
    if not view.summary:
        return Pack("summary", "summary", Priority.HIGH, ())
    full, compact = summary_message(view.summary), view.compact
    is_shorter = 0 < len(compact) < len(view.summary)
    return Pack("summary", "summary", Priority.HIGH, (full,), (summary_message(compact),) if is_shorter else None)


def summary_message(text: str) -> RequestMessage:
    """Return the message that stands for the middle of the conversation, marked as data."""
    return note_message(data_block("summary of the messages between", f"{TITLE}{text}"))


def _order(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer], shown: set[int]) -> Pack | None:
    """Return the standing order for a nudged turn, where no other pack shows it."""
    pack = turns.order_pack(frozen, answers)
    if pack is None or not any(memory_id in shown for memory_id in pack.full_forms):
        return pack
    return Pack("order", "order", Priority.REQUIRED, (), preserve=True)
