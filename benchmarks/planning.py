"""What planning one request costs: CPU per plan, how it grows with the turn, that texts are not copied.

Run: `python -m benchmarks.planning`. It prints one JSON object; times are µs of CPU, the least of several runs.
`growth` is the cost per memory of a long turn over that of a short one (1.0 = linear). `size` is the cost of a
turn with results of 90,000 characters over the same turn with 2,000 (1.0 = texts are not copied).
`compacting` is a turn whose results outgrow the budget again and again.
`next` plans have the replay of the plan before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from zoea.context import (
    FrozenTurn,
    LastAnswer,
    LatestSlice,
    Need,
    NeedAnswer,
    TurnRecord,
    TurnSoFar,
    encode,
    plan_next,
    plan_turn,
)
from zoea.model.enums import Role, Source
from zoea.model.values import Memory, ToolCall


def turn(memories: int, chars: int) -> tuple[FrozenTurn, dict[Need, NeedAnswer]]:
    """Build a turn of one prompt and `memories - 1` slice messages. Each result has `chars` characters."""
    past = [_memory(1, 1, 1, Role.USER, "old"), *_slice(1, 2, 2, 1, "r" * chars)]
    own = [_memory(4, 2, 1, Role.USER, "go")]
    while len(own) < memories:
        own += _slice(2, 4 + len(own), 1 + len(own), 1 + len(own), "r" * chars)
    frozen = FrozenTurn(1, 2, 2, system="s" * 2000, before=3, max_tokens=10_000_000, max_chars=100_000_000)
    answers: dict[Need, NeedAnswer] = {
        TurnSoFar(2): TurnRecord(tuple(own)),
        LatestSlice(3, 20): tuple(past),
        LastAnswer(3): (),
    }
    return frozen, answers


def _slice(turn_number: int, memory_id: int, seq: int, call: int, result: str) -> list[Memory]:
    made = ToolCall(call, 0, "mine", '{"at": 1}', fingerprint=b"mine")
    return [
        _memory(memory_id, turn_number, seq, Role.ASSISTANT, "", calls=(made,)),
        _memory(memory_id + 1, turn_number, seq + 1, Role.TOOL, result, call_id=call),
    ]


def _memory(
    memory_id: int,
    turn_number: int,
    seq: int,
    role: Role,
    content: str,
    *,
    calls: tuple[ToolCall, ...] = (),
    call_id: int | None = None,
) -> Memory:
    source = {Role.USER: Source.DIRECT, Role.TOOL: Source.TOOL}.get(role, Source.LLM)
    numbers = (memory_id, 1, turn_number, turn_number, seq)
    return Memory(*numbers, role, source, content, calls=calls, call_id=call_id, tool_name="mine" if call_id else "")


def cpu_us(work: Callable[[], object], *, rounds: int = 7, repeats: int = 200) -> float:
    """µs of CPU of one call, the least of `rounds` averages."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, (time.process_time() - started) / repeats)
    return best * 1e6


def _plan_of_next(frozen: FrozenTurn, answers: dict[Need, NeedAnswer]) -> Callable[[], object]:
    """Return the plan of a turn's newest request, given the replay of the request before."""
    record = answers[TurnSoFar(2)]
    assert isinstance(record, TurnRecord)
    _, replay = plan_next(frozen, {**answers, TurnSoFar(2): TurnRecord(record.memories[:-2])}, None)
    return lambda: plan_next(frozen, answers, replay)


def measure() -> dict[str, float]:
    """The numbers that this file is about."""
    few, many = turn(11, 20), turn(201, 20)
    small, large = turn(11, 2000), turn(11, 90_000)
    tight, answers = turn(61, 4000)
    pressed = FrozenTurn(1, 2, 2, system=tight.system, before=3, max_tokens=8000)
    ten = cpu_us(lambda: plan_turn(*few))
    hundreds = cpu_us(lambda: plan_turn(*many), repeats=20)
    planned = plan_turn(*few)
    return {
        "turn_of_11_us": round(ten, 1),
        "turn_of_201_us": round(hundreds, 1),
        "growth": round(hundreds / 201 / (ten / 11), 2),
        "size": round(cpu_us(lambda: plan_turn(*large)) / cpu_us(lambda: plan_turn(*small)), 2),
        "next_of_11_us": round(cpu_us(_plan_of_next(*few)), 1),
        "encode_us": round(cpu_us(lambda: encode(planned)), 1),
        "compacting_turn_of_61_us": round(cpu_us(lambda: plan_turn(pressed, answers), repeats=10), 1),
        "compacting_next_of_61_us": round(cpu_us(_plan_of_next(pressed, answers), repeats=10), 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
