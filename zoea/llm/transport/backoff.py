"""How long to wait before the next attempt: full jitter under a doubling ceiling.

Pure, so that the turn machine can use it. Source: turns.md, "A turn", 4.
"""

from __future__ import annotations

FIRST_S = 0.5
MAXIMUM_S = 20.0
RETRIES = 4


def backoff(
    attempt: int,
    jitter: float,
    first: float = FIRST_S,
    maximum: float = MAXIMUM_S,
    retry_after: float | None = None,
) -> float:
    """Seconds to wait after the failed attempt number `attempt` (1 is the first).

    `jitter` is a number in [0, 1). Where the provider named a time, that is the
    least, and the jitter comes on top of it, so that those who were refused
    together do not come back together.
    """
    ceiling = min(maximum, first * 2.0 ** min(max(attempt - 1, 0), 62))
    spread = ceiling * jitter
    return spread if retry_after is None else max(retry_after, 0.0) + spread
