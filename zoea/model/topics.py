"""Values of the ledger of topics: ordered messages, delivered to subscribers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from zoea.model.errors import UsageError
from zoea.model.values import ReceiptLine

SWARM_CLUSTER = 0
"""The cluster of messages that belong to no mission."""
IMPORTED_CLUSTER = -1
"""The cluster of messages that came with imported conversations; they are no part of this swarm's ledger."""
EVERYONE = "broadcast"
"""The receiver of a message for all subscribers."""
RAW_TOPIC = "AGENT_OUTPUT"
"""Raw output of agents, which no prompt repeats."""
STATE_TOPICS = (
    "ISSUE_OPENED",
    "PLAN_READY",
    "WORKER_PROGRESS",
    "IMPLEMENTATION_READY",
    "VALIDATION_RESULT",
    "INVESTIGATION_COMPLETE",
)
"""Topics that change the state snapshot."""
SNAPSHOT_TOPIC = "STATE_SNAPSHOT"
SNAPSHOT_SENDER = "state-snapshotter"
METRICS_TOPIC = "CONTEXT_METRICS"
RESERVED_TOPICS = (SNAPSHOT_TOPIC, METRICS_TOPIC)
"""Topics that only Zoea publishes on."""

_COMPARED = 100
"""Comparing takes 0.1 ms a name, and a swarm may have tens of thousands of topics."""
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,79}")


class TopicMessage(Struct, frozen=True):
    """A message of the ledger.

    Attributes:
        id: Its place in the ledger; ascending within a cluster.
        cluster_id: A mission, or 0 for the swarm.
        sender: `commander`, the name of a mysis or client, or Zoea's own part.
        data: A JSON object, or None.
        receiver: The name of a mysis, or `broadcast`.
        created_at: µs UTC.
        is_raw: Whether it is raw output of an agent, which no prompt repeats.
    """

    id: int
    cluster_id: int
    topic: str
    sender: str
    text: str
    data: dict[str, Any] | None = None
    receiver: str = EVERYONE
    created_at: int = 0
    is_raw: bool = False

    @property
    def may_be_replayed(self) -> bool:
        """Whether a prompt may hold it."""
        return not self.is_raw and self.topic != RAW_TOPIC


class TopicSummary(Struct, frozen=True):
    """A topic with the number of its messages and its newest one. The text is cut."""

    topic: str
    messages: int
    newest_id: int
    newest_sender: str
    newest_text: str
    newest_at: int


class PublishReceipt(Struct, frozen=True):
    """The result of publishing: the id in the ledger, and a line for each subscriber.

    `snapshot_id` is the state snapshot that the message led to, if any.
    """

    id: int
    topic: str
    lines: tuple[ReceiptLine, ...] = ()
    snapshot_id: int | None = None

    @property
    def delivered(self) -> int:
        return sum(1 for line in self.lines if line.status not in ("skipped", "withdrawn"))


def check_topic(name: str) -> str:
    """Return the name of a topic without surrounding space. Raises UsageError with the rules."""
    name = name.strip()
    if not _TOPIC.fullmatch(name):
        raise UsageError(
            f"{name!r:.100} cannot be a topic",
            hint="use 1 to 80 letters, digits, '_', '-', '.', ':' or '/', starting with a letter or digit",
        )
    return name


def check_published_topic(name: str) -> str:
    """Return the name of a topic that others than Zoea may publish on. Raises UsageError."""
    name = check_topic(name)
    if name in RESERVED_TOPICS:
        raise UsageError(f"only Zoea publishes on {name}", hint="choose another topic")
    return name


def no_such_topic(name: str, known: Sequence[str]) -> UsageError:
    """Return the error for a topic without messages. It names the nearest of the first `_COMPARED` known ones."""
    near = get_close_matches(name.upper(), known[:_COMPARED], n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known[:20]) or 'none yet'}"
    return UsageError(f"there is no message on the topic {name}", hint=hint)
