"""Scripts wait for answers on the command line: `zoea send --wait` and `zoea broadcast --wait`, as processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_tasks import configure, run
from tests.e2e.zoea_process import ask, find_owner, spawn
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


async def end(process: subprocess.Popen[str], sign: signal.Signals) -> tuple[str, str]:
    process.send_signal(sign)
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    return out, err


async def test_a_script_gets_answers_and_an_exit_code_for_each_outcome(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron at 7.")) as server:
        configure(tmp_path, server)
        owner = spawn("run", "--headless", "--myses", "2")
        try:
            await until(find_owner, within=60)
            await until(lambda: ask("SELECT count(*) FROM mysis") == [(2,)], within=60)

            answered = await run("send", "alpha", "what", "is", "there?", "--wait")
            assert (answered.returncode, answered.stdout) == (0, "Iron at 7.\n"), answered.stderr

            both = await run("broadcast", "report", "--wait", "--json")
            assert both.returncode == 0
            assert [(one["mysis"], one["status"], one["text"]) for one in json.loads(both.stdout)["answers"]] == [
                ("alpha", "answered", "Iron at 7."),
                ("beta", "answered", "Iron at 7."),
            ]
            assert (await run("broadcast", "report", "--wait")).stdout == (
                "alpha:\n    Iron at 7.\nbeta:\n    Iron at 7.\n"
            )

            server.gate.clear()
            late = await run("send", "alpha", "and now?", "--wait", "--timeout", "0.5", "--json")
            assert late.returncode == 12
            assert [one["status"] for one in json.loads(late.stdout)["answers"]] == ["late"]
            assert json.loads(late.stderr)["error"]["what"] == "alpha did not answer within 0.5 s and goes on"

            waiting = spawn("send", "beta", "and you?", "--wait")
            count = "SELECT count(*) FROM delivery WHERE state = 'taken'"
            await until(lambda: ask(count)[0][0] == 7, within=60)
            out, err = await end(waiting, signal.SIGINT)
            assert (waiting.returncode, out) == (130, "")
            assert "No longer waiting" in err  # what follows depends on whether the receipt was there

            server.gate.set()
            assert (await run("hold")).returncode == 0
            held = await run("send", "beta", "still there?", "--wait")
            assert (held.returncode, held.stdout) == (11, "")
            assert "the swarm is on hold" in held.stderr
            unread = await run("send", "beta", "and now?", "--json")
            assert [(one["mysis"], one["status"]) for one in json.loads(unread.stdout)["lines"]] == [
                ("beta", "waiting")
            ]

            assert (await run("hold", "--lift")).returncode == 0
            server.gate.clear()
            ended = spawn("send", "alpha", "one", "more", "--wait")
            await until(lambda: ask("SELECT count(*) FROM message WHERE content = 'one more'") == [(1,)], within=60)
            await end(owner, signal.SIGINT)
            _, err = await asyncio.to_thread(ended.communicate, timeout=60)
            assert ended.returncode == 5, err
            assert "the swarm ended before" in err  # alpha answered, or the receipt was there
        finally:
            owner.kill()
            await asyncio.to_thread(owner.communicate, timeout=30)


async def test_a_timeout_without_a_wait_and_a_turn_of_its_own_that_steers_are_refused() -> None:
    late = await run("send", "alpha", "x", "--timeout", "3")
    assert (late.returncode, "--timeout is for --wait" in late.stderr) == (2, True)
    steered = await run("send", "alpha", "x", "--own-turn", "--mode", "steer")
    assert (steered.returncode, "joins no other turn" in steered.stderr) == (2, True)
