"""Conversation as a Line API view: thousands of blocks without a widget each.

The view asks for older and newer turns by messages. It keeps the reader's place, by block, through every change,
and follows the end only while the reader is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from zoea.tui.commands.keymap import CURSOR_KEYS
from zoea.tui.conversation.block_painter import BODY, PaintOptions
from zoea.tui.conversation.blocks import BlockKind, ConversationBlock, Symbols
from zoea.tui.conversation.conversation_document import ConversationDocument, estimate_work, paint_blocks
from zoea.tui.conversation.conversation_reader import ConversationReader
from zoea.tui.conversation.line_index import LineIndex, LinePosition
from zoea.tui.state.deferred_work import reread
from zoea.tui.theme.role_styles import ConversationPalette
from zoea.tui.widgets.strip_overlay import find_occurrences, place_strip, restyle_span

PAINT_HERE = 5_000
NEAR = 12
_COUNTED = (BlockKind.PROMPT, BlockKind.REASONING, BlockKind.CALL, BlockKind.ANSWER, BlockKind.NOTE, BlockKind.OUTCOME)


class ConversationView(ScrollView, can_focus=True, inherit_bindings=False):
    """Show painted blocks; paint them in a thread if there are many.

    Args:
        reading: Reads more turns near an edge of the loaded ones.
    """

    DEFAULT_CSS = "ConversationView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS, ("space", "leaf(1)"), ("enter", "fold")]

    class WholeWanted(Message):
        """Sent when the full text of a memory is needed."""

        def __init__(self, memory_id: int) -> None:
            super().__init__()
            self.memory_id = memory_id

    class Moved(Message):
        """Sent when the cursor, the scroll position or the number of unseen blocks changed."""

    def __init__(self, palette: ConversationPalette, reading: ConversationReader, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._reading = reading
        self._document = ConversationDocument(PaintOptions(80, palette))
        self._index = LineIndex()
        self._has_older = self.has_newer = False
        self._cursor = ""
        self._target: LinePosition | None = None
        self._opened = self._hit = ""
        self._words = ""
        self._base = 0
        self._shared: tuple[Style, int, Selection | None] | None = None
        self._is_applying = False
        self.follows = True
        self.unseen = 0

    # Content and state.

    def reset(self) -> None:
        """Clear everything but theme, width and verbosity, for another conversation."""
        self._document.clear()
        self._index = LineIndex()
        self._cursor = self._opened = self._hit = self._words = ""
        self._target, self.follows, self.unseen = None, True, 0
        self._has_older = self.has_newer = False
        self.virtual_size = Size(0, 0)
        self.refresh()

    def show(
        self,
        blocks: Sequence[ConversationBlock],
        *,
        has_older: bool,
        has_newer: bool,
        at: LinePosition | None = None,
        to_end: bool = False,
    ) -> None:
        """Show these blocks.

        Args:
            at: Position to put at the top.
            to_end: Scroll to the end.

        Without `at` and `to_end` everything stays where it is.
        """
        known = {block.key for block in self._document.blocks}
        if known and not self.follows and not self.has_newer:
            last = next((place for place in range(len(blocks), 0, -1) if blocks[place - 1].key in known), len(blocks))
            self.unseen += sum(block.kind in _COUNTED for block in blocks[last:])
        self._document.put(blocks)
        self._has_older, self.has_newer = has_older, has_newer
        if at is not None:
            self._target = at
            self.follows = False
        if to_end:
            self._cursor, self.follows, self.unseen = "", True, 0
        self._relay()

    def put_whole(self, memory_id: int, text: str) -> None:
        """Show the full text of a memory that was shown in part."""
        self._document.put_whole(memory_id, text)
        self._relay()

    def show_reasoning(self, on: bool) -> None:
        """Show reasoning open where its block was not folded by hand."""
        if self._document.options.shows_reasoning != on:
            self._document.options = replace(self._document.options, shows_reasoning=on)
            self._relay()

    def draw_as(self, palette: ConversationPalette) -> None:
        """Redraw in another theme."""
        options = self._document.options
        if options.palette.theme != palette.theme:
            self._document.options = replace(options, palette=palette)
            self._relay()

    @property
    def verbose(self) -> bool:
        return self._document.options.verbose

    def set_verbose(self, on: bool) -> None:
        """Unfold all reasoning and results, or fold them again."""
        self._document.set_verbose(on)
        self._relay()

    @property
    def cursor(self) -> ConversationBlock | None:
        """Return the block that keys act on; the last one by default."""
        place = self._index.places.get(self._cursor)
        if place is not None:
            return self._index.blocks[place]
        return self._index.blocks[-1] if self._index.blocks else None

    def choose(self, key: str) -> None:
        """Put the cursor on a block, now or when it is loaded."""
        self._cursor = key
        self.refresh()

    @property
    def spot(self) -> LinePosition | None:
        """Return the position at the top, to come back to; None while following the end."""
        return None if self.follows else self._index.spot(self.scroll_offset.y)

    @property
    def plain(self) -> str:
        """Return every line as text, for tests and screen readers."""
        strips = (self._index.strip(line) for line in range(self._index.height))
        return "\n".join(strip.text.rstrip() for strip in strips if strip is not None)

    @property
    def height(self) -> int:
        """Return the number of lines."""
        return self._index.height

    def mark(self, words: str, key: str = "") -> None:
        """Highlight these words; open the block `key` and scroll to its first match."""
        self._words, self._hit = words, key
        if key:
            self._document.set_open(key, True)
            self._relay()
        else:
            self.refresh()

    def holds(self, key: str) -> bool:
        """Return whether a block is loaded."""
        return any(block.key == key for block in self._document.blocks)

    # Painting and layout.

    def _relay(self) -> None:
        """Paint missing blocks, then lay out all. In a thread if there is much to paint."""
        document = self._document
        if not self.is_mounted or document.options.width < BODY:
            return
        missing = document.missing()
        if estimate_work(missing) <= PAINT_HERE:
            document.keep(paint_blocks(missing, document.options))
            self._apply()
        else:
            self._paint_beside()

    @reread
    async def _paint_beside(self) -> None:
        options = self._document.options
        painted = await asyncio.to_thread(paint_blocks, self._document.missing(), options)
        if options is self._document.options:
            self._document.keep(painted)
            # Blocks that came during the painting are painted now, or in another thread if they are many.
            self._relay()

    def _apply(self) -> None:
        before, top = self._index, self.scroll_offset.y
        was_last = bool(before.blocks) and self._cursor in ("", before.blocks[-1].key)
        index = self._document.build_index()
        line = self._same_place(before, index, top)
        self._base += top - line
        self._is_applying = True
        self._index = index
        self.virtual_size = Size(self._document.options.width, index.height)
        if self.follows and not self.has_newer:
            if was_last and index.blocks:
                self._cursor = index.blocks[-1].key
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        else:
            self.scroll_to(y=line, animate=False, force=True)
        self._is_applying = False
        if self._hit:
            self._seek_hit()
        self.refresh()
        self._look_around()

    def _same_place(self, before: LineIndex, after: LineIndex, top: int) -> int:
        """Return the line for the top: the target, else the one shown before, so that an opened block is in view."""
        if self._target is not None and (line := after.line_of(self._target)) is not None:
            self._target = None
            return line
        opened, self._opened = after.span(self._opened), ""
        least = min(opened[0] - 1, opened[1] - self.size.height) if opened is not None else 0
        return max(after.line_like(before, top), least)

    def _look_around(self) -> None:
        """Request more turns near an edge of the loaded ones, and report the position."""
        if not self._is_applying and self._document.blocks:
            if self._has_older and self.scroll_offset.y < NEAR:
                self._reading.older()
            if self.has_newer and self.scroll_offset.y > self.max_scroll_y - NEAR:
                self._reading.newer()
        self.post_message(self.Moved())

    def _seek_hit(self) -> None:
        """Scroll to the match once its block is loaded in full."""
        place = self._index.places.get(self._hit)
        if place is None:
            return
        block = self._index.blocks[place]
        if not self._document.is_whole(block) and block.memory_id is not None:
            self.post_message(self.WholeWanted(block.memory_id))
        self._cursor = self._hit
        span = self._index.span(self._hit)
        assert span is not None
        line = span[0]
        for offset, strip in enumerate(self._index.strips(self._hit)):
            if any(find_occurrences(strip.text, self._words)):
                line = span[1] - len(self._index.strips(self._hit)) + offset
                break
        else:
            if not self._document.is_whole(block):
                return
        self._hit = ""
        self._bring(line, self.size.height // 3)

    def _bring(self, line: int, above: int = 0) -> None:
        self.scroll_to(y=max(0, min(line - above, self.max_scroll_y)), animate=False, force=True)
        self._note_place()

    # Scrolling.

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_applying and round(old_value) != round(new_value):
            self._note_place()

    def _note_place(self) -> None:
        self.follows = not self.has_newer and self.scroll_offset.y >= self.max_scroll_y
        if self.follows:
            self.unseen = 0
        self._look_around()

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width != self._document.options.width:
            self._document.options = replace(self._document.options, width=width)
            self._relay()
        elif self.follows and not self.has_newer:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
            self.refresh()

    def action_leaf(self, by: int) -> None:
        self._bring(self.scroll_offset.y + by * max(1, self.size.height - 2))
        self._cursor_into_sight()

    def action_edge(self, last: int) -> None:
        if (self.has_newer if last else self._has_older) and self._document.blocks:
            self._reading.newest() if last else self._reading.around(1, "turn")
            return
        # A read that was asked for before may end at any moment.
        if self._reading.is_loaded:
            self._reading.stay()
        self._bring(self.max_scroll_y if last else 0)
        if self._index.blocks:
            self._move_cursor(self._index.blocks[-1 if last else 0].key)

    def action_move(self, by: int) -> None:
        """Move to the next block. Scroll first if the current one is taller than the view."""
        here = self.cursor
        if here is None:
            return
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        span = self._index.span(here.key)
        assert span is not None
        if span[1] <= top or span[0] >= bottom:
            self._cursor_into_sight()
            return
        if (by > 0 and span[1] > bottom) or (by < 0 and span[0] < top):
            self._bring(top + by * 3)
            return
        place = self._index.places[here.key] + by
        if not 0 <= place < len(self._index.blocks):
            self.action_edge(1 if by > 0 else 0)
            return
        self._move_cursor(self._index.blocks[place].key)
        self._reveal(by)

    def _reveal(self, by: int) -> None:
        """Scroll as little as brings the cursor's block into view."""
        span = self._index.span(self._cursor)
        assert span is not None
        height = max(1, self.size.height)
        if by > 0 and span[1] > self.scroll_offset.y + height:
            self._bring(min(span[0] - 1, span[1] - height))
        elif by < 0 and span[0] <= self.scroll_offset.y:
            self._bring(max(span[0] - 1, span[1] - height))

    def _cursor_into_sight(self) -> None:
        top = self.scroll_offset.y
        middle = self._index.block_at(top + min(3, self.size.height // 2))
        here = self._index.span(self._cursor)
        if middle is not None and (here is None or here[1] <= top or here[0] >= top + self.size.height):
            self._move_cursor(middle.key)

    def _move_cursor(self, key: str) -> None:
        if key != self._cursor:
            self._cursor = key
            self.refresh()
            self.post_message(self.Moved())

    def turn_beside(self, by: int) -> bool:
        """Move to the start of the previous or next turn. Return False if it is not loaded."""
        here = self.cursor
        found = self._index.turn_beside(here.key if here is not None else "", by)
        if found is None:
            return False
        key, line = found
        self._move_cursor(key)
        self._bring(line)
        return True

    # Folding.

    def action_fold(self) -> None:
        block = self.cursor
        if block is not None:
            self._toggle(block)

    def _toggle(self, block: ConversationBlock) -> None:
        is_open = self._document.is_open(block)
        if block.missing and block.memory_id is not None and not (block.folds and is_open):
            self.post_message(self.WholeWanted(block.memory_id))
        if block.folds:
            self._document.set_open(block.key, not is_open)
            self._opened = "" if is_open else block.key
            if self.follows and not is_open:
                # Stop following, so that the view stays at the opened block.
                self.follows = False
            self._relay()

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        block = self._index.block_at(line)
        if block is None or line >= self._index.height or self.screen.get_selected_text():
            return
        self._move_cursor(block.key)
        span = self._index.span(block.key)
        if span is not None and (line == span[0] or (block.missing and line == span[1] - 1)):
            self._toggle(block)

    # Drawing.

    def render_lines(self, crop: Region) -> list[Strip]:
        self._shared = self._find_shared()
        try:
            return super().render_lines(crop)
        finally:
            self._shared = None

    def _find_shared(self) -> tuple[Style, int, Selection | None]:
        """Return style, width and selection of all lines, for which all widgets above are asked."""
        return self.rich_style, self.scrollable_content_region.width, self.text_selection

    def render_line(self, y: int) -> Strip:
        base, width, selection = self._shared or self._find_shared()
        line = y + self.scroll_offset.y
        strip = self._index.strip(line)
        if strip is None:
            return Strip.blank(width, base)
        block = self._index.block_at(line)
        assert block is not None
        if self._words:
            strip = self._with_words(strip, block)
        if selection is not None and (span := selection.get_span(line + self._base)) is not None:
            strip = restyle_span(strip, *span, self.screen.get_component_rich_style("screen--selection"))
        span = self._index.span(block.key)
        if self.has_focus and block.key == (self.cursor.key if self.cursor else "") and span and line >= span[0]:
            strip = self._with_bar(strip)
        return place_strip(strip.adjust_cell_length(width).apply_style(base), line + self._base)

    def _with_bar(self, strip: Strip) -> Strip:
        first, *rest = strip or [Segment("")]
        bar = Segment(Symbols.here, self._document.options.palette.style("border-focus"))
        return Strip([bar, Segment(first.text[1:], first.style), *rest])

    def _with_words(self, strip: Strip, block: ConversationBlock) -> Strip:
        chosen = self.cursor is not None and block.key == self.cursor.key
        style = self._document.options.palette.style("asking") + Style(reverse=True) if chosen else Style(reverse=True)
        for start, end in list(find_occurrences(strip.text, self._words)):
            strip = restyle_span(strip, start, end, style)
        return strip

    # Selection.

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text without the indentation of blocks."""
        return self._index.picked(selection, self._base), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
