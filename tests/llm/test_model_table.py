"""The table of well-known models, and unknown values in it."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.llm.messages.message_rules import native_for
from zoea.llm.model_table import known, preset_traits
from zoea.llm.model_traits import Trait
from zoea.model.enums import Role
from zoea.model.request import RequestMessage
from zoea.model.values import Native


def test_the_longest_matching_name_wins_with_any_vendor_prefix() -> None:
    assert known("anthropic/claude-haiku-4-5-20251001") == known("claude-haiku-4-5")
    assert known("gpt-4.1-mini") != known("gpt-4o")
    assert known("reef-1") is None


@walk_cases(
    ("model", "traits"),
    [
        ("deepseek-chat", {Trait.REASONING_BACK}),
        ("deepseek-r1:7b", set()),
        ("moonshotai/kimi-k2-thinking", {Trait.REASONING_BACK, Trait.OWN_CALL_IDS}),
        ("claude-opus-5-5", {Trait.FOLDED_SCHEMAS}),
        ("mistral-large-latest", {Trait.SHORT_CALL_IDS}),
        ("mistralai/Devstral-Small", {Trait.SHORT_CALL_IDS}),
        ("google/gemma-2-9b-it", {Trait.NO_SYSTEM}),
        ("gemma2", {Trait.NO_SYSTEM}),
        ("o1-mini", {Trait.NO_SYSTEM, Trait.COMPLETION_TOKENS}),
        ("gpt-5-mini", {Trait.COMPLETION_TOKENS}),
        ("llama3.2", set()),
    ],
)
def test_traits_of_known_models_are_set_beforehand(model: str, traits: set[Trait]) -> None:
    assert preset_traits(model) == traits


def test_native_blocks_go_back_to_their_own_provider_and_model_only() -> None:
    message = RequestMessage(Role.ASSISTANT, "", native=Native("reefnet", "m", "[]"))
    assert native_for(message, "reefnet", "m") is message.native
    assert native_for(message, "other", "m") is None
    assert native_for(message, "reefnet", "n") is None
