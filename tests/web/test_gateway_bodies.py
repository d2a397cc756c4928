"""The bytes of a request that go on to a provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.llm.messages import wire_bodies
from zoea.llm.messages.wire_bodies import Wire, parse_body, read_body
from zoea.llm.transport.json_safety import parse, split_object
from zoea.text import estimate
from zoea.web.gateway_bodies import UsageFilter, set_model

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_IDS = st.sampled_from(["c1", "c2", "c\0"])
_CALLS: st.SearchStrategy[dict[str, Any]] = _IDS.flatmap(
    lambda id: st.sampled_from(
        [
            {"role": "assistant", "tool_calls": [{"id": id, "function": {"name": f"dig {id}", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": id, "content": "ore"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": f"fill {id}", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "sand"}]},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": id}]},
            {"type": "function_call", "call_id": id, "name": f"look {id}", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id, "output": "dust"},
            {"type": "additional_tools", "tools": [{"type": "function", "name": id}]},
            {"id": id},
            {"role": "user", "content": [{"file_id": id}]},
        ]
    )
)
KEPT: list[bytes] = [
    b'{"model":"gpt-9","messages":[]}',
    b' { "a" : [1.50, 1e3] ,\n"model"\t: "gpt-9", "messages": [ ] } ',
    b'{"messages":[{"content":"the \\"model\\":\\"x\\" of \\ud83d\\ude00"}],"model":"gpt-9"}',
    b'{"model":"gpt-9","deep":{"model":"gpt-9"},"\xc3\xa9":[{"model":1}]}',
    b'{"messages":[{"content":"a\\u0000b"}],"model":"gpt-9"}',
]
REWRITTEN: list[bytes] = [
    b'{"model":"gpt-9","model":"gpt-8"}',
    b'{"model":"gpt-9","n":1,"messages":[],"n":1}',
    b'{"mod\\u0065l":"gpt-9"}',
    b'{"model":"gpt-9","mod\\u0065l":"gpt-8"}',
    b'{"a":1,"a":{"model":"x"},"model":"gpt-9"}',
    b'{"model":"gpt-9","a":"\\ud83d"}',
    b'{"model":"gpt-9","\\ud83d":1}',
    b'{"model":"gpt-9","a":NaN}',
    b'\xef\xbb\xbf{"model":"gpt-9"}',
    '{"model":"gpt-9"}'.encode("utf-16"),
]
REWRITTEN_WITHIN: list[bytes] = [
    b'{"model":"gpt-9","messages":[{"content":"hidden","content":"shown"}]}',
    b'{"model":"gpt-9","messages":[{"content":"hidden", "cont\\u0065nt" :"shown"}]}',
    b'{"model":"gpt-9","input":[{"content":[{"text":"hidden","text":"a \\ud83d"}]}]}',
    b'{"model":"gpt-9","tools":[{"name":"dig","description":"hidden","description":"shown"}]}',
    b'{"model":"gpt-9","a":{"n":' + b"9" * 30 + b',"n":1,"x\\\\":"\\":"}}',
    b'{"model":"gpt-9","a":{"n":1,"n":2,"x":"a \\u0022: b"}}',
    b'{"model":"gpt-9","a":{"n":1,"n":2,"x":"a \\"\\u0020: b"}}',
    b'{"model":"gpt-9","a":{"n":1,"n":2,"x":"a \\"\\u003A b"}}',
    b'{"model":"gpt-9","a":{"n" :1,"n"\n:2,"x":"a \\" b"}}',
]
BROKEN: list[bytes] = [
    b"",
    b"[1]",
    b"7",
    b'{"model":"gpt-9"',
    b'{"model":"gpt-9",}',
    b'{"model":"gpt-9","a":"\xff"}',
    b'{"model":"gpt-9","a":01}',
    b'{"model":"gpt-9","a":1' + b"0" * 5_000 + b"}",
    b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"a":' + b"[" * 150 + b"]" * 150 + b"}",
    b"{%s}" % b",".join(b'"%d":1' % number for number in range(250_002)),
]


@walk_cases("content", KEPT)
def test_a_request_whose_keys_stand_once_keeps_its_bytes(content: bytes) -> None:
    at = content.rindex(b'"gpt-9"') if b"deep" not in content else content.index(b'"gpt-9"')
    assert set_model(content, parse_body(content)[1], "m") == content[:at] + b'"m"' + content[at + 7 :]


@walk_cases("content", REWRITTEN)
def test_a_request_that_servers_may_read_otherwise_is_sent_as_it_was_read(content: bytes) -> None:
    sent = set_model(content, split_object(content), "m")
    assert repr(json.loads(sent)) == repr({**json.loads(content), "model": "m"})
    assert sent.isascii()
    pairs = json.loads(sent, object_pairs_hook=list)
    assert len({name for name, _ in pairs}) == len(pairs)


@walk_cases("content", [*REWRITTEN, *REWRITTEN_WITHIN])
def test_no_key_is_sent_twice_at_any_depth(content: bytes) -> None:
    def read_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    sent = set_model(content, parse_body(content)[1], "m")
    assert repr(json.loads(sent, object_pairs_hook=read_once)) == repr({**json.loads(content), "model": "m"})


@walk_cases("content", BROKEN, ids=range(len(BROKEN)))
def test_a_body_that_is_no_object_or_too_much_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_body(content)


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), st.booleans())
def test_parts_and_whole_documents_are_read_as_the_standard_library_reads_them(
    value: dict[str, Any], ascii_only: bool
) -> None:
    text = json.dumps({"model": "a", **value}, ensure_ascii=ascii_only)
    content = text.encode("utf-8", "surrogatepass")
    expected = repr(json.loads(content))
    assert repr(parse(content)) == repr(parse(text)) == expected
    assert repr(parse_body(content)[0]) == expected
    parts = parse_body(content)[1]
    assert parts == split_object(content)
    sent = set_model(content, parts, "m")
    assert repr(json.loads(sent)) == repr({**json.loads(content), "model": "m"})


def test_tools_are_read_alike_from_their_bytes_and_from_their_values() -> None:
    tool = {"type": "function", "function": {"name": "dig", "parameters": {"type": "object"}}}
    more = {"type": "additional_tools", "tools": [{"type": "function", "name": "fill"}]}
    for items in ([], [more]):
        body = {"model": "a", "tools": [tool, tool], "input": items}
        parsed, parts, _ = parse_body(json.dumps(body).encode())
        read = read_body(Wire.RESPONSES, parsed, parts["tools"])
        assert read == read_body(Wire.RESPONSES, body)
        assert [one.name for one in read.tools] == ["dig", "dig", *(["fill"] if items else [])]


@given(st.sampled_from(Wire), st.lists(_CALLS | _VALUES, max_size=6), st.sampled_from([None, 0, 2]))
def test_messages_are_read_alike_one_by_one_and_together(wire: Wire, entries: list[Any], indent: int | None) -> None:
    field = "input" if wire is Wire.RESPONSES else "messages"
    content = json.dumps({"model": "a", "system": "s", field: entries}, indent=indent).encode()
    values, parts, kept = parse_body(content, wire)
    assert repr(values) == repr(json.loads(content))
    assert parts == split_object(content)
    together = read_body(wire, json.loads(content))
    assert read_body(wire, values, entries=kept) == read_body(wire, values) == together
    longer = json.dumps({"model": "a", "system": "s", field: [*entries, "more"]}).encode()
    again, _, kept_again = parse_body(longer, wire)
    assert read_body(wire, again, entries=kept_again) == together


def test_a_result_has_the_name_of_the_last_call_with_its_id_before_it() -> None:
    calls = [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": name, "arguments": "{}"}}]}
        for name in ("dig", "a_much_longer_name")
    ]
    result = {"role": "tool", "tool_call_id": "c1", "content": "ore"}
    content = json.dumps({"model": "a", "messages": [result, calls[0], result, calls[1], result]}).encode()
    for _ in range(2):
        values, _, entries = parse_body(content)
        read = read_body(Wire.CHAT, values, entries=entries)
        names = [one.name for one in read.messages if one.call_id]
        assert names == ["", "dig", "a_much_longer_name"]
        nameless = read_body(Wire.CHAT, {"model": "a", "messages": [calls[0], calls[1], *[result] * 3]}).tokens
        assert read.tokens == nameless - 2 * estimate.tokens(names[2]) + estimate.tokens(names[1])


def test_a_message_that_comes_again_is_the_same_object_until_others_took_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire_bodies, "KEPT_BYTES", 10_000)
    monkeypatch.setattr(wire_bodies, "_KEPT", kept := wire_bodies._KeptEntries())

    def read(text: str) -> Any:
        [message] = parse_body(json.dumps({"model": "a", "messages": [{"content": text}]}).encode())[0]["messages"]
        return message

    first = read("first")
    assert read("first") is first
    for number in range(100):
        read(f"{number:01000}")
        assert len(kept._new) + len(kept._old) <= 24
    assert read("first") == first
    assert read("first") is not first


def test_kept_messages_are_counted_by_the_memory_of_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_bodies, "KEPT_BYTES", 1_000_000)
    kept = wire_bodies._KeptEntries()
    for number in range(40):
        kept.read(Wire.CHAT, b'{"role":"user","content":[%b],"n":%d}' % (b",".join([b"[]"] * 10_000), number))
    assert len(kept._new) + len(kept._old) <= 3  # 0.6 MB each


def test_an_event_that_is_nested_too_deeply_to_be_read_goes_on() -> None:
    event = b'data: {"choices": [], "usage": ' + b"[" * 100_000 + b"\n\n"
    assert UsageFilter().feed(event) == event
