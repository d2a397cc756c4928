"""What each mysis may call: the upstreams' tools and Zoea's own, after its template's policy.

`Toolbox` is the `ToolFactory` and `ToolboxSession` the `ToolSession` of `zoea.model.ports`.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoea.model.errors import ToolError, UpstreamLost, UsageError, ZoeaError
from zoea.model.request import AnswerCall, CallMeta, Catalogue, ToolResult, ToolSpec
from zoea.tools.accounts_login import AccountKeeper, Caller, InMemoryAccounts, UpstreamAccounts
from zoea.tools.builtin.definitions import mysis_tools
from zoea.tools.builtin.mysis_tools import BuiltinBackend, MysisTools
from zoea.tools.call_arguments import parse
from zoea.tools.catalogue import build_catalogue
from zoea.tools.policy import ToolPolicy
from zoea.tools.results import error_result, parse_result
from zoea.tools.upstream.http_pool import HttpPool
from zoea.tools.upstream.upstream_client import Upstream, UpstreamStatus
from zoea.tools.upstream.upstream_config import UpstreamConfig

_LISTED = 20


@dataclass(frozen=True, slots=True)
class _PolicyCatalogue:
    """The catalogue of one policy, and where its names lead."""

    version: int
    catalogue: Catalogue
    by_name: Mapping[str, ToolSpec]


class Toolbox:
    """All upstreams of a swarm, and a session for each mysis.

    Args:
        upstreams: What to open; names are unique.
        policies: Template name -> its policy.
        logs: The folder for the children's stderr.
        backend: The swarm, for Zoea's own tools; without one there are none. May come later, by `serve`.
        accounts: Where accounts are kept.
        changed: Told on the loop when an upstream's state or tools changed.
    """

    def __init__(
        self,
        upstreams: Sequence[UpstreamConfig],
        *,
        policies: Callable[[str], ToolPolicy] = lambda template: ToolPolicy(),
        logs: Path,
        backend: BuiltinBackend | None = None,
        accounts: AccountKeeper | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._pool = HttpPool()
        self._policies = policies
        self._builtin = MysisTools(backend) if backend is not None else None
        self._upstreams = {
            config.name: Upstream(config, logs=logs, pool=self._pool, changed=changed) for config in upstreams
        }
        keeper = accounts if accounts is not None else InMemoryAccounts()
        self._identities = {
            name: UpstreamAccounts(upstream.config, keeper, _sender(upstream), upstream.schema_of)
            for name, upstream in self._upstreams.items()
            if upstream.config.inject or upstream.config.login is not None
        }
        self._shelves: dict[ToolPolicy, _PolicyCatalogue] = {}

    def open(self) -> None:
        """Begin to open every upstream at once. Returns at once."""
        for upstream in self._upstreams.values():
            upstream.open()

    def serve(self, backend: BuiltinBackend) -> None:
        """Set the swarm for Zoea's own tools."""
        self._builtin = MysisTools(backend)
        self._shelves.clear()

    async def settled(self) -> None:
        """Wait until each upstream's tools are known, it is down, or its `start_timeout` is over."""
        await asyncio.gather(*(upstream.settled() for upstream in self._upstreams.values()))

    async def close(self) -> None:
        """Close all upstreams together, within the bound of one (5 s), whatever hangs."""
        await asyncio.gather(*(identity.close() for identity in self._identities.values()))
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))
        await self._pool.close()

    def status(self) -> tuple[UpstreamStatus, ...]:
        """Each upstream as it stands now, in the order they were given."""
        return tuple(upstream.status() for upstream in self._upstreams.values())

    def upstream(self, name: str) -> Upstream:
        """One upstream. Raises UsageError where there is none of that name."""
        found = self._upstreams.get(name)
        if found is None:
            known = ", ".join(self._upstreams) or "none"
            raise UsageError(f"no upstream {name}", hint=f"There are: {known}.")
        return found

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolboxSession:
        """The toolbox of one mysis, after its template's policy. Its accounts go by its uid, else by its name."""
        return ToolboxSession(self, Caller(uid or mysis, mysis), self._policies(template))

    def forget(self, uid: str) -> None:
        """The mysis is deleted: its accounts are kept where they are kept, and nowhere else."""
        for identity in self._identities.values():
            identity.forget(uid)

    def shelf(self, policy: ToolPolicy) -> _PolicyCatalogue:
        """The catalogue of a policy as it is now; made once for each change of any upstream's tools."""
        version = sum(upstream.version for upstream in self._upstreams.values())
        kept = self._shelves.get(policy)
        if kept is not None and kept.version == version:
            return kept
        own = [tool.to_spec() for tool in mysis_tools(policy)] if self._builtin is not None else []
        catalogue = build_catalogue(own, [_offered(upstream) for upstream in self._upstreams.values()], policy)
        made = _PolicyCatalogue(version, catalogue, {tool.name: tool for tool in catalogue.tools})
        self._shelves[policy] = made
        return made

    def missing(self) -> UpstreamLost | None:
        """The error of a required upstream whose retries are spent."""
        for upstream in self._upstreams.values():
            if upstream.config.required and upstream.is_down:
                why = upstream.status().last_error
                return UpstreamLost(
                    f"required upstream {upstream.name} is not available: {why}",
                    hint=f"Mend it (zoea upstream test {upstream.name}), then relaunch the mysis.",
                    was_sent=False,
                )
        return None

    def release(self, mysis: str) -> None:
        """The mysis has stopped: sessions of its own are closed."""
        for upstream in self._upstreams.values():
            upstream.release(mysis)

    def stored_arguments(self, spec: ToolSpec | None, caller: Caller, text: str) -> str:
        """Arguments as they may be stored; the same text where nothing is to be hidden."""
        identity = self._identities.get(spec.upstream) if spec is not None else None
        if identity is None or spec is None:
            return text
        if identity.injected(spec.origin):
            try:
                text = json.dumps(identity.concealed(spec.origin, parse(text)), ensure_ascii=False)
            except UsageError:
                return identity.masked(caller, text)
        return identity.masked(caller, text)

    async def call(
        self, spec: ToolSpec, arguments: dict[str, Any], meta: CallMeta, policy: ToolPolicy, caller: Caller
    ) -> ToolResult:
        """Carry out one call of a tool that the caller's policy allows."""
        if not spec.upstream:
            if self._builtin is None:
                return error_result(f"{spec.name} is not available")
            return await self._builtin.call(spec.origin, arguments, meta, policy)
        upstream, identity = self._upstreams[spec.upstream], self._identities.get(spec.upstream)
        try:
            if identity is None:
                return parse_result(await _send(upstream, spec, arguments, meta.mysis, meta.deadline_s))
            result = await self._call_as(identity, caller, upstream, spec, arguments, meta)
        except ZoeaError as error:
            # Tools fail, and so may the credentials store: both are the call's failure, not the mysis's.
            result = _failure(error)
        return identity.masked_result(caller, result) if identity is not None else result

    async def _call_as(
        self,
        identity: UpstreamAccounts,
        caller: Caller,
        upstream: Upstream,
        spec: ToolSpec,
        arguments: dict[str, Any],
        meta: CallMeta,
    ) -> ToolResult:
        """One call under the mysis's account; once more, logged in anew, where its session was lost."""
        until = asyncio.get_running_loop().time() + meta.deadline_s
        filled, generation = await _entered(identity, caller, spec, arguments, meta, until)
        result = parse_result(await _send(upstream, spec, filled, meta.mysis, _left(until)))
        if not generation or not identity.is_lost(result):
            return result
        filled, _ = await _entered(identity, caller, spec, arguments, meta, until, lost=generation)
        return parse_result(await _send(upstream, spec, filled, meta.mysis, _left(until)))


class ToolboxSession:
    """The toolbox of one mysis while it runs. A body of `zoea.model.ports.ToolSession`."""

    def __init__(self, toolbox: Toolbox, caller: Caller, policy: ToolPolicy) -> None:
        self._toolbox = toolbox
        self._caller = caller
        self._policy = policy
        self._has_waited = False

    async def catalogue(self) -> Catalogue:
        """The tools it may call now. The first time, waits for upstreams that are still opening.

        Raises:
            UpstreamLost: A required upstream is down.
        """
        if not self._has_waited:
            await self._toolbox.settled()
            self._has_waited = True
        lost = self._toolbox.missing()
        if lost is not None:
            raise lost
        return self._toolbox.shelf(self._policy).catalogue

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        """Carry out one call. A failing tool is an error result; only cancellation is raised."""
        spec = self._find(call.name)
        if spec is None:
            return error_result(self._unknown(call.name))
        if call.broken:
            return error_result(f"arguments of {call.name} are broken: {call.broken}")
        try:
            arguments = parse(call.arguments)
        except UsageError as error:
            return error_result(f"{call.name}: {error.what}")
        return await self._toolbox.call(spec, arguments, meta, self._policy, self._caller)

    def stored_arguments(self, call: AnswerCall) -> str:
        """The arguments as they may be stored: injected ones as `‹account›`."""
        return self._toolbox.stored_arguments(self._find(call.name), self._caller, call.arguments)

    async def close(self) -> None:
        """Give up the sessions that are this mysis's own."""
        self._toolbox.release(self._caller.name)

    def _find(self, name: str) -> ToolSpec | None:
        return self._toolbox.shelf(self._policy).by_name.get(name)

    def _unknown(self, name: str) -> str:
        tools = self._toolbox.shelf(self._policy).catalogue.tools
        same = [tool.name for tool in tools if tool.origin == name]
        known = {tool.origin: tool.name for tool in tools} | {tool.name: tool.name for tool in tools}
        near = same or list(dict.fromkeys(known[one] for one in difflib.get_close_matches(name, known, n=3)))
        if near:
            return f"there is no tool {name}; did you mean {' or '.join(near)}?"
        names = ", ".join(tool.name for tool in tools[:_LISTED])
        return f"there is no tool {name}; there are: {names}" if names else f"there is no tool {name}, nor any other"


async def _entered(
    identity: UpstreamAccounts,
    caller: Caller,
    spec: ToolSpec,
    arguments: dict[str, Any],
    meta: CallMeta,
    until: float,
    *,
    lost: int = 0,
) -> tuple[dict[str, Any], int]:
    """The arguments with what Zoea fills in; logged in anew where the session of generation `lost` is gone."""
    try:
        async with asyncio.timeout_at(until):
            if lost:
                await identity.renew(caller, lost)
            return await identity.filled(caller, spec.origin, arguments)
    except TimeoutError:
        raise ToolError(f"{spec.name}: the login did not finish within {meta.deadline_s:g} s") from None


def _left(until: float) -> float:
    return max(0.0, until - asyncio.get_running_loop().time())


async def _send(
    upstream: Upstream, spec: ToolSpec, arguments: dict[str, Any], mysis: str, deadline_s: float
) -> dict[str, Any]:
    return await upstream.call(spec.origin, arguments, mysis=mysis, deadline_s=deadline_s, repeatable=spec.idempotent)


def _sender(upstream: Upstream) -> Callable[[str, dict[str, Any], str], Any]:
    async def send(tool: str, arguments: dict[str, Any], mysis: str) -> dict[str, Any]:
        deadline_s = upstream.config.start_timeout
        return await upstream.call(tool, arguments, mysis=mysis, deadline_s=deadline_s, repeatable=False)

    return send


def _offered(upstream: Upstream) -> tuple[ToolSpec, ...]:
    hidden = upstream.config.hidden_tools
    return tuple(tool for tool in upstream.tools if tool.origin not in hidden)


def _failure(error: ZoeaError) -> ToolResult:
    text = f"{error.what}. {error.hint}" if error.hint else error.what
    return ToolResult(content=text, is_error=True, is_unknown=isinstance(error, UpstreamLost) and error.was_sent)
