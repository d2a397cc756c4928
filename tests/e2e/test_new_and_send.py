"""What `zoea new` and `zoea send` say and spend, as processes against a server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.test_tasks import configure, run
from tests.e2e.zoea_process import ask, run_headless
from tests.fakes.openai_server import Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]


@asynccontextmanager
async def running(tmp_path: Path, server: OpenAIServer, myses: int) -> AsyncIterator[None]:
    """Run myses without a task in a process."""
    configure(tmp_path, server)
    async with run_headless("--myses", str(myses)):
        yield


async def test_a_new_mysis_gets_a_broadcast_only_if_asked_for_and_answers_its_task(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron at 7.")) as server, running(tmp_path, server, 1):
        missing = await run("new", "beta", "--broadcast")
        assert missing.returncode == 2
        assert "there is no broadcast of yours to all of the last 12 hours" in missing.stderr

        await run("broadcast", "mine", "iron", "--wait")
        plain = await run("new", "beta")
        assert (plain.returncode, plain.stdout) == (0, "beta is running\n")
        chosen = await run("new", "gamma", "--task", "Sell the ore.", "--broadcast")
        assert chosen.stdout.splitlines()[-1].startswith("First it gets your broadcast of ")
        assert chosen.stdout.endswith(" ago: mine iron\n")
        await until(lambda: ask("SELECT 1 FROM turn WHERE mysis_id = 3 AND outcome IS NOT NULL"), within=60)
        prompts = "SELECT content FROM memory WHERE mysis_id = 3 AND role = 'user' ORDER BY turn_id, seq LIMIT 2"
        assert ask(prompts) == [("mine iron",), ("Sell the ore.",)]
        assert ask("SELECT count(*) FROM request WHERE mysis_id = 2") == [(0,)]


async def test_a_limit_of_a_message_that_changes_nothing_is_named_with_what_does(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron at 7.")) as server, running(tmp_path, server, 2):
        name = ask("SELECT name FROM mysis ORDER BY id")[0][0]
        limits = ("--context", "token_budget_per_agent=90000", "--context", "recents_count=5")
        raised = await run("send", name, "go", *limits)
        assert raised.stderr.splitlines() == [
            "token_budget_per_agent=90000 has no effect, because a message can only lower it, and it is 50,000. "
            f"To raise it: zoea configure {name} --set budget.token_budget_per_agent=90000",
            "recents_count has no effect with the strategy turns. "
            f"To change it: zoea configure {name} --set context.strategy=window",
        ]
        lowered = await run("send", name, "go", "--context", "token_budget_per_agent=30000", "--wait")
        assert (lowered.stdout, lowered.stderr) == ("Iron at 7.\n", "")
        both = await run("broadcast", "go", "--budget", "40000", "--wait")
        assert (both.returncode, both.stderr) == (0, "")


async def test_what_keeps_a_mysis_from_its_message_is_told_in_the_words_of_its_row(tmp_path: Path) -> None:
    def answer(request: Received) -> Step:
        if request.json["model"] == "bad":
            return Fail(429, '{"error": {"message": "slow down"}}', {"retry-after": "90"})
        return Say("Iron at 7.")

    async with OpenAIServer(otherwise=answer) as server, running(tmp_path, server, 1):
        await run("new", "beta", "--model", "bad", "--keep-model", "--task", "Look.")
        await until(lambda: ask("SELECT 1 FROM request WHERE error_class IS NOT NULL"), within=60)
        tried = await run("send", "beta", "and", "now?")
        assert re.match(
            r"beta  delivered \(\d+\): it is retrying \(2/5 in \d+ \w+: 429 too many requests\)\n", tried.stdout
        )

        limited = r"waiting \(rate limit of local/bad, \d+ \w+ left\)\n"
        made = await run("new", "gamma", "--model", "bad", "--keep-model", "--task", "Look.")
        assert re.fullmatch(f"gamma is {limited}", made.stdout)
        assert re.match(rf"gamma  delivered \(\d+\): it is {limited}", (await run("send", "gamma", "more")).stdout)
        listed = (await run("list")).stdout
        assert re.search(r"beta +retrying .* 2/5 in \d+ \w+: 429 too many requests\n", listed)
        assert re.search(r"gamma +waiting .* rate limit of local/bad, \d+ \w+ left\n", listed)

        await run("hold", "--reason", "lunch")
        assert (await run("send", "alpha", "go")).stdout.splitlines()[0].endswith("): it is held: lunch")
        assert (await run("new", "delta", "--task", "Look.")).stdout == "delta is held: lunch\n"
