"""Grants for a whole template are listed and revoked."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_approvals import ask
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import UsageError
from zoea.model.request import Answer
from zoea.settings.key_paths import Layer
from zoea.settings.template_library import Level, Templates

BURN = Answer(calls=(call("burn", "it"),))
# Two rows may say the same; they are one grant.
AGAIN = """
INSERT INTO grant_(template, upstream, tool, schema_hash, created_at)
SELECT template, upstream, tool, schema_hash, created_at FROM grant_
"""


async def test_a_grant_for_the_template_is_listed_and_once_revoked_asked_about_again(tmp_path: Path) -> None:
    done = Answer(text="done")
    async with swarm(tmp_path, script(BURN, BURN, done, done, BURN)) as s:
        await ask(s, "alpha")
        await s.commander.answer(await ask(s, "beta"), ApprovalAnswer.TEMPLATE)
        await s.store.write(lambda conn: conn.execute(AGAIN))
        await s.settled("alpha")
        await s.settled("beta")
        [grant] = await s.commander.grants()
        assert (grant.template, grant.upstream, grant.tool) == ("default", "peer", "burn")
        assert await s.commander.revoke(grant.id) == grant
        assert await s.commander.grants() == ()
        with pytest.raises(UsageError, match="no grant 1 holds"):
            await s.commander.revoke(grant.id)
        await ask(s, "gamma")
        [spec] = [tool for tool in s.provider.requests[-1].tools if tool.name == "burn"]
    async with swarm(tmp_path, script(BURN)) as s:
        assert not s.commander.swarm.services.approvals.is_granted(3, grant.template, spec)


async def test_a_grant_for_a_template_of_a_folder_covers_none_of_its_name_elsewhere(tmp_path: Path) -> None:
    """It covers neither one of another folder nor the person's own.

    That holds also where a mysis got settings of its own.
    """
    levels = {}
    for name, layer in (("here", Layer.PROJECT), ("there", Layer.PROJECT), ("mine", Layer.USER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "miner.toml").write_text('prompt = "You are a miner."\n')
        levels[name] = Templates([Level(layer, tmp_path / name)])
    done = Answer(text="done")
    found = Templates()
    async with swarm(tmp_path, script(BURN, BURN, done, done, BURN, BURN), templates=found) as s:
        found._levels = levels["here"]._levels
        await s.commander.create("alpha", template="miner", start=False)
        await s.commander.create("beta", template="miner", start=False)
        await s.commander.configure("beta", settings={"budget.mysis": 10_000_000})
        await s.commander.send("alpha", "go")
        await s.until(partial(_asks, s, 1))
        await s.commander.answer(1, ApprovalAnswer.TEMPLATE)
        await s.settled("alpha")
        [grant] = await s.commander.grants()
        assert re.fullmatch(r"miner \(folder [0-9a-f]{8}\)", grant.template)
        await s.ask("beta", "go")
        assert s.peer.seen == [("burn", "it")] * 2
        for name in ("there", "mine"):
            found._levels = levels[name]._levels
            made = await s.commander.create(name, template="miner", start=False)
            await s.commander.send(name, "go")
            await s.until(partial(_asks, s, made.id))
        assert len(s.peer.seen) == 2


def _asks(s: Swarm, mysis_id: int) -> bool:
    return bool(s.commander.swarm.live_view.row(mysis_id).approvals)
