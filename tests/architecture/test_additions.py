"""An addition touches as few files as its walk says. Everything else is derived from its description."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from pydantic import Field

from documentation.build import pages
from tests.architecture.sources import ROOT
from tests.transfer.sample_exports import make_sample_swarm
from zoea.cli import dispatch
from zoea.cli.output import Output
from zoea.model.values import Mysis, MysisView
from zoea.process.command_line import argument
from zoea.queries import stored_swarm
from zoea.settings import layers, reference
from zoea.settings.fields import Seconds, setting
from zoea.settings.paths import places
from zoea.settings.schema import LlmSettings, Settings
from zoea.store.database_file import open_reader
from zoea.swarm.persistence import row_values
from zoea.tui.state import settings_form

WALK = ROOT / "documentation" / "architecture" / "walk-additions.md"
ROW = re.compile(
    r"^\| (a (?:setting|column|provider|command on both fronts|noun)\b[^|]*) \| (\d+) \| (.+) \|$", re.MULTILINE
)
MOST = {
    "a setting of the cockpit": 3,
    "a setting": 2,
    "a column": 3,
    "a provider": 6,
    "a command on both fronts": 4,
    "a noun": 12,
}
"""Files that an addition may touch; of two that a row begins with, the first."""


def test_the_walk_counts_the_files_that_it_names() -> None:
    rows = ROW.findall(WALK.read_text(encoding="utf-8"))
    assert {kind for name, _, _ in rows for kind in MOST if name.startswith(kind)} == MOST.keys()
    for name, count, files in rows:
        most = next(most for kind, most in MOST.items() if name.startswith(kind))
        assert len(re.findall(r"`[^`]+`", files)) == int(count) <= most, name


class WiderLlm(LlmSettings):
    longest_wait: Seconds = setting(20, "Longest wait", "Seconds before an attempt at most.", ge=1, le=60)


class WiderSettings(Settings):
    llm: WiderLlm = Field(WiderLlm(), title="Model calls")


def test_a_setting_is_known_everywhere_by_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layers, reference, settings_form):
        monkeypatch.setattr(module, "Settings", WiderSettings)
    loaded = layers.load(places(configured=False), env={"ZOEA_LLM__LONGEST_WAIT": "9s"})
    assert loaded.settings.llm.longest_wait == 9  # type: ignore[attr-defined]  # the field that the test adds
    assert "ZOEA_LLM__LONGEST_WAIT" in str(loaded.origins["llm.longest_wait"])
    assert "`ZOEA_LLM__LONGEST_WAIT`" in reference.render_reference()
    (field,) = [
        one for group in settings_form.groups(loaded) for one in group.fields if one.path == ("llm", "longest_wait")
    ]
    assert field.title == "Longest wait"


def test_a_command_is_known_everywhere_by_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greet(name: str = argument("NAME", "Who is greeted.")) -> Output:
        """Greet somebody.

        Example: zoea greet alpha
        """
        return Output({"greeted": name}, f"Hello {name}")

    module = ModuleType("zoea.cli.commands.greet")
    module.greet = greet  # type: ignore[attr-defined]  # a module of the test
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(dispatch.COMMANDS, "greet", dispatch.Command("Greet somebody", "greet:greet"))
    assert "  greet " in dispatch.overview()
    assert "Usage: zoea greet [OPTIONS] NAME" in pages()["cli.md"]
    dispatch.dispatch(["completion", "bash"])
    assert "greet" in capsys.readouterr().out
    dispatch.dispatch(["greet", "alpha", "--json"])
    assert '"greeted": "alpha"' in capsys.readouterr().out


async def test_a_column_of_a_mysis_is_read_by_the_fields_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await make_sample_swarm(tmp_path)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE mysis ADD COLUMN motto TEXT NOT NULL DEFAULT 'onward'")
    wider = msgspec.defstruct("WiderMysis", [("motto", str, "")], bases=(Mysis,), frozen=True)
    wider_view = msgspec.defstruct("WiderView", [("motto", str, "")], bases=(MysisView,), frozen=True)
    monkeypatch.setattr(row_values, "Mysis", wider)
    monkeypatch.setattr(stored_swarm, "MysisView", wider_view)
    monkeypatch.setattr(stored_swarm, "STORED_FIELDS", [*stored_swarm.STORED_FIELDS, "motto"])
    with closing(open_reader(database)) as reader:
        assert all(row_values.mysis(row).motto == "onward" for row in reader.execute(row_values.MYSIS))  # type: ignore[attr-defined]  # the field that the test adds
    assert [view.motto for view in stored_swarm.read_swarm_view(database).myses] == ["onward", "onward"]  # type: ignore[attr-defined]  # as above
