"""`zoea completion`: scripts for shells, and the names they offer."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_upstream import _stored
from zoea.cli.dispatch import COMMANDS, dispatch
from zoea.model.errors import UsageError


def complete(script: str, *words: str, line: str = "") -> list[str]:
    """Return what bash offers for the last word. The names are from a stand-in for `zoea completion`."""
    shown = " ".join(f"'{word}'" for word in words)
    source = f"""{script}
zoea() {{
    case $2 in
        names) printf '%s\\n' alpha 'alf $(touch trap)' beta;;
        revisions) printf '%s\\tsummary $(touch trap)\\n' alpha @alpha import/talk tag/a:b ctx-1a2b3c4d;;
    esac
}}
COMP_LINE='{line or " ".join(words)}'; COMP_POINT=${{#COMP_LINE}}
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
    for name in ("send", "start", "hold", "export", "answer", "deny"):
        assert complete(script, "zoea", name, "bet") == ["beta"]


def test_bash_completes_revisions_also_where_it_splits_them(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["completion", "bash"])
    script = capsys.readouterr().out
    assert complete(script, "zoea", "ctx", "sh") == ["show"]
    assert complete(script, "zoea", "ctx", "show", "imp") == ["import/talk"]
    assert complete(script, "zoea", "ctx", "diff", "alpha", "ctx-") == ["ctx-1a2b3c4d"]
    assert complete(script, "zoea", "fork", "alp") == ["alpha"]
    assert complete(script, "zoea", "new", "beta", "--from", "tag") == ["tag/a:b"]
    assert complete(script, "zoea", "ctx", "show", "@", "al", line="zoea ctx show @al") == ["alpha"]
    assert complete(script, "zoea", "ctx", "show", "tag/a", ":", "", line="zoea ctx show tag/a:") == ["b"]
    assert complete(script, "zoea", "ctx", "import", "alp") == [""]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_ask_for_revisions(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["completion", shell])
    script = capsys.readouterr().out
    assert all(part in script for part in ("zoea completion revisions", "note", "fork"))
    if (found := shutil.which(shell)) is not None:
        checked = subprocess.run([found, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose `zoea` answers for names. It prints how it is called for anything else."""
    command = tmp_path / "bin" / "zoea"
    command.parent.mkdir()
    command.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        "'completion names') printf '%s\\n' alpha 'beta $(touch trap)';;\n"
        "'completion revisions') printf '%s\\tabout it\\n' import/talk;;\n"
        "*) printf 'GOT[%s]\\n' \"$*\";;\n"
        "esac\n"
    )
    command.chmod(0o755)
    return {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb", "LANG": "C.UTF-8"}


def test_zsh_completes_names_and_revisions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stand_in: dict[str, str]
) -> None:
    if (zsh := shutil.which("zsh")) is None:
        return  # what cannot run here is only read, above
    dispatch(["completion", "zsh"])
    script = tmp_path / "completion.zsh"
    script.write_text(capsys.readouterr().out)
    told = f"""
zmodload zsh/zpty
zpty inner {zsh} -f -i
zpty -w inner 'autoload -U compinit; compinit -u -D; source {script}; echo LOA""DED'
zpty -r inner shown '*LOADED*'
for typed in $'show al\\t' $'doctor al\\t' $'show be\\t' $'ctx show imp\\t' $'fork imp\\t' $'broa\\t'; do
    zpty -w inner "zoea $typed"
    zpty -r inner shown '*GOT\\[*\\]*'
    print -r -- "${{${{shown##*GOT\\[}}%%\\]*}}"
done
zpty -d inner
"""
    ran = subprocess.run(
        [zsh, "-f", "-c", told], env=stand_in, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert [line.strip() for line in ran.stdout.splitlines()] == [
        "show alpha",
        "doctor al",
        "show beta $(touch trap)",
        "ctx show import/talk",
        "fork import/talk",
        "broadcast",
    ]
    assert not (tmp_path / "trap").exists()


def test_fish_completes_names_and_revisions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stand_in: dict[str, str]
) -> None:
    if (fish := shutil.which("fish")) is None:
        return  # what cannot run here is only read, above
    dispatch(["completion", "fish"])
    script = tmp_path / "completion.fish"
    script.write_text(capsys.readouterr().out)

    def offered(line: str) -> list[str]:
        told = f"source {script}; complete -C '{line}'"
        ran = subprocess.run(
            [fish, "--no-config", "-c", told],
            env=stand_in,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return [one.partition("\t")[0] for one in ran.stdout.splitlines()]

    assert offered("zoea show al") == ["alpha"]
    assert offered("zoea doctor al") == []
    assert offered("zoea broad") == ["broadcast"]
    assert offered("zoea ctx show imp") == ["import/talk"]
    assert offered("zoea fork imp") == ["import/talk"]


def test_revisions_are_refs_and_the_newest_commits_with_their_summaries(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dispatch(["completion", "revisions"])
    assert capsys.readouterr().out == ""
    file = tmp_path / "talk.json"
    file.write_text('[{"role": "user", "content": "Where is\\tthe bug?"}]')
    dispatch(["ctx", "import", str(file)])
    short = capsys.readouterr().out.split()[0]
    dispatch(["completion", "revisions"])
    assert capsys.readouterr().out.splitlines() == [f"{one}\tWhere is the bug?" for one in ("import/talk", short)]


def test_every_shell_has_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        dispatch(["completion", shell])
        script = capsys.readouterr().out
        assert [name for name in COMMANDS if name not in script] == []
    with pytest.raises(UsageError, match="no completion for 'tcsh'"):
        dispatch(["completion", "tcsh"])


def test_names_are_those_of_the_stored_myses(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["completion", "names"])
    assert capsys.readouterr().out == ""
    asyncio.run(_stored("alpha", "u1"))
    dispatch(["completion", "names"])
    assert capsys.readouterr().out == "alpha\n"
