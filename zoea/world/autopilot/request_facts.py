"""Facts in a request: prompts, calls of this turn, calls of the turn before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from zoea.model.enums import CALL_TOOL, FIND_TOOL, Role, Source
from zoea.model.request import RequestMessage, ToolSpec
from zoea.text.json_text import parse_object
from zoea.world.autopilot.belt_notes import BeltNote, parse_notes

NUDGES = ("Continue your mission", "You need to respond", "URGENT: Respond")
_LABEL = re.compile(
    r"^\[(?:message |broadcast )?(?:to [^\]\n]*, )?from (?:the commander|(?:mysis|client) (?P<who>[^\]\n]*))\]\n?"
)


_LISTED = re.compile(r"^- ([\w-]+)", re.MULTILINE)
_FOUND = re.compile(r'^\{"name": "([\w-]+)"', re.MULTILINE)
_SEARCH = (FIND_TOOL, CALL_TOOL)


class TurnPrompt(Struct, frozen=True):
    """Hold a message of the turn; `sender` is empty for the commander."""

    sender: str
    text: str


class ReefCall(Struct, frozen=True):
    """Hold a call and its result. `result` is None if missing or not a JSON object."""

    tool: str
    args: dict[str, Any]
    result: dict[str, Any] | None
    is_error: bool
    raw: str = ""

    @property
    def code(self) -> str:
        return str((self.result or {}).get("code", "")) if self.is_error else ""


class RequestFacts(Struct, frozen=True):
    """Hold the facts of a request.

    Args:
        names: Names of the tools by origin, those that are not shown whole included.
        listed: Names of the tools that are not shown whole.
        unseen: Those of them whose arguments were not shown either.
        turn: Calls of this turn, grouped by answer.
        before: Last group of calls of an earlier turn.
    """

    names: dict[str, str]
    prompts: tuple[TurnPrompt, ...]
    order: str
    before: tuple[ReefCall, ...]
    turn: tuple[tuple[ReefCall, ...], ...]
    told: tuple[BeltNote, ...]
    past_calls: tuple[ReefCall, ...] = field(default=())
    listed: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()

    def latest(self, tool: str) -> dict[str, Any] | None:
        """Return the newest successful result of a tool in this turn."""
        for past_call in reversed(self.past_calls):
            if past_call.tool == tool and not past_call.is_error and past_call.result is not None:
                return past_call.result
        return None

    def has(self, tool: str) -> bool:
        return tool in self.names


def read_request(messages: Sequence[RequestMessage], tools: Sequence[ToolSpec]) -> RequestFacts:
    """Collect the facts of a request; skip malformed or cut results."""
    listed = _listed_names(tools)
    names = {name.rpartition("__")[2]: name for name in listed} | {
        tool.origin or tool.name: tool.name for tool in tools
    }
    origins = {name: origin for origin, name in names.items()}
    start = _start(messages)
    earlier, later = messages[:start], messages[start:]
    before, turn = _slices(earlier, origins), _slices(later, origins)
    prompts = tuple(_prompt(m.content) for m in later if m.role is Role.USER and not is_nudge(m))
    asides = [_prompt(m.content).text for m in earlier if m.role is Role.USER]
    commanded = [p.text for p in prompts if not p.sender]
    notes = [f for text in (*asides, *(p.text for p in prompts)) for f in parse_notes(text)]
    return RequestFacts(
        names=names,
        prompts=prompts,
        order=" ".join(commanded or asides)[:2_000],
        before=before[-1] if before else (),
        turn=turn,
        told=tuple(notes),
        past_calls=tuple(past_call for piece in turn for past_call in piece),
        listed=listed,
        unseen=listed - _seen_names(messages),
    )


def _listed_names(tools: Sequence[ToolSpec]) -> frozenset[str]:
    """Return the names of tools that are a line in the tool that finds them."""
    text = next((tool.description for tool in tools if tool.name == FIND_TOOL), "")
    return frozenset(_LISTED.findall(text))


def _seen_names(messages: Sequence[RequestMessage]) -> set[str]:
    """Return names of tools that were called, or shown by a search with arguments."""
    called = {call.name for message in messages for call in message.calls}
    shown = [message.content for message in messages if message.role is Role.TOOL and message.name == FIND_TOOL]
    return called | {name for text in shown for name in _FOUND.findall(text)}


def is_nudge(message: RequestMessage) -> bool:
    return message.source is Source.SYSTEM and message.content.startswith(NUDGES)


def _opens(message: RequestMessage) -> bool:
    return message.role is Role.USER and (message.source is not Source.SYSTEM or is_nudge(message))


def _start(messages: Sequence[RequestMessage]) -> int:
    """Return the index of the turn's first prompt or nudge.

    A steered prompt follows results, the first prompt of a turn follows anything else. If only a history slice
    precedes, the first prompt counts.
    """
    first = last = None
    for index, message in enumerate(messages):
        if not _opens(message):
            continue
        if first is None:
            first = index
        ahead = messages[index - 1] if index else None
        if ahead is None or not (ahead.role is Role.TOOL or _opens(ahead)):
            last = index
    start = last if last is not None else first
    return len(messages) if start is None else start


def _prompt(content: str) -> TurnPrompt:
    match = _LABEL.match(content)
    return TurnPrompt(match["who"] or "", content[match.end() :]) if match else TurnPrompt("", content)


def _slices(messages: Sequence[RequestMessage], origins: dict[str, str]) -> tuple[tuple[ReefCall, ...], ...]:
    results = {m.call_id: m for m in messages if m.role is Role.TOOL}
    slices = []
    for message in messages:
        if message.role is Role.ASSISTANT and any(call.name not in _SEARCH for call in message.calls):
            slices.append(
                tuple(
                    _deed(origins.get(call.name, call.name), call.arguments, results.get(call.id))
                    for call in message.calls
                    if call.name not in _SEARCH
                )
            )
    return tuple(slices)


def _deed(tool: str, arguments: str, result: RequestMessage | None) -> ReefCall:
    raw = result.content if result is not None else ""
    answer = parse_object(raw)
    is_error = result is None or result.is_error or (answer is not None and "code" in answer and "message" in answer)
    return ReefCall(tool, parse_object(arguments) or {}, answer, is_error, raw[:300])
