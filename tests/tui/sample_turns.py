"""Sample turns and hostile texts for tests of the conversation."""

from __future__ import annotations

from typing import Any

from zoea.model.enums import CallState, MessageKind, OpenedBy, Outcome, Role, Source
from zoea.model.values import COMMANDER, Memory, Sender, ToolCall
from zoea.queries.conversation import ConversationEntry, ConversationTurn, TurnNote

START = 1_700_000_000_000_000
SECOND = 1_000_000

HOSTILE = (
    "[/] [bold]x[/bold] list[int] [@click=app.quit]x[/]",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x9b31m",
    "漢字 テスト 한국어 \U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 \U0001f1e9\U0001f1ea",
    "\u202egnp.exe \u2066abc\u2069 שלום عالم",
    "nul \x00 bell \x07 back \x08 tab \t cr \r end",
    "x" * 100_000,
    "```\nunclosed",
    "<script>alert(1)</script> <!-- hidden --> &lt;",
    "[a]: http://hidden.example\n",
    "> " * 200 + "deep",
    '{"a": "[/]", "b": [1, {"c": "\\u001b[31m"}]}',
    "",
    " \n \n ",
)


def prompt(memory_id: int, text: str, *, seq: int = 1, sender: Sender = COMMANDER, **more: Any) -> ConversationEntry:
    kind = more.pop("kind", MessageKind.DIRECT)
    memory = Memory(memory_id, 1, 1, 1, seq, Role.USER, Source.DIRECT, text, created_at=START, **more)
    return ConversationEntry(memory, len(text), sender, kind)


def answer(memory_id: int, text: str, *calls: ToolCall, seq: int = 2, **more: Any) -> ConversationEntry:
    took = more.pop("took_us", 1_400_000)
    memory = Memory(memory_id, 1, 1, 1, seq, Role.ASSISTANT, Source.LLM, text, calls=calls, created_at=START, **more)
    return ConversationEntry(memory, len(text), request_id=memory_id, took_us=took)


def result(memory_id: int, call_id: int, text: str, *, seq: int = 3, chars: int | None = None) -> ConversationEntry:
    memory = Memory(memory_id, 1, 1, 1, seq, Role.TOOL, Source.TOOL, text, call_id=call_id, created_at=START)
    return ConversationEntry(memory, len(text) if chars is None else chars)


def call(call_id: int, name: str = "mine", arguments: str = '{"belt": "b-2"}', **more: Any) -> ToolCall:
    given = {"state": CallState.DONE, "started_at": START, "ended_at": START + 400_000, "result_memory_id": 9, **more}
    return ToolCall(call_id, 0, name, arguments, **given)


def turn(*entries: ConversationEntry, **more: Any) -> ConversationTurn:
    given: dict[str, Any] = {
        "id": 1,
        "number": 1,
        "opened_by": OpenedBy.PROMPT,
        "nudge_level": 0,
        "attempt": 1,
        "outcome": Outcome.ANSWERED,
        "broke_off": "",
        "failure": None,
        "opened_at": START,
        "ended_at": START + 14 * SECOND,
        "requests": 1,
        "tokens": 8200,
        "is_estimate": False,
        "notes": (),
    }
    return ConversationTurn(**{**given, **more, "entries": entries})


def noted(after: int, kind: str, text: str) -> TurnNote:
    return TurnNote(after, kind, text)
