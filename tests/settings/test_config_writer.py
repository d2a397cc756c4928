"""Keys are written to `config.toml` without other changes."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.errors import SettingsError
from zoea.settings.config_writer import parse_key, set_keys
from zoea.settings.key_paths import SettingsInvalid
from zoea.settings.layers import load
from zoea.settings.paths import places
from zoea.settings.reference import render_sample

OLD = """\
# mine
workspace = "a"   # the first

[swarm]
# how many
max_myses = 4  # not more

[provider.local]
type = "openai"
base_url = "http://127.0.0.1:1/v1"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_a_missing_file_is_created_for_its_owner_only(file: Path) -> None:
    set_keys(file, {"tui.theme": "tide", "swarm.max_myses": 3})
    assert tomllib.loads(file.read_text()) == {"tui": {"theme": "tide"}, "swarm": {"max_myses": 3}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_only_the_given_key_changes(file: Path) -> None:
    file.write_text(OLD)
    set_keys(file, {"swarm.max_myses": 9})
    assert file.read_text() == OLD.replace("max_myses = 4", "max_myses = 9")


def test_a_key_of_the_sample_file_replaces_its_comment(file: Path) -> None:
    file.write_text(render_sample())
    set_keys(file, {"world.seed": 7, "tui.theme": "tide", "loop.volatile": ("a", "b")})
    lines = render_sample().replace("#seed = 1", "seed = 7").replace('#theme = "nova"', 'theme = "tide"')
    assert [line for line in file.read_text().splitlines() if line not in lines.splitlines()] == [
        'volatile = ["a", "b"]'
    ]


def test_an_equal_key_of_another_section_stays(file: Path) -> None:
    file.write_text("[tool]\n#timeout = 1\n[turn]\n#timeout = 2\n")
    set_keys(file, {"turn.timeout": 5})
    assert file.read_text() == "[tool]\n#timeout = 1\n[turn]\ntimeout = 5\n"


def test_none_removes_a_key_and_keeps_the_comments(file: Path) -> None:
    file.write_text(OLD)
    set_keys(file, {"swarm.max_myses": None, "tui.theme": None})
    assert tomllib.loads(file.read_text())["swarm"] == {}
    assert "# how many" in file.read_text()


def test_action_ids_are_keys_with_a_dot_in_them(file: Path) -> None:
    set_keys(file, {'tui.keys."swarm.hold"': "f5"})
    assert tomllib.loads(file.read_text()) == {"tui": {"keys": {"swarm.hold": "f5"}}}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("swarm.max_myses", 0, "greater than or equal to 1"),
        ("swarm.max_mises", 3, "unknown key"),
        ("log.level", "loud", "'debug', 'info'"),
        ("provider.x.api_key", "sk-secret", "is not a credential reference"),
    ],
)
def test_an_invalid_value_is_refused_and_nothing_is_written(file: Path, key: str, value: Any, said: str) -> None:
    file.write_text(OLD)
    with pytest.raises(SettingsInvalid, match=said) as wrong:
        set_keys(file, {key: value})
    assert file.read_text() == OLD
    assert "sk-secret" not in str(wrong.value)


def test_an_existing_mistake_does_not_prevent_a_change(file: Path) -> None:
    file.write_text("[swarm]\nmax_mises = 3\n")
    set_keys(file, {"tui.theme": "tide"})
    assert "max_mises = 3" in file.read_text()
    assert "tide" in file.read_text()


def test_a_file_that_is_not_toml_is_unchanged(file: Path) -> None:
    file.write_text("[swarm\n")
    with pytest.raises(SettingsInvalid, match="not valid TOML"):
        set_keys(file, {"tui.theme": "tide"})
    assert file.read_text() == "[swarm\n"


def test_a_symbolic_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(OLD)
    file.symlink_to(real)
    set_keys(file, {"swarm.max_myses": 5})
    assert file.is_symlink()
    assert "max_myses = 5" in real.read_text()


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("no folder")
    with pytest.raises(SettingsError, match="cannot be written"):
        set_keys(tmp_path / "folder" / "config.toml", {"tui.theme": "tide"})


@walk_cases("key", ["a b", "", "a = 1\nb"])
def test_an_invalid_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_key(key)


def test_keys_of_actions_may_be_written_with_or_without_quotes() -> None:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text('[tui.keys]\nswarm.hold = "f5"\n"mysis.new" = "f6"\n')
    loaded = load(where, env={})
    assert loaded.settings.tui.keys == {"swarm.hold": "f5", "mysis.new": "f6"}
    assert loaded.origins['tui.keys."swarm.hold"'].line == 2
    assert loaded.origins['tui.keys."mysis.new"'].line == 3


@given(
    st.dictionaries(
        st.sampled_from(['tui.keys."a.b"', "tui.theme", "workspace", "loop.volatile", "swarm.max_myses"]),
        st.none()
        | st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
        | st.integers(-5, 5000)
        | st.lists(st.text(max_size=5), max_size=3),
        min_size=1,
    )
)
def test_every_written_value_is_read_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    file = tmp_path_factory.mktemp("w") / "config.toml"
    file.write_text(OLD + "[tui]\n#theme = 'x'\n")
    try:
        set_keys(file, values)
    except SettingsInvalid:
        assert file.read_text() == OLD + "[tui]\n#theme = 'x'\n"
        return
    found = tomllib.loads(file.read_text())
    for key, value in values.items():
        node: Any = found
        for part in parse_key(key):
            node = node.get(part) if isinstance(node, dict) else None
        assert node == value
    assert "# not more" in file.read_text() or values.get("swarm.max_myses", 0) is None
