"""Decides whether a mysis waits after a turn. Pure.

It waits after `zoea_wait`, or where a result of the turn named ticks ahead and the answer that
followed had no calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from zoea.model.enums import CallState, Role
from zoea.model.values import Memory
from zoea.swarm.rules import SECOND, WaitRules
from zoea.swarm.turn.fingerprint import LARGEST_PARSED, parsed

WAIT_TOOL = "zoea_wait"
_LONGEST = 3600 * SECOND
_FAR = 30 * 24 * 3600 * SECOND  # results are not trusted: a wait stays below this
_LONGEST_TICK = 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Wait:
    """The end of a wait, µs, and its reason."""

    until: int
    reason: str


def asked(
    memories: tuple[Memory, ...], rules: WaitRules, at: int, tick_length: int, *, concludes: bool = False
) -> Wait | None:
    """Return the wait of a turn that ends now, if there is one.

    Args:
        memories: Those of the turn, in order.
        at: When it ends, µs.
        tick_length: µs per tick; 0 where it is not learned yet.
        concludes: An answer without calls follows them.
    """
    length = tick_length or rules.default_tick
    for memory in reversed(memories):
        if memory.role is Role.ASSISTANT and memory.calls:
            by_tool = _by_tool(memory, memories, rules, at, length)
            if by_tool is not None:
                return by_tool
            break
    last = next((m for m in reversed(memories) if m.role is Role.ASSISTANT and not m.partial), None)
    if not concludes and (last is None or last.calls):
        return None
    return _by_results(memories, rules, at, length)


def _by_tool(memory: Memory, memories: tuple[Memory, ...], rules: WaitRules, at: int, length: int) -> Wait | None:
    call = next((c for c in memory.calls if c.name == WAIT_TOOL and c.state is CallState.DONE), None)
    if call is None:
        return None
    arguments = parsed(call.arguments)
    if not isinstance(arguments, dict):
        return None
    reason = str(arguments.get("reason", ""))[:200]
    seconds = _number(arguments.get("seconds"))
    until_tick = _number(arguments.get("until_tick"))
    times = []
    if seconds is not None:
        times.append(at + _within(seconds * SECOND, _LONGEST))
    if until_tick is not None:
        seen = _last_tick(memories, rules)
        if seen is None:
            times.append(at + length)
        elif until_tick > seen[0]:
            times.append(min(at + _LONGEST, seen[1] + _within((until_tick - seen[0]) * length, _FAR)))
    return Wait(min(times), reason or "it asked to wait") if times else None


def _by_results(memories: tuple[Memory, ...], rules: WaitRules, at: int, length: int) -> Wait | None:
    """Return the wait that the newest result with ticks ahead asks for.

    A later result of the same tool without such ticks ends it; a result that only contains the
    current tick does not.
    """
    newest: tuple[float, int] | None = None
    silent: set[str] = set()
    for memory in reversed(memories):
        if memory.role is not Role.TOOL or memory.is_error:
            continue
        result = _object(memory)
        if result is None:
            continue
        current = _number(result.get(rules.tick_field))
        if newest is None and current is not None:
            newest = current, memory.created_at
        for field in rules.until_fields:
            tick = _number(result.get(field))
            if newest is None or current is None or (tick is None and field not in result):
                continue
            if tick is None or tick <= max(current, newest[0]) or memory.tool_name in silent:
                return None
            until = newest[1] + _within((tick - newest[0]) * length, _FAR)
            return Wait(until, f"{field} {tick:.15g}") if until > at else None
        for field in rules.for_fields:
            ticks = _number(result.get(field))
            if ticks is not None and ticks > 0:
                until = memory.created_at + _within(ticks * length, _FAR)
                return Wait(until, f"{field} {ticks:.15g}") if until > at and memory.tool_name not in silent else None
        if current is not None:
            silent.add(memory.tool_name)
    return None


def learn_tick(memories: tuple[Memory, ...], rules: WaitRules, known: int) -> int:
    """Return the length of a tick, µs, from the first and last tick of this turn.

    Ticks are whole: n of them take between n - 1 and n + 1 lengths. `known` is returned where it
    agrees with that.
    """
    seen = [
        (tick, memory.created_at)
        for memory in memories
        if memory.role is Role.TOOL and (tick := _tick(memory, rules)) is not None
    ]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return known
    passed, took = seen[-1][0] - seen[0][0], seen[-1][1] - seen[0][1]
    longest = took / (passed - 1) if passed > 1 else math.inf
    if took / (passed + 1) <= (known or rules.default_tick) <= longest:
        return known
    measured = took / passed
    return int(measured) if 1 <= measured <= _LONGEST_TICK else known


def _within(duration: float, longest: int) -> int:
    return int(min(duration, longest))


def _last_tick(memories: tuple[Memory, ...], rules: WaitRules) -> tuple[float, int] | None:
    for memory in reversed(memories):
        if memory.role is Role.TOOL and (tick := _tick(memory, rules)) is not None:
            return tick, memory.created_at
    return None


def _tick(memory: Memory, rules: WaitRules) -> float | None:
    if rules.tick_field not in memory.content[:LARGEST_PARSED]:
        return None
    result = _object(memory)
    return None if result is None else _number(result.get(rules.tick_field))


def _object(memory: Memory) -> dict[str, Any] | None:
    if len(memory.content) > LARGEST_PARSED:
        return None
    value = parsed(memory.content)
    return value if isinstance(value, dict) else None


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else, because results are not trusted."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
