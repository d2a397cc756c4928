"""Commands of an older or a newer Zoea at the socket of a running swarm: both versions are named, the swarm goes on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.zoea_process import PATIENCE_S, ask, environment, find_owner, spawn, zoea
from tests.waiting import until_true
from zoea import __version__
from zoea.ipc.protocol import PROTOCOL
from zoea.process.lock import read_holder
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(60 + 2 * PATIENCE_S), pytest.mark.usefixtures("own_runtime")]


def greet(arguments: object) -> dict[str, Any]:
    """Say hello at the real socket; the owner's reply."""
    holder = read_holder(places("").data)
    assert holder is not None
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(PATIENCE_S)
        door.connect(holder.socket)
        door.sendall(json.dumps({"id": 1, "method": "hello", "args": arguments}).encode() + b"\n")
        with closing(door.makefile("rb")) as replies:
            reply: dict[str, Any] = json.loads(replies.readline())
    return reply


def test_another_version_is_told_both_and_how_to_go_on_and_harms_nothing() -> None:
    owner = spawn("run", "--headless", "--myses", "1", "--provider", "scripted", stdout=subprocess.DEVNULL)
    try:
        pid = until_true(find_owner, within=PATIENCE_S)
        ours = f"the running swarm is Zoea {__version__} (protocol {PROTOCOL}), this command or cockpit is Zoea"
        older = greet({"protocol": PROTOCOL - 1, "version": "0.0.7"})["error"]
        assert older["what"] == f"{ours} 0.0.7 (protocol {PROTOCOL - 1})"
        assert f"`kill {pid}`" in older["hint"]
        others: list[object] = [{"protocol": PROTOCOL + 1}, {"protocol": None}, {"protocol": [[]] * 9}, {}, [], 7, None]
        for arguments in others:
            assert greet(arguments)["error"]["what"].startswith(ours)
        flood = greet({"protocol": "9" * 1_000_000, "version": "\x1b]0;" + "x" * 1_000_000})["error"]
        assert len(flood["what"]) < 300
        assert "\x1b" not in flood["what"]

        command = [sys.executable, "-m", "tests.e2e.other_version", str(PROTOCOL + 1), "list"]
        newer = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
        assert newer.returncode == 5
        assert f"{ours} 0.0.7 (protocol {PROTOCOL + 1})" in " ".join(newer.stderr.split())
        assert zoea("send", "alpha", "hello").returncode == 0
        until_true(lambda: ask("SELECT 1 FROM turn WHERE outcome = 'answered'"))
    finally:
        owner.terminate()
        _, said = owner.communicate(timeout=PATIENCE_S)
    assert owner.returncode == 0
    assert "Traceback" not in said
