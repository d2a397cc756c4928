"""Arguments of a call as lines: texts as text, replacements as diffs, and nothing that is not sent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.text.hidden_characters import is_hidden
from tests.tui.argument_parser import parse_shown
from tests.tui.hostile_texts import HOSTILE
from tests.tui.sample_turns import call
from zoea.model.enums import MASK, CallState, OpenedBy, Outcome, Role, Source
from zoea.model.values import Memory
from zoea.queries.conversation import ConversationEntry, ConversationTurn
from zoea.tui.conversation.argument_lines import FileChange, iterate_argument_lines, list_changes, mark_diff
from zoea.tui.conversation.conversation_reader import TurnWindow
from zoea.tui.text_layout import Piece

PATCH = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,3 @@\n import x\n-old\n+new\n+more\n- a list, no diff"
TEXTS = st.text(st.one_of(st.sampled_from('\\ut09"│ \t\n-+:\u202e\x00\xa0\u200b'), st.characters()), max_size=30)
NAMES = st.one_of(
    st.sampled_from(["old", "new", "path", "oldText", "newText", "a", "command", "argv"]), st.text(max_size=5)
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def texts(arguments: str, **more: str) -> list[str]:
    return ["".join(text for text, _ in line) for line in iterate_argument_lines(arguments, **more)]


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_shown_parses_to_what_is_sent(values: dict[str, Any]) -> None:
    shown = texts(json.dumps(values))
    assert parse_shown(shown) == values
    assert not is_hidden("".join(shown))


@walk_cases("text", HOSTILE)
def test_hostile_texts_are_shown_exactly(text: str) -> None:
    values: dict[str, Any] = {
        "path": text,
        "content": f"{text}\n{text}",
        "edits": [{"old": text, "new": f"{text} \n\t"}],
    }
    values |= {
        "command": text,
        "cmd": [text, f"'{text}'", f"{text}\n", ""],
        "inner": {"old": "", "new": "", "argv": [text]},
    }
    shown = texts(json.dumps(values))
    assert parse_shown(shown) == values
    assert not is_hidden("".join(shown))


@walk_cases(
    ("values", "lines"),
    [
        ({"belt": "b-2", "n": 3}, ['belt: "b-2"', "n: 3"]),
        ({"content": "a\n  b\n"}, ["content:", "  │ a", "  │   b", "  │ "]),
        ({"content": "x: 1\n│ y"}, ["content:", "  │ x: 1", "  │ │ y"]),
        ({"old_string": "a\nb", "new_string": "a\nc"}, ["old_string → new_string:", "  │ a", "- │ b", "+ │ c"]),
        ({"edits": [{"oldText": "a", "newText": ""}]}, ["edits[0].oldText → newText:", "- │ a", "+ │ "]),
        ({"text": "blank \nend\t"}, ["text:", r"  │ blank\u0020", r"  │ end\t"]),
        ({"text": "C:\\temp\nC:\\data"}, ["text:", r"  │ C:\\temp", r"  │ C:\data"]),
        ({"a b": "x\ny"}, ["{", r'  "a b": "x\ny"', "}"]),
        ({"cmd": ["git", "push"], "cwd": "/"}, ["cmd (words):", "  │ git push", 'cwd: "/"']),
        ({"command": 'say "a"'}, ["command:", '  │ say "a"']),
        ({"argv": ["sh", "-c", "ls *; rm 'a b'"]}, ["argv (words):", """  │ sh -c 'ls *; rm '"'"'a b'"'"''"""]),
        ({"cmd": ["a ", "b\nc", ""]}, ["cmd (words):", "  │ 'a ' 'b", "  │ c' ''"]),
        ({"command": "ls \u202e \\u202e "}, ["command:", r"  │ ls \u202e \\u202e\u0020"]),
        ({"cmd": [], "command": "", "script": 3}, ["cmd: []", 'command: ""', "script: 3"]),
        ({"cmd": ["ls", 3]}, ['cmd: ["ls", 3]']),
        ({"key": MASK, "n": 3}, ["n: 3"]),
        ({}, ["{}"]),
    ],
)
def test_arguments_are_shown_as_lines(values: dict[str, Any], lines: list[str]) -> None:
    assert texts(json.dumps(values), hidden=MASK) == lines


@walk_cases("arguments", ["no json [", "[1]", '{"a": ' + "[" * 200 + "]" * 200 + "}"])
def test_arguments_that_cannot_be_listed_stay_json(arguments: str) -> None:
    shown = "\n".join(texts(arguments))
    assert shown.replace("\n", "").replace(" ", "") == arguments.replace(" ", "")


def test_two_large_texts_are_not_compared() -> None:
    old, new = ("\n".join(f"{name}{number}" for number in range(1_000)) for name in "ab")
    assert parse_shown(texts(json.dumps({"old": old, "new": new}))) == {"old": old, "new": new}


def test_a_diff_in_a_text_is_coloured_and_a_list_is_not() -> None:
    roles = [role for _, role in mark_diff(f"- a list\n{PATCH}")]
    assert roles == ["", "strong", "strong", "llm", "", "-", "+", "+", ""]
    signs: list[Piece] = [line[-1] for line in iterate_argument_lines(json.dumps({"patch": PATCH}))][1:]
    assert [role for _, role in signs] == roles[1:]


@walk_cases(
    ("name", "values", "change"),
    [
        ("edit_file", {"path": "a.py", "edits": [{"oldText": "a\nb", "newText": "b\nc\nd"}]}, ("a.py", 2, 1)),
        ("str_replace", {"file_path": "b.py", "old_string": "x", "new_string": "y"}, ("b.py", 1, 1)),
        ("write_file", {"path": "new.py", "content": "1\n2\n"}, ("new.py", 2, 0)),
        ("apply_patch", {"patch": PATCH}, ("shop.py", 2, 1)),
    ],
)
def test_changed_files_are_read_from_arguments(name: str, values: dict[str, Any], change: tuple[str, int, int]) -> None:
    made = call(1, name, json.dumps(values))
    refused = call(2, name, json.dumps(values), state=CallState.DENIED)
    assert list_changes([made, refused]) == [FileChange(*change)]
    assert list_changes([call(3, "read_file", '{"path": "a.py"}')]) == []


def test_the_report_lists_the_files_of_the_arguments_that_a_person_gave() -> None:
    asked = call(1, "write_file", json.dumps({"path": "asked.py", "content": "1\n"}))
    memory = Memory(1, 1, 1, 1, 0, Role.ASSISTANT, Source.LLM, "", calls=(asked,))
    ran = ConversationEntry(memory, 0, changed={1: json.dumps({"path": "given.py", "content": "1\n2\n"})})
    turn = ConversationTurn(1, 1, OpenedBy.PROMPT, 0, 1, Outcome.ANSWERED, "", None, 0, 1, 1, 0, False, (ran,))
    assert [block.body for block in TurnWindow((turn,), {1: ()}).result if block.key == "changes"] == [
        "given.py  +2 -0"
    ]
