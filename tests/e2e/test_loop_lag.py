"""An event loop that is held up, in a real process: `zoea doctor` and the log tell of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.zoea_process import PATIENCE_S, environment, find_owner, zoea
from tests.waiting import until_true
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


def test_doctor_tells_that_the_event_loop_was_held_up_and_the_log_names_the_code() -> None:
    command = [sys.executable, "-m", "tests.e2e.hindered_cockpit", "lag", "", "run", "--headless"]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL) as owner:
        until_true(find_owner, within=PATIENCE_S)

        def is_told() -> bool:
            findings = json.loads(zoea("doctor", "--json").stdout)["findings"]
            is_named = (
                "hold_up_upstreams.<locals>.upstreams" in places("").log.read_text()
            )  # a busy machine holds it up too
            return is_named and any(
                one["name"] == "event loop" and "did not react for" in one["problem"] for one in findings
            )

        until_true(is_told, within=PATIENCE_S)
        assert zoea("stop", "--swarm").returncode == 0
        assert owner.wait(PATIENCE_S) == 0
    assert "the event loop was held up for" in places("").log.read_text()
