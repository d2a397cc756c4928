"""Keys that stand in a text can be clicked: whatever names a key is that key."""

from __future__ import annotations

from textual.content import Content, Span
from textual.style import Style

from zoea.tui.commands.keymap import normal

Word = tuple[str, str, str]
"""A text, its role, and what a click on it does, as Textual names actions; empty for nothing."""


def clicking(action: str) -> Style:
    """The style of a text whose click is this action."""
    return Style.from_meta({"@click": action})


def pressing(key: str) -> Style | None:
    """The style of a text whose click presses a key, as `esc` or `^t`; None where the words are no key."""
    name = normal(key)
    return clicking(f"app.press({name!r})") if name else None


def hints(text: str) -> Content:
    """`enter write · esc back` as a border's title, each part a press of its first word."""
    spans: list[Span] = []
    at = 0
    for part in text.split(" · "):
        style = pressing(part.partition(" ")[0])
        if style is not None:
            spans.append(Span(at, at + len(part), style))
        at += len(part) + len(" · ")
    return Content(text, spans)
