"""An editor talks to Zoea over the Agent Client Protocol: the SDK's client, real pipes, a fake model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, helpers, schema, spawn_agent_process

from tests.e2e.test_tasks import configure
from tests.e2e.zoea_process import ROOT, ask, environment, find_owner, run_headless, zoea
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_runtime")]
LONG = "The belt holds ore, and the drone goes on. " * 30


class Editor:
    """The client's side: keeps what it is told, and answers permissions with `choice`."""

    def __init__(self, choice: str = "once") -> None:
        self.choice = choice
        self.told: list[Any] = []
        self.permissions: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.chunk = asyncio.Event()
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.told.append(update)
        if isinstance(update, schema.AgentMessageChunk):
            self.chunk.set()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.permissions.append((tool_call, options))
        self.asked.set()
        await self.answer.wait()
        if not self.choice:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return schema.RequestPermissionResponse(outcome=outcome)

    def of(self, kind: type[Any]) -> list[Any]:
        return [update for update in self.told if isinstance(update, kind)]

    @property
    def text(self) -> str:
        return "".join(update.content.text for update in self.of(schema.AgentMessageChunk))


@asynccontextmanager
async def agent(editor: Editor, *arguments: str) -> AsyncIterator[tuple[Any, asyncio.subprocess.Process]]:
    command = (sys.executable, "-m", "zoea", "acp", *arguments)
    async with spawn_agent_process(
        editor,  # type: ignore[arg-type]  # it offers no files and no terminals
        *command,
        env=environment(),
        use_unstable_protocol=True,
        transport_kwargs={"stderr": None, "shutdown_timeout": 30.0, "limit": 2**24},
    ) as (conn, process):
        began = await conn.initialize(protocol_version=PROTOCOL_VERSION)
        assert began.protocol_version == 1
        yield conn, process


def text(said: str) -> list[Any]:
    return [helpers.text_block(said)]


async def test_a_prompt_is_answered_in_pieces_by_a_mysis_of_its_own_swarm(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with OpenAIServer(otherwise=lambda _: Say(LONG)) as server:
        configure(tmp_path, server)
        editor = Editor()
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            assert made.modes.current_mode_id == "coder"
            resource = helpers.resource_block(helpers.embedded_text_resource("file:///ore.txt", "iron at 7"))
            link = helpers.resource_link_block("map", "file:///map.txt")
            answered = await conn.prompt(session_id=made.session_id, prompt=[*text("Where?"), resource, link])
            assert answered.stop_reason == "end_turn"
            assert editor.text == LONG
            [commands] = editor.of(schema.AvailableCommandsUpdate)
            assert [one.name for one in commands.available_commands] == ["broadcast", "search", "fork"]
        [(prompt,)] = ask("SELECT content FROM memory WHERE role = 'user'")
        assert prompt == "Where?\n\nfile:///ore.txt:\n```\niron at 7\n```\n\n[map](file:///map.txt)"
        assert await until(lambda: not find_owner())


async def test_beside_a_running_swarm_it_talks_to_the_mysis_that_is_named(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron.")) as server:
        configure(tmp_path, server)
        async with run_headless("--myses", "1") as owner:
            [(name,)] = ask("SELECT name FROM mysis")
            editor = Editor()
            async with agent(editor, "--mysis", name) as (conn, _process):
                made = await conn.new_session(cwd=str(tmp_path))
                assert (await conn.prompt(session_id=made.session_id, prompt=text("What?"))).stop_reason == "end_turn"
                assert editor.text == "Iron."
                [listed] = (await conn.list_sessions()).sessions
                assert (listed.session_id, listed.title) == (made.session_id, name)
                assert (await conn.prompt(session_id=made.session_id, prompt=text("/search iron"))).stop_reason
                assert f"- **{name}**, turn 1: Iron." in editor.text
                await conn.prompt(session_id=made.session_id, prompt=text("/broadcast dig"))
                assert "Delivered to 1 of 1 myses." in editor.text
            assert find_owner() == owner.pid


async def test_a_change_of_a_file_is_asked_about_with_its_difference(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "sums.py").write_text("one = 2\n")
    steps = (
        Say(calls=(Call("read_file", json.dumps({"path": "sums.py"}), id="c1"),)),
        Say(calls=(Call("edit_file", json.dumps({"path": "sums.py", "edits": [{"old": "2", "new": "1"}]}), id="c2"),)),
        Say("Mended."),
    )
    async with OpenAIServer(*steps, otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        editor = Editor("once")
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(project))
            answered = await conn.prompt(session_id=made.session_id, prompt=text("Mend the sum."))
            assert (answered.stop_reason, editor.text) == ("end_turn", "Mended.")
        assert (project / "sums.py").read_text() == "one = 1\n"
        read, edit = editor.of(schema.ToolCallStart)
        assert (read.kind, read.locations[0].path) == ("read", str(project / "sums.py"))
        assert (edit.kind, edit.content[0].old_text, edit.content[0].new_text) == ("edit", "2", "1")
        [(asked, options)] = editor.permissions
        assert asked.tool_call_id == edit.tool_call_id
        assert [option.kind for option in options] == ["allow_once", "allow_always", "allow_always", "reject_once"]
        ends = {update.tool_call_id: update.status for update in editor.of(schema.ToolCallProgress)}
        assert ends == {read.tool_call_id: "completed", edit.tool_call_id: "completed"}


async def test_a_long_change_is_shown_whole_before_it_is_allowed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    content = "long line\n" * 1_000 + "the end\u202e"
    call = Call("write_file", json.dumps({"path": "a.txt", "content": content}), id="c1")
    async with OpenAIServer(Say(calls=(call,)), otherwise=lambda _: Say("Written.")) as server:
        configure(tmp_path, server)
        editor = Editor("once")
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(project))
            await conn.prompt(session_id=made.session_id, prompt=text("Write."))
        [(asked, _)] = editor.permissions
        [difference] = asked.content or []
        assert isinstance(difference, schema.FileEditToolCallContent)
        assert difference.new_text.endswith("the end\\u202e")
        assert (project / "a.txt").read_text() == content


async def test_a_refused_change_is_not_made(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    steps = (Say(calls=(Call("write_file", json.dumps({"path": "a.txt", "content": "x"}), id="c1"),)), Say("Then not."))
    async with OpenAIServer(*steps, otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        editor = Editor("denied")
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(project))
            await conn.prompt(session_id=made.session_id, prompt=text("Write."))
        assert editor.text == "Then not."
        assert not list(project.iterdir())
        assert [update.status for update in editor.of(schema.ToolCallProgress)] == ["failed"]


async def test_a_cancelled_prompt_ends_and_the_next_is_answered(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with OpenAIServer(Say(LONG, stall_after=9), otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        editor = Editor()
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            prompting = asyncio.create_task(conn.prompt(session_id=made.session_id, prompt=text("Go.")))
            await editor.chunk.wait()
            await conn.cancel(session_id=made.session_id)
            assert (await prompting).stop_reason == "cancelled"
            editor.told.clear()
            answered = await conn.prompt(session_id=made.session_id, prompt=text("Again."))
            assert (answered.stop_reason, editor.text) == ("end_turn", "Ready.")


@pytest.mark.parametrize("choice", ["", "once"])
async def test_a_permission_that_is_open_ends_with_its_prompt(tmp_path: Path, choice: str) -> None:
    (tmp_path / "project").mkdir()
    call = Call("write_file", json.dumps({"path": "a.txt", "content": "x"}), id="c1")
    async with OpenAIServer(Say(calls=(call,)), otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        editor = Editor(choice)
        editor.answer.clear()
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            prompting = asyncio.create_task(conn.prompt(session_id=made.session_id, prompt=text("Write.")))
            await editor.asked.wait()
            await conn.cancel(session_id=made.session_id)
            editor.answer.set()
            assert (await prompting).stop_reason == "cancelled"
        assert ask("SELECT count(*) FROM approval WHERE answer IN ('once', 'session', 'template')") == [(0,)]


async def test_what_a_mysis_asks_is_answered_by_the_next_prompt(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    call = Call("zoea_ask", json.dumps({"question": "Which ore?"}), id="c1")
    async with OpenAIServer(Say(calls=(call,)), otherwise=lambda _: Say("Iron it is.")) as server:
        configure(tmp_path, server)
        editor = Editor()
        async with agent(editor) as (conn, _process):
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            await conn.prompt(session_id=made.session_id, prompt=text("Dig."))
            assert editor.text == "Which ore?"
            await conn.prompt(session_id=made.session_id, prompt=text("Iron."))
            assert editor.text == "Which ore?Iron it is."
        assert ask("SELECT answer, sentence FROM approval") == [("once", "Iron.")]
        assert ask("SELECT count(*) FROM message") == [(1,)]


async def test_a_session_is_loaded_with_its_conversation_resumed_and_forked(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with OpenAIServer(otherwise=lambda _: Say("Iron.")) as server:
        configure(tmp_path, server)
        async with agent(Editor()) as (conn, _process):
            made = await conn.new_session(cwd=str(project))
            await conn.prompt(session_id=made.session_id, prompt=text("What?"))
        editor = Editor()
        async with agent(editor) as (conn, _process):
            await conn.load_session(cwd=str(project), session_id=made.session_id)
            assert [update.content.text for update in editor.of(schema.UserMessageChunk)] == ["What?"]
            assert editor.text == "Iron."
            forked = await conn.fork_session(cwd=str(project), session_id=made.session_id)
            assert (await conn.prompt(session_id=forked.session_id, prompt=text("And?"))).stop_reason == "end_turn"
            assert "What?" in json.dumps(server.chats[-1].json["messages"])
            await conn.set_session_mode(session_id=forked.session_id, mode_id="researcher")
            await conn.close_session(session_id=forked.session_id)
            with pytest.raises(RequestError, match="is not open"):
                await conn.prompt(session_id=forked.session_id, prompt=text("And?"))
            await conn.resume_session(cwd=str(project), session_id=forked.session_id)
        assert ask("SELECT count(*) FROM mysis") == [(2,)]


async def test_a_loaded_session_answers_and_says_when_its_model_fails(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    failed = Fail.error(503, "Overloaded", type="server_error")
    async with OpenAIServer(Say("Iron."), failed, otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        async with agent(Editor()) as (conn, _process):
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            await conn.prompt(session_id=made.session_id, prompt=text("What?"))
        editor = Editor()
        async with agent(editor) as (conn, _process):
            await conn.load_session(cwd=str(tmp_path / "project"), session_id=made.session_id)
            editor.told.clear()
            assert (await conn.prompt(session_id=made.session_id, prompt=text("Go on."))).stop_reason == "end_turn"
            assert editor.text == "Ready."
            [thought] = editor.of(schema.AgentThoughtChunk)
            assert "A request failed (503); Zoea sends it again." in thought.content.text


async def test_wrong_requests_are_answered_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with OpenAIServer(otherwise=lambda _: Say("Iron.")) as server:
        configure(tmp_path, server)
        async with agent(Editor()) as (conn, _process):
            for session_id in ("mysis-99", "mysis-x", "../etc"):
                with pytest.raises(RequestError):
                    await conn.load_session(cwd=str(tmp_path), session_id=session_id)
            with pytest.raises(RequestError):
                await conn.new_session(cwd=str(tmp_path / "missing"))
            made = await conn.new_session(cwd=str(tmp_path / "project"))
            picture = helpers.image_block("aGk=", "image/png")
            with pytest.raises(RequestError, match="holds texts and resources, no image"):
                await conn.prompt(session_id=made.session_id, prompt=[picture])
            with pytest.raises(RequestError, match="there is no template"):
                await conn.set_session_mode(session_id=made.session_id, mode_id="nonsense")
            with pytest.raises(RequestError):
                await conn.ext_method("odd", {})
            assert (await conn.prompt(session_id=made.session_id, prompt=text("What?"))).stop_reason == "end_turn"


async def test_hostile_lines_do_not_end_it(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=lambda _: Say("Iron.")) as server:
        configure(tmp_path, server)
        asked = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 2}}
        odd = [{"id": 1}, {"method": "odd", "id": 2}, {"method": 5}, {"id": [1], "result": 1}, {"id": 1, "error": "x"}]
        lines = ["nonsense", "[]", "null", "[" * 100_000, *map(json.dumps, odd)]
        typed = "\n".join([*lines, json.dumps(asked), ""])
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "zoea",
            "acp",
            env=environment(),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(typed.encode())
        answers: list[dict[str, Any]] = []
        while not answers or answers[-1].get("id") != 7:
            answers.append(json.loads(await process.stdout.readline()))
        assert answers[-1]["result"]["protocolVersion"] == 1
        assert {"id": 2, "code": -32601} in [
            {"id": one.get("id"), "code": one["error"]["code"]} for one in answers[:-1]
        ]
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.parametrize("given", ["empty", os.devnull])
def test_without_an_editor_it_says_what_it_is_for(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").write_text("")
    with (tmp_path / given).open() as nothing:
        ran = subprocess.run(
            [sys.executable, "-m", "zoea", "acp"],
            env=environment(),
            stdin=nothing,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 2
    assert "an editor starts this command" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert zoea("acp", "--mysis", "a", "--template", "b").returncode == 2
