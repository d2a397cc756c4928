"""`zoea agents`, as a person types it, with the fake agent."""

from __future__ import annotations

import pytest

from tests.agents.agent_harness import write_template
from tests.cli.conftest import Zoea
from zoea.settings import places


def test_known_agents_are_listed_with_how_to_install_them(zoea: Zoea, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    listed = zoea("agents", "list")
    assert "opencode" in listed.out
    assert "no program opencode; it is installed by: npm install -g opencode-ai" in listed.out
    [codex] = [one for one in zoea("agents", "list", "--json").json if one["name"] == "codex"]
    assert (codex["program"], codex["gateway"]) == (None, "responses")


def test_a_trial_shows_what_an_agent_can_do_and_allows_it_nothing(zoea: Zoea) -> None:
    write_template(places().templates, {"resume": True, "load": True, "modes": ["ask", "auto"]})
    steps = '[["ask", {"toolCallId": "a", "title": "rm -rf", "kind": "execute"}], ["say", " hello"]]'
    tried = zoea("agents", "test", "outer", "--prompt", steps)
    assert tried.code == 0
    assert "fake 1, began in" in tried.out
    assert "sessions: load, resume" in tried.out
    assert "modes: ask, auto; now ask" in tried.out
    assert "asked for a permission, which was refused: rm -rf" in tried.out
    assert "[no] hello" in tried.out


def test_what_cannot_be_tried_says_why(zoea: Zoea, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    missing = zoea("agents", "test", "opencode")
    assert missing.code == 14
    assert "the program opencode cannot be started" in missing.err
    assert "`zoea agents list`" in missing.err
    assert zoea("agents", "test", "nobody").code == 2
    own = zoea("agents", "test", "assistant")
    assert own.code == 2
    assert "played by Zoea" in own.err


def test_a_login_that_is_wanted_is_named(zoea: Zoea) -> None:
    write_template(places().templates, {"wants_login": True, "auth_methods": [{"id": "k", "name": "API key"}]})
    tried = zoea("agents", "test", "outer")
    assert tried.code == 14
    assert "API key" in tried.err
