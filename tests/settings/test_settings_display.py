"""Displayed settings, the sample file and the reference contain no secrets."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.settings.inert_keys import is_inert, iterate_fields
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import places
from zoea.settings.reference import render_reference, render_sample
from zoea.settings.schema import Settings
from zoea.settings.settings_conflicts import find_conflicts
from zoea.settings.settings_display import HIDDEN, escape_unprintable, format_toml, hide_secrets, list_settings

ROOT = Path(__file__).parents[2]
SECRET = "sk-very-secret-0123456789"
USER = f"""
[provider.a]
type = "openai"
api_key = "env:KEY"
headers = {{ Authorization = "Bearer {SECRET}", X = "env:X" }}
options = {{ api_token = "{SECRET}", inner = {{ password = "{SECRET}" }}, top_k = 3 }}

[upstream.b]
command = "x"
args = ["--token", "{SECRET}", "--password={SECRET}", "--auth", "{{env:A}}", "--depth", "3", "--key={{env:B}}"]
env = {{ A = "{SECRET}", B = "file:b" }}

[upstream.c]
url = "http://127.0.0.1/mcp?key={SECRET}#x"
headers = {{ C = "{SECRET}" }}
"""


def loaded(user: str = USER) -> LoadedSettings:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text(user)
    return load(where, env={})


def test_no_secret_is_shown() -> None:
    shown = "\n".join(f"{row.key} {row.text} {row.value!r}" for row in list_settings(loaded()))
    assert SECRET not in shown
    assert HIDDEN in shown


def test_no_secret_is_in_a_repr() -> None:
    found = loaded(
        USER.replace(f'api_token = "{SECRET}", inner = {{ password = "{SECRET}" }}, ', "").split("[upstream")[0]
    )
    assert SECRET not in repr(found)
    assert SECRET not in str(found.settings)


def test_references_and_harmless_values_are_shown() -> None:
    shown = {row.key: row.text for row in list_settings(loaded())}
    assert shown["provider.a.api_key"] == '"env:KEY"'
    assert shown["provider.a.headers.X"] == '"env:X"'
    assert shown["provider.a.options.top_k"] == "3"
    assert shown["upstream.b.env.B"] == '"file:b"'
    assert shown["upstream.b.args"] == (
        f'["--token", "{HIDDEN}", "--password={HIDDEN}", "--auth", "{{env:A}}", "--depth", "3", "--key={{env:B}}"]'
    )
    assert shown["upstream.c.url"] == f'"http://127.0.0.1/mcp?{HIDDEN}"'
    assert shown["budget.mysis"] == '"none"'
    assert shown["budget.mysis_money"] == '"none"'
    assert shown["upstream.c.retries"] == "3"


def test_an_address_that_cannot_be_read_is_hidden() -> None:
    assert hide_secrets(("provider", "x", "base_url"), "http://[::1") == HIDDEN


@given(st.text())
def test_displayed_values_have_no_control_characters(text: str) -> None:
    assert escape_unprintable(text).isprintable()


@walk_cases("value", [True, 3, 2.5, "a\x1b[31m", ("a", "b"), ["x"], {}])
def test_a_value_is_shown_as_one_line_of_toml(value: Any) -> None:
    assert "\n" not in format_toml(value)


def _uncommented(text: str) -> str:
    return "\n".join(line[1:] if line[:1] == "#" and line[1:2].strip() else line for line in text.splitlines())


def test_the_unchanged_sample_sets_nothing() -> None:
    assert Settings.model_validate(tomllib.loads(render_sample())) == Settings()


def test_every_key_of_the_sample_is_valid_without_its_comment_mark() -> None:
    found = Settings.model_validate(tomllib.loads(_uncommented(render_sample())))
    assert found.model_copy(update={"provider": {}, "upstream": {}}) == Settings()
    assert set(found.provider) == {"local", "claude"}
    assert set(found.upstream) == {"git", "shared-world"}
    assert find_conflicts(found) == []


def test_the_checked_in_reference_is_fresh() -> None:
    page = ROOT / "documentation" / "reference" / "settings.md"
    assert page.read_text() == render_reference(), (
        "run: python -m zoea.settings.reference > documentation/reference/settings.md"
    )


@pytest.mark.usefixtures("forked_programs")
def test_the_reference_is_written_by_its_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zoea.settings.reference"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == render_reference()


def test_the_reference_names_every_section_and_the_keys_that_need_trust() -> None:
    page = render_reference()
    for name in Settings.model_fields:
        assert f"[{name}" in page or f"`{name}`" in page
    assert "| `command` | text |" in page
    marked = [path for path, field in iterate_fields(Settings) if is_inert(field)]
    assert page.split("# Templates")[0].count("*inert* |") == len(marked)
    assert "| The system prompt; `{{parent}}` is replaced by the prompt of the extended template. *inert* |" in page
