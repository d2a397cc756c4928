"""`zoea local`, as a person types it."""

from __future__ import annotations

import importlib.util
import json
import stat
from pathlib import Path

import pytest

from zoea.cli import run
from zoea.model.errors import UsageError

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "Tiny.gguf"
    made.write_bytes(GGUF)
    return made


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["local", *arguments]) == 0
    return capsys.readouterr().out


def test_an_empty_list_of_local_models_says_how_to_add_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "zoea local add FILE.gguf" in output_of(capsys, "list")
    assert json.loads(output_of(capsys, "list", "--json")) == []


def test_an_added_file_is_linked_named_and_listed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    added = output_of(capsys, "add", str(file))
    assert f"tiny is linked to {file}" in added
    assert "zoea run --provider embedded --model tiny" in added
    assert "tiny" in output_of(capsys, "list")
    assert json.loads(output_of(capsys, "list", "--json")) == [
        {"name": "tiny", "path": str(file), "size": len(GGUF), "linked": True}
    ]


def test_a_model_is_added_by_relative_path_and_given_name(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert json.loads(output_of(capsys, "add", "Tiny.gguf", "--name", "mine", "--json"))["path"] == str(file)


def test_the_data_directory_is_created_private(capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path) -> None:
    output_of(capsys, "add", str(file))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_adding_says_when_the_engine_is_missing(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install 'zoea[local]'" in output_of(capsys, "add", str(file))


def test_a_removed_link_says_that_its_file_stays(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    output_of(capsys, "add", str(file))
    assert f"its file stays: {file}" in output_of(capsys, "remove", "tiny")
    assert file.exists()


def test_removing_a_model_in_the_folder_deletes_its_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "data" / "models"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(GGUF)
    assert "tiny is deleted (1.0 kB freed)" in output_of(capsys, "remove", "tiny")


def test_removing_can_answer_in_json(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    output_of(capsys, "add", str(file))
    assert json.loads(output_of(capsys, "remove", "tiny", "--json"))["name"] == "tiny"


def test_a_model_whose_file_is_missing_is_listed_as_missing(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    output_of(capsys, "add", str(file))
    file.unlink()
    assert f"missing  missing: {file}" in output_of(capsys, "list")


def test_an_unknown_model_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no local model"):
        run(["local", "remove", "nothing"])


def test_each_workspace_has_its_own_models(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    output_of(capsys, "add", str(file), "--workspace", "lab")
    assert json.loads(output_of(capsys, "list", "--json")) == []
    assert json.loads(output_of(capsys, "list", "--json", "-w", "lab"))[0]["name"] == "tiny"
