"""The blocks of a conversation as they are to be painted: which are open, what was read whole, what is painted already.

No widget and no scrolling: what a transcript shows, apart from where its reader is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.strip import Strip

from zoea.tui.conversation.block_painter import PaintOptions, estimate_weight, paint_block
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock
from zoea.tui.conversation.line_index import LineIndex

WHOLE_CHARS = 400_000
_FOLDING = (BlockKind.REASONING, BlockKind.CALL)

BlockView = tuple[ConversationBlock, bool]
"""A block, and whether its body is shown."""


@dataclass(frozen=True, slots=True)
class PaintedBlock:
    """A block as it was painted in a options, open or folded."""

    block: ConversationBlock
    options: PaintOptions
    is_open: bool
    strips: tuple[Strip, ...]


class ConversationDocument:
    """Set `options` to draw otherwise: what was painted before counts no more.

    `missing` says what has to be painted, `keep` takes it, `index` lays all of it out.
    """

    def __init__(self, options: PaintOptions) -> None:
        self.options = options
        self.blocks: tuple[ConversationBlock, ...] = ()
        self._whole: dict[int, str] = {}
        self._opens: dict[str, bool] = {}
        self._painted: dict[str, PaintedBlock] = {}

    def clear(self) -> None:
        """Forget everything but the options."""
        self.blocks = ()
        self._whole, self._opens, self._painted = {}, {}, {}

    def put(self, blocks: Sequence[ConversationBlock]) -> None:
        """These blocks from now on."""
        self.blocks = tuple(self._with_whole(block) for block in blocks)

    def put_whole(self, memory_id: int, text: str) -> None:
        """The text of a memory that was read in part."""
        self._whole[memory_id] = text
        self.put(self.blocks)

    def is_whole(self, block: ConversationBlock) -> bool:
        """Whether nothing of the block is left to be read."""
        return not block.missing or block.memory_id is None or block.memory_id in self._whole

    def _with_whole(self, block: ConversationBlock) -> ConversationBlock:
        if not block.missing or block.memory_id not in self._whole:
            return block
        text = self._whole[block.memory_id]
        return replace(block, body=text[:WHOLE_CHARS], missing=max(0, len(text) - WHOLE_CHARS), full=block.full)

    # Folding.

    def is_open(self, block: ConversationBlock) -> bool:
        """Whether its body is shown, as the reader said, else by default."""
        default = self.options.verbose if block.kind in _FOLDING else block.is_open
        return self._opens.get(block.key, default)

    def set_open(self, key: str, is_open: bool) -> None:
        self._opens[key] = is_open

    def set_verbose(self, on: bool) -> None:
        """Everything in full, or folded again; folded turns stay so."""
        self.options = replace(self.options, verbose=on)
        self._opens = {key: is_open for key, is_open in self._opens.items() if key.startswith("turn ")}

    # Painting.

    def wanted(self) -> list[BlockView]:
        """What is shown now: the blocks of a folded turn are its first line alone."""
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
        """What is shown and not painted yet."""
        return [(block, is_open) for block, is_open in self.wanted() if not self._is_painted(block, is_open)]

    def keep(self, painted: Sequence[PaintedBlock]) -> None:
        self._painted.update((one.block.key, one) for one in painted)

    def build_index(self) -> LineIndex:
        """All that is shown, laid out; all of it is painted. What is shown no more is let go of."""
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
    """How much there is to paint."""
    return sum(estimate_weight(block, is_open=is_open) for block, is_open in blocks)


def paint_blocks(blocks: Sequence[BlockView], options: PaintOptions) -> list[PaintedBlock]:
    """Each block painted; in a thread where it is much."""
    return [
        PaintedBlock(block, options, is_open, paint_block(block, options, is_open=is_open)) for block, is_open in blocks
    ]
