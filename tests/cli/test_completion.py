"""`zoea completion`: scripts for shells, and the names they offer."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest

from tests.cli.test_upstream import _stored
from zoea.cli.commands.completion import TAKES_NAME
from zoea.cli.dispatch import COMMANDS, dispatch
from zoea.model.errors import UsageError


def complete(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last word, with names from a stand-in for `zoea completion names`."""
    shown = " ".join(f"'{word}'" for word in words)
    source = f"""{script}
zoea() {{ printf '%s\\n' alpha 'alf $(touch trap)' beta; }}
COMP_WORDS=({shown}); COMP_CWORD={len(words) - 1}; _zoea; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run([bash, "-c", source], capture_output=True, text=True, check=True).stdout.splitlines()


def test_bash_completes_commands_and_names_without_running_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["completion", "bash"])
    script = capsys.readouterr().out
    assert complete(script, "zoea", "br") == ["broadcast"]
    assert complete(script, "zoea", "show", "al") == ["alpha", "alf\\ \\$\\(touch\\ trap\\)"]
    assert complete(script, "zoea", "doctor", "") == [""]


def test_every_shell_has_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        dispatch(["completion", shell])
        script = capsys.readouterr().out
        assert [name for name in COMMANDS if name not in script] == []
    assert set(TAKES_NAME) <= set(COMMANDS)
    with pytest.raises(UsageError, match="no completion for 'tcsh'"):
        dispatch(["completion", "tcsh"])


def test_names_are_those_of_the_stored_myses(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["completion", "names"])
    assert capsys.readouterr().out == ""
    asyncio.run(_stored("alpha", "u1"))
    dispatch(["completion", "names"])
    assert capsys.readouterr().out == "alpha\n"
