"""Every command that the documentation shows is one that this Zoea accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.case_tables import walk_cases
from zoea.cli.dispatch import COMMANDS, load

ROOT = Path(__file__).parents[2]
PAGES = [
    *(page for page in sorted((ROOT / "documentation").rglob("*.md")) if page.parent.name != "reference"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?zoea (.+)$", re.MULTILINE)
MENTION = re.compile(r"`zoea ([^`\n]+)`")
END = re.compile(r"\s#\s|\s&(?:\s|$)")
"""What follows is a comment or the shell's."""
UNMARKED = re.compile(r"\S\s{2,}(?!#)\S")
"""Words behind a command that a shell would take for its arguments."""
OPTION = re.compile(r"--?[a-z][\w-]*")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples(page: Path) -> Iterator[list[str]]:
    """Command lines of code blocks, to be typed as they stand."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in LINE.findall(block):
            assert not UNMARKED.search(line), line
            yield shlex.split(END.split(line)[0])


def mentions(page: Path) -> Iterator[list[str]]:
    """Commands within a sentence, which may leave out values."""
    for words in MENTION.findall(page.read_text(encoding="utf-8")):
        if not words.startswith("-"):
            yield shlex.split(words)


@walk_cases("page", PAGES, ids=relative)
def test_every_example_is_accepted_by_its_command(page: Path) -> None:
    for words in examples(page):
        command, rest = load(words)
        assert not (command.below and rest and rest[0][0] != "-"), words
        command.line.parse(rest)


@walk_cases("page", PAGES, ids=relative)
def test_every_mentioned_option_is_one_of_its_command(page: Path) -> None:
    for words in mentions(page):
        command, rest = load(words)
        given = {word.partition("=")[0] for word in rest if OPTION.fullmatch(word.partition("=")[0])}
        assert given <= set(command.line.option_names), words


def test_each_command_that_the_package_names_has_the_options_beside_it() -> None:
    unknown: list[list[str]] = []
    for file in sorted((ROOT / "zoea").rglob("*.py")):
        for words in mentions(file):
            if "{" not in "".join(words):
                command, rest = load(words)
                given = {word.partition("=")[0] for word in rest if OPTION.fullmatch(word.partition("=")[0])}
                is_below = bool(command.below and rest and rest[0][0] != "-")
                unknown += [words] * (is_below or not given <= set(command.line.option_names))
    assert unknown == []


def test_a_page_of_the_guide_shows_examples() -> None:
    assert sum(1 for page in PAGES for _ in examples(page)) > 50


def test_no_line_of_the_help_is_cut() -> None:
    reference = (ROOT / "documentation" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^  .*[a-z]\.\.\.$", reference, re.MULTILINE) == []


def test_the_help_shows_no_type_and_each_range_in_words() -> None:
    reference = (ROOT / "documentation" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"<(?:str|int|float|path)\b|x[<>]=|<=x", reference) == []
    assert "[default: 1; 1 to 50]" in reference
    assert "[at least 1000]" in reference


def test_each_option_shows_its_short_name_first() -> None:
    reference = (ROOT / "documentation" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^  --[\w-]+, -\w.*$", reference, re.MULTILINE) == []


def test_an_example_is_a_paragraph_of_its_own() -> None:
    reference = (ROOT / "documentation" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^  .+\. Examples?: .*$", reference, re.MULTILINE) == []


def test_the_line_and_the_page_of_a_command_begin_with_the_same_verb() -> None:
    for name, command in COMMANDS.items():
        page = load([name])[0].line.about
        assert page.split()[0] == command.summary.split()[0], name
