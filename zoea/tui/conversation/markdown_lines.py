"""Render a finished answer with Rich's Markdown, without losing text.

HTML, entities and link definitions stay as written, line breaks are kept, links emit no escape sequences, and code
is not highlighted.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from zoea.tui.conversation.argument_lines import mark_diff
from zoea.tui.theme.role_styles import ConversationPalette

LONGEST_CHARS = 20_000
LONGEST_LINES = 1_500
_LEAST_SHOWN = 0.9
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["reference", "entity", "image"])
)


class _Heading(Heading):
    """Align headings left."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    """Draw code on its own background: a diff in the colours of its lines, all other code in one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(style=console.get_style("markdown.code_block"), overflow="fold")
        for number, (line, role) in enumerate(mark_diff(str(self.text).rstrip())):
            text.append("\n" * (number > 0))
            text.append(line, console.get_style(f"zoea.{role}") if role else None)
        yield Padding(text, (0, 1), style=console.get_style("zoea.code"), expand=True)


class _Answer(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = text
        self.parsed = _PARSER.parse(text)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


def is_markdown_size(text: str) -> bool:
    """Return whether a text is short enough to be rendered as Markdown."""
    return len(text) <= LONGEST_CHARS and text.count("\n") <= LONGEST_LINES


def render_markdown(text: str, width: int, palette: ConversationPalette) -> list[list[Segment]] | None:
    """Render the text as lines of at most `width` cells, without blank lines around.

    Returns None if Markdown would drop text, as with deep nesting or titles of links.
    """
    console = _console(palette)
    answer = _Answer(text)
    if any(map(_has_hidden_text, answer.parsed)):
        return None
    rendered = console.render_lines(answer, console.options.update(width=max(8, width)), pad=False)
    meant = _letters(text) - sum(_letters(token.info) for token in answer.parsed)
    if sum(_letters(segment.text) for line in rendered for segment in line) < _LEAST_SHOWN * meant:
        return None
    while rendered and not _has_text(rendered[-1]):
        rendered.pop()
    while rendered and not _has_text(rendered[0]):
        rendered.pop(0)
    return rendered or None


def _has_hidden_text(token: Token) -> bool:
    """Return whether a code block has words after its language, or a link a title. Rich draws neither."""
    return len(token.info.split()) > 1 or any("title" in child.attrs for child in token.children or ())


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _has_text(line: list[Segment]) -> bool:
    return any(segment.text.strip() for segment in line)


@lru_cache(maxsize=4)
def _console(palette: ConversationPalette) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        theme=palette.markdown(),
        legacy_windows=False,
        no_color=False,
        width=80,
        height=25,
    )
