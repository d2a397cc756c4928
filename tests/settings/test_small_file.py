"""Files that Zoea reads may have been replaced by anything: a pipe, a device, a huge or deeply nested text."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, SOURCES, nodes_of
from zoea.llm.price_writer import set_price
from zoea.llm.prices import ModelPrice
from zoea.model.errors import ZoeaError
from zoea.runtime.model_lists import FILE, ModelLists
from zoea.settings.config_writer import set_keys
from zoea.settings.early_defaults import EARLY
from zoea.settings.early_settings import read_early_settings
from zoea.settings.endpoints import ProviderSettings
from zoea.settings.key_stamp import KeyStamp
from zoea.settings.paths import places
from zoea.settings.small_file import read_small_file, read_small_text
from zoea.settings.trust import Trust
from zoea.tui.theme.themes import load_themes

pytestmark = pytest.mark.timeout(60)


def put_pipe(file: Path) -> None:
    os.mkfifo(file)


def put_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def put_folder(file: Path) -> None:
    file.mkdir()


def put_huge_text(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(2**42)  # larger than any memory: who reads it whole fails


def put_nested_toml(file: Path) -> None:
    file.write_text("a = " + "[" * 100_000)


def put_nested_json(file: Path) -> None:
    file.write_text('{"a":' * 100_000)


def put_long_number(file: Path) -> None:
    file.write_text("a = " + "9" * 10_000)


def put_other_bytes(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\0[")


ANYTHING = [
    put_pipe,
    put_device,
    put_folder,
    put_huge_text,
    put_nested_toml,
    put_nested_json,
    put_long_number,
    put_other_bytes,
]


@pytest.fixture(params=ANYTHING, ids=lambda put: put.__name__)
def put(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    found: Callable[[Path], None] = request.param
    return found


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    assert read_small_text(file) == "one\ntwo"
    assert len(read_small_file(file, 11)) == 11
    with pytest.raises(OSError, match="it is larger than 10 bytes"):
        read_small_file(file, 10)


@pytest.mark.parametrize("put_other", [put_pipe, put_device, put_folder])
def test_only_a_regular_file_is_read(put_other: Callable[[Path], None], tmp_path: Path) -> None:
    put_other(tmp_path / "file")
    with pytest.raises(OSError, match="it is not a file"):
        read_small_file(tmp_path / "file")


def test_a_theme_that_is_anything_is_an_error_beside_the_other_themes(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "themes").mkdir()
    put(tmp_path / "themes" / "mine.toml")
    themes, errors = load_themes(tmp_path)
    assert themes
    assert len(errors) == 1
    assert str(tmp_path / "themes" / "mine.toml") in errors[0].what


def test_a_list_of_models_that_is_anything_holds_no_lists(put: Callable[[Path], None]) -> None:
    where = places()
    where.data.mkdir(parents=True, exist_ok=True)
    put(where.data / FILE)
    assert ModelLists(where).find(ProviderSettings.model_validate({"type": "openai"})) is None


def test_credentials_that_are_anything_have_no_keys_to_watch(put: Callable[[Path], None], tmp_path: Path) -> None:
    put(tmp_path / "credentials.toml")
    assert KeyStamp(tmp_path / "credentials.toml").read() == ""


def test_settings_that_are_anything_leave_the_first_paint_its_defaults(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    put(tmp_path / "config.toml")
    assert read_early_settings(tmp_path, {}).theme == EARLY.theme


def test_a_record_of_trust_that_is_anything_is_refused(put: Callable[[Path], None], tmp_path: Path) -> None:
    put(tmp_path / "trusted.json")
    with pytest.raises(
        ZoeaError, match=r"trusted\.json (is damaged|cannot be read: it is (not a file|a symbolic link))"
    ):
        Trust(tmp_path / "trusted.json").files()


def test_a_link_to_itself_is_replaced_by_the_file_that_is_written(tmp_path: Path) -> None:
    prices, settings = tmp_path / "prices.toml", tmp_path / "config.toml"
    for file in (prices, settings):
        file.symlink_to(file.name)
    set_price(prices, ModelPrice("mine", 1.0, 1.0, 2.0))
    set_keys(settings, {"tui.theme": "nova"})
    assert "mine" in prices.read_text()
    assert "nova" in settings.read_text()


OF_NO_OTHER = {
    "agents/agent_launch.py": "files of the package",
    "agents/agent_process.py": "/proc",
    "agents/agent_trial.py": "/proc",
    "files/git.py": "/dev/null",
    "files/merge.py": "a file of git, in the repository of the person",
    "files/plain_search.py": "imports nothing of Zoea; looks what it is before",
    "files/work_left.py": "files that git has just merged",
    "files/worktrees.py": "a file that git has just made",
    "process/group_guard.py": "/proc",
    "process/host_name.py": "names of the system",
    "store/migrate.py": "files of the package",
    "tui/conversation/syntax_lexer.py": "its own pipe, from Zoea",
    "tui/terminal/external_editor.py": "a file that Zoea has made",
    "web/browser_server.py": "files of the package",
}
"""Modules that read files in another way than `small_file`, with the reason."""


def reads_file(call: ast.Call) -> bool:
    """Return whether a call reads a file, of any kind and size."""
    match call.func:
        case ast.Attribute(attr="read_text" | "read_bytes", value=value):
            return ast.unparse(value) != "reader"  # of the store
        case ast.Attribute(attr="load", value=ast.Name(id="json" | "tomllib" | "tomlkit")):
            return True
        case ast.Name(id="open"):
            modes = [ast.unparse(one) for one in call.args[1:2]]
            return not modes or modes[0].startswith("'r")
        case ast.Attribute(attr="open"):
            return ast.unparse(call.args[0]).startswith("'r") if call.args else False
    return False


def test_no_other_code_reads_files_of_any_kind_and_size() -> None:
    """A new reader of files uses `small_file`, or stands here with a reason.

    It says why nothing else can be in the place of the file.
    """
    found = {
        str(file.relative_to(PACKAGE))
        for file in SOURCES
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and reads_file(node)
    }
    assert found == set(OF_NO_OTHER)
