"""Policy of a template: the tools its myses see, and those that need an approval. Pure.

A glob is matched against a tool's own name, `UPSTREAM/tool` and `UPSTREAM__tool`, so `git_*`,
`git/*` and `git__commit` all work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import SEND_TOOL, ToolShow
from zoea.model.request import ToolSpec


class Send(StrEnum):
    """Recipients that a mysis may write to."""

    NONE = "none"
    COMMANDER = "commander"
    SWARM = "swarm"


class SearchScope(StrEnum):
    """Memories that a mysis may search."""

    OWN = "own"
    SWARM = "swarm"


class OwnTools(StrEnum):
    """How many of Zoea's own tools a mysis is offered."""

    SLIM = "slim"
    FULL = "full"


RESERVED = "zoea_"
"""Names of Zoea's own tools begin with this, and no others."""
ODD = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that a name for a provider does not have."""
_MESSAGE_TOOLS = frozenset((SEND_TOOL, "zoea_broadcast"))
_LIST_TOOL = "zoea_list_myses"


class ContextUse(StrEnum):
    """What a mysis may do with commits; `command` includes `use`."""

    NONE = "none"
    USE = "use"
    COMMAND = "command"


class ToolPolicy(Struct, frozen=True):
    """A template's policy for tools. `deny` wins over `allow`; an empty `allow` allows nothing.

    Args:
        allow, deny, ask: Globs; `ask` tools need an approval.
        ask_destructive: Tools that their server marks as destructive need an approval too.
        ask_commands: Tools that take a command line, a script or code need an approval too.
        ask_unless_read_only: All tools of upstreams but those that only read need an approval, except Reef's.
        trusts: Those of upstreams but these ask as well, unless they only read. None for all.
        send: Recipients that the mysis may write to.
        search: Memories that it may search.
        topics: Whether it is offered the tools of topics, because its template subscribes or publishes.
        remembers: Whether it may keep messages word for word, because its strategy is `window`.
        contexts: Whether it is offered the tools of commits, and those that ask and fork.
        own: Whether it is offered one tool to recall older things, or the three searches with all their arguments.
        show: Whether its requests show all tools of upstreams, or those it needs and a search for the others.
        pin: Globs of tools that its requests show in any case.
        works_on: The folder that its tools for files serve; empty where it has none.
        worktree: Whether each mysis works in its own worktree of that folder.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    ask_destructive: bool = True
    ask_commands: bool = True
    ask_unless_read_only: bool = False
    trusts: tuple[str, ...] | None = None
    send: Send = Send.SWARM
    search: SearchScope = SearchScope.OWN
    own: OwnTools = OwnTools.FULL
    topics: bool = False
    remembers: bool = False
    contexts: ContextUse = ContextUse.NONE
    show: ToolShow = ToolShow.ALL
    pin: tuple[str, ...] = ()
    works_on: str = ""
    worktree: bool = False

    @property
    def tools_for_others(self) -> frozenset[str]:
        """The short tools that need other myses. A mysis that is alone is not offered them."""
        if self.own is OwnTools.FULL:
            return frozenset()
        return _MESSAGE_TOOLS | {_LIST_TOOL} if self.send is Send.SWARM else frozenset((_LIST_TOOL,))


def matches(globs: tuple[str, ...], origin: str, upstream: str = "") -> bool:
    """Return whether one of the globs matches this tool."""
    return any(fnmatchcase(name, glob) for glob in globs for name in _names(origin, upstream))


def _names(origin: str, upstream: str) -> tuple[str, ...]:
    return (origin, f"{upstream}/{origin}", f"{upstream}__{origin}") if upstream else (origin,)


def apply_policy(spec: ToolSpec, policy: ToolPolicy, upstreams: Iterable[str] = ()) -> ToolSpec | None:
    """Apply the policy to a tool: None if hidden, `asks` set if it needs an approval.

    Args:
        upstreams: The names of all upstreams. No glob for one of them, or for Zoea's tools, allows another's tool.
    """
    names = {*upstreams, spec.upstream} - {""}
    is_allowed = any(_allows(glob, spec, names) for glob in policy.allow)
    if not is_allowed or matches(policy.deny, spec.origin, spec.upstream):
        return None
    is_question = spec.asks and not spec.upstream  # Zoea's own tool: its approval is the answer
    is_foreign = bool(spec.upstream) and not spec.is_own
    asks_for_changes = policy.ask_unless_read_only or (policy.trusts is not None and spec.upstream not in policy.trusts)
    asks = (
        is_question
        or matches(policy.ask, spec.origin, spec.upstream)
        or (policy.ask_destructive and spec.destructive and not spec.read_only)
        or (policy.ask_commands and spec.takes_command and is_foreign)
        or (asks_for_changes and not spec.read_only and is_foreign)
    )
    return replace(spec, asks=asks) if asks != spec.asks else spec


def is_reserved(name: str) -> bool:
    """Return whether a name looks like one of Zoea's own tools."""
    return ODD.sub("_", name[: len(RESERVED)]).lower() == RESERVED


def _allows(glob: str, spec: ToolSpec, upstreams: set[str]) -> bool:
    """Return whether a glob allows a tool. A glob for one upstream allows its tools alone."""
    owner = _find_owner(glob, upstreams)
    if owner is not None:
        return owner == spec.upstream and matches((glob,), spec.origin, spec.upstream)
    own, *longer = _names(spec.origin, spec.upstream)
    # `*` is for all tools, also for those that read as another's; `zoea*` is not.
    counted = [name for name in longer if glob.startswith("*") or not _reads_as_another(name, spec.upstream, upstreams)]
    counted += [] if _reads_as_another(own, spec.upstream, upstreams) else [own]
    return any(fnmatchcase(name, glob) for name in counted)


def _reads_as_another(name: str, upstream: str, upstreams: set[str]) -> bool:
    return bool(upstream) and (is_reserved(name) or _find_owner(name, upstreams) not in (None, upstream))


def _find_owner(name: str, upstreams: set[str]) -> str | None:
    """Find the longest upstream that a name begins with; "" for Zoea, None for none."""
    signs = {f"{upstream}{sign}": upstream for upstream in upstreams for sign in ("/", "__")} | {RESERVED: ""}
    longest = max((sign for sign in signs if name.startswith(sign)), key=len, default=None)
    return None if longest is None else signs[longest]
