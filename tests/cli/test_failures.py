"""Wrong arguments and broken environments end in one error, with `--json` in one object."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.case_tables import walk_cases
from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from zoea import __main__
from zoea.cli import output
from zoea.ipc.protocol import decode_error
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, UsageError, WorldError
from zoea.runtime.mysis_options import parse_settings
from zoea.settings.fields import Seconds
from zoea.settings.paths import places
from zoea.store.store import Store
from zoea.swarm.persistence import mysis_ops
from zoea.world.world_log import WorldLog

NO_UTF8 = os.fsdecode(b"al\xff\xfepha")
BEYOND = "99999999999999999999999"


@pytest.fixture
def stored_mysis() -> None:
    """A stored mysis without messages."""

    async def made() -> None:
        places().make_data()
        store = await Store.open(places().database, clock_now=lambda: 1)
        new = mysis_ops.MysisSpec("1", "alpha", "t", b"0" * 32, "", "scripted", "")
        await store.write(lambda conn: mysis_ops.create(conn, new, 9).id)
        await store.close()

    asyncio.run(made())


@pytest.mark.usefixtures("stored_mysis")
def test_ids_outside_the_range_of_row_ids_are_refused(zoea: Zoea, tmp_path: Path) -> None:
    for arguments in (
        ("show", NO_UTF8),
        ("log", NO_UTF8),
        ("explain", NO_UTF8),
        ("search", "x", "-m", NO_UTF8),
        ("export", NO_UTF8, "-o", str(tmp_path / "x")),
    ):
        ran = zoea(*arguments, "--json")
        assert (ran.code, ran.out) == (6, "")
        assert json.loads(ran.err)["error"]["class"] == "MysisMissing"
    beyond: tuple[tuple[str, ...], ...] = (("log", "alpha", "--turn", BEYOND), ("explain", "alpha", BEYOND))
    for words in (*beyond, ("export", "alpha", "-o", "/")):
        ran = zoea(*words, "--json")
        assert (ran.code, ran.out) == (2, "")
        assert json.loads(ran.err)["error"]["class"] == "UsageError"


@pytest.mark.usefixtures("stored_mysis")
def test_a_path_that_is_not_utf8_is_written_as_valid_json(zoea: Zoea, tmp_path: Path) -> None:
    ran = zoea("export", "alpha", "-o", os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md"), "--json")
    assert ran.code == 0
    assert ran.json["path"].endswith("/\ufffd.md")


TOO_LONG, OF_NOBODY = "a" * 300, "~no-such-user/x"


@walk_cases("path", [TOO_LONG, OF_NOBODY])
@walk_cases(
    "line",
    [
        "trust",
        "import",
        "import nova",
        "ctx import",
        "ctx export HEAD",
        "upstream import",
        "config import",
        "local add",
        "export --all --format jsonl -o",
        "world --data",
        "new --on",
        "workbench",
    ],
)
@pytest.mark.usefixtures("stored_mysis")
def test_a_path_that_cannot_be_is_an_error_without_a_traceback(zoea: Zoea, line: str, path: str) -> None:
    if line.startswith("export") and path is OF_NOBODY:
        path += "/"  # else it is a file to write, of an odd name
    ran = zoea(*line.split(), path, "--json")
    assert ran.code != 0
    assert json.loads(ran.err)["error"]["what"]


def test_delete_with_json_needs_yes(zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    zoea("new", "alpha")
    ran = zoea("delete", "alpha", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "--yes" in json.loads(ran.err)["error"]["hint"]
    assert zoea("delete", "alpha").out.strip() == "alpha (#1) is deleted"  # the question was on stderr


def test_json_errors_come_without_progress_lines(
    zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "AFTER_S", 0.0)
    ran = zoea("show", "nobody", "--json")
    assert json.loads(ran.err)["error"]["class"] == "MysisMissing"
    assert zoea("show", "nobody").err.startswith("zoea: waiting for the running swarm\n")


def test_a_providers_failure_has_its_exit_code_over_the_socket_too() -> None:
    failed = ProviderError("there is no provider 'x'", kind=ErrorClass.AUTH, hint="Did you mean y?", title="T")
    revived = decode_error(failed.as_dict())
    assert isinstance(revived, ProviderError)
    assert revived.as_dict() == failed.as_dict()
    assert revived.exit_code == 7


@walk_cases("value", ["1e999", "NaN", "[1e999]", "[" * 5000])
def test_a_value_that_json_cannot_hold_is_read_as_text(value: str) -> None:
    assert parse_settings(f"nudge.idle_interval={value}") == {"nudge.idle_interval": value}


def test_a_world_whose_file_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorldError, match="cannot be used"):
        WorldLog(tmp_path / "file" / "reef.db")
    (tmp_path / "reef.db").mkdir()
    with pytest.raises(WorldError, match="is not a file"):
        WorldLog(tmp_path / "reef.db")


def test_a_character_unknown_to_the_terminal_is_escaped() -> None:
    code = "import sys; from zoea.__main__ import _open_streams as o; o(); print('\\u2699 \\udcff', end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True, check=True
    )
    assert done.stdout == b"\\u2699 \\udcff"


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_settings("nudge")


@pytest.mark.usefixtures("stored_mysis")
@pytest.mark.parametrize("arguments", [["undelete"], ["show", "alpha"], ["export", "alpha"], ["list"]])
def test_a_reader_that_closes_the_pipe_is_no_error(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert __main__.run(arguments) == 141


@walk_cases("value", [1e308, "1e30", "99999999999999999h", 1_000_000_001])
def test_a_duration_too_long_for_the_clock_is_refused(value: object) -> None:
    durations: TypeAdapter[float] = TypeAdapter(Seconds)
    assert durations.validate_python(1_000_000_000) == 1e9
    with pytest.raises(ValidationError, match="less than or equal to 1000000000"):
        durations.validate_python(value)


def test_the_score_of_a_damaged_world_is_an_error(zoea: Zoea, tmp_path: Path) -> None:
    for content in (b"x" * 5000, b""):
        (tmp_path / "reef.db").write_bytes(content)
        ran = zoea("world", "score", "--data", str(tmp_path), "--json")
        assert (ran.code, ran.out) == (9, "")
        assert "damaged" in json.loads(ran.err)["error"]["what"]
    record = WorldLog(tmp_path / "kept" / "reef.db", seed=1)
    record.close()
    with closing(sqlite3.connect(tmp_path / "kept" / "reef.db")) as db, db:
        db.execute("UPDATE snapshot SET state = ?", (b"x",))
    with pytest.raises(WorldError, match="damaged"):
        WorldLog(tmp_path / "kept" / "reef.db")


def test_serve_refuses_an_empty_address(zoea: Zoea) -> None:
    assert zoea("serve", "--host", "").code == 2


def test_a_missing_argument_names_the_help_of_the_inner_command(zoea: Zoea) -> None:
    assert "`zoea prices set --help`" in zoea("prices", "set").err


def test_names_and_all_are_not_taken_together(zoea: Zoea) -> None:
    ran = zoea("start", "alpha", "--all")
    assert ran.code == 2
    assert "names and --all exclude each other" in ran.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fork alpha -n 99", "--count 99 is out of range\n  Give a number from 1 to 50."),
        ("send alpha hi --budget 5", "--budget 5 is out of range\n  Give a number from 1000 on."),
        ("send alpha hi --budget much", "--budget 'much' is not a whole number"),
        ("ctx note alpha --days long", "--days 'long' is not a number"),
        ("send alpha hi --mode soon", "--mode 'soon' is unknown\n  Give one of queue, steer, interrupt."),
        ("send alpha hi --bugdet 5000", "there is no option --bugdet; did you mean --budget?"),
        ("send alpha hi --budget", "--budget needs a value: --budget N"),
        ("show alpha beta", "it takes no further arguments: beta"),
        ("-w other list", "the option -w stands before the command"),
    ],
)
def test_a_wrong_command_line_is_described_in_plain_words(zoea: Zoea, line: str, said: str) -> None:
    ran = zoea(*line.split())
    assert ran.code == 2
    assert said in ran.err
