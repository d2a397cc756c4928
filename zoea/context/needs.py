"""The reads a strategy asks for, as values, and their answers.

A strategy is asked in rounds: `needs(frozen, answers)` names what it wants, gets the answers, and is asked
again until it wants nothing new, at most `MAX_ROUNDS` times. The reader that answers does not know the strategy.

There are two kinds of needs:

- Those of this module's union (`LatestSlice` and so on) are rows by id. The op that opens the turn answers
  them, and they are read again after a restart. `InheritedContext` is read after that op, because it may be large.
- An `OutsideNeed` takes a search, a ledger or a model. A reader of `swarm/turn/need_rounds.py` answers it after
  the turn is open and before its first plan. Its answer is JSON (`StoredAnswer`), kept with the turn in the table
  `turn_answer`, so that every request of the turn, also after a restart, has the same one.

A new kind is a frozen subclass of `OutsideNeed`, a reader registered for it, and a strategy that asks for it.
Its fields say all that the answer depends on, bounded by ids frozen with the turn.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from zoea.model.request import RequestMessage
from zoea.model.values import Memory


class LatestSlice(Struct, frozen=True):
    """The latest complete loop slice among the `window` newest memories with id <= `before`.

    Answer: those memories, or a part that holds the slice; the strategy picks it.
    """

    before: int
    window: int


class LastAnswer(Struct, frozen=True):
    """The final answer of the previous turn: its last assistant memory without calls. Answer: one memory or none."""

    before: int


class StandingOrder(Struct, frozen=True):
    """The newest user memory with id <= `before`, at any distance. Answer: one memory or none."""

    before: int


class TurnSoFar(Struct, frozen=True):
    """All memories and notes of the turn. Answer: a `TurnRecord`."""

    turn_id: int


class EarlierTurns(Struct, frozen=True):
    """Earlier turns as a whole, by the ids of their rows. Answer: their memories, in conversation order."""

    turn_ids: tuple[int, ...]


class MemoriesById(Struct, frozen=True):
    """Memories by their ids. Answer: those that are still there, in the order of the ids."""

    memory_ids: tuple[int, ...]


class InheritedContext(Struct, frozen=True):
    """The conversation of a commit, by its row, with at most `max_tokens` verbatim.

    Commits never change, so it is read again after a restart. Answer: `InheritedMessages`.

    Attributes:
        from_root: Also what summaries of the window stand for, as far as it fits.
    """

    commit: int
    max_tokens: int
    from_root: bool = False


class OutsideNeed(Struct, frozen=True):
    """A need that rows by id cannot answer. Subclasses have fields of plain values.

    Answer: a `StoredAnswer`, stored with the turn under `key` before the first plan.
    """

    @property
    def key(self) -> str:
        """The name and the fields as JSON. Needs of one turn with equal keys share an answer."""
        values = [getattr(self, name) for name in self.__struct_fields__]
        return json.dumps([type(self).__name__, *values], ensure_ascii=False)


class ShownConversation(OutsideNeed, frozen=True):
    """What the strategy `window` shows of the conversation, of memories with id <= `before`.

    Answer: ids of memories (`primers`, `recents`, `elided`), the text of the `summary`, `steps`: what was given up to
    fit, in words, `is_for_budget`: whether something was, or is summarised now, because of the budget, `whole`: the
    estimate by which messages are summarised, or 0 where the window cannot show all, and `verbatim`: the tokens of all
    messages that may be shown.
    """

    before: int


class Recall(OutsideNeed, frozen=True):
    """The best hits for the prompts' words among older memories. Those have ids <= `before` and are not `shown`.

    Answer: `{"hits": [[memory id, where the match begins], …], "late": whether the search took too long}`.
    """

    before: int
    items: int
    shown: tuple[int, ...]


class SourceMessages(OutsideNeed, frozen=True):
    """The messages of a `TopicSource` (as JSON), full and compact. Ids are at most `until` and not in `without`.

    Answer: `{"full": text, "compact": text, "messages": how many the full form has}`.
    """

    cluster_id: int
    source: str
    until: int
    last_task_end: int
    last_agent_start: int
    without: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The name and the fields as JSON. An empty last field is left out, as turns of older releases have none."""
        values = [getattr(self, name) for name in self.__struct_fields__]
        return json.dumps([type(self).__name__, *values[: None if self.without else -1]], ensure_ascii=False)


class CriteriaHints(OutsideNeed, frozen=True):
    """What validators could not validate, by the messages with ids up to `until`. Answer: a list of texts."""

    cluster_id: int
    until: int


Need = (
    LatestSlice | LastAnswer | StandingOrder | TurnSoFar | EarlierTurns | MemoriesById | InheritedContext | OutsideNeed
)


class Note(Struct, frozen=True):
    """A loop or budget warning inserted right after the memory with `after_seq`."""

    after_seq: int
    kind: str
    content: str


class TurnRecord(Struct, frozen=True):
    """The turn as stored so far, memories in conversation order."""

    memories: tuple[Memory, ...]
    notes: tuple[Note, ...] = ()


class StoredAnswer(Struct, frozen=True):
    """The answer to an `OutsideNeed`, as JSON text."""

    text: str

    @classmethod
    def of(cls, value: Any) -> StoredAnswer:
        """Encode plain values: None, numbers, texts, lists and dictionaries."""
        return cls(json.dumps(value, ensure_ascii=False, sort_keys=True))

    @property
    def value(self) -> Any:
        """The decoded values."""
        return json.loads(self.text)


class InheritedMessages(Struct, frozen=True):
    """The newest messages of a commit's conversation that fit.

    Attributes:
        whole: How many messages the conversation has.
        left_out: How many of the oldest do not fit, and `left_out_summary` what they say.
        summary: Of the whole conversation.
        tier: How faithful they are; 1 is best, from 3 on they are one text.
    """

    messages: tuple[RequestMessage, ...]
    whole: int
    left_out: int
    left_out_summary: str
    summary: str
    tier: int = 1


NeedAnswer = tuple[Memory, ...] | TurnRecord | StoredAnswer | InheritedMessages

MAX_ROUNDS = 4
"""How often a strategy may want something new in one turn."""
