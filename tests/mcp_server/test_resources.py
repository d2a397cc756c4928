"""Resources of the MCP server: transcripts as Markdown in which nothing is active."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from zoea.mcp_server import resources
from zoea.transfer.export import code_block


def test_the_end_of_a_long_turn_is_made_of_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "SHOWN_CHARS", 60)
    long = code_block("a\n" * 40 + "<script>alert(1)</script>")
    short = code_block("<b>end</b>")
    for pieces in ([long, short], [short, long], [long]):
        tokens = MarkdownIt("commonmark", {"html": True}).parse(resources.keep_newest(pieces))
        assert {token.type for token in tokens} == {"fence"}
        assert len(tokens) == 1
