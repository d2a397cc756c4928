"""Every command that imports a file bounds the memory and time that it can take."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.import_bombs import DOCUMENT_MEMORY, MIB, make_bombs
from zoea.cli.dispatch import COMMANDS, load
from zoea.model.errors import OwnerError, SettingsError, StoreError, UsageError
from zoea.process.command_line import REQUIRED

ROOT = Path(__file__).parents[2]
COPIES = 12
"""Times its size that the text of a file may take, besides its values: three of four bytes a character."""
REFUSALS = {0, UsageError.exit_code, SettingsError.exit_code, StoreError.exit_code, OwnerError.exit_code}


WRITES = {("ctx", "export"), ("export",)}
"""Commands whose file is one that they make."""


def import_commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that reads a file. So a new one is in it by itself.

    A word names the file, or an option: then the words before the option have names as values.
    """

    def walk(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        command, _ = load(words)
        for one in command.line.parameters.values() if command.function is not None and words not in WRITES else ():
            if not {"FILE", "PATH"} & set(re.split(r"\W+", f"{one.metavar} {one.text if one.names else ''}")):
                continue
            needed = [word.metavar for word in command.line.words.values() if word.default is REQUIRED]
            yield (*words, *needed, one.names[0], "@" if "@FILE" in one.text else "") if one.names else words
        for name in command.below:
            yield from walk((*words, name))

    for name in COMMANDS:
        yield from walk((name,))
    yield ("import", "nova")


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """Make a folder with every bomb and a pipe without a writer.

    Return it and the bytes that each unpacks to.
    """
    folder, sizes = tmp_path_factory.mktemp("bombs"), {"pipe": 0}
    for name, data, size in make_bombs():
        (folder / name).write_bytes(data)
        sizes[name] = size
    os.mkfifo(folder / "pipe")
    return folder, sizes


@pytest.mark.usefixtures("forked_programs")
@pytest.mark.parametrize("command", tuple(import_commands()), ids=" ".join)
def test_no_file_takes_much_memory_or_waits_for_ever(
    command: tuple[str, ...], bombs: tuple[Path, dict[str, int]]
) -> None:
    folder, sizes = bombs
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fakes.import_bombs", str(folder), *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-1000:]
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {result["file"] for result in results} == sizes.keys()
    for result in results:
        assert result["code"] in REFUSALS, result
        assert result["took"] < DOCUMENT_MEMORY + COPIES * sizes[result["file"]] + 4 * MIB, result


def test_every_importer_is_in_the_table() -> None:
    assert set(import_commands()) == {
        ("ctx", "import"),
        ("import",),
        ("import", "nova"),
        ("upstream", "import"),
        ("config", "import"),
        ("local", "add"),
        ("trust",),
        ("topic", "publish", "TOPIC", "--data", "@"),
    }
