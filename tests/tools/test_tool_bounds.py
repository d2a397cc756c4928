"""One upstream cannot fill every request: what is over its limits is left out and said."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.toolboxes import Faulty, asked, meta
from tests.tools.conftest import Opener
from zoea.model.request import ToolSpec
from zoea.settings.endpoints import LoginSettings
from zoea.tools.catalogue import RemoteTool, build_catalogue, to_tool_spec
from zoea.tools.policy import ToolPolicy
from zoea.tools.tool_bounds import bound_tools
from zoea.tools.upstream.upstream_config import UpstreamConfig


def _config(name: str = "far", **more: Any) -> UpstreamConfig:
    return UpstreamConfig(name, command="x", **more)


def _tool(name: str, *, description: str = "", padding: int = 0) -> RemoteTool:
    return RemoteTool(name, description, {"type": "object", "description": "x" * padding})


def _offered(config: UpstreamConfig, *names: str) -> list[str]:
    specs: list[ToolSpec] = [to_tool_spec(_tool(name), config) for name in names]
    return [tool.name for tool in build_catalogue((), [specs], ToolPolicy()).tools]


def test_tools_above_the_number_are_left_out() -> None:
    bounded = bound_tools([_tool(f"t{number}") for number in range(400)], _config())
    assert [tool.name for tool in bounded.tools] == [f"t{number}" for number in range(128)]
    assert bounded.notes == (
        "272 tools left out: it offers more than 128 (t128, t129, t130, t131, t132 and 267 more). "
        "Raise upstream.far.max_tools to offer them",
    )


def test_tools_with_schemas_that_do_not_fit_are_left_out_and_smaller_ones_stay() -> None:
    listed = [_tool("a", padding=20_000), _tool("b", padding=20_000), _tool("c")]
    bounded = bound_tools(listed, _config())
    assert [tool.name for tool in bounded.tools] == ["a", "c"]
    assert bounded.notes == (
        "1 tool left out: the schemas together exceed 32,000 bytes (b). Raise upstream.far.max_schemas to offer them",
    )


def test_long_descriptions_are_cut_and_a_change_after_the_cut_still_voids_a_grant() -> None:
    long, other = "x" * 3_000, "x" * 2_999 + "y"
    assert bound_tools([_tool("a", description=long)], _config()).notes == (
        "the description of 1 tool cut at 2,000 characters (a)",
    )
    first, second = (to_tool_spec(_tool("a", description=text), _config()) for text in (long, other))
    assert first.description == second.description == "x" * 1_999 + "…"
    assert first.schema_hash != second.schema_hash


def test_tools_that_only_zoea_calls_are_never_left_out() -> None:
    listed = [_tool("a"), _tool("b"), _tool("login"), _tool("register")]
    bounded = bound_tools(listed, _config(max_tools=1, login=LoginSettings()))
    assert [tool.name for tool in bounded.tools] == ["a", "login", "register"]


def test_tools_within_the_limits_are_said_nothing_of() -> None:
    assert bound_tools([_tool("a"), _tool("b")], _config()).notes == ()


@walk_cases(
    ("upstream", "name", "offered"),
    [
        ("far", "zoea_done", "far__zoea_done"),
        ("far", "ZOEA_done", "far__ZOEA_done"),
        ("far", "zoea.done", "far__zoea_done"),
        ("far", "zoeadone", "zoeadone"),
        ("zoea_x", "zoea_done", "mcp_zoea_x__zoea_done"),
    ],
)
def test_no_upstream_offers_a_name_of_zoea_s_own(upstream: str, name: str, offered: str) -> None:
    assert _offered(_config(upstream), name) == [offered]
    notes = bound_tools([_tool(name)], _config(upstream)).notes
    said = f"names that begin with zoea_ are Zoea's own: it offers {name} as {offered}"
    assert notes == ((said,) if offered != name else ())


def test_a_clash_gives_no_name_of_zoea_s_own() -> None:
    mine, theirs = _config("zoea_x"), _config("far")
    specs = [[to_tool_spec(_tool("search"), config)] for config in (mine, theirs)]
    assert [tool.name for tool in build_catalogue((), specs, ToolPolicy()).tools] == [
        "mcp_zoea_x__search",
        "far__search",
    ]


async def test_a_server_over_its_limits_works_and_says_so(
    open_box: Opener, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        box = open_box(faulty.config(mode="crowd"))
        session = box.session(1, "alpha", "")
        tools = (await session.catalogue()).tools
    assert len(tools) == 128
    assert sum(len(tool.description) for tool in tools) <= 128 * 2_000
    assert sum(len(json.dumps(tool.input_schema)) for tool in tools) < 33_000
    (note,) = box.status()[0].notes
    assert "tools left out: it offers more than 128" in note
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        f"upstream faulty: {note}"
    ]
    assert (await session.call(asked("echo", text="x"), meta=meta())).content == "x"
