"""One bad item of a list costs only itself. The person reads its name and the reason.

Each line names a public report of the same defect in another client or server.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.mcp_wire import TOOL, McpWire
from tests.fakes.toolboxes import asked, meta
from tests.tools.conftest import Opener
from zoea.tools import UpstreamConfig
from zoea.tools.upstream.listed_tools import MAX_LISTED, PROBLEM, repair_initialize, repair_tool_list

OBJECT = {"type": "object"}


def _tool(schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "odd", "inputSchema": OBJECT if schema is None else schema, **more}


REPAIRED: list[tuple[str, Any, dict[str, Any]]] = [
    ("anthropics/claude-code#88049", _tool({"anyOf": [{"type": "object"}]}), {"anyOf": [{"type": "object"}]}),
    ("IvanMurzak/Unity-MCP#440", {"name": "odd", "inputSchema": None}, {}),
    ("mastra-ai/mastra#21859", {"name": "odd"}, {}),
    ("WebMCP-org/npm-packages#117", _tool({}), {}),
    ("craigk5n/webcalendar#725", _tool({"type": "object", "properties": []}), {"properties": {}}),
    ("elementor/elementor#37320", _tool({"properties": [], "required": []}), {"properties": {}, "required": []}),
    ("modelcontextprotocol/php-sdk#405", _tool([]), {}),
    ("MervinPraison/PraisonAI#3111", _tool({"type": "object", "properties": {}, "required": None}), {"properties": {}}),
    (
        "mastra-ai/mastra#23731",
        _tool({"type": "object", "properties": {"coin": {"type": "string"}, "required": ["coin"]}}),
        {"properties": {"coin": {"type": "string"}}},
    ),
    ("ThinkInAIXYZ/deepchat#2075", _tool(outputSchema={"type": "object", "properties": {"type": 7}}), {}),
    ("anomalyco/opencode#21591", _tool(outputSchema=None), {}),
    ("cognizant-ai-lab/neuro-san#1341", _tool({"$ref": "#/$defs/A", "$defs": {"A": {}}}), {"$ref": "#/$defs/A"}),
    ("skyflo-ai/skyflo#87", _tool(annotations="none", title=7, description=["x"]), {}),
    ("spelling of Gemini", _tool({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}), {"type": "object"}),
    ("a type in place of a schema", _tool({"properties": {"a": "string"}}), {"properties": {"a": {"type": "string"}}}),
    ("an object or null", _tool({"type": ["object", "null"]}), {}),
    ("modelcontextprotocol/servers#3051", _tool({"$schema": "http://json-schema.org/draft-07/schema#"}), {}),
    ("zereight/gitlab-mcp#286", _tool({}), {}),
    ("xpzouying/xiaohongshu-mcp#677", _tool({"type": "object"}), {}),
    (
        "github/copilot-cli#4623",
        _tool({"properties": {"a": {"type": ["array", "null"], "items": {"properties": {"value": True}}}}}),
        {"properties": {"a": {"type": ["array", "null"], "items": {"properties": {"value": True}}}}},
    ),
    (
        "SoftInstigate/restheart#593",
        _tool({"properties": {"a": {"type": "array"}}}),
        {"properties": {"a": {"type": "array"}}},
    ),
]
LEFT_OUT: list[tuple[str, Any, str]] = [
    ("sandialabs/atlas-ui-3#727", _tool({"type": "string"}), "odd: its arguments would be of the type string"),
    ("cognizant-ai-lab/neuro-san#1341", None, "item 2: it is not an object"),
    ("ArcadeAI/arcade-mcp#340", {"description": "x", "inputSchema": OBJECT}, "item 2: it has no name"),
    ("esengine/DeepSeek-Reasonix#6449", _tool("an object"), "odd: its inputSchema is not an object"),
    ("Kuadrant/mcp-gateway#662", _tool(7), "odd: its inputSchema is not an object"),
    ("a list of types", _tool({"type": ["array"]}), "odd: its arguments would be of the type ['array']"),
    ("a name of blanks", _tool() | {"name": " "}, "item 2: it has no name"),
]


async def _open(open_box: Opener, *pages: dict[str, Any], **opening: Any) -> tuple[list[str], str]:
    """Return the names of the offered tools, and the notes for the person."""
    async with McpWire(b"") as server:
        server.pages, server.opening = list(pages), opening
        box = open_box(UpstreamConfig("wire", url=f"{server.url}/mcp"))
        offered = [tool.name for tool in (await box.session(1, "alpha", "").catalogue()).tools]
        notes = "; ".join(box.status()[0].notes)
        await box.close()
    return offered, notes


@walk_cases(("item", "schema"), [one[1:] for one in REPAIRED], ids=[one[0] for one in REPAIRED])
def test_what_can_be_repaired_is_offered(item: Any, schema: dict[str, Any]) -> None:
    wire: dict[str, Any] = {"tools": [TOOL, item]}
    repair_tool_list(wire)
    repaired = wire["tools"][1]
    assert repaired["name"] == "odd"
    assert PROBLEM not in repaired.get("_meta", {})
    assert repaired["inputSchema"].items() >= ({"type": "object"} | schema).items()


async def test_repaired_tools_pass_the_sdk_in_one_list_with_good_ones(open_box: Opener) -> None:
    odd = [{**item, "name": f"odd{place}"} for place, (_, item, _) in enumerate(REPAIRED)]
    offered, notes = await _open(open_box, {"tools": [TOOL, *odd, {**TOOL, "name": "last"}]})
    assert offered == ["write", *(tool["name"] for tool in odd), "last"]
    assert not notes


@pytest.mark.parametrize(("item", "reason"), [one[1:] for one in LEFT_OUT], ids=[one[0] for one in LEFT_OUT])
async def test_what_cannot_be_repaired_is_named_and_the_others_stay(open_box: Opener, item: Any, reason: str) -> None:
    offered, notes = await _open(open_box, {"tools": [TOOL, item, {**TOOL, "name": "last"}]})
    assert offered == ["write", "last"]
    assert "1 tool left out, because its server lists it wrongly" in notes
    assert reason in notes


@pytest.mark.parametrize(
    ("pages", "offered", "note"),
    [  # knowsuchagency/mcp2cli#64
        ([{"tools": [TOOL], "nextCursor": "1"}, {"tools": [_tool()]}], ["write", "odd"], ""),
        ([{"tools": [TOOL], "nextCursor": 1}, {"tools": [_tool()]}], ["write", "odd"], ""),
        # modelcontextprotocol/java-sdk#628, ChesterRa/cccc#50, langchain-ai/langchain-mcp-adapters#234
        ([{"tools": [TOOL], "nextCursor": ""}], ["write"], ""),
        ([{"tools": [TOOL], "nextCursor": None}], ["write"], ""),
        # DeusData/codebase-memory-mcp#1247
        (
            [{"tools": [TOOL], "nextCursor": "1"}, {"tools": [_tool()], "nextCursor": "1"}],
            ["write", "odd"],
            "page 3 of its list: it leads back to an earlier page",
        ),
        ([{"tools": [TOOL], "nextCursor": "9"}], ["write"], "page 2 of its list: invalid cursor (code -32602)"),
        ([{"tools": [TOOL], "nextCursor": "1"}, {"tools": 7}], ["write"], "page 2 of its list: its list of tools is"),
    ],
)
async def test_a_bad_page_loses_no_other_page(
    open_box: Opener, pages: list[dict[str, Any]], offered: list[str], note: str
) -> None:
    names, notes = await _open(open_box, *pages)
    assert names == offered
    assert note in notes
    assert bool(notes) == bool(note)


@pytest.mark.parametrize(
    "opening",
    [
        {"serverInfo": {"name": "x"}},  # asciimoo/hister#363
        {"serverInfo": None},  # ian-cowley/MCPSqlServer#3
        {"protocolVersion": None},  # automateyournetwork/pyATS_MCP#1
        {"capabilities": {"tools": {}, "completions": False, "logging": None}},  # anthropics/claude-code#79849
        {"capabilities": {"tools": True, "prompts": []}},
        {"capabilities": {"tools": {"listChanged": "no"}}},
        {"capabilities": None},
        {"instructions": ["a", "b"], "_meta": 7},
    ],
)
async def test_a_careless_answer_to_initialize_opens(open_box: Opener, opening: dict[str, Any]) -> None:
    assert (await _open(open_box, {"tools": [TOOL]}, **opening))[0] == ["write"]


DEEP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"name": "deep", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    page = sys.argv[1 if asked["method"] == "tools/list" else -1]
    result = json.dumps(hello) if asked["method"] == "initialize" else open(page).read()
    if "id" in asked:
        print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (asked["id"], result), flush=True)
"""
"""Answers a request for its tools with the text of a file, and a call with that of another."""


@pytest.mark.parametrize("wire", ["stdio", "http", "events"])
@pytest.mark.parametrize("levels", [90, 150, 450, 5_000, 100_000])
async def test_a_schema_of_any_depth_loses_no_other_tool(
    open_box: Opener, tmp_path: Path, wire: str, levels: int
) -> None:
    deep = '{"items":' * levels + '{"title":"[{\\\\"}' + "}" * levels
    odd = json.dumps(_tool({"type": "object", "properties": {"a": "DEEP"}})).replace('"DEEP"', deep)
    page = f'{{"tools": [{json.dumps(TOOL)}, {odd}, {json.dumps({**TOOL, "name": "last"})}]}}'
    (tmp_path / "page").write_text(page)
    async with McpWire(b"", events=wire == "events") as server:
        server.page_text = page
        command = {"command": sys.executable, "args": ("-c", DEEP_SERVER, str(tmp_path / "page"))}
        box = open_box(UpstreamConfig("deep", **(command if wire == "stdio" else {"url": f"{server.url}/mcp"})))
        catalogue = await box.session(1, "alpha", "").catalogue()
        await box.close()
    assert [tool.name for tool in catalogue.tools] == ["write", "odd", "last"]


WIRES, DEPTHS, KEYS = ("stdio", "http", "events"), (150, 250, 5_000, 100_000), ("structuredContent", "_meta", "other")
DEEP_RESULTS = [
    (wire, levels, key)
    for (a, wire), (b, levels), (c, key) in product(enumerate(WIRES), enumerate(DEPTHS), enumerate(KEYS))
    if os.environ.get("ZOEA_SOAK") or (a + b + c) % len(KEYS) == 0
]
"""Each two of the three values are in one of the few: every depth over every wire, and every key with both."""


@pytest.mark.parametrize(("wire", "levels", "key"), DEEP_RESULTS)
async def test_a_result_with_a_part_of_any_depth_loses_no_text(
    open_box: Opener, tmp_path: Path, wire: str, levels: int, key: str
) -> None:
    deep = f'{{"a":{"[" * levels}"end"{"]" * levels}}}'
    result_text = f'{{"content": [{{"type": "text", "text": "beside it"}}], "{key}": {deep}}}'
    (tmp_path / "page").write_text(json.dumps({"tools": [TOOL]}))
    (tmp_path / "result").write_text(result_text)
    answer = f'{{"jsonrpc":"2.0","id":ID,"result":{result_text}}}'
    async with McpWire(
        f"data: {answer}\n\n".encode() if wire == "events" else answer.encode(), events=wire == "events"
    ) as server:
        command = {
            "command": sys.executable,
            "args": ("-c", DEEP_SERVER, str(tmp_path / "page"), str(tmp_path / "result")),
        }
        box = open_box(UpstreamConfig("deep", **(command if wire == "stdio" else {"url": f"{server.url}/mcp"})))
        session = box.session(1, "alpha", "")
        await session.catalogue()
        result = await session.call(asked("write", path="a", text="b"), meta=meta())
        await box.close()
    assert result.content.startswith("beside it"), result.content
    if key == "structuredContent":
        assert ("[nested over 190 levels deep: left out]" if levels > 200 else '"end"') in result.content


def test_a_good_tool_is_as_it_was() -> None:
    schema = {
        "type": "object",
        "description": "d",
        "properties": {"type": {"type": "string", "enum": ["a"]}, "any": True, "of": {"anyOf": [{"type": "null"}, {}]}},
        "required": ["type"],
        "additionalProperties": False,
        "$defs": {"a": {"items": {"type": "integer", "minimum": 0}, "type": "array"}},
    }
    wire: dict[str, Any] = {"tools": [{"name": "good", "inputSchema": schema, "annotations": {"readOnlyHint": True}}]}
    repair_tool_list(wire)
    assert wire["tools"][0]["inputSchema"] == schema
    assert wire["tools"][0]["annotations"] == {"readOnlyHint": True}


def test_tools_above_the_limit_of_a_page_are_counted_in_one_item() -> None:
    wire: dict[str, Any] = {"tools": [{"name": "t"}] * (MAX_LISTED + 2)}
    repair_tool_list(wire)
    assert len(wire["tools"]) == MAX_LISTED + 1
    assert wire["tools"][-1]["name"] == "2 more tools"


def test_an_answer_to_initialize_that_is_good_is_as_it_was() -> None:
    good: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}, "experimental": {"x": {"y": {}}}},
        "serverInfo": {"name": "x", "version": "1"},
    }
    wire = dict(good)
    repair_initialize(wire)
    assert wire == good
