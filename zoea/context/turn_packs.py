"""Build the packs of the current turn and the tools, which every strategy requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zoea.context.forms import FULL, Form, FormKind
from zoea.context.frozen_turn import FrozenTurn
from zoea.context.labels import with_labels
from zoea.context.needs import Need, NeedAnswer, TurnRecord, TurnSoFar
from zoea.context.plan_values import Pack, Priority
from zoea.context.units import OmittedMemory, Unit, UnitKind, drop_last_answer, insert_notes, read_units
from zoea.model.enums import Role
from zoea.model.errors import PlanError
from zoea.model.request import RequestMessage
from zoea.model.values import Memory


def turn_units(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[list[Unit], list[OmittedMemory]]:
    """Return the turn's units in order, and the memories that are part of none.

    A nudge that opened the turn comes first; notes stand at their recorded places.

    Raises:
        PlanError: The turn has neither a prompt nor a nudge.
    """
    answer = answers[TurnSoFar(frozen.turn_id)]
    assert isinstance(answer, TurnRecord)
    units, left_out = read_units(with_labels(answer.memories, frozen.label_to))
    units, trailing = drop_last_answer(insert_notes(units, answer.notes))
    if frozen.is_nudged:
        units.insert(0, Unit(UnitKind.NOTE, -1, -1, text=frozen.nudge_text))
    elif not any(unit.kind is UnitKind.PROMPT for unit in units):
        raise PlanError(
            f"Turn {frozen.turn_number} holds no prompt and was not opened by a nudge, so there is nothing to answer.",
            hint="Send the message again; if this happens twice, the workspace's database is damaged.",
        )
    return units, left_out + trailing


def turn_pack(messages: Iterable[RequestMessage], forms: Mapping[int, Form]) -> Pack:
    """Return the complete current turn, the last pack of messages."""
    return Pack("turn", "turn", Priority.REQUIRED, tuple(messages), preserve=True, full_forms=forms)


def tools_pack(frozen: FrozenTurn) -> Pack:
    """Return the tool schemas: counted and explained, but without messages."""
    return Pack("tools", "tools", Priority.REQUIRED, (), preserve=True, counted=frozen.tools_tokens)


def first_form(memory: Memory, max_result_chars: int) -> Form:
    """Return the form of a memory of the current turn before any compaction."""
    if memory.role is Role.TOOL and len(memory.content) > max_result_chars:
        return Form(FormKind.CUT, max_result_chars)
    return FULL
