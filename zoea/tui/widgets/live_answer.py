"""The answer that is being streamed, in the only Markdown widget of the cockpit.

Reasoning is shown above it: its newest lines before the answer begins, one line from then on. Before both, one line
says what the request holds.
"""

from __future__ import annotations

import asyncio

from textual import events, getters
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Markdown

from zoea.text.control_characters import prose_line, reveal
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece, wrap_words
from zoea.tui.widgets.clickable_text import TextBlock


def find_continuation(shown: int, tail: str, before: int) -> str | None:
    """Return the text to append to a shown one, or None for another text.

    Args:
        shown: Where the shown text ends in the stream.
        tail: A later end of the stream, which begins at `before`.
    """
    if not before <= shown <= before + len(tail):
        return None
    seen, whole = reveal(tail[: shown - before]), reveal(tail)
    return whole[len(seen) :] if whole.startswith(seen) else None


LONGEST = 40_000
THOUGHT_LINES = 4
_THOUGHT_CHARS = 1000


class LiveAnswer(VerticalScroll, can_focus=False):
    """Show the streamed answer and scroll with it; hidden while there is none."""

    DEFAULT_CSS = """
    LiveAnswer { height: auto; scrollbar-size-vertical: 0; }
    LiveAnswer #thought { height: auto; display: none; }
    LiveAnswer Markdown { height: auto; margin: 0; padding: 0; background: transparent; }
    """

    class Grown(Message):
        """Sent when the answer has another height or was hidden."""

    _thought_block = getters.query_one("#thought", TextBlock)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text = ""
        """The end of the answer."""
        self._end = 0
        self._thought = ""
        self._prepared = ""
        self._drawn_at = 0
        self._shown = 0
        self._fresh: list[str] = []
        self._restart = False
        self._woken = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield TextBlock(id="thought")

    def on_mount(self) -> None:
        self.display = False
        self.anchor()
        self.run_worker(DeferredWork(self._feed), group="live")

    @property
    def is_live(self) -> bool:
        """Return whether there is any answer or reasoning."""
        return bool(self.text or self._thought)

    def prepare(self, text: str) -> None:
        """Show what a request without an answer holds.

        Nothing is shown with an empty text, or where an answer has begun.
        """
        if text == self._prepared or (text and self.is_live):
            return
        self._prepared = text
        if not self.is_live:
            self._thought_block.put([[(text, "quiet")]] if text else ())
            self._thought_block.display = self.display = bool(text)

    def think(self, tail: str) -> None:
        """Show the newest end of the reasoning."""
        if tail != self._thought:
            self._thought = tail
            self._draw_thought()

    def watch_virtual_size(self, size: Size) -> None:
        self.post_message(self.Grown())

    def on_show(self) -> None:
        self.post_message(self.Grown())

    def on_hide(self) -> None:
        self.post_message(self.Grown())

    def on_resize(self, event: events.Resize) -> None:
        if self._thought and event.size.width != self._drawn_at:
            self._draw_thought()

    def _draw_thought(self) -> None:
        block, self._prepared = self._thought_block, ""
        self._drawn_at = self.size.width
        block.put(build_thought_lines(self._thought, max(20, self.content_size.width), is_folded=bool(self.text)))
        block.display = bool(self._thought)
        if self._thought:
            self.display = True

    def say(self, tail: str, before: int) -> None:
        """Show the newest part of the answer, which begins at `before` in the stream."""
        end = before + len(tail)
        if self.text and end == self._end:
            return
        was_silent, was_prepared = not self.text, bool(self._prepared)
        more = find_continuation(before if was_silent else self._end, tail, before)
        self.text, self._end = reveal(tail), end
        if more is None or self._shown > LONGEST:
            self._restart, self._fresh, self._shown = True, [], 0
            more = self.text
        self._shown += len(more)
        self._fresh.append(more)
        self._woken.set()
        if was_silent and (self._thought or was_prepared):
            self._draw_thought()

    def clear(self) -> None:
        """Hide the answer because it was stored or dropped."""
        if self.is_live or self._prepared:
            self.text, self._shown, self._fresh, self._restart = "", 0, [], True
            self._thought = self._prepared = ""
            self._thought_block.display = False
            self.display = False
            self._woken.set()
            self.post_message(self.Grown())

    async def _feed(self) -> None:
        await self._woken.wait()
        markdown = Markdown(open_links=False)
        await self.mount(markdown)  # not before there is an answer, because a conversation opens sooner without it
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._restart:
                self._restart = False
                await markdown.update("")
            fresh, self._fresh = "".join(self._fresh), []
            if fresh:
                try:
                    await markdown.append(fresh)
                except UnboundLocalError:
                    # Textual raises it if the last row of a table turns out to begin another block.
                    await markdown.update(markdown.source)
            self.display = self.is_live or bool(self._prepared)


def build_thought_lines(tail: str, width: int, *, is_folded: bool) -> list[list[Piece]]:
    """Build the newest lines of the reasoning, or one line while it is folded."""
    if is_folded:
        return [[("thought", "reasoning"), ("  answering", "quiet")]]
    head: list[Piece] = [("reasoning…", "reasoning")]
    text = prose_line(tail[-_THOUGHT_CHARS:])
    return [head, *([(line, "quiet")] for line in list(wrap_words(text, width))[-THOUGHT_LINES:])]
