"""Plans of the planning rules 2, recorded with all they were made from: `python -m tests.context.recorded_plans`.

`recorded/plans-2.json.gz` was written before release 0.1.0. Never write it again with later code: it proves that a turn
opened under rules 2 is still planned byte for byte as it was.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from tests.context.sample_histories import HOSTILE, TOOLS, Asked, Recorder
from zoea.context import (
    FrozenTurn,
    LastAnswer,
    LatestSlice,
    Need,
    NeedAnswer,
    StandingOrder,
    TurnRecord,
    TurnSoFar,
    encode,
    plan_turn,
)
from zoea.model.errors import PlanError
from zoea.model.values import Memory

RECORD = Path(__file__).parent / "recorded" / "plans-2.json.gz"
BUDGETS = (50_000, 8_000, 3_000, 1_200)
_NEEDS: dict[str, type[Any]] = {one.__name__: one for one in (LastAnswer, LatestSlice, StandingOrder, TurnSoFar)}


def read_record() -> list[dict[str, Any]]:
    """Return the recorded plans: frozen values, system prompt, answers, and what was planned."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(RECORD.read_bytes()))
    return found


def plan_again(entry: dict[str, Any]) -> dict[str, Any]:
    """Plan a recorded request with the present code."""
    frozen = FrozenTurn.from_json(json.dumps(entry["frozen"]), system=entry["system"])
    return _planned(frozen, {_need(need): _answer(answer) for need, answer in entry["answers"]})


def _planned(frozen: FrozenTurn, answers: dict[Need, NeedAnswer]) -> dict[str, Any]:
    try:
        plan = plan_turn(frozen, answers)
    except PlanError as error:
        return {"error": [error.what, error.hint]}
    messages = [to_builtins(message) for message in plan.messages]
    made: dict[str, Any] = json.loads(json.dumps({"plan": encode(plan), "messages": messages}))
    return made


def _need(value: list[Any]) -> Need:
    name, *given = value
    need: Need = _NEEDS[name](*given)
    return need


def _answer(value: Any) -> NeedAnswer:
    return convert(value, TurnRecord) if isinstance(value, dict) else convert(value, tuple[Memory, ...])


def _play(recorder: Recorder, chance: random.Random) -> Iterator[Recorder]:
    """Add turns of all kinds; yield where a request would be planned."""
    for turn in range(6):
        prompts = [chance.choice((*HOSTILE, "go on", "look " * 40)) or "go" for _ in range(chance.choice((1, 1, 2)))]
        label = chance.choice(("", "", "[message from mysis beta]"))
        recorder.open(*(() if turn and chance.random() < 0.3 else prompts), label=label)
        yield recorder
        for _ in range(chance.randrange(7)):
            asked = [_call(chance) for _ in range(chance.choice((1, 1, 1, 3)))]
            thought = chance.choice(("", "", "thinking " * 60))
            answer = recorder.answer(chance.choice(("", "I look.")), *asked, reasoning=thought)
            for place in chance.sample(range(len(asked)), len(asked)):
                text = chance.choice((*HOSTILE, "saw it", "word " * 300, "x" * 9_000))
                recorder.result(answer, place, text, is_error=chance.random() < 0.1)
            if chance.random() < 0.15:
                recorder.steer("also this")
            if chance.random() < 0.1:
                recorder.note("You repeat yourself.")
            yield recorder
        if chance.random() < 0.8:
            recorder.answer(chance.choice(("Done.", "All is well. " * 60)))


def _call(chance: random.Random) -> Asked:
    return Asked(chance.choice(TOOLS), chance.choice(("{}", '{"n": 1}', json.dumps({"text": "y" * 3_000}))))


def _record() -> list[dict[str, Any]]:
    entries = []
    for seed in range(10):
        chance = random.Random(seed)
        values: dict[str, Any] = {
            "keep_answer": chance.random() < 0.7,
            "situation": chance.choice(("", "Time: noon\nhere")),
        }
        values |= {"calibration": chance.choice((1.0, 1.3)), "tools_tokens": chance.choice((0, 400))}
        for recorder in _play(Recorder(), chance):
            frozen = replace(recorder.frozen(**values), max_tokens=chance.choice(BUDGETS))
            answers: dict[Any, Any] = dict(recorder.answers(frozen))
            stored = json.loads(frozen.to_json())
            plain = [
                [[type(need).__name__, *(getattr(need, name) for name in need.__struct_fields__)], to_builtins(answer)]
                for need, answer in answers.items()
            ]
            entries.append(
                {"frozen": stored, "system": frozen.system, "answers": plain, "made": _planned(frozen, answers)}
            )
    return entries


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    text = json.dumps(_record(), ensure_ascii=False, separators=(",", ":"))
    RECORD.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0))
