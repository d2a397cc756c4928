"""Joins the streamed pieces of tool calls.

Pieces are matched by id, then by name and completeness, then by index.

Servers number and name pieces as they like: every call has index 0, no index, another index in each piece, no id, an
empty one, or the name again in every piece.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from zoea.llm.messages.argument_repair import repair
from zoea.llm.transport.json_safety import as_mapping, as_text_value, as_tool_name, parse
from zoea.model.request import AnswerCall

MOST_JOINED = 64
"""Calls that the arguments of one may hold: a server joined those of several."""


class PieceCall(Struct):
    """A call that comes in pieces.

    Attributes:
        extra: What the vendor wants back with it.
    """

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are an object already."""
        return bool(self.arguments) and self.arguments[-1].rstrip()[-1:] == "}" and _is_object("".join(self.arguments))


class CallPieces:
    """The calls of one answer, from their pieces.

    Args:
        tools: Names of the tools that were offered, to tell a second name from the rest of the first.
    """

    __slots__ = ("_by_id", "_by_index", "_tools", "calls")

    def __init__(self, tools: Collection[str] = ()) -> None:
        self.calls: list[PieceCall] = []
        self._by_id: dict[str, PieceCall] = {}
        self._by_index: dict[int, PieceCall] = {}
        self._tools = tools

    def add(self, piece: dict[str, Any]) -> tuple[str, str]:
        """Add a piece of `tool_calls`. Return its name and its arguments as text."""
        function = as_mapping(piece.get("function"))
        name = as_text_value(function.get("name"))
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        arguments = arguments or ""
        identity = piece.get("id")
        id = str(identity) if identity and isinstance(identity, str | int) else ""
        call = self._place(_index(piece.get("index")), id, name, arguments)
        if name and name != call.name and not (call.name and call.arguments):
            call.name = as_tool_name(call.name + name)
        if id and not call.id:
            call.id = id
            self._by_id[id] = call
        if piece.get("extra_content"):
            call.extra = piece["extra_content"]
        if arguments and (arguments.strip() or not call.is_whole):
            call.arguments.append(arguments)
        return name, arguments

    def _place(self, index: int | None, id: str, name: str, arguments: str) -> PieceCall:
        """Return the call that a piece belongs to."""
        last = self.calls[-1] if self.calls else None
        here = last if index is None else self._by_index.get(index)
        if (same := self._by_id.get(id)) is not None:
            return same
        if id and name and here is not None and (here.id or self._begins(here, name, arguments)):
            here = None  # a new id with a name begins a call, wherever it says that it stands
        elif name and not id and here is not None and self._begins(here, name, arguments):
            here = None
        elif not name and (here is None or (here is not last and last and here.is_whole and not last.is_whole)):
            here = last  # a rest without name belongs to the call that is open
        if here is None:
            here = PieceCall()
            self.calls.append(here)
        if index is not None and (name or index not in self._by_index):
            self._by_index[index] = here
        return here

    def _begins(self, call: PieceCall, name: str, arguments: str) -> bool:
        """Return whether a piece with a name and no known id begins another call."""
        if call.is_whole:
            return bool(arguments) or bool(call.name and name != call.name)
        if name == call.name or not call.name:
            return False
        if call.arguments:
            return name in self._tools
        return name in self._tools and call.name in self._tools

    def answer_calls(self, *, is_cut: bool) -> tuple[AnswerCall, ...]:
        """Return the calls with their arguments repaired. `is_cut` means that the last may miss its end."""
        calls: list[AnswerCall] = []
        for call in self.calls:
            if not call.name and not call.arguments:
                continue
            texts = split_arguments(call.arguments)
            for number, text in enumerate(texts):
                arguments, broken = repair(text, is_cut=is_cut and call is self.calls[-1] and len(texts) == 1)
                calls.append(AnswerCall(as_tool_name(call.name), arguments, "" if number else call.id, broken))
        return tuple(calls)


def split_arguments(pieces: list[str]) -> list[str]:
    """Return the arguments of a call, or of several calls that a server joined.

    The same object twice is one call: some servers send it again, whole, at the end, or more of it with each piece.
    """
    text = "".join(pieces)
    if len(text) < 2 or _is_object(text):
        return [text]
    if len(pieces) > 1 and _is_object(pieces[-1]) and all(pieces[-1].startswith(one.rstrip()) for one in pieces):
        return [pieces[-1]]
    decoder, objects, place = json.JSONDecoder(), list[str](), 0
    while place < len(text) and len(objects) <= MOST_JOINED:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return [text]
        if not isinstance(value, dict):
            return [text]
        if value or len(text) == end:  # some servers begin with an empty object
            objects.append(text[place:end])
        place = len(text) - len(text[end:].lstrip())
    unique = list(dict.fromkeys(json.dumps(json.loads(one), sort_keys=True) for one in objects))
    return [objects[0]] if len(unique) == 1 else objects or [text]


def _index(value: Any) -> int | None:
    """Return the index of a piece, which some servers write as a text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 6:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse(text), dict)
    except ValueError:
        return False
