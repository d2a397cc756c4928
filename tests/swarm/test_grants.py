"""Grants for a whole template are listed and revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from tests.swarm.test_approvals import ask
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import UsageError
from zoea.model.request import Answer

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
