"""A swarm with one mysis that the fake agent plays."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.fakes import acp_agent
from tests.swarm.harness import Swarm, swarm
from zoea.agents.agent_launch import AgentLaunch
from zoea.model.request import NO_COMMIT, FileCommit
from zoea.runtime.swarm_files import fence_agent
from zoea.runtime.upstream_set import build_policy
from zoea.settings.key_paths import Layer
from zoea.settings.schema import Settings
from zoea.settings.template import Template, parse_template
from zoea.settings.template_library import Level, Templates
from zoea.tools import ToolPolicy
from zoea.web.gateway import GatewayServer

ROOT = Path(acp_agent.__file__).parents[2]
PROGRAM = ("-m", acp_agent.__name__)
"""Arguments of Python for the fake agent. A fork takes two thirds of the time of the leanest interpreter."""


def write_template(folder: Path, behaviour: dict[str, Any], more: str = "", acp: str = "", name: str = "outer") -> None:
    """Write a template whose myses the fake agent plays."""
    folder.mkdir(parents=True, exist_ok=True)
    args = json.dumps([*PROGRAM, json.dumps(behaviour)])
    run = "" if "run = " in more else 'run = "once"\n'
    (folder / f"{name}.toml").write_text(
        f'runtime = "acp"\n{run}{more}\n[acp]\ncommand = "{sys.executable}"\nargs = {args}\n'
        f'env = {{ PYTHONPATH = "{ROOT}" }}\n{acp}\n'  # for a new interpreter, at full strength
    )


class OneFolder:
    """The `FileWork` of a test: every mysis works in one folder, but those with one of `others`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.closed: tuple[Path, ...] = (folder / "of_zoea",)
        self.others: dict[str, Path] = {}

    async def settle(self, template: Template, on: str, worktree: bool, in_use: Iterable[Template]) -> Template:
        return template

    async def begin(self, uid: str, name: str, template: Template) -> None:
        return None

    async def folder(self, uid: str, name: str, template: Template) -> Path:
        return self.others.get(name, self._folder).resolve()

    async def fence(self, name: str, launch: AgentLaunch) -> AgentLaunch:
        return fence_agent(launch, ())[0]

    async def commit(self, uid: str, name: str, template: Template, message: str) -> FileCommit:
        return NO_COMMIT

    async def drop(self, uid: str, name: str, template: Template) -> None:
        return None


@asynccontextmanager
async def agent_swarm(
    folder: Path,
    behaviour: dict[str, Any] | None = None,
    *,
    more: str = "",
    acp: str = "",
    settings: Settings | None = None,
    serves: bool = False,
    **others: Any,
) -> AsyncIterator[Swarm]:
    """A swarm whose default template is played by the fake agent, which works in `folder/work`.

    With `serves` the agent finds Zoea's own tools at a gateway.
    """
    (folder / "work").mkdir(exist_ok=True)
    templates = folder / "templates"
    write_template(templates, {"log": str(folder / "agent.log"), **(behaviour or {})}, more, acp)
    settings = settings or Settings()
    chosen = settings.swarm.model_copy(update={"default_template": "outer"})
    settings = settings.model_copy(update={"swarm": chosen})
    library = Templates([Level(Layer.USER, templates)])
    if serves:
        others["policies"] = partial(_read_policy, settings)
    async with swarm(folder, settings=settings, templates=library, **others) as s:
        services = s.commander.swarm.services
        services.files = OneFolder(folder / "work")
        if not serves:
            yield s
            return
        services.gateway = gateway = GatewayServer(s.commander.swarm)
        try:
            yield s
        finally:
            await gateway.shut_down()


def _read_policy(settings: Settings, body: str) -> ToolPolicy:
    return build_policy(parse_template(body), ("peer",), settings)


async def say(s: Swarm, *steps: list[Any], name: str = "alpha") -> None:
    """Send the steps of a turn to a mysis. It is made if there is none."""
    await s.tell(name, json.dumps(steps))


async def work(s: Swarm, *steps: list[Any], name: str = "alpha") -> None:
    """As `say`, and wait until the mysis has settled."""
    await s.ask(name, json.dumps(steps))


async def conversation(s: Swarm) -> list[tuple[str, str]]:
    """Return role and content of all memories but the prompts, in conversation order."""
    rows = await s.rows(
        "SELECT m.role, m.content FROM memory m JOIN turn t ON t.id = m.turn_id WHERE m.role <> 'user'"
        " ORDER BY t.number, m.seq"
    )
    return [(row["role"], row["content"]) for row in rows]


async def work_anew(s: Swarm, *steps: list[Any]) -> list[tuple[str, str]]:
    """As `work`, and return what is new in the conversation."""
    before = len(await conversation(s))
    await work(s, *steps)
    return (await conversation(s))[before:]


async def last_outcome(s: Swarm) -> str:
    found = await s.value("SELECT outcome FROM turn ORDER BY id DESC LIMIT 1")
    return str(found)


def received(folder: Path) -> list[dict[str, Any]]:
    """Return what the agent received."""
    log = folder / "agent.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
