"""`zoea export` and `zoea explain` read the database."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea
from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer
from zoea.settings.paths import places
from zoea.settings.schema import Settings


@pytest.fixture
async def stored_turns() -> None:
    """Two myses with a turn each in the default workspace; alpha's has two requests."""
    where = places("").database
    where.parent.mkdir(parents=True, exist_ok=True)
    rules = script(Answer(calls=(call("look", "x"),)), Answer(text="Found [/] \x1b[31miron"), Answer(text="Nothing"))
    settings = Settings.model_validate({"nudge": {"enabled": False}})
    async with swarm(where.parent, rules, settings=settings) as inner:
        for name in ("alpha", "beta"):
            await inner.commander.create(name, start=False)
            await inner.commander.send(name, "Mine iron")
            await inner.commander.wait(name)
        path = inner.path
    if path != where:
        path.replace(where)


def test_a_conversation_is_exported_to_stdout_or_to_a_new_file(zoea: Zoea, stored_turns: None, tmp_path: Path) -> None:
    shown = zoea("export", "ALPHA").out
    assert "Mine iron" in shown
    assert zoea("export", "alpha", "--output", "-").out == shown
    assert not Path("-").exists()
    assert "\x1b" not in zoea("export", "alpha", "--format", "html").out
    lines = zoea("export", "alpha", "-f", "jsonl").out.splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    file = tmp_path / "alpha.md"
    said = zoea("export", "alpha", "-o", str(file), "--json").json
    assert (said["mysis"], said["format"], said["turns"]) == ("alpha", "md", 1)
    assert "Found [/]" in file.read_text("utf-8")
    assert zoea("export", "alpha", "-o", str(file)).code == 2
    assert zoea("export", "alpha", "-o", str(file), "--force").out.startswith("1 turn of alpha")


def test_a_refused_export_names_the_reason(zoea: Zoea, stored_turns: None) -> None:
    assert zoea("export", "nobody").code == 6
    assert zoea("export", "alpha", "--json").code == 2
    assert zoea("export", "alpha", "--format", "pdf").code == 2


def test_explain_shows_the_newest_or_the_given_request(zoea: Zoea, stored_turns: None) -> None:
    newest = zoea("explain", "alpha").out
    assert "Request 2 of alpha, turn 1, its request 2" in newest
    limit = "limit: the window (8.2k, assumed) less the longest answer (1k)"
    assert f"left); {limit}\n" in newest
    assert zoea("explain", "alpha", "--json").json["limit"] == limit
    assert newest.splitlines()[0].rstrip(":") == newest.splitlines()[0].strip(), "a request without a model names none"
    assert "situation" in newest
    assert re.search(r"^Preparing context \(\d+ msgs, ~[\d.]+k? tokens\)$", newest, re.MULTILINE)
    assert re.search(r"^Budget used: [\d.]+k?/[\d.]+k \(this request\)$", newest, re.MULTILINE)
    assert re.search(r"^Budget used: [\d.]+k?/200k \(turn 1 so far\)$", newest, re.MULTILINE)
    first = zoea("explain", "alpha", "1", "--json").json
    assert first["request"]["id"] == 1
    assert {pack["id"] for pack in first["plan"]["packs"]} >= {"system", "turn"}
    assert "Mine iron" not in json.dumps(first)


def test_explain_shows_the_text_that_was_sent_if_asked(zoea: Zoea, stored_turns: None) -> None:
    assert "Mine iron" not in zoea("explain", "alpha", "1").out
    said = zoea("explain", "alpha", "1", "--text").out
    assert "--- system" in said
    assert "Mine iron" in said
    found = zoea("explain", "alpha", "1", "--text", "--json").json
    assert any("Mine iron" in message["content"] for message in found["sent"])
    assert found["tool_tokens"].keys() == set(found["tools"])


async def test_explain_says_where_to_look_where_a_message_led_to_no_request_yet(zoea: Zoea) -> None:
    where = places("").database
    where.parent.mkdir(parents=True, exist_ok=True)
    async with swarm(where.parent) as inner:
        await inner.commander.create("alpha one", start=False)
        idle = await asyncio.to_thread(zoea, "explain", "alpha one")
        await inner.commander.hold(True)
        await inner.commander.send("alpha one", "Mine iron")
        held = await asyncio.to_thread(zoea, "explain", "alpha one")
    assert "`zoea send 'alpha one' TEXT`" in idle.err
    assert "`zoea show 'alpha one'` says why it has not begun" in held.err


def test_a_refused_explain_names_the_reason(zoea: Zoea, stored_turns: None) -> None:
    refused = zoea("explain", "alpha", "3").err
    assert "belongs to beta" in refused
    assert "`zoea explain beta 3`" in refused
    unknown = zoea("explain", "alpha", "99")
    assert unknown.code == 2
    assert "`zoea explain NAME` shows the newest one" in unknown.err
    assert zoea("explain", "nobody").code == 6


def test_two_requests_are_compared(zoea: Zoea, stored_turns: None) -> None:
    said = zoea("explain", "alpha", "1", "--diff", "2").out
    assert "tokens beside request 1." in said
    assert "0 are gone, 2 are new." in said
    assert "turn         full," in said
    assert "+ tool memory" in said
    assert "look did x" not in said
    assert "look did x" in zoea("explain", "alpha", "1", "--diff", "2", "--text").out
    found = zoea("explain", "alpha", "1", "--diff", "2", "--json").json
    assert [message["role"] for message in found["added"]] == ["assistant", "tool"]
    assert (found["removed"], found["tools_added"]) == ([], [])
    assert [pack["id"] for pack in found["packs"]] == ["turn"]
    assert zoea("explain", "alpha", "1", "--diff", "3").code == 2


def test_troubles_are_named_with_their_cause_and_remedy(zoea: Zoea) -> None:
    where = places("").database
    where.parent.mkdir(parents=True, exist_ok=True)

    async def squeeze() -> None:
        settings = Settings.model_validate(
            {"nudge": {"enabled": False}, "budget": {"token_budget_per_agent": 2600}, "context": {"strategy": "window"}}
        )
        rules = script(Answer(text="word " * 700), Answer(text="done"))
        async with swarm(where.parent, rules, settings=settings) as inner:
            await inner.commander.create("alpha", start=False)
            for _ in range(3):
                await inner.commander.send("alpha", "Tell me " * 300)
                await inner.settled()

    asyncio.run(squeeze())
    said = zoea("explain", "alpha").out
    assert "Troubleshooting:" in said
    found = zoea("explain", "alpha", "--json").json
    assert found["troubles"]
    assert all(one["symptom"] and one["cause"] and one["remedy"] for one in found["troubles"])
