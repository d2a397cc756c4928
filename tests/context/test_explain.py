"""Explanations of a plan, for `zoea context explain`."""

from __future__ import annotations

import json

from tests.context.sample_histories import Recorder
from zoea.context import Pack, explain, explain_data, plan


def pressed() -> Recorder:
    recorder = Recorder().open("old")
    recorder.slice("get_map", "m" * 9000)
    recorder.answer("well")
    recorder.open("go")
    for number in range(8):
        recorder.slice("mine", f"secret-{number} " * 200)
    recorder.answer("cut o", partial=True)
    return recorder


def test_the_explanation_lists_packs_and_remaining_tokens() -> None:
    text = explain(pressed().plan(), title="alpha, turn 2")
    lines = text.split("\n")
    assert lines[0] == "alpha, turn 2"
    assert lines[1].startswith("21 messages, ")
    assert any(line.split()[:2] == ["history", "full"] for line in lines)
    assert any(line.split() == ["situation", "empty", "nothing", "to", "add"] for line in lines)


def test_the_explanation_lists_omissions_reasons_and_settings() -> None:
    text = explain(pressed().plan(max_tokens=1500))
    assert "history     left out" in text
    assert "over the token budget" in text
    assert "turn memory 5: folded into a line" in text or "turn memory 6: folded into a line" in text
    assert "left out, it was cut off before it was an answer" in text
    assert "turn: budget.token_budget_per_agent = " in text


def test_the_explanation_says_if_required_parts_exceed_the_budget() -> None:
    text = explain(plan([Pack("a", "s", "required", "x" * 80)], max_tokens=10))
    assert "10 tokens over the budget" in text


def test_the_data_is_json_adds_up_and_has_no_memory_text() -> None:
    made = pressed().plan(max_tokens=1500)
    data = json.loads(json.dumps(explain_data(made)))
    assert data["trimmed"] is True
    assert sum(one["tokens"] for one in data["sections"].values()) == data["budget"]["final_tokens"]
    assert sum(one["tokens"] for one in data["packs"]) == data["budget"]["final_tokens"]
    assert "secret" not in json.dumps(data)
