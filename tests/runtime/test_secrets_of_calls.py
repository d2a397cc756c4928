"""A secret that a model writes into an argument does not spread. Only the credentials file and its server have it."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from tests.e2e.zoea_process import zoea
from tests.fakes.secretive_model import SecretiveModel
from tests.fakes.toolboxes import FAULTY
from tests.waiting import until
from zoea.model.enums import ApprovalAnswer
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.paths import places

CANARY = "canary-7f3a-hunter2"


async def test_a_canary_is_in_no_file_export_event_or_later_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    where = places()
    where.make_config()
    journal = tmp_path / "journal"
    where.config_file.write_text(
        f"[upstream.faulty]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(FAULTY))}]\n"
        f"env = {{ FAULTY_JOURNAL = {json.dumps(str(journal))} }}\n[log]\nlevel = 'debug'\n"
    )
    model = SecretiveModel(CANARY)
    where.make_data()
    async with running_swarm(where, lambda: None, options=SwarmOptions(providers={"secretive": model})) as swarm:
        await swarm.create("alpha", provider="secretive", model="m", start=False)
        await swarm.send("alpha", "unlock it")

        async def has_ended() -> bool:
            (row,) = (await swarm.view()).myses
            return row.turns > 0 and not row.in_turn

        await until(has_ended)
        shown = repr(await swarm.view())
        model.breaks_off = True
        await swarm.send("alpha", "say it")
        await model.has_streamed.wait()
        (row,) = (await swarm.view()).myses
        assert row.streaming == row.thinking == "It is ‹secret:1›, I say, "
        await swarm.stop("alpha")
    calls = [json.loads(line) for line in journal.read_text().splitlines()]
    passwords = [call["arguments"]["password"] for call in calls if call["what"] == "call" and call["tool"] == "unlock"]
    assert passwords == [CANARY, CANARY], "its server got the value both times"
    assert CANARY not in repr(model.requests[1:])
    assert "‹secret:1›" in repr(model.requests[1:])
    assert CANARY not in shown + caplog.text
    assert CANARY in where.credentials.read_text()
    for format_ in ("md", "html", "jsonl"):
        exported = zoea("export", "alpha", "--format", format_, "--output", str(tmp_path / f"export.{format_}"))
        assert exported.returncode == 0, exported.stderr
    for arguments in (("log", "alpha", "--json"), ("show", "alpha", "--json"), ("search", "hunter2", "--json")):
        assert CANARY not in zoea(*arguments).stdout
    assert "It is ‹secret:1›, I say, ‹secret:1›" in zoea("show", "alpha").stdout.replace("\n", "")
    holding = _files_with_canary(tmp_path) | _files_with_canary(where.data)
    assert holding == {where.credentials, journal}


async def test_a_secret_in_arguments_that_a_person_changed_is_a_mark_and_its_server_gets_the_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = places()
    where.make_config()
    journal = tmp_path / "journal"
    where.config_file.write_text(
        f"[upstream.faulty]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(FAULTY))}]\n"
        f"env = {{ FAULTY_JOURNAL = {json.dumps(str(journal))} }}\n"
    )
    where.templates.mkdir()
    (where.templates / "careful.toml").write_text('[tools]\nask = ["unlock"]\n')
    model = SecretiveModel("another-9c-secret")
    where.make_data()
    async with running_swarm(where, lambda: None, options=SwarmOptions(providers={"secretive": model})) as swarm:
        await swarm.create("alpha", template="careful", provider="secretive", model="m", start=False)
        await swarm.send("alpha", "unlock it")

        async def asks() -> bool:
            return bool(await swarm.approvals())

        await until(asks)
        (asked,) = await swarm.approvals()
        await swarm.answer(asked.id, ApprovalAnswer.ONCE, arguments=json.dumps({"user": "me", "password": CANARY}))
        await until(lambda: len(model.requests) > 1)
        shown = repr(await swarm.view())
        await swarm.stop("alpha")
    calls = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [call["arguments"]["password"] for call in calls if call["what"] == "call"] == [CANARY]
    assert "It ran with: " in model.requests[1].messages[-1].content
    assert CANARY not in repr(model.requests) + shown + caplog.text
    holding = _files_with_canary(tmp_path) | _files_with_canary(where.data)
    assert holding == {where.credentials, journal}


def _files_with_canary(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()}
