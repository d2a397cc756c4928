"""Write the generated reference pages, or with `--check` report which are stale.

python -m documentation.build [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from documentation.keys_reference import reference as keys_reference
from zoea.__main__ import BROKEN_PIPE, INTERRUPTED, UNWRITABLE
from zoea.cli.dispatch import COMMANDS, load, overview
from zoea.model.errors import ZoeaError
from zoea.process.forced_end import FORCED
from zoea.settings.reference import render_reference as settings_reference

REFERENCE = Path(__file__).parent / "reference"
WIDTH = 100


def main(arguments: list[str]) -> int:
    """Write or check the pages; return 1 if a page is stale."""
    stale = [name for name, text in pages().items() if _current(name) != text]
    if "--check" in arguments:
        for name in stale:
            sys.stderr.write(f"{REFERENCE / name} is stale: run `make docs`\n")
        return 1 if stale else 0
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return every generated page by its name."""
    return {
        "cli.md": cli(),
        "exit-codes.md": exit_codes(),
        "keys.md": keys_reference(),
        "settings.md": settings_reference(),
    }


def cli() -> str:
    """Return the help texts of all commands."""
    parts = ["# Command line", _generated("the commands"), f"```text\n{overview()}\n```"]
    for name in COMMANDS:
        parts += [f"## zoea {name}", *_helps([name])]
    return "\n\n".join(parts) + "\n"


def exit_codes() -> str:
    """Return the error tree as a table of exit codes."""
    rows = [
        "# Exit codes",
        _generated("`zoea/model/errors.py`"),
        "Exit codes are an interface: they change only with a major version. With `--json` the error is also one\n"
        'object on stderr: `{"error": {"class", "title", "what", "hint"}}`.',
        "| Code | Meaning | Errors |\n|---|---|---|",
    ]
    by_code: dict[int, list[type[ZoeaError]]] = {}
    for error in _tree(ZoeaError):
        by_code.setdefault(error.exit_code, []).append(error)
    table = ["| 0 | It worked | |"]
    for code, errors in sorted(by_code.items()):
        names = ", ".join(f"`{error.__name__}`" for error in errors)
        also = "; or the swarm did not end within 10 s and was killed" if code == FORCED else ""
        table.append(f"| {code} | {errors[0].title}{also} | {names} |")
    table.append(f"| {UNWRITABLE} | The output could not be written, for example to a full disk | |")
    table.append(f"| {INTERRUPTED} | Interrupted with ctrl+c while a command ran | |")
    table.append(f"| {BROKEN_PIPE} | The reader of the output closed it | |")
    return "\n\n".join(rows) + "\n" + "\n".join(table) + "\n"


def _tree(error: type[ZoeaError]) -> Iterator[type[ZoeaError]]:
    if error.__module__ == ZoeaError.__module__:
        yield error
    for below in error.__subclasses__():
        yield from _tree(below)


def _helps(words: list[str]) -> Iterator[str]:
    """Yield the help of a command and of those below it."""
    command, _ = load(words)
    yield f"```text\n{command.line.help_text(WIDTH)}\n```"
    for name in command.below:
        yield f"### {command.line.path} {name}"
        yield from _helps([*words, name])


def _generated(source: str) -> str:
    return f"Generated from {source} by `make docs`; change that, not this page."


def _current(name: str) -> str:
    file = REFERENCE / name
    return file.read_text(encoding="utf-8") if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
