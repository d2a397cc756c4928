"""Logins of accounts at servers that refuse and die: the mysis says why and goes on, and no secret is stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.zoea_process import zoea
from tests.fakes.toolboxes import FAULTY
from tests.waiting import until
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.queries.stored_swarm import open_database
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.paths import places

WHY = {
    "refusing": "refusing refused refuse_aloud: ",
    "failing": "failing refused the login of alpha: ",
    "dying": "upstream dying is not available: its session ended. That was its login: the call itself was not sent.",
    "choosing": "choosing refused refuse_aloud: ",
}
LOGINS = {
    "refusing": 'login = "refuse_aloud"',
    "failing": 'login = "fail_aloud"',
    "dying": 'login = "die_aloud"',
    "choosing": 'register = "refuse_aloud"',
}


async def test_failing_logins_are_results_without_secrets_and_the_mysis_goes_on(tmp_path: Path) -> None:
    where = places()
    where.make_config()
    where.make_data()
    journal = tmp_path / "journal"
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(FAULTY))}]"
    env = f'{{ FAULTY_JOURNAL = {json.dumps(str(journal))}, FAULTY_MODE = "logins" }}'
    where.config_file.write_text(
        "[log]\nlevel = 'debug'\n[tool]\nshow = 'all'\n"
        + "".join(
            f"[upstream.{name}]\n{command}\nenv = {env}\n"
            f'inject = {{ session_id = "account" }}\n[upstream.{name}.login]\n{login}\n'
            for name, login in LOGINS.items()
        )
    )
    model = ScriptedProvider(call_each_balance)
    async with running_swarm(where, lambda: None, options=SwarmOptions(providers={"scripted": model})) as swarm:
        await swarm.create("alpha", provider="scripted", start=False)
        await swarm.send("alpha", "look at each balance")

        async def has_ended() -> bool:
            (row,) = (await swarm.view()).myses
            return row.turns > 0 and not row.in_turn

        await until(has_ended)
        shown = repr(await swarm.view()) + repr(await swarm.upstreams())
    with open_database(where.database) as reader:
        assert [row[0] for row in reader.execute("SELECT outcome FROM turn")] == ["answered"]
        results = [row[0] for row in reader.execute("SELECT content FROM memory WHERE role = 'tool' ORDER BY id")]
    for said in WHY.values():
        assert sum(said in result for result in results) == 1, results
    calls = [json.loads(line) for line in journal.read_text().splitlines()]
    secrets = {call["arguments"]["password"] for call in calls if "password" in call.get("arguments", {})}
    assert len(secrets) == 2
    exported = zoea("export", "alpha", "--format", "jsonl")
    assert exported.returncode == 0
    for secret in secrets:
        assert secret not in shown + exported.stdout + repr(model.requests)
        assert find_files(where.data, secret) | find_files(tmp_path, secret) <= {where.credentials, journal}


def call_each_balance(request: ModelRequest) -> Answer:
    """Ask for the balance at every server once, then answer."""
    if any(message.calls for message in request.messages):
        return Answer(text="No server let me in.")
    names = [tool.name for tool in request.tools if tool.name.endswith("balance")]
    assert len(names) == len(LOGINS)
    return Answer(calls=tuple(AnswerCall(name, "{}", f"call-{name}") for name in names))


def find_files(folder: Path, text: str) -> set[Path]:
    return {file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()}
