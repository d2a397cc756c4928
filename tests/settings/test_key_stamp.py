"""The stamp of a credentials file: changes of a person's keys, not of what a swarm writes."""

from __future__ import annotations

from pathlib import Path

from zoea.settings.credentials import Credentials
from zoea.settings.key_stamp import KeyStamp


def test_a_stamp_changes_with_a_key_and_not_with_accounts_or_secrets(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    credentials, stamp = Credentials(file), KeyStamp(file)
    assert stamp.read() == ""
    credentials.set("lab", "first")
    first = stamp.read()
    assert first
    assert "first" not in first
    credentials.set("account/reef/uid", '{"password": "x"}')
    credentials.set("secret/reef/1", '"y"')
    assert stamp.read() == first
    credentials.set("lab", "other")
    assert stamp.read() not in ("", first)
    credentials.set("lab", "first")
    assert stamp.read() == first
    credentials.delete("lab")
    assert stamp.read() == ""


def test_a_damaged_file_has_no_stamp(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text("[credentials\n")
    assert KeyStamp(file).read() == ""
