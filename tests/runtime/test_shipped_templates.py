"""Each shipped template at work: its tools, its approvals, and what it does when its work is done."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations

from tests.swarm.harness import Swarm, script, swarm
from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.request import Answer, AnswerCall, ToolSpec
from zoea.runtime.upstream_set import build_policy
from zoea.settings.key_paths import Layer
from zoea.settings.schema import NudgeSettings, Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Level, Templates
from zoea.tools import UpstreamConfig
from zoea.tools.policy import ToolPolicy, apply_policy
from zoea.world.catalog import REEF_TOOLS

GUIDE = Path(__file__).parents[2] / "documentation" / "guide" / "templates.md"
READS = {"read_file", "list_files", "search_code"}
WRITES = {"write_file", "delete_file", "git_push", "git_commit"}
NAMES = sorted(READS | WRITES | {"run_command"})


def policies(body: str) -> ToolPolicy:
    return build_policy(parse_template(body), ("peer", "work"), Settings())


class Workshop:
    """An MCP server with the tools of a code base, and the calls it saw."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def config(self) -> UpstreamConfig:
        return UpstreamConfig("work", server=MCPServer("work", log_level="ERROR", tools=[*map(self._tool, NAMES)]))

    def _tool(self, name: str) -> Tool:
        def run(path: str) -> str:
            self.calls.append(name)
            return f"{name}: {path}"

        marks = ToolAnnotations(read_only_hint=name in READS, destructive_hint=False)
        return Tool.from_function(run, name=name, description=f"{name} of the project.", annotations=marks)


def use(tool: str, path: str = "notes.md") -> Answer:
    return Answer(calls=(AnswerCall(tool, json.dumps({"path": path})),))


def say(tool: str, **arguments: object) -> Answer:
    return Answer(calls=(AnswerCall(tool, json.dumps(arguments)),))


def offered(s: Swarm) -> set[str]:
    return {tool.name for tool in s.provider.requests[0].tools}


async def test_an_assistant_does_what_was_asked_and_rests(tmp_path: Path) -> None:
    work = Workshop()
    replies = script(use("read_file"), Answer(text="It says: buy milk."))
    settings = Settings(nudge=NudgeSettings(without_goal=False))
    async with swarm(tmp_path, replies, settings=settings, policies=policies, upstreams=[work.config()]) as s:
        await s.commander.create("ada", template="assistant", start=False)
        await s.commander.send("ada", "What do my notes say?")
        await s.settled("ada")
        assert offered(s) >= READS | WRITES
        assert work.calls == ["read_file"]
        assert (await s.commander.mysis("ada")).text == "It says: buy milk."
        s.clock.by(3600)
        await s.settled("ada")
        assert len(s.provider.requests) == 2


async def test_a_coder_writes_by_itself_and_asks_before_it_deletes(tmp_path: Path) -> None:
    work = Workshop()
    replies = script(use("write_file"), use("run_command"), use("delete_file"), Answer(text="Done, 3 tests pass."))
    async with swarm(tmp_path, replies, policies=policies, upstreams=[work.config()]) as s:
        await s.commander.create("cai", template="coder", start=False)
        await s.commander.send("cai", "Split the parser in two files.")
        await s.until(s.commander.approvals)
        (waiting,) = await s.commander.approvals()
        assert waiting.tool == "delete_file"
        assert work.calls == ["write_file", "run_command"]
        await s.commander.answer(waiting.id, ApprovalAnswer.ONCE)
        await s.settled("cai")
        assert work.calls == ["write_file", "run_command", "delete_file"]


@pytest.mark.parametrize("template", ["researcher", "reviewer", "watcher"])
async def test_who_only_reads_is_offered_no_tool_that_writes(tmp_path: Path, template: str) -> None:
    work = Workshop()
    replies = script(use("search_code"), use("write_file"), Answer(text="approved"))
    async with swarm(tmp_path, replies, policies=policies, upstreams=[work.config()]) as s:
        await s.commander.create("rae", template=template, start=False)
        await s.commander.send("rae", "Look at the parser.")
        await s.settled("rae")
        assert offered(s) >= READS
        assert not offered(s) & WRITES
        assert work.calls == ["search_code"]


async def test_a_reviewer_is_idle_after_its_answer(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="rejected, 2 problems")), policies=policies) as s:
        await s.commander.create("rex", template="reviewer", start=False)
        await s.commander.send("rex", "Review the change.")
        await s.settled("rex")
        await s.until(lambda: s.state("rex") is MysisState.IDLE)


async def test_a_watcher_writes_only_to_the_commander_and_looks_again_after_its_wait(tmp_path: Path) -> None:
    replies = script(
        say("zoea_send_message", to="commander", text="the queue is empty"),
        say("zoea_wait", seconds=600, reason="look again"),
        Answer(text="waiting"),
    )
    async with swarm(tmp_path, replies, policies=policies) as s:
        await s.commander.create("wim", template="watcher", start=False)
        await s.commander.send("wim", "Watch the queue.")
        await s.settled("wim")
        assert "zoea_broadcast" not in offered(s)
        asked = len(s.provider.requests)
        s.clock.by(601)
        await s.until(lambda: len(s.provider.requests) > asked)


@pytest.mark.parametrize("template", ["reef", "miner", "scout", "trader"])
def test_a_captain_is_offered_all_of_reef_but_logout_and_help(template: str) -> None:
    policy = build_policy(Templates().get(template), ("reef",), Settings())
    tools = [ToolSpec(name, "", {}, upstream="reef", origin=name) for name in REEF_TOOLS]
    left_out = {tool.name for tool in tools if apply_policy(tool, policy) is None}
    assert left_out == {"logout", "help"}


# The guide.

BLOCKS = re.findall(
    r"^```toml\n# (\S+)/(\w+)\.toml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def test_every_template_of_the_guide_loads(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 4
    for _, name, text in BLOCKS:
        tmp_path.joinpath(f"{name}.toml").write_text(text, encoding="utf-8")
    templates = Templates((Level(Layer.USER, tmp_path),))
    for _, name, text in BLOCKS:
        template = templates.get(name)
        assert template.title == tomllib.loads(text)["title"]
        assert "{{" not in template.prompt
    assert not templates.problems()


def test_the_guide_lists_every_shipped_template() -> None:
    named = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)))
    )
    assert named >= set(Templates().names())
