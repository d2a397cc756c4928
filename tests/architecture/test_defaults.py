"""A default of a setting is stated once: in its field."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.architecture.sources import PACKAGE, SOURCES, nodes_of
from zoea.settings.inert_keys import iterate_fields
from zoea.settings.schema import Settings

SCHEMA = ("schema.py", "endpoints.py", "commit_settings.py", "server_settings.py", "early_defaults.py")
OTHER_THINGS = {
    "llm/discovery.py: host": "this machine, where servers are looked for",
    "web/browser_server.py: host": "this machine, unless an option names another",
    "runtime/model_discovery.py: discover": "whether a command looks for a server at all",
    "world/world_map.py: systems": "the world is a program of its own, without settings",
    "world/world_server.py: tick": "the same",
}
"""Defaults with the name and value of a setting that mean something else."""


def stated(file: Path) -> Iterator[tuple[str, Any]]:
    """Each field and argument with a default, by name, and its value where it is a constant."""
    for node in nodes_of(file):
        pairs: list[tuple[str, ast.expr | None]] = []
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
            with suppress(ValueError):  # it is no constant
                yield name, ast.literal_eval(value) if value is not None else None


def defaults_stated_twice() -> set[str]:
    """Return each field and argument with the name and the default of a setting, as `file: name`."""
    defaults: dict[str, list[Any]] = {}
    for path, field in iterate_fields(Settings):
        defaults.setdefault(path[-1], []).append(field.default)
    return {
        f"{file.relative_to(PACKAGE).as_posix()}: {name}"
        for file in SOURCES
        if not (file.parent.name == "settings" and file.name in SCHEMA)
        for name, value in stated(file)
        if value and any(value == default for default in defaults.get(name.removesuffix("_"), ()))
    }


def test_no_default_of_a_setting_is_stated_twice() -> None:
    assert defaults_stated_twice() == OTHER_THINGS.keys()
