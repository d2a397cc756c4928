"""`ConnectionApi` of a running swarm: its upstreams, providers and MCP server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from zoea.mcp_server.supervisor import McpServerSupervisor
from zoea.model.errors import ProviderError, ToolError, UsageError
from zoea.model.ports import Throttled
from zoea.model.request import ToolSpec
from zoea.model.swarm_api import ReloadReport
from zoea.model.values import McpView, ProviderView, ToolTrial, ToolView, UpstreamFault, UpstreamView
from zoea.process.logs import mask_in_log
from zoea.process.module_imports import import_in_thread
from zoea.runtime.model_lists import LISTING_TYPES, ModelLists
from zoea.runtime.provider_set import ProviderSet
from zoea.runtime.run_options import WORLD
from zoea.runtime.upstream_set import build_policies, build_upstreams
from zoea.settings.config_writer import parse_key
from zoea.settings.credentials import Credentials
from zoea.settings.key_paths import Layer, format_key, iterate_leaves
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.reload_mark import begin_reload, end_reload
from zoea.settings.schema import Settings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import model_facts
from zoea.swarm.swarm import Swarm
from zoea.tools import Toolbox, Upstream
from zoea.tools.call_arguments import parse_arguments
from zoea.tools.results import read_result

CALLER = "commander"
TRIAL_S = 25.0
"""Deadline of a tool tried by hand in seconds; shorter than that of a front's request."""
FAULTY = ("lost", "down")
"""States of an upstream without connection."""
ASKING_S = 5.0
"""Deadline of a provider's list of models in seconds."""


class LiveConnections:
    """`ConnectionApi` of a swarm that runs in this process."""

    def __init__(
        self,
        toolbox: Toolbox,
        providers: ProviderSet,
        mcp_server: McpServerSupervisor,
        adopt: Callable[[Settings], None],
        loaded: LoadedSettings,
        write: Callable[[Callable[[WriterConnection], int]], Awaitable[int]],
    ) -> None:
        self._write = write
        self._loaded = loaded
        self._settings = loaded.settings
        self._toolbox = toolbox
        self._providers = providers
        self._mcp_server = mcp_server
        self._adopt = adopt

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        statuses = ((status, self._toolbox.upstream(status.name)) for status in self._toolbox.status())
        return tuple(
            replace(status, tools=tuple(_tool(spec, upstream) for spec in upstream.tools))
            for status, upstream in statuses
        )

    async def providers(self) -> tuple[ProviderView, ...]:
        # Imported in a thread, because the first import of the HTTP client would block the event loop too long.
        await import_in_thread("zoea.llm.transport.http_client")
        return tuple(await asyncio.gather(*(self._tried(name) for name in self._providers.names())))

    async def forget_facts(self, provider: str, model: str = "") -> int:
        count = await self._write(partial(model_facts.forget, provider=provider, model=model))
        self._providers.forget_traits(provider, model)
        return count

    async def reconnect(self, name: str) -> None:
        await self._toolbox.upstream(name).reopen()

    async def reload(self) -> ReloadReport:
        places = self._loaded.places
        begun = await asyncio.to_thread(begin_reload, places.data)
        fresh = await asyncio.to_thread(load_again, self._loaded)
        configs = await asyncio.to_thread(build_upstreams, fresh.settings, Credentials(places.credentials))
        # The world and the workbench are no settings; they stay as they run.
        own = (config for config in self._toolbox.configs() if config.name == WORLD or config.listed)
        upstreams = (*configs, *(config for config in own if config.name not in fresh.settings.upstream))
        # In a thread, because a keyring may ask the person.
        changes = await asyncio.to_thread(self._providers.prepare, fresh.settings)
        mask_in_log(changes.secrets)
        await self._providers.adopt(changes)
        self._adopt(fresh.settings)
        self._settings = fresh.settings
        changed = await self._toolbox.configure(upstreams, build_policies(upstreams, fresh.settings))
        await asyncio.to_thread(end_reload, begun)
        waiting = find_waiting_keys(self._loaded.settings, fresh.settings)
        return ReloadReport(
            changed,
            (*waiting, *(f"provider.{name} (its model is loaded)" for name in changes.loaded)),
            tuple(changes.changed),
            (
                *(f"provider {name} goes on as it was: {why}" for name, why in changes.problems.items()),
                *(line.removesuffix(".") for line in fresh.trust_notice.splitlines()),
            ),
        )

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        client = self._toolbox.upstream(upstream)
        if all(spec.origin != tool for spec in client.tools):
            raise UsageError(f"upstream {upstream} has no tool {tool}")
        parsed = parse_arguments(arguments)
        began = time.monotonic()
        try:
            wire = await client.call(tool, parsed, mysis=CALLER, deadline_s=TRIAL_S, repeatable=False)
        except ToolError as error:
            return ToolTrial(error.text, True, _since(began))
        finally:
            client.release(CALLER)
        result = await read_result(wire)
        return ToolTrial(result.content, result.is_error, _since(began))

    async def mcp(self) -> McpView:
        return self._mcp_server.view

    async def serve_mcp(self, on: bool) -> McpView:
        return await self._mcp_server.serve(on)

    async def _tried(self, name: str) -> ProviderView:
        """Ask one provider for its models; report a failure in the view."""
        is_default = name == self._providers.default
        try:
            provider = self._providers.get(name)
        except ProviderError as error:
            return ProviderView(name, "", name, problem=error.what, hint=error.hint, is_default=is_default)
        view = ProviderView(
            name,
            provider.kind,
            provider.label,
            metered=provider.metered,
            is_default=is_default,
            throttles=provider.throttles() if isinstance(provider, Throttled) else (),
        )
        began = time.monotonic()
        try:
            async with asyncio.timeout(ASKING_S):
                models = await provider.models()
        except ProviderError as error:
            return replace(view, problem=error.what, hint=error.hint)
        except TimeoutError:
            return replace(view, problem=f"no answer within {ASKING_S:g} s")
        names = tuple(model.name for model in models)
        given = self._settings.provider_named(name)
        if given is not None and given.type in LISTING_TYPES:
            await asyncio.to_thread(ModelLists(self._loaded.places).record, given, names)
        return replace(view, latency_ms=_since(began) / 1_000, models=names)


WAITING_SECTIONS = ("workspace", "world", "memory", "log", "mcp", "metrics")
"""Sections that are read once, when the swarm is opened."""


def load_again(loaded: LoadedSettings) -> LoadedSettings:
    """Load the settings with what the command line gave.

    A server that was found when the swarm opened stays, but is no longer the default one where the files name another.
    """
    values = read_command_line_values(loaded)
    provider = values.get("swarm.default_provider")
    if f"provider.{provider}.type" in values and load(loaded.places).settings.swarm.default_provider:
        del values["swarm.default_provider"]
    return load(loaded.places, overrides=values)


def read_command_line_values(loaded: LoadedSettings) -> dict[str, Any]:
    """Return the values by dotted key that the command line gave; a reload keeps them."""
    values: dict[str, Any] = {}
    for key, origin in loaded.origins.items():
        if origin.layer is Layer.COMMAND_LINE:
            value: Any = loaded.settings
            for part in parse_key(key):
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            values[key] = value
    return values


def find_waiting_keys(before: Settings, after: Settings) -> tuple[str, ...]:
    """Return the dotted keys that differ and apply when the swarm is opened again."""
    old, new = (
        dict(iterate_leaves(settings.model_dump(include=set(WAITING_SECTIONS)))) for settings in (before, after)
    )
    return tuple(format_key(path) for path in new if old.get(path) != new[path])


def find_faults(toolbox: Toolbox, swarm: Swarm) -> tuple[UpstreamFault, ...]:
    """Return the upstreams without connection, with the templates that use them."""
    broken = [status for status in toolbox.status() if status.state in FAULTY]
    if not broken:
        return ()
    in_use = {swarm.bodies[row.mysis.template_hash]: row.mysis.template for row in swarm.live_view.rows()}

    def users(upstream: str) -> tuple[str, ...]:
        policies = ((name, toolbox.policy_of(body)) for body, name in in_use.items())
        return tuple(sorted({name for name, policy in policies if f"{upstream}/*" not in policy.deny}))

    return tuple(UpstreamFault(one.name, one.state, one.last_error, users(one.name)) for one in broken)


def _tool(spec: ToolSpec, upstream: Upstream) -> ToolView:
    schema = upstream.schema_of(spec.origin)
    listed = schema.get("properties")
    own = spec.input_schema.get("properties")
    hidden = set(listed if isinstance(listed, dict) else ()) - set(own if isinstance(own, dict) else ())
    return ToolView(
        name=spec.origin,
        description=spec.description,
        schema=json.dumps(dict(schema), ensure_ascii=False),
        read_only=spec.read_only,
        destructive=spec.destructive,
        idempotent=spec.idempotent,
        injected=tuple(sorted(hidden)),
    )


def _since(began: float) -> int:
    """Return the µs since a reading of the monotonic clock."""
    return round((time.monotonic() - began) * 1_000_000)
