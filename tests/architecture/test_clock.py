"""The rule of the two clocks: durations are measured on boot time, wall time is read and stored.

A clock that someone sets must not stop a provider, a wait or a retry, so arithmetic with the wall time is allowed only
in the places named here, each with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import PACKAGE, SOURCES, nodes_of, text_of

WALL_CLOCK_READERS = {
    "process/clock.py": "the clock itself",
    "cli/commands/mcp.py": "the time in the name of a copied file",
    "cli/commands/search.py": "'yesterday' and '2h' of a person's search",
    "cli/terminal_rows.py": "how long ago something was, for people to read",
    "settings/trust.py": "when a file was trusted, for people to read",
}
"""Files that read the system's wall time themselves."""

WALL_CLOCK_ARITHMETIC = {
    "chain/bundle_import.py _check_commit": "refuses commits of another machine whose time is ahead of ours",
    "chain/blob_policies.py set_policy": "days that texts are kept, by what is stored",
    "process/clock.py *": "notices that the wall clock was set",
    "llm/transport/admission_gate.py _wall_time": "shows a time of the gate to people",
    "llm/transport/admission_gate.py find_opening": "its `now` is the uptime of the gate",
    "llm/transport/retry_times.py _until": "a Retry-After that is a date",
    "llm/transport/retry_times.py describe_wait": "shows the end of a long wait to people",
    "llm/transport/retry_times.py read_time": "a limit that is reset at a time since 1970",
    "runtime/periodic_tasks.py _release_always": "notices that the wall clock was set",
    "runtime/maintenance.py _look_after": "notices that the wall clock was set",
    "store/retention.py _newest_removable_id": "days of memory.keep_days, by what is stored",
    "store/retention.py remove_unused": "days of memory.keep_days, by what is stored",
    "swarm/approvals.py _ask": "a stored deadline, which moves with the clock",
    "swarm/persistence/approval_ops.py ask_for_budget": "a stored deadline, which moves with the clock",
    "swarm/persistence/approval_ops.py ask_for_call": "a stored deadline, which moves with the clock",
    "swarm/persistence/approval_ops.py ask_again": "a stored deadline, which moves with the clock",
    "swarm/persistence/message_ops.py _check_rate": "messages of the last hour; times ahead are ignored",
    "swarm/persistence/topic_ops.py _check_rate": "messages of the last hour; times ahead are ignored",
    "swarm/persistence/time_ops.py move_after_return": "notices that the wall clock was set back before a start",
    "swarm/persistence/turn_records.py nudges": "nudges of the last hour; times ahead are ignored",
    "swarm/resolved_template.py window_rules": "messages of the last `session.ttl`, by what is stored",
    "swarm/turn/runner_base.py _snapshots": "the age of a stored text, which the model reads",
}
"""Functions that compute with the wall time, and why."""

FRONTS = ("cli/", "tui/", "queries/", "web/")
"""Packages that show ages of what is stored."""

WALL_TIME = re.compile(r"\b(?:_?now|now_us|clock_now|read_wall_time)\b")
"""What a file names that computes with the wall time. Walking the functions of the others takes a second."""

READERS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
METHODS = {name.rpartition(".")[2] for name in READERS}
A_READER = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(READERS)))
"""What a file holds that calls one of them."""


def dotted(node: ast.expr) -> str:
    """`a.b` for the expression `x.a.b`, as far as it is made of names."""
    return ast.unparse(node).split("(")[0] if isinstance(node, ast.Attribute | ast.Name) else ""


def is_wall_time(node: ast.expr, names: set[str]) -> bool:
    """Return whether a node is a call of a clock's `now`, or names its result."""
    if isinstance(node, ast.Name):
        return node.id in names
    if not isinstance(node, ast.Call):
        return False
    called = dotted(node.func).split(".")[-1]
    return called in ("now", "_now", "clock_now", "read_wall_time")


def wall_names(function: ast.AST) -> set[str]:
    """Names that the function assigns the wall time to."""
    found: set[str] = {"now_us"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_wall_time(node.value, set()):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.arg) and node.arg in ("now", "now_us"):
            found.add(node.arg)
    return found


def arithmetic(path: Path) -> Iterator[str]:
    """Functions of the file that subtract, add or compare the wall time."""
    name = path.relative_to(PACKAGE).as_posix()
    if not WALL_TIME.search(text_of(path)):
        return
    for function in nodes_of(path):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = wall_names(function)
        for node in ast.walk(function):
            match node:
                case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                    parts = [left, right]
                case ast.Compare(left=left, comparators=others):
                    parts = [left, *others]
                case _:
                    continue
            if any(is_wall_time(part, names) for part in parts):
                yield f"{name} {function.name}"


def test_the_wall_clock_is_read_in_named_places_only() -> None:
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        if A_READER.search(text_of(path))
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
        if dotted(node.func) in READERS
    }
    assert readers <= set(WALL_CLOCK_READERS), "read `Clock.now` for people, `Clock.uptime` for durations"


def test_durations_are_not_computed_from_the_wall_clock() -> None:
    found = {
        place
        for path in SOURCES
        if not path.relative_to(PACKAGE).as_posix().startswith(FRONTS)
        for place in arithmetic(path)
    }
    allowed = {place for place in found if f"{place.split()[0]} *" in WALL_CLOCK_ARITHMETIC}
    assert found - allowed <= set(WALL_CLOCK_ARITHMETIC), "use `Clock.uptime`, `call_after` or `sleep` for durations"


def test_every_named_place_exists() -> None:
    for place in WALL_CLOCK_ARITHMETIC:
        file, function = place.split()
        text = text_of(PACKAGE / file)
        assert function == "*" or f"def {function}(" in text, place
