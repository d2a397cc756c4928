"""Entries of a context in the format `zoea-v1`: canonical CBOR, long texts as blobs.

An entry names calls by position, never by row id, so a delta means the same in every database.
Texts of `LIFTED_BYTES` and more are lifted: the delta holds their BLAKE3 hash, and what ten agents
read is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cbor2
from blake3 import blake3
from msgspec import Struct

from zoea.model.enums import DONE_TOOL, Role
from zoea.model.errors import ContextFormatError
from zoea.model.values import ToolCall
from zoea.text.call_text import parse_arguments
from zoea.text.estimate import tokens
from zoea.text.shorten import head

LIFTED_BYTES = 256
"""Length in UTF-8 from which a text is a blob of its own."""

VERSION = 1
_LIFTED_TAG = 23151
"""The CBOR tag of a lifted text; its value is a BLAKE3 hash."""
_TAGS = (*(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54), *(100, 256, 258, 260, 261, 1004, 43_000, 55_799))
"""The tags that cbor2 decodes to other types. No delta has one, and shared values (28, 29) can be their own part."""
_LARGEST = 2**62
MOST_ITEMS, MOST_LEVELS = 2_000_000, 100
"""Limits of a delta from elsewhere. Zoea's own have about ten items an entry, on six levels."""
_BREAK, _WITHOUT_LENGTH = 0xFF, 31
_TAG, _PARTS = 6, {4: 1, 5: 2, 6: 1}
"""Items of each element of a list, a map and a tag, by their kinds in CBOR (RFC 8949)."""

FetchBlob = Callable[[bytes], bytes]
"""Return the bytes with a BLAKE3 hash. Raises MissingBlob."""


class ContextCall(Struct, frozen=True):
    """A tool call of an answer; `arguments` is JSON as the model wrote it."""

    name: str
    arguments: str = "{}"


class ContextMedia(Struct, frozen=True):
    """An image or file of an entry, by the hash of its blob."""

    digest: bytes
    media_type: str
    note: str = ""


class ContextEntry(Struct, frozen=True):
    """One message of a context.

    Attributes:
        source: Where it came from: `direct`, `broadcast`, `topic`, `llm`, `tool` or `system`.
        sender: Name of the mysis that sent it; empty for the commander and for a model.
        at: When it was stored, µs UTC; 0 if unknown.
        position: Of a result: the place of its call in the newest answer with calls before it.
        is_partial: The answer was cut off.
        is_synthetic: Zoea wrote it for one request, such as a nudge or a loop warning.
    """

    role: Role
    content: str = ""
    source: str = ""
    sender: str = ""
    at: int = 0
    reasoning: str = ""
    calls: tuple[ContextCall, ...] = ()
    position: int | None = None
    is_error: bool = False
    is_partial: bool = False
    is_synthetic: bool = False
    media: tuple[ContextMedia, ...] = ()

    @property
    def token_count(self) -> int:
        """The estimated tokens of its texts."""
        return tokens(self.content) + tokens(self.reasoning) + sum(tokens(c.name + c.arguments) for c in self.calls)


class EncodedDelta(Struct, frozen=True):
    """A delta as bytes, and the lifted texts it needs by hash."""

    data: bytes
    lifted: Mapping[bytes, bytes]


def encode_delta(entries: Iterable[ContextEntry]) -> EncodedDelta:
    """Encode entries in their one form: equal entries give equal bytes."""
    lifted: dict[bytes, bytes] = {}

    def text(value: str) -> object:
        data = value.encode("utf-8", "surrogatepass")
        if len(data) < LIFTED_BYTES:
            return value
        digest = blake3(data).digest()
        lifted[digest] = data
        return cbor2.CBORTag(_LIFTED_TAG, digest)

    body = {"v": VERSION, "entries": [_entry_map(entry, text) for entry in entries]}
    return EncodedDelta(cbor2.dumps(body, canonical=True), lifted)


def decode_delta(data: bytes, fetch: FetchBlob) -> tuple[ContextEntry, ...]:
    """Decode a delta whole.

    Raises:
        ContextFormatError: It is no delta of this format and version, or has unknown fields.
        MissingBlob: A lifted text is not there.
    """
    body = _load(data)
    if body.get("v") != VERSION or body.keys() != {"v", "entries"} or not isinstance(body["entries"], list):
        raise ContextFormatError(
            f"a context of format zoea-v1, version {body.get('v')!r}, cannot be read by this Zoea",
            hint="Upgrade Zoea to read it; its bytes stay as they are.",
        )
    return tuple(_entry(one, fetch) for one in body["entries"])


def is_newer_delta(data: bytes) -> bool:
    """Return whether a delta is of a version that this Zoea does not know. Raises ContextFormatError."""
    version = _load(data).get("v")
    return type(version) is int and version > VERSION


def lifted_hashes(data: bytes) -> frozenset[bytes]:
    """Return the hashes of the blobs that a delta refers to. Raises ContextFormatError."""
    hashes: set[bytes] = set()
    waiting: list[object] = [_load(data)]
    while waiting:
        match waiting.pop():
            case cbor2.CBORTag(tag=tag, value=bytes() as digest) if tag == _LIFTED_TAG:
                hashes.add(digest)
            case dict() as fields:
                if isinstance(media := fields.get("m"), list):
                    hashes.update(
                        one[0] for one in media if isinstance(one, list) and one and isinstance(one[0], bytes)
                    )
                waiting.extend(fields.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass
    return frozenset(hashes)


def rewrite_texts(data: bytes, replace: Callable[[str], str]) -> bytes | None:
    """Apply a function to all texts in the bytes of a commit. The bytes may also be one of its long texts.

    Returns None for other bytes, such as an image.
    """
    try:
        return replace(data.decode()).encode()
    except UnicodeDecodeError:
        pass  # a delta is never UTF-8, because its first byte begins no character
    try:
        body = _load(data)
    except ContextFormatError:
        return None

    def apply(value: Any) -> Any:
        match value:
            case str():
                return replace(value)
            case list():
                return [apply(one) for one in value]
            case dict():
                return {key: apply(one) for key, one in value.items()}
            case _:
                return value

    return cbor2.dumps(apply(body), canonical=True)


def check_delta_size(data: bytes) -> None:
    """Count the items and levels of a delta from elsewhere before it is decoded.

    An item of one byte can take 72 bytes of memory, and a length that is only announced as much as it says.

    Raises:
        ContextFormatError: There are more than `MOST_ITEMS` or `MOST_LEVELS`.
    """
    at = items = announced = 0
    left: list[int] = []
    """How many items each open list, map or tag still has; below 0 where it ends with a mark."""
    while at < len(data):
        first, at = data[at], at + 1
        kind, info = first >> 5, first & 31
        length = info
        if 24 <= info <= 27:
            size = 1 << (info - 24)
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if first == _BREAK:
            del left[-1:]
        else:
            items += 1
            if left:
                left[-1] -= 1
            if info == _WITHOUT_LENGTH and 2 <= kind <= 5:
                left.append(-1)
            elif kind in (2, 3):
                at += length
            elif kind in _PARTS:
                left.append(1 if kind == _TAG else length * _PARTS[kind])
                announced += left[-1]
        if max(items, announced) > MOST_ITEMS:
            raise ContextFormatError(f"the delta of a commit has more than {MOST_ITEMS:,} values")
        if len(left) > MOST_LEVELS:
            raise ContextFormatError(f"the delta of a commit is nested more than {MOST_LEVELS} levels deep")
        while left and left[-1] == 0:
            left.pop()


def join_deltas(deltas: Iterable[bytes]) -> bytes:
    """Join deltas into one with all their entries; lifted texts stay lifted. Raises ContextFormatError."""
    entries: list[object] = []
    for data in deltas:
        body = _load(data)
        if body.get("v") != VERSION or not isinstance(body.get("entries"), list):
            raise ContextFormatError(f"a delta of version {body.get('v')!r} cannot be joined")
        entries.extend(body["entries"])
    return cbor2.dumps({"v": VERSION, "entries": entries}, canonical=True)


def answer_open_calls(entries: Iterable[ContextEntry]) -> tuple[tuple[ContextEntry, ...], int]:
    """Add a result for each call without one. Return the entries and the number of added results.

    A provider refuses a call without its result. An added result stands behind those of its answer.
    """
    repaired: list[ContextEntry] = []
    open_calls: set[int] = set()
    added = 0

    def close_calls() -> None:
        nonlocal added
        for position in sorted(open_calls):
            repaired.append(
                ContextEntry(Role.TOOL, NOT_EXECUTED, "tool", position=position, is_error=True, is_synthetic=True)
            )
        added += len(open_calls)
        open_calls.clear()

    for entry in entries:
        if entry.role is Role.TOOL:
            if entry.position not in open_calls:
                continue  # a result without its call, or a second one
            open_calls.discard(entry.position)
        else:
            close_calls()
            open_calls.update(range(len(entry.calls)))
        repaired.append(entry)
    close_calls()
    return tuple(repaired), added


NOT_EXECUTED = "not executed: resumed here"
"""The result of a call that had none when its context was resumed."""

_FLAGS = {"e": "is_error", "p": "is_partial", "y": "is_synthetic"}
_TEXTS = {"c": "content", "k": "reasoning"}
_NAMES = {"s": "source", "f": "sender"}


def _entry_map(entry: ContextEntry, text: Callable[[str], object]) -> dict[str, object]:
    """Return an entry as a map without the fields that have their default."""
    fields: dict[str, object] = {"r": entry.role.value}
    for key, name in _TEXTS.items():
        if value := getattr(entry, name):
            fields[key] = text(value)
    for key, name in _NAMES.items():
        if value := getattr(entry, name):
            fields[key] = value
    for key, name in _FLAGS.items():
        if getattr(entry, name):
            fields[key] = True
    if entry.at:
        fields["t"] = entry.at
    if entry.position is not None:
        fields["a"] = entry.position
    if entry.calls:
        fields["x"] = [[call.name, text(call.arguments)] for call in entry.calls]
    if entry.media:
        fields["m"] = [[one.digest, one.media_type, one.note] for one in entry.media]
    return fields


def _entry(fields: Any, fetch: FetchBlob) -> ContextEntry:
    if type(fields) is not dict or not fields.keys() <= _KNOWN:
        raise ContextFormatError(
            "an entry has fields that this Zoea does not know", hint="Upgrade Zoea to read it; its bytes stay."
        )
    get = fields.get
    try:
        return ContextEntry(
            _ROLES[fields["r"]],
            _text(get("c", ""), fetch),
            _checked(get("s", ""), str),
            _checked(get("f", ""), str),
            _number(get("t", 0), _LARGEST),
            _text(get("k", ""), fetch),
            tuple([ContextCall(_checked(name, str), _text(arguments, fetch)) for name, arguments in get("x", ())]),
            None if "a" not in fields else _number(fields["a"], 2**31),
            _checked(get("e", False), bool),
            _checked(get("p", False), bool),
            _checked(get("y", False), bool),
            tuple(
                [
                    ContextMedia(_checked(digest, bytes), _checked(kind, str), _checked(note, str))
                    for digest, kind, note in get("m", ())
                ]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ContextFormatError(f"an entry of the context is malformed: {error!r}") from error


def _text(value: object, fetch: FetchBlob) -> str:
    """Return a text of an entry, from its blob where it was lifted."""
    if type(value) is str:
        return value
    if isinstance(value, cbor2.CBORTag) and value.tag == _LIFTED_TAG and isinstance(value.value, bytes):
        return fetch(value.value).decode("utf-8", "replace")
    return str(_checked(value, str))


_ROLES = {one.value: one for one in Role}
_KNOWN = frozenset({"r", "t", "a", "x", "m", *_FLAGS, *_TEXTS, *_NAMES})


def _checked(value: object, kind: type) -> Any:
    if type(value) is not kind:
        raise ContextFormatError(f"an entry of the context holds {type(value).__name__} instead of {kind.__name__}")
    return value


def _number(value: object, most: int) -> int:
    number: int = _checked(value, int)
    if not 0 <= number <= most:
        raise ContextFormatError(f"an entry of the context holds the number {number}, not one of 0 to {most}")
    return number


def _refuse_tag(*_: object) -> None:
    raise ValueError("a tag that no context has")


def _load(data: bytes) -> dict[str, Any]:
    try:
        body = cbor2.loads(data, semantic_decoders=dict.fromkeys(_TAGS, _refuse_tag), allow_duplicate_keys=False)
    except (cbor2.CBORDecodeError, ValueError, RecursionError) as error:
        raise ContextFormatError(f"the bytes are no context of format zoea-v1: {error}") from error
    if not isinstance(body, dict):
        raise ContextFormatError("the bytes are no context of format zoea-v1: no map")
    return body


_CHARS = 300
_TOOLS = 4


def find_report(calls: Iterable[ContextCall | ToolCall]) -> str:
    """Return what a call reports as the result of a task. Empty where none does."""
    for call in calls:
        if call.name == DONE_TOOL:
            arguments = parse_arguments(call.arguments) or {}
            return str(arguments.get("summary") or "")
    return ""


def summarise_entries(entries: Sequence[ContextEntry], report: str = "") -> str:
    """Return what a context began with and said or reported last, or called.

    Args:
        report: What the answer before the entries reports; it stands for the result of that call.
    """
    calls = [call for one in entries for call in one.calls]
    first = next((one.content for one in entries if one.role is Role.USER and not one.is_synthetic), "")
    last = next((one.content for one in reversed(entries) if one.role is Role.ASSISTANT and one.content), "")
    has_only_results = all(one.role is Role.TOOL for one in entries)
    parts = [_line(one) for one in (first, find_report(calls) or last or (report if has_only_results else "")) if one]
    called = list(dict.fromkeys(call.name for call in calls if call.name != DONE_TOOL or not parts))
    if called:
        more = f" and {len(called) - _TOOLS} more" if len(called) > _TOOLS else ""
        parts.append(f"called {', '.join(f'{name}()' for name in called[:_TOOLS])}{more}")
    if not parts and entries:
        parts.append(_line(entries[-1].content))
    return " … ".join(part for part in parts if part)


def _line(text: str) -> str:
    return head(" ".join(text[: 4 * _CHARS].split()), _CHARS)


def read_block(block: Any) -> str:
    """Return the text of a part of another program's message.

    A part without text becomes a note that it was left out.
    """
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        text: str = block["text"]
        return text
    return f"[{block.get('type') if isinstance(block, dict) else type(block).__name__} left out]"
