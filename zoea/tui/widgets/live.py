"""The answer that is being written, as one Markdown widget fed piece by piece; the only one in the cockpit."""

from __future__ import annotations

import asyncio

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownStream

from zoea.text.control import strip
from zoea.tui.beside import Beside
from zoea.tui.streaming import continuation

LONGEST = 40_000


class LiveAnswer(VerticalScroll, can_focus=False):
    """Hidden until something is said; follows its own end."""

    DEFAULT_CSS = """
    LiveAnswer { height: auto; scrollbar-size-vertical: 0; }
    LiveAnswer Markdown { height: auto; margin: 0; padding: 0; background: transparent; }
    """

    class Grown(Message):
        """It takes up more room, or none."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen = ""
        self._shown = 0
        self._fresh: list[str] = []
        self._restart = False
        self._woken = asyncio.Event()
        self._stream: MarkdownStream | None = None

    def compose(self) -> ComposeResult:
        yield Markdown("", open_links=False)

    def on_mount(self) -> None:
        self.display = False
        self.anchor()
        self.run_worker(Beside(self._feed()), group="live")

    @property
    def text(self) -> str:
        """The end of what is said."""
        return self._seen

    def say(self, tail: str) -> None:
        """The newest end of the text, up to a few thousand characters; what is new is appended."""
        tail = strip(tail)
        if tail == self._seen:
            return
        more = continuation(self._seen, tail)
        if more is None or self._shown > LONGEST:
            self._restart, self._fresh, self._shown = True, [], 0
            more = tail
        self._seen = tail
        self._shown += len(more)
        self._fresh.append(more)
        self._woken.set()

    def clear(self) -> None:
        """It was stored, or came to nothing."""
        if self._seen:
            self._seen, self._shown, self._fresh, self._restart = "", 0, [], True
            self.display = False
            self._woken.set()
            self.post_message(self.Grown())

    async def _feed(self) -> None:
        markdown = self.query_one(Markdown)
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                if self._restart:
                    self._restart = False
                    await self._end()
                    await markdown.update("")
                fresh, self._fresh = "".join(self._fresh), []
                if fresh:
                    if self._stream is None:
                        self._stream = Markdown.get_stream(markdown)
                    await self._stream.write(fresh)
                self.display = bool(self._seen)
                self.call_after_refresh(self.post_message, self.Grown())
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.stop()
