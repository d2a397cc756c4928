"""Metrics: what a real parser reads of a swarm that worked, and names that the dashboard uses."""

from __future__ import annotations

import asyncio
import json
import re
from operator import methodcaller
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.llm.prices import PriceList
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import ErrorClass
from zoea.model.errors import OwnerError, ProviderError
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.process.connection_limit import CLOSING
from zoea.runtime.swarm_metrics import CONTENT_TYPE, SwarmMetrics
from zoea.settings.schema import Settings
from zoea.web.metrics_server import MAX_CONNECTIONS, MetricsServer

DASHBOARD = Path(__file__).parents[2] / "documentation" / "observability" / "zoea-dashboard.json"
CANARY = "canary-4711-zebra"
WRITTEN = "context.summary"
NOW = 1_700_000_000_000_000


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def metrics_of(s: Swarm, *, is_from_now: bool = False) -> SwarmMetrics:
    return SwarmMetrics(s.path, Settings, s.clock.now, stats=s.store.stats, is_from_now=is_from_now)


async def work(s: Swarm, name: str = "alpha") -> None:
    await s.commander.create(name, model="priced", start=False)
    await s.commander.send(name, CANARY)
    await s.settled_in_time(name)


def replies() -> Rule:
    used = Usage(input_tokens=100, cached_tokens=60, output_tokens=20, reasoning_tokens=5)
    return script(
        ProviderError("busy", kind=ErrorClass.TRANSIENT),
        Answer(calls=(call("look", CANARY),), usage=used),
        Answer(text=CANARY, usage=used),
    )


def priced(tmp_path: Path) -> PriceList:
    (tmp_path / "prices.toml").write_text("[model.priced]\ninput = 10\noutput = 100\n")
    return PriceList(tmp_path / "prices.toml")


async def test_a_real_parser_reads_what_a_swarm_did(tmp_path: Path) -> None:
    async with swarm(tmp_path, replies(), prices=priced(tmp_path)) as s:
        live = metrics_of(s, is_from_now=True)
        assert samples(live.render().decode())["zoea_myses", (("state", "running"),)] == 0
        await work(s)
        text = live.render().decode()
        found = samples(text)
        model = (("model", "priced"), ("outcome", "answered"), ("provider", s.provider.name))
        failed = (("model", "priced"), ("outcome", "transient"), ("provider", s.provider.name))
        assert (found["zoea_llm_calls_total", model], found["zoea_llm_calls_total", failed]) == (2, 1)
        tokens = {kind: found["zoea_llm_tokens_total", (("kind", kind),)] for kind in ("input", "cached", "output")}
        assert tokens == {"input": 200, "cached": 120, "output": 40}
        assert found["zoea_llm_cost_dollars_total", ()] == pytest.approx(2 * (100 * 10 + 20 * 100) / 1e6)
        assert found["zoea_turns_total", (("outcome", "answered"),)] == 1
        assert found["zoea_tool_calls_total", (("outcome", "done"), ("upstream", "peer"))] == 1
        assert found["zoea_store_commit_seconds_count", ()] > 0
        assert found["zoea_budget_used_ratio", (("scope", "day"),)] == pytest.approx(240 / 2_000_000)
        assert found["zoea_inbox_depth", ()] == 0
        assert samples(live.render().decode())["zoea_llm_calls_total", model] == 2, "nothing is counted twice"
        assert CANARY not in text
        assert "alpha" not in text
        assert "_created" not in text


async def test_a_turn_that_is_open_at_one_scrape_is_counted_at_a_later_one(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        live = metrics_of(s, is_from_now=True)
        block = await s.begin_call("alpha", "go")
        before = samples(live.render().decode())
        assert not any(name == "zoea_turns_total" for name, _ in before)
        block.release()
        await s.settled()
        after = samples(live.render().decode())
        assert after["zoea_turns_total", (("outcome", "answered"),)] == 1
        assert sum(value for (name, _), value in after.items() if name == "zoea_llm_calls_total") == 1


async def test_summaries_are_counted_with_what_they_save(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        live = metrics_of(s, is_from_now=True)
        await s.commander.create("alpha", start=False)
        for status in ("triggered", "failed"):
            numbers = {"tokens_before": 12_000, "tokens": 400, "status": status}
            await s.store.write(methodcaller("emit", "context.summary", 1, **numbers))
        await s.store.write(lambda conn: conn.emit("context.summary_skipped", 1, turn=1))
        found = samples(live.render().decode())
        counts = {
            one: found["zoea_compression_events_total", (("status", one),)]
            for one in ("triggered", "failed", "skipped")
        }
        assert counts == {"triggered": 1, "failed": 1, "skipped": 1}
        assert found["zoea_compression_tokens_saved_sum", ()] == 2 * 11_600
        assert found["zoea_compression_ratio_bucket", (("le", "30.0"),)] == 2


async def test_each_summary_of_a_session_counts_all_that_it_stands_for(tmp_path: Path) -> None:
    window = {"context_window_default": 8, "recents_count": 4}
    own = {"context": {"strategy": "window"}, "nudge": {"enabled": False}, "session": window}
    async with swarm(tmp_path, script(Answer(text="It is done. " * 20)), settings=Settings.model_validate(own)) as s:
        live = metrics_of(s, is_from_now=True)
        await s.commander.create("alpha", start=False)
        for number in range(112):
            await s.ask("alpha", f"Part {number} of the plan is due on day {number * 3}. " * 6)
        found = samples(live.render().decode())
        covered = [
            row["n"] for row in await s.rows("SELECT data ->> 'covered' AS n FROM event WHERE kind = ?", WRITTEN)
        ]
    assert len(covered) == 3
    assert covered[2] > covered[1] + 90 > covered[0] + 180
    assert found["zoea_compression_ratio_count", ()] == 3
    assert found["zoea_compression_ratio_bucket", (("le", "2.0"),)] == 0, "no summary makes a request longer"


async def test_every_name_on_the_dashboard_exists(tmp_path: Path) -> None:
    async with swarm(tmp_path, replies()) as s:
        await work(s)
        families = list(text_string_to_metric_families(metrics_of(s).render().decode()))
    # A counter without a label value yet has its family, but no sample.
    known = {sample.name for family in families for sample in family.samples}
    known |= {f"{family.name}_total" for family in families if family.type == "counter"}
    board = json.loads(DASHBOARD.read_text("utf-8"))
    used = {
        name for panel in board["panels"] for one in panel["targets"] for name in re.findall(r"zoea_\w+", one["expr"])
    }
    assert len(used) >= 15
    assert used - known == set()


async def test_the_server_answers_prometheus_and_refuses_other_host_names(tmp_path: Path) -> None:
    async with swarm(tmp_path, replies()) as s:
        await work(s)
        server = MetricsServer(metrics_of(s).render, CONTENT_TYPE, host="127.0.0.1", port=0)
        await server.open()
        try:
            answer = await asyncio.to_thread(lambda: urlopen(server.address, timeout=20))
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            page = Request(server.address, headers={"Origin": "http://evil.example"})
            with await asyncio.to_thread(lambda: urlopen(page, timeout=20)) as told:
                assert not [name for name in told.headers if name.lower().startswith("access-control-")]
            assert samples(answer.read().decode())["zoea_turns_total", (("outcome", "answered"),)] == 1
            with pytest.raises(HTTPError) as refused:
                await asyncio.to_thread(
                    lambda: urlopen(Request(server.address, headers={"Host": "evil.example"}), timeout=20)
                )
            assert refused.value.code == 403
            refused.value.close()
            other = MetricsServer(metrics_of(s).render, CONTENT_TYPE, host="127.0.0.1", port=server.port)
            with pytest.raises(OwnerError, match="cannot serve metrics"):
                await other.open()
        finally:
            await server.close()


async def test_clients_that_keep_their_connections_and_read_nothing_keep_no_other_out(tmp_path: Path) -> None:
    server = MetricsServer(lambda: b"x" * 4_000_000, CONTENT_TYPE, host="127.0.0.1", port=0)
    await server.open()
    clients: list[asyncio.StreamWriter] = []
    try:
        for _ in range(MAX_CONNECTIONS + CLOSING):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
            clients.append(writer)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await writer.drain()
        answer = await asyncio.to_thread(lambda: urlopen(server.address, timeout=20).read())
        assert len(answer) == 4_000_000
    finally:
        for writer in clients:
            writer.transport.abort()
        await server.close()
