"""Zoea's own tools for a mysis: calls to the swarm, and errors that name the field and its range."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.toolboxes import BETA, FakeBackend, asked, meta
from tests.tools.conftest import Opener
from zoea.model.enums import Role, Source
from zoea.model.request import ToolResult, ToolSpec, WaitRequest
from zoea.store.search import BroadcastQuery, MatchMode, MemoryHits, MemoryQuery, SearchColumn
from zoea.store.search.query import SEARCH_TOOLS
from zoea.tools import OwnTools, SearchScope, Send, ToolPolicy
from zoea.tools.builtin.mysis_tools import MysisTools
from zoea.tools.toolbox import ToolboxSession


def _session(open_box: Opener, backend: FakeBackend, **policy: Any) -> ToolboxSession:
    return open_box(builtin=MysisTools(backend), policies=lambda template: ToolPolicy(**policy)).session(1, "alpha", "")


async def _call(session: ToolboxSession, name: str, /, **arguments: Any) -> ToolResult:
    return await session.call(asked(name, **arguments), meta=meta(mysis_id=7, hop=2))


async def test_the_tools_are_these(open_box: Opener) -> None:
    catalogue = await _session(open_box, FakeBackend()).catalogue()
    assert [tool.name for tool in catalogue.tools] == [
        "zoea_send_message",
        "zoea_broadcast",
        "zoea_ask",
        "zoea_list_myses",
        "zoea_wait",
        "zoea_done",
        "zoea_search_messages",
        "zoea_search_broadcasts",
        "zoea_search_reasoning",
        "zoea_read_memory",
    ]
    assert {tool.name for tool in catalogue.tools if not tool.read_only} == {
        "zoea_send_message",
        "zoea_broadcast",
        "zoea_ask",
        "zoea_wait",
        "zoea_done",
    }
    assert [tool.name for tool in catalogue.tools if tool.asks] == ["zoea_ask"]


async def test_the_slim_tools_are_these_and_cost_a_third(open_box: Opener) -> None:
    slim = (await _session(open_box, FakeBackend(), own=OwnTools.SLIM).catalogue()).tools
    full = (await _session(open_box, FakeBackend()).catalogue()).tools
    reading = ("zoea_search_", "zoea_recall", "zoea_read_memory")
    assert {tool.name for tool in (*slim, *full) if tool.name.startswith(reading)} == set(SEARCH_TOOLS)
    assert [tool.name for tool in slim] == [
        "zoea_send_message",
        "zoea_broadcast",
        "zoea_ask",
        "zoea_list_myses",
        "zoea_wait",
        "zoea_done",
        "zoea_recall",
        "zoea_read_memory",
    ]

    def tokens(tools: tuple[ToolSpec, ...]) -> int:
        return sum(
            len(json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.input_schema})) // 4
            for tool in tools
        )

    assert tokens(slim) <= 650
    assert tokens(slim) * 3 <= tokens(full)


async def test_recall_searches_words_and_shows_the_best_first(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.texts = {9: "a vein of beryllium"}
    session = _session(open_box, backend, own=OwnTools.SLIM)
    result = await _call(session, "zoea_recall", query="vein beryllium")
    assert json.loads(result.content)["results"]
    (query,) = [one[-1] for one in backend.calls if isinstance(one[-1], MemoryQuery)]
    assert (query.text, query.match, query.column, query.mysis_ids) == (
        "vein beryllium",
        MatchMode.RANKED,
        SearchColumn.CONTENT,
        (7,),
    )


async def test_a_call_by_the_name_of_a_tool_that_is_not_offered_works(open_box: Opener) -> None:
    session = _session(open_box, FakeBackend(), own=OwnTools.SLIM)
    assert "zoea_search_messages" not in [tool.name for tool in (await session.catalogue()).tools]
    found = await _call(session, "zoea_search_messages", query="vein")
    assert not found.is_error
    denied = _session(open_box, FakeBackend(), own=OwnTools.SLIM, deny=("zoea_search_*",))
    assert (await _call(denied, "zoea_search_messages", query="vein")).is_error


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("zoea_recall", {"q": "ore"}, "q is not an argument of this tool; did you mean query?"),
        ("zoea_send_message", {"message": "x", "mysis": "beta"}, "it takes mysis, text"),
        ("zoea_list_myses", {"name": "x"}, ""),
        ("zoea_read_memory", {"memory_id": 3}, "did you mean id?"),
    ],
)
async def test_an_unknown_argument_is_named_with_the_nearest(
    open_box: Opener, name: str, arguments: dict[str, Any], said: str
) -> None:
    result = await _call(_session(open_box, FakeBackend(), own=OwnTools.SLIM), name, **arguments)
    assert said in result.content
    assert result.is_error is bool(said)


@pytest.mark.parametrize("argument", ["mysis", "to"])
async def test_the_short_tool_names_the_mysis_as_the_others_do_and_takes_the_former_name(
    open_box: Opener, argument: str
) -> None:
    backend = FakeBackend()
    session = _session(open_box, backend, own=OwnTools.SLIM)
    (send,) = [tool for tool in (await session.catalogue()).tools if tool.name == "zoea_send_message"]
    assert list(send.input_schema["properties"]) == ["mysis", "text"]
    assert not (await _call(session, "zoea_send_message", **{argument: "beta", "text": "hello"})).is_error
    own = await _call(session, "zoea_send_message", **{argument: "Alpha", "text": "hello"})
    long = await _call(session, "zoea_send_message", **{argument: "beta", "text": "x" * 20_001})
    assert own.content == 'not sent: Alpha is your own name. Call it again with mysis "beta" and text "hello"'
    assert "at most 20000 characters" in long.content
    assert len(backend.calls) == 1


async def test_a_message_to_oneself_is_refused(open_box: Opener) -> None:
    backend = FakeBackend()
    session = _session(open_box, backend)
    for text, right in (("hello", '"hello"'), ("x" * 201, "the same text")):
        result = await _call(session, "zoea_send_message", to="Alpha", text=text)
        advice = f'Call it again with to "beta" and text {right}'
        assert result == ToolResult(f"not sent: Alpha is your own name. {advice}", is_error=True)
    backend.myses = ()
    alone = await _call(session, "zoea_send_message", to="Alpha", text="hello")
    assert alone.content == "not sent: Alpha is your own name. There is no other mysis. Give your answer as text"
    assert backend.calls == []


async def test_a_question_is_answered_by_its_approval(open_box: Opener) -> None:
    backend = FakeBackend()
    result = await _call(_session(open_box, backend), "zoea_ask", question="Sell?")
    assert result == ToolResult("The commander answers: Sell at Halcyon")
    assert backend.calls == [("answer", 7, meta().call_id)]
    unanswered = await _session(open_box, backend).call(
        asked("zoea_ask", question="Sell?"), meta=replace(meta(), call_id=404)
    )
    assert unanswered == ToolResult("the commander gave no answer", is_error=True)


async def test_a_mysis_that_may_not_write_may_not_ask(open_box: Opener) -> None:
    catalogue = await _session(open_box, FakeBackend(), send=Send.NONE).catalogue()
    assert "zoea_ask" not in [tool.name for tool in catalogue.tools]


async def test_a_toolbox_without_a_swarm_has_none_of_them(open_box: Opener) -> None:
    assert (await open_box().session(1, "alpha", "").catalogue()).tools == ()


async def test_the_swarm_may_be_set_later(open_box: Opener) -> None:
    box = open_box()
    session = box.session(1, "alpha", "")
    assert (await session.catalogue()).tools == ()
    box.serve(MysisTools(FakeBackend()))
    assert (await session.catalogue()).tools


async def test_a_message_carries_the_callers_id_and_hop(open_box: Opener) -> None:
    backend = FakeBackend()
    result = await _call(_session(open_box, backend), "zoea_send_message", to="beta", text="hello")
    assert result.content == "Delivered to beta. It answers, if at all, in a later turn. Do not send it again."
    assert backend.calls == [("send", 7, 2, "beta", "hello")]


async def test_a_refusal_of_the_swarm_is_an_error_with_its_hint(open_box: Opener) -> None:
    result = await _call(_session(open_box, FakeBackend()), "zoea_send_message", to="missing", text="hello")
    assert result == ToolResult("there is no mysis missing. Use zoea_list_myses", is_error=True)


async def test_a_long_receipt_is_cut(open_box: Opener) -> None:
    result = await _call(_session(open_box, FakeBackend()), "zoea_broadcast", text="all")
    lines = result.content.splitlines()
    assert lines[0] == "Delivered to 30. Do not send it again."
    assert lines[-1] == "and 11 more"


async def test_the_list_names_everybody(open_box: Opener) -> None:
    result = await _call(_session(open_box, FakeBackend()), "zoea_list_myses")
    assert json.loads(result.content) == {
        "you": "alpha",
        "myses": [
            {"id": 2, "name": "beta", "state": "running", "status": "working", "activity": "llm", "tags": ["scout"]}
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "wait"),
    [
        ({"seconds": 60, "reason": "travel"}, WaitRequest(seconds=60, reason="travel")),
        ({"seconds": "1.5", "until_tick": None, "reason": "r"}, WaitRequest(seconds=1.5, reason="r")),
        ({"until_tick": 1204, "reason": "travel"}, WaitRequest(until_tick=1204, reason="travel")),
    ],
)
async def test_waiting_is_returned_as_a_wish(open_box: Opener, arguments: dict[str, Any], wait: WaitRequest) -> None:
    result = await _call(_session(open_box, FakeBackend()), "zoea_wait", **arguments)
    assert result.wait == wait
    assert not result.is_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("zoea_wait", {"seconds": 0, "reason": "r"}, "seconds must be from 1 to 3600, not 0"),
        ("zoea_wait", {"seconds": 3601, "reason": "r"}, "seconds must be from 1 to 3600, not 3601"),
        ("zoea_wait", {"seconds": "soon", "reason": "r"}, "seconds must be from 1 to 3600, not 'soon'"),
        ("zoea_wait", {"seconds": True, "reason": "r"}, "seconds must be from 1 to 3600, not True"),
        ("zoea_wait", {"until_tick": 1.5, "reason": "r"}, "until_tick must be a whole number, not 1.5"),
        ("zoea_wait", {"until_tick": -1, "reason": "r"}, "until_tick must be 0 or more, not -1"),
        ("zoea_wait", {"reason": "r"}, "give either seconds or until_tick"),
        ("zoea_wait", {"seconds": 5, "until_tick": 5, "reason": "r"}, "give either seconds or until_tick, not both"),
        ("zoea_wait", {"seconds": 5}, "reason is missing"),
        ("zoea_wait", {"seconds": 5, "reason": " "}, "reason cannot be empty"),
        ("zoea_wait", {"seconds": 5, "reason": "r" * 501}, "reason must have at most 500 characters, not 501"),
        ("zoea_search_messages", {"query": ""}, "query cannot be empty"),
        ("zoea_search_messages", {}, "query is missing"),
        ("zoea_search_messages", {"query": 5}, "query must be text"),
        ("zoea_search_messages", {"query": "q", "limit": 0}, "limit must be from 1 to 100, not 0"),
        ("zoea_search_messages", {"query": "q", "limit": 101}, "limit must be from 1 to 100, not 101"),
        (
            "zoea_search_messages",
            {"query": "q", "mysis_id": 8},
            "mysis_id must be your own (7): you may search your own memories only",
        ),
        ("zoea_search_messages", {"query": "q" * 1_001}, "query must have at most 1000 characters, not 1001"),
        ("zoea_search_messages", {"query": "q", "match": "fuzzy"}, "match must be one of exact, ranked, not 'fuzzy'"),
        (
            "zoea_search_broadcasts",
            {"query": "q", "role": "tool"},
            "role is not an argument of this tool; it takes query, limit, match, since, until, before_id, max_chars",
        ),
        (
            "zoea_search_reasoning",
            {"query": "q", "regex": True},
            "regex is not an argument of this tool; it takes query, limit, match, since, until, before_id, max_chars, "
            "role, source, mysis_id",
        ),
        ("zoea_read_memory", {}, "id is missing"),
        ("zoea_read_memory", {"id": 404}, "you have no memory 404. use an id that a search or a cut result gave you"),
        ("zoea_read_memory", {"id": 4, "position": 0}, "position goes with part call only"),
        ("zoea_search_messages", {"query": "q", "max_chars": 99}, "max_chars must be from 100 to 10000, not 99"),
        ("zoea_list_myses", {"after_id": 0}, "after_id must be 1 or more, not 0"),
        ("zoea_send_message", {"to": 5, "text": "t"}, "to must be text"),
        ("zoea_send_message", {"to": "beta"}, "text is missing"),
    ],
)
async def test_errors_name_the_field_and_its_range(
    open_box: Opener, name: str, arguments: dict[str, Any], message: str
) -> None:
    result = await _call(_session(open_box, FakeBackend()), name, **arguments)
    assert result == ToolResult(message, is_error=True)


async def test_a_search_is_of_ones_own_memories(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.texts = {5: "the ore"}
    session = _session(open_box, backend)
    result = await _call(session, "zoea_search_messages", query=" ore ", mysis_id="7")
    (row,) = json.loads(result.content)["results"]
    assert (row["id"], row["content"]) == (5, "the ore")
    await _call(session, "zoea_search_reasoning", query="why", limit=3)
    await _call(session, "zoea_search_broadcasts", query="all")
    assert backend.calls == [
        ("search", MemoryQuery(" ore ", SearchColumn.CONTENT, mysis_ids=(7,), asking_call=1)),
        ("search", MemoryQuery("why", SearchColumn.REASONING, mysis_ids=(7,), limit=3, asking_call=1)),
        ("search", BroadcastQuery("all", mysis_id=7)),
    ]


async def test_no_hit_is_an_empty_list_with_a_hint(open_box: Opener) -> None:
    result = await _call(_session(open_box, FakeBackend()), "zoea_search_messages", query="ore")
    answer = json.loads(result.content)
    assert answer["results"] == []
    assert "case-sensitive" in answer["hint"]
    assert not result.is_error


async def test_an_answer_has_at_most_12000_characters_and_counts_the_rest(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.texts = dict.fromkeys(range(20), "x" * 1990)
    result = await _call(_session(open_box, backend), "zoea_search_messages", query="x")
    answer = json.loads(result.content)
    assert len(result.content) <= 12_000
    assert len(answer["results"]) == 5
    assert answer["hint"] == "15 more, use before_id 4"
    assert answer["next_before_id"] == 4


async def test_a_page_names_the_next_one(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.texts = dict.fromkeys((9, 8, 7), "x")
    result = await _call(_session(open_box, backend), "zoea_search_broadcasts", query="x", limit=2, before_id=10)
    answer = json.loads(result.content)
    assert (answer["next_before_id"], answer["hint"]) == (8, "more, use before_id 8")
    assert backend.calls[0][1].before_id == 10


async def test_ranked_results_that_do_not_fit_have_no_next_page(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.texts = dict.fromkeys(range(20), "x" * 1990)
    result = await _call(_session(open_box, backend), "zoea_search_messages", query="x", match="ranked")
    answer = json.loads(result.content)
    assert answer["hint"] == "15 more: narrow the query, or give a smaller limit or max_chars"
    assert "next_before_id" not in answer
    backend.memories.texts = {}
    result = await _call(_session(open_box, backend), "zoea_search_messages", query="x", match="ranked")
    assert json.loads(result.content)["hint"] == "Nothing earlier holds these words: try others once, or go on without."


async def test_a_search_is_narrowed_by_time_role_and_source(open_box: Opener) -> None:
    backend = FakeBackend()
    narrowed = {"role": "tool", "source": "tool", "since": "1970-01-01T00:00:01Z", "until": "1970-01-01T00:00:02"}
    await _call(_session(open_box, backend), "zoea_search_messages", query="q", **narrowed)
    wanted = MemoryQuery("q", mysis_ids=(7,), role=Role.TOOL, source=Source.TOOL, since=1_000_000, until=2_000_000)
    assert backend.calls == [("search", replace(wanted, asking_call=1))]


async def test_a_template_may_search_the_swarm(open_box: Opener) -> None:
    backend = FakeBackend()
    session = _session(open_box, backend, search=SearchScope.SWARM)
    assert not (await _call(session, "zoea_search_messages", query="q", mysis_id=8)).is_error
    await _call(session, "zoea_search_reasoning", query="q")
    await _call(session, "zoea_search_broadcasts", query="q")
    await _call(session, "zoea_read_memory", id=5, part="reasoning")
    assert backend.calls == [
        ("search", MemoryQuery("q", mysis_ids=(8,), asking_call=1)),
        ("search", MemoryQuery("q", SearchColumn.REASONING, asking_call=1)),
        ("search", BroadcastQuery("q")),
        ("read", 5, "reasoning", 0, 0, 10_000, None),
    ]


async def test_a_memory_is_read_from_an_offset(open_box: Opener) -> None:
    backend = FakeBackend()
    result = await _call(_session(open_box, backend), "zoea_read_memory", id="812", offset=5)
    assert json.loads(result.content)["content"] == "was said"
    assert backend.calls == [("read", 812, "content", 0, 5, 10_000, 7)]


@pytest.mark.parametrize("said", ['"\n' * 6_000, "矿石鉄" * 5_000, "\x01" * 9_000, "x" * 30_000])
async def test_any_text_fits_into_answers_and_is_read_on(open_box: Opener, said: str) -> None:
    backend = FakeBackend()
    backend.memories.text = said
    session, read, offset = _session(open_box, backend), "", 0
    while offset < len(said):
        result = await _call(session, "zoea_read_memory", id=5, offset=offset, part="call", position=2)
        assert len(result.content) <= 12_000
        answer = json.loads(result.content)
        read += answer["call"]
        offset += len(answer["call"])
        assert answer["next_offset"] in (offset, None)
    assert read == said
    assert backend.calls[0] == ("read", 5, "call", 2, 0, 10_000, 7)


async def test_a_search_says_how_much_of_a_result_it_shows(open_box: Opener) -> None:
    backend = FakeBackend()
    session = _session(open_box, backend)
    for name in ("zoea_search_messages", "zoea_search_reasoning", "zoea_search_broadcasts"):
        await _call(session, name, query="ore", max_chars=100)
    assert [search.max_chars for _, search in backend.calls] == [100, 100, 100]


async def test_a_search_that_has_not_looked_everywhere_says_how_to_look_further(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.memories.page = MemoryHits((), 16, "looked through the newest 10 memories only")
    answer = json.loads((await _call(_session(open_box, backend), "zoea_search_messages", query="xy")).content)
    assert answer == {
        "results": [],
        "next_before_id": 16,
        "hint": "looked through the newest 10 memories only; more, use before_id 16",
    }


async def test_a_long_list_goes_on_after_an_id(open_box: Opener) -> None:
    backend = FakeBackend()
    backend.myses = tuple(replace(BETA, id=number, name=f"mysis {number}") for number in range(300, 0, -1))
    session, seen, after = _session(open_box, backend), list[int](), dict[str, int]()
    while True:
        result = await _call(session, "zoea_list_myses", **after)
        assert len(result.content) <= 12_000
        answer = json.loads(result.content)
        seen += [row["id"] for row in answer["myses"]]
        if "next_after_id" not in answer:
            break
        after = {"after_id": answer["next_after_id"]}
        assert answer["hint"] == f"{300 - len(seen)} more, use after_id {seen[-1]}"
    assert after
    assert seen == list(range(1, 301))
    backend.myses = (replace(BETA, tags=("long" * 5_000,) * 100),)
    (row,) = json.loads((await _call(session, "zoea_list_myses")).content)["myses"]
    assert (len(row["tags"]), len(row["tags"][0])) == (20, 40)
    backend.myses = tuple(replace(BETA, id=number, name=f"mysis {number}") for number in range(300, 0, -1))
    named = json.loads((await _call(session, "zoea_list_myses", name="MYSIS 29")).content)
    assert [row["id"] for row in named["myses"]] == [29, *range(290, 300)]


async def test_send_none_hides_both_ways_to_write(open_box: Opener) -> None:
    session = _session(open_box, FakeBackend(), send=Send.NONE)
    names = {tool.name for tool in (await session.catalogue()).tools}
    assert not names & {"zoea_send_message", "zoea_broadcast"}
    assert (await _call(session, "zoea_broadcast", text="x")).is_error


async def test_send_commander_lets_a_mysis_write_to_the_commander_only(open_box: Opener) -> None:
    backend = FakeBackend()
    session = _session(open_box, backend, send=Send.COMMANDER)
    assert "zoea_broadcast" not in {tool.name for tool in (await session.catalogue()).tools}
    assert (await _call(session, "zoea_send_message", to="beta", text="x")).content == (
        "to must be one of commander, not 'beta'"
    )
    assert not (await _call(session, "zoea_send_message", text="done")).is_error
    assert backend.calls == [("send", 7, 2, "commander", "done")]
