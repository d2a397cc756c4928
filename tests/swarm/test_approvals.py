"""Questions to the commander and what they leave behind: grants, denials, expiries, restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from msgspec.structs import replace

from tests.fakes.tool_descriptions import described
from tests.swarm.harness import Peer, Swarm, call, script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.model.enums import ApprovalAnswer, ErrorClass, MysisState
from zoea.model.errors import ProviderError, UsageError
from zoea.model.request import Answer, AnswerCall, ToolSpec
from zoea.queries import conversation
from zoea.queries.stored_swarm import read_approval
from zoea.swarm import approval_commands
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig

BURN = Answer(calls=(call("burn", "it"),))


async def ask(s: Swarm, name: str = "alpha") -> int:
    """Let a mysis ask, and give the number of its question."""
    await s.commander.create(name, start=False)
    await s.commander.send(name, "go")
    row = s.commander.swarm.live_view.row(s.commander.swarm.runner(name).mysis.id)
    await s.until(lambda: row.approvals)
    return (await s.commander.approvals())[-1].id


async def test_a_question_shows_the_call_whole_and_until_when(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await ask(s)
        [asked] = await s.commander.approvals()
        assert (asked.mysis, asked.tool, asked.upstream, asked.arguments) == ("alpha", "burn", "peer", '{"text": "it"}')
        assert asked.expires_at - asked.asked_at == 30 * 60 * 1_000_000


@pytest.mark.parametrize(
    ("arguments", "reason"), [("{}", "burn was not called: text is missing"), ("[]", "must be a JSON object")]
)
async def test_a_call_that_cannot_be_made_asks_nobody(tmp_path: Path, arguments: str, reason: str) -> None:
    broken = Answer(calls=(AnswerCall("burn", arguments, "c1"),))
    async with swarm(tmp_path, script(broken, Answer(text="done"))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).text == "done")
        assert await s.value("SELECT count(*) FROM approval") == 0
        assert reason in await s.value("SELECT content FROM memory WHERE role = 'tool'")
        assert s.peer.seen == []


async def test_the_list_of_questions_is_bounded_and_says_which_calls_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_commands, "LISTED_CHARS", 1_500)
    sells = Answer(calls=tuple(call("burn", letter * 1_000) for letter in "abc"))
    async with swarm(tmp_path, script(sells, Answer(text="done"))) as s:
        await ask(s)
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals == 3)
        listed = await s.commander.approvals()
        assert [(len(one.arguments), one.is_cut) for one in listed] == [(1_012, False), (300, True), (300, True)]
        whole = read_approval(tmp_path / "zoea.db", listed[1].id)
        assert whole is not None
        assert whole.arguments == json.dumps({"text": "b" * 1_000})
        monkeypatch.setattr(approval_commands, "MOST_LISTED", 2)
        assert [one.id for one in await s.commander.approvals()] == [one.id for one in listed[:2]]
        await s.commander.answer(listed[0].id, ApprovalAnswer.DENIED)
        after = await s.commander.approvals()
        assert [(one.id, one.is_cut) for one in after] == [(listed[1].id, False), (listed[2].id, True)]
        await s.commander.answer(listed[1].id, ApprovalAnswer.DENIED)
        assert read_approval(tmp_path / "zoea.db", listed[1].id) is None


async def test_a_question_in_words_is_told_apart_from_a_call_that_waits(tmp_path: Path) -> None:
    asks = Answer(calls=(AnswerCall("zoea_ask", '{"question": "Sell?"}', "q1"),))
    async with swarm(tmp_path, script(asks, BURN, Answer(text="done"))) as s:
        await ask(s)
        row = s.commander.swarm.live_view.row(1)
        await s.until(lambda: (row.approvals, row.questions) == (1, 1))
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, ApprovalAnswer.ONCE, sentence="Sell")
        await s.until(lambda: (row.approvals, row.questions) == (1, 0))
        assert row.freeze().questions == 0


async def test_an_answer_counts_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        number = await ask(s)
        await s.commander.answer(number, ApprovalAnswer.ONCE)
        await s.settled()
        assert s.peer.seen == [("burn", "it")]
        with pytest.raises(UsageError, match="does not wait for an answer"):
            await s.commander.answer(number, ApprovalAnswer.DENIED)
        with pytest.raises(UsageError, match="does not wait for an answer"):
            await s.commander.answer(99, ApprovalAnswer.ONCE)


async def test_allowed_once_is_asked_again(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, BURN, Answer(text="done"))) as s:
        await s.commander.answer(await ask(s), ApprovalAnswer.ONCE)
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals and len(s.peer.seen) == 1)


async def test_a_grant_for_the_template_holds_for_its_myses_and_across_a_restart(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await s.commander.create("beta", start=False)
        await s.commander.answer(await ask(s), ApprovalAnswer.TEMPLATE)
        await s.settled()
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await s.ask("beta", "go")
        assert s.peer.seen == [("burn", "it")]
        assert await s.commander.approvals() == ()


ONCE_MORE = (BURN, Answer(text="done"))
BROKEN = ProviderError("no", kind=ErrorClass.BAD_REQUEST)


async def grants(s: Swarm) -> list[bool]:
    """Return for each grant whether it is valid. Check that the queue of this process says so too."""
    held = await s.rows("SELECT mysis_id, upstream, tool, schema_hash, revoked_at FROM grant_ ORDER BY id")
    kept = [(row["mysis_id"], row["upstream"], row["tool"], row["schema_hash"]) for row in held]
    valid = {key for key, row in zip(kept, held, strict=True) if row["revoked_at"] is None}
    for mysis_id, upstream, tool, schema_hash in kept:
        spec = ToolSpec(tool, "", {}, upstream=upstream, schema_hash=schema_hash)
        is_granted = s.commander.swarm.services.approvals.is_granted(mysis_id, "", spec)
        assert is_granted == ((mysis_id, upstream, tool, schema_hash) in valid)
    return [row["revoked_at"] is None for row in held]


async def test_a_grant_answers_what_else_waits_and_is_covered_by_it(tmp_path: Path) -> None:
    twice = Answer(calls=(call("burn", "it"), call("burn", "more"), AnswerCall("zoea_ask", '{"question": "Hm?"}', "q")))
    async with swarm(tmp_path, script(twice, BURN, twice, Answer(text="done"))) as s:
        alpha, beta = await s.commander.create("alpha", start=False), await s.commander.create("beta", start=False)
        for name in ("alpha", "beta"):
            await s.commander.send(name, "go")
            await s.until(lambda: s.commander.swarm.live_view.row(alpha.id).approvals >= 2)
        await s.until(lambda: s.commander.swarm.live_view.row(beta.id).approvals)
        first = (await s.commander.approvals())[0]
        await s.commander.answer(first.id, ApprovalAnswer.SESSION)
        await s.until(lambda: [text for _, text in s.peer.seen].count("more") == 1)
        assert [one.mysis for one in await s.commander.approvals() if one.tool == "burn"] == ["beta"]
        assert s.peer.seen == [("burn", "it"), ("burn", "more")]
        await s.tell("gamma", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(3).approvals >= 2)
        last = next(one for one in await s.commander.approvals() if one.tool == "burn")
        await s.commander.answer(last.id, ApprovalAnswer.TEMPLATE)
        await s.until(lambda: len(s.peer.seen) == 5)
        assert not [one for one in await s.commander.approvals() if one.tool == "burn"]
        told = [json.loads(row["data"]) for row in await s.rows("SELECT data FROM event WHERE kind LIKE '%.answered'")]
        assert [one["answer"] for one in told if "by_grant" not in one] == ["session", "template"]
        assert {one["answer"] for one in told if "by_grant" in one} == {"once"}


async def test_a_grant_for_the_session_outlasts_turns_idleness_and_errors_until_the_mysis_stops(tmp_path: Path) -> None:
    found = templates(tmp_path, once='run = "once"')
    async with swarm(
        tmp_path, script(*ONCE_MORE, *ONCE_MORE, BROKEN, BURN, Answer(text="done"), BURN), templates=found
    ) as s:
        await s.commander.create("alpha", template="once", start=False)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.answer(1, ApprovalAnswer.SESSION)
        await s.until(lambda: s.state() is MysisState.IDLE)
        await s.settled()
        assert await grants(s) == [True]
        await s.ask("alpha", "again")
        await s.commander.send("alpha", "and again")
        await s.until(lambda: s.state() is MysisState.ERRORED)
        await s.commander.start("alpha")
        await s.ask("alpha", "once more")
        assert s.peer.seen == [("burn", "it")] * 3
        await s.commander.stop("alpha")
        assert await grants(s) == [False]
        await s.commander.start("alpha")
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.answer(2, ApprovalAnswer.SESSION)
        assert await grants(s) == [False, True]
    async with swarm(tmp_path) as s:
        assert await grants(s) == [False, False]


class ChangedPeer(Peer):
    """The server of the tests with one part of `burn` changed."""

    part = ""

    def server(self) -> MCPServer[Any]:
        async def burn(text: str) -> str:
            self.seen.append(("burn", text))
            return f"burn did {text}"

        async def burn_all(text: str, all_of_it: bool = False) -> str:
            return await burn(text)

        says = "Burns all." if self.part == "description" else "Burns."
        marks = ToolAnnotations(destructive_hint=self.part != "mark")
        function = burn_all if self.part == "argument" else burn
        tool = Tool.from_function(function, name="burn", description=says, annotations=marks)
        return MCPServer("peer", log_level="ERROR", tools=[tool])


@pytest.mark.parametrize("answer", [ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE])
@pytest.mark.parametrize("part", ["", "description", "argument", "mark"])
async def test_a_changed_tool_is_asked_about_again(tmp_path: Path, part: str, answer: ApprovalAnswer) -> None:
    changed, policy = ChangedPeer(), ToolPolicy(ask=("burn",))
    done = Answer(text="done")
    async with swarm(
        tmp_path, script(BURN, done, BURN, done, BURN, done), peer=ChangedPeer(), policies=lambda _: policy
    ) as s:
        await s.commander.answer(await ask(s), answer)
        await s.settled()
        await s.ask("alpha", "again")
        assert s.peer.seen == [("burn", "it")] * 2
        changed.part = part
        toolbox = s.commander.swarm.services.tools
        assert isinstance(toolbox, Toolbox)
        await toolbox.configure([UpstreamConfig("peer", server=changed.server())], lambda _: policy)
        await toolbox.settled()
        await s.commander.send("alpha", "once more")
        if part:
            await s.until(s.commander.approvals)
        else:
            await s.settled()
        assert changed.seen == ([] if part else [("burn", "it")])


async def test_a_grant_is_for_its_template_and_its_server(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await s.commander.answer(await ask(s), ApprovalAnswer.TEMPLATE)
        await s.settled()
        spec = offered_tool(s, "burn")
        approvals = s.commander.swarm.services.approvals
        assert approvals.is_granted(1, "default", spec)
        assert not approvals.is_granted(1, "another", spec)
        assert not approvals.is_granted(1, "default", replace(spec, upstream="another"))


def offered_tool(s: Swarm, name: str) -> ToolSpec:
    [spec] = [tool for tool in s.provider.requests[-1].tools if tool.name == name]
    return spec


async def test_a_denial_without_a_sentence_says_who_said_no(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="fine"))) as s:
        await s.commander.answer(await ask(s), ApprovalAnswer.DENIED)
        await s.settled()
        assert s.sent()[1][-1] == ("tool", "denied: the commander said no")
        assert await s.value("SELECT state FROM tool_call") == "denied"
        assert [call.is_denied for message in s.provider.requests[1].messages for call in message.calls] == [True]


async def test_a_stop_takes_the_question_back(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
        await s.commander.stop("alpha")
        assert await s.commander.approvals() == ()
        assert (await s.commander.mysis("alpha")).approvals == 0
        assert await s.value("SELECT answer FROM approval") == "expired"
        with pytest.raises(UsageError):
            await s.commander.answer(number, ApprovalAnswer.ONCE)
        s.clock.by(3600)
        assert s.peer.seen == []


@pytest.mark.parametrize(("closed_for", "expires_after"), [(10, 30), (29, 34), (600, 605)], ids=str)
async def test_after_a_restart_it_is_asked_again_with_the_time_that_is_left(
    tmp_path: Path, closed_for: int, expires_after: int
) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
        [first] = await s.commander.approvals()
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        s.clock.by(closed_for * 60)
        assert await s.commander.approvals() == ()
        await s.commander.start("alpha")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        [asked] = await s.commander.approvals()
        assert (asked.id, asked.asked_at) == (number, first.asked_at)
        assert asked.expires_at == first.asked_at + expires_after * 60 * 1_000_000
        await s.commander.answer(number, ApprovalAnswer.ONCE)
        await s.settled()
        assert s.peer.seen == [("burn", "it")]
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_question_expires_when_the_time_that_a_restart_left_is_over(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        await ask(s)
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        s.clock.by(29 * 60)
        await s.commander.start("alpha")
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.run_due()
        s.clock.by(5 * 60)
        await s.settled()
        assert await s.value("SELECT answer FROM approval") == "expired"


RAN_WITH = '[note from Zoea] The commander changed the arguments of this call. It ran with: {"text": "less"}'


@pytest.mark.parametrize(
    ("sentence", "arguments", "ran", "result"),
    [
        ("", '{"text": "less"}', "less", f"{RAN_WITH}\n\nburn did less"),
        ("", '{"text":"it","text":"less"}', "less", f"{RAN_WITH}\n\nburn did less"),
        (
            "",
            '{"text":"less\\ud800"}',
            "less\ufffd",
            RAN_WITH.replace("less", "less\ufffd") + "\n\nburn did less\ufffd",
        ),
        ("not all", '{"text": "less"}', "less", f"{RAN_WITH} The commander says: not all\n\nburn did less"),
        (
            "once only",
            "",
            "it",
            "[note from Zoea] The commander allowed this call. The commander says: once only\n\nburn did it",
        ),
        ("", "", "it", "burn did it"),
    ],
)
async def test_a_mysis_reads_what_was_said_and_changed_when_its_call_was_allowed(
    tmp_path: Path, sentence: str, arguments: str, ran: str, result: str
) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        await s.commander.answer(await ask(s), ApprovalAnswer.ONCE, sentence=sentence, arguments=arguments)
        await s.settled()
        assert s.peer.seen == [("burn", ran)]
        assert s.sent()[-1][-1] == ("tool", result)
        (event,) = await s.rows("SELECT data FROM event WHERE kind = 'approval.answered'")
        assert json.loads(event["data"]).get("changed", False) is bool(arguments)
        read = [entry.changed for turn in conversation.read_newest(s.path, 1).turns for entry in turn.entries]
        assert [each for each in read if each] == (
            [{1: json.dumps({"text": ran}, ensure_ascii=False)}] if arguments else []
        )
        # What the model wrote stays what it wrote.
        assert await s.value("SELECT arguments FROM tool_call") == '{"text": "it"}'


@pytest.mark.parametrize(
    ("answer", "arguments", "reason"),
    [
        (ApprovalAnswer.ONCE, "{}", "burn was not called: text is missing"),
        (ApprovalAnswer.ONCE, "[1]", "must be a JSON object"),
        (ApprovalAnswer.ONCE, '{"text": NaN}', "burn: "),
        (ApprovalAnswer.ONCE, '{"text": -1e400}', "-1e400 is beyond all bounds"),
        (ApprovalAnswer.ONCE, f'{{"text": {"[" * 900}{"]" * 900}}}', "arguments are nested too deeply"),
        (ApprovalAnswer.ONCE, f'{{"text": "{"é" * 90_000}", "a": {"[" * 101}{"]" * 101}}}', "nested too deeply"),
        (ApprovalAnswer.SESSION, '{"text": "less"}', "changed arguments can be allowed only once"),
        (ApprovalAnswer.DENIED, '{"text": "less"}', "changed arguments can be allowed only once"),
    ],
)
async def test_changed_arguments_that_cannot_be_sent_leave_the_question_open(
    tmp_path: Path, answer: ApprovalAnswer, arguments: str, reason: str
) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        number = await ask(s)
        with pytest.raises(UsageError, match=reason):
            await s.commander.answer(number, answer, arguments=arguments)
        assert len(await s.commander.approvals()) == 1
        assert s.peer.seen == []


async def test_arguments_of_a_question_in_words_cannot_be_changed(tmp_path: Path) -> None:
    asks = Answer(calls=(AnswerCall("zoea_ask", '{"question": "Hm?"}', "q"),))
    async with swarm(tmp_path, script(asks, Answer(text="done"))) as s:
        with pytest.raises(UsageError, match="only the arguments of a tool call"):
            await s.commander.answer(await ask(s), ApprovalAnswer.ONCE, sentence="a", arguments="{}")


async def test_changed_arguments_hold_for_a_turn_that_is_resumed(tmp_path: Path) -> None:
    """Stopped between the answer and the call, the turn asks its rows. It runs what the person wrote."""
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
        await s.commander.hold(True)
        await s.commander.answer(number, ApprovalAnswer.ONCE, arguments='{"text": "less"}')
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        with pytest.raises(UsageError, match="does not wait for an answer"):
            await s.commander.answer(number, ApprovalAnswer.ONCE)
        await s.commander.hold(False)
        await s.start("alpha")
        assert s.peer.seen == [("burn", "less")]
        assert s.sent()[-1][-1] == ("tool", f"{RAN_WITH}\n\nburn did less")


async def test_a_call_cut_off_by_a_stop_of_zoea_says_which_arguments_may_have_run(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        s.peer.gates["burn"] = asyncio.Event()
        await s.commander.answer(await ask(s), ApprovalAnswer.ONCE, arguments='{"text": "less"}')
        await s.until(lambda: s.peer.seen)
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.start("alpha")
        assert s.sent()[-1][-1][1].startswith(f"{RAN_WITH}\n\nunknown: ")


@pytest.mark.parametrize(
    ("answer", "result"),
    [(ApprovalAnswer.ONCE, "burn did it"), (ApprovalAnswer.DENIED, "denied: the commander said no")],
)
async def test_a_question_answered_while_no_turn_waits_counts_when_the_turn_resumes(
    tmp_path: Path, answer: ApprovalAnswer, result: str
) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.commander.answer(number, answer)
        await s.start("alpha")
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert s.sent()[0][-1] == ("tool", result)


async def test_a_template_grant_given_while_no_turn_waits_holds_for_the_same_tool_schema(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
    async with swarm(tmp_path, script(Answer(text="done"), BURN, Answer(text="done"))) as s:
        await s.commander.answer(number, ApprovalAnswer.TEMPLATE)
        await s.start("alpha")
        spec = offered_tool(s, "burn")
        assert await s.value("SELECT schema_hash FROM grant_") == spec.schema_hash != ""
        await s.ask("alpha", "again")
        assert s.peer.seen == [("burn", "it"), ("burn", "it")]


class OtherPeer(Peer):
    """The server of the tests with another form of `burn`."""

    def server(self) -> MCPServer[Any]:
        async def burn(text: str) -> str:
            self.seen.append(("burn", text))
            return f"burn did {text}"

        return MCPServer("peer", log_level="ERROR", tools=[described(burn, "Burns all.", ToolAnnotations())])


@pytest.mark.parametrize("is_answered_before", [False, True])
async def test_a_question_from_before_a_restart_allows_nothing_where_its_tool_has_changed(
    tmp_path: Path, is_answered_before: bool
) -> None:
    async with swarm(tmp_path, script(BURN)) as s:
        number = await ask(s)
    async with swarm(tmp_path, script(Answer(text="done")), peer=OtherPeer()) as s:
        if is_answered_before:
            await s.commander.answer(number, ApprovalAnswer.TEMPLATE)
        await s.start("alpha")
        assert s.peer.seen == []
        assert "its server changed this tool since the question was asked" in s.sent()[0][-1][1]
        assert await s.commander.approvals() == ()


@pytest.mark.parametrize(("name", "other"), [("peer", OtherPeer()), ("another", OtherPeer()), ("another", Peer())])
async def test_an_approved_call_is_refused_where_it_would_reach_another_tool_meanwhile(
    tmp_path: Path, name: str, other: Peer
) -> None:
    async with swarm(tmp_path, script(BURN, Answer(text="done"))) as s:
        number = await ask(s)
        toolbox = s.commander.swarm.services.tools
        assert isinstance(toolbox, Toolbox)
        await toolbox.configure([UpstreamConfig(name, server=other.server())], lambda _: ToolPolicy())
        await toolbox.settled()
        await s.commander.answer(number, ApprovalAnswer.ONCE)
        await s.settled()
        assert (s.peer.seen, other.seen) == ([], [])
        assert "burn was not called: its server changed it since it was offered" in s.sent()[-1][-1][1]
