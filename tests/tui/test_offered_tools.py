"""The tools of a request in the inspector."""

from __future__ import annotations

from zoea.queries.request_inspection import OfferedTool
from zoea.tui.conversation.tool_items import build_offered_items


def test_each_offered_tool_shows_its_tokens_and_the_largest_comes_first() -> None:
    small = OfferedTool("act", "Acts.", '{"type": "object"}')
    large = OfferedTool("travel", "Travels far. " * 40, '{"type": "object", "properties": {}}')
    items = build_offered_items([small, large])
    assert [item.head[0][0] for item in items] == ["travel", "act"]
    shown = ["".join(text for text, _ in item.right).strip() for item in items]
    assert shown == [f"~{large.tokens}", f"~{small.tokens}"]
