"""Builds the toolbox's configuration from the settings: upstreams, the world, tool policies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

from zoea.files.workbench_tools import TOOLS, WORKBENCH, is_destructive
from zoea.model.enums import ASK_TOOL, DONE_TOOL, WAIT_TOOL, ToolShow
from zoea.runtime.run_options import WORLD
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import LoginSettings, Sharing
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.template import Template, parse_template
from zoea.tools import ContextUse, OwnTools, SearchScope, Send, ToolPolicy, UpstreamConfig, resolve_upstream
from zoea.tools.catalogue import RemoteTool
from zoea.world import DATABASE, INJECT, command

WORLD_PARALLEL = 512
WORKBENCHES = 256
_PASSED = ("ZOEA_DATA_DIR", "ZOEA_CONFIG_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "PYTHONPATH")


def build_upstreams(settings: Settings, credentials: Credentials) -> tuple[UpstreamConfig, ...]:
    """Build the configuration of every enabled upstream, with its secrets resolved.

    Raises:
        SettingsError: if a reference cannot be resolved, or an upstream is invalid.
    """
    return tuple(
        resolve_upstream(name, upstream, credentials)
        for name, upstream in settings.upstream.items()
        if upstream.enabled
    )


def world_upstream(settings: Settings, places: Places) -> UpstreamConfig:
    """Build the upstream of Reef, a child process over stdio. An existing world keeps its seed and size."""
    is_new = not (places.data / DATABASE).exists()
    program, *arguments = command(
        places.data,
        seed=settings.world.seed if is_new else None,
        systems=settings.world.systems if is_new else None,
        tick=settings.world.tick,
        turbo=settings.world.turbo,
    )
    return UpstreamConfig(
        WORLD,
        command=program,
        args=tuple(arguments),
        is_own=True,
        env={name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        inject=INJECT,
        login=LoginSettings(),
        max_parallel=WORLD_PARALLEL,
    )


def workbench_upstream(places: Places) -> UpstreamConfig:
    """Build the upstream of files: a process per mysis, over its folder or worktree."""
    environment = {
        name: value for name, value in os.environ.items() if name in _PASSED or name.startswith("ZOEA_FILES__")
    }
    return UpstreamConfig(
        WORKBENCH,
        command=sys.executable,
        # -P, because the folder that Zoea was started in may be a foreign one with modules of any names.
        args=("-P", "-m", "zoea", *(("-w", places.workspace) if places.workspace else ()), "workbench"),
        env=environment,
        session=Sharing.PER_MYSIS,
        max_sessions=WORKBENCHES,
        listed=tuple(
            RemoteTool(name, description, schema, reads, is_destructive(name), reads)
            for name, (description, reads, schema) in TOOLS.items()
        ),
    )


def build_policies(upstreams: tuple[UpstreamConfig, ...], settings: Settings) -> Callable[[str], ToolPolicy]:
    """Return a function from a template's text to its tool policy."""
    names = tuple(upstream.name for upstream in upstreams)
    in_worktree = tuple(upstream.name for upstream in upstreams if upstream.in_worktree)

    @cache
    def policy(body: str) -> ToolPolicy:
        return build_policy(parse_template(body), names, settings, in_worktree)

    return policy


def build_policy(
    template: Template, upstreams: tuple[str, ...], settings: Settings, in_worktree: tuple[str, ...] = ()
) -> ToolPolicy:
    """Build the tool policy of a template. Denies all tools of upstreams that it does not use.

    Args:
        in_worktree: Those whose commands name the folder of a mysis; one without a folder does not use them.
    """
    unused = tuple(
        f"{name}/*"
        for name in upstreams
        if not (template.workbench if name == WORKBENCH else template.uses_upstream(name))
        or (name in in_worktree and not template.workbench)
    )
    tool, context = (template.overrides().get(name, {}) for name in ("tool", "context"))
    return ToolPolicy(
        allow=template.tools.allow,
        deny=(*template.tools.deny, *unused, *_unfit_tools(template, settings)),
        ask=template.tools.ask,
        ask_destructive=template.tools.ask_destructive,
        ask_commands=template.tools.ask_commands,
        ask_unless_read_only=template.tools.ask_unless_read_only,
        trusts=(WORKBENCH,) if template.asks_unmarked else None,
        send=Send(template.send),
        search=SearchScope(template.search),
        topics=bool(template.subscribes or template.publishes),
        remembers=context.get("strategy", settings.context.strategy) == "window",
        contexts=ContextUse(template.tools.contexts),
        own=OwnTools(tool.get("own", settings.tool.own)),
        show=ToolShow(tool.get("show", settings.tool.show)),
        pin=tuple(tool.get("pin", settings.tool.pin)),
        works_on=template.workbench,
        worktree=template.worktree,
    )


def _unfit_tools(template: Template, settings: Settings) -> tuple[str, ...]:
    """Return the tools that do not fit the strategy `topics`.

    No person answers there, and with an output schema the output ends each turn.
    """
    if (template.chosen_strategy or settings.context.strategy) != "topics":
        return ()
    return (ASK_TOOL,) if template.output_schema is None else (ASK_TOOL, DONE_TOOL, WAIT_TOOL)
