"""Compact the current turn so that each request extends the one before.

The result depends only on the turn's records: `planner.py` replays the turn unit by unit, as if a
request followed each one, so a later request repeats every earlier decision and adds to it only
when the turn outgrows the budget again.

Steps, each oldest first: replace superseded snapshots; cut results, arguments and reasoning of
earlier calls, in shorter and shorter cuts; fold the oldest slices. Prompts and the calls of the last
slice are never changed; slices of `keep_tools` only where the request would not fit with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TypeVar

from zoea.context.condensed_text import FEW_IDENTIFIER_CHARS, IDENTIFIER_CHARS, LEAST, fold_slice, join_folds
from zoea.context.forms import FULL, REPLACED, SUPERSEDED, Form, FormKind, note_message, render_memory
from zoea.context.frozen_turn import FrozenTurn
from zoea.context.measure import Counter, message_chars
from zoea.context.plan_values import PlanStep, StepKind
from zoea.context.turn_packs import first_form
from zoea.context.units import Unit, UnitKind
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Memory, ToolCall

_T = TypeVar("_T")

RUNGS = (16_000, 4_000, 1_000)
"""Characters kept of a long result or an earlier call's arguments, per step of pressure."""

LAST_RUNG = 400
"""Characters kept of results once nothing is left to fold."""


class CompactedTurn:
    """The turn's units with the current form of each memory.

    `total` is the cost in calibrated tokens, an upper bound once slices are folded because adjacent
    folds share one message. `grown` is the cost without compaction, `chars` its characters. `messages`
    and `forms` are those of the turn without compaction.
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
        self.chars = 0
        self.messages: list[RequestMessage] = []
        self.forms: dict[int, Form] = {}

    def copy(self) -> CompactedTurn:
        """Return a turn that can be extended without a change to this one."""
        made = CompactedTurn(self._frozen)
        made._units, made._kept, made._folds = self._units[:], self._kept[:], self._folds[:]
        made._forms, made._shown, made._costs = self._forms[:], self._shown[:], self._costs[:]
        made._last_slice, made.total, made.grown, made.chars = self._last_slice, self.total, self.grown, self.chars
        made.messages, made.forms = self.messages[:], self.forms.copy()
        return made

    def add(self, unit: Unit) -> None:
        """Append a unit in its first form."""
        forms = [first_form(memory, self._frozen.max_result_chars) for memory in unit.memories]
        shown = [render_memory(memory, form) for memory, form in zip(unit.memories, forms, strict=True)]
        if not unit.memories:
            shown.append(note_message(unit.text))
        costs = [self._counter.message(message) for message in shown]
        if unit.kind is UnitKind.SLICE:
            self._last_slice = len(self._units)
        calls = unit.memories[0].calls if unit.kind is UnitKind.SLICE else ()
        self._kept.append(any(_matches(call.name, self._frozen.keep_tools) for call in calls))
        self._units.append(unit)
        self._forms.append(forms)
        self._shown.append(shown)
        self._costs.append(costs)
        self.messages += shown
        self.forms.update(zip([memory.id for memory in unit.memories], forms, strict=True))
        self.chars += sum(map(message_chars, shown))
        self._folds.append("")
        cost = sum(costs)
        self.total += cost
        self.grown += cost

    def compact(self, target: int, bound: int, newest: int) -> None:
        """Compact until `total` is at most `target`, or nothing is left to compact.

        The last slice's results, which the model has not read yet, are cut only where `total` exceeds `bound`, and
        then down to `newest`.
        """
        self._supersede(target)
        has_cut = False
        for rung, keep in enumerate((*RUNGS, LAST_RUNG)):
            if keep == LAST_RUNG:
                self._fold(IDENTIFIER_CHARS, target)
            self._cut_earlier(keep, target, with_reasoning=rung > 0)
            if has_cut or self.total > bound:
                before = self.total
                self._cut_results(self._last_slice, keep, newest)
                has_cut = has_cut or self.total < before
        self._fold(FEW_IDENTIFIER_CHARS, target)
        self._squeeze(bound)

    def _squeeze(self, bound: int) -> None:
        """Cut slices of kept tools and the newest results further, to fit the request."""
        for keep in (LAST_RUNG, LEAST):
            for index, unit in enumerate(self._units):
                if unit.kind is not UnitKind.SLICE or self._folds[index]:
                    continue
                if index < self._last_slice and self.total > bound:
                    self._set(index, 0, Form(FormKind.CUT, keep))
                for place in range(1, len(unit.memories)):
                    if self.total > bound and len(unit.memories[place].content) > keep:
                        self._set(index, place, Form(FormKind.CUT, keep))

    def _supersede(self, target: int) -> None:
        """Replace results of snapshot tools that a later successful call with the same arguments supersedes."""
        if self.total <= target:
            return
        newest: dict[object, tuple[int, int]] = {}
        for index, place, call, result in self._results():
            if not result.is_error:
                newest[_call_identity(call)] = (index, place)
        for index, place, call, result in self._results():
            latest = newest.get(_call_identity(call), (index, place))
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
        """Return whether a unit is kept for the whole turn or already folded."""
        return self._kept[index] or bool(self._folds[index])

    def _cut_earlier(self, keep: int, target: int, *, with_reasoning: bool) -> None:
        """Cut results and arguments over `keep` in earlier slices, with their reasoning if asked."""
        for index in range(self._last_slice):
            unit = self._units[index]
            if self.total <= target:
                return
            if unit.kind is UnitKind.SLICE and not self._is_fixed(index):
                memory = unit.memories[0]
                has_reasoning = bool(memory.reasoning) or memory.native is not None
                if any(len(call.arguments) > keep for call in memory.calls) or (with_reasoning and has_reasoning):
                    self._set(index, 0, Form(FormKind.CUT, keep))
                self._cut_results(index, keep, target)

    def _cut_results(self, index: int, keep: int, target: int) -> None:
        """Cut the results of one slice that are longer than `keep`."""
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
            self._costs[index] = _replaced(self._costs[index], place, cost)
            self._forms[index] = _replaced(self._forms[index], place, form)
            self._shown[index] = _replaced(self._shown[index], place, shown)

    def _fold(self, identifier_chars: int, target: int) -> None:
        """Fold earlier slices, and answers that a prompt followed, into lines."""
        for index, unit in enumerate(self._units):
            if self.total <= target:
                return
            if not self._is_foldable(index):
                continue
            answer, *results = [render_memory(memory, FULL) for memory in unit.memories]
            text = fold_slice(answer, results, identifier_chars)
            cost = self._counter.message(_fold_message([text]))
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

    def compacted(self) -> tuple[tuple[RequestMessage, ...], dict[int, Form]]:
        """Return the compacted messages and the form of each memory with its own message."""
        out: list[RequestMessage] = []
        forms: dict[int, Form] = {}
        run: list[str] = []
        for index, unit in enumerate(self._units):
            if self._folds[index]:
                run.append(self._folds[index])
                continue
            if run:
                out.append(_fold_message(run))
                run = []
            out += self._shown[index]
            for memory, form in zip(unit.memories, self._forms[index], strict=True):
                forms[memory.id] = form
        return tuple(out), forms

    def steps(self) -> list[PlanStep]:
        """Report every memory of the turn that is not verbatim, in conversation order."""
        out: list[PlanStep] = []
        for index, unit in enumerate(self._units):
            if fold := self._folds[index]:
                out += [_folded_step(memory, fold if place == 0 else "") for place, memory in enumerate(unit.memories)]
                continue
            for memory, form in zip(unit.memories, self._forms[index], strict=True):
                if form != FULL:
                    out.append(build_step(memory, form, self._frozen.max_result_chars, "turn"))
        return out


def _replaced(items: list[_T], place: int, item: _T) -> list[_T]:
    """Return a list with one item replaced; copies of a turn share the old one."""
    return [*items[:place], item, *items[place + 1 :]]


def build_step(memory: Memory, form: Form, max_result_chars: int, pack: str) -> PlanStep:
    """Report one memory that is rendered in another form than verbatim."""
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
    """Return the reported size of a message: a result's text, or all that an answer carries."""
    return len(message.content) if message.role is Role.TOOL else message_chars(message)


def _folded_step(memory: Memory, fold: str) -> PlanStep:
    return PlanStep(StepKind.FOLDED, memory.id, own_chars(render_memory(memory, FULL)), len(fold))


def _fold_message(parts: list[str]) -> RequestMessage:
    return RequestMessage(Role.ASSISTANT, join_folds(parts))


def _call_identity(call: ToolCall) -> object:
    return call.fingerprint or (call.name, call.arguments)


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    """Return whether a glob matches a tool, with or without its upstream prefix (`NAME__tool`)."""
    bare = name.rpartition("__")[2]
    return any(fnmatchcase(name, glob) or fnmatchcase(bare, glob) for glob in globs)
