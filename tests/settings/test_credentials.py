"""Secrets are stored in a private file or the keyring, and read by reference."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import keyring
import keyring.backend
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoea.model.errors import SettingsError
from zoea.settings.credentials import CredentialMissing, Credentials, parse_credentials, quote_toml
from zoea.settings.private_file import write_private


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "credentials.toml"


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring backend in memory."""

    priority = 1.0
    kept: ClassVar[dict[tuple[str, str], str]] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    made = MemoryKeyring()  # type: ignore[no-untyped-call]  # the library's constructor has no annotations
    made.kept.clear()
    before = keyring.get_keyring()
    keyring.set_keyring(made)
    assert before is not made
    yield made
    keyring.set_keyring(before)


def test_a_stored_value_is_read_unchanged(file: Path) -> None:
    Credentials(file).set("claude", 'sk-"\\\n\t\x7f€🙂')
    found = Credentials(file).resolve("file:claude")
    assert found.get_secret_value() == 'sk-"\\\n\t\x7f€🙂'


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_text_survives_the_file(value: str) -> None:
    raw = f"[credentials]\nx = {quote_toml(value)}\n".encode()
    assert parse_credentials(Path("c"), raw)["x"] == value


def test_the_file_is_readable_by_its_owner_only(file: Path) -> None:
    Credentials(file).set("a", "1")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_a_file_others_may_read_is_refused_with_the_remedy(file: Path, mode: int) -> None:
    Credentials(file).set("a", "1")
    file.chmod(mode)
    with pytest.raises(SettingsError) as caught:
        Credentials(file).get("a")
    assert "chmod 600" in caught.value.hint


def test_a_changed_file_is_read_again(file: Path) -> None:
    credentials = Credentials(file)
    credentials.set("a", "1")
    assert credentials.get("a") is not None
    Credentials(file).set("a", "2")
    found = credentials.get("a")
    assert found is not None
    assert found.get_secret_value() == "2"


def test_names_are_listed_and_values_deleted(file: Path) -> None:
    credentials = Credentials(file)
    credentials.set_many({"b": "1", "a": "2"})
    assert credentials.names() == ("a", "b")
    assert credentials.delete("a")
    assert not credentials.delete("a")
    assert credentials.names() == ("b",)


def test_two_concurrent_writers_lose_nothing(file: Path) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            Credentials(file).set(f"w{number}-{turn}", "x")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Credentials(file).names()) == 20


def test_the_environment_is_read_by_name(file: Path) -> None:
    credentials = Credentials(file, {"KEY": "v", "EMPTY": ""})
    assert credentials.resolve("env:KEY").get_secret_value() == "v"
    for name in ("GONE", "EMPTY"):
        with pytest.raises(CredentialMissing, match=f"the variable {name} is not set"):
            credentials.resolve(f"env:{name}")


def test_a_missing_entry_says_how_to_store_it(file: Path) -> None:
    with pytest.raises(CredentialMissing) as caught:
        Credentials(file).resolve("file:claude")
    assert caught.value.hint == "Run `zoea credentials set claude`."


def test_an_invalid_reference_is_refused_and_not_repeated(file: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        Credentials(file).resolve("sk-secret")
    assert "sk-secret" not in str(caught.value) + caught.value.hint


def test_texts_are_filled_with_references(file: Path) -> None:
    credentials = Credentials(file, {"TOKEN": "t"})
    assert credentials.fill("Bearer {env:TOKEN}").get_secret_value() == "Bearer t"
    assert credentials.fill("env:TOKEN").get_secret_value() == "t"
    assert credentials.fill("plain {x}").get_secret_value() == "plain {x}"
    assert credentials.fill("{env:TOKEN}{env:TOKEN}").get_secret_value() == "tt"


def test_a_resolved_value_is_not_resolved_again(file: Path) -> None:
    credentials = Credentials(file, {"A": "{env:B}", "B": "b"})
    assert credentials.fill("x{env:A}").get_secret_value() == "x{env:B}"


def test_nothing_shows_a_value(file: Path) -> None:
    credentials = Credentials(file, {"KEY": "sk-secret"})
    credentials.set("a", "sk-secret")
    shown = repr(credentials) + str(credentials) + repr(credentials.get("a")) + repr(credentials.resolve("env:KEY"))
    assert "sk-secret" not in shown


@pytest.mark.parametrize("name", ["", "a\nb", "ü", "x" * 129, " a", "a=b"])
def test_a_name_is_plain(file: Path, name: str) -> None:
    with pytest.raises(SettingsError):
        Credentials(file).set(name, "v")


@pytest.mark.parametrize("value", ["", "a\0", "\ud800"])
def test_a_value_is_text(file: Path, value: str) -> None:
    with pytest.raises(SettingsError):
        Credentials(file).set("a", value)
    assert not file.exists()


@pytest.mark.parametrize(
    "text", ["x", "[credentials]\na = 1", "credentials = 3", "a = '\xff", "a" * 10 + " = [" * 5000]
)
def test_a_damaged_file_is_refused_without_showing_it(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        Credentials(file).names()
    assert text not in str(caught.value)
    with pytest.raises(SettingsError):
        Credentials(file).set("a", "1")
    assert file.read_text() == text


def test_a_directory_in_the_file_s_place_is_an_error(file: Path) -> None:
    file.mkdir(parents=True, mode=0o700)
    with pytest.raises(SettingsError, match="it is not a file"):
        Credentials(file).names()


def test_a_folder_that_cannot_be_written_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(SettingsError, match="cannot be written"):
        Credentials(tmp_path / "data" / "credentials.toml").set("a", "1")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(SettingsError, match="cannot be written"):
        write_private(tmp_path / "folder", "x")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cwd", "data", "folder", "home"]


def test_the_keyring_stores_and_returns_values(file: Path, ring: MemoryKeyring) -> None:
    credentials = Credentials(file)
    credentials.set_in_keyring("claude", "sk-1")
    assert credentials.resolve("keyring:claude").get_secret_value() == "sk-1"
    assert credentials.delete_from_keyring("claude")
    assert not credentials.delete_from_keyring("claude")
    with pytest.raises(CredentialMissing, match="no such entry"):
        credentials.resolve("keyring:claude")


def test_without_the_library_the_keyring_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError) as caught:
        Credentials(file).resolve("keyring:claude")
    assert "zoea[keyring]" in caught.value.hint


def test_a_locked_keyring_is_a_settings_error(file: Path, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    from keyring.errors import KeyringLocked

    def locked(service: str, username: str) -> str:
        raise KeyringLocked("sk-secret")

    monkeypatch.setattr(ring, "get_password", locked)
    with pytest.raises(SettingsError, match="KeyringLocked") as caught:
        Credentials(file).resolve("keyring:claude")
    assert "sk-secret" not in str(caught.value)


def test_a_pipe_in_place_of_the_file_is_refused_without_waiting_for_its_writer(file: Path) -> None:
    file.parent.mkdir(parents=True)
    os.mkfifo(file, 0o600)
    with pytest.raises(SettingsError, match="it is not a file"):
        Credentials(file).get("a")
