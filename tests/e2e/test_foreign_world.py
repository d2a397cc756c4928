"""One run of `zoea` over a server that knows nothing of Reef. The commands then show it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.e2e.terminal_screen import TerminalScreen
from tests.e2e.zoea_process import PATIENCE_S, spawn, zoea
from tests.fakes.mcp_foreign_world import ForeignWorld
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.queries.test_reading_cost import copy_rows
from tests.waiting import until
from zoea.process.clock import SystemClock
from zoea.runtime.run_options import attach
from zoea.settings.paths import places
from zoea.store.store import Store

CANARY = "canary-hunter2-of-the-model"
FOUND = "小行星帯で鉄鉱石を発見した"
SOLD = "All the copper is sold."
SEARCH = json.dumps({"query": "beryllium"})
ANSWERS = (
    Say("I look where I am.", calls=(Call("where", id="call-1"),)),
    Say(f"Docked. {FOUND}"),
    Say(
        "I look for beryllium.",
        calls=(
            Call("unlock", json.dumps({"password": CANARY}), "call-2"),
            Call("stray", id="call-3"),
            Call("zoea_search_messages", SEARCH, "call-4"),
        ),
    ),
    Say("I fly.", calls=(Call("fly", id="call-5"),)),
    Say("On my way."),
)
CONFIG = """
[provider.local]
type = "openai"
base_url = "{model}"
model = "reef-1"
context_window = 32768
[nudge]
idle_interval = 0.2
[upstream.game]
url = "{world}/mcp"
inject = {{ session_id = "account.sessionId" }}
[upstream.game.login]
register = "sign_up"
login = "sign_in"
name = "username"
fixed = {{ empire = "solarian" }}
"""
TURNS = 400
TABLE_LEAF = 0x0D
"""The first byte of a page of a database that holds rows of a table."""

pytestmark = pytest.mark.timeout(4 * PATIENCE_S)


@dataclass(frozen=True)
class Played:
    """What is left of the run: its directories, the calls of the world, the requests and what `zoea list` showed."""

    folder: Path
    calls: list[tuple[str, dict[str, Any]]]
    requests: str
    listed: dict[str, Any]
    results: dict[str, str]

    @property
    def database(self) -> Path:
        return self.folder / "data" / "zoea.db"


def ask(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Read the database of a run; nothing before it is there."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/data/zoea.db?mode=ro", uri=True, timeout=5)) as reader:
            return reader.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


async def play(folder: Path) -> Played:
    """Run a mysis with a task until it waits for its arrival. Run another until it is deleted."""
    async with ForeignWorld() as world, OpenAIServer(*ANSWERS, otherwise=lambda _: Say(SOLD)) as model:
        (folder / "config").mkdir(mode=0o700)
        (folder / "config" / "config.toml").write_text(CONFIG.format(model=model.base_url, world=world.url))
        process = spawn("run", "--headless", "--json", "--task", "Mine the belt.")
        try:
            second = "SELECT 1 FROM turn WHERE number = 2 AND outcome = 'answered'"
            await until(lambda: ask(folder, second), within=PATIENCE_S)
            [listed] = json.loads((await asyncio.to_thread(zoea, "list", "--json")).stdout)
            async with await attach(places("")) as swarm:
                await swarm.create("beta", task="Sell all the copper.")
                await until(lambda: ask(folder, f"SELECT 1 FROM memory WHERE content = '{SOLD}'"), within=PATIENCE_S)
                await swarm.delete("beta")
        finally:
            process.terminate()
            _, trouble = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        assert process.returncode == 0, trouble
        results = ask(folder, "SELECT c.name, m.content FROM tool_call c JOIN memory m ON m.id = c.result_memory_id")
        return Played(folder, world.calls, "".join(one.body.decode() for one in model.chats), listed, dict(results))


def move_into(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the commands that follow use the directories of a run."""
    for name in ("data", "config"):
        patch.setenv(f"ZOEA_{name.upper()}_DIR", str(folder / name))


@pytest.fixture(scope="module")
def run_once() -> Iterator[Played]:
    with tempfile.TemporaryDirectory(prefix="zoea-") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        move_into(folder, patch)
        (folder / "runtime").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("HOME", name)
        patch.setenv("ZOEA_SWARM__DISCOVER", "false")
        yield asyncio.run(play(folder))


@pytest.fixture
def played(run_once: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    """The run, of which the test has a copy of its own."""
    for name in ("data", "config"):
        shutil.copytree(run_once.folder / name, tmp_path / "copy" / name)
    move_into(tmp_path / "copy", monkeypatch)
    return replace(run_once, folder=tmp_path / "copy")


def texts(folder: Path) -> str:
    """All that is stored but credentials: every file, and what is packed in the database."""
    packed = [row[0] for row in ask(folder, "SELECT plan FROM request WHERE plan IS NOT NULL")]
    packed += [row[0] for row in ask(folder, "SELECT data FROM blob WHERE data IS NOT NULL")]
    plain = [zstandard.ZstdDecompressor().decompress(each) for each in packed]
    files = (file for file in (folder / "data").rglob("*") if file.is_file() and file.name != "credentials.toml")
    return b"\n".join((*plain, *(file.read_bytes() for file in files))).decode(errors="replace")


def test_an_arrival_waits_by_the_tick_that_an_earlier_wrapped_result_told(played: Played) -> None:
    assert (played.listed["status"], played.listed["waiting_for"]) == ("waiting", "arrival_tick 41708")
    [(told,)] = ask(
        played.folder,
        "SELECT m.created_at FROM tool_call c JOIN memory m ON m.id = c.result_memory_id WHERE c.name = 'where'",
    )
    assert played.listed["waiting_until"] == told + 1_000_000_000  # a hundred ticks of ten seconds


def test_an_account_is_opened_by_the_schemas_and_the_settings_of_its_server(played: Played) -> None:
    assert played.calls[:3] == [
        ("sign_up", {"username": "alpha", "empire": "solarian"}),
        ("sign_in", {"username": "alpha", "password": ForeignWorld.PASSWORD}),
        ("where", {"session_id": ForeignWorld.SESSION}),
    ]


def test_secrets_are_kept_out_of_what_is_stored_sent_and_exported(played: Played) -> None:
    assert ("unlock", {"password": CANARY}) in played.calls
    exported = zoea("export", "alpha", "--format", "jsonl")
    assert (exported.returncode, "unlock" in exported.stdout) == (0, True), exported.stderr
    everything = texts(played.folder)
    assert "unlock" in everything
    for secret in (CANARY, ForeignWorld.PASSWORD, ForeignWorld.SESSION):
        assert secret not in everything + played.requests + exported.stdout
    assert CANARY in (played.folder / "data" / "credentials.toml").read_text()


def test_an_answer_to_another_request_is_refused(played: Played) -> None:
    assert "its answer has the id of another request" in played.results["stray"]
    assert "of another mysis" not in texts(played.folder) + played.requests


def test_a_search_does_not_find_its_own_call(played: Played) -> None:
    assert json.loads(played.results["zoea_search_messages"])["results"] == []
    assert "beryllium" in zoea("search", "beryllium").stdout


@pytest.mark.parametrize("how", [(), ("--ranked",)], ids=["exact", "ranked"])
def test_a_word_of_a_language_without_spaces_is_found(played: Played, how: tuple[str, ...]) -> None:
    found = json.loads(zoea("search", "鉄鉱石", *how, "--json").stdout)["results"]
    assert [FOUND in hit["text"] for hit in found] == [True], found


def test_what_is_redacted_and_who_is_purged_stand_in_no_file(played: Played) -> None:
    before = texts(played.folder)
    assert FOUND in before
    assert SOLD in before
    redacted = zoea("redact", FOUND, "--yes")
    assert "replaced by [REDACTED]" in redacted.stdout, redacted.stderr
    purged = zoea("purge", "beta", "--yes")
    assert "beta (#2) removed for good" in purged.stdout, purged.stderr
    after = texts(played.folder)
    assert (FOUND in after, SOLD in after, "I look for beryllium" in after) == (False, False, True)


async def lengthen(database: Path) -> None:
    """Copy the last turn `TURNS` times and index it. Texts of the last turns are new, and more than a page of them."""
    with closing(sqlite3.connect(database)) as con, con:
        last, number = con.execute("SELECT id, number FROM turn WHERE mysis_id = 1 ORDER BY id DESC").fetchone()
        for more in range(1, TURNS + 1):
            turn = copy_rows(con, "turn", f"id = {last}", number=number + more)
            copy_rows(con, "memory", f"turn_id = {last}", turn_id=turn)
        assert turn is not None
        end = (turn - 15,)
        con.execute("UPDATE memory SET content = 'an old text, said before. ' || content WHERE turn_id <= ?", end)
        con.execute("UPDATE memory SET content = 'a new text. ' || content WHERE turn_id > ?", end)
    await (await Store.open(database, clock_now=SystemClock().now)).close()


def spoil_old_pages(database: Path) -> int:
    """Overwrite every page that holds old texts and no new one; return how many."""
    data = bytearray(database.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    size = 65_536 if size == 1 else size
    spoilt = 0
    for start in range(0, len(data), size):
        page = data[start : start + size]
        if page[0] == TABLE_LEAF and b"an old text" in page and b"a new text" not in page:
            data[start : start + size] = bytes(size)
            spoilt += 1
    database.write_bytes(data)
    return spoilt


async def test_the_end_of_a_conversation_is_shown_without_reading_the_rest(played: Played) -> None:
    await lengthen(played.database)
    whole = zoea("log", "alpha", "--last", "4")
    assert whole.stdout.count("a new text") == 4, whole.stderr
    assert spoil_old_pages(played.database) > 20
    with closing(sqlite3.connect(played.database)) as con, pytest.raises(sqlite3.DatabaseError):
        con.execute("SELECT sum(length(content)) FROM memory").fetchall()
    end = zoea("log", "alpha", "--last", "4")
    assert (end.returncode, end.stdout) == (0, whole.stdout), end.stderr
    with closing(TerminalScreen("run", size=(140, 40), environ={})) as screen:
        screen.until("1 mysis", "a new text. On my way.")
        screen.press("enter")
        screen.until(f"{TURNS + 2} turns", "a new text. I fly.")
