"""Which tools a turn offers, where its requests would not fit with all of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b

from zoea.context import MESSAGE_FRAME, FrozenTurn, request_limit
from zoea.model.request import Catalogue
from zoea.text import estimate

_RESERVE = 8
"""One part in so many of a request stays free for the calls of the turn and their results."""


def leave_out_tools(
    frozen: FrozenTurn, sizes: Mapping[str, int], required: int, count_uses: Callable[[], Mapping[str, int]]
) -> FrozenTurn:
    """Leave out tools by least use until a request of the turn fits; those of Zoea's own go last.

    Args:
        sizes: Characters of each tool's schema, by name.
        required: Tokens, before calibration, of the turn's first prompt or standing order.
        count_uses: Counts the calls of each tool; only called where tools are left out.
    """
    limit = int(request_limit(frozen).tokens / frozen.calibration)
    room = limit - limit // _RESERVE - estimate.tokens(frozen.system_text) - required - 2 * MESSAGE_FRAME
    chars = sum(sizes.values())
    if _tokens(chars) <= room:
        return frozen
    uses = count_uses()
    left_out: list[str] = []
    for name in sorted(sizes, key=lambda name: (name.startswith("zoea_"), uses.get(name, 0), -sizes[name], name)):
        if _tokens(chars) <= room:
            break
        chars -= sizes[name]
        left_out.append(name)
    return replace(frozen, left_out_tools=tuple(left_out), tools_tokens=_tokens(chars))


def _tokens(chars: int) -> int:
    return -(-chars // estimate.CHARS_PER_TOKEN)


def offer_tools(catalogue: Catalogue, frozen: FrozenTurn) -> Catalogue:
    """Return the tools that the requests of a turn offer."""
    if not frozen.left_out_tools:
        return catalogue
    tools = tuple(tool for tool in catalogue.tools if tool.name not in frozen.left_out_tools)
    names = "\0".join(frozen.left_out_tools).encode()
    return Catalogue(tools, f"{catalogue.hash}-{blake2b(names, digest_size=8).hexdigest()}")
