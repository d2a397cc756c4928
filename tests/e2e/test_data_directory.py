"""The data directory as it may be found: read-only, open to others, with links, without working locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.e2e.terminal_screen import TerminalScreen
from tests.e2e.zoea_process import PATIENCE_S, environment, zoea
from tests.fakes.fork_server import FileLimit, respect_modes
from tests.store.sample_memories import workspace
from zoea.model.errors import StoreError
from zoea.settings.paths import Places, places

WITHOUT_LOCKS = """
import fcntl, sys
fcntl.flock = lambda descriptor, how: None
from zoea.__main__ import main
sys.argv = ["zoea", "run", "--headless"]
sys.exit(main())
"""


def read(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`zoea ARGUMENTS` as a user for whom modes hold."""
    return zoea(*arguments, preexec_fn=respect_modes)


@pytest.fixture
def where() -> Places:
    return workspace()


@pytest.fixture
def unwritable(where: Places) -> Iterator[Places]:
    """A workspace that may only be read."""
    for file in where.data.iterdir():
        file.chmod(0o400)
    where.data.chmod(0o500)
    yield where
    where.data.chmod(0o700)


@pytest.mark.usefixtures("unwritable")
@walk_cases(
    ("command", "says"),
    [
        ("list", "m1"),
        ("search iron ore", "iron ore"),
        ("log m1", "iron ore"),
        ("show m1", "m1"),
        ("export m1 -f jsonl", "iron ore"),
        ("doctor --json", '"is_good": true'),
        ("mcp", ""),
    ],
)
def test_a_read_only_directory_can_be_read(command: str, says: str) -> None:
    told = read(*command.split(maxsplit=1 if command.startswith("search") else -1))
    assert (told.returncode, told.stderr) == (0, "")
    assert says in told.stdout


@pytest.mark.usefixtures("unwritable")
def test_no_swarm_runs_in_a_read_only_directory() -> None:
    refused = read("run", "--headless")
    assert refused.returncode == 4
    assert "zoea.lock cannot be written: Permission denied" in refused.stderr
    assert "`zoea list`, `log`, `search` and `export` still read it." in refused.stderr


def test_changes_that_a_read_only_directory_cannot_take_in_are_said(where: Places) -> None:
    log = where.data / "zoea.db-wal"
    log.write_bytes(b"a write-ahead log")
    where.data.chmod(0o500)
    try:
        refused = read("list")
    finally:
        where.data.chmod(0o700)
    assert refused.returncode == 4
    assert "zoea.db-wal holds changes that are not in the database yet" in refused.stderr
    assert "Copy the directory" in refused.stderr


def test_a_directory_that_others_may_enter_is_said_at_the_start() -> None:
    where = places("")
    where.make_data().chmod(0o755)
    ran = zoea("run", "--headless", "--provider", "scripted", "--for", "100ms")
    assert ran.returncode == 0
    assert f"Other users may enter {where.data} (mode 0755): `zoea doctor --fix` makes it yours alone." in ran.stderr
    where.data.chmod(0o700)
    assert "Other users" not in zoea("run", "--headless", "--provider", "scripted", "--for", "100ms").stderr


def test_a_directory_that_others_may_enter_is_said_in_the_cockpit(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    places("").make_data().chmod(0o755)
    glass = TerminalScreen("run", environ={})
    try:
        glass.until("Other users may enter")
    finally:
        glass.close()


def test_a_directory_that_others_may_enter_is_said_and_mended(where: Places) -> None:
    where.data.chmod(0o755)
    (where.data / "zoea.log.1").touch(mode=0o644)
    said = zoea("doctor")
    assert said.returncode == 4
    assert f"{where.data.name} (0755)" in said.stdout
    assert "zoea.log.1 (0644)" in said.stdout
    assert "zoea doctor --fix" in said.stdout
    mended = zoea("doctor", "--fix", "--json")
    assert json.loads(mended.stdout)["findings"][0] == {"name": "modes", "problem": "", "hint": ""}
    assert mended.returncode == 0
    assert {path.stat().st_mode & 0o077 for path in (where.data, *where.data.iterdir())} == {0}


def test_directories_above_that_name_the_workspaces_are_said_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOEA_DATA_DIR", str(tmp_path / "root"))
    monkeypatch.setenv("ZOEA_WORKSPACE", "lab")
    run = ("run", "--headless", "--provider", "scripted", "--for", "100ms")
    assert "Other users" not in zoea(*run).stderr
    names = tmp_path / "root" / "workspaces"
    names.chmod(0o755)
    assert f"Other users may enter {names} (mode 0755)" in zoea(*run).stderr
    said = zoea("doctor")
    assert (said.returncode, f"{names} (0755)" in said.stdout) == (4, True)
    assert zoea("doctor", "--fix").returncode == 0
    assert names.stat().st_mode & 0o777 == 0o700


def test_a_linked_directory_that_others_may_enter_is_said_and_mended(where: Places) -> None:
    target = where.data.with_name("elsewhere")
    where.data.rename(target)
    where.data.symlink_to(target)
    target.chmod(0o755)
    said = zoea("doctor")
    assert said.returncode == 4
    assert "elsewhere (0755)" in said.stdout
    assert zoea("doctor", "--fix").returncode == 0
    assert target.stat().st_mode & 0o777 == 0o700


HEADLESS = "run --headless --provider scripted"


@pytest.mark.parametrize(
    ("name", "command", "code"),
    [
        ("zoea.lock", HEADLESS, 4),
        ("zoea.db", HEADLESS, 4),
        ("zoea.log", HEADLESS, 4),
        ("blobs", HEADLESS, 4),
        ("credentials.toml", "config check", 3),
        ("credentials.toml", "credentials list", 3),
        ("credentials.toml", "credentials set mine", 3),
        ("credentials.toml", "credentials delete mine", 3),
    ],
)
def test_a_link_in_the_place_of_a_file_is_refused_and_its_target_unchanged(
    where: Places, name: str, command: str, code: int
) -> None:
    target = where.data.parent / "target"
    target.write_text("mine")
    target.chmod(0o600)
    (where.data / name).unlink(missing_ok=True)
    (where.data / name).symlink_to(target)
    refused = zoea(*command.split(), typed="secret\n")
    assert (refused.returncode, refused.stdout) == (code, "")
    assert name in refused.stderr
    assert "symbolic link" in refused.stderr
    assert target.read_text() == "mine"
    assert (where.data / name).is_symlink()


def test_a_directory_that_is_a_link_works(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = where.data.parent / "linked"
    linked.symlink_to(where.data)
    monkeypatch.setenv("ZOEA_DATA_DIR", str(linked))
    assert zoea("doctor", "--rebuild").returncode == 0


def test_locks_that_do_not_hold_are_found_at_the_opening(where: Places) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", WITHOUT_LOCKS],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == 4
    assert f"locks do not hold in {where.data}" in refused.stderr
    assert "local disk" in refused.stderr
    assert not (where.data / "zoea.log").exists()
    assert os.environ["ZOEA_DATA_DIR"] == str(where.data)


def test_a_run_with_few_open_files_ends_in_time_and_says_why() -> None:
    options = ("--headless", "--json", "--myses", "1", "--provider", "scripted", "--for", "500ms")
    assert zoea("run", *options).returncode == 0
    # With few of them Zoea fails to open the database, with some more it runs.
    for most in (16, 20, 24, 28) if os.environ.get("ZOEA_SOAK") else (16, 24):
        ran = zoea("run", *options, preexec_fn=FileLimit(most))
        assert "Traceback" not in ran.stderr, most
        assert ran.returncode in (0, 4, 5), most
        assert ran.stdout if ran.returncode == 0 else "hint" in ran.stderr, most


@pytest.mark.usefixtures("own_runtime")
def test_a_database_with_another_name_is_refused(where: Places, tmp_path: Path) -> None:
    other = tmp_path / "copy" / "zoea.db"
    other.parent.mkdir()
    other.hardlink_to(where.database)
    ran = zoea(*RUN)
    assert ran.returncode == StoreError.exit_code
    assert "has 2 names (hard links)" in ran.stderr
    other.unlink()
    assert zoea(*RUN).returncode == 0


RUN = ("run", "--headless", "--world", "reef", "--myses", "1", "--provider", "scripted", "--for", "100ms")
FILES = ("drafts.json", "reef.db", "reef.lock", "zoea.db", "zoea.lock", "zoea.log")


@pytest.mark.usefixtures("own_runtime")
def test_all_that_a_run_writes_is_for_its_owner_alone() -> None:
    where = places("")
    script = "import sys; sys.exit('no server')"
    server = f"[upstream.own]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', script])}\n"
    (where.make_config() / "config.toml").write_text(server)
    (where.config / "config.toml").chmod(0o600)
    options = ("--world", "reef", "--myses", "1", "--provider", "autopilot", "--turns", "1", "--task", "Go.")
    ran = zoea("run", "--headless", *options, umask=0)
    assert ran.returncode == 0, ran.stderr
    assert zoea("mcp", "token", "new", "codex", umask=0).returncode == 0
    folders = (where.data, where.config, where.runtime)
    written = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    assert {"zoea.db", "zoea.lock", "zoea.log", "reef.db", "upstream-own.log", "credentials.toml"} <= {
        path.name for path in written
    }
    assert [path for path in written if path.lstat().st_mode & 0o077] == []


@pytest.mark.usefixtures("own_runtime")
def test_every_file_of_a_run_is_in_the_table() -> None:
    assert zoea(*RUN).returncode == 0
    here = {file.name for file in places("").data.iterdir() if file.is_file()}
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in here} <= set(FILES)


@pytest.mark.usefixtures("own_runtime")
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(where: Places, name: str) -> None:
    file = where.data / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    for arguments in (("list",), ("world", "score"), RUN):
        ran = zoea(*arguments)
        assert "Traceback" not in ran.stderr
        assert "did not end in time" not in ran.stderr, ran.stderr
