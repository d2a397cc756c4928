"""What a mysis sees, as the lines of two panels. Pure."""

from __future__ import annotations

import json

from zoea.app.sight import PackSeen, Seen, Sight, Snapshot
from zoea.tui import figures
from zoea.tui.rows import Piece, fit, one_line

BAR = 14
NAME = 10
SHOWN_FIELDS = 12
TEXT_CHARS = 300
_ROLES = {"history": "llm", "said": "llm", "turn": "running"}


def sees(sight: Sight) -> list[list[Piece]]:
    """The newest request: its size, each pack with its share, and what was left out."""
    seen = sight.seen
    if seen is None:
        return [[("no request yet", "quiet")]]
    lines: list[list[Piece]] = [_size(seen), []]
    lines += [_pack(pack, seen) for pack in seen.packs]
    lines.append([])
    lines.append([(f"turn {seen.turn_number}", "strong"), (f"  request {seen.iteration}", "quiet")])
    lines[-1].append((f"  {figures.tokens(seen.turn_tokens)} tokens so far", "quiet"))
    if seen.not_verbatim:
        count = seen.not_verbatim
        lines.append([(f"{count} {'memory' if count == 1 else 'memories'} not verbatim", "waiting")])
    for pack in seen.packs:
        if pack.setting:
            lines.append([(f"{pack.id}: ", ""), (f"{pack.setting} would keep it whole", "quiet")])
    if seen.error_class:
        lines.append([(f"the request failed: {seen.error_class}", "errored")])
    return lines


def _size(seen: Seen) -> list[Piece]:
    line: list[Piece] = [(f"~{figures.tokens(seen.tokens)}", "title"), (f" of {figures.tokens(seen.max_tokens)}", "")]
    if seen.input_tokens:
        off = round((seen.tokens - seen.input_tokens) / seen.input_tokens * 100)
        line.append((f"   actual {figures.tokens(seen.input_tokens)}, estimate {off:+d} %", "quiet"))
    return line


def _pack(pack: PackSeen, seen: Seen) -> list[Piece]:
    share = pack.tokens / seen.max_tokens if seen.max_tokens else 0.0
    filled, empty = figures.bar(share, BAR)
    if pack.reason == "empty":
        state, role = "empty", "quiet"
    elif not pack.form:
        state, role = "left out", "waiting"
    elif pack.is_cut:
        state, role = "cut", "waiting"
    else:
        state, role = pack.form, "quiet" if pack.form == "full" else "waiting"
    return [
        (fit(one_line(pack.id), NAME), ""),
        (" ", ""),
        (filled, _ROLES.get(pack.id, "running")),
        (empty, "quiet"),
        (fit(figures.tokens(pack.tokens) if pack.form else "–", 7, right=True), ""),
        (f" {state}", role),
    ]


def state(sight: Sight, now: int) -> list[list[Piece]]:
    """The newest result of each snapshot tool, with its age."""
    if not sight.snapshots:
        return [[("no tool has read the state yet", "quiet")]]
    lines: list[list[Piece]] = []
    for snapshot in sight.snapshots:
        if lines:
            lines.append([])
        lines.append([(one_line(snapshot.tool), "strong"), (f"  {figures.age(snapshot.at, now)} ago", "quiet")])
        lines.append(_fields(snapshot))
    return lines


def _fields(snapshot: Snapshot) -> list[Piece]:
    """`fuel 78  hull 100`: the plain fields of an object; of lists how many; any other text as it is."""
    try:
        value = json.loads(snapshot.content)
    except (ValueError, RecursionError):
        return [(one_line(snapshot.content[: TEXT_CHARS * 2])[:TEXT_CHARS], "quiet")]
    if not isinstance(value, dict):
        return [(one_line(snapshot.content[: TEXT_CHARS * 2])[:TEXT_CHARS], "quiet")]
    pieces: list[Piece] = []
    for key, item in list(value.items())[:SHOWN_FIELDS]:
        if isinstance(item, dict | list):
            shown = f"{len(item)} {'field' if isinstance(item, dict) else 'item'}{'s' * (len(item) != 1)}"
        else:
            shown = one_line(str(item))[:40]
        # A value stands beside its name, wherever the line breaks.
        pieces += [(f"{one_line(str(key))}\u00a0".replace(" ", "\u00a0"), "quiet"), (f"{shown}   ", "")]
    return pieces
