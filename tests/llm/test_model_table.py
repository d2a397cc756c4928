"""The table of well-known models, and unknown values in it."""

from __future__ import annotations

import pytest

from zoea.llm.messages.message_rules import Replay, native_for, replay_of
from zoea.llm.model_table import known
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Native


def test_the_longest_matching_name_wins_with_any_vendor_prefix() -> None:
    assert known("anthropic/claude-haiku-4-5-20251001") == known("claude-haiku-4-5")
    assert known("gpt-4.1-mini") != known("gpt-4o")
    assert known("reef-1") is None


@pytest.mark.parametrize(
    ("model", "replay"),
    [
        ("deepseek-chat", Replay.REASONING_CONTENT),
        ("deepseek-r1:7b", Replay.NONE),
        ("moonshotai/kimi-k2-thinking", Replay.REASONING_CONTENT),
        ("claude-opus-5-5", Replay.NATIVE),
        ("llama3.2", Replay.NONE),
    ],
)
def test_each_family_gets_its_reasoning_back_in_its_form(model: str, replay: Replay) -> None:
    assert replay_of(model) is replay


def test_native_blocks_go_back_to_their_own_provider_and_model_only() -> None:
    message = RequestMessage(Role.ASSISTANT, "", native=Native("reefnet", "m", "[]"))
    assert native_for(message, "reefnet", "m") is message.native
    assert native_for(message, "other", "m") is None
    assert native_for(message, "reefnet", "n") is None
