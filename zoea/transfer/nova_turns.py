"""Groups the memories of Zoea Nova into turns. Pure functions.

A turn begins at consecutive prompts or at a nudge, and ends with an answer without calls.
Zoea Nova did not store all nudges: an answer without a prompt belongs to a nudge's turn.
Afterwards every call has a result and every result a call; the repairs are counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from zoea.llm.messages.argument_repair import repair
from zoea.model.enums import CallState, OpenedBy, Outcome
from zoea.text.json_text import parse_object
from zoea.transfer.nova_database import NovaMemory

# An assistant message with calls is `[TOOL_CALLS]id:name:arguments|id:name:arguments…`, a result
# `id:content`. Arguments are decoded as JSON from the left, because they may contain `|`.

PREFIX = "[TOOL_CALLS]"
UNKNOWN_TOOL = "unknown_tool"
LONGEST_ID = 128

_decoder = json.JSONDecoder()
_SEPARATOR = re.compile(r"\s*\|(?=[^|:\s]{0,128}:[A-Za-z_][\w.-]{0,127}(?::|$|\|))")
_AFTER = re.compile(r"\s*(?:\||$)")
_NAME = re.compile(r"[\w./-]{1,128}")


class StoredCall(Struct, frozen=True):
    """A parsed call.

    `is_mended` is True if broken arguments were repaired, `is_broken` if they could not be
    and are kept unchanged.
    """

    id: str
    name: str
    arguments: str
    is_mended: bool = False
    is_broken: bool = False


def parse_calls(content: str) -> tuple[StoredCall, ...] | None:
    """Parse the calls of an assistant message; None if it has none.

    Text that is not a call becomes a call of an unknown tool, so that nothing is lost.
    """
    if not content.startswith(PREFIX):
        return None
    calls: list[StoredCall] = []
    place = len(PREFIX)
    while place < len(content):
        if content[place] in "| \t\r\n":
            place += 1
            continue
        call, place = _call(content, place)
        calls.append(call)
    return tuple(calls)


def parse_result(content: str, waiting: Iterable[str]) -> tuple[str, str]:
    """Split a result into id and content.

    Args:
        content: The stored text.
        waiting: Ids of calls without a result. Ids may contain `:`, so the longest match wins.
    """
    fitting = [one for one in waiting if content.startswith(f"{one}:")]
    if fitting:
        longest = max(fitting, key=len)
        return longest, content[len(longest) + 1 :]
    head, colon, rest = content.partition(":")
    if colon and len(head) <= LONGEST_ID and head and not re.search(r"[\s{\[\"]", head):
        return head, rest
    return "", content


def _call(content: str, start: int) -> tuple[StoredCall, int]:
    """Parse the call at `start`; return it with the position after it."""
    end_of_id = content.find(":", start)
    bar = content.find("|", start)
    if end_of_id < 0 or 0 <= bar < end_of_id:
        return _not_one(content, start)
    call_id = content[start:end_of_id]
    end_of_name = _NAME.match(content, end_of_id + 1)
    if end_of_name is None:
        return _not_one(content, start)
    name, place = end_of_name.group(), end_of_name.end()
    if _AFTER.match(content, place):
        return StoredCall(call_id, name, "{}"), place
    if content[place] != ":":
        return _not_one(content, start)
    arguments, place = _arguments(content, place + 1)
    mended, why = repair(arguments)
    is_same = not why and (not arguments or parse_object(arguments) is not None)
    return StoredCall(call_id, name, mended, is_mended=not why and not is_same, is_broken=bool(why)), place


def _arguments(content: str, start: int) -> tuple[str, int]:
    """Return the text of the arguments at `start` and the position after them."""
    begin = start
    while begin < len(content) and content[begin] in " \t\r\n":
        begin += 1
    try:
        _, end = _decoder.raw_decode(content, begin)
        if _AFTER.match(content, end):
            return content[begin:end], end
    except (ValueError, RecursionError):
        pass  # broken JSON ends at the next text that looks like a call
    separator = _SEPARATOR.search(content, start)
    end = separator.start() if separator else len(content)
    return content[start:end].strip(), end


def _not_one(content: str, start: int) -> tuple[StoredCall, int]:
    separator = _SEPARATOR.search(content, start)
    end = separator.start() if separator else len(content)
    return StoredCall("", UNKNOWN_TOOL, content[start:end], is_broken=True), end


NO_RESULT = "unknown: Zoea Nova stored no result of this call"
_REMEMBERED = 3
"""Number of finished turns that may still get a late result."""


class NovaCall(Struct):
    """A call with its result; `at` in µs."""

    call: StoredCall
    state: CallState = CallState.UNKNOWN
    result: str | None = None
    at: int = 0


class NovaStep(Struct):
    """One assistant message."""

    memory: NovaMemory
    content: str
    calls: list[NovaCall] = field(default_factory=list)


class NovaTurn(Struct):
    """A turn to be stored. `nudge` is the text of a stored nudge."""

    opened_at: int
    prompts: list[NovaMemory] = field(default_factory=list)
    steps: list[NovaStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nudge: str = ""
    outcome: Outcome = Outcome.CANCELLED
    ended_at: int = 0

    @property
    def opened_by(self) -> OpenedBy:
        return OpenedBy.PROMPT if self.prompts else OpenedBy.NUDGE


class TurnBuilder:
    """Groups the memories of one mysis into turns.

    Args:
        system: The system prompt of the imported mysis; others become notes.

    Attributes:
        mended: Number of repairs, by a sentence.
        lost_notes: Notes without a turn to store them in.
    """

    def __init__(self, system: str = "") -> None:
        self._system = {system}
        self.mended: Counter[str] = Counter()
        self.lost_notes: list[str] = []
        self._open: NovaTurn | None = None
        self._closed: list[NovaTurn] = []
        self._notes: list[str] = []

    def turns(self, memories: Iterable[NovaMemory]) -> Iterator[NovaTurn]:
        """Yield the turns in order while the memories are read."""
        for memory in memories:
            if not memory.has_time:
                self.mended["times that could not be read are those of the memory before"] += 1
            self._take(memory)
            while len(self._closed) > _REMEMBERED:
                yield self._settled(self._closed.pop(0))
        self._close(Outcome.CANCELLED)
        self.lost_notes = self._notes
        for turn in self._closed:
            yield self._settled(turn)

    def _take(self, memory: NovaMemory) -> None:
        match memory.role:
            case "system":
                if memory.content not in self._system:
                    self._system.add(memory.content)
                    self._note(f"(another system prompt of Zoea Nova)\n{memory.content}")
                    self.mended["further system prompts are kept as notes"] += 1
            case "user" if memory.source == "system":
                self._new(memory.at).nudge = memory.content
            case "user":
                self._prompt(memory)
            case "assistant":
                self._answer(memory)
            case "tool":
                self._result(memory)
            case _:
                self._note(f"(a memory of role {memory.role[:40]!r} in Zoea Nova)\n{memory.content}")
                self.mended["memories of an unknown role are kept as notes"] += 1

    def _prompt(self, memory: NovaMemory) -> None:
        turn = self._open
        if turn is None or turn.steps or turn.opened_by is OpenedBy.NUDGE:
            turn = self._new(memory.at)
        turn.prompts.append(memory)

    def _answer(self, memory: NovaMemory) -> None:
        calls = parse_calls(memory.content)
        turn = self._open or self._new(memory.at)
        if not calls:
            # A prefix without calls is kept as an answer.
            turn.steps.append(NovaStep(memory, memory.content))
            self._close(Outcome.ANSWERED)
            return
        for call in calls:
            self.mended["broken arguments of calls were mended"] += call.is_mended
            self.mended["arguments that are no JSON are kept as they stand"] += call.is_broken
        turn.steps.append(NovaStep(memory, "", [NovaCall(call) for call in calls]))

    def _result(self, memory: NovaMemory) -> None:
        waiting = list(self._waiting())
        call_id, content = parse_result(memory.content, (one.call.id for one in waiting if one.call.id))
        fitting = next((one for one in waiting if call_id and one.call.id == call_id), None)
        if fitting is None and not call_id and len(waiting) == 1:
            fitting = waiting[0]
            self.mended["results without an id belong to the one call that waited"] += 1
        if fitting is None:
            turn = self._open or self._new(memory.at)
            arguments = StoredCall(call_id, UNKNOWN_TOOL, "{}")
            orphan = NovaCall(arguments, CallState.UNKNOWN, content, memory.at)
            turn.steps.append(NovaStep(memory, "", [orphan]))
            self.mended["results whose call is not there are results of an unknown tool"] += 1
            return
        fitting.result, fitting.state, fitting.at = content, CallState.DONE, memory.at

    def _waiting(self) -> Iterator[NovaCall]:
        """Yield calls without a result: newest message first, in order within a message."""
        turns = [*([self._open] if self._open else []), *reversed(self._closed)]
        for turn in turns:
            for step in reversed(turn.steps):
                yield from (called for called in step.calls if called.result is None)

    def _new(self, at: int) -> NovaTurn:
        self._close(Outcome.INTERRUPTED)
        self._open = NovaTurn(at)
        self._open.notes, self._notes = self._notes, []
        return self._open

    def _note(self, text: str) -> None:
        (self._open.notes if self._open else self._notes).append(text)

    def _close(self, outcome: Outcome) -> None:
        if self._open is not None:
            self._open.outcome = outcome
            self._closed.append(self._open)
            self._open = None

    def _settled(self, turn: NovaTurn) -> NovaTurn:
        """Complete a turn: a result for each call, and the time of its end."""
        last = turn.opened_at
        for memory in turn.prompts:
            last = max(last, memory.at)
        for step in turn.steps:
            last = max(last, step.memory.at)
            for called in step.calls:
                if called.result is None:
                    called.result, called.at = NO_RESULT, step.memory.at
                    self.mended["calls without a result are marked unknown"] += 1
                last = max(last, called.at)
        turn.ended_at = last
        self.mended = +self.mended
        return turn
