"""Encode a plan for its `request` row, and rebuild its messages from the row.

Each message is stored as memory id and form, or as literal text: `{"m": 7, "f": "cut", "k": 4000}`
is memory 7 in the form CUT(4000); `{"t": …, "role": …}` is a literal text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from zoea.context.forms import FORMS_VERSION, Form, FormKind, render_memory
from zoea.context.labels import with_labels
from zoea.context.plan_values import Plan
from zoea.model.enums import Role, Source
from zoea.model.errors import PlanError
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Memory, Native


def encode(plan: Plan) -> dict[str, Any]:
    """Return the stored form of a plan, ready for JSON."""
    encoded = {
        "v": FORMS_VERSION,
        "decisions": [asdict(decision) for decision in plan.decisions],
        "steps": [asdict(step) for step in plan.steps],
        "budget": asdict(plan.budget),
        "messages": [_encode_message(message, plan.forms) for message in plan.messages],
    }
    if plan.left_out_tools:
        encoded["left_out_tools"] = list(plan.left_out_tools)
    if plan.label_to:
        encoded["to"] = plan.label_to
    if plan.notes:
        encoded["notes"] = list(plan.notes)
    return encoded


def rebuild(encoded: Mapping[str, Any], memories: Mapping[int, Memory]) -> tuple[RequestMessage, ...]:
    """Return the messages of an encoded plan.

    Args:
        encoded: The result of `encode`, also after a round trip through JSON.
        memories: At least the memories that `memories_of(encoded)` names, by id.

    Raises:
        PlanError: The version is unknown, or a memory was removed.
    """
    if encoded.get("v") != FORMS_VERSION:
        raise PlanError(
            f"The plan is of version {encoded.get('v')}; this Zoea reads {FORMS_VERSION}.",
            hint="Open the workspace with the Zoea that wrote it.",
        )
    named = {one.id: one for one in with_labels(memories.values(), encoded.get("to", ""))}
    return tuple([_decode_message(entry, named) for entry in encoded["messages"]])


def memories_of(encoded: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the memory ids that `rebuild` needs, in message order."""
    return tuple([entry["m"] for entry in encoded["messages"] if "m" in entry])


def _encode_message(message: RequestMessage, forms: Mapping[int, Form]) -> dict[str, Any]:
    form = forms.get(message.memory_id) if message.memory_id is not None else None
    if form is not None:
        entry: dict[str, Any] = {"m": message.memory_id, "f": form.kind}
        if form.keep:
            entry["k"] = form.keep
        if form.at:
            entry["a"] = form.at
        return entry
    entry = {"t": message.content, "role": message.role}
    if message.source is not Source.SYSTEM:
        entry["source"] = message.source
    if message.calls:
        entry["calls"] = [[call.id, call.name, call.arguments] for call in message.calls]
    if message.native is not None:
        entry["native"] = [message.native.provider, message.native.model, message.native.blocks]
    for name in ("call_id", "name", "is_error", "reasoning"):
        if value := getattr(message, name):
            entry[name] = value
    if message.memory_id is not None:
        entry["id"] = message.memory_id
    return entry


def _decode_message(entry: Mapping[str, Any], memories: Mapping[int, Memory]) -> RequestMessage:
    if "m" in entry:
        memory = memories.get(entry["m"])
        if memory is None:
            raise PlanError(
                f"Memory {entry['m']}, which the request held, is gone.",
                hint="It was purged; the request's numbers are still there.",
            )
        return render_memory(memory, Form(FormKind(entry["f"]), entry.get("k", 0), entry.get("a", 0)))
    native = entry.get("native")
    return RequestMessage(
        Role(entry["role"]),
        entry["t"],
        Source(entry.get("source", Source.SYSTEM)),
        calls=tuple([RequestCall(*call) for call in entry.get("calls", ())]),
        call_id=entry.get("call_id", ""),
        name=entry.get("name", ""),
        is_error=entry.get("is_error", False),
        reasoning=entry.get("reasoning", ""),
        native=Native(*native) if native is not None else None,
        memory_id=entry.get("id"),
    )
