"""The tools of each mysis: upstreams' and Zoea's own, filtered by its template's policy.

`Toolbox` is the `ToolFactory` and `ToolboxSession` the `ToolSession` of `zoea.model.ports`.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import CALL_TOOL, DONE_TOOL, FIND_TOOL, ToolShow
from zoea.model.errors import FilesError, ToolError, UpstreamLost, UsageError, ZoeaError
from zoea.model.request import Answer, AnswerCall, CallMeta, Catalogue, ToolResult, ToolSpec
from zoea.model.values import UpstreamView
from zoea.text.tool_signature import describe_call, fits
from zoea.tools.account_arguments import find_login_secrets
from zoea.tools.accounts_login import REGISTRATION_S, AccountKeeper, Caller, InMemoryAccounts, UpstreamAccounts
from zoea.tools.call_arguments import parse_arguments
from zoea.tools.catalogue import build_catalogue
from zoea.tools.policy import OwnTools, ToolPolicy, apply_policy, matches
from zoea.tools.results import error_result, read_result
from zoea.tools.secret_vault import InMemorySecrets, SecretKeeper, SecretVault
from zoea.tools.tool_search import build_search_tools, explain_wrong_call, find_tools
from zoea.tools.upstream.sent_secrets import find_filled_texts
from zoea.tools.upstream.upstream_client import Upstream
from zoea.tools.upstream.upstream_config import UpstreamConfig

if TYPE_CHECKING:
    from zoea.tools.builtin.mysis_tools import MysisTools  # loads pydantic
    from zoea.tools.upstream.http_pool import HttpPool  # loads httpx2

_LISTED = 20
_CHANGED = (
    "{} was not called: its server changed it since it was offered. "
    "Look at its arguments, and call it again if it still does what you want"
)
logger = logging.getLogger(__name__)
SendFilled = Callable[[dict[str, Any], float], Awaitable[dict[str, Any]]]
"""Sends a call with filled-in arguments within some seconds."""


class WorkFolders(Protocol):
    """The folders that myses work in."""

    def hold(self, caller: Caller, policy: ToolPolicy) -> AbstractAsyncContextManager[Path]:
        """Protect the folder of a mysis from removal. Raises FilesError where it has none."""
        ...


class _PolicyCatalogue(Struct, frozen=True):
    """The catalogue of one policy, and its tools by name."""

    version: int
    catalogue: Catalogue
    by_name: Mapping[str, ToolSpec]


class Toolbox:
    """All upstreams of a swarm, and a session for each mysis.

    Args:
        upstreams: With unique names.
        policies: Template name -> its policy.
        logs: The folder for the stderr of upstream processes.
        builtin: Zoea's own tools; `serve` may set them later.
        folders: The folders that myses work in, for upstreams whose commands name them.
    """

    def __init__(
        self,
        upstreams: Sequence[UpstreamConfig],
        *,
        policies: Callable[[str], ToolPolicy] = lambda template: ToolPolicy(),
        logs: Path,
        builtin: MysisTools | None = None,
        accounts: AccountKeeper | None = None,
        secrets: SecretKeeper | None = None,
        folders: WorkFolders | None = None,
    ) -> None:
        self.folders = folders
        self._pool: HttpPool | None = None
        self._policies = policies
        self._builtin = builtin
        self._logs = logs
        self._changed: Callable[[], None] = lambda: None
        self._keeper = accounts if accounts is not None else InMemoryAccounts()
        self._upstreams = {config.name: self._make(config) for config in upstreams}
        self._accounts = self._make_accounts(self._upstreams)
        self.secrets = SecretVault(secrets if secrets is not None else InMemorySecrets())
        self._catalogues: dict[ToolPolicy, _PolicyCatalogue] = {}

    def _make(self, config: UpstreamConfig) -> Upstream:
        return Upstream(config, logs=self._logs, pool=self._share_pool, on_change=lambda: self._changed())

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function on the loop whenever an upstream's state or tools changed."""
        self._changed = changed

    def _share_pool(self) -> HttpPool:
        """Return the HTTP connections of all upstreams. The SDK, which a session has loaded, has loaded its modules."""
        if self._pool is None:
            from zoea.tools.upstream.http_pool import HttpPool

            self._pool = HttpPool()
        return self._pool

    def _make_accounts(self, upstreams: dict[str, Upstream]) -> dict[str, UpstreamAccounts]:
        return {
            name: UpstreamAccounts(upstream.config, self._keeper, _login_sender(upstream), upstream.schema_of)
            for name, upstream in upstreams.items()
            if upstream.config.inject or upstream.config.login is not None
        }

    def open(self) -> None:
        """Begin to open all upstreams; return at once."""
        for upstream in self._upstreams.values():
            upstream.open()

    async def configure(
        self, upstreams: Sequence[UpstreamConfig], policies: Callable[[str], ToolPolicy]
    ) -> tuple[str, ...]:
        """Take over another configuration while myses run.

        Added upstreams are opened, removed ones closed, changed ones closed and opened; the others keep their
        sessions. Returns the names that changed.
        """
        wanted = {config.name: config for config in upstreams}
        gone = {name: one for name, one in self._upstreams.items() if wanted.get(name) != one.config}
        fresh = {
            name: self._make(config) for name, config in wanted.items() if name in gone or name not in self._upstreams
        }
        closing = [accounts for name, accounts in self._accounts.items() if name in gone]
        self._upstreams = {name: fresh.get(name) or self._upstreams[name] for name in wanted}
        kept = {name: accounts for name, accounts in self._accounts.items() if name not in gone}
        self._accounts = kept | self._make_accounts(fresh)
        self._policies = policies
        self._catalogues.clear()
        for upstream in fresh.values():
            upstream.open()
        await asyncio.gather(*(accounts.close() for accounts in closing))
        await asyncio.gather(*(upstream.close() for upstream in gone.values()))
        return tuple(dict.fromkeys((*gone, *fresh)))

    def configs(self) -> tuple[UpstreamConfig, ...]:
        """Return the configuration of each upstream."""
        return tuple(upstream.config for upstream in self._upstreams.values())

    def policy_of(self, template: str) -> ToolPolicy:
        """Return the policy of a template's text."""
        return self._policies(template)

    def serve(self, builtin: MysisTools) -> None:
        """Set Zoea's own tools."""
        self._builtin = builtin
        self._catalogues.clear()

    async def settled(self) -> None:
        """Wait until each upstream has listed its tools, is down, or had its `start_timeout`."""
        await asyncio.gather(*(upstream.settled() for upstream in self._upstreams.values()))

    async def released(self) -> None:
        """Wait until the sessions of myses that have stopped are closed."""
        await asyncio.gather(*(upstream.released() for upstream in self._upstreams.values()))

    async def close(self) -> None:
        """Close all upstreams together, within the limit of one (5 s)."""
        await asyncio.gather(*(accounts.close() for accounts in self._accounts.values()))
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))
        if self._pool is not None:
            await self._pool.close()

    def status(self) -> tuple[UpstreamView, ...]:
        """Return the state of each upstream without its tools, in the order of the configuration."""
        every = (upstream.status() for upstream in self._upstreams.values())
        return tuple(
            view
            for view in every
            if view.sessions
            or view.calls
            or not ((config := self.upstream(view.name).config).listed or config.in_worktree)
        )

    def upstream(self, name: str) -> Upstream:
        """Return one upstream. Raises UsageError if there is none of that name."""
        if (found := self._upstreams.get(name)) is None:
            names = ", ".join(self._upstreams) or "none"
            raise UsageError(f"no upstream {name}", hint=f"There are: {names}.")
        return found

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolboxSession:
        """Make the toolbox of one mysis. Its accounts are found by its uid, else by its name."""
        return ToolboxSession(self, Caller(uid or mysis, mysis), template)

    def forget(self, uid: str) -> None:
        """Drop a deleted mysis from memory; its stored accounts stay."""
        for accounts in self._accounts.values():
            accounts.forget(uid)

    def catalogue_of(self, policy: ToolPolicy) -> _PolicyCatalogue:
        """Return the catalogue of a policy, cached until the tools of an upstream change."""
        version = sum(upstream.version for upstream in self._upstreams.values())
        kept = self._catalogues.get(policy)
        if kept is not None and kept.version == version:
            return kept
        own = self._builtin.specs(policy) if self._builtin is not None else ()
        built = build_catalogue(own, map(_visible_tools, self._upstreams.values()), policy, self._upstreams)
        can_search = not any(matches(policy.deny, name) for name in (FIND_TOOL, CALL_TOOL))
        catalogue = replace(
            built,
            others=tuple(tool for tool in self._unlisted(policy) if built.find(tool.name) is None),
            show=policy.show if can_search else ToolShow.ALL,
            pinned=frozenset(tool.name for tool in built.tools if matches(policy.pin, tool.origin, tool.upstream)),
            for_goal=frozenset((DONE_TOOL,)) if policy.own is OwnTools.SLIM else frozenset(),
            for_others=policy.tools_for_others,
        )
        by_name = {tool.name: tool for tool in (*build_search_tools(()), *catalogue.callable)}
        made = _PolicyCatalogue(version, catalogue, by_name)
        self._catalogues[policy] = made
        return made

    def _unlisted(self, policy: ToolPolicy) -> tuple[ToolSpec, ...]:
        """Return own tools that the policy allows but does not offer. Calls by name still work."""
        if self._builtin is None or policy.own is OwnTools.FULL:
            return ()
        full = self._builtin.specs(replace(policy, own=OwnTools.FULL))
        return tuple(spec for tool in full if (spec := apply_policy(tool, policy)) is not None)

    def missing(self) -> UpstreamLost | None:
        """Return the error of a required upstream that is down, if there is one."""
        for upstream in self._upstreams.values():
            if upstream.config.required and upstream.is_down:
                why = upstream.status().last_error
                return UpstreamLost(
                    f"required upstream {upstream.name} is not available: {why}",
                    hint=f"Check it with `zoea upstream test {upstream.name}`, then relaunch the mysis.",
                    was_sent=False,
                )
        return None

    def listed_schema(self, spec: ToolSpec | None) -> Mapping[str, Any]:
        """Return a tool's input schema as its server listed it. Empty for Zoea's own tools and unknown ones."""
        return self._upstreams[spec.upstream].schema_of(spec.origin) if spec is not None and spec.upstream else {}

    def release(self, mysis: str) -> None:
        """Close the sessions of a mysis that has stopped."""
        for upstream in self._upstreams.values():
            upstream.release(mysis)

    def stored_arguments(self, spec: ToolSpec | None, caller: Caller, text: str) -> str:
        """Return the arguments of a call with hidden accounts, as they may be stored."""
        accounts = self._accounts.get(spec.upstream) if spec is not None else None
        if accounts is None or spec is None:
            return text
        if accounts.injected_arguments(spec.origin):
            try:
                text = json.dumps(accounts.conceal(spec.origin, parse_arguments(text)), ensure_ascii=False)
            except UsageError:
                return accounts.mask_text(caller, text)
        return accounts.mask_text(caller, text)

    async def call(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        meta: CallMeta,
        policy: ToolPolicy,
        caller: Caller,
        check: Callable[[], None] = lambda: None,
    ) -> ToolResult:
        """Carry out a call of a tool that the caller's policy allows.

        `check` raises ToolError where an upstream's tool is no longer the one that was meant.
        """
        if not spec.upstream:
            if self._builtin is None:
                return error_result(f"{spec.name} is not available")
            meta.sending.begun = True
            return await self._builtin.call(spec.origin, arguments, meta, policy)
        upstream, accounts = self._upstreams.get(spec.upstream), self._accounts.get(spec.upstream)
        if upstream is None:
            return error_result(f"{spec.name} is not available: the upstream {spec.upstream} was removed")
        if upstream.config.listed:
            own_tree = ("--worktree", meta.mysis, "--mysis", caller.uid) if policy.worktree else ()
            upstream.bind(meta.mysis, (policy.works_on, *own_tree))
        try:
            if upstream.config.in_worktree and self.folders is not None:
                async with self.folders.hold(caller, policy) as folder:
                    upstream.place(caller.name, folder)
                    return await self._call(upstream, accounts, spec, arguments, meta, caller, check)
            return await self._call(upstream, accounts, spec, arguments, meta, caller, check)
        except ZoeaError as error:
            # A failing tool or credentials store fails the call, not the mysis.
            text = error.text
            result = ToolResult(
                content=text, is_error=True, is_unknown=isinstance(error, UpstreamLost) and error.was_sent
            )
        return accounts.mask_result(caller, result) if accounts is not None else result

    async def place(self, caller: Caller, policy: ToolPolicy) -> None:
        """Open the upstreams that run in the folder of this mysis, at its first use."""
        for name, upstream in self._upstreams.items():
            if not upstream.config.in_worktree or self.folders is None or f"{name}/*" in policy.deny:
                continue
            try:
                async with self.folders.hold(caller, policy) as folder:
                    upstream.place(caller.name, folder)
                    await upstream.settled()
            except FilesError as error:
                logger.warning("upstream %s: %s", name, error)

    async def _call(
        self,
        upstream: Upstream,
        accounts: UpstreamAccounts | None,
        spec: ToolSpec,
        arguments: dict[str, Any],
        meta: CallMeta,
        caller: Caller,
        check: Callable[[], None],
    ) -> ToolResult:
        written, arguments = arguments, await self.secrets.fill(spec.upstream, arguments)
        send = partial(_call_upstream, upstream, spec, meta, written, check)
        if accounts is None:
            return upstream.hide_secrets(await read_result(await send(arguments, meta.deadline_s)))
        result = upstream.hide_secrets(await self._call_as(accounts, caller, send, spec, arguments, meta))
        return accounts.mask_result(caller, result)

    async def _call_as(
        self,
        accounts: UpstreamAccounts,
        caller: Caller,
        send: SendFilled,
        spec: ToolSpec,
        arguments: dict[str, Any],
        meta: CallMeta,
    ) -> ToolResult:
        """Call with the mysis's account. Log in again and repeat once if its session was lost."""
        until = asyncio.get_running_loop().time() + meta.deadline_s
        filled, generation = await _fill_arguments(accounts, caller, spec, arguments, meta, until)
        result = await read_result(await send(filled, _left(until)))
        if not generation or accounts.confirm_session(caller, result):
            return result
        filled, _ = await _fill_arguments(accounts, caller, spec, arguments, meta, until, lost=generation)
        result = await read_result(await send(filled, _left(until)))
        accounts.confirm_session(caller, result)
        return result


class ToolboxSession:
    """The toolbox of one mysis while it runs; see `zoea.model.ports.ToolSession`."""

    def __init__(self, toolbox: Toolbox, caller: Caller, template: str) -> None:
        self._toolbox = toolbox
        self._caller = caller
        self._template = template
        self._has_waited = False

    @property
    def _policy(self) -> ToolPolicy:
        """The policy now; it names the upstreams, which may change while the mysis runs."""
        return self._toolbox.policy_of(self._template)

    async def catalogue(self) -> Catalogue:
        """Return the tools it may call now. The first call waits for upstreams that are opening.

        Raises:
            UpstreamLost: A required upstream is down.
        """
        if not self._has_waited:
            await self._toolbox.place(self._caller, self._policy)
            await self._toolbox.settled()
            self._has_waited = True
        if (lost := self._toolbox.missing()) is not None:
            raise lost
        return self._toolbox.catalogue_of(self._policy).catalogue

    def own_tools(self) -> tuple[ToolSpec, ...]:
        """Return Zoea's own tools, those that its template lets it call."""
        return tuple(tool for tool in self._toolbox.catalogue_of(self._policy).catalogue.tools if not tool.upstream)

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        """Carry out one call. A failing tool gives an error result; only cancellation is raised."""
        spec = self._find(call.name)
        if spec is None:
            return error_result(self._unknown(call.name, meta.withheld))
        if meta.offered is not None and _is_another(spec, meta.offered):
            return error_result(_CHANGED.format(call.name))
        arguments, refusal = read_call(spec, call)
        if refusal:
            return error_result(refusal)
        if spec.name in (FIND_TOOL, CALL_TOOL):
            return self._search(spec.name, arguments, meta.withheld)

        def check() -> None:
            reached = self._find(call.name)
            if reached is None or _is_another(reached, meta.offered or spec):
                raise ToolError(_CHANGED.format(call.name))

        result = await self._toolbox.call(spec, arguments, meta, self._policy, self._caller, check)
        result = await self._toolbox.secrets.mask_result(result, spec, arguments)
        # Zoea's own tools say themselves which argument is wrong and what it may be.
        if result.is_error and spec.upstream and not result.is_unknown and not fits(arguments, spec.input_schema):
            return replace(result, content=f"{result.content.removesuffix('.')}{_show_use(spec)}")
        return result

    async def conceal_answer(self, answer: Answer) -> Answer:
        """Return the answer with marks for the secrets of its calls; their values are kept."""
        # What names no tool may still hold a secret for one.
        pairs = ((call, None if call.name == CALL_TOOL else self._find(call.name)) for call in answer.calls)
        calls = [(call, spec, self._toolbox.listed_schema(spec)) for call, spec in pairs]
        return await self._toolbox.secrets.conceal_answer(answer, calls)

    async def conceal_partial(self, answer: Answer) -> Answer:
        """Return a broken-off answer with marks for known secrets and their beginnings."""
        return await self._toolbox.secrets.conceal_partial(answer)

    async def stream_mask(self) -> Callable[[str], str]:
        """Return a function that masks known secrets in pieces of one text as they come."""
        return await self._toolbox.secrets.stream_mask()

    def stored_arguments(self, call: AnswerCall) -> str:
        """Return the arguments as they may be stored: injected ones as `‹account›`."""
        return self._toolbox.stored_arguments(self._find(call.name), self._caller, call.arguments)

    async def close(self) -> None:
        """Close the sessions of this mysis."""
        self._toolbox.release(self._caller.name)

    def _search(self, name: str, arguments: dict[str, Any], withheld: Sequence[str]) -> ToolResult:
        """Find tools, or say why a call through `zoea_call_tool` names none."""
        if name == CALL_TOOL:
            unknown = self._unknown(str(arguments.get("name", "")), withheld)
            return error_result(explain_wrong_call(arguments, unknown))
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return error_result(f"{FIND_TOOL}: query is missing; give a name, or words for what you want to do")
        tools = self._toolbox.catalogue_of(self._policy).catalogue.tools
        return ToolResult(find_tools(query, [tool for tool in tools if tool.upstream]))

    def _find(self, name: str) -> ToolSpec | None:
        return self._toolbox.catalogue_of(self._policy).by_name.get(name)

    def _unknown(self, name: str, withheld: Sequence[str]) -> str:
        every = self._toolbox.catalogue_of(self._policy).catalogue.tools
        tools = [tool for tool in every if tool.name not in withheld]
        same = [tool.name for tool in tools if tool.origin == name]
        origins = {tool.origin: tool.name for tool in tools} | {tool.name: tool.name for tool in tools}
        near = same or list(dict.fromkeys(origins[one] for one in difflib.get_close_matches(name, origins, n=3)))
        if near:
            return f"there is no tool {name}; did you mean {' or '.join(near)}?"
        names = ", ".join(tool.name for tool in tools[:_LISTED])
        return f"there is no tool {name}; there are: {names}" if names else f"there is no tool {name}, nor any other"


def read_call(spec: ToolSpec, call: AnswerCall) -> tuple[dict[str, Any], str]:
    """Return a call's arguments, and the reason for a refusal, else an empty text."""
    if call.broken:
        return {}, f"arguments of {call.name} are broken: {call.broken}{_show_use(spec)}"
    try:
        arguments = parse_arguments(call.arguments, is_stored=not spec.upstream)
    except UsageError as error:
        return {}, f"{call.name}: {error.what}{_show_use(spec)}"
    if missing := _missing_arguments(spec, arguments):
        are = "is" if len(missing) == 1 else "are"
        return arguments, f"{call.name} was not called: {', '.join(missing)} {are} missing{_show_use(spec)}"
    return arguments, ""


def _missing_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> list[str]:
    """Return the required arguments without default that a call of an upstream's tool lacks.

    Zoea's own tools name missing ones themselves.
    """
    required, properties = spec.input_schema.get("required"), spec.input_schema.get("properties")
    if not spec.upstream or not isinstance(required, list) or not isinstance(properties, Mapping):
        return []
    described = {key: properties[key] for key in required if isinstance(key, str) and key in properties}
    return [
        key
        for key, one in described.items()
        if key not in arguments and not (isinstance(one, Mapping) and "default" in one)
    ]


def _show_use(spec: ToolSpec) -> str:
    """Return how a tool is called, for the error of a call with wrong arguments."""
    return f".\nIt is called so: {describe_call(spec.name, spec.input_schema)}"


def _is_another(spec: ToolSpec, offered: ToolSpec) -> bool:
    """Return whether a call was decided for another tool than the one it reaches now."""
    if (spec.upstream, spec.origin) != (offered.upstream, offered.origin):
        return True
    return (spec.asks or offered.asks) and spec.schema_hash != offered.schema_hash


async def _fill_arguments(
    accounts: UpstreamAccounts,
    caller: Caller,
    spec: ToolSpec,
    arguments: dict[str, Any],
    meta: CallMeta,
    until: float,
    *,
    lost: int = 0,
) -> tuple[dict[str, Any], int]:
    """Fill in the account's arguments. Log in again if the session of generation `lost` is gone."""
    try:
        async with asyncio.timeout_at(until):
            if lost:
                await accounts.renew(caller, lost)
            return await accounts.fill_arguments(caller, spec.origin, arguments)
    except TimeoutError:
        raise ToolError(
            f"{spec.name}: the login did not finish within {meta.deadline_s:g} s",
            hint=f"Zoea waits on for the answer of {spec.upstream}; this call was not sent.",
        ) from None


def _left(until: float) -> float:
    return max(0.0, until - asyncio.get_running_loop().time())


async def _call_upstream(
    upstream: Upstream,
    spec: ToolSpec,
    meta: CallMeta,
    written: dict[str, Any],
    check: Callable[[], None],
    arguments: dict[str, Any],
    deadline_s: float,
) -> dict[str, Any]:
    """Send a call to its server and return the result.

    Args:
        written: The arguments as the model wrote them, without what was filled in.
        check: Raises ToolError where the call must not be sent any more.
        arguments: The arguments that are sent.
    """
    return await upstream.call(
        spec.origin,
        arguments,
        mysis=meta.mysis,
        deadline_s=deadline_s,
        repeatable=spec.idempotent,
        state=meta.sending,
        secrets=find_filled_texts(written, arguments),
        check=check,
    )


def _login_sender(upstream: Upstream) -> Callable[[str, dict[str, Any], str], Any]:
    async def send(tool: str, arguments: dict[str, Any], mysis: str) -> dict[str, Any]:
        login = upstream.config.login
        is_registration = login is not None and tool == login.register_
        try:
            return await upstream.call(
                tool,
                arguments,
                mysis=mysis,
                deadline_s=REGISTRATION_S if is_registration else upstream.config.start_timeout,
                repeatable=False,
                secrets=find_login_secrets(upstream.config, arguments),
            )
        except (ToolError, UpstreamLost) as error:
            hint = "That was its login: the call itself was not sent."
            if isinstance(error, UpstreamLost) and not error.was_sent:
                raise UpstreamLost(error.what, hint=hint, was_sent=False) from None
            raise ToolError(error.what, hint=hint) from None

    return send


def _visible_tools(upstream: Upstream) -> tuple[ToolSpec, ...]:
    hidden = upstream.config.hidden_tools
    return tuple(tool for tool in upstream.tools if tool.origin not in hidden)
