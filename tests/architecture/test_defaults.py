"""A default of a setting is stated once: in its field. The bodies of `SwarmApi` repeat its defaults as they are."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.architecture.sources import PACKAGE, SOURCES, nodes_of
from zoea.ipc.swarm_proxy import api_functions
from zoea.runtime.connections import LiveConnections
from zoea.settings.inert_keys import iterate_fields
from zoea.settings.schema import Settings
from zoea.swarm.commander import Commander
from zoea.swarm.commit_commands import CommitCommands

SCHEMA = ("schema.py", "endpoints.py", "commit_settings.py", "server_settings.py", "early_defaults.py")
OTHER_THINGS = {
    "llm/discovery.py: host": "this machine, where servers are looked for",
    "llm/local/llama_server.py: context": "what Zoea starts a server with, whose window is known then",
    "model/request.py: OUTPUT_TOKENS": "the one place: the schema reads it here",
    "tools/upstream/upstream_config.py: backoff": "the pause before a tool server is opened again",
    "web/browser_server.py: host": "this machine, unless an option names another",
    "web/gateway.py: HOST": "this machine alone, whatever is set for other servers",
    "runtime/model_discovery.py: discover": "whether a command looks for a server at all",
    "world/world_map.py: systems": "the world is a program of its own, without settings",
    "world/world_server.py: tick": "the same",
}
"""What has the name and value of a setting and means something else, or is what the setting reads."""


def stated(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield each constant of a module, and each field and argument with a default.

    Each comes by name, with its value where it is a literal.
    """
    for node in nodes_of(file):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.Module):
            pairs = [
                (target.id, one.value)
                for one in node.body
                if isinstance(one, ast.Assign)
                for target in one.targets
                if isinstance(target, ast.Name)
            ]
        if isinstance(node, ast.ClassDef):
            pairs = [
                (one.target.id, one.value)
                for one in node.body
                if isinstance(one, ast.AnnAssign)
                if isinstance(one.target, ast.Name)
            ]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            first = len(names) - len(node.args.defaults)
            pairs = list(zip(names[first:], node.args.defaults, strict=True))
            pairs += zip((one.arg for one in node.args.kwonlyargs), node.args.kw_defaults, strict=True)
        for name, value in pairs:
            with suppress(ValueError):  # it is no literal
                yield name, ast.literal_eval(value) if value is not None else None


def defaults_stated_twice() -> set[str]:
    """Return each constant, field and argument that repeats a default, as `file: name`.

    It has the value of a setting, and the setting's name or some words of it: `primers` repeats `primers_count`.
    """
    defaults: dict[Any, list[tuple[set[str], str]]] = {}
    for path, field in iterate_fields(Settings):
        defaults.setdefault(_hashable(field.default), []).append((words_of(path[-1]), path[-1]))
    return {
        f"{file.relative_to(PACKAGE).as_posix()}: {name}"
        for file in SOURCES
        if not (file.parent.name == "settings" and file.name in SCHEMA)
        for name, value in stated(file)
        if value
        for words, setting in defaults.get(_hashable(value), ())
        if (words_of(name) <= words if value is not True else name.strip("_") == setting)
    }


def _hashable(value: Any) -> Any:
    """Return a key that is equal for equal values."""
    return repr(value) if isinstance(value, list | dict | set | tuple) else value


def words_of(name: str) -> set[str]:
    """Return the words of a name."""
    return set(name.strip("_").lower().split("_"))


def test_no_default_of_a_setting_is_stated_twice() -> None:
    assert defaults_stated_twice() == OTHER_THINGS.keys()


def test_the_bodies_of_the_api_have_its_defaults() -> None:
    """A front gets the defaults of the protocol. A call within the process gets those of the body."""
    parts = (Commander, CommitCommands, LiveConnections)
    bodies = {name: body for name in api_functions() for part in parts if (body := getattr(part, name, None))}
    assert bodies.keys() == api_functions().keys()
    for name, method in api_functions().items():
        assert find_defaults(method).items() <= find_defaults(bodies[name]).items(), name


def find_defaults(function: Callable[..., object]) -> dict[str, object]:
    """Return the default of each parameter of a function."""
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}
