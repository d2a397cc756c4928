"""Reports the sizes of each request, where the environment asks for it.

`ZOEA_CONTEXT_METRICS=1` writes a line `[ContextMetrics] {json}`: to stdout without a screen, else to the log.
`ZOEA_CONTEXT_METRICS_LEDGER=1` publishes the same on the topic CONTEXT_METRICS. The names with ZEROSHOT_ mean the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zoea.model.enums import SenderKind
from zoea.model.topics import METRICS_TOPIC
from zoea.model.values import Sender
from zoea.swarm.commander import Commander
from zoea.swarm.persistence.topic_ops import OutgoingTopicMessage

log = logging.getLogger(__name__)

SENDER = "context-metrics"
_YES = ("1", "true", "yes", "on")
_LINE = ("ZOEA_CONTEXT_METRICS", "ZEROSHOT_CONTEXT_METRICS")
_LEDGER = ("ZOEA_CONTEXT_METRICS_LEDGER", "ZEROSHOT_CONTEXT_METRICS_LEDGER")

Report = Callable[[dict[str, Any]], Awaitable[None]]


def build_context_report(
    commander: Commander, env: Mapping[str, str], write: Callable[[str], None] | None = None
) -> Report | None:
    """Return what reports the numbers of a request; None where the environment asks for nothing.

    Args:
        write: Writes a line; else it goes to the log.
    """
    has_line, has_ledger = (any(env.get(name, "").lower() in _YES for name in names) for names in (_LINE, _LEDGER))
    if not has_line and not has_ledger:
        return None

    async def report(numbers: dict[str, Any]) -> None:
        text = json.dumps(numbers, ensure_ascii=False)
        if has_line:
            (write or log.info)(f"[ContextMetrics] {text}")
        if has_ledger:
            sender = Sender(SenderKind.CLIENT, None, SENDER)
            outgoing = OutgoingTopicMessage(METRICS_TOPIC, "", text, sender)
            await commander.swarm.services.write(lambda conn: commander.publish_in(conn, outgoing))

    return report
