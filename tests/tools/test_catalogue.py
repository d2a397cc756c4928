"""Names, hashes, policy: what a mysis sees of all the tools there are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.request import ToolSpec
from zoea.tools.builtin.definitions import mysis_tools
from zoea.tools.catalogue import MAX_NAME, RemoteTool, build_catalogue, remove_properties, safe_name, to_tool_spec
from zoea.tools.policy import ToolPolicy, matches
from zoea.tools.upstream.upstream_config import UpstreamConfig

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "session_id": {"type": "string"}},
    "required": ["q", "session_id"],
}


def _spec(upstream: str, name: str, **more: Any) -> ToolSpec:
    return to_tool_spec(RemoteTool(name, f"does {name}", SCHEMA, **more), UpstreamConfig(upstream, command="x"))


def _names(*specs: ToolSpec, policy: ToolPolicy = ToolPolicy()) -> list[str]:
    return [tool.name for tool in build_catalogue((), [specs], policy).tools]


def test_a_name_is_prefixed_only_on_a_clash() -> None:
    assert _names(_spec("a", "search"), _spec("b", "search"), _spec("b", "list")) == ["a__search", "b__search", "list"]


def test_zoeas_own_tools_keep_their_names() -> None:
    catalogue = build_catalogue(
        [tool.to_spec() for tool in mysis_tools(ToolPolicy())], [[_spec("a", "zoea_wait")]], ToolPolicy()
    )
    assert [tool.name for tool in catalogue.tools][-1] == "a__zoea_wait"
    own = catalogue.find("zoea_wait")
    assert own is not None
    assert own.upstream == ""


def test_a_hidden_tool_makes_no_clash() -> None:
    assert _names(_spec("a", "search"), _spec("b", "search"), policy=ToolPolicy(deny=("b/*",))) == ["search"]


def test_two_tools_of_one_upstream_with_the_same_plain_name_stay_apart() -> None:
    assert _names(_spec("a", "get.map"), _spec("a", "get_map")) == ["a__get_map", "a__get_map_2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(min_size=1, max_size=80)), max_size=12, unique=True))
def test_names_are_unique_and_acceptable_to_every_provider(tools: list[tuple[str, str]]) -> None:
    names = _names(*(_spec(upstream, name) for upstream, name in tools))
    assert len(set(names)) == len(tools)
    assert all(0 < len(name) <= MAX_NAME and name.isascii() for name in names)
    assert all(char.isalnum() or char in "_-" for name in names for char in name)


def test_a_long_name_is_cut_and_stays_itself() -> None:
    assert safe_name("x" * 100) == safe_name("x" * 100) != safe_name("x" * 101)


def test_deny_wins_and_an_empty_allow_allows_nothing() -> None:
    one, two = _spec("git", "git_log"), _spec("git", "git_commit")
    assert _names(one, two, policy=ToolPolicy(allow=("git_*",), deny=("*commit",))) == ["git_log"]
    assert _names(one, policy=ToolPolicy(allow=())) == []


@walk_cases("glob", ["git_log", "git_*", "git/git_log", "git/*", "git__git_log", "*"])
def test_a_glob_may_name_the_tool_or_its_upstream(glob: str) -> None:
    assert matches((glob,), "git_log", "git")


@walk_cases("glob", ["GIT_log", "time/*", "log"])
def test_a_glob_that_names_another_does_not_match(glob: str) -> None:
    assert not matches((glob,), "git_log", "git")


@walk_cases(
    ("name", "glob"),
    [
        ("zoea_send", "zoea_*"),
        ("ZOEA_x", "ZOEA_*"),
        ("git/push", "git/*"),
        ("git/push", "git/push"),
        ("git__push", "git__*"),
        ("git__push", "git__push"),
    ],
)
def test_a_glob_for_one_server_allows_no_tool_of_another_with_such_a_name(name: str, glob: str) -> None:
    def list_tools(policy: ToolPolicy) -> list[str]:
        specs = [[_spec("evil", name)], [_spec("evil", "read")]]
        return [tool.origin for tool in build_catalogue((), specs, policy, ["git", "evil"]).tools]

    assert list_tools(ToolPolicy(allow=(glob, "read"))) == ["read"]
    assert name in list_tools(ToolPolicy(allow=("*",)))
    assert name in list_tools(ToolPolicy(allow=("evil/*",)))
    assert name not in list_tools(ToolPolicy(deny=(glob,)))


@walk_cases("name", ["status", "zoea_x", "git__x", "git/x"])
@walk_cases(
    ("upstream", "glob", "is_allowed"),
    [
        ("git__evil", "git__*", False),
        ("git__evil", "git__e*", False),
        ("git__evil", "git__evil/*", True),
        ("git__evil", "git__evil__*", True),
        ("git__evil", "git/*", False),
        ("git__evil", "*", True),
        ("zoea", "zoea_*", False),
        ("zoea", "zoea*", False),
        ("zoea", "zoea/*", True),
        ("zoea", "zoea__*", True),
        ("zoea", "*", True),
        ("zoea_x", "zoea_*", False),
        ("zoea_x", "zoea_x/*", True),
        ("Zoea-y", "zoea*", False),
    ],
)
def test_a_glob_for_one_server_or_zoea_allows_none_of_a_server_of_such_a_name(
    upstream: str, glob: str, is_allowed: bool, name: str
) -> None:
    specs = [[_spec("git", "push")], [_spec(upstream, name)]]
    built = build_catalogue((), specs, ToolPolicy(allow=(glob,)), ["git", upstream])
    assert (upstream in [tool.upstream for tool in built.tools]) == is_allowed


def test_the_glob_of_a_server_with_a_longer_name_allows_none_of_the_shorter() -> None:
    policy = ToolPolicy(allow=("git__evil__*",))
    assert not build_catalogue((), [[_spec("git", "evil__push")]], policy, ["git", "git__evil"]).tools


def test_a_server_that_collects_others_keeps_its_own_names() -> None:
    policy = ToolPolicy(allow=("github__*", "repos/*"))
    specs = [[_spec("all", "github__search"), _spec("all", "repos/get")]]
    assert len(build_catalogue((), specs, policy, ["all", "git"]).tools) == 2


def test_destructive_tools_ask_unless_the_policy_says_otherwise() -> None:
    spec = _spec("a", "drop", destructive=True)
    assert build_catalogue((), [[spec]], ToolPolicy()).tools[0].asks
    assert not build_catalogue((), [[spec]], ToolPolicy(ask_destructive=False)).tools[0].asks
    assert build_catalogue((), [[_spec("a", "read")]], ToolPolicy(ask=("re*",))).tools[0].asks


def test_a_read_only_tool_is_never_destructive_enough_to_ask() -> None:
    spec = _spec("a", "odd", destructive=True, read_only=True)
    assert not build_catalogue((), [[spec]], ToolPolicy()).tools[0].asks


LINE = {"type": "object", "properties": {"command": {"type": "string"}}}


def _asks(name: str, policy: ToolPolicy, config: UpstreamConfig, schema: dict[str, Any] = SCHEMA, **more: Any) -> bool:
    spec = to_tool_spec(RemoteTool(name, "does it", schema, **more), config)
    return build_catalogue((), [[spec]], policy).tools[0].asks


@pytest.mark.parametrize("read_only", [True, False])
def test_a_tool_that_takes_a_command_line_asks_unless_the_policy_says_otherwise(read_only: bool) -> None:
    other = UpstreamConfig("work", command="x")
    assert _asks("run", ToolPolicy(), other, read_only=read_only)
    assert _asks("do_it", ToolPolicy(), other, LINE, read_only=read_only)
    assert not _asks("do_it", ToolPolicy(ask_commands=False), other, LINE, read_only=read_only)


def test_all_that_does_more_than_read_asks_where_the_policy_says_so() -> None:
    other, own = UpstreamConfig("work", command="x"), UpstreamConfig("reef", command="x", is_own=True)
    careful = ToolPolicy(ask_unless_read_only=True)
    assert [_asks("edit", policy, other) for policy in (careful, ToolPolicy())] == [True, False]
    assert not _asks("edit", careful, other, read_only=True)
    assert not _asks("mine", careful, own)
    assert _asks("mine", ToolPolicy(ask=("mi*",)), own)
    mine = build_catalogue([tool.to_spec() for tool in mysis_tools(careful)], [], careful).tools
    assert {tool.name for tool in mine if tool.asks} == {"zoea_ask"}


def test_hashes_follow_the_list_of_the_upstream() -> None:
    one = _spec("a", "search")
    same = _spec("a", "search")
    other = to_tool_spec(
        RemoteTool("search", "does search", {**SCHEMA, "properties": {}}), UpstreamConfig("a", command="x")
    )
    assert one.schema_hash == same.schema_hash != other.schema_hash
    policy = ToolPolicy()
    assert build_catalogue((), [[one]], policy).hash == build_catalogue((), [[same]], policy).hash
    assert build_catalogue((), [[one]], policy).hash != build_catalogue((), [[other]], policy).hash
    assert build_catalogue((), [[one]], policy).hash != build_catalogue((), [[one]], ToolPolicy(ask=("*",))).hash


def test_injected_arguments_are_gone_from_the_schema_and_not_from_its_hash() -> None:
    config = UpstreamConfig("a", command="x", inject={"session_id": "account"})
    spec = to_tool_spec(RemoteTool("search", "does search", SCHEMA), config)
    assert spec.input_schema == {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    assert spec.schema_hash == _spec("a", "search").schema_hash


def test_a_schema_is_always_an_object() -> None:
    assert remove_properties({}, ()) == {"type": "object", "properties": {}}
    assert remove_properties({"properties": 5, "required": ["a"]}, ("a",)) == {"properties": {}, "type": "object"}


def test_idempotence_comes_from_the_annotation_or_a_glob_or_reading() -> None:
    config = UpstreamConfig("a", command="x", idempotent=("put_*",))
    assert to_tool_spec(RemoteTool("put_x", "", SCHEMA), config).idempotent
    assert to_tool_spec(RemoteTool("x", "", SCHEMA, idempotent=True), config).idempotent
    assert to_tool_spec(RemoteTool("x", "", SCHEMA, read_only=True), config).idempotent
    assert not to_tool_spec(RemoteTool("x", "", SCHEMA), config).idempotent
