"""`zoea import` and `zoea export --all` as a person and a machine use them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.nova import nova_database
from tests.fakes.owner import OwnerThread
from zoea.cli.commands.imports import ImportProgress


def test_a_nova_database_survives_import_export_and_import(
    zoea: Zoea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = nova_database(tmp_path / "nova.db")
    ran = zoea("import", "nova", str(source))
    assert ran.code == 0
    assert ran.out.startswith("Read nova.db, a Zoea Nova database of schema 12\nimported alpha: 4 turns, 14 memories")
    assert "  mended: calls without a result are marked unknown (1)\n" in ran.out
    assert "imported Beta- 2: 1 turn, 2 memories, 0 tool calls (there it is called Beta: 2" in ran.out
    (again,) = zoea("import", "nova", str(source), "--json").json
    assert (again["imported"], again["skipped"]["alpha"]) == ([], "it was imported already, as alpha")
    assert "Mine iron" in zoea("log", "alpha").out
    assert "Iron is in the hold" in zoea("search", "Iron is in").out

    file, folder = tmp_path / "swarm.jsonl", tmp_path / "each"
    folder.mkdir()
    assert zoea("export", "--all", "-f", "jsonl", "-o", str(file)).out.startswith("5 turns of 2 myses are in ")
    said = zoea("export", "--all", "-f", "jsonl", "-o", str(folder), "--json").json
    assert (said["myses"], said["turns"]) == (["alpha", "Beta- 2"], 5)
    assert sorted(one.name for one in folder.iterdir()) == ["Beta-2-2.jsonl", "alpha-1.jsonl"]
    assert zoea("export", "--all", "-f", "jsonl", "-o", str(folder)).code == 2
    assert zoea("export", "--all", "--format", "html").out.count("</html>") == 1
    assert zoea("export", "--all", "-f", "html", "-o", f"{tmp_path / 'pages'}/").code == 0
    assert sorted(one.name for one in (tmp_path / "pages").iterdir()) == ["Beta-2-2.html", "alpha-1.html"]
    assert "cannot create" in zoea("export", "--all", "-o", f"{file}/").err

    monkeypatch.setenv("ZOEA_DATA_DIR", str(tmp_path / "elsewhere"))
    (report,) = zoea("import", str(file), "--json").json
    assert [one["name"] for one in report["imported"]] == ["alpha", "Beta- 2"]
    skipped = zoea("import", str(folder))
    assert "skipped alpha: it is here already, as alpha\n" in skipped.out
    file.write_text(file.read_text("utf-8")[:-40], encoding="utf-8")
    broken = zoea("import", str(file), "--json")
    assert broken.code == 2
    assert "truncated" in json.loads(broken.err)["error"]["what"]


def test_wrong_import_arguments_are_refused(zoea: Zoea, tmp_path: Path) -> None:
    assert "name one database" in zoea("import", "nova").err
    assert "for zoea import nova" in zoea("import", "x.jsonl", "--model", "m").err
    assert "no .jsonl file" in zoea("import", str(tmp_path)).err
    assert zoea("import", "nova", str(tmp_path / "none.db")).code == 2
    (tmp_path / "text.db").write_text("no")
    assert zoea("import", "nova", str(tmp_path / "text.db")).code == 4
    assert "name one mysis" in zoea("export").err
    assert "name one mysis" in zoea("export", "alpha", "--all").err
    nova_database(tmp_path / "empty.db", [])
    assert "imported alpha: 0 turns" in zoea("import", "nova", str(tmp_path / "empty.db")).out


def test_the_command_named_for_a_folder_without_exports_writes_what_can_be_imported(zoea: Zoea, tmp_path: Path) -> None:
    zoea("import", "nova", str(nova_database(tmp_path / "nova.db")))
    folder = tmp_path / "backup"
    folder.mkdir()
    command = re.search(r"`zoea (export .*)`", zoea("import", str(folder)).err)
    assert command
    assert zoea(*command[1].replace("DIR", str(folder)).split()).code == 0
    assert "skipped alpha: it is here already" in zoea("import", str(folder)).out


def test_an_export_without_myses_is_refused(zoea: Zoea, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text('{"kind": "swarm", "version": 1, "myses": 0}\n')
    assert "There was no mysis in it" in zoea("import", str(tmp_path / "none.jsonl")).out
    assert "there are no myses" in zoea("export", "--all").err


def test_import_is_refused_while_a_swarm_runs(zoea: Zoea, other_owner: OwnerThread, tmp_path: Path) -> None:
    ran = zoea("import", "nova", str(nova_database(tmp_path / "nova.db")))
    assert ran.code == 5
    assert "is running this workspace" in ran.err
    assert "zoea stop --swarm" in ran.err


def test_a_long_import_reports_its_progress() -> None:
    now = 0.0
    said: list[str] = []
    shown = ImportProgress(said.append, lambda: now)
    for second in (0.5, 1.5, 2.0, 4.0):
        now = second
        shown("alpha", int(second * 10), 100 if second < 3 else 0)
    assert said == ["zoea: importing alpha: 15 %\n", "zoea: importing alpha: 40\n"]
