"""The forms a memory may take in a request, each a pure function of the memory.

A kept plan names a memory and a form instead of repeating the text, so a form
that once went to a model must render the same for ever: change one only
together with `FORMS_VERSION`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zoea.context.condensed_text import cut_arguments, cut_text
from zoea.model.enums import Role, Source
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Memory, ToolCall

FORMS_VERSION = 1
"""Of the forms, and of how a row names them: what a kept plan is read by."""

SUPERSEDED = "[superseded by a later call]"


class FormKind(StrEnum):
    """FULL is verbatim with its reasoning; BARE without; CUT keeps head and tail of a result, of long
    arguments of a call; TAIL keeps an answer's end; ORDER is a prompt shown again as data."""

    FULL = "full"
    BARE = "bare"
    CUT = "cut"
    SUPERSEDED = "superseded"
    TAIL = "tail"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Form:
    """A kind and its measure: characters kept by CUT (of a result, or of each call's arguments) and TAIL."""

    kind: FormKind
    keep: int = 0


FULL = Form(FormKind.FULL)
BARE = Form(FormKind.BARE)
REPLACED = Form(FormKind.SUPERSEDED)
ORDER = Form(FormKind.ORDER)


def render_memory(memory: Memory, form: Form) -> RequestMessage:
    """The message that a memory becomes in a form."""
    match memory.role:
        case Role.TOOL:
            return _result(memory, form)
        case Role.ASSISTANT:
            return _answer(memory, form)
        case _:
            return _prompt(memory, form)


def _result(memory: Memory, form: Form) -> RequestMessage:
    match form.kind:
        case FormKind.CUT:
            content = cut_text(memory.content, form.keep, memory.id)
        case FormKind.SUPERSEDED:
            content = SUPERSEDED
        case _:
            content = memory.content
    return RequestMessage(
        Role.TOOL,
        content,
        memory.source,
        call_id=f"c{memory.call_id}",
        name=memory.tool_name,
        is_error=memory.is_error,
        memory_id=memory.id,
    )


def _answer(memory: Memory, form: Form) -> RequestMessage:
    if form.kind is FormKind.FULL:
        calls = tuple([RequestCall(call.wire_id, call.name, call.arguments) for call in memory.calls])
        return RequestMessage(
            Role.ASSISTANT,
            memory.content,
            memory.source,
            calls=calls,
            reasoning=memory.reasoning,
            native=memory.native,
            memory_id=memory.id,
        )
    content = memory.content[-form.keep :] if form.kind is FormKind.TAIL else memory.content
    keep = form.keep if form.kind is FormKind.CUT else None
    calls = tuple([_call(call, keep, memory.id) for call in memory.calls])
    return RequestMessage(Role.ASSISTANT, content, memory.source, calls=calls, memory_id=memory.id)


def _call(call: ToolCall, keep: int | None, memory_id: int) -> RequestCall:
    arguments = call.arguments if keep is None else cut_arguments(call.arguments, keep, memory_id)
    return RequestCall(call.wire_id, call.name, arguments)


def _prompt(memory: Memory, form: Form) -> RequestMessage:
    content = f"{memory.label}\n{memory.content}" if memory.label else memory.content
    if form.kind is FormKind.ORDER:
        title = f"standing order, given in turn {memory.turn_number}"
        return RequestMessage(Role.USER, data_block(title, content), memory_id=memory.id)
    return RequestMessage(Role.USER, content, memory.source, memory_id=memory.id)


def data_block(title: str, text: str) -> str:
    """A text of Zoea's own making: its first line says that what follows is data and what it is."""
    return f"[data: {title}]\n{text}"


def note_message(text: str) -> RequestMessage:
    """A user message that exists in no memory: nudge, warning, situation."""
    return RequestMessage(Role.USER, text, Source.SYSTEM)
