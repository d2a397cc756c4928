"""A small model on a llama.cpp server, over real processes: first message, one line a tool, a chat, loading."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_forks import command
from tests.e2e.zoea_process import ROOT, ask, run_headless
from tests.fakes.llamacpp_server import LISTED, PROPS
from tests.fakes.openai_server import Fail, OpenAIServer, Say
from tests.waiting import until

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

GUIDE = (ROOT / "documentation" / "guide" / "small-models.md").read_text("utf-8")


def say(text: str) -> Say:
    return Say(json.dumps({"next": "I answer.", "answer": text}))


def write_settings(text: str) -> None:
    folder = Path(os.environ["ZOEA_CONFIG_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


@asynccontextmanager
async def small_model(window: int = 8192) -> AsyncIterator[OpenAIServer]:
    """Serve as a llama.cpp with a model of half a billion parameters. Zoea finds it by its address."""
    server = OpenAIServer(otherwise=lambda _: say("It is done."))
    server.models = [{**LISTED, "meta": {**LISTED["meta"], "n_params": 494_000_000}}]
    server.props = {**PROPS, "default_generation_settings": {"n_ctx": window}}
    async with server:
        yield server


@asynccontextmanager
async def running(server: OpenAIServer, *arguments: str, more: str = "") -> AsyncIterator[None]:
    write_settings(f'[provider.near]\ntype = "openai"\nbase_url = "{server.base_url}"\n{more}')
    async with run_headless("--provider", "near", *arguments):
        yield


def read_start() -> tuple[list[str], list[str]]:
    """The commands with which the guide begins: what follows `zoea run` and `zoea send`."""
    lines = [shlex.split(line) for line in GUIDE.splitlines() if re.match("zoea (run|send) ", line)]
    (run,) = [line[2:] for line in lines if line[1] == "run"]
    (send,) = [line[2:] for line in lines if line[1] == "send"]
    return run, send


async def test_the_first_message_of_the_guide_is_answered_by_its_template_and_it_rests(tmp_path: Path) -> None:
    run, send = read_start()
    kept = run[run.index("--myses") :]
    async with small_model() as server, running(server, *kept):
        answer = await command("send", *send, "--wait")
        (row,) = json.loads(await command("list", "--json"))
    (chat,) = [one.json["messages"] for one in server.chats]
    assert (answer, row["status"], row["template"]) == ("It is done.\n", "idle", kept[kept.index("--template") + 1])
    assert chat[0]["content"].startswith("You are an agent in a swarm.")
    assert [one["role"] for one in chat] == ["system", "user"]
    assert chat[1]["content"].endswith(f"\n{send[1]}"), "the message alone, and no nudge after its answer"


GIT = """
import json, sys

TEXT, LIST = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
TOOLS = [
    {
        "name": f"git_{name}",
        "description": f"Shows or changes the {name}.",
        "inputSchema": {
            "type": "object",
            "properties": {"repo_path": {**TEXT, "description": "The path. " * 20}, "files": LIST, "since": TEXT},
            "required": ["repo_path"],
        },
        "annotations": {"destructiveHint": name == "reset", "readOnlyHint": name != "reset"},
    }
    for name in "status diff log show add commit reset branch checkout stash tag remote fetch blame".split()
]
for line in sys.stdin:
    asked = json.loads(line)
    method, result = asked["method"], {}
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "git", "version": "1"}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "clean"}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def step(name: str, **arguments: object) -> Say:
    return Say(json.dumps({"next": "I call.", "name": name, "arguments": arguments}))


def read_schemas(chat: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schema of the arguments of each tool that the grammar of a request allows."""
    options = chat["response_format"]["json_schema"]["schema"]["anyOf"]
    found = [one["properties"] for one in options if "name" in one["properties"]]
    return {one["name"]["const"]: one["arguments"]["properties"] for one in found}


async def test_fourteen_tools_keep_their_arguments_in_one_line_each_and_a_refused_call_is_only_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "git.py").write_text(GIT)
    upstream = (
        f"[upstream.git]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(tmp_path / 'git.py'))}]\n"
    )
    async with small_model() as server, running(server, "--myses", "1", "--template", "assistant", more=upstream):
        server.script.append(step("git_reset", repo_path="/srv/shop"))
        sent = asyncio.create_task(command("send", "alpha", "Reset the shop.", "--wait"))
        waits = "SELECT count(*) FROM approval WHERE answer IS NULL"
        await until(lambda: ask(waits) == [(1,)], within=60)
        await command("deny", "alpha")
        assert await sent == "It is done.\n"
        explained = await command("explain", "alpha")
    first, second = [one.json for one in server.chats]
    system = first["messages"][0]["content"]
    lines = [line for line in system.splitlines() if line.startswith("- git_")]
    assert len(lines) == 14
    assert lines[0] == "- git_status(repo_path, files?: list, since?): Shows or changes the status."
    assert "zoea_find_tools" not in system
    examples = system.partition("Examples:")[2]
    assert "git_" in examples
    assert not re.search("<|nothing is left", examples)
    assert all(set(one) == {"repo_path", "files", "since"} for one in _of_git(first))
    assert all("maxItems" in one["files"] for one in _of_git(first))
    assert "[a call of git_reset, which was refused]" in str(second["messages"])
    assert "/srv/shop" not in str(second["messages"])
    assert "limit: the window (8.2k) less the longest answer (1k)" in explained


def _of_git(chat: dict[str, Any]) -> list[dict[str, Any]]:
    return [arguments for name, arguments in read_schemas(chat).items() if name.startswith("git_")]


async def test_without_upstreams_a_message_goes_to_a_mysis_that_the_grammar_names(tmp_path: Path) -> None:
    async with small_model() as server, running(server):
        for name in ("alpha", "bob", "cleo"):
            await command("new", name)
        server.script.append(step("zoea_send_message", mysis="bob", text="The list is ready."))
        await command("send", "alpha", "Tell bob that the list is ready.", "--wait")
        sent = ask("SELECT content FROM message WHERE sender_id IS NOT NULL")
        first = server.chats[0].json
    assert sent == [("The list is ready.",)]
    assert read_schemas(first)["zoea_send_message"]["mysis"] == {"enum": ["bob", "cleo"]}
    examples = first["messages"][0]["content"].partition("Examples:")[2]
    assert '"name": "zoea_send_message"' in examples
    assert "bob" not in examples


async def test_a_chat_of_eight_turns_is_shown_whole_and_its_beginning_read_once(tmp_path: Path) -> None:
    async with small_model() as server, running(server, "--myses", "1", "--template", "assistant"):
        for number in range(8):
            await command("send", "alpha", f"Question {number}: " + "what of the harbour? " * 20, "--wait")
    sent = [one.json["messages"] for one in server.chats]
    assert [len(one) for one in sent] == [2 * (number + 1) for number in range(8)]
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before, "the server reads only what is new"


async def prepares() -> bool:
    return "preparing its model" in await command("list")


async def test_a_server_that_loads_its_model_is_loading_in_the_list_and_the_row(tmp_path: Path) -> None:
    async with small_model() as server:
        loading = Fail.error(503, "Loading model")
        server.list_fails, server.otherwise = loading, lambda _: loading
        async with running(server, "--myses", "1", "--template", "assistant"):
            listed = await command("providers")
            sent = asyncio.create_task(command("send", "alpha", "Good morning.", "--wait"))
            await until(prepares, within=60)
            row = await command("list")
            server.list_fails, server.otherwise = None, lambda _: say("Good morning.")
            assert await sent == "Good morning.\n"
            ready = await command("providers")
    assert re.search("^near +openai +loading ", listed, re.MULTILINE)
    assert "preparing its model" in row
    assert re.search("^near +openai +ok ", ready, re.MULTILINE)
