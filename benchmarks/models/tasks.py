"""The tasks that a model is given: prompts, tools, and what counts as done."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations

from benchmarks.models.facts import FACTS, FILLER
from benchmarks.rig import Rig, rig
from benchmarks.world_play import toolbox as reef_toolbox
from zoea.model.ports import Provider
from zoea.model.request import Answer, ModelInfo, ModelRequest, StreamItem
from zoea.runtime.upstream_set import build_policy
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Templates
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig

TIMES = {"berlin": "12:04", "tokyo": "19:04", "paris": "12:04", "london": "11:04"}
COMMITS = ("parser: read dates", "tests: add a fake server", "docs: name the port", "build: pin the linter")
SECRET = "4711"
REEF_S = 300.0
SETTINGS: Mapping[str, Any] = {
    "swarm": {"max_myses": 2000},
    "budget": {"swarm_per_day": "none"},
    "nudge": {"max_per_hour": 0},
    "llm": {"timeout": 1800.0, "between_tokens": 600.0},
    "turn": {"timeout": 3600.0},
}


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came of one task. `tokens` are those of prompts, `cached` those of them that were not read anew."""

    task: str
    done: int
    of: int
    calls: int
    malformed: int
    tokens: int
    cached: int
    seconds: float


class PlayedPast:
    """The model under test. Until `begin` each prompt has an answer ready, so that a long past costs nothing."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._is_past = True
        self.name, self.kind, self.label, self.metered = inner.name, inner.kind, inner.label, inner.metered

    def begin(self) -> None:
        self._is_past = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        if self._is_past:
            yield Answer(FILLER.get(request.messages[-1].content.rpartition("\n")[2], "Noted."))
            return
        async for item in self._inner.stream(request):
            yield item

    async def models(self) -> tuple[ModelInfo, ...]:
        return await self._inner.models()

    async def info(self, model: str) -> ModelInfo:
        return await self._inner.info(model)

    async def close(self) -> None:
        await self._inner.close()


def desk(folder: Path) -> Toolbox:
    """Return a toolbox with the time in cities and commits of a small repository. It makes the repository."""
    repository = _repository(folder)

    async def get_time(city: str) -> str:
        found = TIMES.get(city.lower().strip())
        return f"In {city} it is {found}." if found else f"There is no clock in {city}."

    async def list_commits(count: int = 3) -> str:
        return _git(repository, "log", f"-{max(1, count)}", "--format=%h %s")

    read_only = ToolAnnotations(read_only_hint=True)
    tools = [
        Tool.from_function(get_time, description="Returns the time in one city.", annotations=read_only),
        Tool.from_function(
            list_commits, description="Returns the newest commits of the repository.", annotations=read_only
        ),
    ]
    server: MCPServer[Any] = MCPServer("desk", log_level="ERROR", tools=tools)
    return Toolbox([UpstreamConfig("desk", server=server)], policies=_as_configured, logs=folder)


def _as_configured(body: str) -> ToolPolicy:
    """Return the policy of a template as a swarm makes it. It allows the few own tools that a mysis gets."""
    return build_policy(parse_template(body), ("desk",), Settings())


def _repository(folder: Path) -> Path:
    repository = folder / "repository"
    repository.mkdir()
    _git(repository, "init", "-q")
    for subject in reversed(COMMITS):
        _git(repository, "commit", "-q", "--allow-empty", "-m", subject)
    return repository


def _git(repository: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    done = subprocess.run(("git", *who, *arguments), cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout


async def time_in_two_cities(provider: Provider, folder: Path) -> TaskResult:
    """Ask for two times, which only the tool knows."""

    async def play(one: Rig) -> tuple[int, int]:
        answer = await _ask(
            one, "What time is it in Berlin and in Tokyo? Use get_time for each city, then tell me both times."
        )
        return int(TIMES["berlin"] in answer and TIMES["tokyo"] in answer), 1

    return await _measure("time in two cities", provider, folder, play)


async def last_commits(provider: Provider, folder: Path) -> TaskResult:
    """Ask for the three newest commits."""

    async def play(one: Rig) -> tuple[int, int]:
        answer = await _ask(
            one, "List the last 3 commits of the repository. Use list_commits, then tell me their subjects."
        )
        return int(all(subject in answer for subject in COMMITS[:3])), 1

    return await _measure("last three commits", provider, folder, play)


async def message_handed_on(provider: Provider, folder: Path) -> TaskResult:
    """Ask one mysis to tell another something."""

    async def play(one: Rig) -> tuple[int, int]:
        await one.commander.create("bob", template="assistant", start=False)
        await _ask(one, f"Tell bob that the code is {SECRET}.")
        sent = await one.store.read("SELECT content FROM message WHERE sender_id IS NOT NULL")
        return int(any(SECRET in row["content"] for row in sent)), 1

    return await _measure("message handed on", provider, folder, play)


async def fact_of_turn_2(provider: Provider, folder: Path) -> TaskResult:
    """Ask in turn 25 for a fact of turn 2, in other words. Each fact has its own mysis."""

    async def play(one: Rig) -> tuple[int, int]:
        names = [f"m{number}" for number in range(len(FACTS))]
        first, *others = FILLER
        for name, fact in zip(names, FACTS, strict=True):
            mysis = await one.commander.create(name, template="assistant", start=False)
            for text in (first, fact.said, *others):
                await one.turn(mysis.id, text)
        past.begin()
        answers = [await _ask(one, fact.asked, name) for name, fact in zip(names, FACTS, strict=True)]
        return sum(fact.value in answer for fact, answer in zip(FACTS, answers, strict=True)), len(FACTS)

    past = PlayedPast(provider)
    return await _measure("fact of turn 2 in turn 25", past, folder, play, with_desk=False)


async def five_minutes_of_reef(provider: Provider, folder: Path, seconds: float = REEF_S) -> TaskResult:
    """Let a captain play. Done means that a call of the world succeeded after the first look."""

    async def play(one: Rig) -> tuple[int, int]:
        await one.commander.create("ann", template="reef")
        await one.run_for(seconds)
        acted = await one.store.read(
            "SELECT 1 FROM tool_call WHERE state = 'done' AND name NOT LIKE 'zoea_%' AND name NOT LIKE 'get_%'"
        )
        return int(bool(acted)), 1

    return await _measure("five minutes of Reef", provider, folder, play, tools=reef_toolbox(folder))


Play = Callable[[Rig], Awaitable[tuple[int, int]]]
Task = Callable[[Provider, Path], Awaitable[TaskResult]]
TASKS: dict[str, Task] = {
    "time": time_in_two_cities,
    "commits": last_commits,
    "message": message_handed_on,
    "recall": fact_of_turn_2,
    "reef": five_minutes_of_reef,
}

_MEASURED = """
SELECT (SELECT count(*) FROM tool_call) AS calls,
  (SELECT count(*) FROM tool_call k JOIN memory m ON m.id = k.result_memory_id WHERE k.state = 'error'
    AND (m.content LIKE 'the arguments are not a JSON object%' OR m.content LIKE 'there is no tool %'))
  + (SELECT count(*) FROM memory WHERE role = 'assistant' AND ltrim(content) LIKE '{"name"%') AS malformed,
  (SELECT coalesce(sum(input_tokens), 0) FROM request) AS tokens,
  (SELECT coalesce(sum(cached_tokens), 0) FROM request) AS cached
"""


async def _measure(
    name: str, provider: Provider, folder: Path, play: Play, *, tools: Toolbox | None = None, with_desk: bool = True
) -> TaskResult:
    """Play a task in a swarm of its own, and count what its database holds."""
    tools = tools or (desk(folder) if with_desk else Toolbox([], policies=_as_configured, logs=folder))
    shipped = Templates()
    templates = [shipped.get(one) for one in ("assistant", "reef")]
    began = time.monotonic()
    async with rig(provider, tools, settings=SETTINGS, templates=templates, folder=folder) as one:
        done, of = await play(one)
        row = (await one.store.read(_MEASURED))[0]
    spent = time.monotonic() - began
    return TaskResult(name, done, of, row["calls"], row["malformed"], row["tokens"], row["cached"], spent)


async def _ask(one: Rig, text: str, name: str = "ann") -> str:
    """Send a prompt to a mysis, and return its final answer. A new name makes the mysis."""
    if not any(view.name == name for view in (await one.commander.view()).myses):
        await one.commander.create(name, template="assistant", start=False)
    mysis = await one.commander.mysis(name)
    await one.turn(mysis.id, text)
    rows = await one.store.read(
        "SELECT content FROM memory WHERE mysis_id = ? AND role = 'assistant' ORDER BY id DESC LIMIT 1", (mysis.id,)
    )
    answer = str(rows[0]["content"]) if rows else ""
    sys.stderr.write(f"  {text} -> {answer[:300]!r}\n")
    return answer
