"""Each shipped template at work: its tools, its approvals, and what it does when its work is done."""

from __future__ import annotations

import json
import re
import tomllib
from functools import partial
from pathlib import Path

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations

from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm, script, swarm
from zoea.files.workbench_tools import WORKBENCH
from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.errors import UsageError
from zoea.model.request import Answer, AnswerCall, ToolSpec
from zoea.runtime.upstream_set import build_policy, world_upstream
from zoea.settings.key_paths import Layer
from zoea.settings.paths import Places
from zoea.settings.schema import NudgeSettings, Settings
from zoea.settings.template import Template, parse_template, work_on
from zoea.settings.template_library import SHIPPED, Level, Templates
from zoea.tools import UpstreamConfig
from zoea.tools.catalogue import RemoteTool, to_tool_spec
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
        await s.ask("ada", "What do my notes say?")
        assert offered(s) >= READS | WRITES
        assert work.calls == ["read_file"]
        assert (await s.commander.mysis("ada")).text == "It says: buy milk."
        s.clock.by(3600)
        await s.settled("ada")
        assert len(s.provider.requests) == 2


async def test_a_coder_reads_by_itself_and_asks_before_all_else(tmp_path: Path) -> None:
    work = Workshop()
    replies = script(use("read_file"), *map(use, sorted({*NAMES} - READS)), Answer(text="Done, 3 tests pass."))
    async with swarm(tmp_path, replies, policies=policies, upstreams=[work.config()]) as s:
        await s.commander.create("cai", template="coder", start=False)
        await s.commander.send("cai", "Split the parser in two files.")
        for name in sorted({*NAMES} - READS):
            await s.until(s.commander.approvals)
            (waiting,) = await s.commander.approvals()
            assert waiting.tool == name
            assert name not in work.calls
            await s.commander.answer(waiting.id, ApprovalAnswer.ONCE)
            await s.until(partial(work.calls.count, name))
        await s.settled("cai")
        assert work.calls == ["read_file", *sorted({*NAMES} - READS)]


ASKS_BEFORE = "Asks before each command line, and before each tool that does more than read."


@walk_cases("name", sorted(Templates().names()))
def test_a_template_that_says_so_asks_before_commands_and_changes(name: str) -> None:
    says_so = ASKS_BEFORE in (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    assert says_so == (name in ("coder", "researcher", "reviewer", "watcher"))
    policy = build_policy(Templates().get(name), ("work", "reef"), Settings())
    other = UpstreamConfig("work", command="x")
    line = {"type": "object", "properties": {"command": {"type": "string"}}}
    tools = [
        RemoteTool("change", "Does it.", {}),
        RemoteTool("look", "Does it.", {}, read_only=True),
        RemoteTool("work", "Does it.", line),
    ]
    asked = [spec.asks for tool in tools if (spec := apply_policy(to_tool_spec(tool, other), policy)) is not None]
    assert asked == [says_so, False, True]


@walk_cases("more", [{}, {"ask_unless_read_only": False}])
@walk_cases("name", sorted(Templates().names()))
def test_a_mysis_that_works_on_a_folder_asks_unless_its_template_says_that_it_does_not(
    name: str, more: dict[str, bool]
) -> None:
    template = Templates().get(name)
    rules = {**template.tools.model_dump(exclude_unset=True), **more}
    given = {name: getattr(template, name) for name in template.model_fields_set - {"tools"}}
    at_work = parse_template(work_on(Template(**given, tools=rules), "/src", worktree=True).text)
    policy = build_policy(at_work, ("work",), Settings())
    change, look = RemoteTool("change", "Does it.", {}), RemoteTool("look", "Does it.", {}, read_only=True)
    upstreams = [UpstreamConfig("work", command="x"), UpstreamConfig(WORKBENCH, command="x")]
    tools = [to_tool_spec(tool, upstream) for upstream in upstreams for tool in (change, look)]
    asked = [spec.asks for tool in tools if (spec := apply_policy(tool, policy))]
    assert asked == [not more, False, template.tools.ask_unless_read_only and not more, False]


@pytest.mark.parametrize("name", sorted(Templates().names()))
def test_no_template_asks_before_a_tool_of_reef(name: str, tmp_path: Path) -> None:
    policy = build_policy(Templates().get(name), ("reef",), Settings())
    reef = world_upstream(Settings(), Places(tmp_path, tmp_path, tmp_path))
    for tool in REEF_TOOLS.values():
        listed = to_tool_spec(RemoteTool(tool.name, tool.what, tool.schema(), read_only=tool.reads), reef)
        assert not listed.takes_command
        spec = apply_policy(listed, policy)
        assert spec is None or not spec.asks


@pytest.mark.parametrize("template", ["coder", "default"])
async def test_a_command_line_asks_and_a_grant_covers_that_command_alone(tmp_path: Path, template: str) -> None:
    ran: list[str] = []

    def shell(command: str, cwd: str = "") -> str:
        ran.append(f"{cwd}{command}")
        return "ok"

    lines = ["pytest -q", "pytest  -q", "pytest -x", "pytest -q; rm -f x", "rm -f test_stats.py && git push"]
    calls = [say("shell", command=line) for line in lines]
    calls.insert(2, say("shell", command="pytest -q", cwd="/"))
    server = MCPServer("work", log_level="ERROR", tools=[Tool.from_function(shell, name="shell", description="Works.")])
    replies = script(*calls, Answer(text="Done."))
    async with swarm(tmp_path, replies, policies=policies, upstreams=[UpstreamConfig("work", server=server)]) as s:
        await s.commander.create("cai", template=template, start=False)
        await s.commander.send("cai", "Mend the tests.")
        scopes: list[str | None] = []
        while len(scopes) < 5:
            await s.until(s.commander.approvals)
            (waiting,) = await s.commander.approvals()
            scopes.append(waiting.grant_scope)
            answer = ApprovalAnswer.SESSION
            if waiting.grant_scope == "":
                for lasting in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE):
                    with pytest.raises(UsageError, match="only once"):
                        await s.commander.answer(waiting.id, lasting)
                answer = ApprovalAnswer.DENIED
            elif waiting.grant_scope == "pytest -q":
                answer = ApprovalAnswer.TEMPLATE
            await s.commander.answer(waiting.id, answer)
            if answer is not ApprovalAnswer.DENIED:
                await s.until(lambda: len(ran) >= len(scopes))
            else:
                await s.until(lambda: len(s.provider.requests) > len(scopes) + 1)
        await s.settled("cai")
        assert scopes == ["pytest -q", 'pytest -q with {"cwd": "/"}', "pytest -x", "", ""]
        assert ran == ["pytest -q", "pytest  -q", "/pytest -q", "pytest -x"]
        assert [grant.tool for grant in await s.commander.grants()] == ["shell: pytest -q"]
        await s.commander.create("dan", template=template, start=False)
    async with swarm(
        tmp_path,
        script(calls[0], calls[3], Answer(text="Done.")),
        policies=policies,
        upstreams=[UpstreamConfig("work", server=server)],
    ) as s:
        await s.commander.send("dan", "And you.")
        await s.until(s.commander.approvals)
        assert [one.grant_scope for one in await s.commander.approvals()] == ["pytest -x"]
        assert ran[4:] == ["pytest -q"]


@pytest.mark.parametrize("template", ["researcher", "reviewer", "watcher"])
async def test_who_only_reads_is_offered_no_tool_that_writes(tmp_path: Path, template: str) -> None:
    work = Workshop()
    replies = script(use("search_code"), use("write_file"), Answer(text="approved"))
    async with swarm(tmp_path, replies, policies=policies, upstreams=[work.config()]) as s:
        await s.commander.create("rae", template=template, start=False)
        await s.ask("rae", "Look at the parser.")
        assert offered(s) >= READS
        assert not offered(s) & WRITES
        assert work.calls == ["search_code"]


async def test_a_reviewer_is_idle_after_its_answer(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="rejected, 2 problems")), policies=policies) as s:
        await s.commander.create("rex", template="reviewer", start=False)
        await s.ask("rex", "Review the change.")
        await s.until(lambda: s.state("rex") is MysisState.IDLE)


async def test_a_watcher_writes_only_to_the_commander_and_looks_again_after_its_wait(tmp_path: Path) -> None:
    replies = script(
        say("zoea_send_message", to="commander", text="the queue is empty"),
        say("zoea_wait", seconds=600, reason="look again"),
        Answer(text="waiting"),
    )
    async with swarm(tmp_path, replies, policies=policies) as s:
        await s.commander.create("wim", template="watcher", start=False)
        await s.ask("wim", "Watch the queue.")
        assert "zoea_broadcast" not in offered(s)
        asked = len(s.provider.requests)
        s.clock.by(601)
        await s.until(lambda: len(s.provider.requests) > asked)


@walk_cases("template", ["reef", "miner", "scout", "trader"])
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
