"""`zoea run --metrics`: a real process serves what a real parser reads; `zoea metrics` prints what is stored."""

from __future__ import annotations

import socket
from contextlib import closing
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.zoea_process import spawn, zoea
from tests.waiting import until_true

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _runtime(own_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_WORLD__TICK", "0.2")
    monkeypatch.setenv("ZOEA_NUDGE__IDLE_INTERVAL", "0.2")
    monkeypatch.setenv("ZOEA_CONTEXT_METRICS", "1")


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def turns(text: str) -> float:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return sum(sample.value for sample in families["zoea_turns"].samples)


def test_a_running_swarm_is_scraped_and_its_numbers_are_printed_afterwards() -> None:
    port = free_port()
    play = ("run", "--headless", "--world", "reef", "--provider", "autopilot", "--myses", "2", "--json")
    process = spawn(*play, "--metrics", f"127.0.0.1:{port}")

    def has_turns() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return turns(answer.read().decode()) > 0
        except (URLError, ConnectionError):
            return False

    try:
        until_true(has_turns, within=120)
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=30)
    assert '[ContextMetrics] {"request": 1, ' in said
    printed = zoea("metrics")
    assert turns(printed.stdout) > 0, printed.stderr


def test_a_wrong_address_is_refused_before_anything_starts() -> None:
    refused = zoea("run", "--headless", "--metrics", "nowhere")
    assert refused.returncode == 2
    assert "Write HOST:PORT, such as 127.0.0.1:2112" in refused.stderr
