"""Finds keywords, strings and comments in two versions of files.

Requests come on stdin, answers go to stdout, both as JSON.

A program of its own, because a lexer is a list of regular expressions: one that takes for ever on a hostile text holds
the interpreter, and only the system can end it. It imports nothing of Zoea.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

LEX_S = 2.0
"""CPU seconds for both versions of a file; what follows stays plain."""
_HARD_S = 4
_MOST_MEMORY = 1 << 29
MOST_WIDTH = 1_000
"""Characters of a line that are marked."""


def mark_lines(lexer: Any, text: str, last: int, end: float) -> list[str]:
    """Return a letter for each character of the first lines: `k`, `s`, `c`, or a blank.

    Args:
        last: How many lines are wanted.
        end: The CPU time at which it ends with what it has.
    """
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    letters = (
        (Comment.Preproc, "k"),
        (Comment, "c"),
        (String, "s"),
        (Keyword, "k"),
        (Operator.Word, "k"),
        (Name.Tag, "k"),
        (Name.Decorator, "k"),
        (Number, "k"),
    )
    known: dict[Any, str] = {}
    done: list[str] = []
    line = ""
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        if (letter := known.get(kind)) is None:
            letter = known[kind] = next((letter for one, letter in letters if kind in one), " ")
        first, *more = value.split("\n")
        line += letter * len(first)
        for part in more:
            done.append(line[:MOST_WIDTH].rstrip())
            line = letter * len(part)
        if len(done) >= last or time.process_time() > end:
            break
    else:
        done.append(line[:MOST_WIDTH].rstrip())
    return done[:last]


def answer(request: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the marks of each text of a request. They are empty for a name without a lexer."""
    from pygments.lexers import find_lexer_class_for_filename

    kind = find_lexer_class_for_filename(request["name"])
    end = time.process_time() + LEX_S
    for text, last in zip(request["texts"], request["last"], strict=True):
        yield mark_lines(kind(), text, last, end) if kind is not None and last else []


def main() -> None:
    """Answer each request with a line. The system ends it at its limits of time and memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (_HARD_S, _HARD_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    for request in json.load(sys.stdin.buffer):
        sys.stdout.write(f"{json.dumps(list(answer(request)))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
