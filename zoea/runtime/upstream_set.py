"""Builds the toolbox's configuration from the settings: upstreams, the world, tool policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache

from pydantic import SecretStr

from zoea.model.enums import ASK_TOOL, DONE_TOOL, WAIT_TOOL, ToolShow
from zoea.runtime.run_options import WORLD
from zoea.settings import Credentials, Settings, Template, parse_template
from zoea.settings.endpoints import UpstreamSettings
from zoea.settings.paths import Places
from zoea.tools import ContextUse, LoginTools, OwnTools, SearchScope, Send, Sharing, ToolPolicy, UpstreamConfig
from zoea.world import DATABASE, INJECT, command

WORLD_PARALLEL = 512


def build_upstreams(settings: Settings, credentials: Credentials) -> tuple[UpstreamConfig, ...]:
    """Build the configuration of every enabled upstream, with its secrets resolved.

    Raises:
        SettingsError: if a reference cannot be resolved, or an upstream is invalid.
    """
    return tuple(
        _upstream(name, given, settings, credentials) for name, given in settings.upstream.items() if given.enabled
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
        login=LoginTools(),
        start_timeout=settings.upstream_defaults.start_timeout,
        max_parallel=WORLD_PARALLEL,
        retries=settings.upstream_defaults.retries,
    )


def build_policies(upstreams: tuple[UpstreamConfig, ...], settings: Settings) -> Callable[[str], ToolPolicy]:
    """Return a function from a template's text to its tool policy."""
    names = tuple(upstream.name for upstream in upstreams)

    @cache
    def policy(body: str) -> ToolPolicy:
        return build_policy(parse_template(body), names, settings)

    return policy


def build_policy(template: Template, upstreams: tuple[str, ...], settings: Settings) -> ToolPolicy:
    """Build the tool policy of a template. Denies all tools of upstreams that it does not use."""
    unused = tuple(f"{name}/*" for name in upstreams if not template.uses_upstream(name))
    tool, context = (template.overrides().get(name, {}) for name in ("tool", "context"))
    return ToolPolicy(
        allow=template.tools.allow,
        deny=(*template.tools.deny, *unused, *_unfit_tools(template, settings)),
        ask=template.tools.ask,
        ask_destructive=template.tools.ask_destructive,
        ask_commands=template.tools.ask_commands,
        ask_unless_read_only=template.tools.ask_unless_read_only,
        send=Send(template.send),
        search=SearchScope(template.search),
        topics=bool(template.subscribes or template.publishes),
        remembers=context.get("strategy", settings.context.strategy) == "window",
        contexts=ContextUse(template.tools.contexts),
        own=OwnTools(tool.get("own", settings.tool.own)),
        show=ToolShow(tool.get("show", settings.tool.show)),
        pin=tuple(tool.get("pin", settings.tool.pin)),
    )


def _unfit_tools(template: Template, settings: Settings) -> tuple[str, ...]:
    """Return the tools that do not fit the strategy `topics`.

    No person answers there, and with an output schema the output ends each turn.
    """
    if (template.chosen_strategy or settings.context.strategy) != "topics":
        return ()
    return (ASK_TOOL,) if template.output_schema is None else (ASK_TOOL, DONE_TOOL, WAIT_TOOL)


def _upstream(name: str, given: UpstreamSettings, settings: Settings, credentials: Credentials) -> UpstreamConfig:
    limits = settings.upstream_limits(given)
    return UpstreamConfig(
        name,
        command=given.command,
        args=tuple(credentials.fill(argument).get_secret_value() for argument in given.args),
        env=_plain(credentials.fill_all(given.env)),
        cwd=given.cwd,
        url=given.url,
        headers=_plain(credentials.fill_all(given.headers)),
        session=Sharing(given.session),
        required=given.required,
        idempotent=given.idempotent,
        inject=dict(given.inject),
        login=_login(given, credentials),
        start_timeout=limits.start_timeout,
        max_parallel=limits.max_parallel,
        max_sessions=limits.max_sessions,
        idle_close=limits.idle_close,
        retries=limits.retries,
        max_tools=limits.max_tools,
        max_description=limits.max_description,
        max_schemas=limits.max_schemas,
        max_messages=limits.max_messages,
    )


def _login(given: UpstreamSettings, credentials: Credentials) -> LoginTools | None:
    if given.login is None:
        return LoginTools() if given.inject else None
    one = given.login
    return LoginTools(
        login=one.login,
        register=one.register_,
        lost=one.lost,
        unknown=one.unknown,
        taken=one.taken,
        name=one.name,
        secret=one.secret,
        fixed={
            key: credentials.fill(value).get_secret_value() if isinstance(value, str) else value
            for key, value in one.fixed.items()
        },
    )


def _plain(values: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in values.items()}
