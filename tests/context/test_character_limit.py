"""The limit on characters for a pack of messages."""

from __future__ import annotations

from zoea.context import Pack, Plan, Reason, plan
from zoea.model.enums import Role
from zoea.model.request import RequestCall, RequestMessage


def slices(*sizes: int) -> tuple[RequestMessage, ...]:
    messages = [RequestMessage(Role.USER, "go")]
    for number, size in enumerate(sizes):
        messages.append(RequestMessage(Role.ASSISTANT, "", calls=(RequestCall(f"c{number}", "mine", "{}"),)))
        messages.append(RequestMessage(Role.TOOL, "x" * size, call_id=f"c{number}", name="mine", memory_id=number))
    return tuple(messages)


def guarded(messages: tuple[RequestMessage, ...], max_chars: int) -> Plan:
    return plan([Pack("turn", "turn", "required", messages, preserve=True)], max_chars=max_chars)


def test_old_results_are_cut_first_and_calls_keep_their_ids() -> None:
    made = guarded(slices(2000, 2000, 2000), 5000)
    contents = [len(message.content) for message in made.messages if message.role is Role.TOOL]
    assert contents[0] < 2000
    assert contents[1:] == [2000, 2000]
    assert [message.call_id for message in made.messages if message.role is Role.TOOL] == ["c0", "c1", "c2"]
    assert made.truncation.after_chars <= 5000
    (decision,) = made.decisions
    assert (decision.truncated, decision.reason) == (True, Reason.MAX_CHARS)


def test_complete_slices_fold_oldest_first_except_the_last() -> None:
    made = guarded(slices(*[150] * 20), 1500)
    assert made.truncation.after_chars <= 1500
    assert made.messages[0].content == "go"
    assert made.messages[1].content == "(earlier in this turn: mine({}) ok)"
    assert made.messages[-1].content == "x" * 150
    calls = [call.id for message in made.messages for call in message.calls]
    assert calls == [message.call_id for message in made.messages if message.role is Role.TOOL]


def test_texts_and_prompts_are_never_cut_and_sizes_are_reported() -> None:
    made = guarded((RequestMessage(Role.USER, "p" * 500), *slices(300)), 100)
    assert made.messages[0].content == "p" * 500
    assert made.truncation.after_chars == len(made.text) > 100
