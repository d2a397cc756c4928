"""Blocks of a conversation with their state: open, fully read, painted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from textual.strip import Strip

from zoea.tui.conversation.block_painter import PaintOptions, estimate_weight, paint_block
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
from zoea.tui.conversation.line_index import LineIndex

WHOLE_CHARS = 400_000
_FOLDING = (BlockKind.REASONING, BlockKind.CALL)

BlockView = tuple[ConversationBlock, bool]
"""A block, and whether its body is shown."""


class PaintedBlock(Struct, frozen=True):
    """A painted block and the options it was painted with."""

    block: ConversationBlock
    options: PaintOptions
    is_open: bool
    strips: tuple[Strip, ...]


class ConversationDocument:
    """Keep blocks and their painted strips.

    Setting `options` makes all painted strips stale. `missing` lists blocks to paint, `keep` stores painted ones,
    `build_index`
    lays all out.
    """

    def __init__(self, options: PaintOptions) -> None:
        self.options = options
        self.blocks: tuple[ConversationBlock, ...] = ()
        self._whole: dict[int, str] = {}
        self._opens: dict[str, bool] = {}
        self._painted: dict[str, PaintedBlock] = {}

    def clear(self) -> None:
        """Remove all blocks; keep the options."""
        self.blocks = ()
        self._whole, self._opens, self._painted = {}, {}, {}

    def put(self, blocks: Sequence[ConversationBlock]) -> None:
        """Replace the blocks."""
        self.blocks = tuple(self._with_whole(block) for block in blocks)

    def put_whole(self, memory_id: int, text: str) -> None:
        """Set the full text of a memory that was read in part."""
        self._whole[memory_id] = text
        self.put(self.blocks)

    def is_whole(self, block: ConversationBlock) -> bool:
        """Return whether the block is fully read."""
        return not block.missing or block.memory_id is None or block.memory_id in self._whole

    def _with_whole(self, block: ConversationBlock) -> ConversationBlock:
        if not block.missing or block.memory_id not in self._whole:
            return block
        text = self._whole[block.memory_id]
        return replace(block, body=text[:WHOLE_CHARS], missing=max(0, len(text) - WHOLE_CHARS), full=block.full)

    # Folding.

    def is_open(self, block: ConversationBlock) -> bool:
        """Return whether the body is shown."""
        default = self.options.verbose if block.kind in _FOLDING else block.is_open
        if block.kind is BlockKind.REASONING:
            default = default or self.options.shows_reasoning
        return self._opens.get(block.key, default)

    def set_open(self, key: str, is_open: bool) -> None:
        self._opens[key] = is_open

    def set_verbose(self, on: bool) -> None:
        """Unfold all bodies, or fold them again; folded turns stay folded."""
        self.options = replace(self.options, verbose=on)
        self._opens = {key: is_open for key, is_open in self._opens.items() if key.startswith("turn ")}

    # Painting.

    def wanted(self) -> list[BlockView]:
        """Return the blocks to show; a folded turn shows only its first line."""
        wanted: list[BlockView] = []
        folded = 0
        for block in self.blocks:
            is_open = self.is_open(block)
            if block.kind is BlockKind.TURN:
                folded = 0 if is_open else block.turn
            elif folded and block.turn == folded:
                continue
            wanted.append((block, is_open))
        return wanted

    def missing(self) -> list[BlockView]:
        """Return the blocks to show that are not painted."""
        return [(block, is_open) for block, is_open in self.wanted() if not self._is_painted(block, is_open)]

    def keep(self, painted: Sequence[PaintedBlock]) -> None:
        self._painted.update((one.block.key, one) for one in painted)

    def build_index(self) -> LineIndex:
        """Lay out all shown blocks and drop strips of hidden ones; all must be painted."""
        shown = [block for block, _ in self.wanted()]
        self._painted = {block.key: self._painted[block.key] for block in shown}
        return LineIndex(shown, [self._painted[block.key].strips for block in shown])

    def _is_painted(self, block: ConversationBlock, is_open: bool) -> bool:
        found = self._painted.get(block.key)
        return (
            found is not None
            and found.is_open == is_open
            and found.options is self.options
            and (found.block is block or found.block == block)
        )


def estimate_work(blocks: Sequence[BlockView]) -> int:
    """Estimate the cost of painting these blocks."""
    return sum(estimate_weight(block, is_open=is_open) for block, is_open in blocks)


def paint_blocks(blocks: Sequence[BlockView], options: PaintOptions) -> list[PaintedBlock]:
    """Paint each block; call it in a thread if there is much to paint."""
    return [
        PaintedBlock(block, options, is_open, paint_block(block, options, is_open=is_open)) for block, is_open in blocks
    ]
