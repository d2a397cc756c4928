"""`zoea metrics`: print the metrics of all that is stored."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from zoea.process.clock import SystemClock
from zoea.process.command_line import WORKSPACE_HELP, LightCommand, option
from zoea.settings import load
from zoea.settings.paths import places


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """The command line of `zoea metrics`."""

    workspace: str = option("-w", "--workspace", metavar="NAME", text=WORKSPACE_HELP)


def write_metrics(options: MetricsOptions) -> int:
    """Print the metrics in the text format of Prometheus, with or without a running swarm.

    They count all that is stored. A swarm that was started with --metrics serves the same numbers counted from its
    start, and how long the database takes to store something.
    """
    from zoea.runtime.swarm_metrics import SwarmMetrics  # loads the client of Prometheus

    where = places(options.workspace)
    settings = load(where).settings
    metrics = SwarmMetrics(where.database, lambda: settings, SystemClock().now)
    sys.stdout.write(metrics.render().decode())
    return 0


command = LightCommand("metrics", MetricsOptions, write_metrics)
