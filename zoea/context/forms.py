"""Render a memory as a message in one of several forms.

A stored plan names a memory and a form instead of repeating the text, so a form must always
render the same. Change one only together with `FORMS_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from zoea.context.condensed_text import cut_arguments, cut_text
from zoea.model.enums import CallState, Role, Source
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Memory, ToolCall

FORMS_VERSION = 1
"""The version of the forms and of their names in stored plans."""

SUPERSEDED = "[superseded by a later call]"


class FormKind(StrEnum):
    """How a memory is rendered.

    FULL is verbatim with reasoning, BARE without. CUT keeps head and tail of a result or of a call's
    long arguments. TAIL keeps the end of an answer. ORDER shows a prompt again as data, RECALL a part of
    any memory.
    """

    FULL = "full"
    BARE = "bare"
    CUT = "cut"
    SUPERSEDED = "superseded"
    TAIL = "tail"
    ORDER = "order"
    RECALL = "recall"


class Form(Struct, frozen=True):
    """A form kind and its numbers: characters kept (CUT, TAIL, RECALL) and their begin (RECALL)."""

    kind: FormKind
    keep: int = 0
    at: int = 0


FULL = Form(FormKind.FULL)
BARE = Form(FormKind.BARE)
REPLACED = Form(FormKind.SUPERSEDED)
ORDER = Form(FormKind.ORDER)


def render_memory(memory: Memory, form: Form) -> RequestMessage:
    """Return the message for a memory in a form."""
    if form.kind is FormKind.RECALL:
        return _recalled(memory, form)
    match memory.role:
        case Role.TOOL:
            return _result(memory, form)
        case Role.ASSISTANT:
            return _answer(memory, form)
        case _:
            content = f"{memory.label}\n{memory.content}" if memory.label else memory.content
            if form.kind is FormKind.ORDER:
                title = f"standing order, given in turn {memory.turn_number}"
                return RequestMessage(Role.USER, data_block(title, content), memory_id=memory.id)
            return RequestMessage(Role.USER, content, memory.source, memory_id=memory.id)


def render_memories(memories: Iterable[Memory], forms: Mapping[int, Form]) -> tuple[RequestMessage, ...]:
    """Return the messages for memories, each in its form by id."""
    return tuple([render_memory(memory, forms[memory.id]) for memory in memories])


def _recalled(memory: Memory, form: Form) -> RequestMessage:
    """Show a part of an older memory as data that says what it was."""
    match memory.role:
        case Role.TOOL:
            what = f"what {memory.tool_name or 'a tool'} returned"
        case Role.ASSISTANT:
            what = "what you answered"
        case _:
            what = "what you were told"
    end = form.at + form.keep
    text = memory.content[form.at : end].strip()
    text = f"{'… ' if form.at else ''}{text}{' …' if end < len(memory.content) else ''}"
    block = data_block(f"{what} in turn {memory.turn_number}", text)
    return RequestMessage(Role.USER, block, memory_id=memory.id)


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
        calls = tuple([_call(call, None, memory.id) for call in memory.calls])
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
    is_denied = call.state is CallState.DENIED
    return RequestCall(call.wire_id, call.name, arguments, call.provider_call_id, is_denied)


def data_block(title: str, text: str) -> str:
    """Prefix a text of Zoea's own with a line that names it as data."""
    return f"[data: {title}]\n{text}"


def note_message(text: str) -> RequestMessage:
    """Return a user message that exists in no memory: nudge, warning or situation."""
    return RequestMessage(Role.USER, text, Source.SYSTEM)
