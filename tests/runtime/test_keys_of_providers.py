"""The keys of providers are in no file but that of the credentials.

That holds also where a server repeats them in its refusal.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tests.fakes.openai_server import Fail, OpenAIServer
from tests.runtime.test_failing_logins import find_files
from tests.waiting import until
from zoea.model.enums import MysisState
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.credentials import Credentials
from zoea.settings.layers import load
from zoea.settings.paths import places

KEY, IN_A_HEADER, OF_A_HEADER, LATER = (f"canary-of-{name}" for name in ("a-key", "a-reference", "a-header", "later"))


async def test_no_key_of_a_provider_reaches_errors_files_or_the_log_also_after_a_reload(tmp_path: Path) -> None:
    where = places()
    where.make_config()
    where.make_data()
    Credentials(where.credentials).set_many({"key": KEY, "reference": IN_A_HEADER, "later": LATER})
    refusal = Fail.error(401, f"wrong: {KEY}, {IN_A_HEADER}, {OF_A_HEADER}; you are Reef")
    async with OpenAIServer(otherwise=lambda _: refusal) as server:
        provider = (
            f'[provider.mine]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "m"\napi_key = "file:key"\n'
            f'headers = {{ X-Trace = "at {{file:reference}}", X-Api-Key = "Bearer {OF_A_HEADER}", X-Title = "Reef" }}\n'
        )
        where.config_file.write_text(provider)
        options = SwarmOptions(loaded=load(where, env={}))
        async with running_swarm(where, lambda: None, options=options) as swarm:
            await swarm.create("alpha", provider="mine")
            await swarm.send("alpha", "Go.")

            async def has_failed() -> bool:
                return (await swarm.mysis("alpha")).state is MysisState.ERRORED

            await until(has_failed)
            for secret in (KEY, IN_A_HEADER, OF_A_HEADER):
                logging.getLogger("zoea.x").warning("it is %s", secret)
            shown = repr(await swarm.view()) + repr(await swarm.providers())
            where.config_file.write_text(f'{provider}[provider.other]\ntype = "openai"\napi_key = "file:later"\n')
            await swarm.reload()
            logging.getLogger("zoea.x").warning("later it is %s", LATER)
    assert "you are Reef" in shown
    assert "it is [REDACTED_SECRET]" in where.log.read_text()
    for secret in (KEY, IN_A_HEADER, OF_A_HEADER, LATER):
        assert secret not in shown
        assert find_files(where.data, secret) | find_files(tmp_path, secret) <= {where.credentials, where.config_file}
