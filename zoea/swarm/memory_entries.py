"""Converts memories and notes to the entries of commits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from zoea.chain.entries import ContextCall, ContextEntry, ContextMedia
from zoea.context import Note
from zoea.context.strategies.sliding_window import summary_message
from zoea.context.window.conversation_summary import read_statements
from zoea.model.enums import Role, Source
from zoea.model.values import Memory
from zoea.swarm.turn.shown_notes import is_only_shown

_SENDER = re.compile(r"\[.*from (?:mysis|client) (?P<name>.*)\]", re.DOTALL)
_SUMMARY = re.compile(r"\[data: summary of [^\]\n]*\]\n")
_AFTER_MEMORY = 1


class PlacedEntry(Struct, frozen=True):
    """An entry and its place in the conversation.

    Attributes:
        place: Number of the turn, sequence number, and 1 for a note after it.
        memory_id: 0 for what is in no memory.
    """

    place: tuple[int, int, int]
    entry: ContextEntry
    memory_id: int = 0


def build_entry(memory: Memory, positions: Mapping[int, int], media: tuple[ContextMedia, ...] = ()) -> PlacedEntry:
    """Return the entry of a memory; `positions` are those of calls by their row ids."""
    sender = _SENDER.fullmatch(memory.label)
    entry = ContextEntry(
        memory.role,
        memory.content,
        source=memory.source.value,
        sender=sender["name"] if sender else "",
        at=memory.created_at,
        reasoning=memory.reasoning,
        calls=tuple([ContextCall(call.name, call.arguments) for call in memory.calls]),
        position=positions.get(memory.call_id or 0) if memory.role is Role.TOOL else None,
        is_error=memory.is_error,
        is_partial=memory.partial,
        media=media,
    )
    return PlacedEntry((memory.turn_number, memory.seq, 0), entry, memory.id)


def build_entries(memories: Iterable[Memory]) -> list[ContextEntry]:
    """Return the entries of memories in conversation order, without their images."""
    made: list[ContextEntry] = []
    positions: dict[int, int] = {}
    for memory in memories:
        if memory.calls:
            positions = {call.id: call.position for call in memory.calls}
        made.append(build_entry(memory, positions).entry)
    return made


def build_summary(text: str, at: int) -> ContextEntry:
    """Return the entry of a summary that stands for messages, as requests show it."""
    return _synthetic(summary_message(text).content, at)


def build_notes(turn_number: int, notes: Iterable[Note], at: int) -> list[PlacedEntry]:
    """Return the entries of the notes that the model was sent."""
    return [
        PlacedEntry((turn_number, note.after_seq, _AFTER_MEMORY), _synthetic(note.content, at))
        for note in notes
        if not is_only_shown(note.kind)
    ]


def build_nudge(turn_number: int, text: str, at: int) -> PlacedEntry:
    """Return the entry of the nudge that opened a turn."""
    return PlacedEntry((turn_number, 0, 0), _synthetic(text, at))


def as_memories(entries: Iterable[ContextEntry]) -> tuple[Memory, ...]:
    """Convert entries to what a summary is written of. Calls stand in the text of their answer."""
    made: list[Memory] = []
    for entry in entries:
        called = [f"calls {call.name} {call.arguments}" for call in entry.calls]
        texts = ["\n".join(part for part in (entry.content, *called) if part)]
        if entry.is_synthetic and (titled := _SUMMARY.match(entry.content)) is not None:
            texts = read_statements(entry.content[titled.end() :])  # no message of its own: its lines stand for many
        for text in texts:
            place = len(made)
            made.append(Memory(place, 0, 0, 1, place, entry.role, source_of(entry), text, is_error=entry.is_error))
    return tuple(made)


def source_of(entry: ContextEntry) -> Source:
    """Return the source of an entry; by its role where another program named it."""
    try:
        return Source(entry.source)
    except ValueError:
        return {Role.USER: Source.DIRECT, Role.TOOL: Source.TOOL}.get(entry.role, Source.LLM)


def _synthetic(text: str, at: int) -> ContextEntry:
    return ContextEntry(Role.USER, text, Source.SYSTEM.value, at=at, is_synthetic=True)
