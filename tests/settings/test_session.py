"""Shannon's settings: its section, its variables and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoea.model.errors import SettingsError
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import places
from zoea.settings.shannon_file import read_shannon_file

SEED = """session:
  # Context window presets
  context_window_default: 50
  context_window_debugging: 75

  # Token budgets (guidance for planning/enforcement)
  token_budget_per_agent: 50000
  token_budget_per_task: 200000

  # Session management
  max_history: 500              # Max messages in Redis
  ttl: 720h                     # 30-day TTL

  # Compression tuning
  primers_count: 3              # Messages to keep at start (0-1000)
  recents_count: 20             # Messages to keep at end (0-1000)
"""


def loaded(tmp_path: Path, text: str = "", **env: str) -> LoadedSettings:
    where = places("", {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")})
    where.config_file.parent.mkdir(parents=True, exist_ok=True)
    where.config_file.write_text(text)
    where.config_file.chmod(0o600)
    return load(where, project_dir=tmp_path, env=env)


@pytest.mark.parametrize("prefix", ["", "ZOEA_"])
def test_the_variables_of_shannon_win_over_the_file(tmp_path: Path, prefix: str) -> None:
    env = {f"{prefix}HISTORY_WINDOW_MESSAGES": "80", f"{prefix}COMPRESSION_TRIGGER_RATIO": "0.5"}
    session = loaded(tmp_path, "[session]\ncontext_window_default = 30\nprimers_count = 5\n", **env).settings.session
    assert (session.context_window_default, session.compression_trigger_ratio, session.primers_count) == (80, 0.5, 5)


def test_an_unusable_variable_leaves_the_next_level_and_is_reported(tmp_path: Path) -> None:
    found = loaded(tmp_path, "[session]\ncontext_window_default = 30\n", HISTORY_WINDOW_MESSAGES="many")
    assert found.settings.session.context_window_default == 30
    assert found.notes == ("HISTORY_WINDOW_MESSAGES is 'many', which is no number: it is not used",)


def test_a_session_has_the_defaults_and_bounds_of_shannon(tmp_path: Path) -> None:
    session = loaded(tmp_path, "").settings.session
    assert (session.context_window_default, session.context_window_debugging) == (50, 75)
    assert (session.primers_count, session.recents_count) == (3, 20)
    assert (session.compression_trigger_ratio, session.compression_target_ratio) == (0.75, 0.375)
    text = "[session]\ncompression_trigger_ratio = {0}\ncompression_target_ratio = {0}\n"
    for given, kept in ((0.01, (0.1, 0.1)), (1.0, (0.95, 0.9))):
        session = loaded(tmp_path, text.format(given)).settings.session
        assert (session.compression_trigger_ratio, session.compression_target_ratio) == kept


@pytest.mark.parametrize(("given", "kept"), [(1, 5), (5, 5), (200, 200), (1000, 200)])
def test_a_window_is_clamped(tmp_path: Path, given: int, kept: int) -> None:
    text = f"[session]\ncontext_window_default = {given}\n"
    assert loaded(tmp_path, text).settings.session.context_window_default == kept


def test_the_budgets_of_a_session_are_those_of_the_budget_and_the_lower_counts(tmp_path: Path) -> None:
    text = "[budget]\ntoken_budget_per_agent = 40000\n[session]\ntoken_budget_per_agent = 30000\n"
    assert loaded(tmp_path, text).settings.budget.token_budget_per_agent == 30_000
    text = "[budget]\ntoken_budget_per_agent = 20000\n[session]\ntoken_budget_per_agent = 30000\n"
    assert loaded(tmp_path, text).settings.budget.token_budget_per_agent == 20_000


def test_the_file_of_the_seed_is_read_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "shannon.yaml"
    file.write_text(SEED)
    found, lines = read_shannon_file(file)
    assert lines.keys() == found.keys()
    assert "max_history" in SEED.splitlines()[lines["session.max_history"] - 1]
    assert found["session.ttl"] == "720h"
    assert found["session.max_history"] == 500
    assert len(found) == 8
    toml = "\n".join(["[session]", *(f"{k.partition('.')[2]} = {v!r}" for k, v in found.items())])
    session = loaded(tmp_path, toml).settings.session
    assert (session.ttl, session.max_history, session.recents_count) == (720 * 3600, 500, 20)


@pytest.mark.parametrize("text", ["", "other:\n  key: 1\n", "session:\n  - a list\n"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "shannon.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        read_shannon_file(file)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_shannon_file(tmp_path / "none.yaml")
