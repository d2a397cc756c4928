"""A format of contexts as another package would bring it: one line a message, `who: text`."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.chain.entries import ContextEntry, FetchBlob
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError

_ROLES = {"me": Role.USER, "it": Role.ASSISTANT}
_WORDS = {role: word for word, role in _ROLES.items()}


class ToyFormat:
    """Format `toy-v1`."""

    name = "toy-v1"

    def read(self, data: bytes, fetch: FetchBlob) -> tuple[ContextEntry, ...]:
        """Return an entry for each line."""
        entries = []
        for line in data.decode("ascii").splitlines():  # bytes that are not ASCII raise, as a careless package would
            who, colon, text = line.partition(": ")
            if not colon or who not in _ROLES:
                raise ContextFormatError(f"{line!r} is no line of a toy")
            entries.append(ContextEntry(_ROLES[who], text, "direct" if who == "me" else "llm"))
        return tuple(entries)

    def join(self, deltas: Sequence[bytes]) -> bytes:
        """Append the lines."""
        return b"".join(deltas)

    def write(self, entries: Sequence[ContextEntry]) -> bytes:
        """Return a line for each prompt and answer."""
        return "".join(f"{_WORDS.get(one.role, 'it')}: {one.content}\n" for one in entries).encode()


TOY = ToyFormat()
