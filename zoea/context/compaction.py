"""Compacting the turn, so that its requests keep extending one another (I5).

What is compacted is a pure function of the turn's records: `planning.py` goes
through the units in order as if a request had been made after each, and carries
this state along. So a later request finds every earlier decision again, and
changes it only where the turn has outgrown the budget once more.

Each time, in this order and oldest first: superseded snapshots; long results,
arguments and reasoning of earlier calls, in ever shorter cuts; the oldest slices
fold. Prompts, the last slice's calls and slices of `keep_tools` are never
touched (turns.md, "Composition").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from zoea.context.condensed_text import FEW_IDENTIFIER_CHARS, IDENTIFIER_CHARS, fold_slice, join_folds
from zoea.context.forms import FULL, REPLACED, SUPERSEDED, Form, FormKind, render_memory
from zoea.context.frozen_turn import FrozenTurn
from zoea.context.measure import Counter, message_chars
from zoea.context.plan_values import PlanStep, StepKind
from zoea.context.turn_packs import first_form
from zoea.context.units import Unit, UnitKind
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Memory, ToolCall

RUNGS = (16_000, 4_000, 1_000)
"""Characters that a long result, or an earlier call's arguments, keep as the pressure grows."""

LAST_RUNG = 400
"""Characters that results keep once nothing is left to fold."""


class CompactedTurn:
    """The turn's units, each memory with the form it has now. Grows by `add`, shrinks by `relieve`.

    `total` is the cost in calibrated tokens; where slices are folded it is an
    upper bound, because neighbours share one message in the end. `grown` is what
    it would be without compaction.
    """

    def __init__(self, frozen: FrozenTurn) -> None:
        self._frozen = frozen
        self._counter = Counter(frozen.calibration)
        self._units: list[Unit] = []
        self._forms: list[list[Form]] = []
        self._shown: list[list[RequestMessage]] = []
        self._costs: list[list[int]] = []
        self._folds: list[str] = []
        self._kept: list[bool] = []
        self._last_slice = -1
        self.total = 0
        self.grown = 0

    def add(self, unit: Unit, shown: Sequence[RequestMessage]) -> None:
        """Append a unit; `shown` are its messages in their first form."""
        limit = self._frozen.max_result_chars
        costs = [self._counter.message(message) for message in shown]
        if unit.kind is UnitKind.SLICE:
            self._last_slice = len(self._units)
        self._kept.append(unit.kind is UnitKind.SLICE and self._holds_session(unit))
        self._units.append(unit)
        self._forms.append([first_form(memory, limit) for memory in unit.memories])
        self._shown.append(list(shown))
        self._costs.append(costs)
        self._folds.append("")
        cost = sum(costs)
        self.total += cost
        self.grown += cost

    def _holds_session(self, unit: Unit) -> bool:
        return any(_matches(call.name, self._frozen.keep_tools) for call in unit.memories[0].calls)

    def relieve(self, target: int, bound: int) -> None:
        """Compact until `total` is at most `target`, or nothing more can be done.

        The last slice's results, which the model has not read yet, are cut only as far as `bound` demands.
        """
        self._supersede(target)
        for rung, keep in enumerate(RUNGS):
            self._cut_earlier(keep, target, with_reasoning=rung > 0)
            self._cut_results(self._last_slice, keep, bound)
        self._fold(IDENTIFIER_CHARS, target)
        self._cut_earlier(LAST_RUNG, target, with_reasoning=True)
        self._cut_results(self._last_slice, LAST_RUNG, bound)
        self._fold(FEW_IDENTIFIER_CHARS, target)

    def _supersede(self, target: int) -> None:
        """Step 1: results of snapshot tools that a later, successful call with the same arguments replaces."""
        if self.total <= target:
            return
        newest: dict[object, tuple[int, int]] = {}
        for index, place, call, result in self._results():
            if not result.is_error:
                newest[_identity(call)] = (index, place)
        for index, place, call, result in self._results():
            latest = newest.get(_identity(call), (index, place))
            if (index, place) >= latest or self._is_fixed(index) or len(result.content) <= len(SUPERSEDED):
                continue
            if _matches(call.name, self._frozen.snapshot_tools):
                self._set(index, place, REPLACED)
                if self.total <= target:
                    return

    def _results(self) -> Iterator[tuple[int, int, ToolCall, Memory]]:
        for index, unit in enumerate(self._units):
            if unit.kind is UnitKind.SLICE:
                for place, call in enumerate(unit.memories[0].calls, start=1):
                    yield index, place, call, unit.memories[place]

    def _is_fixed(self, index: int) -> bool:
        """Kept for the whole turn, or folded away already."""
        return self._kept[index] or bool(self._folds[index])

    def _cut_earlier(self, keep: int, target: int, *, with_reasoning: bool) -> None:
        """Step 2, for earlier slices: results and arguments longer than `keep`, and reasoning where asked."""
        for index in range(self._last_slice):
            unit = self._units[index]
            if self.total <= target:
                return
            if unit.kind is UnitKind.SLICE and not self._is_fixed(index):
                if _answer_is_long(unit.memories[0], keep, with_reasoning):
                    self._set(index, 0, Form(FormKind.CUT, keep))
                self._cut_results(index, keep, target)

    def _cut_results(self, index: int, keep: int, target: int) -> None:
        """Step 2, for the results of one slice."""
        if index < 0 or self._is_fixed(index):
            return
        for place, memory in enumerate(self._units[index].memories[1:], start=1):
            if self.total <= target:
                return
            if self._forms[index][place].kind is not FormKind.SUPERSEDED and len(memory.content) > keep:
                self._set(index, place, Form(FormKind.CUT, keep))

    def _set(self, index: int, place: int, form: Form) -> None:
        shown = render_memory(self._units[index].memories[place], form)
        cost = self._counter.message(shown)
        if cost < self._costs[index][place]:
            self.total += cost - self._costs[index][place]
            self._costs[index][place] = cost
            self._forms[index][place] = form
            self._shown[index][place] = shown

    def _fold(self, identifier_chars: int, target: int) -> None:
        """Step 3: earlier slices, and answers that prompts followed, become lines."""
        for index, unit in enumerate(self._units):
            if self.total <= target:
                return
            if not self._is_foldable(index):
                continue
            answer, *results = [render_memory(memory, FULL) for memory in unit.memories]
            text = fold_slice(answer, results, identifier_chars)
            cost = self._counter.message(_stand_in([text]))
            if cost < sum(self._costs[index]):
                self.total += cost - sum(self._costs[index])
                self._costs[index] = [cost]
                self._folds[index] = text

    def _is_foldable(self, index: int) -> bool:
        match self._units[index].kind:
            case UnitKind.SLICE:
                return index < self._last_slice and not self._kept[index]
            case UnitKind.TEXT:
                return index < len(self._units) - 1
            case _:
                return False

    def messages(self) -> tuple[tuple[RequestMessage, ...], dict[int, Form]]:
        """What the turn is in a request now, and the form of each memory that stands in it by itself."""
        out: list[RequestMessage] = []
        forms: dict[int, Form] = {}
        run: list[str] = []
        for index, unit in enumerate(self._units):
            if self._folds[index]:
                run.append(self._folds[index])
                continue
            if run:
                out.append(_stand_in(run))
                run = []
            out += self._shown[index]
            for memory, form in zip(unit.memories, self._forms[index], strict=True):
                forms[memory.id] = form
        return tuple(out), forms

    def steps(self) -> list[PlanStep]:
        """Every memory of the turn that is not verbatim in the request, in conversation order."""
        out: list[PlanStep] = []
        for index, unit in enumerate(self._units):
            if fold := self._folds[index]:
                out += [_folded_step(memory, fold if place == 0 else "") for place, memory in enumerate(unit.memories)]
                continue
            for memory, form in zip(unit.memories, self._forms[index], strict=True):
                if form != FULL:
                    out.append(build_step(memory, form, self._frozen.max_result_chars, "turn"))
        return out


def build_step(memory: Memory, form: Form, max_result_chars: int, pack: str) -> PlanStep:
    """The report on one memory that stands in another form than verbatim."""
    full, shown = render_memory(memory, FULL), render_memory(memory, form)
    match form.kind:
        case FormKind.SUPERSEDED:
            kind = StepKind.SUPERSEDED
        case FormKind.CUT if memory.role is Role.TOOL and form.keep == max_result_chars:
            kind = StepKind.LIMIT
        case FormKind.CUT if shown.content == full.content and [one.arguments for one in shown.calls] == [
            one.arguments for one in full.calls
        ]:
            kind = StepKind.REASONING
        case _:
            kind = StepKind.CUT
    return PlanStep(kind, memory.id, own_chars(full), own_chars(shown), pack)


def own_chars(message: RequestMessage) -> int:
    """What a report calls the size of a message: a result's text; of an answer everything it carries."""
    return len(message.content) if message.role is Role.TOOL else message_chars(message)


def _folded_step(memory: Memory, fold: str) -> PlanStep:
    return PlanStep(StepKind.FOLDED, memory.id, own_chars(render_memory(memory, FULL)), len(fold))


def _stand_in(parts: list[str]) -> RequestMessage:
    return RequestMessage(Role.ASSISTANT, join_folds(parts))


def _identity(call: ToolCall) -> object:
    return call.fingerprint or (call.name, call.arguments)


def _answer_is_long(memory: Memory, keep: int, with_reasoning: bool) -> bool:
    has_reasoning = bool(memory.reasoning) or memory.native is not None
    return any(len(call.arguments) > keep for call in memory.calls) or (with_reasoning and has_reasoning)


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    """Whether a tool is meant, with or without the upstream's prefix (`NAME__tool`)."""
    bare = name.rpartition("__")[2]
    return any(fnmatchcase(name, glob) or fnmatchcase(bare, glob) for glob in globs)
