"""Paint conversation blocks as strips. Pure: equal input gives equal strips.

Column 0 is free for the cursor, a block's first line begins in column 2 and its body in column 4. Text becomes
segments and is never parsed as markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from zoea.model.enums import MASK
from zoea.text.control_characters import prose_line, reveal
from zoea.text.shorten import head_with_length
from zoea.tui import number_format
from zoea.tui.conversation import markdown_lines
from zoea.tui.conversation.argument_lines import GUTTER, has_texts, iterate_argument_lines, mark_diff
from zoea.tui.conversation.blocks import BlockKind, BodyFormat, ConversationBlock, Symbols
from zoea.tui.text_layout import Piece, count_cells, fit_text, wrap_pieces, wrap_words
from zoea.tui.theme.role_styles import ConversationPalette

DEPTH = 20
VALUE_CHARS = 400


def iterate_tree_lines(value: Any, width: int) -> Iterator[list[Piece]]:
    """Yield a JSON value as a tree of lines; short values stay on one line.

    Each line has at most about `width` characters before it is wrapped.
    """
    yield from _children(value, "", width, DEPTH)


def _children(value: Any, indent: str, width: int, depth: int) -> Iterator[list[Piece]]:
    if isinstance(value, dict):
        items = [(f"{prose_line(str(key))}: ", item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [("", item) for item in value]
    else:
        yield [(indent, "quiet"), (_inline(value), "")]
        return
    if not items:
        yield [(indent, "quiet"), ("empty", "quiet")]
    for place, (key, item) in enumerate(items):
        is_last = place == len(items) - 1
        branch = indent + (Symbols.last if is_last else Symbols.branch)
        if isinstance(item, str) and "\n" in item.strip():
            yield [(branch, "quiet"), (key, "llm"), ("", "")]
            below = indent + (" " * len(Symbols.last) if is_last else Symbols.down)
            for line, role in mark_diff(item):
                yield [(below, "quiet"), (GUTTER, "quiet"), (reveal(line), role)]
            continue
        short = _fitting(item, width - len(branch) - len(key))
        if short is not None or depth == 0:
            text = short if short is not None else head_with_length(_inline(item), VALUE_CHARS)
            yield [(branch, "quiet"), (key, "llm"), (text, "")]
            continue
        count = f"{len(item)} {'field' if isinstance(item, dict) else 'item'}{'s' * (len(item) != 1)}"
        yield [(branch, "quiet"), (key, "llm"), (count, "quiet")]
        below = indent + (" " * len(Symbols.last) if is_last else Symbols.down)
        yield from _children(item, below, width, depth - 1)


def _fitting(value: Any, width: int) -> str | None:
    """Return the value on one line. None if it is a container that does not fit."""
    if isinstance(value, dict | list) and len(value) * 3 > width:
        return None
    text = _inline(value)
    return text if len(text) <= width or not isinstance(value, dict | list) else None


def _inline(value: Any) -> str:
    """Return a value on one line: `iron_ore  buy 5.1  sell 4.8`."""
    if isinstance(value, str):
        return prose_line(value)
    if isinstance(value, dict) and value and not any(isinstance(item, dict | list) for item in value.values()):
        return "  ".join(f"{prose_line(str(key))} {_inline(item)}" for key, item in value.items())
    return prose_line(json.dumps(value, ensure_ascii=False))


HEAD, BODY = 2, 4
WIDEST = 120
LINES = 200
LINES_VERBOSE = 5000
BRIEF_LINES = 3
_JSON_CHARS = 400_000


class PaintOptions(Struct, frozen=True):
    """Define how blocks are drawn."""

    width: int
    palette: ConversationPalette
    verbose: bool = False
    shows_reasoning: bool = False


def paint_block(block: ConversationBlock, options: PaintOptions, *, is_open: bool) -> tuple[Strip, ...]:
    """Paint a block, with the blank line above it if it has one."""
    lines = [Strip([])] if block.has_gap else []
    if block.kind is BlockKind.TURN:
        return (*lines, _rule(block, options, is_open))
    if block.head:
        right = list(block.right)
        if block.folds and block.kind is BlockKind.CALL:
            right.append((f" {Symbols.open if is_open else Symbols.folded}", "quiet"))
        left = list(block.head)
        if block.folds and block.kind is not BlockKind.CALL:
            left.insert(0, (f"{Symbols.open if is_open else Symbols.folded} ", "quiet"))
        lines.append(paint_row(left, right, _measure(options), options.palette, indent=BODY))
    if is_open or not block.folds:
        lines += _body(block, options)
    elif block.brief:
        shown = list(islice(wrap_words(block.brief, _measure(options) - BODY - 2), BRIEF_LINES))
        lines += [_text(line, block.role, options.palette, BODY + 2) for line in shown]
    return tuple(lines)


def estimate_weight(block: ConversationBlock, *, is_open: bool) -> int:
    """Estimate the cost of painting in characters; Markdown counts tenfold."""
    if block.folds and not is_open:
        return 200
    return 200 + len(block.arguments) + len(block.body) * (10 if block.shape is BodyFormat.MARKDOWN else 1)


def _measure(options: PaintOptions) -> int:
    """Return the width for text, bounded because long lines are hard to read."""
    return max(20, min(options.width - 1, WIDEST))


def _rule(block: ConversationBlock, options: PaintOptions, is_open: bool) -> Strip:
    """Paint the line that begins a turn; folded, it shows the prompt."""
    left = [(Symbols.rule * 2 + " ", "border"), *block.head]
    right = [(" ", ""), *block.right] if block.right else []
    if not is_open:
        left.append((f"  {block.brief}", "strong"))
        right.append((f" {Symbols.folded}", "quiet"))
    return paint_row(left, right, _measure(options), options.palette, indent=HEAD, fill=Symbols.rule)


def paint_row(
    left: Sequence[Piece],
    right: Sequence[Piece],
    width: int,
    palette: ConversationPalette,
    *,
    indent: int,
    fill: str = " ",
) -> Strip:
    """Paint one line of exactly `width` cells. Cut the left side if both do not fit."""
    right_width = sum(cell_len(text) for text, _ in right)
    room = width - indent - right_width - (1 if right else 0)
    if room < 10:
        right, right_width, room = (), 0, width - indent
    segments = [Segment(" " * indent)]
    used = 0
    for text, role in left:
        size = cell_len(text)
        if used + size > room:
            segments.append(Segment(fit_text(text, room - used), palette.style(role)))
            used = room
            break
        segments.append(Segment(text, palette.style(role)))
        used += size
    gap = width - indent - right_width - used
    if fill != " " and gap > 1:
        segments.append(Segment(" " + fill * (gap - 1), palette.style("border")))
    else:
        segments.append(Segment(" " * max(0, gap)))
    segments += [Segment(text, palette.style(role)) for text, role in right]
    return Strip(segments)


def _body(block: ConversationBlock, options: PaintOptions) -> list[Strip]:
    indent = BODY if not block.folds else BODY + 2
    width = _measure(options) - indent
    limit = LINES_VERBOSE if options.verbose or not block.folds else LINES
    drawn = list(islice(_lines(block, options, width, indent), limit + 1))
    if len(drawn) > limit:
        drawn = drawn[:limit]
        words = "v shows more" if limit == LINES else "e exports all of it"
        drawn.append(_text(f"{Symbols.more} there is more: {words}", "quiet", options.palette, indent))
    if block.missing:
        said = f"{Symbols.more} {number_format.size(block.missing)} more: enter reads it"
        drawn.append(_text(said, "quiet", options.palette, indent))
    return drawn


def _lines(block: ConversationBlock, options: PaintOptions, width: int, indent: int) -> Iterator[Strip]:
    palette = options.palette
    if block.arguments and (not block.body or _is_cut(block, options)):
        for pieces in iterate_argument_lines(block.arguments, hidden=MASK):
            yield from _pieces(pieces, width, palette, indent)
        if block.body:
            yield _text("result:", "quiet", palette, indent)
    if not block.body:
        return
    if block.shape is BodyFormat.MARKDOWN and markdown_lines.is_markdown_size(block.body):
        rendered = markdown_lines.render_markdown(block.body, width, palette)
        if rendered is not None:
            for segments in rendered:
                yield Strip([Segment(" " * indent), *segments])
            return
    if block.shape is BodyFormat.JSON and not block.missing and len(block.body) <= _JSON_CHARS:
        try:
            value = json.loads(block.body)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict | list):
            for pieces in iterate_tree_lines(value, width):
                yield from _pieces(pieces, width, palette, indent, by_words=True)
            return
    for text, role in mark_diff(block.body):
        for line in wrap_words(text, width):
            yield _text(line, role or block.role, palette, indent)


def _is_cut(block: ConversationBlock, options: PaintOptions) -> bool:
    """Return whether the head cuts the arguments, or shows a text in one line."""
    shown = "".join(text for text, _ in block.head)
    room = _measure(options) - BODY - count_cells(block.right) - 3
    return Symbols.more in shown or cell_len(shown) > room or has_texts(block.arguments)


def _pieces(
    pieces: Sequence[Piece], width: int, palette: ConversationPalette, indent: int, *, by_words: bool = False
) -> Iterator[Strip]:
    """Paint one line of pieces; wrap the last piece."""
    for line in wrap_pieces(pieces, width, by_words=by_words):
        yield Strip([Segment(" " * indent), *(Segment(text, palette.style(role)) for text, role in line if text)])


def _text(text: str, role: str, palette: ConversationPalette, indent: int) -> Strip:
    return Strip([Segment(" " * indent), Segment(text, palette.style(role))])
