"""The protocol between a swarm's owner and its fronts: JSON lines over a local socket.

    -> {"id": 1, "method": "hello", "args": {"protocol": 2, "version": "0.1.0"}}
    <- {"id": 1, "result": {"protocol": 2, "version": "0.1.0", "pid": 4711, "started_at": …}}
    -> {"id": 2, "method": "send", "args": {"ref": "alpha", "text": "Mine"}}
    <- {"id": 2, "result": {"message_id": 7, "lines": […]}}
    -> {"id": 3, "method": "events", "args": {"after": 0}}
    <- {"id": 3, "item": {…}}            once for each item
    <- {"id": 3, "end": true}            at the end of the stream
    -> {"id": 4, "method": "cancel", "args": {"request": 3}}
    <- {"id": 9, "error": {"class", "title", "what", "hint"}}

`hello` may name a `client`: messages sent over the connection then have this client as
their sender, otherwise the commander. The methods and the types of their arguments are
those of `SwarmApi`: its signatures are the schema (decision 2).
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from zoea.ipc.codec import Mismatch, decode, encode
from zoea.ipc.swarm_proxy import api_functions
from zoea.model import errors
from zoea.model.enums import ErrorClass
from zoea.model.errors import UsageError, ZoeaError

PROTOCOL = 2
REQUEST_LIMIT = 4 * 1024 * 1024
_LARGEST = 1 << 63
"""SQLite's integers are below it."""
REPLY_LIMIT = 32 * 1024 * 1024
"""Longest frames in bytes, of a request and of a reply."""


class ApiMethod(Struct, frozen=True):
    """The types of the arguments and the answer of one method of `SwarmApi`.

    `sender` is not among the arguments, because the server sets it. `has_sender` is
    True if the method takes one.
    """

    name: str
    arguments: dict[str, Any]
    required: frozenset[str]
    result: Any
    streams: bool
    has_sender: bool = False

    def read(self, args: Any) -> dict[str, Any]:
        """Decode the arguments of a request.

        Raises:
            UsageError: naming the argument that is wrong, missing or unknown.
        """
        if not isinstance(args, dict):
            raise UsageError(f"{self.name}: args must be an object")
        for name in args:
            if name not in self.arguments:
                raise UsageError(f"{self.name}: no argument {name!r}")
        missing = sorted(self.required - args.keys())
        if missing:
            raise UsageError(f"{self.name}: {missing[0]!r} is missing")
        try:
            for name, value in args.items():
                _check_numbers(value, name)
            return {name: decode(self.arguments[name], value, name) for name, value in args.items()}
        except Mismatch as mismatch:
            raise UsageError(f"{self.name}: {mismatch}") from None


@cache
def api_methods() -> dict[str, ApiMethod]:
    """Return all methods of `SwarmApi` by name."""
    return {name: _method(name, function) for name, function in api_functions().items()}


def _method(name: str, function: Any) -> ApiMethod:
    hints = get_type_hints(function)
    result = hints.pop("return")
    has_sender = hints.pop("sender", None) is not None
    parameters = inspect.signature(function).parameters
    required = frozenset(key for key in hints if parameters[key].default is inspect.Parameter.empty)
    streams = not inspect.iscoroutinefunction(function)
    return ApiMethod(name, hints, required, get_args(result)[0] if streams else result, streams, has_sender)


def _check_numbers(value: Any, where: str) -> None:
    """Check that all numbers of an argument are finite and fit a column. Raises Mismatch."""
    match value:
        case dict():
            for name, inner in value.items():
                _check_numbers(inner, f"{where}.{name}")
        case list():
            for place, inner in enumerate(value):
                _check_numbers(inner, f"{where}[{place}]")
        case int() | float() if not -_LARGEST <= value < _LARGEST:
            raise Mismatch(f"{where}: a number of at most 64 bits expected")


def encode_frame(**parts: Any) -> bytes:
    """Encode a frame as one line of JSON. Raises UsageError for values that are nested too deeply."""
    try:
        line = json.dumps(encode(parts), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise UsageError("a value is nested too deeply to be sent", hint="Give it with fewer levels.") from None
    return line.encode("utf-8", "replace") + b"\n"


def parse_frame(line: bytes) -> dict[str, Any]:
    """Decode one line.

    Raises:
        UsageError: if it is not a JSON object.
    """
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise UsageError("a frame must be one JSON object on one line") from None
    if not isinstance(value, dict):
        raise UsageError("a frame must be one JSON object on one line")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def decode_error(error: dict[str, Any]) -> ZoeaError:
    """Make an error of the same class as the sender's; ZoeaError for an unknown class."""
    kind = getattr(errors, str(error.get("class", "")), ZoeaError)
    what, hint = str(error.get("what", "")), str(error.get("hint", ""))
    revived: ZoeaError
    if kind is errors.ProviderError:
        # A front only shows it; its class of error matters to the owner alone.
        revived = errors.ProviderError(what, kind=ErrorClass.BAD_REQUEST, hint=hint)
    else:
        is_ours = isinstance(kind, type) and issubclass(kind, ZoeaError)
        revived = (kind if is_ours else ZoeaError)(what, hint=hint)
    revived.title = str(error.get("title", revived.title))
    return revived
