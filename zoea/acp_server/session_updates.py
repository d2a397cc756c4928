"""Converts memories and calls into updates of the protocol, and an editor's prompt into text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from acp import helpers, schema
from acp.schema import ToolKind

from zoea.model.enums import ASK_TOOL, CallState, Role
from zoea.model.values import ApprovalView, Memory, ToolCall
from zoea.text.call_text import format_call, reveal_arguments
from zoea.text.control_characters import reveal, reveal_line, reveal_unambiguously
from zoea.text.json_text import parse_json
from zoea.text.large_json import indent

MAX_CHARS = 20_000
"""Characters of a result that an editor is sent; it shows the rest in Zoea."""
_KINDS: dict[str, ToolKind] = {
    "read_file": "read",
    "list_files": "read",
    "search_files": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "run": "execute",
    "fetch": "fetch",
}
_OPTIONS: tuple[tuple[str, str, schema.PermissionOptionKind], ...] = (
    ("once", "Allow once", "allow_once"),
    ("session", "Allow until this mysis stops", "allow_always"),
    ("template", "Allow for all of its template", "allow_always"),
    ("denied", "Refuse", "reject_once"),
)

Update = (
    schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.UserMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
)


def read_prompt(blocks: Iterable[Any]) -> str:
    """Return the text of a prompt, with embedded resources and the addresses of linked ones.

    Raises:
        ValueError: A block is neither, such as a picture.
    """
    parts = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                parts.append(block.text)
            case schema.ResourceContentBlock():
                parts.append(f"[{block.title or block.name}]({block.uri})")
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
                parts.append(f"{resource.uri}:\n```\n{resource.text}\n```")
            case schema.EmbeddedResourceContentBlock():
                raise ValueError(f"a prompt to a mysis holds texts, and {block.resource.uri} is none")
            case _:
                raise ValueError(f"a prompt to a mysis holds texts and resources, no {block.type}")
    return "\n\n".join(filter(None, parts)).strip()


def say(text: str) -> schema.AgentMessageChunk:
    """Return a piece of the agent's message."""
    return helpers.update_agent_message_text(text)


def replay(memories: Iterable[Memory], folder: str) -> Iterator[Update]:
    """Yield a stored conversation as updates."""
    for memory in memories:
        if memory.role is Role.USER:
            yield helpers.update_user_message_text(memory.content)
            continue
        if memory.role is Role.ASSISTANT and memory.reasoning:
            yield helpers.update_agent_thought_text(memory.reasoning)
        if memory.role is Role.ASSISTANT and memory.content:
            yield say(memory.content)
        yield from show_calls(memory, folder)


def show_calls(memory: Memory, folder: str) -> Iterator[Update]:
    """Yield the calls of an answer, or the end of the call of a result."""
    for call in memory.calls:
        arguments = _read_arguments(call)
        yield helpers.start_tool_call(
            call.wire_id,
            format_call(call.name, call.arguments),
            kind=_KINDS.get(call.name, "other"),
            status="pending",
            content=_show_edits(call.name, arguments, folder) or None,
            locations=_find_locations(arguments, folder) or None,
            raw_input=arguments,
        )
    if memory.role is Role.TOOL and memory.call_id is not None:
        text = memory.content[:MAX_CHARS]
        text += f"… ({len(memory.content):,} characters)" if len(memory.content) > MAX_CHARS else ""
        yield helpers.update_tool_call(
            f"c{memory.call_id}",
            status="failed" if memory.is_error else "completed",
            content=[helpers.tool_content(helpers.text_block(text))],
        )


def describe_approval(
    approval: ApprovalView, calls: Iterable[ToolCall], folder: str
) -> tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]:
    """Return what an editor is asked about, and the answers that it may give.

    Args:
        calls: Those that it was shown, among which the one that waits may be.
    """
    arguments = parse_json(approval.arguments, approval.arguments)
    waiting = (call for call in calls if call.state is not CallState.DONE)
    same = (call for call in waiting if call.name == approval.tool and _read_arguments(call) == arguments)
    call = next(same, None)
    title = format_call(approval.tool, approval.arguments) if approval.kind == "tool" else approval.tool
    edits = _show_edits(approval.tool, arguments, folder)
    # A title is cut, and a difference may leave out an argument.
    whole = [] if _is_shown_by(edits, arguments) else [_show_arguments(approval.arguments)]
    update = schema.ToolCallUpdate(
        tool_call_id=f"approval-{approval.id}" if call is None else call.wire_id,
        title=reveal(title),
        kind=_KINDS.get(approval.tool, "other"),
        status="pending",
        raw_input=arguments,
        content=[*whole, *edits],
        locations=_find_locations(arguments, folder) or None,
    )
    left_out = {"session"} if approval.why_once else set()
    left_out |= {"template"} if approval.why_no_grant else set()
    options = [
        schema.PermissionOption(option_id=option, name=name, kind=kind)
        for option, name, kind in _OPTIONS
        if option not in left_out
    ]
    return update, options


def is_question(approval: ApprovalView) -> bool:
    """Return whether it asks for words, which no option can hold."""
    return approval.tool == ASK_TOOL and not approval.upstream


def find_question(approval: ApprovalView) -> str:
    """Return the words of a question of a mysis."""
    arguments = parse_json(approval.arguments, approval.arguments)
    asked = arguments.get("question") if isinstance(arguments, dict) else None
    return reveal(asked if isinstance(asked, str) else approval.arguments)


def _read_arguments(call: ToolCall) -> Any:
    return parse_json(call.arguments, call.arguments)


def _find_locations(arguments: Any, folder: str) -> list[schema.ToolCallLocation]:
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return [schema.ToolCallLocation(path=_place(path, folder))] if isinstance(path, str) and path else []


def _show_arguments(arguments: str) -> schema.ContentToolCallContent:
    return helpers.tool_content(helpers.text_block(reveal_arguments(indent(arguments))))


def _is_shown_by(edits: list[Any], arguments: Any) -> bool:
    """Return whether the differences show every argument of a call exactly.

    The path of a difference is one that the editor opens, so that nothing in it is an escape.
    """
    match arguments:
        case {"path": str(path)} if reveal_line(path) != path:
            return False
        case {"path": _, "content": _, **rest}:
            return bool(edits) and not rest
        case {"path": _, "edits": list(entries), **rest}:
            return len(edits) == len(entries) > 0 and not rest and all(len(entry) == 2 for entry in entries)
    return False


def _show_edits(name: str, arguments: Any, folder: str) -> list[Any]:
    """Return the changes of a file that a call asks for. Hidden characters are escapes."""
    match name, arguments:
        case "write_file", {"path": str(path), "content": str(content)}:
            return [helpers.tool_diff_content(_place(path, folder), reveal_unambiguously(content))]
        case "edit_file", {"path": str(path), "edits": list(edits)}:
            return [
                helpers.tool_diff_content(_place(path, folder), reveal_unambiguously(new), reveal_unambiguously(old))
                for edit in edits
                if isinstance(edit, dict)
                and isinstance(old := edit.get("old"), str)
                and isinstance(new := edit.get("new"), str)
            ]
    return []


def _place(path: str, folder: str) -> str:
    return str(PurePosixPath(folder or "/") / path)


def list_modes(names: Sequence[str], current: str) -> schema.SessionModeState:
    """Return the templates as the modes of a session."""
    ids = dict.fromkeys([*names, current])
    modes = [schema.SessionMode(id=name, name=name) for name in ids]
    return schema.SessionModeState(current_mode_id=current, available_modes=modes)
