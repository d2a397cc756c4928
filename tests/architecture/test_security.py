"""SECURITY.md: each promise names tests, the tests exist, and each number is the one that the code has."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from aiohttp.web_protocol import RequestHandler

from tests.case_tables import walk_cases
from zoea.llm.providers import http_provider
from zoea.llm.transport import answer_bounds
from zoea.mcp_server import http_transport
from zoea.text import large_json, screen_size
from zoea.tools import secret_arguments, secret_forms
from zoea.tools.upstream import large_answer, sent_secrets, stderr_log, upstream_errors
from zoea.tui.dialogs import approvals
from zoea.web import browser_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)`:`((?:\w+\.)?\w+)`")
SECTION = PAGE.split("## Promises")[1].split("## Not promised")[0]
PROMISES = re.findall(r"^- .+$", SECTION, re.MULTILINE)


@cache
def read_tests(file: Path) -> set[str]:
    """Return the tests of a file that run, with their steps and properties.

    Those of a class are named `TestClass.test_name`.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for group in tree.body:
        if isinstance(group, ast.ClassDef) and group.name.startswith("Test"):
            found |= {
                f"{group.name}.{node.name}"
                for node in group.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    tests = {name for name in found if name.rpartition(".")[2].startswith("test_")}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    named = read_names(node for node in functions if node.name in tests)
    tables = [node for node in tree.body if isinstance(node, ast.Assign) and read_names(node.targets) & named]
    named |= read_names(node.value for node in tables)
    steps = [node for node in functions if node.name in named - tests and node.args.args]
    return tests | {node.name for node in steps if node.args.args[0].arg in ("stage", "glass", "example")}


def read_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that stand in parts of a file."""
    return {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}


@walk_cases("promise", PROMISES, ids=lambda promise: promise[2:40])
def test_each_promise_names_tests_that_exist(promise: str) -> None:
    named = NAMED.findall(promise)
    assert named, "a promise without a test"
    assert promise.count("tests/") == len(named), "a test that is not named as `FILE`:`TEST`"
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert name in read_tests(ROOT / file), f"{file} has no {name}"


def test_each_line_of_the_section_is_a_promise_in_one_line() -> None:
    lines = [line for line in SECTION.splitlines() if line.strip() and not line.startswith("### ")]
    assert lines == PROMISES


def test_the_page_has_promises_about_every_party() -> None:
    assert len(PROMISES) >= 25


MIB = 1024 * 1024
EMOJI = 4
"""Times its bytes that an answer may take, because an emoji makes four bytes of each character."""
LINES = inspect.signature(RequestHandler).parameters
LIMITS: list[tuple[str, object, object]] = [
    ("A request's head has 10 seconds", (browser_server.HEAD_S, http_transport.HEAD_S), (10, 10)),
    ("takes 64 kB of it", http_transport.MAX_HEAD, 64 * 1024),
    ("about 8 kB a line", (LINES["max_line_size"].default, LINES["max_field_size"].default), (8_190, 8_190)),
    ("128 lines", LINES["max_headers"].default, 128),
    ("at most 1,000 columns and rows", screen_size.LARGEST, 1_000),
    ("At most 32 cockpits", browser_server.MAX_COCKPITS, 32),
    ("two start at once", browser_server.STARTS, 2),
    ("at least half a second", approvals.DEAF_S >= 0.5, True),
    ("at most 256 MiB", EMOJI * http_provider.MAX_ANSWER_BYTES, 256 * MIB),
    ("at most 256 MiB", EMOJI * answer_bounds.MAX_KEPT_BYTES, 256 * MIB),
    ("at most 256 MiB", 2 * large_answer.MAX_MEMORY, 256 * MIB),
    ("over 250,000 values", large_json.MAX_VALUES, 250_000),
    ("from 6 characters with a digit, or 16 characters, on", upstream_errors._SHORTEST_LINE, 16),
    ("4 to 12 digits", secret_arguments._DIGITS.pattern, r"\d{4,12}"),
    ("fewer than 4 characters, or of 4 or 5 that", (secret_forms.SHORTEST, secret_forms.SURE), (4, 6)),
    ("fewer than 4 characters", sent_secrets.SHORTEST, 4),
    ("counts from 6 characters", secret_arguments._SHORTEST_MADE, 6),
    ("a line of over 64 kB", stderr_log._LONGEST_LINE, 64 * 1024),
]
"""Words of the page with a limit, what the code has, and what they promise. Other tests set smaller limits."""


@walk_cases(("words", "held", "promised"), LIMITS, ids=[words for words, _, _ in LIMITS])
def test_each_limit_is_the_one_that_is_promised(words: str, held: object, promised: object) -> None:
    assert words in PAGE
    assert held == promised


def test_each_number_of_the_page_has_a_limit_in_the_table() -> None:
    text = re.sub(r"`[^`]+`", "", PAGE.split("## Promises")[1])
    for words, _, _ in LIMITS:
        text = text.replace(words, "")
    assert re.findall(r"(?<![\w.])\d[\d,]* \w+", text) == []
