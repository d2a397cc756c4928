"""Each connection to a database is closed: Python 3.13 warns of one that is left to the collector."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.architecture.sources import ROOT

CONNECT = re.compile(r"\b(?:sqlite3\.connect|connect_reader|connect_read_only|open_reader)\(")
CLOSED = re.compile(r"(?:\bclosing\(\s*|\bappend\(|\breturn |\bdef |\.)$")
"""What stands before a connection that is closed, or that a caller gets."""
NAMED = re.compile(r"(\S+) = $")


def find_unclosed(text: str) -> Iterator[int]:
    """Yield the lines with connections that are not closed.

    A name may be closed later in its function, and an attribute with its object. A connection as the context of a
    `with` only ends a transaction.
    """
    for call in CONNECT.finditer(text):
        before, after = text[: call.start()], text[call.end() :].split("\n\n\n", 1)[0] + "\n"
        if CLOSED.search(before[-100:]):
            continue
        line = before.rpartition("\n")[2]
        if call[0] == "open_reader(" and line.isspace():
            continue  # it raises an error, or is closed at once
        named = NAMED.search(line)
        ends = (f"{named[1]}.close", f"closing({named[1]})", f"return {named[1]}\n") if named else ()
        where = text if named and "." in named[1] else after
        if not any(end in where for end in ends):
            yield before.count("\n") + 1


def test_each_connection_is_closed() -> None:
    seen, left = 0, []
    for file in (one for folder in ("zoea", "tests", "benchmarks") for one in sorted((ROOT / folder).rglob("*.py"))):
        text = file.read_text(encoding="utf-8")
        if ("connect" in text or "open_reader" in text) and file.name != "test_connections.py":
            seen += len(CONNECT.findall(text))
            left += [f"{file.relative_to(ROOT)}:{line}" for line in find_unclosed(text)]
    assert seen > 100
    assert not left, f"write `with closing(…) as connection, connection:` there: {', '.join(left)}"


def test_each_way_to_leave_a_connection_open_is_found() -> None:
    text = """
with sqlite3.connect(path) as one: pass
sqlite3.connect(path).executescript("")
list(open_reader(path).iterdump())
one = connect_read_only(path)


with closing(sqlite3.connect(path)) as one, one: pass
two = sqlite3.connect(path)
two.close()
    open_reader(path).close()
"""
    assert list(find_unclosed(text)) == [2, 3, 4, 5]
