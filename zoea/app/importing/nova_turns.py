"""Memories of Zoea Nova folded into turns. Pure.

A turn begins at the prompts that stand together, or at a nudge, and ends with an answer
without calls. Zoea Nova did not store nudges: an answer that nobody asked for is one's turn. Every
call has its result in the end and every result its call; what that took is counted.
Source: design.md, "Storage"; seeds/zoea-nova-context-compression.md, "Turn-Aware Context Composition".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zoea.app.importing.nova_calls import UNKNOWN_TOOL, StoredCall, calls_in, result_in
from zoea.app.importing.nova_file import NovaMemory
from zoea.model.words import CallState, OpenedBy, Outcome

NO_RESULT = "unknown: Zoea Nova stored no result of this call"
_REMEMBERED = 3
"""Turns that are over and may still get a late result."""


@dataclass(slots=True)
class Called:
    """A call and what came back, `at` in µs."""

    call: StoredCall
    state: CallState = CallState.UNKNOWN
    result: str | None = None
    at: int = 0


@dataclass(slots=True)
class Step:
    """One assistant message."""

    memory: NovaMemory
    content: str
    calls: list[Called] = field(default_factory=list)


@dataclass(slots=True)
class NovaTurn:
    """A turn as it will be stored. `nudge` is the text of a stored nudge; `notes` have the place they stand behind."""

    opened_at: int
    prompts: list[NovaMemory] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nudge: str = ""
    outcome: Outcome = Outcome.CANCELLED
    ended_at: int = 0

    @property
    def opened_by(self) -> OpenedBy:
        return OpenedBy.PROMPT if self.prompts else OpenedBy.NUDGE


class Folding:
    """Folds the memories of one mysis.

    Args:
        system: The system prompt that it has here; others are kept as notes.

    Attributes:
        mended: What had to be mended, by a sentence.
        lost_notes: What no turn could take, as there was none.
    """

    def __init__(self, system: str = "") -> None:
        self._system = {system}
        self.mended: Counter[str] = Counter()
        self.lost_notes: list[str] = []
        self._open: NovaTurn | None = None
        self._closed: list[NovaTurn] = []
        self._notes: list[str] = []

    def turns(self, memories: Iterable[NovaMemory]) -> Iterator[NovaTurn]:
        """The turns, in order, while the memories are read."""
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
                self._nudge(memory)
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

    def _nudge(self, memory: NovaMemory) -> None:
        self._new(memory.at).nudge = memory.content

    def _answer(self, memory: NovaMemory) -> None:
        calls = calls_in(memory.content)
        turn = self._open or self._new(memory.at)
        if not calls:
            # A prefix with nothing behind it is an answer that says so.
            turn.steps.append(Step(memory, memory.content))
            self._close(Outcome.ANSWERED)
            return
        for call in calls:
            self.mended["broken arguments of calls were mended"] += call.is_mended
            self.mended["arguments that are no JSON are kept as they stand"] += call.is_broken
        turn.steps.append(Step(memory, "", [Called(call) for call in calls]))

    def _result(self, memory: NovaMemory) -> None:
        waiting = list(self._waiting())
        call_id, content = result_in(memory.content, (one.call.id for one in waiting if one.call.id))
        fitting = next((one for one in waiting if call_id and one.call.id == call_id), None)
        if fitting is None and not call_id and len(waiting) == 1:
            fitting = waiting[0]
            self.mended["results without an id belong to the one call that waited"] += 1
        if fitting is None:
            turn = self._open or self._new(memory.at)
            arguments = StoredCall(call_id, UNKNOWN_TOOL, "{}")
            orphan = Called(arguments, CallState.UNKNOWN, content, memory.at)
            turn.steps.append(Step(memory, "", [orphan]))
            self.mended["results whose call is not there are results of an unknown tool"] += 1
            return
        fitting.result, fitting.state, fitting.at = content, CallState.DONE, memory.at

    def _waiting(self) -> Iterator[Called]:
        """Calls without a result: of the newest message first, each message's in its order."""
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
        """The turn with a result for each call, and its end."""
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
