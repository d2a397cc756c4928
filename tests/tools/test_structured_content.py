"""What a result holds only in `structuredContent` reaches the model. What its text says is not told twice.

Each line names a public report.
"""

from __future__ import annotations

import json
from typing import Any

from tests.case_tables import walk_cases
from zoea.tools.results import MAX_COMPARED, parse_result

PROJECTS = {"projects": [{"id": "p-17"}, {"id": "p-18"}]}
HITS = {"status": "candidates_ready", "hit_count": 6}
MIRROR = json.dumps(PROJECTS, indent=2)

CASES: list[tuple[str, str, Any, Any]] = [
    # report, text, structured content, what follows the text: None where nothing
    ("MoonshotAI/kimi-code#2554", "list_projects returned 2 item(s).", PROJECTS, PROJECTS),
    ("usememos/memos#6226", "Scraped 1 URLs: 1 useful.", {"chunks": ["text of it"]}, {"chunks": ["text of it"]}),
    (
        "prebid/salesagent#2140",
        "Found 2 products.",
        {"count": 2, "products": [{"id": "a1"}]},
        {"products": [{"id": "a1"}]},
    ),
    ("modelcontextprotocol#1411", "Done.", {"ok": True}, {"ok": True}),
    ("MoonshotAI/kimi-code#3234", MIRROR, PROJECTS, None),
    ("anthropics/claude-code#55677", "Found 6 candidates", HITS, {"status": "candidates_ready"}),
    ("NousResearch/hermes-agent#7118", "line 1\nline 2", {"fileName": "a.txt"}, {"fileName": "a.txt"}),
    ("github/copilot-cli#3258", "| id |\n|---|\n| p-17 |\n| p-18 |", PROJECTS, None),
    ("FastMCP wraps a text", "Paris,\n  in France", {"result": "Paris,\n in France"}, None),
    ("FastMCP wraps a list", "a\nb", {"result": ["a", "b"]}, None),
    ("numbers as people write them", "Total: 1,234.50 of 7", {"total": 1234.5, "of": 7}, None),
    ("a number within another one", "id 1234", {"id": 123}, {"id": 123}),
    ("a truth whose name the text has", "has_more: no", {"has_more": False}, None),
    ("nulls and empty texts hold nothing", "ok", {"next": None, "note": ""}, None),
    ("quotes of JSON in JSON", json.dumps({"a": 'say "x"'}), {"a": 'say "x"'}, None),
    ("openai/openai-agents-python#4224", "database connection refused", {"answer": 42}, {"answer": 42}),
    ("a list", "ok", [{"id": "p-17"}], [{"id": "p-17"}]),
]
NO_TEXT: list[tuple[str, Any]] = [
    ("nicobailon/pi-mcp-adapter#113", {"status": "available"}),
    ("seuros/action_mcp#181", {"greeting": "Hello, World!", "name_length": 5}),
    ("open-webui/open-webui#28926", PROJECTS),
    ("ggml-org/llama.cpp#26410", {"accounts": [{"id": 1}], "total": 36}),
    ("tsedio/tsed#3244", {"code": "E_MCP_TOOL_ERROR", "message": "no such id"}),
]


@walk_cases(("text", "structured", "rest"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
@walk_cases("is_error", [False, True])
def test_only_what_the_text_lacks_follows_it(text: str, structured: Any, rest: Any, is_error: bool) -> None:
    wire = {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": is_error}
    tail = "" if rest is None else f"\n{json.dumps(rest)}"
    assert parse_result(wire).content == f"{text}{tail}"


@walk_cases(("structured"), [one[1] for one in NO_TEXT], ids=[one[0] for one in NO_TEXT])
@walk_cases("wire", [{}, {"content": []}, {"content": None}, {"content": [{"type": "text", "text": " "}]}])
def test_without_a_text_it_is_the_result(structured: Any, wire: dict[str, Any]) -> None:
    assert json.loads(parse_result({**wire, "structuredContent": structured}).content) == structured


def test_of_very_many_values_the_lengths_are_compared() -> None:
    rows = [{"n": number} for number in range(3 * MAX_COMPARED)]
    mirrored = json.dumps({"rows": rows})
    assert (
        parse_result({"content": [{"type": "text", "text": mirrored}], "structuredContent": {"rows": rows}}).content
        == mirrored
    )
    short = parse_result(
        {"content": [{"type": "text", "text": "many rows"}], "structuredContent": {"rows": rows}}
    ).content
    assert short.startswith('many rows\n{"rows": [{"n": 0}')


@walk_cases(
    ("wire", "text"),
    [
        ({"content": "a text in place of a list"}, "a text in place of a list"),
        ({"content": {"type": "text", "text": "one part"}}, "one part"),
        ({"toolResult": {"id": 7}}, '[content of type unknown] {"id": 7}'),  # the protocol of 2024-10-07
        ({"toolResult": {"content": [{"type": "text", "text": "x"}]}}, "x"),  # cloudflare/mcp-server-cloudflare#12
        # agno-agi/agno#10010, stacklok/mecatl#223
        (
            {
                "content": [
                    {"type": "resource_link", "uri": "file:///r.pdf", "name": "r.pdf", "description": "the report"}
                ]
            },
            "[link r.pdf <file:///r.pdf>: the report]",
        ),
        # anthropics/claude-ai-mcp#287
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///a.md", "text": "# Full"}}]},
            "[resource file:///a.md]\n# Full",
        ),
        ({"content": ["a", {"type": "text", "text": "b"}, None]}, "a\nb"),
    ],
)
def test_careless_content_reaches_the_model(wire: dict[str, Any], text: str) -> None:
    assert parse_result(wire).content == text
