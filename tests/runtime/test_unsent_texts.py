"""The file of texts that were typed in a cockpit and not sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoea.model.errors import SettingsError
from zoea.runtime import unsent_texts
from zoea.runtime.unsent_texts import change_unsent, read_unsent


def test_texts_of_a_size_that_could_not_be_read_again_leave_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "drafts.json"
    monkeypatch.setattr(unsent_texts, "MOST_BYTES", 100)
    change_unsent(file, lambda kept: kept | {"mysis 1": "half a thought"})
    with pytest.raises(SettingsError, match="over 100 bytes of unsent texts cannot be kept"):
        change_unsent(file, lambda kept: kept | {"mysis 2": "思" * 40})
    assert read_unsent(file) == {"mysis 1": "half a thought"}
    change_unsent(file, lambda kept: kept | {"mysis 2": "short"})
    assert read_unsent(file) == {"mysis 1": "half a thought", "mysis 2": "short"}


def test_a_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "drafts.json"
    file.symlink_to("/proc/self/mem")  # reading its first byte fails with EIO
    with pytest.raises(SettingsError, match=r"drafts\.json cannot be read: Input/output error"):
        change_unsent(file, lambda kept: kept | {"mysis 1": "half a thought"})
    assert file.is_symlink()


def test_a_file_over_the_size_that_is_read_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "drafts.json"
    change_unsent(file, lambda _: {"mysis 1": "half a thought"})
    before = file.read_text()
    monkeypatch.setattr(unsent_texts, "MOST_BYTES", 10)
    with pytest.raises(SettingsError, match=r"drafts\.json cannot be read: it is larger than 10 bytes"):
        change_unsent(file, lambda kept: kept | {"mysis 2": "sell"})
    assert file.read_text() == before
