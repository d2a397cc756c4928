"""Long texts are searched in steps, which find what one search finds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoea.text import document_bounds, stepped_search
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.redact import secret_patterns
from zoea.text.stepped_search import STEP, replace_in_steps
from zoea.tools import media, secret_arguments
from zoea.tools.results import parse_result

PATTERNS = [
    getattr(module, name)
    for module, names in (
        (media, ("_DATA",)),
        (secret_arguments, ("_IN_TEXT", "_MADE", "_TABLE", "_LOGIN", "_ELEMENT", "_FLAG_IN_TEXT")),
        (secret_patterns, ("_PEM", "_JWT", "_ISSUED", "_BEARER", "_COOKIES", "_ADDRESS", "_GIVEN", "_FLAG", "_PROSE")),
    )
    for name in names
]
SHORT_STEP = STEP if os.environ.get("ZOEA_SOAK") else STEP // 8
"""Characters of a step while the results of many are compared; four times those that decide where a match begins."""
SIZE = 1_000_000 if os.environ.get("ZOEA_SOAK") else 4 * STEP
"""Characters of a long answer; four steps are enough to tell one search, of at most two, from several."""
FOUND = (
    '{"password": "hunter22x"}',
    "your password is hunter22x.",
    "| user | password |\n| --- | --- |\n| a | hunter22x |\n",
    "curl -u me:hunter22x https://a.example",
    "<token>abc123def</token>",
    "--password hunter22x",
    "-----BEGIN PRIVATE KEY-----\n" + "MIIE+abc\n" * 60 + "-----END PRIVATE KEY-----",
    "bearer abcdef0123456789abcdef",
    "https://me:hunter22x@a.example",
    "Cookie: sid=abc123def456; theme=dark",
    "data:image/png;base64," + "iVBORw0KGgo" * 40 + "=",
    ("iVBORw0K" * 9 + "\n") * 30 + "iVBO",
    "iVBORw0KGgoAAAA" * 30,
)


@given(st.lists(st.tuples(st.integers(-40, 40), st.sampled_from(FOUND)), min_size=1, max_size=4))
def test_steps_find_what_one_search_finds(places: list[tuple[int, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepped_search, "STEP", SHORT_STEP)
        check_steps(places)


def check_steps(places: list[tuple[int, str]]) -> None:
    text = ""
    for number, (offset, found) in enumerate(places, 1):
        # Each begins, or ends, about where a step does.
        filled = number * SHORT_STEP + offset - len(text) - (len(found) if number % 2 else 0)
        text += ("the belt holds iron\n" * (filled // 20 + 1))[: max(0, filled)] + " " + found + "\n"
    for pattern in PATTERNS:
        assert replace_in_steps(pattern, lambda match: f"«{match[0]}»", text) == pattern.sub(
            lambda match: f"«{match[0]}»", text
        )


def _longest_search(monkeypatch: pytest.MonkeyPatch, modules: tuple[ModuleType, ...]) -> Callable[[], tuple[int, str]]:
    """Return a function that tells the most characters of one search, and its pattern."""
    spans = [(0, "")]
    kind = type(compile_lazily(""))

    class Recorded:
        def __init__(self, name: str, pattern: Any) -> None:
            self._name, self._pattern = name, pattern

        def __getattr__(self, name: str) -> Any:
            real = getattr(self._pattern, name)
            if name not in ("search", "sub", "finditer", "findall", "split"):
                return real

            def record(*arguments: Any, **named: Any) -> Any:
                text, *span = arguments[1:] if name == "sub" else arguments
                start, end = (span + [0, len(text)][len(span) :])[:2]
                found = real(*arguments, **named)
                # A search ends where it finds something; a long match takes little for each of its characters.
                end = found.start() if name == "search" and found is not None else end
                spans.append((min(end, len(text)) - start, self._name))
                return found

            return record

    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern | kind):
                monkeypatch.setattr(module, name, Recorded(name, value))
    return lambda: max(spans)


PARTS = {
    "words": "the belt holds iron, and ",
    "words about a key": "the key holds iron, and ",
    "one line": "x",
    "lines": "a line\n",
    "JSON": '{"name": "iron", "token": "none"}, ',
    "lines of JSON": '{"name": "iron", "token": "none"}\n',
    "marks": "\u0301",
    "hexadecimal digits": "0123456789abcdef\n",
    "a table": "| iron | none of these |\n",
}
TEXTS = {name: part * (SIZE // len(part)) for name, part in PARTS.items()}
TEXTS["JSON"] = '{"key": [' + TEXTS["JSON"] + "1]}"
TEXTS["marks"] = "e" + TEXTS["marks"]
TEXTS["a table"] = "| name | password |\n| --- | --- |\n" + TEXTS["a table"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("is_told", [False, True])
def test_no_search_in_a_long_answer_takes_the_lock_for_long(
    name: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the answer of each tool, and of one that makes secrets."""
    modules = (media, secret_arguments, document_bounds, secret_patterns, stepped_search)
    longest = _longest_search(monkeypatch, modules)
    text = TEXTS[name]
    assert document_bounds.estimate_memory(text.encode()) > 0
    result = parse_result({"content": [{"type": "text", "text": text}]})
    replace = secret_arguments.replace_made_secrets if is_told else secret_arguments.replace_named_results
    assert replace(result.content, lambda value: "‹secret›")
    assert (0, "") < longest() <= (2 * STEP, "")
