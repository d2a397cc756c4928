"""The store's edge: every text passes here before it is stored, searched or compared.

SQLite stops indexing at a NUL and refuses lone surrogates; nothing else is touched,
so that what was said can be found again character by character.
"""

from __future__ import annotations

_NUL_SHOWN = "\u2400"


def clean(text: str) -> str:
    """The text with each NUL as U+2400 and each lone surrogate as U+FFFD; the same object if it has none.

    Two surrogates that make a pair become the character they spell: a stream may
    deliver one escaped character in two pieces. Idempotent.
    """
    if "\0" in text:
        text = text.replace("\0", _NUL_SHOWN)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
