"""Settings from the environment: `ZOEA_SECTION__KEY`, and the bare names of budgets.

An empty variable counts as unset. Names of providers and upstreams are matched
without case, `_` standing for `-`, since a variable's name can hold neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zoea.settings.origin import KeyPath, Layer, Origin
from zoea.settings.tree import Source, put

PREFIX = "ZOEA_"
BARE: Mapping[str, KeyPath] = {
    "TOKEN_BUDGET_PER_AGENT": ("budget", "token_budget_per_agent"),
    "TOKEN_BUDGET_PER_TASK": ("budget", "token_budget_per_task"),
}
"""Names that Shannon's users already have in their environment; with or without the prefix."""


def environment(env: Mapping[str, str], names: Mapping[str, Iterable[str]]) -> list[Source]:
    """What the environment sets. `names` are the providers and upstreams known so far.

    One source per way of naming, so that of two names for one budget both count.
    """
    ways: tuple[dict[str, KeyPath], ...] = (
        {name: path for name, path in BARE.items() if name in env},
        {PREFIX + name: path for name, path in BARE.items() if PREFIX + name in env},
        {name: _path(name, names) for name in sorted(env) if name.startswith(PREFIX) and "__" in name[len(PREFIX) :]},
        {f"{PREFIX}WORKSPACE": ("workspace",)} if f"{PREFIX}WORKSPACE" in env else {},
    )
    return [source for way in ways if (source := _source(way, env)).tree]


def variable(path: KeyPath) -> str:
    """The variable that sets a key."""
    return PREFIX + "__".join(part.replace("-", "_").upper() for part in path)


def _path(name: str, names: Mapping[str, Iterable[str]]) -> KeyPath:
    parts = [part.lower() for part in name[len(PREFIX) :].split("__")]
    if len(parts) > 1:
        for known in names.get(parts[0], ()):
            if known.lower().replace("-", "_") == parts[1]:
                parts[1] = known
    return tuple(parts)


def _source(way: Mapping[str, KeyPath], env: Mapping[str, str]) -> Source:
    tree: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    for name, path in way.items():
        if env[name].strip():
            put(tree, path, env[name])
            origin = Origin(Layer.ENVIRONMENT, name)
            for length in range(1, len(path) + 1):
                origins.setdefault(path[:length], origin)
    return Source(Layer.ENVIRONMENT, tree, origins)
