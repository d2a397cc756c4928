"""The folder of local models."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from zoea.llm.local.model_files import LocalModels, name_for, readable_size
from zoea.model.errors import UsageError

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)


@pytest.fixture
def local_models(tmp_path: Path) -> LocalModels:
    return LocalModels(tmp_path / "data" / "models")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "My Model-7B.Q4.gguf"
    made.write_bytes(GGUF)
    return made


def test_an_added_file_is_linked_and_stays_where_it_is(local_models: LocalModels, file: Path) -> None:
    model = local_models.add(file)
    assert (model.name, model.path, model.size, model.is_link) == ("my-model-7b.q4", file, len(GGUF), True)
    assert local_models.list() == (model,)
    assert local_models.get("my-model-7b.q4") == model


def test_without_a_folder_there_are_no_local_models(local_models: LocalModels) -> None:
    assert local_models.list() == ()
    assert not local_models.folder.exists()


def test_the_folder_is_private_to_the_user(local_models: LocalModels, file: Path) -> None:
    local_models.add(file)
    assert stat.S_IMODE(local_models.folder.stat().st_mode) == 0o700


def test_a_name_can_be_chosen(local_models: LocalModels, file: Path) -> None:
    assert local_models.add(file, "mine").name == "mine"


def test_adding_the_same_file_again_changes_nothing(local_models: LocalModels, file: Path) -> None:
    assert local_models.add(file, "mine") == local_models.add(file, "mine")


def test_a_taken_name_is_refused(local_models: LocalModels, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(GGUF)
    local_models.add(file, "mine")
    with pytest.raises(UsageError, match="already named mine"):
        local_models.add(other, "mine")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "a b", "x" * 81])
def test_a_name_that_is_no_name_is_refused(local_models: LocalModels, file: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name"):
        local_models.add(file, name)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + bytes(100), b"GGUF" + bytes(100)])
def test_a_file_that_is_no_gguf_is_refused(local_models: LocalModels, tmp_path: Path, content: bytes) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(content)
    with pytest.raises(UsageError, match="is not a GGUF file"):
        local_models.add(wrong)
    assert local_models.list() == ()


def test_a_file_that_is_not_there_is_refused(local_models: LocalModels, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        local_models.add(tmp_path / "nowhere.gguf")


def test_removing_a_linked_model_leaves_the_file(local_models: LocalModels, file: Path) -> None:
    local_models.add(file, "mine")
    local_models.remove("mine")
    assert local_models.list() == ()
    assert file.read_bytes() == GGUF


def test_removing_or_getting_an_unknown_model_names_the_nearest(local_models: LocalModels, file: Path) -> None:
    with pytest.raises(UsageError) as none:
        local_models.remove("mine")
    local_models.add(file, "mine")
    with pytest.raises(UsageError) as near:
        local_models.get("mime")
    with pytest.raises(UsageError) as far:
        local_models.get("zzzzzz")
    assert "zoea local add" in none.value.hint
    assert near.value.hint == "Did you mean mine?"
    assert far.value.hint == "There are: mine"


def test_a_path_is_not_a_model_name(local_models: LocalModels, file: Path) -> None:
    assert local_models.find(str(file.with_suffix(""))) is None


def test_a_linked_file_that_is_gone_is_listed_as_missing_and_cannot_be_used(
    local_models: LocalModels, file: Path
) -> None:
    local_models.add(file, "mine")
    file.unlink()
    assert [model.is_missing for model in local_models.list()] == [True]
    with pytest.raises(UsageError, match="is gone") as caught:
        local_models.get("mine")
    assert "zoea local remove mine" in caught.value.hint
    local_models.remove("mine")
    assert local_models.list() == ()


@walk_cases(("file_name", "name"), [("A b.gguf", "a-b"), ("...gguf", "model"), ("x.Q4_1.GGUF", "x.q4_1.gguf")])
def test_a_files_name_becomes_a_models(file_name: str, name: str) -> None:
    assert name_for(Path(file_name)) == name


@walk_cases(("size", "said"), [(None, "missing"), (999, "1.0 kB"), (98_362_432, "98.4 MB"), (4_200_000_000, "4.2 GB")])
def test_sizes_are_readable(size: int | None, said: str) -> None:
    assert readable_size(size) == said
