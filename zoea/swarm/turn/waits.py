"""Decides whether a mysis waits after a turn. Pure.

It waits after `zoea_wait`, or where a result of the turn named ticks ahead and the answer that
followed had no calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from zoea.model.enums import WAIT_TOOL, CallState, Role
from zoea.model.values import Memory
from zoea.swarm.rules import SECOND, WaitRules, to_micros
from zoea.swarm.turn.fingerprint import LARGEST_PARSED, parsed

if TYPE_CHECKING:
    from zoea.settings.schema import WaitSettings

_LONGEST = 3600 * SECOND
_FAR = 30 * 24 * 3600 * SECOND  # results are not trusted: a wait stays below this
_LONGEST_TICK = 24 * 3600 * SECOND
_FRESH_TICKS = 10
_DEEPEST = 8


class Tick(Struct, frozen=True):
    """A tick of an upstream's world, and when a result told it, µs."""

    number: float
    at: int


class Wait(Struct, frozen=True):
    """The end of a wait, µs, and its reason."""

    until: int
    reason: str


def asked(
    memories: tuple[Memory, ...],
    rules: WaitRules,
    at: int,
    tick_length: int,
    *,
    concludes: bool = False,
    known: Mapping[str, Tick] | None = None,
) -> Wait | None:
    """Return the wait of a turn that ends now, if there is one.

    Args:
        memories: Those of the turn, in order.
        at: When it ends, µs.
        tick_length: µs per tick; 0 where it is not learned yet.
        concludes: An answer without calls follows them.
        known: The newest tick that each upstream told before the turn.
    """
    known = known or {}
    seen = newest_ticks(memories, rules)
    length = tick_length or to_micros(rules.wait.default_tick)
    for memory in reversed(memories):
        if memory.role is Role.ASSISTANT and memory.calls:
            by_tool = _by_tool(memory, seen, known.values(), at, length)
            if by_tool is not None:
                return by_tool
            break
    last = next((m for m in reversed(memories) if m.role is Role.ASSISTANT and not m.partial), None)
    if not concludes and (last is None or last.calls):
        return None
    return _by_results(_results(memories, rules), seen, known, at, length)


def _by_tool(memory: Memory, seen: Mapping[str, Tick], known: Iterable[Tick], at: int, length: int) -> Wait | None:
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
        newest = max((*seen.values(), *known), key=lambda tick: tick.at, default=None)
        if newest is None:
            times.append(at + length)
        elif until_tick > newest.number:
            times.append(min(at + _LONGEST, newest.at + _within((until_tick - newest.number) * length, _FAR)))
    return Wait(min(times), reason or "it asked to wait") if times else None


def _by_results(
    results: list[_Result], seen: Mapping[str, Tick], known: Mapping[str, Tick], at: int, length: int
) -> Wait | None:
    """Return the wait that the newest result with ticks ahead asks for.

    A later result of the same tool without such ticks ends it; a result that only contains the
    current tick does not.
    """
    silent: set[str] = set()
    for result in reversed(results):
        memory, names = result.memory, result.names
        current = result.tick
        now = _tick_at(result, seen, known, length)
        for field in names.until_fields:
            is_there, value = _find_field(result.value, field)
            if not is_there or now is None:
                continue
            tick = _number(value)
            if tick is None or tick <= max(now.number, now.number if current is None else current):
                return None
            if memory.tool_name in silent:
                return None
            until = now.at + _within((tick - now.number) * length, _FAR)
            return Wait(until, f"{field} {tick:.15g}") if until > at else None
        for field in names.for_fields:
            ticks = _number(_find_field(result.value, field)[1])
            if ticks is not None and ticks > 0:
                until = memory.created_at + _within(ticks * length, _FAR)
                return Wait(until, f"{field} {ticks:.15g}") if until > at and memory.tool_name not in silent else None
        if current is not None:
            silent.add(memory.tool_name)
    return None


def _tick_at(result: _Result, seen: Mapping[str, Tick], known: Mapping[str, Tick], length: int) -> Tick | None:
    """Return the newest tick that its upstream told. None where that is older than ten ticks."""
    newest = seen.get(result.upstream) or known.get(result.upstream)
    if newest is None or result.memory.created_at - newest.at > _FRESH_TICKS * length:
        return None
    return newest


def learn_tick(memories: tuple[Memory, ...], rules: WaitRules, known: int) -> int:
    """Return the length of a tick, µs, from these memories' first and last tick.

    Ticks are whole: n of them take between n - 1 and n + 1 lengths. `known` is returned where it
    agrees with that.
    """
    results = [result for result in _results(memories, rules) if result.tick is not None]
    seen = [
        (result.tick, result.memory.created_at)
        for result in results
        if result.tick is not None and result.upstream == results[-1].upstream
    ]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return known
    passed, took = seen[-1][0] - seen[0][0], seen[-1][1] - seen[0][1]
    longest = took / (passed - 1) if passed > 1 else math.inf
    if took / (passed + 1) <= (known or to_micros(rules.wait.default_tick)) <= longest:
        return known
    measured = took / passed
    return int(measured) if 1 <= measured <= _LONGEST_TICK else known


def newest_ticks(memories: tuple[Memory, ...], rules: WaitRules) -> dict[str, Tick]:
    """Return the newest tick that each upstream told in these results."""
    return {
        result.upstream: Tick(result.tick, result.memory.created_at)
        for result in _results(memories, rules)
        if result.tick is not None
    }


def told_ticks(memories: tuple[Memory, ...], rules: WaitRules) -> dict[int, float]:
    """Return the tick that each of these results tells, by the id of its memory."""
    return {result.memory.id: result.tick for result in _results(memories, rules) if result.tick is not None}


def _within(duration: float, longest: int) -> int:
    return int(min(duration, longest))


class _Result(Struct, frozen=True):
    """A result that is a JSON object: its upstream, the names of its fields, and the tick it tells."""

    memory: Memory
    upstream: str
    names: WaitSettings
    value: dict[str, Any]
    tick: float | None


def _results(memories: tuple[Memory, ...], rules: WaitRules) -> list[_Result]:
    """Return the results of these memories that may tell of ticks, in order."""
    upstreams = {call.id: call.upstream for memory in memories for call in memory.calls}
    results: list[_Result] = []
    for memory in memories:
        if memory.role is not Role.TOOL or memory.is_error or len(memory.content) > LARGEST_PARSED:
            continue
        upstream = upstreams.get(memory.call_id or 0, "")
        names = rules.names_of(upstream)
        if not any(field in memory.content for field in (*names.tick_fields, *names.until_fields, *names.for_fields)):
            continue
        value = parsed(memory.content)
        if isinstance(value, dict):
            results.append(_Result(memory, upstream, names, value, _told_tick(value, names)))
    return results


def _told_tick(value: dict[str, Any], names: WaitSettings) -> float | None:
    """Return the tick that a result tells, by the first name that it has."""
    ticks = (_number(_find_field(value, field, lists=True)[1]) for field in names.tick_fields)
    return next((tick for tick in ticks if tick is not None), None)


def _find_field(value: Any, field: str, *, lists: bool = False) -> tuple[bool, Any]:
    """Return whether a field occurs at any depth, and its value at the least depth.

    A list of several is looked into only with `lists`: what it names may be of others. JSON in a
    text is looked into as well, because some servers wrap their results so.
    """
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for one in level:
            if isinstance(one, str) and field in one:
                following.append(parsed(one))
            elif isinstance(one, list) and (lists or len(one) == 1):
                following.extend(one)
            elif isinstance(one, dict):
                if field in one:
                    return True, one[field]
                following.extend(one.values())
        level = following
    return False, None


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else, because results are not trusted."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
