"""Reads the conversation and the branches of a Claude Code transcript.

Each line names the line before it. The conversation is the way back from the newest line; what a person left by a
rewind, and what agents of Claude Code said, are branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from zoea.chain.formats.claude_lines import TranscriptKind, TranscriptLine, string

MOST_BRANCHES = 200
"""The most branches of one transcript that are kept."""


class TranscriptPart(Struct, frozen=True):
    """The lines of one commit: a prompt with its answers, or a summary."""

    lines: tuple[TranscriptLine, ...]
    is_compaction: bool = False

    @property
    def data(self) -> bytes:
        """The bytes of the lines."""
        return b"".join(line.raw + b"\n" for line in self.lines)

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for parts of the same lines of a conversation."""
        return tuple(line.key for line in self.lines if line.key)

    @property
    def at(self) -> int:
        """The time of its last line, µs UTC; 0 where that cannot be read."""
        return next((line.at for line in reversed(self.lines) if line.has_entries and line.at), 0)


class TranscriptTree:
    """The lines of a transcript by their parents."""

    def __init__(self, lines: Sequence[TranscriptLine]) -> None:
        self._lines = lines
        self._nodes = {line.key: line for line in lines if line.key}
        summarises = (TranscriptKind.BOUNDARY, TranscriptKind.SUMMARY)
        self._summaries = [line for line in self._nodes.values() if line.kind in summarises]
        self._has_main = any(line.has_entries and not line.is_side_chain for line in lines)
        self._parents: dict[str, str] = {}
        before: dict[str | None, str] = {}
        for line in self._nodes.values():
            self._parents[line.key] = self._find_parent(line, before.get(_chain_of(line), ""))
            before[_chain_of(line)] = line.key

    def parent_of(self, line: TranscriptLine) -> str | None:
        """Return the uuid of the line before. It is None for the first line, or where the file lacks it."""
        return self._parents[line.key] or None

    def select_conversation(self) -> list[TranscriptLine]:
        """Return the lines of the newest conversation, in the order of the file."""
        leaf = self._find_leaf()
        return self._select(leaf) if leaf else []

    def find_branches(self) -> tuple[list[tuple[str, list[TranscriptLine]]], int]:
        """Return the branches beside the conversation, by name, and how many more there are.

        Names are `rewound-1` and `side-1`, counted in the order of the file.
        """
        covered = {line.key for line in self.select_conversation()}
        branches: list[tuple[bool, list[TranscriptLine]]] = []
        left_out = 0
        for line in reversed(self._nodes.values()):
            is_lone_note = line.kind is TranscriptKind.NOTE and self._parents[line.key] in covered
            if line.key in covered or not line.has_entries or is_lone_note:
                continue
            if len(branches) == MOST_BRANCHES:
                left_out += 1
                continue
            lines = self._select(line.key)
            covered.update(one.key for one in lines)
            branches.append((line.is_side_chain and self._has_main, lines))
        counts = {True: 0, False: 0}
        named = []
        for is_side, lines in reversed(branches):
            counts[is_side] += 1
            named.append((f"{'side' if is_side else 'rewound'}-{counts[is_side]}", lines))
        return named, left_out

    def with_side_lines(self, lines: Iterable[TranscriptLine]) -> list[TranscriptLine]:
        """Add the lines that belong to no conversation, in the order of the file."""
        chosen = {line.key for line in lines}
        return [line for line in self._lines if not line.key or line.key in chosen]

    def _find_parent(self, line: TranscriptLine, before: str) -> str:
        """Return the key of the parent line. If that line is missing, return the line above."""
        named = line.data.get("parentUuid", before)
        if named is None and line.kind is TranscriptKind.BOUNDARY:
            named = line.data.get("logicalParentUuid") or before
        if named is None:
            return ""
        parent = self._nodes.get(named) if isinstance(named, str) else None
        is_sound = parent is not None and parent is not line and _chain_of(parent) == _chain_of(line)
        return parent.key if parent is not None and is_sound else before

    def _find_leaf(self) -> str:
        """Return the newest line of the conversation, or the one last rewound to."""
        newest, rewound = "", ""
        for line in self._lines:
            if line.key and (line.has_entries or line.kind is TranscriptKind.NOISE):
                if not (line.is_side_chain and self._has_main):
                    newest, rewound = line.key, ""
            elif line.data.get("type") == "last-prompt":
                rewound = string(line.data, "leafUuid")
        if rewound in self._nodes and rewound not in set(self._walk(newest)):
            return rewound
        return newest

    def _walk(self, key: str) -> Iterator[str]:
        seen: set[str] = set()
        while key and key not in seen:
            seen.add(key)
            yield key
            key = self._parents[key]

    def _select(self, leaf: str) -> list[TranscriptLine]:
        """Return a conversation's lines up to a leaf, in the order of the file.

        Tools that run at once give an answer several ends: its other lines and results belong to it.
        """
        chosen = set(self._walk(leaf))
        chosen |= self._find_kept_summaries(chosen)
        answers = {line.answer_id for key in chosen if (line := self._nodes[key]).answer_id}
        for line in self._nodes.values():
            if line.answer_id in answers and line.answer_id and line.key not in chosen:
                chosen |= self._reach_answer(line, chosen)
        calls = {call for key in chosen for call in self._nodes[key].calls}
        calls -= {call for key in chosen for call in self._nodes[key].results}
        for line in self._nodes.values() if calls else ():
            if line.key not in chosen and calls.intersection(line.results):
                chosen.add(line.key)
                calls.difference_update(line.results)
        return [line for line in self._nodes.values() if line.key in chosen]

    def _reach_answer(self, line: TranscriptLine, chosen: set[str]) -> set[str]:
        """Return the lines from one to another of the same answer. Empty if another message is between them."""
        between: set[str] = set()
        for key in self._walk(line.key):
            one = self._nodes[key]
            if key in chosen:
                return between if one.answer_id == line.answer_id or one.kind is not TranscriptKind.ANSWER else set()
            if one.kind not in (TranscriptKind.SIDE, TranscriptKind.RESULTS) and one.answer_id != line.answer_id:
                break
            between.add(key)
        return set()

    def _find_kept_summaries(self, chosen: set[str]) -> set[str]:
        """Return the boundaries after which messages were kept, with their summaries."""
        kept: set[str] = set()
        for line in self._summaries:
            parent = self._parents[line.key]
            if line.kind is TranscriptKind.BOUNDARY and parent in chosen and list_kept(line):
                kept.add(line.key)
            if line.kind is TranscriptKind.SUMMARY and parent in kept:
                kept.add(line.key)
        return kept


def _chain_of(line: TranscriptLine) -> str | None:
    """Return the agent that wrote a line; None for the conversation itself."""
    return string(line.data, "agentId") if line.is_side_chain else None


def list_kept(boundary: TranscriptLine) -> list[str]:
    """Return the uuids of the messages that a compaction kept beside its summary."""
    about: Any = boundary.data.get("compactMetadata")
    kept = about.get("preservedMessages") if isinstance(about, dict) else None
    uuids = kept.get("uuids") if isinstance(kept, dict) else None
    return [one for one in uuids if isinstance(one, str)] if isinstance(uuids, list) else []


def split_parts(lines: Sequence[TranscriptLine]) -> list[TranscriptPart]:
    """Split a conversation before each prompt and at each summary.

    A prompt that came between a call and its result stays with them.
    """
    parts: list[TranscriptPart] = []
    current: list[TranscriptLine] = []
    answered = {call for line in lines for call in line.results}
    open_calls: set[str] = set()
    by_key = {line.key: line for line in lines if line.key}
    summary: list[TranscriptLine] = []

    def close() -> None:
        if any(line.has_entries and line.kind is not TranscriptKind.NOTE for line in current):
            parts.append(TranscriptPart(tuple(current)))
            current.clear()

    for line in lines:
        is_summary = line.kind in (TranscriptKind.BOUNDARY, TranscriptKind.SUMMARY)
        if (line.kind is TranscriptKind.PROMPT and not open_calls) or is_summary:
            close()
        open_calls.difference_update(line.results)
        open_calls.update(answered.intersection(line.calls))
        if not is_summary:
            current.append(line)
            continue
        summary.append(line)
        if line.kind is TranscriptKind.SUMMARY:
            kept = [by_key[key] for one in summary for key in list_kept(one) if key in by_key]
            parts.append(TranscriptPart((*current, *summary, *kept), is_compaction=True))
            current.clear()
            summary = []
    if current or summary:
        last = parts.pop() if parts and not any(line.has_entries for line in current) else TranscriptPart(())
        parts.append(TranscriptPart((*last.lines, *summary, *current), last.is_compaction))
    return parts
