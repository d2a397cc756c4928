"""Markdown and HTML of hostile texts: a rendered file shows what was said, and nothing in it is active."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.case_tables import walk_cases
from tests.swarm.harness import call, script, swarm
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer
from zoea.settings.schema import Settings
from zoea.text.control_characters import reveal
from zoea.transfer.export import Format, code_block, escape_line, export_pieces, swarm_pieces

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
HOSTILE = """<script>alert(1)</script>
[click](javascript:alert(2)) ![p](https://tracker.example/p.png) <https://a.example> www.b.example https://c.example
[ref]

[ref]: javascript:alert(3) "title"

---

## Turn 7, 2031-01-01 00:00:00

**from you**

> send all iron to beta

Forged heading
==============

# alpha

</details></pre></div><h2 id="turn-9">Turn 9</h2><img src=x onerror=alert(4)><a href="javascript:alert(5)">x</a>

``````
</code></pre><iframe src="https://d.example"></iframe>
~~~~~~
    <svg onload=alert(6)>
| a | b |
|---|---|
| <b>c</b> | [d](data:text/html,e) |
"""
ONE_LINE = "**x** </h2><script>alert(7)</script> [y](javascript:alert(8)) `z` ![w](//v) https://u.example # t"
OWN_HTML = {"<details><summary>thinking</summary>", "</details>"}
INACTIVE = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "div", "span"}
INACTIVE |= {"details", "summary"}
INACTIVE |= {"br", "hr", "ul", "ol", "li", "em", "strong", "s", "code", "blockquote", "h3", "h4", "h5", "h6"}
INACTIVE |= {"table", "thead", "tbody", "tr", "th", "td"}


async def make_conversation(folder: Path) -> Path:
    """The database of a conversation that is hostile wherever a text can be."""
    asks = Answer(text=HOSTILE, reasoning=HOSTILE, calls=(call("act", HOSTILE), call(ONE_LINE, "x")))
    fails = ProviderError(ONE_LINE, kind=ErrorClass.MODEL_MISSING)
    async with swarm(folder, script(asks, Answer(text=HOSTILE), fails), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=True)
        await inner.commander.send("alpha", HOSTILE)
        await inner.settled()
        await inner.commander.send("alpha", ONE_LINE)
        await inner.until(lambda: inner.state() == "errored")
        return inner.path


def flatten(tokens: list[Token]) -> list[Token]:
    return [token for one in tokens for token in (one, *flatten(one.children or []))]


def is_quoted(tokens: list[Token], token: Token) -> bool:
    """Whether a token stands in an answer, which is a quotation that is rendered."""
    before = [one.type for one in tokens[: next(at for at, one in enumerate(tokens) if one is token)]]
    return before.count("blockquote_open") > before.count("blockquote_close") or token.type.startswith("blockquote")


def render(text: str) -> list[Token]:
    """Return the tokens of a renderer. It passes HTML and makes links of addresses, as common ones do."""
    return flatten(MarkdownIt("gfm-like", {"html": True, "linkify": True}).parse(text))


async def test_rendered_markdown_has_no_active_content_and_no_forged_turn(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    text = "".join(export_pieces(path, 1, Format.MARKDOWN, redact=False))
    tokens = render(text)
    assert {one.content.strip() for one in tokens if one.type in ("html_block", "html_inline")} == OWN_HTML
    addresses = [str(one.attrs["href"]) for one in tokens if one.type == "link_open"]
    shown = "".join(one.content for one in tokens if one.type == "text")
    assert all(address.removeprefix("http://") in shown for address in addresses)  # a renderer's own: it shows where to
    assert not {one.type for one in tokens} & {"image"}
    outside = [one for one in tokens if not is_quoted(tokens, one)]
    assert not {one.type for one in outside} & {"link_open", "table_open", "s_open"}
    headings = [tokens[tokens.index(one) + 1].content for one in outside if one.type == "heading_open"]
    assert [re.sub(r",.*", "", heading) for heading in headings] == ["alpha", "Turn 1", "Turn 2"]
    assert len([one for one in outside if one.type == "hr"]) == 2


async def test_rendered_markdown_shows_every_text_as_it_was_said(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    tokens = render("".join(export_pieces(path, 1, Format.MARKDOWN, redact=False)))
    shown = [one.content.removesuffix("\n") for one in tokens if one.type == "fence"]
    assert shown.count(HOSTILE) >= 2  # the message and the reasoning
    words = "".join(one.content for one in tokens if one.type in ("text", "text_special", "code_inline"))
    assert words.count(ONE_LINE) >= 1
    said = "".join(one.content for one in tokens)
    for part in (
        "<script>alert(1)</script>",
        "javascript:alert(3)",
        "Turn 7, 2031",
        "onload=alert(6)",
        "data:text/html",
    ):
        assert said.count(part) >= 4, part  # and two answers


@pytest.mark.parametrize("is_swarm", [False, True])
async def test_html_has_no_active_content(tmp_path: Path, is_swarm: bool) -> None:
    path = await make_conversation(tmp_path)
    pieces = swarm_pieces(path, [1], Format.HTML, redact=False)
    if not is_swarm:
        pieces = export_pieces(path, 1, Format.HTML, redact=False)
    seen: set[tuple[str, str]] = set()
    said: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag in INACTIVE
            seen.update((tag, name) for name, _ in attrs)

        def handle_data(self, data: str) -> None:
            said.append(data)

    Reader().feed("".join(pieces))
    assert {name for tag, name in seen if tag not in ("html", "meta")} <= {"class", "id", "start"}
    assert said.count(HOSTILE) >= 2  # the message and the reasoning
    for part in (
        "<script>alert(1)</script>",
        "javascript:alert(3)",
        "Turn 7, 2031",
        "onload=alert(6)",
        "data:text/html",
    ):
        assert "".join(said).count(part) >= 4, part  # and two answers


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=st.sampled_from("`~<>[]()!#*_-=+.:|&\\/@ \n\tab1\u2028é"), max_size=60))
def test_any_text_in_a_block_or_line_is_shown_as_it_is(text: str) -> None:
    said = reveal(text)
    assert [one.content for one in render(code_block(said)) if one.type == "fence"] == [said + "\n"]
    line = " ".join(said.split())
    tokens = render(f"# {escape_line(said)}\n\n{escape_line(said)}\n\n**{escape_line(said)}** end\n")
    assert not {one.type for one in tokens} & {
        "link_open",
        "image",
        "html_inline",
        "html_block",
        "code_inline",
        "fence",
    }
    inlines = [one.children or [] for one in tokens if one.type == "inline"]
    shown = ["".join(part.content for part in parts) for parts in inlines]
    assert shown == ([line, line, f"{line} end"] if line else ["", "**** end"])


@walk_cases(
    ("said", "escaped"), [("1. x", r"1\. x"), ("- x", r"\- x"), ("a-b", "a-b"), ("a_b", r"a\_b"), ("//1.1", r"\//1.1")]
)
def test_lines_are_escaped_where_it_is_needed(said: str, escaped: str) -> None:
    assert escape_line(said) == escaped
