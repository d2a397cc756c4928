"""Tools by need: a line for each, found by words, called through one tool as if called directly."""

from __future__ import annotations

import json

import pytest

from tests.case_tables import walk_cases
from tests.fakes.toolboxes import FakeBackend, asked, meta
from tests.tools.conftest import Opener
from zoea.model.enums import CALL_TOOL, FIND_TOOL, ToolShow
from zoea.model.request import Answer, AnswerCall, Catalogue, ToolSpec
from zoea.tools import ToolPolicy
from zoea.tools.builtin.mysis_tools import MysisTools
from zoea.tools.tool_search import MAX_FOUND, MAX_LINES, MAX_QUERY, build_search_tools, find_tools, unwrap_calls


def tool(name: str, description: str = "", **properties: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return ToolSpec(name, description, schema, upstream="yard", origin=name)


TOOLS = (
    tool("get_weather", "Tell the weather of a city. It knows most cities.", city="string"),
    tool("send_mail", "Send a mail to one person.", to="string", text="string"),
    tool("list_files", "List the files of a folder.", folder="string"),
    tool("mine", "Dig ore out of a belt.", amount="number"),
)


def by_need(arguments: object) -> Answer:
    return Answer(calls=(AnswerCall(CALL_TOOL, json.dumps(arguments), "c7"),))


def catalogue() -> Catalogue:
    return Catalogue(build_search_tools(TOOLS), "hash", others=TOOLS)


def unwrapped(answer: Answer) -> tuple[str, str, str]:
    [call] = unwrap_calls(answer, catalogue()).calls
    return call.name, call.arguments, call.provider_call_id


def test_each_tool_stands_as_its_name_and_first_sentence() -> None:
    find, _ = build_search_tools(TOOLS)
    assert find.description.splitlines()[1:3] == [
        "- get_weather: Tell the weather of a city.",
        "- send_mail: Send a mail to one person.",
    ]
    assert find.read_only


def test_a_line_of_an_upstream_cannot_pass_for_others_and_is_short() -> None:
    find, _ = build_search_tools([tool("odd", "Does\u202e it\x1b[31m " + "very " * 100), tool("bare")])
    assert find.description.splitlines()[2] == "- bare"
    line = find.description.splitlines()[1]
    assert len(line) < 120
    assert line.isprintable()


def test_the_lines_of_very_many_tools_are_bounded_and_the_others_counted() -> None:
    find, _ = build_search_tools([tool(f"tool_{number}", "Does what its number says.") for number in range(1_000)])
    assert len(find.description) < MAX_LINES + 500
    assert find.description.splitlines()[-1].endswith(" more")


@walk_cases(
    ("query", "first"),
    [
        ("mine", "mine"),
        ("MINE", "mine"),
        ("weather", "get_weather"),
        ("mail a person", "send_mail"),
        ("folder", "list_files"),
        ("digging ore", "mine"),
        ("city", "get_weather"),
        ("call mine please", "mine"),
    ],
)
def test_a_tool_is_found_by_its_name_its_description_and_its_arguments(query: str, first: str) -> None:
    assert json.loads(find_tools(query, TOOLS).splitlines()[0])["name"] == first


def test_the_answer_shows_the_arguments_and_how_to_call() -> None:
    first, *_, last = find_tools("weather", TOOLS).splitlines()
    assert json.loads(first)["arguments"] == {"city": {"type": "string"}}
    assert CALL_TOOL in last


def test_a_search_that_finds_nothing_names_the_tools() -> None:
    assert find_tools("zzz", TOOLS) == "No tool fits 'zzz'. There are: get_weather, send_mail, list_files, mine"


def test_an_answer_of_a_search_is_bounded() -> None:
    large = [tool(f"ore_{number}", "Ore. " * 2_000) for number in range(5)]
    assert len(find_tools("ore", large)) < MAX_FOUND + 200


@walk_cases(
    ("arguments", "inner"),
    [
        ({"name": "mine", "arguments": {"amount": 3}}, '{"amount": 3}'),
        ({"name": "mine", "arguments": '{"amount": 3}'}, '{"amount": 3}'),
        ({"name": "mine", "parameters": {"amount": 3}}, '{"amount": 3}'),
        ({"name": " mine ", "amount": 3}, '{"amount": 3}'),
        ({"name": "mine", "arguments": {"amount": 3}, "reason": "ore"}, '{"amount": 3}'),
        ({"name": "mine"}, "{}"),
        ({"name": "mine", "arguments": None}, "{}"),
    ],
)
def test_a_call_through_the_tool_becomes_a_call_of_the_named_one(arguments: object, inner: str) -> None:
    assert unwrapped(by_need(arguments)) == ("mine", inner, "c7")


@walk_cases(
    "arguments",
    [{"name": "digg"}, {"name": CALL_TOOL, "arguments": {"name": "mine"}}, {"name": 3}, {}, [], {"name": ["mine"]}],
)
def test_a_call_that_names_no_tool_stays_what_it_is(arguments: object) -> None:
    answer = by_need(arguments)
    assert unwrap_calls(answer, catalogue()) == answer


def test_without_the_search_a_call_is_left_alone() -> None:
    answer = by_need({"name": "mine"})
    assert unwrap_calls(answer, Catalogue(TOOLS, "hash")) is answer


async def test_a_wrong_name_is_answered_with_the_nearest(open_box: Opener) -> None:
    box = open_box(builtin=MysisTools(FakeBackend()), policies=lambda template: ToolPolicy(show=ToolShow.SEARCH))
    session = box.session(7, "alpha", "")
    told = await session.call(asked(CALL_TOOL, name="zoea_wat", arguments={}), meta=meta())
    assert told.is_error
    assert "did you mean zoea_wait" in told.content
    assert FIND_TOOL in told.content
    nameless = await session.call(asked(CALL_TOOL, arguments={}), meta=meta())
    assert "name is missing" in nameless.content
    empty = await session.call(asked(FIND_TOOL), meta=meta())
    assert empty.is_error
    assert "query is missing" in empty.content


def test_only_the_beginning_of_a_long_query_is_searched_for() -> None:
    late = " ".join(["x"] * MAX_QUERY) + " get_weather"
    assert find_tools(late, TOOLS).startswith("No tool fits")
    assert find_tools(f"get_weather {late}", TOOLS).startswith('{"name": "get_weather"')


@walk_cases("properties", [5, True, None, ["city", 3], "city"])
def test_a_schema_whose_arguments_are_no_table_does_not_break_the_search(properties: object) -> None:
    odd = ToolSpec("odd", "Does it.", {"type": "object", "properties": properties}, upstream="yard", origin="odd")
    assert find_tools("weather", (odd, *TOOLS)).startswith('{"name": "get_weather"')
    assert json.loads(find_tools("odd", (odd,)).splitlines()[0])["arguments"] == {}


@pytest.mark.parametrize("arguments", ['{"to": "\\ud800"}', '"{}\\ud800"'])
def test_half_of_a_character_in_arguments_becomes_one_that_can_be_stored(arguments: str) -> None:
    text = f'{{"name": "send_mail", "arguments": {arguments}}}'
    [call] = unwrap_calls(Answer(calls=(AnswerCall(CALL_TOOL, text),)), catalogue()).calls
    assert call.name == "send_mail"
    assert "\ufffd" in call.arguments
    call.arguments.encode()
