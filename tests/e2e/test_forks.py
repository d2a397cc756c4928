"""Forks over real processes: what a server is asked first holds the whole conversation, at the price said before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import ask, run_headless, zoea
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

LONG = "The drone looks at the belt and finds iron, nickel and a little gold there. " * 20


async def command(*arguments: str) -> str:
    done = await asyncio.to_thread(zoea, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def is_idle(name: str, turns: int) -> bool:
    answered = "SELECT count(*) FROM turn t JOIN mysis y ON y.id = t.mysis_id WHERE t.outcome = 'answered'"
    return await asyncio.to_thread(ask, f"{answered} AND y.name = '{name}'") == [(turns,)]


@asynccontextmanager
async def alpha_at_rest(tmp_path: Path, server: OpenAIServer, *, settings: str = "") -> AsyncIterator[None]:
    """A running swarm in which alpha has answered one question."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'[provider.local]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "gpt-5"\n'
        f"context_window = 32768\n[nudge]\nenabled = false\n{settings}"
    )
    async with run_headless():
        await command("new", "alpha")
        await command("send", "alpha", "What does the belt hold?")
        await until(lambda: is_idle("alpha", 1), within=60)
        yield


def told(body: Any) -> list[tuple[str, str]]:
    return [(one["role"], one.get("content") or "") for one in body["messages"] if one["role"] != "system"]


async def test_three_forks_know_the_whole_conversation_at_the_tokens_said_before(tmp_path: Path) -> None:
    look = Say(LONG, calls=(Call("zoea_list_myses", "{}"),))
    async with (
        OpenAIServer(look, Say("It holds iron. " + LONG), otherwise=lambda _: Say("Another way, then.")) as server,
        alpha_at_rest(tmp_path, server),
    ):
        log = json.loads(await command("ctx", "log", "alpha", "--json"))
        assert [one["checkpoint"] for one in log] == ["turn_boundary", "turn_boundary"]
        wish = ("fork", "alpha", "-n", "3", "-m", "Try it differently")
        said = json.loads(await command(*wish, "--dry-run", "--json"))
        assert (said["messages"], said["shown"], said["tier"], said["myses"]) == (4, 4, 1, [])
        before = len(server.chats)
        line = await command(*wish)
        assert f"4 messages. First request: about {said['tokens_each']:,} tokens each" in line
        assert (said["cost_micros"], "at no cost" in line) == (0, True)  # its server is on this machine
        assert "Undo: zoea delete alpha-2 alpha-3 alpha-4" in line
        for name in ("alpha-2", "alpha-3", "alpha-4"):
            await until(partial(is_idle, name, 1), within=60)
        first = [request.json for request in server.chats[before:]]
        shown = json.loads(await command("ctx", "show", said["context"], "--json"))
        assert (len(shown["children"]), shown["template_name"]) == (3, "default")
        assert f"template      default@{shown['template'][:8]}\n" in await command("ctx", "show", said["context"])
        estimated = await asyncio.to_thread(ask, "SELECT estimated_tokens FROM request WHERE mysis_id > 1")
        await command("delete", "--yes", "alpha-2", "alpha-3", "alpha-4")
        names = [one["name"] for one in json.loads(await command("list", "--json"))]
    assert names == ["alpha"]
    assert len(first) == 3
    stored = ask("SELECT role, content FROM memory WHERE mysis_id = 1 ORDER BY turn_id, seq")
    for body in first:
        assert [text for _, text in told(body)[1:-1]] == [content for _, content in stored[1:]]
        assert told(body)[0][1].endswith("What does the belt hold?")
        assert told(body)[-1][1].endswith("Try it differently")
        (call,) = [one for message in body["messages"] for one in message.get("tool_calls") or ()]
        assert [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"] == [call["id"]]
    total = sum(row[0] for row in estimated)
    assert abs(total - said["tokens"]) <= 0.05 * total


async def test_forks_made_before_one_was_refused_are_named_with_their_undo(tmp_path: Path) -> None:
    async with (
        OpenAIServer(otherwise=lambda _: Say("It holds iron.")) as server,
        alpha_at_rest(tmp_path, server, settings="[swarm]\nmax_myses = 3\n"),
    ):
        refused = await asyncio.to_thread(zoea, "fork", "alpha", "-n", "5")
        again = await asyncio.to_thread(zoea, "fork", "alpha", "-n", "5", "--json")
    assert (refused.returncode, again.returncode) == (6, 6)
    assert "The swarm is full" in refused.stderr
    assert "Undo: zoea delete alpha-2 alpha-3\n" in refused.stdout
    assert again.stdout == ""


async def test_contexts_are_named_and_forked_by_a_time_while_the_swarm_runs(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("It holds iron.")) as server:
        server.models = [{"id": one, "object": "model"} for one in ("gpt-5", "gpt-5-mini")]
        async with alpha_at_rest(tmp_path, server):
            assert await command("ctx", "note", "alpha", "--name", "storm") == "tag/storm names alpha\n"
            names = json.loads(await command("ctx", "refs", "--json"))
            assert names["tag/storm"] == names["@alpha"]
            assert "nothing is new" in await command("ctx", "commit", "@alpha", "-m", "now")
            made = json.loads(await command("ctx", "commit", "alpha", "--compact", "--extract", "--json"))
            assert (made["type"], made["refs"]) == ("compaction", [f"compact/{names['@alpha'][:12]}"])
            names["@alpha"] = json.loads(await command("ctx", "commit", "alpha", "--snapshot", "--json"))["id"]
            await command("new", "beta", "--from", "@alpha@{2099-01-01}", "--idle")
            assert json.loads(await command("ctx", "refs", "--json"))["@beta"] == names["@alpha"]
            gone = json.loads(await command("ctx", "note", "--remove-name", "storm", "--json"))
            assert gone == {"ref": "tag/storm", "context": None}
            wrong = await asyncio.to_thread(zoea, "fork", "alpha", "--model", "gpt-5-minni")
            assert (wrong.returncode, "gpt-5-mini" in wrong.stderr) == (2, True)
            assert "tag/storm" not in json.loads(await command("ctx", "refs", "--json"))


async def test_a_question_without_an_answer_has_the_exit_codes_of_a_message_that_waits(tmp_path: Path) -> None:
    answers: list[Say | Fail] = [Say("It holds iron."), Fail.error(400, "odd words"), Say(""), Say("")]
    async with OpenAIServer(*answers) as server, alpha_at_rest(tmp_path, server):
        refused = await asyncio.to_thread(zoea, "ctx", "ask", "alpha", "-m", "Why?")
        empty = await asyncio.to_thread(zoea, "ctx", "ask", "alpha", "-m", "Why?")
        server.gate.clear()
        late = await asyncio.to_thread(zoea, "ctx", "ask", "alpha", "-m", "Why?", "--timeout", "1")
    assert (refused.returncode, "odd words" in refused.stderr) == (10, True)
    assert (empty.returncode, "gave no answer: its model returned an empty answer twice" in empty.stderr) == (10, True)
    assert (late.returncode, "goes on: zoea log" in late.stderr) == (12, True)


async def test_a_resumed_mysis_and_two_discussions_are_asked_with_what_the_commit_knew(tmp_path: Path) -> None:
    answers: list[Say | Fail] = [
        Say("It holds iron."),
        Say("I am back."),
        Say("The seam ends."),
        Say("It is deep."),
        Say("As I said."),
    ]
    async with OpenAIServer(*answers) as server, alpha_at_rest(tmp_path, server):
        said = json.loads(await command("ctx", "resume", "@alpha", "-m", "Where were we?", "--json"))
        await until(lambda: is_idle("alpha", 2), within=60)
        finding = json.loads(await command("ctx", "log", "alpha", "--json"))[0]["id"]
        asked = ("ctx", "ask", finding, "--thread")
        first = await asyncio.to_thread(zoea, *asked, "one", "-m", "Why?")
        other = json.loads(await command(*asked, "two", "-m", "How deep?", "--json"))
        again = json.loads(await command(*asked, "one", "-m", "Sure?", "--json"))
        bodies = [told(request.json) for request in server.chats]
        busy = [one["name"] for one in json.loads(await command("list", "--json")) if one["in_turn"]]
        check = json.loads(await command("ctx", "fsck", "--json"))
    assert (said["messages"], said["mysis"]["id"]) == (2, 1)
    assert [text for _, text in bodies[1]][1:] == ["It holds iron.", "[to alpha, from the commander]\nWhere were we?"]
    assert (first.returncode, first.stdout) == (0, "The seam ends.\n")
    assert "4 messages. First request: about " in first.stderr
    assert (other["answer"], again["answer"], busy, check["defects"]) == ("It is deep.", "As I said.", [], [])
    whole = [text.splitlines()[-1] for _, text in bodies[4]]
    asked_of = ["What does the belt hold?", "It holds iron.", "Where were we?", "I am back."]
    assert whole == [*asked_of, "Why?", "The seam ends.", "Sure?"]
    assert [text.splitlines()[-1] for _, text in bodies[3]] == [*asked_of, "How deep?"]
