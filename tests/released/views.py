"""What users see of the released workspace: rows per table, and the output of reading commands."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.e2e.zoea_process import zoea

EXPECTED = Path(__file__).parent / "0.1.0" / "expected.json"

COMMANDS = (
    "list --json",
    "show mu --json",
    "log beta --json",
    "log zeta --json",
    "send --receipt 4 --json",
    "explain beta --json",
    "explain alpha 6 --json",
    "search burn --ranked --json",
    "search report --in broadcasts --json",
    "export beta --format md --no-redact",
    "mcp token list --json",
    "credentials list --json",
    "world score --json",
)


class Expected(NamedTuple):
    """What the release itself showed: output by command, rows by table, a digest of the export by kind of line."""

    rows: dict[str, int]
    views: dict[str, str]
    export: dict[str, str]


def read_expected() -> Expected:
    return Expected(**json.loads(EXPECTED.read_text(encoding="utf-8")))


def write_expected(database: Path, file: Path) -> None:
    """Write what the present release shows of the workspace in the data directory."""
    exported = zoea("export", "--all", "--archived", "--format", "jsonl").stdout
    shown = Expected(count_rows(database), read_views(), digest_export(exported))
    text = json.dumps(shown._asdict(), ensure_ascii=False, indent=1)
    file.write_text(f"{text}\n", encoding="utf-8")


def read_views() -> dict[str, str]:
    """The output of each command, with its exit code and errors if it failed."""

    def run(command: str) -> str:
        done = zoea(*command.split())
        return done.stdout + (f"exit code {done.returncode}: {done.stderr}" if done.returncode else "")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(COMMANDS, pool.map(run, COMMANDS), strict=True))


LATER_COLUMNS: dict[str, set[str]] = {}
"""Columns by kind of line that migrations after this release added; an export holds them too."""


def digest_export(text: str) -> dict[str, str]:
    """Return a count and a hash for each kind of line of an export. Later columns are left out."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        row = json.loads(line)
        if later := LATER_COLUMNS.get(row["kind"]):
            line = json.dumps({name: value for name, value in row.items() if name not in later}, ensure_ascii=False)
        kinds[row["kind"]].append(line)
    return {
        kind: f"{len(lines)} lines, {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"
        for kind, lines in sorted(kinds.items())
    }


def has_all(seen: object, expected: object) -> bool:
    """True where `seen` is `expected`; objects in JSON may have got further keys since."""
    if isinstance(expected, dict):
        return isinstance(seen, dict) and all(
            name in seen and has_all(seen[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(expected)
            and all(has_all(one, other) for one, other in zip(seen, expected, strict=True))
        )
    return seen == expected


def same_view(command: str, seen: str, expected: str) -> bool:
    """True where a command shows what it showed then."""
    if command.endswith("--json") and not command.startswith("log "):
        return has_all(json.loads(seen), json.loads(expected))
    if command.startswith("export "):
        return read_words(seen) == read_words(expected)
    return seen == expected


def read_words(page: str) -> list[str]:
    """The words of a Markdown page. Later releases show texts in fenced blocks and escape names."""
    return re.sub(r"^(`{3,}\w*$|> ?)", "", page, flags=re.MULTILINE).replace("\\", "").split()


def count_rows(database: Path) -> dict[str, int]:
    """Rows per table, without those that SQLite keeps for itself and for its search indexes."""
    with closing(sqlite3.connect(database)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]
        shown = [name for name in names if not name.startswith("sqlite_") and not _is_shadow(name)]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in shown}


def _is_shadow(table: str) -> bool:
    return table.endswith(("_config", "_data", "_idx", "_docsize", "_content"))
