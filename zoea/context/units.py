"""Group memories into prompts, loop slices, answers and notes.

A loop slice is an assistant message with calls and all their results, in call order. Memories that
no valid request can hold (a call without result, a result without call, a partial answer) are
returned with a reason, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from zoea.context.needs import Note
from zoea.context.plan_values import StepKind
from zoea.model.enums import Role
from zoea.model.values import Memory

_by_place = attrgetter("turn_number", "seq")


class UnitKind(StrEnum):
    """The kind of a unit."""

    PROMPT = "prompt"
    SLICE = "slice"
    TEXT = "text"
    NOTE = "note"


class Unit(NamedTuple):
    """A part of a conversation that is shown whole or not at all. A tuple, because thousands are made at once.

    `first` and `last` are the sequence numbers it covers, including a slice's results. A NOTE has
    `text` and no memories.
    """

    kind: UnitKind
    first: int
    last: int
    memories: tuple[Memory, ...] = ()
    text: str = ""


class OmittedMemory(Struct, frozen=True):
    """A memory that no valid request can hold, with the reason."""

    memory: Memory
    kind: StepKind


def read_units(memories: Iterable[Memory]) -> tuple[list[Unit], list[OmittedMemory]]:
    """Return the units of one or several turns in conversation order, and the omitted memories."""
    ordered = sorted(memories, key=_by_place)
    tool, assistant, user = Role.TOOL, Role.ASSISTANT, Role.USER  # looked up once: a conversation may be long
    prompt, text = UnitKind.PROMPT, UnitKind.TEXT
    results: dict[int, Memory] = {}
    left_out: list[OmittedMemory] = []
    for memory in [memory for memory in ordered if memory.role is tool]:
        if memory.call_id is None or memory.call_id in results:
            left_out.append(OmittedMemory(memory, StepKind.ORPHAN))
        else:
            results[memory.call_id] = memory
    units: list[Unit] = []
    new = tuple.__new__  # half the time of `Unit(…)`
    for memory in ordered:
        # Results were taken by their calls; a system memory is never stored.
        role, seq = memory.role, memory.seq
        if role is user:
            units.append(new(Unit, (prompt, seq, seq, (memory,), "")))
        elif role is assistant:
            if not memory.calls and not memory.partial:
                units.append(new(Unit, (text, seq, seq, (memory,), "")))
            elif (unit := _read_slice(memory, results, left_out)) is not None:
                units.append(unit)
    left_out += [OmittedMemory(memory, StepKind.ORPHAN) for memory in results.values()]
    return units, left_out


def _read_slice(memory: Memory, results: dict[int, Memory], left_out: list[OmittedMemory]) -> Unit | None:
    """Return the slice that an answer with calls opens, None if it has none whole. Take its results from `results`."""
    own = [result for call in memory.calls if (result := results.pop(call.id, None)) is not None]
    if memory.partial or len(own) < len(memory.calls):
        why = StepKind.PARTIAL if memory.partial else StepKind.INCOMPLETE
        left_out += [OmittedMemory(one, why) for one in (memory, *own)]
        return None
    return Unit(UnitKind.SLICE, memory.seq, memory.seq + len(memory.calls), (memory, *own))


def insert_notes(units: Sequence[Unit], notes: Sequence[Note]) -> list[Unit]:
    """Insert each note after the unit that covers its place, never inside a slice."""
    if not notes:
        return list(units)
    waiting = sorted(notes, key=lambda note: (note.after_seq, note.kind))
    out: list[Unit] = []
    for unit in units:
        while waiting and waiting[0].after_seq < unit.first:
            out.append(_note_unit(waiting.pop(0)))
        out.append(unit)
    return out + [_note_unit(note) for note in waiting]


def _note_unit(note: Note) -> Unit:
    return Unit(UnitKind.NOTE, note.after_seq, note.after_seq, text=note.content)


def drop_last_answer(units: list[Unit]) -> tuple[list[Unit], list[OmittedMemory]]:
    """Remove trailing answers, because a request asks for the next one."""
    end = len(units)
    while end and units[end - 1].kind is UnitKind.TEXT:
        end -= 1
    return units[:end], [OmittedMemory(unit.memories[0], StepKind.ANSWER) for unit in units[end:]]


def latest_slice(memories: Iterable[Memory], window: int) -> Unit | None:
    """Return the latest complete slice with its call among the `window` newest memories."""
    everything = list(memories)
    if len(everything) > window:
        newest = {memory.id for memory in sorted(everything, key=lambda memory: memory.id)[-window:]}
    else:
        newest = {memory.id for memory in everything}
    units, _ = read_units(everything)
    slices = (unit for unit in reversed(units) if unit.kind is UnitKind.SLICE)
    return next((unit for unit in slices if unit.memories[0].id in newest), None)
