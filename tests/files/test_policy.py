"""The workbench under a template's policy: what reads is free, the rest asks unless a pattern covers it."""

from __future__ import annotations

import json
from typing import Any

from tests.case_tables import walk_cases
from zoea.files.workbench_server import list_tools
from zoea.model.request import AnswerCall, ToolSpec
from zoea.settings.template import ToolPolicySettings
from zoea.swarm.turn.call_bounds import is_covered, prepare_call
from zoea.tools.policy import ToolPolicy, apply_policy

TOOLS = ToolPolicySettings(commands=("pytest *", "make test"), paths=("src/*",))


def spec_of(name: str) -> ToolSpec:
    (tool,) = [tool for tool in list_tools() if tool.name == name]
    assert tool.annotations is not None
    spec = apply_policy(
        ToolSpec(
            name=name,
            description=tool.description or "",
            input_schema=tool.input_schema,
            origin=name,
            upstream="workbench",
            read_only=bool(tool.annotations.read_only_hint),
            destructive=bool(tool.annotations.destructive_hint),
            takes_command=name == "run",
        ),
        ToolPolicy(),
    )
    assert spec is not None
    return spec


@walk_cases(
    ("name", "arguments", "asks"),
    [
        ("read_file", {"path": "a"}, False),
        ("list_files", {}, False),
        ("search_files", {"expression": "a"}, False),
        ("diff", {}, False),
        ("run_output", {"number": 1}, False),
        ("run_stop", {"number": 1}, False),
        ("write_file", {"path": "a", "content": ""}, True),
        ("write_file", {"path": "src/a", "content": ""}, False),
        ("edit_file", {"path": "src/a", "edits": []}, False),
        ("edit_file", {"path": "../src/a", "edits": []}, True),
        ("run", {"command": "pytest -q"}, False),
        ("run", {"command": "make test", "timeout": 9}, False),
        ("run", {"command": "make install"}, True),
        ("run", {"command": "pytest && rm -f x"}, True),
        ("run", {"command": "sh -c pytest"}, True),
    ],
)
def test_a_call_asks_or_does_not(name: str, arguments: dict[str, Any], asks: bool) -> None:
    spec, text = spec_of(name), json.dumps(arguments)
    is_granted = is_covered(spec, text, TOOLS)
    prepared = prepare_call(AnswerCall(name, text, "c1"), spec, arguments=text, granted=is_granted, skipped="")
    assert prepared.asks is asks


def test_a_tool_that_deletes_is_not_covered_by_the_files_that_may_be_written() -> None:
    other = ToolSpec(name="delete_file", description="", input_schema={}, origin="delete_file", upstream="other")
    assert not is_covered(other, '{"path": "src/a"}', TOOLS)
