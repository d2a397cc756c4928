"""Metrics of a swarm in the text format of Prometheus.

They are made from stored rows when they are asked for (`queries/metric_rows.py`). No label holds a name or id of a
mysis.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from zoea.queries.budget_report import BudgetUse, read_budgets
from zoea.queries.metric_rows import FinishedRequest, MetricReader, MetricRows
from zoea.settings.schema import Settings
from zoea.store.writer import COMMIT_BOUNDS, WriterStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# They would date what is stored to this process.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SAVED = (100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000)
_RATIOS = (1, 1.5, 2, 3, 5, 8, 12, 20, 30, 50)


class SwarmMetrics:
    """All metrics of one database.

    Args:
        settings: Returns the present settings, for the budgets.
        now: Returns the time, µs.
        stats: The commits of the store; None outside of the process that writes.
        is_from_now: Count what happens from now on, not what is stored.
    """

    def __init__(
        self,
        database: Path,
        settings: Callable[[], Settings],
        now: Callable[[], int],
        *,
        stats: WriterStats | None = None,
        is_from_now: bool = False,
    ) -> None:
        self._database, self._settings, self._now = database, settings, now
        self._reader = MetricReader(database, is_from_now=is_from_now)
        self._lock = threading.Lock()
        self.registry = own = CollectorRegistry()
        self._calls = Counter("zoea_llm_calls", "Model calls.", ("provider", "model", "outcome"), registry=own)
        self._tokens = Counter("zoea_llm_tokens", "Tokens as providers report them.", ("kind",), registry=own)
        self._dollars = Counter("zoea_llm_cost_dollars", "Money spent where the price is known.", registry=own)
        self._seconds = Histogram("zoea_llm_seconds", "Time of a model call.", buckets=_SECONDS, registry=own)
        self._turns = Counter("zoea_turns", "Turns that ended.", ("outcome",), registry=own)
        self._turn_seconds = Histogram("zoea_turn_seconds", "Time of a turn.", buckets=_SECONDS, registry=own)
        self._tools = Counter("zoea_tool_calls", "Tool calls that ended.", ("upstream", "outcome"), registry=own)
        self._nudges = Counter("zoea_nudges", "Turns that a nudge opened.", ("level",), registry=own)
        self._events = Counter(
            "zoea_compression_events", "Summaries made, failed or put off.", ("status",), registry=own
        )
        self._saved = Histogram(
            "zoea_compression_tokens_saved", "Tokens that a summary saves.", buckets=_SAVED, registry=own
        )
        self._ratio = Histogram("zoea_compression_ratio", "Tokens before over after.", buckets=_RATIOS, registry=own)
        self._myses = Gauge("zoea_myses", "Living myses.", ("state",), registry=own)
        self._inbox = Gauge("zoea_inbox_depth", "Messages that no turn has taken.", registry=own)
        self._budgets = Gauge("zoea_budget_used_ratio", "Used share; the largest of a scope.", ("scope",), registry=own)
        for status in ("triggered", "failed", "skipped"):
            self._events.labels(status)
        for state in ("idle", "running", "stopped", "errored"):
            self._myses.labels(state)
        if stats is not None:
            self.registry.register(_CommitCollector(stats))

    def render(self) -> bytes:
        """Read the new rows and return the text of all metrics. Raises StoreError."""
        with self._lock:
            self._feed(self._reader.read())
            self._feed_budgets(read_budgets(self._database, self._settings(), self._now()))
            return generate_latest(self.registry)

    def _feed(self, rows: MetricRows) -> None:
        for request in rows.requests:
            self._feed_request(request)
        for outcome, seconds in rows.turns:
            self._turns.labels(outcome).inc()
            self._turn_seconds.observe(max(0.0, seconds))
        for upstream, state in rows.calls:
            self._tools.labels(upstream, state).inc()
        for level in rows.nudges:
            self._nudges.labels(str(level)).inc()
        for summary in rows.summaries:
            self._feed_summary(str(summary["kind"]), json.loads(str(summary["data"])))
        for state in ("idle", "running", "stopped", "errored"):
            self._myses.labels(state).set(rows.myses.get(state, 0))
        self._inbox.set(rows.inbox)

    def _feed_request(self, request: FinishedRequest) -> None:
        self._calls.labels(request.provider, request.model, request.outcome).inc()
        for kind, count in request.tokens.items():
            self._tokens.labels(kind).inc(count)
        self._dollars.inc(request.cost_micros / 1_000_000)
        if request.seconds is not None:
            self._seconds.observe(request.seconds)

    def _feed_summary(self, kind: str, data: dict[str, object]) -> None:
        if kind == "context.summary_skipped":
            self._events.labels("skipped").inc()
            return
        before, after = (float(str(data.get(key, 0))) for key in ("tokens_before", "tokens"))
        self._events.labels(str(data.get("status", "triggered"))).inc()
        self._saved.observe(max(0.0, before - after))
        self._ratio.observe(before / after if after else 0.0)

    def _feed_budgets(self, budgets: Iterable[BudgetUse]) -> None:
        shares: dict[str, float] = {}
        for one in budgets:
            if one.limit is not None:
                scope = f"{one.scope}_money" if one.is_money else one.scope
                shares[scope] = max(one.share, shares.get(scope, 0.0))
        self._budgets.clear()
        for scope, share in shares.items():
            self._budgets.labels(scope).set(share)


class _CommitCollector(Collector):
    """The commits of the store, as its writer counts them."""

    def __init__(self, stats: WriterStats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[HistogramMetricFamily]:
        histogram = HistogramMetricFamily("zoea_store_commit_seconds", "Time of a COMMIT.")
        counts = tuple(self._stats.commit_counts)
        total, buckets = 0, []
        for bound, count in zip((*map(str, COMMIT_BOUNDS), "+Inf"), counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        histogram.add_metric([], buckets, sum_value=self._stats.seconds)
        yield histogram
