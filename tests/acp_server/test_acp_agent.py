"""The agent side of the protocol, without a process: odd requests, the stream of an answer, prompts, calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, helpers, schema
from acp.agent.router import build_agent_router
from acp.meta import AGENT_METHODS
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from tests.case_tables import walk_cases
from zoea.acp_server import prompt_follower
from zoea.acp_server.acp_agent import ZoeaAgent
from zoea.acp_server.acp_stdio import is_message
from zoea.acp_server.prompt_follower import PromptFollower, ShownStream
from zoea.acp_server.session_updates import describe_approval, find_question, read_prompt, replay
from zoea.model.enums import Activity, ApprovalAnswer, MysisState, Role, Source
from zoea.model.errors import MysisMissing
from zoea.model.values import ApprovalView, Memory, MysisView, ToolCall
from zoea.text.control_characters import reveal_unambiguously

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("sessionId", "cwd", "prompt", "modeId", "mcpServers", "protocolVersion", "configId", "value", "methodId")


class NoSwarm:
    """A swarm without myses: every method raises as for a missing one."""

    def __getattr__(self, _name: str) -> Any:
        async def refuse(*_arguments: Any, **_named: Any) -> None:
            raise MysisMissing("there is no mysis")

        return refuse


def make_agent() -> ZoeaAgent:
    swarm: Any = NoSwarm()
    return ZoeaAgent(swarm, Path("/nowhere/zoea.db"), templates=("default",))


@given(method=st.sampled_from(sorted(AGENT_METHODS.values())), extra=st.dictionaries(st.sampled_from(KEYS), JSON))
async def test_any_request_is_answered_or_refused_in_order(method: str, extra: dict[str, Any]) -> None:
    plausible: dict[str, Any] = {"sessionId": "mysis-1", "cwd": "/", "prompt": [], "modeId": "m", "protocolVersion": 1}
    agent: Any = make_agent()
    router = build_agent_router(agent, use_unstable_protocol=True)
    for is_notification in (False, True):
        try:
            await router(method, {**plausible, "mcpServers": [], **extra}, is_notification)
        except (RequestError, ValidationError):
            continue


@given(JSON)
def test_any_line_is_a_message_that_the_sdk_takes_or_none(value: Any) -> None:
    if is_message(value):
        assert isinstance(value.get("method", ""), str)
        hash(value.get("id"))


@walk_cases("number", [True, False, 1.5, [1]])
def test_an_id_that_could_be_taken_for_another_is_refused(number: Any) -> None:
    # The SDK keeps requests by id, and True is 1 there: the connection ended without an answer to either.
    assert not is_message({"jsonrpc": "2.0", "id": number, "method": "initialize"})


def view(streaming: str, before: int = 0, thinking: str = "") -> MysisView:
    return MysisView(
        1,
        "alpha",
        "default",
        "p",
        "m",
        MysisState.RUNNING,
        "",
        0,
        Activity.LLM,
        None,
        None,
        False,
        (),
        streaming=streaming,
        streamed_before=before,
        thinking=thinking,
    )


def memory(content: str, reasoning: str = "", **more: Any) -> Memory:
    return Memory(1, 1, 1, 1, 1, Role.ASSISTANT, Source.LLM, content, reasoning, **more)


class TestShownStream:
    def test_each_piece_is_shown_once(self) -> None:
        shown = ShownStream()
        assert [shown.read(view(text))[0] for text in ("Iron", "Iron at", "Iron at", "Iron at 7")] == [
            "Iron",
            " at",
            "",
            " 7",
        ]
        assert shown.end(memory("Iron at 7.")) == (".", "")

    def test_an_answer_of_which_nothing_was_streamed_is_shown_whole(self) -> None:
        assert ShownStream().end(memory("Iron.", "I think.")) == ("Iron.", "I think.")

    def test_what_was_missed_between_two_looks_follows_with_the_stored_answer(self) -> None:
        shown = ShownStream()
        first, rest = "a" * 10, "b" * 5_000
        assert shown.read(view(first))[0] == first
        assert shown.read(view(rest[-4_000:], before=1_010))[0] == ""
        assert shown.end(memory(first + rest))[0] == rest

    def test_an_answer_after_another_is_not_its_continuation(self) -> None:
        shown = ShownStream()
        assert shown.read(view("Iron."))[0] == "Iron."
        assert shown.end(memory("Iron."))[0] == ""
        assert shown.read(view("Ore", before=6))[0] == "Ore"

    def test_an_answer_is_not_shown_again_by_a_view_that_is_older_than_it(self) -> None:
        shown = ShownStream()
        assert shown.end(memory("Iron it is."))[0] == "Iron it is."
        assert [shown.read(view(text))[0] for text in ("Iron it", "Iron it is.", "")] == ["", "", ""]
        assert [shown.read(view(text, before=12))[0] for text in ("Iron", "Iron at 7")] == ["", "Iron at 7"]
        assert shown.end(memory("Iron at 7."))[0] == "."

    def test_thoughts_are_shown_as_they_come(self) -> None:
        shown = ShownStream()
        assert [shown.read(view("", thinking=text))[1] for text in ("So", "So it", "So it")] == ["So", " it", ""]


class TestPrompt:
    @walk_cases(
        ("block", "why"),
        [
            (helpers.image_block("aGk=", "image/png"), "holds texts and resources, no image"),
            (helpers.audio_block("aGk=", "audio/wav"), "holds texts and resources, no audio"),
            (
                helpers.resource_block(helpers.embedded_blob_resource("file:///a.pdf", "aGk=")),
                "holds texts, and file:///a.pdf is none",
            ),
        ],
        ids=["picture", "sound", "bytes"],
    )
    def test_what_is_no_text_is_refused_by_name(self, block: Any, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            read_prompt([block])

    def test_resources_are_part_of_the_text(self) -> None:
        blocks = [
            helpers.text_block("Look: "),
            helpers.resource_block(helpers.embedded_text_resource("file:///a", "x")),
        ]
        assert read_prompt(blocks) == "Look: \n\nfile:///a:\n```\nx\n```"


def approval(tool: str, arguments: Any, **more: Any) -> ApprovalView:
    return ApprovalView(7, 1, "alpha", tool, "files", json.dumps(arguments), 0, 0, **more)


class TestApprovals:
    def test_only_the_possible_answers_are_offered(self) -> None:
        kinds = [[one.option_id for one in describe_approval(asked, (), "/")[1]] for asked in (
            approval("act", {}), approval("run", {}, grant_scope=""), approval("Go on?", {}, kind="budget"),
        )]  # fmt: skip
        assert kinds == [["once", "session", "template", "denied"], ["once", "denied"], ["once", "session", "denied"]]

    def test_it_names_the_call_that_was_shown(self) -> None:
        call = ToolCall(3, 0, "act", '{"b": 1, "a": 2}')
        assert describe_approval(approval("act", {"a": 2, "b": 1}), [call], "/")[0].tool_call_id == "c3"
        assert describe_approval(approval("act", {}), [call], "/")[0].tool_call_id == "approval-7"

    @walk_cases(
        ("tool", "arguments"),
        [
            ("act\u202e", {"text": "a\x1b[2J"}),
            ("run", {"command": f"ls {'-l ' * 40}; rm -rf \u009d hidden\u009c"}),
            ("write_file", {"path": "a.py", "content": "one\u202etwo\x1b]0;t\x07 \\u202e\n\tlast"}),
            ("write_file", {"path": "a.py", "content": "one", "mode": "0777"}),
            ("write_file", {"path": "docs/\u202eyp.a\u009b31", "content": "one"}),
            ("edit_file", {"path": f"{'docs/' * 40}a\u200b.py ", "edits": [{"old": "1", "new": "2"}]}),
            ("edit_file", {"path": "a.py", "edits": [{"old": "1\u200b", "new": "2\u2066"}]}),
            ("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2", "all": True}]}),
            ("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}, {"old": 1, "new": "the end"}]}),
            ("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}], "and": "more"}),
            ("zoea_ask", {"question": "Dig\x1b[2J?"}),
        ],
    )
    def test_every_argument_is_shown_whole_and_hidden_characters_as_escapes(self, tool: str, arguments: Any) -> None:
        asked = approval(tool, arguments)
        update, _ = describe_approval(asked, (), "/")
        told, changes, is_whole = [update.title or "", find_question(asked)], list[tuple[str, str | None, str]](), False
        for part in update.content or []:
            if isinstance(part, schema.FileEditToolCallContent):
                told += [part.new_text, part.old_text or ""]
                changes.append((part.path, part.old_text, part.new_text))
            else:
                assert isinstance(part, schema.ContentToolCallContent)
                assert isinstance(part.content, schema.TextContentBlock)
                told.append(part.content.text)
                assert json.loads(part.content.text) == arguments
                is_whole = True
        assert not any(HIDDEN.search(text) for text in told)
        assert is_whole or changes == list_changes(arguments)


async def test_a_call_that_the_list_has_cut_is_read_whole_before_an_editor_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored: list[ApprovalView | None] = [approval("run", {"command": "ls; rm -rf /"}), None]
    asked: list[Any] = []

    class Asked:
        async def request_permission(self, **question: Any) -> schema.RequestPermissionResponse:
            asked.append(question["tool_call"])
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))

    monkeypatch.setattr(prompt_follower, "read_approval", lambda *_: stored.pop(0))
    editor: Any = Asked()
    swarm: Any = NoSwarm()
    follower = PromptFollower(swarm, Path("/nowhere/zoea.db"), editor, "mysis-1", 1, "/")
    cut = replace(approval("run", {}), arguments='{"command": "ls', is_cut=True)
    await follower._ask_about(cut)
    await follower._ask_about(cut)  # answered elsewhere meanwhile
    [update] = asked
    assert update.raw_input == {"command": "ls; rm -rf /"}
    assert "rm -rf /" in update.content[0].content.text


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_an_answer_that_comes_after_the_prompt_was_cancelled_allows_nothing(is_cancelled: bool) -> None:
    given: list[ApprovalAnswer] = []

    class Allowing:
        async def request_permission(self, **_: Any) -> schema.RequestPermissionResponse:
            follower.is_cancelled = is_cancelled
            outcome = schema.AllowedOutcome(outcome="selected", option_id="once")
            return schema.RequestPermissionResponse(outcome=outcome)

    class Answered(NoSwarm):
        async def answer(self, _approval: int, answer: ApprovalAnswer) -> None:
            given.append(answer)

    editor: Any = Allowing()
    swarm: Any = Answered()
    follower = PromptFollower(swarm, Path("/nowhere/zoea.db"), editor, "mysis-1", 1, "/")
    await follower._ask_about(approval("run", {"command": "ls"}))
    assert given == ([] if is_cancelled else [ApprovalAnswer.ONCE])


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\u2066]")


def list_changes(arguments: Any) -> list[tuple[str, str | None, str]] | None:
    """Return the changes that are all of a call's arguments.

    None where it has others, or a path with hidden characters.
    """
    match arguments:
        case {"path": str(path), "content": str(new), **rest} if not rest and not HIDDEN.search(path):
            return [(f"/{path}", None, reveal_unambiguously(new))]
        case {"path": str(path), "edits": list(edits), **rest} if not rest and not HIDDEN.search(path):
            if all(len(edit) == 2 for edit in edits):
                texts = [(reveal_unambiguously(edit["old"]), reveal_unambiguously(edit["new"])) for edit in edits]
                return [(f"/{path}", *each) for each in texts]
    return None


def test_a_conversation_is_replayed_with_its_calls() -> None:
    edit = ToolCall(3, 0, "edit_file", json.dumps({"path": "a.py", "edits": [{"old": "1", "new": "2"}, 5]}))
    odd = ToolCall(4, 1, "write_file", "no json")
    result = Memory(2, 1, 1, 1, 2, Role.TOOL, Source.TOOL, "x" * 30_000, call_id=3)
    told = list(replay([memory("Now.", "Hm.", calls=(edit, odd)), result], "/work"))
    assert [type(one).__name__ for one in told] == [
        "AgentThoughtChunk", "AgentMessageChunk", "ToolCallStart", "ToolCallStart", "ToolCallProgress",
    ]  # fmt: skip
    start, end = told[2], told[4]
    assert isinstance(start, schema.ToolCallStart)
    assert isinstance(end, schema.ToolCallProgress)
    assert start.content is not None
    assert end.content is not None
    [diff] = start.content
    assert isinstance(diff, schema.FileEditToolCallContent)
    assert (diff.path, diff.old_text, diff.new_text) == ("/work/a.py", "1", "2")
    assert len(json.dumps(end.model_dump(mode="json"))) < 21_000
