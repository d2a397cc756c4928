"""A mysis uses the tools of commits in its turns. It reaches only what its template lets it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, swarm
from tests.swarm.test_commit_capture import read_chain, read_messages
from zoea.model.enums import Role
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.settings.schema import Settings
from zoea.tools import ContextUse, SearchScope, ToolPolicy

USE = ToolPolicy(contexts=ContextUse.USE)
COMMAND = ToolPolicy(contexts=ContextUse.COMMAND)
EVERYTHING = ToolPolicy(contexts=ContextUse.COMMAND, search=SearchScope.SWARM)


class Talk:
    """A swarm of alpha and beta, and the answers that their model gives next.

    Each has answered a message.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.swarm: Swarm

    def rule(self, request: ModelRequest) -> Answer:
        return self.answers.pop(0) if self.answers else Answer(text="Done.")

    async def say(self, name: str, text: str, *answers: Answer) -> None:
        self.answers = list(answers)
        await self.swarm.commander.send(name, text)
        await self.swarm.settled(name)

    async def result(self, name: str, tool: str, *answers: Answer, **arguments: Any) -> str:
        """Let a mysis call a tool in a turn. Return the result that its next request shows."""
        call = AnswerCall(f"zoea_context_{tool}", json.dumps(arguments))
        await self.say(name, f"call {tool}", Answer(calls=(call,)), *answers)
        rows = await self.swarm.rows(
            "SELECT m.content FROM memory m JOIN mysis y ON y.id = m.mysis_id"
            " WHERE m.role = 'tool' AND y.name = ? ORDER BY m.id DESC LIMIT 1",
            name,
        )
        return str(rows[0]["content"])

    async def use(self, name: str, tool: str, *answers: Answer, **arguments: Any) -> dict[str, Any]:
        result = await self.result(name, tool, *answers, **arguments)
        assert result.startswith("{"), result
        found: dict[str, Any] = json.loads(result)
        return found


@asynccontextmanager
async def talking(folder: Path, policy: ToolPolicy, **settings: object) -> AsyncIterator[Talk]:
    talk = Talk()
    given = Settings.model_validate(settings)
    async with swarm(folder, talk.rule, policy=policy, settings=given) as talk.swarm:
        for name in ("alpha", "beta"):
            await talk.swarm.commander.create(name)
            await talk.say(name, f"find iron, {name}", Answer(text=f"{name} found iron at 7."))
        yield talk


async def test_a_mysis_lists_reads_finds_and_annotates_its_own_commits(tmp_path: Path) -> None:
    async with talking(tmp_path, USE) as talk:
        (first,) = read_chain(talk.swarm.path, "@alpha")
        (row, *_) = reversed((await talk.use("alpha", "log", context="alpha"))["commits"])
        assert (row["by"], first.id.startswith(row["id"])) == ("alpha", True)
        read = await talk.use("alpha", "materialize", context=row["id"])
        assert [one["content"] for one in read["messages"]] == ["find iron, alpha", "alpha found iron at 7."]
        noted = await talk.use("alpha", "annotate", context=row["id"], summary="Knows the north", tags=["north"])
        assert (noted["summary"], noted["tags"]) == ("Knows the north", ["north"])
        assert await talk.use("alpha", "show", context=row["id"]) == noted
        found = await talk.use("alpha", "resolve", mysis="alpha", at="2099-01-01T00:00:00Z")
        assert found["by"] == "alpha"
        assert "is no time" in await talk.result("alpha", "resolve", mysis="alpha", at="soon")


@pytest.mark.parametrize("capture", ["answer", "every:50", "explicit"])
async def test_a_mysis_commits_what_it_knows_with_the_result_of_its_call(tmp_path: Path, capture: str) -> None:
    async with talking(tmp_path, USE, chain={"capture": capture}) as talk:
        made = await talk.use("alpha", "checkpoint", mysis="alpha", summary="Half way")
        assert made["context"] == "@alpha"
        chain = read_chain(talk.swarm.path, "@alpha")
        (commit,) = [one for one in chain if one.note.summary == "Half way"]
        assert commit.checkpoint == "explicit"
        texts = [one.content for one in read_messages(talk.swarm.path, "@alpha")]
        assert texts[:3] == ["find iron, alpha", "alpha found iron at 7.", "call checkpoint"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("log", {"context": "beta"}),
        ("materialize", {"context": "@beta"}),
        ("show", {"context": "beta~0"}),
        ("resolve", {"mysis": "beta", "at": "2099-01-01T00:00:00Z"}),
        ("annotate", {"context": "beta", "summary": "Mine"}),
        ("checkpoint", {"mysis": "beta"}),
        ("ask", {"context": "beta", "question": "Where is the iron?"}),
        ("fork", {"context": "beta"}),
    ],
)
async def test_the_commits_of_another_mysis_are_refused_and_the_answer_says_why(
    tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    async with talking(tmp_path, COMMAND) as talk:
        before = await talk.swarm.value("SELECT count(*) FROM ctx_note")
        said = await talk.result("alpha", tool, **arguments)
        assert "found iron" not in said
        assert 'search = "swarm"' in said
        assert ("beta is out of your reach" in said) or ("not beta" in said)
        assert len((await talk.swarm.commander.view()).myses) == 2
        notes = await talk.swarm.rows("SELECT summary FROM ctx_note")
        assert len(notes) >= before
        assert "Mine" not in [row["summary"] for row in notes]


async def test_with_the_scope_swarm_a_mysis_reads_and_commits_what_others_know(tmp_path: Path) -> None:
    async with talking(tmp_path, EVERYTHING) as talk:
        read = await talk.use("alpha", "materialize", context="beta")
        assert read["messages"][-1]["content"] == "beta found iron at 7."
        assert (await talk.use("alpha", "checkpoint", mysis="beta"))["is_new"] is False
        asked = await talk.use("alpha", "ask", Answer(text="At 7."), context="beta", question="Where is the iron?")
        assert (asked["is_done"], asked["answer"]) == (True, "At 7.")


async def test_a_fork_reaches_what_it_inherited_and_not_what_came_later(tmp_path: Path) -> None:
    async with talking(tmp_path, USE) as talk:
        at = read_chain(talk.swarm.path, "@alpha")[-1].id
        await talk.swarm.commander.create("carol", commit="@alpha")
        read = await talk.use("carol", "materialize", context=at)
        assert read["messages"][-1]["content"] == "alpha found iron at 7."
        await talk.say("alpha", "and now?", Answer(text="A secret."))
        said = await talk.result("carol", "materialize", context="@alpha")
        assert "alpha is out of your reach" in said
        own = await talk.use("carol", "materialize", context="carol", max_chars=200)
        assert "A secret." not in json.dumps(own)


async def test_a_mysis_asks_its_own_past_and_goes_on_in_the_thread(tmp_path: Path) -> None:
    async with talking(tmp_path, COMMAND) as talk:
        asked = await talk.use("alpha", "ask", Answer(text="Because of iron."), context="alpha", question="Why?")
        assert (asked["is_done"], asked["answer"]) == (True, "Because of iron.")
        thread, answerer = asked["thread"], asked["mysis"]
        again = await talk.use(
            "alpha", "ask", Answer(text="Not copper."), context="alpha", question="And?", thread=thread
        )
        assert (again["mysis"], again["answer"]) == (answerer, "Not copper.")
        (ref,) = [row["name"] for row in await talk.swarm.rows("SELECT name FROM ctx_ref WHERE name LIKE 'thread/%'")]
        read = await talk.use("alpha", "materialize", context=ref)
        assert read["messages"][-1]["content"] == "Not copper."
        assert "out of your reach" in await talk.result("beta", "materialize", context=ref)
        said = await talk.result("beta", "ask", context="beta", question="What?", thread=thread)
        assert f"the thread {thread} is out of your reach" in said
        hops = await talk.swarm.rows("SELECT hop FROM message WHERE sender_kind = 'mysis' ORDER BY id")
        assert [row["hop"] for row in hops] == [1, 1]


async def test_a_mysis_forks_itself_and_tells_the_fork_what_to_do(tmp_path: Path) -> None:
    async with talking(tmp_path, COMMAND) as talk:
        made = await talk.use("alpha", "fork", context="alpha", message="Look in the south")
        name = made["mysis"]["name"]
        await talk.swarm.settled(name)
        (request,) = [one for one in talk.swarm.provider.requests if "Look in the south" in one.messages[-1].content]
        assert "alpha found iron at 7." in [one.content for one in request.messages]
        origin = "SELECT m.sender_name FROM message m WHERE m.content = 'Look in the south' AND m.hop = 1"
        assert await talk.swarm.value(origin) == "alpha"


async def test_far_from_a_person_a_mysis_neither_asks_nor_forks(tmp_path: Path) -> None:
    async with talking(tmp_path, COMMAND, swarm={"max_hops": 1}) as talk:
        for tool, arguments in (("ask", {"question": "Why?"}), ("fork", {})):
            said = await talk.result("alpha", tool, context="alpha", **arguments)
            assert "swarm.max_hops is 1" in said
        assert len((await talk.swarm.commander.view()).myses) == 2


@pytest.mark.parametrize(("policy", "offered"), [(ToolPolicy(), 0), (USE, 6), (COMMAND, 8)])
async def test_only_the_tools_of_the_template_are_offered_and_can_be_called(
    tmp_path: Path, policy: ToolPolicy, offered: int
) -> None:
    async with talking(tmp_path, policy) as talk:
        names = {tool.name for tool in talk.swarm.provider.requests[0].tools if tool.name.startswith("zoea_context_")}
        assert len(names) == offered
        for tool in {"zoea_context_log", "zoea_context_fork"} - names:
            said = await talk.result("alpha", tool.removeprefix("zoea_context_"), context="alpha")
            assert not said.startswith("{")
        assert len((await talk.swarm.commander.view()).myses) == 2
        assert talk.swarm.provider.requests[0].messages[0].role is Role.SYSTEM
