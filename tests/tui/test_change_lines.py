"""A patch becomes files and lines with their numbers, and rows of a width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.files.repositories import git, make_repository
from zoea.text.patches import parse_patch
from zoea.tui.conversation.argument_lines import iterate_argument_lines, mark_diff
from zoea.tui.conversation.change_lines import (
    ChangeRow,
    arrange_pairs,
    arrange_rows,
    build_line,
    build_pair,
    find_hunks,
    find_lines,
    name_lines,
)
from zoea.tui.screens.review import MARK
from zoea.tui.text_layout import count_cells

PATCH = """\
diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@ def total():
 one
--- two
+++ 2
 three
@@ -10 +10,2 @@
 ten
+eleven
\\ No newline at end of file
diff --git a/x.bin b/x.bin
new file mode 100644
Binary files /dev/null and b/x.bin differ
"""


def test_lines_that_look_like_headers_belong_to_their_hunk() -> None:
    first, second = parse_patch(PATCH)
    assert (first.path, first.added, first.removed) == ("a.txt", 2, 1)
    assert [(line.sign, line.old, line.new, line.text) for line in first.lines[1:5]] == [
        (" ", 1, 1, "one"), ("-", 2, 0, "-- two"), ("+", 0, 2, "++ 2"), (" ", 3, 3, "three"),
    ]  # fmt: skip
    assert [line.text for line in second.lines] == ["new file mode 100644", "Binary files /dev/null and b/x.bin differ"]


@pytest.mark.parametrize(
    "name", ["a b.txt", 'quo"te', "tab\there", "line\nend", "b/a b/x", "日本.txt", "back\\slash", " a", "esc\x1b[31m"]
)
def test_names_are_those_of_the_files(tmp_path: Path, name: str) -> None:
    repository = make_repository(tmp_path / "repository")
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("new\n")
    (repository / "empty").write_text("")
    git(repository, "add", "--all")
    patch = git(repository, "-c", "core.quotePath=false", "diff", "--cached", "--find-renames")
    assert {file.path for file in parse_patch(patch)} == {name, "empty"}


def test_a_renamed_file_has_its_new_name(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    git(repository, "mv", "a.txt", "new name.txt")
    (file,) = parse_patch(git(repository, "diff", "--cached", "--find-renames"))
    assert file.path == "new name.txt"


def test_long_lines_are_wrapped_and_folded_files_have_one_row() -> None:
    files = parse_patch(PATCH.replace("eleven", "e" * 50))
    rows = arrange_rows(files, {1}, 40)
    long = [row for row in rows if row.text.startswith("ee")]
    assert "".join(row.text for row in long) == "e" * 50
    assert [row.is_first for row in long] == [True, False]
    assert [row.line for row in rows if row.file == 1] == [-1]
    assert [rows[place].text[:4] or rows[place].line for place in find_hunks(rows, files)] == ["@@ -", "@@ -", -1]


def test_a_drawn_row_is_no_wider_than_the_screen() -> None:
    files = parse_patch(PATCH.replace("eleven", "日本" * 50 + "e" * 90))
    for row in arrange_rows(files, (), 40):
        drawn = build_line(files[row.file].lines[row.line], row, "") if row.line >= 0 else []
        assert count_cells(drawn) <= 40 - len(MARK)


def test_side_by_side_each_line_stands_once_beside_what_replaced_it() -> None:
    lines = (
        "@@ -1,6 +1,6 @@",
        *(" one", "-two", "-three", "+2", "-four", "+4", "+5", " six", "-gone", "+\u65e5\u672c" * 60, " end"),
    )
    (file,) = parse_patch("\n".join(("diff --git a/a.txt b/a.txt", "@@ -1,7 +1,6 @@", *lines[1:])))
    rows = arrange_pairs((file,), (), 60)
    drawn = ["".join(text for text, _ in build_pair(file, row, "", 60)) for row in rows if row.is_pair]
    shown = [[part.split()[-1:] for part in line.split("\u2502")] for line in drawn]
    assert shown[:6] == [
        [["one"]] * 2,
        [["-two"], ["+2"]],
        [["-three"], []],
        [["-four"], ["+4"]],
        [[], ["+5"]],
        [["six"]] * 2,
    ]
    assert all(count_cells([(line, "")]) <= 60 - len(MARK) for line in drawn)
    assert [row.line for row in rows if row.is_first] == [-1, 0, 1, 4, 3, 6, 7, 8, 10, 11]


def test_hidden_characters_are_shown_as_escapes() -> None:
    files = parse_patch(PATCH.replace("eleven", "a\x1b[31mb\r"))
    assert "a\\u001b[31mb\\u000d" in [row.text for row in arrange_rows(files, (), 80)]


def test_found_words_are_marked_in_their_line() -> None:
    files = parse_patch(PATCH)
    assert find_lines(files, "TWO") == [(0, 2)]
    assert find_lines(files, "bin") == [(1, -1), (1, 1)]
    row = next(row for row in arrange_rows(files, (), 80) if "two" in row.text)
    assert ("two", "hit") in build_line(files[0].lines[row.line], row, "TWO")


def test_lines_are_named_by_their_numbers_after_the_change() -> None:
    (file, binary) = parse_patch(PATCH)
    assert name_lines(file, [1]) == "a.txt:1"
    assert name_lines(file, [1, 2, 3, 4]) == "a.txt:1-3"
    assert name_lines(file, [2]) == "a.txt:2 (removed)"
    assert name_lines(file, [0]) == name_lines(file, [-1]) == "a.txt"
    assert name_lines(binary, [0]) == "x.bin"


def test_review_arguments_and_results_draw_a_changed_line_alike() -> None:
    patch = PATCH.partition("@@ -10")[0]
    lines = [line for line in parse_patch(patch)[0].lines if line.sign in ("+", "-", " ")]
    reviewed = [build_line(line, ChangeRow(0, 0, line.text), "")[-1] for line in lines]
    arguments = json.dumps({"old": "one\n-- two\nthree", "new": "one\n++ 2\nthree"})
    assert [pieces[-1] for pieces in iterate_argument_lines(arguments)][1:] == reviewed
    assert [(text[1:], role) for text, role in mark_diff(patch)][5:-1] == reviewed
    assert [role for _, role in reviewed] == ["", "-", "+", ""]
