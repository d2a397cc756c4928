"""`zoea upstream`: import, list, test and call."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.toolboxes import FAULTY, Faulty
from zoea.cli.dispatch import dispatch
from zoea.model.errors import MysisMissing, SettingsError, StoreMissing, ToolError, UsageError
from zoea.settings.credentials import Credentials
from zoea.settings.layers import load
from zoea.settings.paths import places
from zoea.store.store import Store
from zoea.swarm.persistence import mysis_ops

SECRET = "canary-secret-0123456789abcdef"


def _config() -> Path:
    return places().config_file


def _write(folder: Path, servers: dict[str, Any]) -> Path:
    file = folder / "client.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    found = Faulty(tmp_path)
    where = places()
    where.make_config()
    _config().write_text(
        f"""[upstream.faulty]
command = {json.dumps(sys.executable)}
args = ["-I", {json.dumps(str(FAULTY))}]
env = {{ FAULTY_JOURNAL = {json.dumps(str(found.journal))} }}

[upstream.broken]
command = "/nowhere/server"
args = ["{{env:NOT_SET_ANYWHERE}}"]

[upstream.gone]
command = "/nowhere/server"
"""
    )
    return found


def test_an_import_writes_tables_and_keeps_the_rest_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places().make_config()
    _config().write_text("# mine\n[swarm]\nmax_myses = 5 # five\n")
    file = _write(tmp_path, {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"LOG_LEVEL": "debug"}}})
    assert dispatch(["upstream", "import", str(file)]) == 0
    text = _config().read_text()
    assert text.startswith("# mine\n[swarm]\nmax_myses = 5 # five\n")
    assert tomllib.loads(text)["upstream"] == {
        "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"LOG_LEVEL": "debug"}}
    }
    assert load(places()).settings.upstream["git"].command == "uvx"
    assert "Try one: zoea upstream test git" in capsys.readouterr().out


def test_secrets_are_stored_in_the_credentials_file_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = {
        "hub": {"command": "hub", "args": ["--api-key", SECRET, f"--token={SECRET}"], "env": {"HUB_PAT": SECRET}},
        "web": {"url": "https://h.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}", "X-Trace": SECRET}},
    }
    dispatch(["upstream", "import", str(_write(tmp_path, servers))])
    text = _config().read_text()
    assert SECRET not in text + capsys.readouterr().out
    credentials = Credentials(places().credentials)
    assert set(credentials.names()) == {
        "upstream/hub/api-key",
        "upstream/hub/token",
        "upstream/hub/HUB_PAT",
        "upstream/web/Authorization",
        "upstream/web/X-Trace",
    }
    assert stat.S_IMODE(places().credentials.stat().st_mode) == 0o600
    given = load(places()).settings.upstream
    filled = [credentials.fill(one).get_secret_value() for one in given["hub"].args]
    assert filled == ["--api-key", SECRET, f"--token={SECRET}"]
    assert credentials.fill(given["web"].headers["Authorization"]).get_secret_value() == f"Bearer {SECRET}"


def test_an_existing_upstream_is_kept_without_replace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "import", str(_write(tmp_path, {"a": {"command": "one"}}))])
    file = _write(tmp_path, {"a": {"command": "two"}, "b": {"command": "two"}})
    dispatch(["upstream", "import", str(file)])
    assert load(places()).settings.upstream["a"].command == "one"
    assert "left out a: an upstream of this name exists already" in capsys.readouterr().out
    dispatch(["upstream", "import", str(file), "--replace", "--json"])
    assert load(places()).settings.upstream["a"].command == "two"
    told = json.loads(capsys.readouterr().out)
    assert set(told["imported"]) == {"a", "b"}


def test_a_server_that_the_settings_would_refuse_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _write(tmp_path, {"a": {"url": "http://user:pass@h.example/mcp"}})
    with pytest.raises(UsageError, match="nothing was imported"):
        dispatch(["upstream", "import", str(file)])
    assert "left out a: upstream.a.url" in capsys.readouterr().out
    assert not _config().exists()


def test_unreadable_files_are_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        dispatch(["upstream", "import", str(tmp_path / "none.json")])
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UsageError, match="it is not UTF-8"):
        dispatch(["upstream", "import", str(tmp_path / "latin.json")])
    places().make_config()
    _config().write_text("[broken")
    with pytest.raises(SettingsError):
        dispatch(["upstream", "import", str(_write(tmp_path, {"a": {"command": "x"}}))])


def test_the_list_shows_no_arguments_and_opens_nothing(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "list"])
    out = capsys.readouterr().out
    assert "faulty" in out
    assert str(FAULTY) not in out
    dispatch(["upstream", "list", "--json"])
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["faulty", "broken", "gone"]
    assert not faulty.seen("start")


def test_an_empty_list_of_upstreams_says_how_to_add_one(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "list"])
    assert "zoea upstream import FILE" in capsys.readouterr().out


def test_upstream_test_shows_tools_and_times(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "test", "faulty", "--schemas"])
    out = capsys.readouterr().out
    assert "faulty: faulty 1" in out
    assert "  echo [read-only] [idempotent]  echo of the faulty server" in out
    assert '"required": ["text"]' in out
    dispatch(["upstream", "test", "faulty", "--json"])
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["open_ms"] > 0
    assert told["latency_ms"] > 0
    assert captured.err == ""


def test_a_server_that_does_not_open_is_reported_with_the_cause(faulty: Faulty) -> None:
    with pytest.raises(ToolError, match="gone did not open: cannot run /nowhere/server: not found"):
        dispatch(["upstream", "test", "gone"])


def test_an_unknown_upstream_is_refused_with_the_known_names(faulty: Faulty) -> None:
    with pytest.raises(UsageError, match="no upstream nope") as caught:
        dispatch(["upstream", "test", "nope"])
    assert caught.value.hint == "Configured: faulty, broken, gone."


def test_upstream_call_prints_the_result(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["upstream", "call", "faulty", "echo", '{"text": "hi"}']) == 0
    assert capsys.readouterr().out == "hi\n"
    dispatch(["upstream", "call", "faulty", "image", "--json"])
    assert json.loads(capsys.readouterr().out)["blobs"] == [{"media_type": "image/png", "bytes": 29}]


def test_a_failing_call_has_the_exit_code_of_a_tool(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["upstream", "call", "faulty", "refuse"]) == 8
    assert "out of order" in capsys.readouterr().err


def test_an_upstream_with_accounts_needs_a_mysis(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    with _config().open("a") as file:
        file.write('\n[upstream.faulty.inject]\nsession_id = "account"\n')
    with pytest.raises(UsageError, match="faulty needs the account of a mysis"):
        dispatch(["upstream", "call", "faulty", "balance"])
    with pytest.raises(StoreMissing):
        dispatch(["upstream", "call", "faulty", "balance", "--as", "alpha"])
    asyncio.run(_stored("alpha", "u1"))
    with pytest.raises(MysisMissing):
        dispatch(["upstream", "call", "faulty", "balance", "--as", "beta"])
    assert dispatch(["upstream", "call", "faulty", "balance", "--as", "alpha"]) == 0
    assert json.loads(capsys.readouterr().out)["session_id"] == "‹account›"
    assert Credentials(places().credentials).names() == ("account/faulty/@u1",)


async def _stored(name: str, uid: str) -> None:
    """Store one mysis."""
    made = mysis_ops.MysisSpec(uid, name, "t", b"0" * 32, "", "scripted", "")
    places().make_data()
    store = await Store.open(places().database, clock_now=lambda: 1)
    await store.write(lambda conn: mysis_ops.create(conn, made, 9))
    await store.close()


def test_a_server_is_added_switched_off_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "add", "files", "--", "npx", "-y", "some-server", "--root", "/my data"])
    dispatch(["upstream", "add", "wiki", "https://mcp.example.org/mcp"])
    assert _tables() == {
        "files": {"command": "npx", "args": ["-y", "some-server", "--root", "/my data"]},
        "wiki": {"url": "https://mcp.example.org/mcp"},
    }
    dispatch(["upstream", "disable", "wiki"])
    assert _tables()["wiki"]["enabled"] is False
    capsys.readouterr()
    dispatch(["upstream", "list", "--json"])
    assert {row["name"]: row["enabled"] for row in json.loads(capsys.readouterr().out)} == {
        "files": True,
        "wiki": False,
    }
    dispatch(["upstream", "enable", "wiki"])
    dispatch(["upstream", "remove", "files"])
    assert _tables() == {"wiki": {"url": "https://mcp.example.org/mcp"}}
    with pytest.raises(UsageError, match="has no upstream files"):
        dispatch(["upstream", "remove", "files"])


def test_an_added_server_does_not_replace_another_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["upstream", "add", "files", "--", "one"])
    with pytest.raises(UsageError, match="nothing was added"):
        dispatch(["upstream", "add", "files", "--", "two"])
    dispatch(["upstream", "add", "files", "--replace", "--", "two"])
    assert _tables() == {"files": {"command": "two"}}


def _tables() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(_config().read_text())["upstream"]
    return found
