"""Upstreams whose commands name the folder that a mysis works in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.toolboxes import Faulty, asked, meta
from tests.tools.conftest import Opener
from zoea.model.errors import FilesError, SettingsError
from zoea.settings.endpoints import Sharing
from zoea.tools import ToolPolicy, UpstreamConfig
from zoea.tools.accounts_login import Caller

ODD = "a folder's $(name) {worktree}"


class Folders:
    """A folder for each mysis but `homeless`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.held: list[str] = []

    @asynccontextmanager
    async def hold(self, caller: Caller, policy: ToolPolicy) -> AsyncIterator[Path]:
        if caller.name == "homeless":
            raise FilesError("homeless has no folder")
        (folder := self.place / ODD / caller.name).mkdir(parents=True, exist_ok=True)
        self.held.append(caller.name)
        yield folder
        self.held.remove(caller.name)


def config(faulty: Faulty, *more: str, **fields: Any) -> UpstreamConfig:
    made = faulty.config(session=Sharing.PER_MYSIS, env={"ROOT": "{worktree}"}, cwd="{worktree}")
    return UpstreamConfig(**{**made.model_dump(), "args": (*made.args, *more), "name": made.name, **fields})


async def test_each_mysis_has_a_process_that_begins_in_its_folder(
    tmp_path: Path, open_box: Opener, faulty: Faulty
) -> None:
    folders = Folders(tmp_path)
    box = open_box(config(faulty, "{worktree}", "--root={worktree}/src"), folders=folders)
    await box.settled()
    assert box.status() == ()
    for name in ("alpha", "beta", "alpha"):
        session = box.session(1, name, "")
        assert "pid" in [tool.name for tool in (await session.catalogue()).tools]
        assert not (await session.call(asked("pid"), meta=meta(name))).is_error
    found = [(one["cwd"], one["arguments"]) for one in faulty.seen("start")]
    places = [str(tmp_path / ODD / name) for name in ("alpha", "beta")]
    assert found == [(place, [place, f"--root={place}/src"]) for place in places]
    assert folders.held == []


async def test_a_mysis_without_a_folder_has_no_tools_of_it_and_calls_none(
    tmp_path: Path, open_box: Opener, faulty: Faulty
) -> None:
    box = open_box(config(faulty), folders=Folders(tmp_path))
    homeless = box.session(1, "homeless", "")
    assert (await homeless.catalogue()).tools == ()
    await box.session(2, "alpha", "").catalogue()
    refused = await homeless.call(asked("pid"), meta=meta("homeless"))
    assert refused.is_error
    assert "homeless has no folder" in refused.content
    assert len(faulty.seen("start")) == 1


REFUSED = [
    ({"session": Sharing.SHARED}, "needs a process for each mysis"),
    ({"command": "{worktree}/server"}, "where a mysis may have written it"),
    *(
        ({"args": ("-c", line)}, "with more than the path of a folder")
        for line in (
            "cd {worktree} && serve", "serve '{worktree}'", "serve;{worktree}", "$({worktree})", "`{worktree}`",
            "{worktree}|x", "~{worktree}", "{worktree}\nx", "{worktree}\\", '"{worktree}"', "{worktree}*",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "why"), REFUSED)
def test_a_command_that_would_run_what_a_mysis_wrote_is_refused(
    faulty: Faulty, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        config(faulty, **fields)


def test_a_command_without_it_is_the_same_in_every_folder(faulty: Faulty) -> None:
    made = faulty.config()
    assert not made.in_worktree
    assert made.at(Path("/x")) == made
