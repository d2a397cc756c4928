"""The life of commits on the command line: lanes, tickets, a redacted word, searches and picks, over real processes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.e2e.test_forks import alpha_at_rest, command, is_idle, told
from tests.e2e.zoea_process import run_headless, zoea
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

LOOK = Say("I look for the copper seam.", calls=(Call("zoea_list_myses", '{"after_id": 7}'),))
SEAM = "The seam ends at 7."


async def test_later_sessions_and_questions_stay_in_the_graph_and_leave_a_ticket_where_it_is(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("It holds iron.")) as server, alpha_at_rest(tmp_path, server):
        await command("ctx", "note", "alpha", "--name", "tkt-7")
        ticket = json.loads(await command("ctx", "refs", "--json"))["ticket/tkt-7"]
        await command("ctx", "ask", "tkt-7", "-m", "Really?")
        for question in ("Why?", "Sure?"):
            await command("ctx", "ask", "tkt-7", "-m", question, "--thread", "t")
        await command("fork", "alpha", "--name", "omega", "-m", "Try it differently")
        await until(lambda: is_idle("omega", 1), within=60)
        await command("ctx", "resume", "@omega", "-m", "And now?")
        await until(lambda: is_idle("omega", 2), within=60)
        names = json.loads(await command("ctx", "refs", "--json"))
        lanes = await command("ctx", "log", "alpha", "--graph", "--oneline")
    assert names["ticket/tkt-7"] == names["@alpha"] == ticket
    lines = re.sub(r"thread/\w{8}/", "thread/NEW/", lanes).splitlines()
    assert [line.partition("ctx-")[2][10:] for line in lines if line] == [
        "(@omega)  And now? … It holds iron.",
        "Try it differently … It holds iron.",
        "(@alpha-3, thread/t/default)  Sure? … It holds iron.",
        "Why? … It holds iron.",
        "(@alpha-2, thread/NEW/default)  Really? … It holds iron.",
        "(@alpha, ticket/tkt-7)  What does the belt hold? … It holds iron.",
    ]
    assert [line.count("│") for line in lanes.splitlines() if line] == [0, 0, 1, 1, 2, 0]


async def test_a_commit_is_found_by_its_texts_maker_and_time(tmp_path: Path) -> None:
    async with (
        OpenAIServer(LOOK, Say(SEAM), otherwise=lambda _: Say("It holds iron.")) as server,
        alpha_at_rest(tmp_path, server),
    ):
        await command("fork", "alpha", "-m", "Try it differently")
        await until(lambda: is_idle("alpha-2", 1), within=60)
        found = await command("ctx", "grep", "after_id")
        blame = await command("ctx", "blame", "seam ends")
        own = await command("ctx", "log", "--since", "1h", "--by", "alpha", "--oneline")
        later = await command("ctx", "log", "--since", "2099-01-01")
        texts = await command("ctx", "log", "--grep", "differently", "--oneline")
        before = await asyncio.to_thread(zoea, "ctx", "at", "2020-01-01")
        after = await command("ctx", "at", "2099-01-01")
        empty = await asyncio.to_thread(zoea, "ctx", "note", "alpha", "--summary", "")
    assert re.fullmatch(r'ctx-\w{8}  assistant  zoea_list_myses\(\{"after_id":7\}\)\n', found)
    assert re.match(rf"ctx-\w{{8}}  \S+ \S+  alpha  assistant by alpha\n  {SEAM}\ninherited by  @alpha-2\n", blame)
    assert [line.partition("  ")[2].split(" … ")[0] for line in own.splitlines() if line] == [
        f"(@alpha)  {SEAM}",
        "What does the belt hold?",
    ]
    assert "ctx-" not in later
    assert re.fullmatch(r"ctx-\w{8}  \(@alpha-2\)  Try it differently … It holds iron\.\n", texts.strip() + "\n")
    assert (before.returncode, "no mysis has a commit at 2020-01-01 or before" in before.stderr) == (2, True)
    assert [line.split()[0] for line in after.splitlines() if line] == ["alpha", "alpha-2"]
    assert (empty.returncode, "a summary cannot be empty" in empty.stderr) == (2, True)


async def test_only_a_redacted_word_is_gone_from_what_forks_and_picks_tell_a_model(tmp_path: Path) -> None:
    async with OpenAIServer(LOOK, Say(SEAM), otherwise=lambda _: Say("It holds iron.")) as server:
        async with alpha_at_rest(tmp_path, server):
            await command("fork", "alpha", "-m", "Try it differently")
            await until(lambda: is_idle("alpha-2", 1), within=60)
            before = told(server.chats[-1].json)[:-1]
        assert "places were replaced by [REDACTED]" in await command("redact", "copper", "--yes")
        async with run_headless():
            await command("send", "alpha-2", "What do you know?", "--wait")
            forked = told(server.chats[-1].json)
            await command("new", "beta")
            await command("ctx", "pick", "alpha~1", "--to", "beta")
            await command("send", "beta", "What now?", "--wait")
            picked = told(server.chats[-1].json)
            checked = await command("ctx", "fsck")
    expected = [(role, text.replace("copper", "[REDACTED]")) for role, text in before]
    assert expected != before
    assert [role for role, _ in expected] == ["user", "assistant", "tool", "assistant"]
    assert forked[:4] == expected, "results stay results, and all other words stay"
    assert picked[:3] == expected[:3]
    assert "all good" in checked
