"""`zoea agents`: external agents that can play myses, and a trial of one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from zoea.agents.agent_launch import build_launch, known_agents
from zoea.agents.agent_trial import GREETING, AgentTrial, try_agent
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import argument, flag, option
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.settings.template import AgentSettings
from zoea.text.control_characters import one_line

_SHOWN = 10


def list_(where: Places) -> Output:
    """List the external agents that Zoea knows, and which of them are installed.

    A template with `runtime = "acp"` and `agent = "NAME"` below `[acp]` lets one play its myses.
    """
    rows = [
        {
            "name": one.name,
            "title": one.title,
            "help": one.help,
            "install": one.install,
            "command": " ".join((one.command, *one.args)),
            "program": one.program,
            "gateway": None if one.gateway is None else one.gateway.wire,
        }
        for one in known_agents().values()
    ]
    lines = []
    for one in known_agents().values():
        there = (
            f"installed: {one.program}"
            if one.program
            else f"no program {one.command}; it is installed by: {one.install}"
        )
        through = "through Zoea's gateway" if one.gateway is not None else "by its own login alone"
        lines.append(f"{one.name}  {one.title}, {through}\n  {one.help}\n  {there}")
    return Output(rows, lines)


def try_out(
    where: Places,
    name: str = argument("NAME", "An agent that `zoea agents list` shows, or a template with one."),
    prompt: str = option("--prompt TEXT", "What it is asked.", GREETING),
    fence: bool = flag("--fence", "In the fence that `fence = true` of a template makes."),
) -> Output:
    """Start an agent, ask it one prompt, and show what it can do. It is allowed nothing.

    It uses its own login and model, because the gateway needs a running swarm.
    """
    from zoea.runtime.swarm_files import fence_agent

    settings = AgentSettings(agent=name) if name in known_agents() else _find_template(where, name)
    if fence:
        settings = settings.model_copy(update={"fence": True})
    with tempfile.TemporaryDirectory(prefix="zoea-agent-") as folder:
        launch, fenced = fence_agent(build_launch(settings, Path(folder).resolve(), None), where.own_folders)
        trial = asyncio.run(try_agent(launch, prompt))
    return Output({**msgspec.to_builtins(trial), "fence": fenced}, (*_describe_trial(name, trial), f"fence: {fenced}"))


def _find_template(where: Places, name: str) -> AgentSettings:
    templates = load(where).templates
    if name not in templates.names():
        raise UsageError(f"there is no agent and no template {name!r}", hint=f"Agents: {', '.join(known_agents())}.")
    template = templates.get(name)
    if template.runtime != "acp":
        raise UsageError(f"the myses of the template {name} are played by Zoea", hint='Its runtime is not "acp".')
    return template.acp


def _describe_trial(name: str, found: AgentTrial) -> Iterator[str]:
    memory = "" if found.memory is None else f", {found.memory / 1_048_576:.0f} MB"
    yield f"{name}: {one_line(found.agent)}, began in {found.begin_s:.1f} s{memory}"
    yield f"sessions: {', '.join(found.abilities) or 'new ones only'}"
    if found.modes:
        yield f"modes: {_few(found.modes)}; now {one_line(found.mode)}"
    if found.models:
        yield f"models: {_few(found.models)}"
    if found.logins:
        yield f"logins: {_few(found.logins)}"
    for title in found.asked:
        yield f"asked for a permission, which was refused: {one_line(title)}"
    yield f"answered in {found.answer_s:.1f} s ({one_line(found.end)}):"
    yield found.answer.strip() or "(nothing)"


def _few(names: tuple[str, ...]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(one_line, names[:_SHOWN])) + rest
