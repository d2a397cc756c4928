"""The fence around an agent's process: what it can write and see, and that it does not run without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.agent_harness import ROOT, agent_swarm, conversation, say, work
from zoea.agents.agent_launch import build_launch, known_agents
from zoea.model.enums import MysisState
from zoea.model.errors import AgentError
from zoea.process.sandbox import find_sandbox
from zoea.runtime.swarm_files import fence_agent
from zoea.settings.template import AgentSettings

WORKS = bool(find_sandbox(Path.cwd()).program)
"""Whether bubblewrap works on this machine; where it does not, a fenced agent must not run at all."""
NEEDED = [str(one) for one in (ROOT, Path(sys.prefix)) if one.is_relative_to("/tmp")]
"""What the fake agent itself needs: the fence has an empty `/tmp`, and checkout or environment may be there."""


async def test_a_fenced_agent_writes_its_folder_and_what_the_template_names_alone(tmp_path: Path) -> None:
    named, secret = tmp_path / "named", tmp_path / "secret"
    for folder in (named, secret):
        folder.mkdir()
    (secret / "key").write_text("a key")
    log = str(tmp_path / "work" / "agent.log")
    async with agent_swarm(tmp_path, {"log": log}, acp=f"fence = true\nwritable = {[str(named), *NEEDED]}") as s:
        await say(
            s,
            ["touch", str(tmp_path / "work" / "inside")],
            ["touch", str(named / "inside")],
            ["touch", str(secret / "outside")],
            ["touch", "/usr/outside"],
            ["look", str(secret / "key")],
        )
        await s.settled()
        if not WORKS:
            assert s.state() is MysisState.ERRORED
            return
        text = (await conversation(s))[-1][1]
        assert text.split("; ")[:5] == ["written", "written", "refused", "refused", "refused"]
    assert (named / "inside").exists()
    assert not (secret / "outside").exists()


async def test_in_the_fence_it_reaches_zoea_s_tools_and_its_children_end_with_it(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"log": ""}, acp=f"fence = true\nwritable = {NEEDED}", serves=True) as s:
        await work(s, ["tool", "zoea_list_myses", {}])
        if WORKS:
            assert '"you": "alpha"' in (await conversation(s))[-1][1]
        await s.commander.stop("alpha")
        await s.until(lambda: s.state() is MysisState.STOPPED)


def test_where_bubblewrap_is_missing_a_fenced_agent_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    launch = build_launch(AgentSettings(command=sys.executable, fence=True), tmp_path, None)
    with pytest.raises(AgentError, match="bubblewrap is not installed"):
        fence_agent(launch, ())


@pytest.mark.parametrize("path", ["/dev/null/x", "a\0b", "x" * 300])
def test_a_writable_folder_that_cannot_be_made_is_named(tmp_path: Path, path: str) -> None:
    launch = build_launch(AgentSettings(command=sys.executable, fence=True, writable=(path,)), tmp_path, None)
    with pytest.raises(AgentError, match="cannot be made for python"):
        fence_agent(launch, ())


def test_an_agent_without_a_fence_is_started_as_it_is(tmp_path: Path) -> None:
    launch = build_launch(AgentSettings(command=sys.executable), tmp_path, None)
    assert fence_agent(launch, ())[0] is launch


@pytest.mark.parametrize("name", sorted(known_agents()))
def test_each_known_agent_keeps_its_own_login_and_sees_none_of_the_others(tmp_path: Path, name: str) -> None:
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    fence = build_launch(AgentSettings(agent=name, fence=True), tmp_path, None, environ=environ).fence
    assert fence is not None
    assert fence.writable
    assert all(path.is_relative_to(tmp_path) for path in (*fence.writable, *fence.hidden))
    assert tmp_path / ".ssh" in fence.hidden
    assert not set(fence.writable) & set(fence.hidden)
    others = {one for one in known_agents() if one != name}
    if others & {"codex"}:
        assert tmp_path / ".codex" in fence.hidden
    if others & {"opencode"}:
        assert tmp_path / "data" / "opencode" in fence.hidden


KEYS = (".ssh/id", ".netrc", ".config/gh/hosts.yml", ".config/zoea/credentials", ".local/share/zoea/zoea.db")


@pytest.mark.parametrize(
    ("folder", "writable", "repository", "is_link"),
    [
        ("work", [], "", False),
        (".", [], "", False),
        ("work", ["~"], "", False),
        ("work", ["~/.config"], "", False),
        ("work", ["~/.local/share", "~/.config/gh/.."], "", False),
        ("work", [], ".", False),
        (".config", ["~/work"], "work", False),
        ("work", [], "", True),
        (".", ["~/.config", "~/places"], ".", True),
    ],
)
def test_nothing_that_is_hidden_is_seen_in_a_folder_that_the_fence_opens(
    tmp_path: Path, folder: str, writable: list[str], repository: str, is_link: bool
) -> None:
    (tmp_path / "work").mkdir()
    for name in KEYS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a key")
    if is_link:
        (tmp_path / "places").mkdir()
        for name in (".ssh", ".netrc", ".config/gh"):
            target = (tmp_path / name).rename(tmp_path / "places" / Path(name).name)
            (tmp_path / name).symlink_to(target)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    look = f"cd {tmp_path} && cat {' '.join(KEYS)} places/*/* places/.* places/.ssh/*; touch work/new && echo ended"
    settings = AgentSettings(command="sh", args=("-c", look), fence=True, writable=tuple(writable))
    launch = build_launch(settings, (tmp_path / folder).resolve(), None, environ=environ)
    own = (tmp_path / ".local/share/zoea", tmp_path / ".config/zoea")
    readable = (tmp_path / repository,) if repository else ()
    if not WORKS:
        with pytest.raises(AgentError):
            fence_agent(launch, own, readable)
        return
    command = fence_agent(launch, own, readable)[0].command
    seen = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)
    assert seen.stdout == "ended\n", seen.stderr


@pytest.mark.parametrize("name", ["~/data", "~/data/workspaces/other", "~/alias"])
def test_no_folder_of_zoea_is_writable(tmp_path: Path, name: str) -> None:
    own = tmp_path / "data"
    own.mkdir()
    (tmp_path / "alias").symlink_to(own)
    settings = AgentSettings(command="true", fence=True, writable=(name,))
    launch = build_launch(settings, tmp_path, None, environ={"HOME": str(tmp_path)})
    with pytest.raises(AgentError, match="a folder of Zoea itself"):
        fence_agent(launch, (own,))


def test_a_file_that_the_template_names_is_writable_and_a_place_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "Makefile").touch()
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    for name, text in (("Makefile", "work" if WORKS else "not confined"), ("Makefile/inner", "cannot be made")):
        settings = AgentSettings(command="true", fence=True, writable=(f"~/{name}",))
        launch = build_launch(settings, tmp_path, None, environ=environ)
        if text == "work":
            assert str(tmp_path / "Makefile") in fence_agent(launch, ())[0].command
        else:
            with pytest.raises(AgentError, match=text):
                fence_agent(launch, ())
