"""Tool calls and results as Zoea Nova stored them: as text, with separators that arguments may hold as well. Pure.

`[TOOL_CALLS]id:name:arguments|id:name:arguments…` is one assistant message, `id:content` a
result. Arguments are JSON, so they are read as JSON from the left: where that ends, the next
call begins, whatever stands inside.
Source: seeds/zoea-nova-context-compression.md, "Loop Extraction"; memory.md, "Import".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from zoea.llm.arguments import repair

PREFIX = "[TOOL_CALLS]"
UNKNOWN_TOOL = "unknown_tool"
LONGEST_ID = 128

_decoder = json.JSONDecoder()
_SEPARATOR = re.compile(r"\s*\|(?=[^|:\s]{0,128}:[A-Za-z_][\w.-]{0,127}(?::|$|\|))")
_AFTER = re.compile(r"\s*(?:\||$)")
_NAME = re.compile(r"[\w./-]{1,128}")


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call as it was read.

    `is_mended` where its arguments were broken and are not any more, `is_broken` where
    they still are and stand as they were.
    """

    id: str
    name: str
    arguments: str
    is_mended: bool = False
    is_broken: bool = False


def calls_in(content: str) -> tuple[StoredCall, ...] | None:
    """The calls of an assistant message; None where it is no message with calls.

    What cannot be read as a call is one of an unknown tool with the text as it stands, so nothing is lost.
    """
    if not content.startswith(PREFIX):
        return None
    found: list[StoredCall] = []
    place = len(PREFIX)
    while place < len(content):
        if content[place] in "| \t\r\n":
            place += 1
            continue
        call, place = _call(content, place)
        found.append(call)
    return tuple(found)


def result_in(content: str, waiting: Iterable[str]) -> tuple[str, str]:
    """The id and the content of a result.

    Args:
        content: As stored.
        waiting: Ids of calls that wait for their result; ids may hold `:` themselves, so the longest that fits wins.
    """
    fitting = [one for one in waiting if content.startswith(f"{one}:")]
    if fitting:
        longest = max(fitting, key=len)
        return longest, content[len(longest) + 1 :]
    head, colon, rest = content.partition(":")
    if colon and len(head) <= LONGEST_ID and head and not re.search(r"[\s{\[\"]", head):
        return head, rest
    return "", content


def _call(content: str, start: int) -> tuple[StoredCall, int]:
    """The call that begins at `start`, and where the next may begin."""
    end_of_id = content.find(":", start)
    bar = content.find("|", start)
    if end_of_id < 0 or 0 <= bar < end_of_id:
        return _not_one(content, start)
    call_id = content[start:end_of_id]
    end_of_name = _NAME.match(content, end_of_id + 1)
    if end_of_name is None:
        return _not_one(content, start)
    name, place = end_of_name.group(), end_of_name.end()
    if _AFTER.match(content, place):
        return StoredCall(call_id, name, "{}"), place
    if content[place] != ":":
        return _not_one(content, start)
    arguments, place = _arguments(content, place + 1)
    mended, why = repair(arguments)
    is_same = not why and _is_object(arguments)
    return StoredCall(call_id, name, mended, is_mended=not why and not is_same, is_broken=bool(why)), place


def _arguments(content: str, start: int) -> tuple[str, int]:
    """The text of the arguments that begin at `start`, and where they end."""
    begin = start
    while begin < len(content) and content[begin] in " \t\r\n":
        begin += 1
    try:
        _, end = _decoder.raw_decode(content, begin)
        if _AFTER.match(content, end):
            return content[begin:end], end
    except (ValueError, RecursionError):
        pass  # broken JSON ends where something that looks like the next call begins
    separator = _SEPARATOR.search(content, start)
    end = separator.start() if separator else len(content)
    return content[start:end].strip(), end


def _not_one(content: str, start: int) -> tuple[StoredCall, int]:
    separator = _SEPARATOR.search(content, start)
    end = separator.start() if separator else len(content)
    return StoredCall("", UNKNOWN_TOOL, content[start:end], is_broken=True), end


def _is_object(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
