"""The syntax of changed lines: what is marked, that it fits the drawn text, and that it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from subprocess import Popen, run
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.style import Style

from tests.case_tables import walk_cases
from tests.files.repositories import commit
from tests.tui.cockpit import Stage
from tests.tui.test_review import SHOP, lines, open_review, reviewed
from tests.waiting import until
from zoea.settings.paths import Places
from zoea.text.patches import FileDiff, parse_patch, restore_texts
from zoea.tui.conversation import syntax_lexer
from zoea.tui.conversation.syntax_lexer import MOST_WIDTH, answer, mark_lines
from zoea.tui.screens import review
from zoea.tui.screens.review import ReviewScreen
from zoea.tui.state import syntax_marks, worktree_access
from zoea.tui.state.cockpit import Cockpit

DOCSTRING = '''\
def total(items):
    """Sum them up.

    return 0 if there is none
    """
    return 0  # cents'''
MARKED = [
    ("a.py", DOCSTRING, ["kkk", "    " + "s" * 15, "", "s" * 29, "s" * 7, "    kkkkkk k  ccccccc"]),
    ("a.c", "/* if\nif */ int a;", ["ccccc", "ccccc kkk"]),
    ("a.js", "a = `\nif`", ["    s", "sss"]),
    ("x.yaml", "a: 'b' # c", ["k  sss ccc"]),
    ("Makefile", "# if", ["cccc"]),
    ("a.txt", "if 0", [""]),
    ("a.no-such-name", "if 0", []),
    ("line\nend.py", "if a", ["kk"]),
    ("a\ud800.py", "if a", ["kk"]),
    ("a.py", "'" + "a" * 2 * MOST_WIDTH + "'", ["s" * MOST_WIDTH]),
]


@walk_cases(("name", "text", "marks"), MARKED)
def test_keywords_strings_and_comments_are_marked(name: str, text: str, marks: list[str]) -> None:
    asked = {"name": name, "texts": ["", text], "last": [0, text.count("\n") + 1]}
    assert list(answer(asked)) == [[], [line.rstrip() for line in marks]]


def test_a_lexer_ends_with_the_wanted_lines_and_with_its_time() -> None:
    class Endless:
        def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, None, str]]:
            while True:
                yield 0, None, text

    assert mark_lines(Endless(), "a\n", 3, time.process_time() + 100) == [""] * 3
    assert mark_lines(Endless(), "a\n", 3, 0) == [""]
    assert mark_lines(Endless(), "a", 3, 0) == []


LINES = st.lists(st.sampled_from(["a", "b", "", "-a", "+b", "@@ -1 +1 @@", "a\r"]), max_size=12)


def make_diff(old: list[str], new: list[str], context: int = 3) -> tuple[FileDiff, ...]:
    patch = list(unified_diff(old, new, "a/x", "b/x", lineterm="", n=context))
    return parse_patch("\n".join(["diff --git a/x b/x", *patch]))


@given(LINES, LINES, st.integers(0, 3))
def test_both_texts_come_back_from_the_later_one_and_its_patch(old: list[str], new: list[str], context: int) -> None:
    text = "".join(f"{line}\n" for line in new)
    tail = [""] if new else []
    assert restore_texts(make_diff(old, new, context)[0], text) == (old + tail, new + tail)


@walk_cases("text", ["", "a\n", "a\nother\nc\n", "c\nb\na\n", "before\na\nb\nc\n"])
def test_a_text_that_changes_again_does_not_fit(text: str) -> None:
    assert restore_texts(make_diff(["a", "c"], ["a", "b", "c"])[0], text) is None


def test_line_ends_of_the_working_tree_may_differ() -> None:
    assert restore_texts(make_diff(["a"], ["a", "b"])[0], "a\r\nb\r\n") == (["a", ""], ["a", "b", ""])


def style_of(stage: Stage, line: str, text: str) -> Style:
    """Return the style of a text in the row that holds a line."""
    (strip,) = (strip for strip in stage.strips() if line in strip.text)
    return next(part.style for part in strip if text in part.text and part.style is not None)


def colour_of(stage: Stage, role: str) -> Any:
    assert isinstance(stage.app, Cockpit)
    return stage.app.role_styles.of(role).color


def has_marks(stage: Stage) -> bool:
    screen = stage.screen
    return isinstance(screen, ReviewScreen) and any(screen._marks.values()) and not screen._wanted


async def test_code_is_coloured_over_the_tint_of_its_sign(tmp_path: Path) -> None:
    async with reviewed(tmp_path, size=(100, 40)) as (stage, _, folders):
        commit(folders["alpha"], "doc", shop__py=SHOP.replace(":\n", ':\n    """Sum.\n\n    return it\n    """\n'))
        await open_review(stage, "return it")
        await stage.until(lambda: has_marks(stage))
        for width in (100, 170):
            await stage.pilot.resize_terminal(width, 40)
            keyword = style_of(stage, "    return sum(", "return")
            assert keyword.color == colour_of(stage, "keyword"), width
            assert keyword.bgcolor == style_of(stage, "    return sum(", "sum").bgcolor, width
            inside = style_of(stage, "    return it", "return it")
            assert inside.color == colour_of(stage, "string"), width
            assert inside.bgcolor == stage.app.role_styles.of("+").bgcolor != keyword.bgcolor, width
            assert style_of(stage, "    return it", "+").color == colour_of(stage, "ok"), width


async def test_a_wrapped_line_goes_on_in_its_colours(tmp_path: Path) -> None:
    async with reviewed(tmp_path, size=(60, 40)) as (stage, _, folders):
        text = f"NAME = '{'é' * 60}' if {'x' * 40} else None\n"
        commit(folders["alpha"], "long", shop__py=text)
        await open_review(stage, "NAME")
        await stage.until(lambda: has_marks(stage))
        assert style_of(stage, "NAME", "é").color == colour_of(stage, "string")
        assert style_of(stage, "' if ", "é").color == colour_of(stage, "string")
        assert style_of(stage, "else None", "else").color == colour_of(stage, "keyword")
        assert style_of(stage, "else None", "x").color == colour_of(stage, "ok")


async def test_the_cursor_and_a_found_word_stand_over_the_colours(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, folders):
        commit(folders["alpha"], "more", shop__py=f"{SHOP}\n# of return\n")
        await open_review(stage, "# of return")
        await stage.until(lambda: has_marks(stage))
        await stage.press("slash", *"return", "enter", "n")
        comment = style_of(stage, "# of return", "# of ")
        assert comment.color == colour_of(stage, "comment")
        assert comment.bgcolor == stage.app.role_styles.of("cursor", background=True).bgcolor
        assert style_of(stage, "# of return", "return").underline


@pytest.mark.parametrize("theme", ["high-contrast", "ansi", "no-color"])
async def test_without_colours_for_code_lines_have_those_of_their_sign(
    tmp_path: Path, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(places: Places, name: str, files: list[FileDiff]) -> list[list[str]]:
        raise AssertionError(name)

    monkeypatch.setattr(review, "read_marks", never)
    if theme == "no-color":
        monkeypatch.setenv("NO_COLOR", "1")
    more = {} if theme == "no-color" else {"theme": theme}
    async with reviewed(tmp_path, **more) as (stage, _, folders):
        commit(folders["alpha"], "more", shop__py=f"{SHOP}\n# of return\n")
        await open_review(stage, "# of return")
        sign, text = (style_of(stage, "# of return", part) for part in ("+", "# of return"))
        assert (text.color, text.bgcolor) == (sign.color, sign.bgcolor)


async def test_only_files_on_the_screen_are_read_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def record(places: Places, name: str, files: list[FileDiff]) -> list[list[str]]:
        asked.extend(file.path for file in files)
        return [[""] * len(file.lines) for file in files]

    monkeypatch.setattr(review, "read_marks", record)
    async with reviewed(tmp_path) as (stage, _, folders):
        commit(folders["alpha"], "files", **{f"{name}__py": "a = 0\n" * 50 for name in "abc"})
        await open_review(stage, "a.py")
        assert "c.py" in lines(stage)
        await stage.until(lambda: asked == ["a.py"])
        await stage.press("G", until=lambda: asked == ["a.py", "c.py"])
        await stage.press("g", "G")
        stage.top(ReviewScreen)._read()
        await stage.until(lambda: not stage.app.workers._workers or "c.py" in stage.text())
        assert asked == ["a.py", "c.py"]
        commit(folders["alpha"], "again", c__py="b = 0\n" * 50)
        stage.top(ReviewScreen)._read()
        await stage.until(lambda: asked == ["a.py", "c.py", "c.py"])


MANY = 5_000
HOSTILE_CODE = {
    "quotes": "'" * MANY,
    "both quotes": "\"'" * MANY,
    "three quotes": '"""\\' * MANY,
    "backslashes": "\\" * MANY,
    "an open string of escapes": "'" + "\\'" * MANY,
    "an open template": "`${" * MANY,
    "brackets": "([{" * MANY,
    "closing brackets": ")]}" * MANY,
    "tags": "<a b='" * MANY,
    "open tags": "<" * MANY,
    "open comments": "/*" * MANY,
    "ends of comments": "*/" * MANY,
    "comments of XML": "<!--" * MANY,
    "stars": "*" * MANY,
    "underscores": "_" * MANY,
    "emphasis": "**a_" * MANY,
    "links": "[a](" * MANY,
    "fences": "```a\n" * MANY,
    "list items": "- " * MANY,
    "indents": "".join(" " * at + "a:\n" for at in range(100)),
    "keys": "a:" * MANY,
    "numbers": "0" * MANY + "x",
    "exponents": "1e+" * MANY,
    "percents": "%" * MANY,
    "here documents": "cat <<A <<B\n" * MANY,
    "regular expressions": "/a/ " * MANY,
    "decorators": "@a." * MANY,
    "words": "if " * MANY,
    "no line end": "a" * 50 * MANY,
    "line ends": "\n" * MANY,
    "CR": "\r" * MANY,
    "blanks": " " * MANY + "a",
    "tabs": "\t" * MANY + "a",
    "NUL": "\0" * MANY,
    "marks on a letter": "a" + "\u0301" * MANY,
    "right to left": "\u202e" * MANY,
    "lone surrogates": "\ud800" * MANY,
    "past the last plane": "\U0010ffff" * MANY,
}
HOSTILE_NAMES = ("a.py", "a.js", "a.ts", "a.c", "a.html", "a.md", "a.json", "a.yaml", "a.sh", "a.css", "a.rs", "a.sql")
EVERY = 1 if os.environ.get("ZOEA_SOAK") else 3
"""Each lexer gets every third text, each text a third of the lexers; the other strength tries all of them."""
SHORT = "import syntax_lexer; syntax_lexer.LEX_S = 0.003; syntax_lexer.main()"


@walk_cases("name", HOSTILE_NAMES)
def test_hostile_code_is_marked_or_stays_plain_and_the_lexer_ends(name: str) -> None:
    folder = str(Path(syntax_lexer.__file__).parent)
    program = (sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {folder!r}); {SHORT}")
    texts = list(HOSTILE_CODE.values())[HOSTILE_NAMES.index(name) % EVERY :: EVERY]
    asked = [{"name": name, "texts": ["", text], "last": [0, text.count("\n") + 1]} for text in texts]
    # A process, as in the cockpit: the system ends one that takes more than its time.
    ended = run(program, input=json.dumps(asked).encode(), capture_output=True, check=False)
    assert ended.returncode in (0, -signal.SIGXCPU, -signal.SIGKILL), ended.stderr
    marks = [json.loads(line) for line in ended.stdout.splitlines(keepends=True) if line.endswith(b"\n")]
    assert len(marks) == len(asked) or ended.returncode
    for text, (before, after) in zip(texts, marks, strict=False):
        assert before == []
        assert all(len(mark) <= len(line) for mark, line in zip(after, text.split("\n"), strict=False))
        assert {*"".join(after)} <= {*"ksc "}


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> FileDiff:
    """A changed file, with its texts at hand."""
    monkeypatch.setattr(worktree_access, "read_change", lambda places, name, file: ([], ["if a"]))
    (made,) = make_diff([], ["if a"])
    return replace(made, path="a.py")


@pytest.mark.parametrize(
    "program",
    [(sys.executable, "-I", "-S", "-c", "print('[[')"), (sys.executable, "-I", "-S", "-c", "1 / 0"), ("/no/program",)],
)
async def test_a_lexer_that_fails_leaves_the_file_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: FileDiff, program: tuple[str, ...]
) -> None:
    monkeypatch.setattr(syntax_marks, "_PROGRAM", program)
    assert await syntax_marks.read_marks(Places(tmp_path, tmp_path, tmp_path), "alpha", [file]) == [()]


async def test_a_lexer_that_takes_for_ever_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: FileDiff
) -> None:
    places = Places(tmp_path, tmp_path, tmp_path)
    assert await syntax_marks.read_marks(places, "alpha", [file]) == [["", "kk"]]
    monkeypatch.setattr(syntax_marks, "_PROGRAM", (sys.executable, "-I", "-S", "-c", "while True: pass"))
    monkeypatch.setattr(syntax_marks, "DEADLINE_S", 0.05)
    assert await syntax_marks.read_marks(places, "alpha", [file]) == [()]


ANSWERS = """print('[[], ["s"]]', flush=True)"""


async def test_the_files_after_one_that_ends_the_lexer_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syntax_marks, "_PROGRAM", (sys.executable, "-I", "-S", "-c", ANSWERS))
    async with reviewed(tmp_path) as (stage, _, folders):
        commit(folders["alpha"], "files", **{f"{name}__py": "a = 0\n" for name in "abc"})
        await open_review(stage, "c.py")
        await stage.until(lambda: has_marks(stage))
        screen = stage.screen
        assert isinstance(screen, ReviewScreen)
        assert screen._marks == {0: ["", "", "s"], 1: (), 2: ["", "", "s"]}


async def test_leaving_the_review_ends_the_lexer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def remember(*args: Any, **options: Any) -> Any:
        started.append(Popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(syntax_marks, "Popen", remember)
    monkeypatch.setattr(syntax_marks, "_PROGRAM", (sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"))
    async with reviewed(tmp_path) as (stage, _, folders):
        commit(folders["alpha"], "more", shop__py=f"{SHOP}\n# of return\n")
        await open_review(stage, "# of return")
        await stage.until(lambda: started)
        await stage.press("escape")
        await until(lambda: started[0].returncode is not None)
