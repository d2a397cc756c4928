"""Formats of other packages, found by their entry points in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea

PACKAGE = Path(__file__).parents[1] / "fakes" / "toy_format"


def run(*arguments: str, installed: bool = True) -> subprocess.CompletedProcess[bytes]:
    paths = [str(PACKAGE)] if installed else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(PACKAGE.parents[2])])}
    command = [sys.executable, "-m", "zoea", "ctx", *arguments]
    return subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)


@pytest.fixture
def toy(tmp_path: Path, zoea: Zoea) -> Path:
    file = tmp_path / "talk.toy"
    file.write_bytes(b"me: Where is the bug?\nit: In a.py.\n")
    return file


def test_a_format_of_another_package_is_recognised_kept_and_translated(toy: Path) -> None:
    made = json.loads(run("import", str(toy), "--json").stdout)
    assert (made["format"], made["messages"]) == ("toy-v1", 2)
    assert run("cat", "import/talk", "--as", "toy-v1").stdout == toy.read_bytes()
    told = json.loads(run("cat", "import/talk", "--as", "openai").stdout)
    assert [(one["role"], one["content"]) for one in told] == [("user", "Where is the bug?"), ("assistant", "In a.py.")]
    assert b"all good" in run("fsck").stdout


def test_without_its_package_a_context_is_told_as_a_narrative_and_keeps_its_bytes(toy: Path) -> None:
    run("import", str(toy))
    told = run("cat", "import/talk", installed=False)
    assert (told.returncode, b"narrative" in told.stderr, b"In a.py." in told.stdout) == (0, True, True)
    assert run("cat", "import/talk", "--as", "toy-v1").stdout == toy.read_bytes()


def test_a_package_that_fails_while_it_reads_costs_only_the_tier(toy: Path) -> None:
    made = json.loads(run("import", str(toy), "--json").stdout)
    bundle = toy.with_suffix(".bundle")
    run("export", made["id"], str(bundle))
    toy.write_bytes("me: Größe\n".encode())
    refused = run("import", str(toy))
    assert (refused.returncode, b"Traceback" in refused.stderr) == (4, False)
    assert b"UnicodeDecodeError" in refused.stderr
