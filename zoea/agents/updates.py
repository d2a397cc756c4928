"""Updates of an agent's turn as values, converted from the models of the protocol's SDK."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.text import clean
from zoea.text.control_characters import split_lines

SERVER = "zoea"
"""The name of Zoea's own MCP server, as agents show it."""
MOST_RESULT_CHARS = 400_000
"""Characters that are kept of what one tool call told."""
MOST_ARGUMENT_CHARS = 2_000_000
"""Characters of a call's arguments. A longer call is not allowed where it asks; where it is told, it is cut."""
MOST_TOKENS = 10**12
"""A count above, or a negative one, is none."""
MOST_DIFF_CHARS = 10_000
"""Characters of a file up to which a change is shown as a difference."""
READ_KINDS = frozenset({"read", "search", "think"})
CHANGE_KINDS = frozenset({"edit", "delete", "move"})
ENDED = frozenset({"completed", "failed"})
_COMMANDS = ("command", "cmd")
_NO_SCOPE = frozenset(
    ("description", "title", "explanation", "reason", "justification", "timeout", "timeout_ms", "call_id", "turn_id")
)
"""Arguments of agents that change nothing of what a command does. All others are part of what a grant covers."""
_PATHS = frozenset({"path", "filePath", "file_path", "filepath", "abs_path", "notebook_path"})
"""Arguments of agents that name a file."""
_PLACES = frozenset(
    ("cwd", "dest", "destination", "dir", "directory", "file", "filename", "filepath", "files", "folder", "from",
     "path", "paths", "root", "source", "src", "target", "to", "uri", "url")
)  # fmt: skip
"""Words in names of arguments that may name a file, as in `absolute_path` or `newUri`."""
_QUOTES = "`'\"(<"
_MAY_LEAD_OUT = re.compile(r"[/~$]|\w+:/|(?:.*/)?\.\.(?:/|$)", re.DOTALL)


class TextTold(Struct, frozen=True):
    """A piece of the agent's answer or thoughts. The pieces of one message share its id."""

    text: str
    is_thought: bool = False
    message_id: str = ""


class CallTold(Struct, frozen=True):
    """An update of a tool call. A field that is None keeps its former value.

    Attributes:
        is_start: It begins a call; ids may come again.
        kind: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`.
        status: `pending`, `in_progress`, `completed` or `failed`.
        text: Of its content: results, and differences of files.
        paths: Of the files that it is about.
        changed: Paths of the differences in its content.
    """

    call_id: str
    is_start: bool = False
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    arguments: Any = None
    output: Any = None
    text: str | None = None
    paths: tuple[str, ...] | None = None
    changed: tuple[str, ...] | None = None


class UsageTold(Struct, frozen=True):
    """Used tokens of an agent's context, their limit, and the session's cost in micro-dollars."""

    used: int
    size: int
    cost_micros: int | None = None


class ModeTold(Struct, frozen=True):
    mode: str


class PlanTold(Struct, frozen=True):
    """The agent's plan; each entry with its status."""

    entries: tuple[tuple[str, str], ...]


AgentUpdate = TextTold | CallTold | UsageTold | ModeTold | PlanTold


class PermissionOption(Struct, frozen=True):
    """A way to answer: `allow_once`, `allow_always`, `reject_once` or `reject_always`."""

    option_id: str
    name: str
    kind: str


class MergedCall(Struct):
    """A tool call of the agent, merged from its updates."""

    told: CallTold

    def merge(self, more: CallTold) -> None:
        """Apply an update."""
        values = {name: value for name in CallTold.__struct_fields__ if (value := getattr(more, name)) is not None}
        values.pop("is_start")
        self.told = replace(self.told, **values)

    @property
    def name(self) -> str:
        """The tool's name for policies and grants, which is the kind of the call."""
        return self.told.kind or "other"

    @property
    def title(self) -> str:
        return self.told.title or self.name

    @property
    def has_arguments(self) -> bool:
        return self.told.arguments not in (None, {}, [], "")

    def write_arguments(self, *, asks: bool = False) -> str:
        """Return all known fields of the call as a JSON object.

        Where the agent gives an object it stands as it is, so that a command is found in it. The rest is added under
        names that it does not use. With `asks` nothing is left out, because a person decides by it.
        """
        arguments = self.told.arguments
        values = dict(arguments) if isinstance(arguments, dict) else {}
        if arguments not in (None, {}, "") and not isinstance(arguments, dict):
            values["input"] = arguments
        texts = set(_iterate_texts(values))
        if self.told.title and self.told.title not in texts and (asks or not self._names_command):
            _add(values, "title", self.told.title)
        if paths := [path for path in self.told.paths or () if path not in texts]:
            _add(values, "paths", paths)
        is_about = asks or (self.name in CHANGE_KINDS and self.told.status not in ENDED)
        if self.told.text and self.told.text not in texts and is_about:
            _add(values, "change" if self.name in CHANGE_KINDS else "content", self.told.text)
        written = json.dumps(values, ensure_ascii=False, default=str)
        if asks or (left := len(written) - MOST_ARGUMENT_CHARS) <= 0:
            return written
        cut = (
            f"{written[:MOST_RESULT_CHARS]}\n[… {left + MOST_ARGUMENT_CHARS - MOST_RESULT_CHARS:,} characters left out]"
        )
        return json.dumps({"input": cut}, ensure_ascii=False)

    def write_scope(self) -> str:
        """Return as JSON the arguments that grants and patterns are compared with."""
        arguments = self.told.arguments if isinstance(self.told.arguments, dict) else {}
        scope = {name: value for name, value in arguments.items() if name not in _NO_SCOPE and value not in (None, "")}
        return json.dumps(scope if self._names_command else {}, default=str)

    @property
    def _names_command(self) -> bool:
        given = self.told.arguments if isinstance(self.told.arguments, dict) else {}
        return any(given.get(name) for name in _COMMANDS)

    @property
    def takes_command(self) -> bool:
        """Whether it runs a command, by its kind or by an argument that holds one."""
        return self.name == "execute" or self._names_command

    @property
    def files(self) -> tuple[str, ...]:
        """The paths in its locations and its arguments."""
        given = self.told.arguments if isinstance(self.told.arguments, dict) else {}
        named = (value for name, value in given.items() if name in _PATHS and isinstance(value, str))
        return tuple(dict.fromkeys((*(self.told.paths or ()), *(self.told.changed or ()), *named)))

    @property
    def places(self) -> tuple[str, ...]:
        """All texts of a call that may be paths. For reads, every argument and word of the title."""
        named = [text for name, value in _iterate_members(self.told.arguments) if _names_place(name) for text in value]
        if self.name in READ_KINDS:
            texts = (*_iterate_texts(self.told.arguments), *self.title.split())
            named += filter(_MAY_LEAD_OUT.match, (text.lstrip(_QUOTES) for text in texts))
        return tuple(dict.fromkeys((*self.files, *named)))

    def write_result(self) -> str:
        """Return the result that the call ended with."""
        text = self.told.text or ""
        if not text and self.told.output is not None:
            output = self.told.output
            text = output if isinstance(output, str) else json.dumps(output)
        return text or ("(failed; the agent told no more)" if self.told.status == "failed" else "(no output told)")


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value. Not recursive, because an agent chooses how deep it is."""
    left = [value]
    while left:
        match left.pop():
            case str(text):
                yield text
            case dict(inner):
                left += inner.values()
            case list(inner):
                left += inner


def _iterate_members(value: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each member in a JSON value, with its direct texts."""
    left = [value]
    while left:
        match left.pop():
            case dict(inner):
                for name, member in inner.items():
                    yield name, [text for text in (member if isinstance(member, list) else [member]) if _is_text(text)]
                left += inner.values()
            case list(inner):
                left += inner


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _names_place(name: str) -> bool:
    return any(word.lower() in _PLACES for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))


def _add(values: dict[str, Any], name: str, value: Any) -> None:
    while name in values:
        name = f"{name}_"
    values[name] = value


def read_update(update: Any) -> AgentUpdate | None:
    """Convert an update of the SDK. Return None if Zoea does not use it."""
    match getattr(update, "session_update", ""):
        case "agent_message_chunk" | "agent_thought_chunk" as kind:
            message_id = str(getattr(update, "message_id", None) or "")
            return TextTold(read_block(update.content), kind == "agent_thought_chunk", message_id)
        case "tool_call":
            return read_call(update, is_start=True)
        case "tool_call_update":
            return read_call(update)
        case "usage_update":
            if not is_count(update.used, update.size):
                return None
            cost = update.cost
            is_dollars = cost is not None and cost.currency.upper() == "USD" and 0 <= cost.amount < 1e9
            return UsageTold(update.used, update.size, int(cost.amount * 1_000_000) if is_dollars else None)
        case "current_mode_update":
            return ModeTold(update.current_mode_id)
        case "plan":
            return PlanTold(tuple((str(one.status), one.content) for one in update.entries))
        case _:
            return None


def read_call(update: Any, *, is_start: bool = False) -> CallTold:
    """Convert a tool call of the SDK, or an update of one."""
    content, paths = update.content, update.locations
    return CallTold(
        call_id=update.tool_call_id,
        is_start=is_start,
        title=None if update.title is None else clean(update.title),
        kind=None if update.kind is None else str(update.kind),
        status=None if update.status is None else str(update.status),
        arguments=update.raw_input,
        output=_bound_output(update.raw_output),
        text=None if content is None else _read_content(content),
        paths=None if paths is None else tuple(clean(one.path) for one in paths),
        changed=None if content is None else tuple(clean(one.path) for one in content if one.type == "diff"),
    )


def is_count(*values: int) -> bool:
    """Return whether all values are plausible counts of tokens."""
    return all(0 <= value <= MOST_TOKENS for value in values)


def _bound_output(output: Any) -> Any:
    """Return an output, cut where it is long, because turns keep all open calls."""
    if output is None or isinstance(output, bool | int | float):
        return output
    try:
        return _bounded(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str))
    except RecursionError:
        return "[nested too deeply to be shown]"


def _read_content(content: Iterable[Any]) -> str:
    parts = []
    for one in content:
        match one.type:
            case "content":
                parts.append(read_block(one.content))
            case "diff":
                parts.append(_read_diff(one.path, one.old_text or "", one.new_text))
            case "terminal":
                parts.append(f"[terminal {one.terminal_id}]")
    return _bounded("\n".join(parts))


def _read_diff(path: str, old: str, new: str) -> str:
    if len(old) + len(new) > MOST_DIFF_CHARS:  # the time to compare grows with the square
        return f"{path}: {len(old):,} characters become {len(new):,}:\n{new}"
    lines = difflib.unified_diff(_split_lines(old), _split_lines(new), path, path, lineterm="")
    return "\n".join(lines)


def _split_lines(text: str) -> list[str]:
    """Return the lines of a text. A last line without a newline is marked as `diff` does."""
    lines = split_lines(text)
    if lines and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def read_block(block: Any) -> str:
    """Return a block of content as text; pictures and sounds are named with their size."""
    match block.type:
        case "text":
            return str(block.text)
        case "resource_link":
            return f"[{block.name}]({block.uri})"
        case "resource":
            text, data = (getattr(block.resource, name, "") for name in ("text", "blob"))
            return str(text) if not data else f"[resource {block.resource.uri}, {len(data) * 3 // 4:,} bytes]"
        case kind:
            return f"[{kind} {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"


def _bounded(text: str) -> str:
    left = len(text) - MOST_RESULT_CHARS
    return text if left <= 0 else f"{text[:MOST_RESULT_CHARS]}\n[… {left:,} characters left out]"
