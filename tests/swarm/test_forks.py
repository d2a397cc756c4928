"""A mysis made from a commit knows the conversation up to it: its first request holds every message."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, call, plain, script, swarm
from tests.swarm.test_commit_capture import read_chain, read_messages
from tests.swarm.test_window_strategy import settings as window_settings
from tests.swarm.test_window_strategy import talk as talk_in_window
from zoea.chain.blob_policies import release_expired
from zoea.chain.commit import CommitType
from zoea.chain.commit_rows import count_known, find_whole, read_refs
from zoea.chain.entries import NOT_EXECUTED, rewrite_texts
from zoea.chain.verification import verify_chains
from zoea.context.window.conversation_summary import KEPT, TITLE
from zoea.model.enums import Role
from zoea.model.errors import MissingBlob, RevisionError
from zoea.model.request import Answer, ModelRequest, RequestMessage
from zoea.queries.fork_costs import read_fork_cost
from zoea.queries.request_inspection import inspect_request
from zoea.settings.schema import Settings
from zoea.settings.template_library import Templates
from zoea.store.database_file import connect_reader
from zoea.store.redaction import REDACTED, redact_text
from zoea.swarm.commit_commands import CommitCommands

TALK = (
    Answer(text="I look.", calls=(call("look", "north"), call("act", "dig"))),
    Answer(text="Found iron at 7."),
    Answer(calls=(call("look", "south"),)),
    Answer(text="Nothing there."),
    Answer(text="Going on."),
)


async def talk(s: Swarm, *texts: str) -> None:
    await s.commander.create("alpha")
    for text in texts or ("find iron", "and in the south?"):
        await s.ask("alpha", text)


async def fork(s: Swarm, revision: str, text: str, **more: Any) -> ModelRequest:
    """Make a mysis from a commit, send it a message, and return its first request."""
    made = await s.commander.create("", commit=revision, **more)
    before = len(s.provider.requests)
    await s.commander.send(made.name, text)
    await s.settled(made.name)
    return s.provider.requests[before]


def told(request: ModelRequest) -> list[tuple[str, str]]:
    return [(str(one.role), plain(one.content)) for one in request.messages if one.role is not Role.SYSTEM]


def check_calls(messages: tuple[RequestMessage, ...]) -> None:
    """Check that each call is followed by its result, and no id is used twice."""
    waiting: list[str] = []
    seen: set[str] = set()
    for one in messages:
        if one.role is Role.TOOL:
            assert one.call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [each.id for each in one.calls]
            assert not seen & set(waiting)
            seen |= set(waiting)
    assert not waiting


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_the_first_request_of_a_fork_holds_every_message_up_to_the_commit(tmp_path: Path, strategy: str) -> None:
    settings = Settings.model_validate({"context": {"strategy": strategy}})
    async with swarm(tmp_path, script(*TALK), settings=settings) as s:
        await talk(s)
        request = await fork(s, "@alpha", "try it differently")
        memories = await s.rows("SELECT role, content FROM memory WHERE mysis_id = 1 ORDER BY turn_id, seq")
    assert told(request)[:-1] == [(row["role"], row["content"]) for row in memories]
    assert told(request)[-1] == ("user", "try it differently")
    check_calls(request.messages)


async def test_a_fork_of_an_earlier_moment_knows_nothing_of_what_came_later(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        request = await fork(s, "@alpha~3", "stop here")
    assert [text for _, text in told(request)] == ["find iron", "I look.", NOT_EXECUTED, NOT_EXECUTED, "stop here"]
    check_calls(request.messages)


async def test_forks_are_named_after_their_origin_and_their_branches_begin_at_the_commit(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        tip = read_chain(s.path, "@alpha")[-1]
        made = [await s.commander.create("", commit="@alpha") for _ in range(3)]
        assert [one.name for one in made] == ["alpha-2", "alpha-3", "alpha-4"]
        assert {(one.template, one.provider, one.model) for one in made} == {
            (view.template, view.provider, view.model) for view in [await s.commander.mysis("alpha")]
        }
        await s.ask("alpha-2", "try it differently")
        own = read_chain(s.path, "@alpha-2")
        assert own[-2] == tip
        assert own[-1].provenance.principal == "alpha-2"
        assert [one.content for one in read_messages(s.path, "@alpha-2")][-2:] == ["try it differently", "Going on."]
        assert read_chain(s.path, "@alpha")[-1] == tip
        await s.commander.delete("alpha-3")
        with closing(connect_reader(s.path)) as conn:
            assert set(read_refs(conn)) == {"@alpha", "@alpha-2", "@alpha-4", "deleted/alpha-3-3"}


async def test_what_does_not_fit_is_summed_up_and_later_turns_have_the_summary(tmp_path: Path) -> None:
    settings = Settings.model_validate({"inherited": {"max_tokens": 300}})
    async with swarm(tmp_path, script(*TALK), settings=settings) as s:
        await talk(s, "find iron " * 300, "error: the drill at port 8443 broke", "and in the south?")
        request = await fork(s, "@alpha", "go on")
        name = "alpha-2"
        before = len(s.provider.requests)
        await s.commander.send(name, "again")
        await s.settled(name)
        later = s.provider.requests[before]
    first = told(request)
    assert first[0][1].startswith("[data: summary of ")
    assert ("assistant", "Going on.") in first
    assert not any("find iron find iron" in text for _, text in first[1:])
    check_calls(request.messages)
    assert [text for _, text in told(later)].count("Going on.") == 1, "the last answer of its own"
    assert told(later)[0][1].startswith("[data: summary of ")
    assert "8443" in told(later)[0][1]


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_a_conversation_that_has_room_stands_in_every_turn_of_a_fork(tmp_path: Path, strategy: str) -> None:
    settings = Settings.model_validate({"context": {"strategy": strategy, "keep_turns": 5}})
    async with swarm(tmp_path, script(Answer(text="ready")), settings=settings) as s:
        await talk(s, *(f"note {number}" for number in range(14)))
        conversation = told(await fork(s, "@alpha", "go on"))[:-1]
        assert len(conversation) == 28
        for number in range(4):
            await s.ask("alpha-2", f"again {number}")
            assert told(s.provider.requests[-1])[:28] == conversation
            assert await read_packs(s) & INHERITED == {"inherited"}


INHERITED = {"inherited", "inherited_newest", "inherited_summary"}


async def test_a_fork_of_a_condensed_conversation_holds_every_message_while_all_fit(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ready")), settings=window_settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk_in_window(s, 1, 12)
        whole = [row["content"] for row in await s.rows("SELECT content FROM memory ORDER BY turn_id, seq")]
        assert CommitType.COMPACTION in {one.kind for one in read_chain(s.path, "@alpha")}
        for name in ("alpha", "alpha-2"):  # a fork of the fork too
            tip = read_chain(s.path, f"@{name}")[-1]
            with closing(connect_reader(s.path)) as conn:
                cost = read_fork_cost(conn, tip, "go on", window_settings(), Templates())
            assert (cost.messages, cost.shown) == (len(whole), len(whole))
            assert [text for _, text in told(await fork(s, f"@{name}", "go on"))] == [*whole, "go on"]
            whole += ["go on", "ready"]


@pytest.mark.parametrize(("turns", "tokens"), [(24, 400), (110, 900)])
async def test_a_fork_of_a_condensed_conversation_shows_the_newest_messages_that_fit(
    tmp_path: Path, turns: int, tokens: int
) -> None:
    room = {"inherited": {"max_tokens": tokens}}
    settings = Settings.model_validate(window_settings().model_dump(exclude_unset=True) | room)
    async with swarm(tmp_path, script(Answer(text="ready")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await talk_in_window(s, 1, turns)
        rows = await s.rows("SELECT content, tokens FROM memory ORDER BY turn_id DESC, seq DESC")
        with closing(connect_reader(s.path)) as conn:
            tip = read_chain(s.path, "@alpha")[-1]
            assert count_known(conn, tip.seq)[1] < tokens, "what follows its newest summary"
            cost = read_fork_cost(conn, tip, "go on", settings, Templates())
            newest = [one for one in read_chain(s.path, "@alpha") if one.kind is CommitType.COMPACTION][-1]
            assert find_whole(conn, newest.seq, 4) is None, "too far from the summary before it"
        shown = [text for _, text in told(await fork(s, "@alpha", "go on"))]
        count = len(shown) - 2
    assert shown[1:-1] == [row["content"] for row in rows[:count]][::-1]
    assert sum(row["tokens"] + 5 for row in rows[: count + 2]) > tokens * 3 / 4, "a quarter is for the summary"
    assert f"keep record rec-{turns - count // 2 - 1:04d}x safe" in shown[0]
    assert shown[0].count("[data: ") == 1
    assert cost.shown == count < cost.messages <= len(rows)


async def test_a_fork_of_a_condensed_conversation_shows_the_summary_where_a_part_was_let_go(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ready")), settings=window_settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk_in_window(s, 1, 12)
        first = read_chain(s.path, "@alpha")[0].blob
        await s.store.write(lambda conn: conn.execute("UPDATE blob SET data = x'00' WHERE hash = ?", (first,)))
        shown = [text for _, text in told(await fork(s, "@alpha", "go on"))]
    assert sum(TITLE in text for text in shown) == 1
    assert shown[-1] == "go on"


async def test_a_fork_of_a_compaction_by_hand_holds_the_summary_alone(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ready")), settings=window_settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk_in_window(s, 1, 12)
        tip = read_chain(s.path, "@alpha")[-1]
        await CommitCommands(s.commander).compact("@alpha", extract=True)
        shown = [text for _, text in told(await fork(s, f"compact/ctx-{tip.digest.hex()[:8]}", "go on"))]
        assert len(shown) == 2
        again = [text for _, text in told(await fork(s, "@alpha-2", "and now?"))]
    assert again == [*shown, "ready", "and now?"]
    for number in range(1, 13):
        assert shown[0].count(f"rec-{number:04d}x") == 1, "of the messages, and not of a summary of them"
    assert shown[0].count("[data: ") == 1


async def test_what_a_fork_has_no_room_for_quotes_no_summary_as_a_message(tmp_path: Path) -> None:
    few = {"inherited": {"max_tokens": 200}}
    settings = Settings.model_validate(window_settings().model_dump(exclude_unset=True) | few)
    async with swarm(tmp_path, script(Answer(text="ready")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await talk_in_window(s, 1, 14)
        shown = [text for _, text in told(await fork(s, "@alpha", "go on"))]
    assert shown[0].count("[data: ") == 1
    assert TITLE not in shown[0]
    assert shown[0].count(KEPT) == 1
    assert "keep record rec-" in shown[0]


async def read_packs(s: Swarm) -> set[str]:
    """Return the packs that hold anything in the newest request."""
    newest = await s.value("SELECT max(id) FROM request")
    plan = inspect_request(s.path, newest).plan
    assert plan is not None
    return {one.id for one in plan.decisions if one.tokens}


async def test_the_pack_of_what_a_fork_inherited_is_named_by_what_it_holds(tmp_path: Path) -> None:
    settings = Settings.model_validate({"inherited": {"max_tokens": 300}})
    async with swarm(tmp_path, script(*TALK), settings=settings) as s:
        await talk(s, "find iron " * 300, "and in the south?")
        await fork(s, "@alpha", "go on")
        assert await read_packs(s) & INHERITED == {"inherited_newest"}
        await s.ask("alpha-2", "again")
        assert await read_packs(s) & INHERITED == {"inherited_summary"}


async def test_a_session_that_shows_its_conversation_recalls_nothing_of_it(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"recall_items": 3, "keep_turns": 0}})
    async with swarm(tmp_path, script(Answer(text="ready")), settings=settings) as s:
        await talk(s, "the manganese stands at berth 7", "rest now")
        await CommitCommands(s.commander).resume("@alpha")
        for text in ("one", "where is the manganese?"):
            await s.ask("alpha", text)
        texts = [text for _, text in told(s.provider.requests[-1])]
    assert sum("manganese stands" in text for text in texts) == 1


async def test_a_fork_of_a_context_with_a_missing_part_says_why_and_makes_nothing(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        await s.store.write(lambda conn: conn.execute("UPDATE blob SET data = x'00'"))
        with pytest.raises(MissingBlob, match="damaged"):
            await s.commander.create("", commit="@alpha")
        with pytest.raises(RevisionError, match="beta"):
            await s.commander.create("", commit="@beta")
        assert await s.value("SELECT count(*) FROM mysis") == 1
        fresh = await s.commander.create("", commit="@alpha", allow_fresh=True)
        assert await s.value("SELECT fresh_at > 0 FROM ctx_origin") == 1
        await s.commander.send(fresh.name, "begin")
        await s.settled(fresh.name)
        assert told(s.provider.requests[-1]) == [("user", "begin")]
        tags = await s.rows(
            "SELECT tags FROM ctx_note WHERE commit_seq IN (SELECT seq FROM ctx_commit WHERE mysis_id = 2)"
        )
        assert [row["tags"] for row in tags] == ['["fresh"]'], "what it did not know is recorded"


async def test_a_fork_goes_on_after_a_restart_with_the_same_context(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        await s.commander.create("fork", commit="@alpha")
    async with swarm(tmp_path, script(Answer(text="Back."))) as s:
        await s.ask("fork", "still there?")
        assert ("assistant", "Found iron at 7.") in told(s.provider.requests[0])


async def test_a_redacted_part_is_shown_as_redacted_and_is_no_defect(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        redact = (
            "UPDATE blob SET place = 'redacted', data = NULL WHERE id = (SELECT blob_id FROM ctx_commit WHERE seq = 2)"
        )
        await s.store.write(lambda conn: conn.execute(redact))
        request = await fork(s, "@alpha", "go on")
        with closing(connect_reader(s.path)) as conn:
            assert list(verify_chains(conn)) == []
    texts = [text for _, text in told(request)]
    assert any(text.endswith("[REDACTED]") for text in texts)
    assert "Found iron at 7." not in texts
    assert "Nothing there." in texts
    check_calls(request.messages)


async def test_only_the_word_that_was_redacted_is_gone_from_a_conversation(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK, Answer(text="Back."))) as s:
        await talk(s, "find iron " * 60, "and in the south?")
        before = told(await fork(s, "@alpha", "go on"))
        for word in ("iron", "south"):  # the second one also in what was rewritten for the first
            redact = partial(redact_text, directory=tmp_path, text=word, rewrite=rewrite_texts, now=1, who="t")
            await s.store.write(redact)
        request = await fork(s, "@alpha", "go on")
        with closing(connect_reader(s.path)) as conn:
            assert list(verify_chains(conn)) == []
        damage = "UPDATE blob SET data = x'00' WHERE id IN (SELECT replaced_by FROM blob)"
        await s.store.write(lambda conn: conn.execute(damage))
        with closing(connect_reader(s.path)) as conn:
            assert all("damaged" in one.what for one in verify_chains(conn)), "also what stands instead"
            assert list(verify_chains(conn))
    expected = [(role, text.replace("iron", REDACTED).replace("south", REDACTED)) for role, text in before]
    assert told(request) == expected
    assert any(REDACTED in text for _, text in expected)
    check_calls(request.messages)


async def test_ephemeral_commits_lose_their_texts_and_what_a_living_mysis_began_with_stays(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK), settings=Settings.model_validate({"chain": {"ephemeral_days": 2}})) as s:
        await talk(s)
        made = await s.commander.create("", commit="@alpha")
        rows = await s.rows("SELECT until - created_at AS us FROM ctx_policy WHERE policy = 'ephemeral'")
        assert [row["us"] for row in rows] == [2 * 86_400_000_000] * len(read_chain(s.path, "@alpha"))
        await s.store.write(lambda conn: conn.execute("UPDATE ctx_policy SET until = 0"))
        assert (await s.store.write(release_expired)).blobs == 0
        await s.commander.send(made.name, "go on")
        await s.settled(made.name)
        assert ("user", "find iron") in told(s.provider.requests[-1])
        await s.commander.delete(made.name)
        assert (await s.store.write(release_expired)).blobs > 0
        with pytest.raises(MissingBlob, match="were ephemeral"):
            await s.commander.create("", commit="@alpha")
