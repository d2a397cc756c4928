"""Directories and files of a workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.errors import OwnerError, SettingsError, UsageError
from zoea.settings.paths import SOCKET_PATH_LIMIT, Places, list_data_folders, places
from zoea.settings.trust import Trust


def test_the_environment_sets_data_and_configuration_directories(tmp_path: Path) -> None:
    where = places(env={"ZOEA_DATA_DIR": str(tmp_path / "d"), "ZOEA_CONFIG_DIR": str(tmp_path / "c")})
    assert where.data == tmp_path / "d"
    assert where.config_file == tmp_path / "c" / "config.toml"
    assert where.database.parent == where.lock.parent == where.log.parent == where.credentials.parent == where.data


def test_a_named_workspace_has_a_directory_of_its_own(tmp_path: Path) -> None:
    env = {"ZOEA_DATA_DIR": str(tmp_path)}
    assert places("reef-run", env).data == tmp_path / "workspaces" / "reef-run"


@pytest.mark.parametrize("is_given", [True, False])
def test_no_mysis_reaches_the_data_of_another_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_given: bool
) -> None:
    if is_given:
        monkeypatch.setenv("ZOEA_DATA_DIR", str(tmp_path))
    else:
        monkeypatch.delenv("ZOEA_DATA_DIR", raising=False)
    for one in ("", "a"):
        for other in ("", "b"):
            assert any(places(other).data.is_relative_to(folder) for folder in places(one).own_folders)


def test_the_default_workspace_has_a_name_too(tmp_path: Path) -> None:
    env = {"ZOEA_DATA_DIR": str(tmp_path)}
    assert places("default", env).data == places("", env).data == tmp_path


def test_without_variables_the_platform_directories_are_used() -> None:
    where = places(env={})
    assert where.data.parts[-2:] == ("workspaces", "default")
    assert "zoea" in where.config.parts
    assert places("x", env={}).data.name == "x"


@walk_cases("name", ["..", "a/b", "-x", ".hidden", "a" * 41, "a\nb"])
def test_a_workspace_name_never_leaves_its_directory(name: str) -> None:
    with pytest.raises(UsageError):
        places(name)


def test_the_workspace_may_come_from_the_environment() -> None:
    assert places(env={**os.environ, "ZOEA_WORKSPACE": "env"}).workspace == "env"


def test_the_workspace_may_come_from_the_project_then_the_user() -> None:
    where = places()
    where.make_config()
    where.config_file.write_text('workspace = "mine"\n')
    assert places().workspace == "mine"
    project = Path("zoea.toml")
    project.write_text('workspace = "project"\n')
    assert places().workspace == "mine"
    Trust(where.trusted).add(project, project.read_bytes())
    assert places().workspace == "project"
    assert places("given").workspace == "given"
    assert places(configured=False).workspace == ""


def test_a_trusted_file_that_names_a_workspace_and_breaks_is_an_error_not_another_workspace() -> None:
    project = Path("zoea.toml")
    project.write_text('workspace = "project"\n')
    Trust(places().trusted).add(project, project.read_bytes())
    project.write_text('workspace = "project\n')
    with pytest.raises(SettingsError, match=r"zoea\.toml is not valid TOML"):
        places()


def test_a_broken_file_of_the_user_that_names_a_workspace_is_an_error() -> None:
    where = places()
    where.make_config()
    where.config_file.write_text('workspace = "mine\n')
    with pytest.raises(SettingsError, match=r"config\.toml is not valid TOML"):
        places()


def test_a_workspace_of_the_wrong_type_is_ignored() -> None:
    Path("zoea.toml").write_text("workspace = 3\n")
    assert places().workspace == ""


@given(st.text(st.sampled_from("abcä/"), max_size=300), st.text(st.sampled_from("xyz/"), max_size=200))
def test_the_socket_path_is_always_short_enough(data: str, runtime: str) -> None:
    where = places(env={"ZOEA_DATA_DIR": "/" + data, "ZOEA_CONFIG_DIR": "/c", "XDG_RUNTIME_DIR": "/" + runtime})
    assert len(os.fsencode(where.socket)) <= SOCKET_PATH_LIMIT


def test_two_data_directories_have_two_sockets() -> None:
    one, other = (Places(Path(name), Path("/c"), Path("/r")).socket for name in ("/a", "/b"))
    assert one != other
    assert one.parent == other.parent == Path("/r")


def test_directories_are_created_for_their_owner_only(tmp_path: Path) -> None:
    where = Places(tmp_path / "d" / "e", tmp_path / "c", tmp_path / "r")
    for folder in (where.make_data(), where.make_config(), where.make_runtime()):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_directories_above_that_are_made_too_are_private(tmp_path: Path) -> None:
    env = {"ZOEA_DATA_DIR": str(tmp_path / "a" / "root"), "ZOEA_CONFIG_DIR": str(tmp_path / "b" / "c")}
    where = places("lab", env)
    where.make_data()
    where.make_config()
    made = [path for name in ("a", "b") for path in ((tmp_path / name), *(tmp_path / name).rglob("*"))]
    assert len(made) == 6
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}
    assert [folder.name for folder in list_data_folders(where.data, env)] == ["lab", "workspaces", "root"]
    assert list_data_folders(tmp_path, env) == (tmp_path,)


def test_a_runtime_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r").chmod(0o755)
    with pytest.raises(OwnerError):
        Places(tmp_path, tmp_path, tmp_path / "r").make_runtime()


def test_a_runtime_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "r").symlink_to(tmp_path / "real")
    with pytest.raises(OwnerError):
        Places(tmp_path, tmp_path, tmp_path / "r").make_runtime()


def test_a_directory_that_cannot_be_created_is_an_owner_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OwnerError, match="cannot be created"):
        Places(tmp_path / "file" / "d", tmp_path, tmp_path).make_data()


def test_a_runtime_directory_that_exists_and_is_short_is_used(tmp_path: Path) -> None:
    env = {"ZOEA_DATA_DIR": "/d", "ZOEA_CONFIG_DIR": "/c"}
    assert places(env={**env, "XDG_RUNTIME_DIR": "/"}).runtime == Path("/zoea")
    gone = places(env={**env, "XDG_RUNTIME_DIR": str(tmp_path / "gone"), "TMPDIR": "relative"})
    assert gone.runtime == Path("/tmp") / f"zoea-{os.getuid()}"
    assert gone.world.parent == gone.data


def test_asking_for_places_loads_nothing_heavy() -> None:
    code = (
        "import sys; from zoea.settings.paths import places; places(); "
        "print(*[m for m in ('pydantic','tomlkit','dataclasses','tomllib','asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.split() == []
