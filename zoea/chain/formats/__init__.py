"""Formats of contexts: Zoea's own, and those of other programs.

A format knows how its deltas join and how they become entries and come from them. Other packages
add formats by the entry point group `zoea.formats`, each an object with the shape of `ContextFormat`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol, TypeVar

from msgspec.structs import replace

from zoea.chain.entries import ContextEntry, FetchBlob, decode_delta, encode_delta, join_deltas
from zoea.chain.formats import claude_code, openai_chat
from zoea.model.errors import ContextFormatError, ZoeaError
from zoea.text.control_characters import clean

ZOEA, CLAUDE_CODE, OPENAI = "zoea-v1", "claude-code-v1", "openai-chat-v1"
_log = logging.getLogger(__name__)
A = TypeVar("A")
R = TypeVar("R")


class ContextFormat(Protocol):
    """A format of the bytes of commits."""

    @property
    def name(self) -> str:
        """Its name and version, such as `claude-code-v1`."""
        ...

    def read(self, data: bytes, fetch: FetchBlob) -> tuple[ContextEntry, ...]:
        """Return the entries of a delta. Raises ContextFormatError where it does not parse whole."""
        ...

    def join(self, deltas: Sequence[bytes]) -> bytes:
        """Join deltas of this format into one, without a change of their entries."""
        ...

    def write(self, entries: Sequence[ContextEntry]) -> bytes:
        """Return entries in this format."""
        ...


class _ZoeaFormat:
    name = ZOEA
    read = staticmethod(decode_delta)
    join = staticmethod(join_deltas)

    def write(self, entries: Sequence[ContextEntry]) -> bytes:
        return encode_delta(entries).data


class _ForeignFormat:
    """A format without lifted texts, of a module with three functions."""

    def __init__(
        self,
        name: str,
        read: Callable[[bytes], tuple[ContextEntry, ...]],
        join: Callable[[Sequence[bytes]], bytes],
        write: Callable[[Sequence[ContextEntry]], bytes],
    ) -> None:
        self.name = name
        self._read = read
        self.join = join
        self.write = write

    def read(self, data: bytes, fetch: FetchBlob) -> tuple[ContextEntry, ...]:
        try:
            return clean_entries(self._read(data))
        except RecursionError:
            raise ContextFormatError("it is nested too deeply") from None


class _GuardedFormat:
    """A format of another package, with its failures as ContextFormatError."""

    def __init__(self, guarded: ContextFormat) -> None:
        self.name = guarded.name
        self._guarded = guarded
        self.join = self._translate(guarded.join)
        self.write = self._translate(guarded.write)

    def read(self, data: bytes, fetch: FetchBlob) -> tuple[ContextEntry, ...]:
        def decode(data: bytes) -> tuple[ContextEntry, ...]:
            return clean_entries(self._guarded.read(data, fetch))

        return self._translate(decode)(data)

    def _translate(self, work: Callable[[A], R]) -> Callable[[A], R]:
        def guarded(argument: A) -> R:
            try:
                return work(argument)
            except ZoeaError:
                raise
            except Exception as error:
                raise ContextFormatError(f"the format {self.name} of another package failed: {error!r}") from error

        return guarded


def clean_entries(entries: tuple[ContextEntry, ...]) -> tuple[ContextEntry, ...]:
    """Return entries with texts that the database and the other formats can store."""
    return tuple(
        replace(
            one,
            content=clean(one.content),
            reasoning=clean(one.reasoning),
            calls=tuple(replace(call, name=clean(call.name), arguments=clean(call.arguments)) for call in one.calls),
        )
        for one in entries
    )


_SHIPPED: tuple[ContextFormat, ...] = (
    _ZoeaFormat(),
    _ForeignFormat(
        CLAUDE_CODE, claude_code.read_transcript, claude_code.join_transcripts, claude_code.write_transcript
    ),
    _ForeignFormat(OPENAI, openai_chat.read_messages, openai_chat.join_messages, openai_chat.write_messages),
)


@cache
def known_formats() -> dict[str, ContextFormat]:
    """Return all formats by name. A shipped one is not replaced by that of another package.

    One that cannot be loaded is logged and left out.
    """
    from importlib.metadata import entry_points  # 10 ms, which no start waits for

    found: dict[str, ContextFormat] = {}
    for point in entry_points(group="zoea.formats"):
        try:
            made: ContextFormat = point.load()
            found[made.name] = _GuardedFormat(made)
        except Exception as error:  # noqa: BLE001 - code of another package, without which Zoea works
            _log.warning("the format %s of another package cannot be loaded: %r", point.value, error)
    return found | {one.name: one for one in _SHIPPED}
