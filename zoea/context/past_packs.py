"""Packs of older messages, for every strategy: earlier turns, and hits of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from zoea.context.forms import BARE, Form, FormKind, render_memories
from zoea.context.frozen_turn import EarlierTurn, FrozenTurn
from zoea.context.inherited_pack import newest_inherited
from zoea.context.labels import with_labels
from zoea.context.needs import EarlierTurns, MemoriesById, Need, NeedAnswer, Recall, ShownConversation, StoredAnswer
from zoea.context.plan_values import Pack, Priority
from zoea.context.turn_packs import first_form
from zoea.context.units import Unit, UnitKind, read_units
from zoea.model.enums import Role
from zoea.model.values import Memory
from zoea.text.estimate import tokens
from zoea.text.sentences import count_of

RECALLED_CHARS = 400
"""Characters shown of a memory that was recalled."""
_SUMMARY_FAILURE = re.compile(r"^The summary stands for .* without a model \((.+)\); ")
LATE_RECALL = "Nothing was recalled, because the search among older memories took too long."


def memories_of(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer], need: Need) -> tuple[Memory, ...]:
    """Return the answer to a need of rows, with the labels of this turn."""
    return with_labels(rows_of(answers, need), frozen.label_to)


def rows_of(answers: Mapping[Need, NeedAnswer], need: Need) -> tuple[Memory, ...]:
    """Return the answer to a need of rows as they are stored: only prompts get labels."""
    answer = answers[need]
    return answer if isinstance(answer, tuple) else ()


def past_form(memory: Memory, max_result_chars: int) -> Form:
    """Return the form for a memory of an earlier turn; its reasoning is not replayed."""
    return BARE if memory.role is Role.ASSISTANT else first_form(memory, max_result_chars)


# Earlier turns.

KEEP_WHILE_ROOM = 200
"""As many earlier turns as have room: when they have none any more, the older half goes at once."""


def choose_earlier(
    shown: tuple[EarlierTurn, ...],
    newest: int,
    whole_tokens: Mapping[int, int],
    bare_tokens: Mapping[int, int],
    *,
    keep: int,
    room: int,
) -> tuple[EarlierTurn, ...]:
    """Choose the earlier turns to show, so that the beginning of requests rarely changes.

    The newest joins those that the turn before showed, while they are at most `keep` and fit into `room`; else only
    the newest remains, or of `KEEP_WHILE_ROOM` those that fit into half of the room. A turn too large for the room is
    shown bare.

    Args:
        shown: The earlier turns of the newest turn that a message opened.
        newest: The id of that turn.
        whole_tokens, bare_tokens: Sizes by turn id, before calibration; a turn that is gone has none.
    """
    if keep <= 0 or newest not in whole_tokens:
        return ()

    def size(turns: Iterable[EarlierTurn]) -> int:
        return sum((whole_tokens if one.whole else bare_tokens)[one.turn_id] for one in turns)

    added = EarlierTurn(newest, whole_tokens[newest] <= room)
    grown = (*(one for one in shown if one.turn_id in whole_tokens), added)
    if len(grown) <= keep and size(grown) <= room:
        return grown
    if keep >= KEEP_WHILE_ROOM:
        bare = (*(EarlierTurn(one.turn_id, False) for one in grown[:-1]), added)
        while len(bare) > 1 and size(bare) > room // 2:
            bare = bare[1:]
        return bare if size(bare) <= room else ()
    return (added,) if size((added,)) <= room else ()


def earlier_need(frozen: FrozenTurn) -> EarlierTurns:
    return EarlierTurns(tuple(one.turn_id for one in frozen.earlier))


def is_shown_earlier(frozen: FrozenTurn, turn_id: int, *, whole: bool = False) -> bool:
    """Return whether the pack `earlier` holds a turn; with `whole`, also its tool calls."""
    return any(one.turn_id == turn_id and (one.whole or not whole) for one in frozen.earlier)


def earlier_pack(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    """Return the earlier turns as they stood, compact with their prompts and last answers alone."""
    if not frozen.keep_turns or frozen.is_nudged:
        return None
    by_turn: dict[int, list[Memory]] = {}
    for memory in memories_of(frozen, answers, earlier_need(frozen)) if frozen.earlier else ():
        by_turn.setdefault(memory.turn_id, []).append(memory)
    full: list[Memory] = []
    bare: list[Memory] = []
    for turn in frozen.earlier:
        units = read_units(by_turn.get(turn.turn_id, ()))[0]
        short = _bare_memories(units)
        bare += short
        full += [memory for unit in units for memory in unit.memories] if turn.whole else short
    full_forms = {memory.id: past_form(memory, frozen.max_result_chars) for memory in full}
    bare_forms = {memory.id: full_forms[memory.id] for memory in bare}
    return Pack(
        "earlier",
        "earlier",
        Priority.MEDIUM,
        render_memories(full, full_forms),
        render_memories(bare, bare_forms) if len(bare) < len(full) else None,
        full_forms=full_forms,
        compact_forms=bare_forms,
        turn_of={memory.id: memory.turn_id for memory in full},
    )


def _bare_memories(units: list[Unit]) -> list[Memory]:
    """Return the prompts of a turn and its last answer."""
    prompts = [unit.memories[0] for unit in units if unit.kind is UnitKind.PROMPT]
    answers = [unit.memories[0] for unit in units if unit.kind is UnitKind.TEXT]
    return [*prompts, *answers[-1:]]


# Recall.


def recall_need(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer], shown: Iterable[int]) -> Recall:
    """Return the search for what the request does not hold otherwise."""
    earlier = [one.id for one in rows_of(answers, earlier_need(frozen))] if frozen.earlier else []
    return Recall(frozen.before, frozen.recall_items, tuple(sorted({*shown, *earlier})))


def hit_ids(answer: NeedAnswer) -> tuple[int, ...]:
    """Return the ids of the memories that a search found."""
    return tuple(hit[0] for hit in answer.value["hits"]) if isinstance(answer, StoredAnswer) else ()


def recall_pack(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    """Return the hits of the search, the best first, each as data."""
    if not frozen.recall_items or frozen.is_nudged:
        return None
    recalled = _recalled(answers)
    places = {} if recalled is None else dict(map(tuple, recalled.value["hits"]))
    memories = memories_of(frozen, answers, MemoriesById(tuple(places))) if places else ()
    shown = newest_inherited(frozen, answers)
    memories = tuple([one for one in memories if one.id > shown])
    forms = {one.id: Form(FormKind.RECALL, RECALLED_CHARS, places[one.id]) for one in memories}
    return Pack("recall", "recall", Priority.MEDIUM, render_memories(memories, forms), full_forms=forms)


def past_notes(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[str, ...]:
    """Return what the plan says of these packs beside its decisions."""
    recalled = _recalled(answers)
    late = (LATE_RECALL,) if recalled is not None and recalled.value["late"] else ()
    why = tuple(note for note in (frozen.keep_turns_why, frozen.tools_note) if note)
    return (*why, *_window_notes(answers), *late)


def _window_notes(answers: Mapping[Need, NeedAnswer]) -> tuple[str, ...]:
    """Return what the strategy `window` shows of the conversation, and what it gave up."""
    shown_window = next((one for need, one in answers.items() if isinstance(need, ShownConversation)), None)
    if not isinstance(shown_window, StoredAnswer):
        return ()
    view = shown_window.value
    first, newest = len(view["primers"]), len(view["recents"])
    if not view["summary"]:
        return (f"Window: all {first + newest} messages before the turn are shown.",)
    size = tokens(view["summary"])
    shown = f"Window: the first {first} and the newest {newest} messages are shown, and a summary of {size:,} tokens."
    return (shown, *_summary_note(view), *(f"To fit, {step}." for step in view["steps"]))


def _summary_note(view: Mapping[str, Any]) -> tuple[str, ...]:
    """Say who wrote the summary, of how much, and what it leaves out. Views of older releases do not know."""
    if "covered" not in view:
        return ()
    why = f" ({view['no_model']})" if view["no_model"] else ""
    by = f"{' and '.join(view['models'])} wrote it beside chosen lines" if view["models"] else "its lines were chosen"
    without = f", the newest of them without a model{why}" if view["models"] and why else f" without a model{why}"
    who = by + ("" if view["models"] and not why else without)
    left_out = f"{count_of(view['left_out'], 'line')} of these left out"
    return (f"The summary stands for {count_of(view['covered'], 'message')}: {who}; {left_out}.",)


def find_summary_failure(notes: Iterable[str]) -> str:
    """Return from a plan's notes why no model wrote its summary, or an empty text."""
    matches = (_SUMMARY_FAILURE.search(note) for note in notes)
    return next((match[1] for match in matches if match is not None), "")


def _recalled(answers: Mapping[Need, NeedAnswer]) -> StoredAnswer | None:
    return next(
        (one for need, one in answers.items() if isinstance(need, Recall) and isinstance(one, StoredAnswer)), None
    )
