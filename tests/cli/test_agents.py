"""`zoea agents`, as a person types it, with the fake agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.agents.agent_harness import ROOT, write_template
from tests.cli.conftest import Zoea
from zoea.process.sandbox import find_sandbox
from zoea.settings.paths import places


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


def test_a_trial_in_the_fence_reaches_its_folder_alone_and_counts_the_memory_inside(zoea: Zoea, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    named = [str(one) for one in (ROOT, Path(sys.prefix)) if one.is_relative_to("/tmp")]
    write_template(places().templates, {}, acp=f"writable = {named}")
    steps = json.dumps([["touch", "/usr/outside"], ["touch", "inside"], ["touch", str(outside)]])
    tried = zoea("agents", "test", "outer", "--fence", "--prompt", steps, "--json")
    assert not outside.exists()
    if not find_sandbox(Path.cwd()).program:
        assert tried.code == 14
        assert "bubblewrap" in tried.err
        return
    assert tried.json["answer"].startswith("refused; written; ")  # what it hides it may replace by an empty folder
    assert tried.json["memory"] > 2_000_000  # more than that of bubblewrap itself
