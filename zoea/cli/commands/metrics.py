"""`zoea metrics`: print the metrics of all that is stored."""

from __future__ import annotations

from zoea.process.clock import SystemClock
from zoea.settings import load
from zoea.settings.paths import Places


def metrics(where: Places) -> str:
    """Print the metrics in the text format of Prometheus, with or without a running swarm.

    They count all that is stored. A swarm that was started with --metrics serves the same numbers counted from its
    start, and how long the database takes to store something.
    """
    from zoea.runtime.swarm_metrics import SwarmMetrics  # loads the client of Prometheus

    settings = load(where).settings
    made = SwarmMetrics(where.database, lambda: settings, SystemClock().now)
    return made.render().decode().removesuffix("\n")
