"""Run commands in this process through `zoea.__main__.run`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.owner import OwnerThread, fake_owner
from zoea import __main__


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Zoea = Callable[..., CommandResult]


@pytest.fixture
def zoea(capsys: pytest.CaptureFixture[str]) -> Zoea:
    def run(*arguments: str) -> CommandResult:
        code = __main__.run(list(arguments))
        wrote = capsys.readouterr()
        return CommandResult(code, wrote.out, wrote.err)

    return run


@pytest.fixture
def other_owner(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnerThread]:
    """A swarm that runs in another thread, with a real lock and a real socket."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        with fake_owner() as owner:
            yield owner
