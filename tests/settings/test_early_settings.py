"""The early settings equal the validated ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given
from hypothesis import settings as strength
from hypothesis import strategies as st

from zoea.settings.early_defaults import EarlySettings
from zoea.settings.early_settings import read_early_settings
from zoea.settings.layers import load
from zoea.settings.paths import Places

THEMES = st.sampled_from(["nova", "tide", "mine-1"])
KEYS = st.dictionaries(st.sampled_from(["swarm.hold", "mysis.new"]), st.sampled_from(["f5", "?", "ctrl+k"]))
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "theme": THEMES,
        "reduced_motion": st.booleans(),
        "bell": st.booleans(),
        "show_reasoning": st.booleans(),
        "keys": KEYS,
    },
)


@strength(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)
@given(TABLES, TABLES, TABLES)
def test_early_settings_equal_the_settings_of_all_layers(
    tmp_path: Path, user: dict[str, Any], project: dict[str, Any], environment: dict[str, Any]
) -> None:
    config, here = tmp_path / "c", tmp_path / "p"
    for folder, name, table in ((config, "config.toml", user), (here, "zoea.toml", project)):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(tomlkit.dumps({"tui": table}))
    env = {
        f"ZOEA_TUI__{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in environment.items()
    }
    settings = load(Places(tmp_path, config, tmp_path), project_dir=here, env=env).settings
    assert read_early_settings(config, env, here) == EarlySettings.of(settings)


@pytest.mark.parametrize(
    "text",
    ["", "[tui", "tui = 3", "[tui]\ntheme = 4\nbell = 'no'\nkeys = 3\nreduced_motion = 1", "\x00", "[tui.keys]\na=1"],
)
def test_invalid_values_are_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert read_early_settings(tmp_path, {"ZOEA_TUI__KEYS": "{"}, tmp_path) == EarlySettings()


def test_action_ids_may_be_written_as_tables(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[tui.keys]\nswarm.hold = 'f5'\n")
    assert read_early_settings(tmp_path, {}, tmp_path).keys == {"swarm.hold": "f5"}
