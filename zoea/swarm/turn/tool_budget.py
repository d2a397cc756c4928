"""Chooses the tools that a turn offers: all, those it needs, or those that fit. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from hashlib import blake2b
from math import ceil

from msgspec.structs import replace

from zoea.context import MESSAGE_FRAME, FrozenTurn, request_limit
from zoea.model.enums import CALL_TOOL, FIND_TOOL, ToolForm, ToolMode, ToolShow
from zoea.model.request import Catalogue, ToolSpec
from zoea.text import estimate
from zoea.text.tool_signature import write_signature
from zoea.tools.tool_search import build_search_tools

_RESERVE = 8
"""One part in so many of a request stays free for the calls of the turn and their results."""
SHARE, MOST_TOKENS, MOST_TOOLS = 0.2, 4_000, 24
"""With `auto`, tools above this share of a request, or above both numbers, are shown by need."""
SIGNED_SHARE = 0.4
"""The same share where each tool has one line: finding a tool costs a small model more than reading a line."""
SIGNED_FRAME = 60
"""Characters that each line adds in all: its mark, and a part of the examples and of the words on how to call."""
WORTH = 0.75
"""With `auto`, tools are shown by need only where that takes at most this share of what all of them take."""
_SEARCH_TOOLS = (FIND_TOOL, CALL_TOOL)

CountUses = Callable[[], Mapping[str, int]]
ReadKnown = Callable[[], Set[str]]


def fit_tools(catalogue: Catalogue, *, has_goal: bool, is_alone: bool) -> Catalogue:
    """Take tools from a mysis that have no use for it now. It can call them all the same.

    Args:
        has_goal: False takes the tool that reports the end.
        is_alone: True takes the tools that concern other myses.
    """
    return withhold_tools(
        catalogue,
        (frozenset() if has_goal else catalogue.for_goal) | (catalogue.for_others if is_alone else frozenset()),
    )


def withhold_tools(catalogue: Catalogue, names: Collection[str]) -> Catalogue:
    """Take tools from what a turn offers. A turn that is resumed takes those that it took when it opened."""
    taken = tuple(tool for tool in catalogue.tools if tool.name in names)
    if not taken:
        return catalogue
    tools = tuple(tool for tool in catalogue.tools if tool.name not in names)
    fitted = _derived_hash(catalogue, "withheld", *(tool.name for tool in taken))
    return replace(catalogue, tools=tools, hash=fitted, others=(*catalogue.others, *taken))


def tool_sizes(catalogue: Catalogue, form: str = ToolForm.WHOLE) -> Mapping[str, int]:
    """Count the characters of each tool's schema, or of its line, once per catalogue."""
    sizes = _counted.get((catalogue.hash, form))
    if sizes is None:
        sizes = _counted[catalogue.hash, form] = {tool.name: _size(tool, form) for tool in catalogue.tools}
    return sizes


_counted: dict[tuple[str, str], Mapping[str, int]] = {}


def _size(tool: ToolSpec, form: str) -> int:
    if form == ToolForm.SIGNATURES:
        return len(write_signature(tool.name, tool.description, tool.input_schema)) + SIGNED_FRAME
    return len(json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.input_schema}))


def choose_tools(
    frozen: FrozenTurn, catalogue: Catalogue, known: ReadKnown, required: int, count_uses: CountUses
) -> FrozenTurn:
    """Freeze which tools a turn's requests show whole, and which they leave out to fit.

    Args:
        known: Reads which tools the turns before used, or showed whole; only called where tools are shown by need.
        required: Tokens, before calibration, of the turn's first prompt or standing order.
        count_uses: Counts the calls of each tool; only called where not all fit.
    """
    frozen, why = show_tools(frozen, catalogue)
    if not why:
        return leave_out_tools(frozen, tool_sizes(catalogue, frozen.tool_form), required, count_uses)
    theirs = {tool.name for tool in catalogue.tools if tool.upstream}
    frozen = _with_shown(frozen, catalogue, (catalogue.pinned | known()) & theirs)
    frozen = _hide_least_used(frozen, catalogue, required, count_uses)
    frozen = leave_out_tools(frozen, _offered_sizes(catalogue, frozen), required, count_uses)
    listed = len(theirs - set(frozen.shown_tools))
    count = f"{listed} tools stand as one line each" if listed != 1 else "1 tool stands as one line"
    return replace(frozen, tools_note=f"{count} in {FIND_TOOL} ({why}).") if listed else frozen


def show_tools(frozen: FrozenTurn, catalogue: Catalogue) -> tuple[FrozenTurn, str]:
    """Decide whether tools are shown by need, and why: then those of Zoea and pinned ones stand whole."""
    frozen = _choose_form(frozen, catalogue)
    sizes = tool_sizes(catalogue, frozen.tool_form)
    chars, every = sum(sizes.values()), ToolShow.ALL.value
    unfit = catalogue.for_goal | catalogue.for_others
    withheld = [tool for tool in catalogue.others if tool.name in unfit]
    frozen = replace(
        frozen,
        tools_tokens=_tokens(chars),
        withheld_tokens=_tokens(
            sum(_size(tool, frozen.tool_form) for tool in withheld if tool.name in catalogue.for_others)
        ),
        withheld_tools=tuple(tool.name for tool in withheld),
        tool_show=every,
        shown_tools=(),
        left_out_tools=(),
        tools_note="",
    )
    why = "tool.show = search"
    if catalogue.show == ToolShow.AUTO:
        why = _why_by_need(frozen, len(sizes))
    if catalogue.show == ToolShow.ALL or not why:
        return frozen, ""
    theirs = {tool.name for tool in catalogue.tools if tool.upstream}
    least = _with_shown(frozen, catalogue, catalogue.pinned & theirs)
    is_worth_it = catalogue.show == ToolShow.SEARCH or least.tools_tokens <= WORTH * frozen.tools_tokens
    return (least, why) if is_worth_it else (frozen, "")


def _choose_form(frozen: FrozenTurn, catalogue: Catalogue) -> FrozenTurn:
    """Decide whether prompts have one line for each tool: always for small models, else where schemas are large."""
    form = frozen.tool_form
    if form == ToolForm.BY_MODE:
        form = ToolForm.BY_SIZE if frozen.tool_mode == ToolMode.JSON_SCHEMA else ToolForm.WHOLE
    if form == ToolForm.BY_SIZE:
        tokens = _tokens(sum(tool_sizes(catalogue).values()))
        form = ToolForm.SIGNATURES if tokens > SHARE * _uncalibrated_limit(frozen) else ToolForm.WHOLE
    if form == ToolForm.WHOLE or catalogue.show == ToolShow.ALL:
        return replace(frozen, tool_form=ToolForm.WHOLE.value)
    return replace(frozen, tool_form=ToolForm.SIGNATURES.value, tool_mode=ToolMode.JSON_SCHEMA.value)


def _uncalibrated_limit(frozen: FrozenTurn) -> int:
    """Return the limit of a request. A ratio that changes a little must not change the tools."""
    return request_limit(replace(frozen, calibration=1.0)).tokens


def _why_by_need(frozen: FrozenTurn, tools: int) -> str:
    """Return why `auto` shows tools by need; empty where it shows all."""
    tokens, limit = frozen.tools_tokens, _uncalibrated_limit(frozen)
    is_signed = frozen.tool_form == ToolForm.SIGNATURES
    share, what = (SIGNED_SHARE, "a line for each tool takes") if is_signed else (SHARE, "all schemas take")
    if tokens > share * limit:
        return f"tool.show = auto: {what} {tokens:,} tokens, over {share:.0%} of {limit:,}"
    if tokens > MOST_TOKENS and tools > MOST_TOOLS:
        return f"tool.show = auto: the schemas of {tools} tools take {tokens:,} tokens"
    return ""


def _with_shown(frozen: FrozenTurn, catalogue: Catalogue, shown: Iterable[str]) -> FrozenTurn:
    chosen = replace(frozen, tool_show=ToolShow.SEARCH.value, shown_tools=tuple(sorted(shown)))
    return replace(chosen, tools_tokens=_tokens(sum(_offered_sizes(catalogue, chosen).values())))


def _offered_sizes(catalogue: Catalogue, frozen: FrozenTurn) -> Mapping[str, int]:
    sizes, form = tool_sizes(catalogue, frozen.tool_form), frozen.tool_form
    return {tool.name: sizes.get(tool.name) or _size(tool, form) for tool in offer_tools(catalogue, frozen).tools}


def _hide_least_used(frozen: FrozenTurn, catalogue: Catalogue, required: int, count_uses: CountUses) -> FrozenTurn:
    """Show fewer tools whole, by least use, until a request of the turn fits. Pinned ones stay."""
    room = _room(frozen, required)
    if frozen.tools_tokens <= room:
        return frozen
    uses, sizes = count_uses(), tool_sizes(catalogue, frozen.tool_form)
    can_go = sorted(
        set(frozen.shown_tools) - catalogue.pinned, key=lambda name: (uses.get(name, 0), -sizes[name], name)
    )
    for name in can_go:
        if frozen.tools_tokens <= room:
            break
        frozen = _with_shown(frozen, catalogue, set(frozen.shown_tools) - {name})
    return frozen


def leave_out_tools(frozen: FrozenTurn, sizes: Mapping[str, int], required: int, count_uses: CountUses) -> FrozenTurn:
    """Leave out tools by least use until a request of the turn fits. Those of Zoea's own go last.

    Args:
        sizes: Characters of each tool's schema, by name.
        required: Tokens, before calibration, of the turn's first prompt or standing order.
        count_uses: Counts the calls of each tool; only called where tools are left out.
    """
    room = _room(frozen, required)
    chars = sum(sizes.values())
    if _tokens(chars) <= room:
        return frozen
    uses = count_uses()
    left_out: list[str] = []
    candidates = sizes.keys() - set(_SEARCH_TOOLS)
    for name in sorted(candidates, key=lambda name: (name.startswith("zoea_"), uses.get(name, 0), -sizes[name], name)):
        if _tokens(chars) <= room:
            break
        chars -= sizes[name]
        left_out.append(name)
    enough = _limit_for(_tokens(sum(sizes.values())), frozen, required)
    return replace(frozen, left_out_tools=tuple(left_out), tools_tokens=_tokens(chars), all_tools_tokens=enough)


def _limit_for(tools_tokens: int, frozen: FrozenTurn, required: int) -> int:
    """Return a limit of a request under which tools have that room."""
    needed = tools_tokens + estimate.tokens(frozen.system_text) + required + 2 * MESSAGE_FRAME
    return ceil(ceil(needed * _RESERVE / (_RESERVE - 1) + 1) * frozen.calibration) + 1


def _room(frozen: FrozenTurn, required: int) -> int:
    """Return the tokens that tools may take in a request of the turn."""
    limit = int(request_limit(frozen).tokens / frozen.calibration)
    return limit - limit // _RESERVE - estimate.tokens(frozen.system_text) - required - 2 * MESSAGE_FRAME


def _tokens(chars: int) -> int:
    return -(-chars // estimate.CHARS_PER_TOKEN)


def offer_tools(catalogue: Catalogue, frozen: FrozenTurn) -> Catalogue:
    """Return the tools that a turn offers, and in `others` further callable ones."""
    tools, listed = catalogue.tools, tuple[ToolSpec, ...]()
    if frozen.tool_show == ToolShow.SEARCH:
        shown = set(frozen.shown_tools)
        listed = tuple(tool for tool in tools if tool.upstream and tool.name not in shown)
        own = tuple(tool for tool in tools if not tool.upstream)
        search = build_search_tools(listed) if listed else ()
        tools = (*own, *search, *(tool for tool in tools if tool.name in shown and tool.upstream))
    tools = tuple(tool for tool in tools if tool.name not in frozen.left_out_tools)
    if tools == catalogue.tools:
        return catalogue
    offered = _derived_hash(catalogue, *frozen.left_out_tools, "", *(tool.name for tool in listed))
    return replace(catalogue, tools=tools, hash=offered, others=(*catalogue.others, *listed))


def _derived_hash(catalogue: Catalogue, *parts: str) -> str:
    """Return a hash for a catalogue derived from another, by what differs."""
    joined = "\0".join(parts).encode()
    return f"{catalogue.hash}-{blake2b(joined, digest_size=8).hexdigest()}"
