"""Values that a turn of the strategy `topics` freezes."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from zoea.settings.topic_source import TopicSource


class TopicRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits and texts of the strategy `topics` in one turn.

    Attributes:
        opening, ending: The text of the system message before and after the template's prompt.
        sources: Each a `TopicSource` as JSON.
        is_capped: Whether another setting than the strategy's own gives the budget.
        own_tokens, agent_tokens: The strategy's own budget, and that of all requests where it is set; 0 if unknown.
        cluster_id: The part of the ledger that is read.
        until: The newest ledger id that the turn may show.
        last_task_end, last_agent_start: The places that `since` names.
        triggers: Ledger id and topic of each message that opened the turn, which no source shows again.
    """

    opening: str = ""
    ending: str = ""
    role: str = ""
    sources: tuple[str, ...] = ()
    is_capped: bool = False
    own_tokens: int = 0
    agent_tokens: int = 0
    cluster_id: int = 0
    until: int = 0
    last_task_end: int = 0
    last_agent_start: int = 0
    triggers: tuple[tuple[int, str], ...] = ()


def write_source(source: TopicSource) -> str:
    """Return a source as JSON with the keys that it sets."""
    return source.model_dump_json(exclude_unset=True)


@lru_cache(maxsize=256)
def read_source(text: str) -> TopicSource:
    """Restore a source that `write_source` wrote."""
    return TopicSource.model_validate_json(text)
