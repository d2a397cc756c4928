"""Settings, templates, a theme and credentials of Zoea 0.1.0 load as they did then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.zoea_process import zoea
from tests.released.conftest import RELEASE
from zoea.settings.layers import load
from zoea.settings.paths import places
from zoea.settings.template_library import Templates

SETTINGS = RELEASE / "settings"
EXPECTED = RELEASE / "expected_settings.json"


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's files in their places; the project's directory is the working one."""
    monkeypatch.delenv("ZOEA_SWARM__DISCOVER")
    shutil.copytree(SETTINGS / "config", tmp_path / "config")
    shutil.copytree(SETTINGS / "project", tmp_path / "project")
    data = tmp_path / "data" / "workspaces" / "lab"
    data.mkdir(parents=True, mode=0o700)
    shutil.copy(SETTINGS / "credentials.toml", data / "credentials.toml")
    (data / "credentials.toml").chmod(0o600)
    monkeypatch.chdir(tmp_path / "project")


def shown(*arguments: str) -> object:
    done = zoea(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_every_released_setting_has_the_value_it_had() -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))

    assert zoea("trust", "--yes").returncode == 0
    found = shown("config", "show")

    assert isinstance(found, dict)
    # A later release may have further keys; none of these may be missing or different.
    assert {key: found["settings"].get(key, "missing") for key in expected["settings"]} == expected["settings"]
    checked = shown("config", "check")
    assert isinstance(checked, dict)
    assert checked["problems"] == []
    assert shown("credentials", "list") == expected["credentials"]


def test_a_released_project_file_has_no_effect_on_trusted_keys_before_it_is_trusted() -> None:
    found = shown("config", "show")

    assert isinstance(found, dict)
    assert found["settings"]["swarm.max_myses"] == 40
    assert "upstream.project.command" not in found["settings"]


def test_released_templates_keep_their_text() -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))["templates"]
    assert zoea("trust", "--yes").returncode == 0

    templates: Templates = load(places()).templates

    found = {name: json.loads(templates.get(name).text) for name in expected}
    # What they extend is Zoea's own, and has got a goal since.
    assert {name: {key: tree[key] for key in expected[name]} for name, tree in found.items()} == expected
