"""The composition root: makes a running swarm from the settings.

Joins the parts. They are closed in the reverse order, each within its share of the ten seconds that a shutdown may
take (decision 3).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.files.workbench_tools import WORKBENCH
from zoea.ipc.swarm_proxy import SwarmProxy, api_functions
from zoea.llm.prices import PriceList
from zoea.mcp_server.address import Address
from zoea.mcp_server.supervisor import McpServerSupervisor
from zoea.model.errors import SettingsError
from zoea.model.ports import AgentTools, GatewayAccess, Provider, ToolsAccess
from zoea.model.swarm_api import CommitApi, ConnectionApi, CoreSwarmApi
from zoea.model.values import SwarmView, UpstreamFault
from zoea.process.clock import SystemClock, SystemIds
from zoea.process.gc_tuning import tuned_gc
from zoea.process.logs import logging_to
from zoea.process.loop_lag import LoopLag, measured_lag
from zoea.process.module_imports import import_in_thread
from zoea.queries.stored_swarm import read_mysis_records
from zoea.runtime.accounts import CredentialAccounts, CredentialSecrets, settle_accounts
from zoea.runtime.connections import LiveConnections, find_faults
from zoea.runtime.context_reports import build_context_report
from zoea.runtime.idle_summaries import run_idle_summaries
from zoea.runtime.maintenance import run_maintenance, running_task
from zoea.runtime.owner import close_within
from zoea.runtime.periodic_tasks import mirror_folder, record_minutes, run_mirror, run_releases
from zoea.runtime.provider_set import ProviderSet
from zoea.runtime.swarm_files import SwarmFiles
from zoea.runtime.upstream_set import build_policies, build_upstreams, workbench_upstream, world_upstream
from zoea.settings.credentials import Credentials
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places
from zoea.store.retention import RetentionRule
from zoea.store.store import Store
from zoea.swarm.command_tasks import CommandTasks
from zoea.swarm.commander import Commander
from zoea.swarm.commit_commands import CommitCommands
from zoea.swarm.mysis_commits import MysisCommits
from zoea.swarm.swarm import Swarm
from zoea.tools import Toolbox
from zoea.tools.builtin.mysis_tools import MysisTools

if TYPE_CHECKING:
    from zoea.web.gateway import GatewayServer

log = logging.getLogger(__name__)

GATEWAY_CLOSE_S = 0.5
MCP_CLOSE_S = 0.5
SWARM_CLOSE_S = 3.0
TOOLS_CLOSE_S = 3.0
PROVIDERS_CLOSE_S = 0.5
STORE_CLOSE_S = 1.5
METRICS_CLOSE_S = 0.5
_CANCELLABLE = frozenset({"view", "mysis", "wait", "receipt", "approvals", "grants"})
"""Methods of the commander that change nothing."""


class SwarmOptions(Struct, frozen=True):
    """Options of a run besides the settings.

    Args:
        world: `reef` runs the sandbox world beside the swarm; an existing world always runs.
        providers: Existing providers by name, for tests and embedding.
        overrides: Settings by dotted key, above all other layers.
        write_line: Writes a line for the person; None where a screen is shown.
        metrics: HOST:PORT to serve metrics at; empty leaves it to the settings.
        loaded: The settings, if the caller has loaded them; `overrides` is not used then.
    """

    world: str = ""
    metrics: str = ""
    write_line: Callable[[str], None] | None = None
    providers: Mapping[str, Provider] = field(default_factory=dict)
    overrides: Mapping[str, object] = field(default_factory=dict)
    loaded: LoadedSettings | None = None


class RunningSwarm(SwarmProxy):
    """`SwarmApi` in this process: passes each method to the commander or to the connections. Made by `of`."""

    def __init__(
        self,
        commander: Commander,
        connections: ConnectionApi,
        lag: LoopLag | None = None,
        faults: Callable[[], tuple[UpstreamFault, ...]] = tuple,
    ) -> None:
        self.commander = commander
        self._lag, self._faults = lag, faults
        self._commands = CommandTasks()
        self._bodies: dict[str, CoreSwarmApi | CommitApi | ConnectionApi]
        self._bodies = dict.fromkeys(api_functions(CoreSwarmApi), commander)
        self._bodies |= dict.fromkeys(api_functions(CommitApi), CommitCommands(commander))
        self._bodies |= dict.fromkeys(api_functions(ConnectionApi), connections)

    @classmethod
    def of(
        cls,
        commander: Commander,
        connections: ConnectionApi,
        lag: LoopLag | None = None,
        faults: Callable[[], tuple[UpstreamFault, ...]] = tuple,
    ) -> Self:
        """Join the parts. A class method, because type checkers take the forwarded methods for abstract ones."""
        return cls(commander, connections, lag, faults)

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call the body that has the method. A command runs to its end, also where the caller leaves."""
        work = getattr(self._bodies[method], method)(**arguments)
        if method in _CANCELLABLE or method in api_functions(ConnectionApi):
            return self._complete(await work)
        return await self._commands.run(work)

    def open_stream(self, method: str, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Open the stream of the body that has the method."""
        stream: AsyncGenerator[Any, None] = getattr(self._bodies[method], method)(**arguments)
        return self._complete_views(stream) if method == "changes" else stream

    async def _complete_views(self, stream: AsyncGenerator[SwarmView, None]) -> AsyncGenerator[SwarmView, None]:
        async with aclosing(stream):
            async for view in stream:
                yield self._complete(view)

    def _complete(self, answer: Any) -> Any:
        """Add the event loop's last hold-up and upstreams without connection to a swarm's view."""
        if not isinstance(answer, SwarmView):
            return answer
        if self._lag is not None and self._lag.last.at:
            answer = replace(answer, lag_ms=self._lag.last.lag_ms, lagged_at=self._lag.last.at)
        faults = self._faults()
        return replace(answer, faults=faults) if faults else answer


@asynccontextmanager
async def running_swarm(
    places: Places, on_shutdown: Callable[[], None], *, options: SwarmOptions = SwarmOptions()
) -> AsyncIterator[RunningSwarm]:
    """Open a swarm over the workspace's database; close it when the block is left.

    The caller holds the workspace's lock. `on_shutdown` is called when a front requests
    the shutdown.

    Raises:
        SettingsError: with every problem of every layer.
        StoreError: if the database cannot be opened.
    """
    loaded = options.loaded
    if loaded is None:
        loaded = await asyncio.to_thread(load, places, overrides=options.overrides)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        providers = ProviderSet(loaded.settings, places, clock, options.providers)
        secrets = await asyncio.to_thread(providers.secrets)
        stack.enter_context(logging_to(places.log, loaded.settings.log.level, secrets=secrets))
        for note in (*loaded.notes, *loaded.ignored):
            log.warning("%s", note)
        for waiting in loaded.untrusted:
            log.warning("not in effect until trusted: %s", waiting)
        store = await Store.open(places.database, clock_now=clock.now)
        stack.push_async_callback(close_within, STORE_CLOSE_S, store.close, "the database")
        stack.push_async_callback(close_within, PROVIDERS_CLOSE_S, providers.close, "the providers")
        await _assign_accounts(places)
        toolbox = _toolbox(loaded, places, options)
        stack.push_async_callback(close_within, TOOLS_CLOSE_S, toolbox.close, "the upstreams")
        toolbox.open()
        mcp_server = McpServerSupervisor(places, Address.of(loaded.settings.mcp), level=loaded.settings.log.level)
        swarm = Swarm(
            store=store,
            clock=clock,
            ids=SystemIds(),
            settings=loaded.settings,
            templates=loaded.templates,
            providers=providers,
            tools=toolbox,
            on_shutdown=on_shutdown,
            prices=PriceList(places.prices, providers.is_free),
        )
        swarm.services.files = toolbox.folders = SwarmFiles(places, toolbox, loaded.settings.files)
        swarm.services.gateway = gateway = _LazyGateway(swarm)
        commander = await Commander.open(
            swarm,
            serve_tools=lambda commander: toolbox.serve(MysisTools(commander.builtin_backend, MysisCommits(commander))),
        )
        stack.push_async_callback(close_within, GATEWAY_CLOSE_S, gateway.shut_down, "the model gateway")
        stack.push_async_callback(close_within, SWARM_CLOSE_S, commander.close, "the swarm")
        swarm.services.report_context = build_context_report(commander, os.environ, options.write_line)
        stack.push_async_callback(close_within, MCP_CLOSE_S, mcp_server.close, "the MCP server")
        if loaded.settings.mcp.http:
            mcp_server.start()
        keep = RetentionRule(loaded.settings.memory.keep_days, loaded.settings.memory.keep_memories)
        await stack.enter_async_context(run_maintenance(store, clock, keep))
        await stack.enter_async_context(run_releases(store, clock))
        await stack.enter_async_context(run_mirror(store, clock, mirror_folder(loaded.settings)))
        await stack.enter_async_context(run_idle_summaries(commander, clock))
        await stack.enter_async_context(running_task(providers.load(), "imports of the providers"))
        await stack.enter_async_context(record_minutes(store, clock, swarm.live_view.count_statuses))
        await _serve_metrics(stack, store, places, commander, clock, options.metrics)
        stack.enter_context(tuned_gc())
        lag = stack.enter_context(measured_lag(clock.now))
        toolbox.watch(swarm.live_view.touch)
        yield RunningSwarm.of(
            commander,
            LiveConnections(toolbox, providers, mcp_server, swarm.adopt, loaded, store.write),
            lag,
            partial(find_faults, toolbox, swarm),
        )


class _LazyGateway:
    """The `ModelGateway` of a swarm. Its server is loaded with the first external agent."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self._server: GatewayServer | None = None

    async def open(self, mysis_id: int) -> GatewayAccess:
        return await (await self._load()).open(mysis_id)

    async def _load(self) -> GatewayServer:
        module = await import_in_thread("zoea.web.gateway")  # late, because most swarms have no external agents
        if self._server is None:
            self._server = module.GatewayServer(self._swarm)
        return self._server

    async def close(self, mysis_id: int) -> None:
        if self._server is not None:
            await self._server.close(mysis_id)

    async def serve_tools(self, tools: AgentTools) -> ToolsAccess:
        return await (await self._load()).serve_tools(tools)

    async def end_tools(self, access: ToolsAccess) -> None:
        await (await self._load()).end_tools(access)

    async def shut_down(self) -> None:
        if self._server is not None:
            await self._server.shut_down()


async def _serve_metrics(
    stack: AsyncExitStack, store: Store, places: Places, commander: Commander, clock: SystemClock, address: str
) -> None:
    """Serve metrics until the stack is left, where settings or command line ask for it. Raises OwnerError."""
    settings = commander.swarm.settings
    if not address and not settings.metrics.serve:
        return
    # Late, because most runs serve none.
    from zoea.runtime.swarm_metrics import CONTENT_TYPE, SwarmMetrics
    from zoea.web.metrics_server import MetricsServer

    host, _, port = (address or f"{settings.metrics.host}:{settings.metrics.port}").rpartition(":")
    metrics = await asyncio.to_thread(
        lambda: SwarmMetrics(
            places.database, lambda: commander.swarm.settings, clock.now, stats=store.stats, is_from_now=True
        )
    )
    server = MetricsServer(metrics.render, CONTENT_TYPE, host=host, port=int(port))
    await server.open()
    stack.push_async_callback(close_within, METRICS_CLOSE_S, server.close, "the metrics server")
    log.info("metrics are served at %s", server.address)


async def _assign_accounts(places: Places) -> None:
    """Give accounts stored by name to their myses, before a name can be used again."""

    def assign() -> None:
        records = sorted(read_mysis_records(places.database), key=lambda record: record.is_living)
        settle_accounts(Credentials(places.credentials), [(record.name, record.uid) for record in records])

    try:
        await asyncio.to_thread(assign)
    except SettingsError as problem:
        # An upstream that needs an account reports it then; a swarm that needs none goes on.
        log.warning("the myses' accounts cannot be read: %s", problem)


def _toolbox(loaded: LoadedSettings, places: Places, options: SwarmOptions) -> Toolbox:
    credentials = Credentials(places.credentials)
    upstreams = build_upstreams(loaded.settings, credentials)
    # An existing world always runs, because its myses would have no tools without it.
    if options.world or places.world.exists():
        upstreams = (*upstreams, world_upstream(loaded.settings, places))
    if WORKBENCH not in loaded.settings.upstream:
        upstreams = (*upstreams, workbench_upstream(places))
    return Toolbox(
        upstreams,
        policies=build_policies(upstreams, loaded.settings),
        logs=places.data,
        accounts=CredentialAccounts(credentials),
        secrets=CredentialSecrets(credentials),
    )
