"""Make a database with open turns by the code of a commit: `python -m tests.released.make_open_turns COMMIT…`.

For each commit it exports that commit's `zoea/` with `git archive`, runs a headless swarm of it with this environment's
packages, and kills it with SIGKILL while three turns of each strategy are open: in a model call, in a tool call, and
before an approval. As in `make_database`, its clock is set back. It leaves `open_turns/SCHEMA.db.xz`, where SCHEMA is
the number of the commit's newest migration.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.released.make_database import SET_CLOCK, STARTED_S
from tests.released.open_turns_settings import HISTORY, STRATEGIES, TOPIC, write_settings
from tests.waiting import until_true

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("open_turns")
WITHIN_S = 600.0
_TURNS = """
SELECT m.name, m.state, m.state_reason, t.number, t.opened_by, t.outcome
FROM mysis m LEFT JOIN turn t ON t.mysis_id = m.id
"""


@dataclass(frozen=True, slots=True)
class OldZoea:
    """The `zoea` of a commit, with a home of its own."""

    folder: Path
    clock_shift_ns: int

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        places = {"HOME": "", "XDG_RUNTIME_DIR": "run", "ZOEA_DATA_DIR": "data", "ZOEA_CONFIG_DIR": "config"}
        return subprocess.Popen(
            [sys.executable, "-m", "zoea", *arguments],
            cwd=self.folder / "code",
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{self.folder / 'code'}{os.pathsep}{self.folder}",
                "CLOCK_SHIFT_NS": str(self.clock_shift_ns),
                "TZ": "UTC",
                "ZOEA_SWARM__DISCOVER": "false",
                **{name: str(self.folder / place) for name, place in places.items()},
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def succeeds(self, *arguments: str) -> bool:
        process = self.spawn(*arguments)
        process.communicate()
        return process.returncode == 0

    def command(self, *arguments: str) -> None:
        process = self.spawn(*arguments)
        output, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"zoea {' '.join(arguments)}: {process.returncode}\n{output}\n{errors}")

    def await_true(self, query: str) -> None:
        """Wait until the query's first value is not 0."""

        def holds() -> bool:
            with closing(sqlite3.connect(self.folder / "data" / "zoea.db", timeout=30)) as connection:
                return bool(connection.execute(query).fetchone()[0])

        try:
            until_true(holds, within=WITHIN_S)
        except AssertionError:
            with closing(sqlite3.connect(self.folder / "data" / "zoea.db", timeout=30)) as connection:
                turns = connection.execute(_TURNS).fetchall()
            raise RuntimeError(f"{query}; turns: {turns}") from None


def export_code(commit: str, folder: Path) -> int:
    """Unpack the package of a commit; return the number of its newest migration."""
    words = ["git", "archive", "--format=zip", commit, "zoea"]
    packed = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(folder / "code")
    return max(int(file.stem) for file in (folder / "code" / "zoea" / "store" / "migrations").glob("*.sql"))


def read_strategies(folder: Path) -> tuple[str, ...]:
    """Return the strategies that the templates of a commit may name."""
    text = (folder / "code" / "zoea" / "settings" / "template.py").read_text(encoding="utf-8")
    found = re.search(r"strategy: Literal\[(.*?)\]", text)
    return tuple(name for name in STRATEGIES if found is not None and f'"{name}"' in found[1])


def work(old: OldZoea, strategies: tuple[str, ...]) -> None:
    """Give each strategy a past, and three turns that stay open."""
    for strategy in strategies:
        for part in ("tool", "ask"):
            old.command("new", f"{strategy}-{part}", "--template", strategy)
    for text in HISTORY:
        old.command("broadcast", text)
        old.await_true(
            f"SELECT count(DISTINCT mysis_id) = {2 * len(strategies)} FROM memory WHERE content LIKE '%{text}'"
            " AND NOT EXISTS (SELECT 1 FROM turn WHERE outcome IS NULL)"
        )
    for strategy in strategies:
        old.command("new", f"{strategy}-model", "--template", strategy, "--provider", "paced")
        give(old, strategy, "model", "Say this slowly.")
        give(old, strategy, "tool", 'call look {"text": "the sun"}\ncall hang {"text": "for ever"}')
        give(old, strategy, "ask", 'call act {"text": "the trade"}')
    open_turns = "SELECT count(*) FROM turn WHERE outcome IS NULL"
    old.await_true(f"SELECT ({open_turns}) = {3 * len(strategies)}")
    old.await_true(f"SELECT count(*) = {len(strategies)} FROM request WHERE provider = 'paced' AND state = 'reserved'")
    for state, name in (("sent", "hang"), ("approval", "act")):
        old.await_true(
            f"SELECT count(*) = {len(strategies)} FROM tool_call WHERE state = '{state}' AND name = '{name}'"
        )
    for strategy in strategies:
        old.command("send", f"{strategy}-model", "Then say this.")


def give(old: OldZoea, strategy: str, part: str, text: str) -> None:
    if strategy == "topics":
        old.command("topic", "publish", TOPIC, text, "--to", f"{strategy}-{part}")
    else:
        old.command("send", f"{strategy}-{part}", text)


def make(commit: str) -> None:
    """Make the database of one commit."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as made:
        folder = Path(made)
        (folder / "run").mkdir()
        schema = export_code(commit, folder)
        strategies = read_strategies(folder)
        write_settings(folder / "config", strategies, pace_s=600, timeout_s=3600)
        (folder / "sitecustomize.py").write_text(SET_CLOCK, encoding="utf-8")
        old = OldZoea(folder, STARTED_S * 1_000_000_000 - time.time_ns())
        database = folder / "data" / "zoea.db"
        swarm = old.spawn("run", "--headless", "--json")
        try:
            until_true(lambda: old.succeeds("hold", "--lift"), within=WITHIN_S)
            work(old, strategies)
        finally:
            swarm.send_signal(signal.SIGKILL)
            sys.stderr.write(swarm.communicate()[1][-2000:])
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{schema:04}.db.xz").write_bytes(lzma.compress(database.read_bytes(), preset=9))
        sys.stdout.write(f"{schema:04}.db.xz by {commit}: {', '.join(strategies)}\n")


if __name__ == "__main__":
    for one in sys.argv[1:]:
        make(one)
