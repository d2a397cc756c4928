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
