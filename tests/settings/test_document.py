"""TOML files are parsed with the line of every key, hostile files included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.settings.document import parse_document, read_document, split_statements
from zoea.settings.key_paths import Layer, Origin, iterate_leaves
from zoea.settings.small_file import MOST_BYTES

HERE = Origin(Layer.USER, "c.toml")


def test_every_key_has_its_line() -> None:
    text = b"""# a comment with ' and " and [
workspace = "a" # it's [
[swarm]
max_myses = 3
x = \"\"\"
[foo]
\"\"\\\"\"\" \"\"\"\"\"
y = [ 1, # ] ' "
 2]
z = '''a\\''''
[provider.a]
type='C:\\'
headers = { "X-A.b" = "1" }
[[list]]
"""
    document = parse_document(text, HERE)
    assert document.problems == ()
    assert document.lines[("workspace",)] == 2
    assert document.lines[("swarm", "y")] == 8
    assert document.lines[("swarm", "z")] == 10
    assert document.lines[("provider", "a")] == document.lines[("provider",)] == 11
    assert document.lines[("provider", "a", "headers", "X-A.b")] == 13
    assert document.lines[("list",)] == 14


_keys = st.text(st.sampled_from("ab.\"'#[]= \né"), min_size=1, max_size=4)
_texts = st.text(st.sampled_from("ab\"'\\#[]{}=\n\t é"), max_size=12)
_values = st.one_of(_texts, st.integers(), st.booleans(), st.lists(_texts, max_size=3))


@given(st.dictionaries(_keys, st.one_of(_values, st.dictionaries(_keys, _values, max_size=3)), max_size=5))
def test_lines_name_exactly_the_keys_of_any_file(tree: dict[str, object]) -> None:
    text = tomlkit.dumps(tree)
    document = parse_document(text.encode(), HERE)
    assert document.problems == ()
    assert document.tree == tree
    lines = text.split("\n")
    for path, _ in iterate_leaves(tree):
        assert lines[document.lines[path] - 1].strip()
    named = {path for path, _ in iterate_leaves(tree)} | {(key,) for key in tree}
    assert set(document.lines) == named


@given(_texts)
def test_statements_end_for_any_text(text: str) -> None:
    cut = list(split_statements(text))
    assert all(text[start:].startswith(statement) for start, statement in cut)


@walk_cases(
    ("raw", "line", "message"),
    [
        (b"a = 1\nb = [[[", 2, "is not valid TOML"),
        (b"a = 1\n\nb c = 2", 3, "is not valid TOML"),
        (b"a = 1\na = 2\n", 2, "is not valid TOML"),
        (b"a = 1\n\xff\xfe", 2, "is not UTF-8"),
        (b"a = " + b"[" * 9000, 0, "is nested too deep"),
        (b"a" + b".a" * 500 + b" = 1", 0, "is nested too deep"),
        (b"a = " + b"{x=" * 40 + b"1" + b"}" * 40, 0, "is nested too deep"),
        (b"a = " + b"9" * 9000, 0, "contains a number that is too long"),
        (b"#" * (MOST_BYTES + 1), 0, "is larger than"),
    ],
)
def test_a_hostile_file_is_a_problem_with_a_line(raw: bytes, line: int, message: str) -> None:
    (problem,) = parse_document(raw, HERE).problems
    assert problem.message.startswith(message)
    assert problem.origin.line == line


@given(st.binary(max_size=200))
def test_parsing_any_bytes_raises_nothing(raw: bytes) -> None:
    parse_document(raw, HERE)


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    document = parse_document(b"\xef\xbb\xbfa = 1\r\n[b]\r\nc = 2", HERE)
    assert document.tree == {"a": 1, "b": {"c": 2}}
    assert document.lines[("b", "c")] == 3


def test_a_document_never_shows_its_content() -> None:
    assert "sk-secret" not in repr(parse_document(b'key = "sk-secret"', HERE))


def test_a_missing_file_is_empty_and_a_directory_is_a_problem(tmp_path: Path) -> None:
    assert read_document(tmp_path / "none.toml", Layer.USER).problems == ()
    (problem,) = read_document(tmp_path, Layer.USER).problems
    assert problem.message == "is not a file"


def test_an_unreadable_file_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    file.touch()

    def refuse(path: Path, flags: int) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    (problem,) = read_document(file, Layer.USER).problems
    assert problem.message == "cannot be read: Permission denied"


def test_half_of_a_character_is_refused_because_no_database_stores_it() -> None:
    [problem] = parse_document(rb'{"prompt": "\ud800 x"}', HERE, is_json=True).problems
    assert "half of a character" in problem.message
    whole = parse_document(rb'{"prompt": "\ud83d\ude00"}', HERE, is_json=True)
    assert whole.tree == {"prompt": "\U0001f600"}


def test_a_link_to_nothing_is_a_problem_because_its_settings_would_be_lost(tmp_path: Path) -> None:
    for target in ("nowhere.toml", "c.toml"):  # the second is a link to itself
        (tmp_path / "c.toml").unlink(missing_ok=True)
        (tmp_path / "c.toml").symlink_to(tmp_path / target)
        (problem,) = read_document(tmp_path / "c.toml", Layer.USER).problems
        assert "link to a file that is not there" in problem.message
