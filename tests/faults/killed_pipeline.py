"""The example pipeline in a process that kills itself after so many ops: `PATH URL OPS`; 0 ops never kills it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.swarm.harness import OneProvider
from tests.waiting import until
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.process.clock import SystemClock, SystemIds
from zoea.runtime.upstream_set import build_policy
from zoea.settings.key_paths import Layer
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Level, Templates
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.commander import Commander
from zoea.swarm.swarm import Swarm
from zoea.tools import Toolbox
from zoea.tools.builtin.mysis_tools import MysisTools

T = TypeVar("T")
ROLES = ("planner", "worker", "validator")
EXAMPLE = Path(__file__).parents[2] / "documentation" / "examples" / "pipeline"
SETTINGS = Settings.model_validate({"nudge": {"enabled": False}, "recovery": {"delays": []}})


class MortalStore(Store):
    """Kills the process once `ops` ops are durable. Their caller has not heard of the last."""

    ops = 0

    async def write(self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True) -> T:
        result = await super().write(op, urgent=urgent, is_synced=is_synced)
        self.ops -= 1
        if self.ops == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def play(commander: Commander) -> None:
    """Make the roles, open the issue once, and wait for the verdict."""
    here = {mysis.name for mysis in (await commander.view()).myses}
    for role in ROLES:
        if role not in here:
            await commander.create(role, template=role, start=False)
    await commander.publish("ISSUE_OPENED", "The login fails.", data={"title": "Login"}, idempotency_key="issue")
    await commander.start_all()
    view = commander.swarm.services.view
    runners = [commander.swarm.runner(role) for role in ROLES]
    await until(lambda: all(one.is_settled and view.row(one.mysis.id).turns for one in runners), within=100)


async def main(path: Path, url: str, ops: int) -> None:
    clock = SystemClock()
    provider = make("near", ProviderConfig("openai", base_url=url, model="reef-1", concurrency=None), clock=clock)
    store = await MortalStore.open(path, clock_now=clock.now)
    store.ops = ops
    toolbox = Toolbox([], policies=lambda body: build_policy(parse_template(body), (), SETTINGS), logs=path.parent)
    toolbox.open()
    commander = await Commander.open(
        Swarm(
            store=store,
            clock=clock,
            ids=SystemIds(),
            settings=SETTINGS,
            templates=Templates([Level(Layer.USER, EXAMPLE)]),
            providers=OneProvider(provider),
            tools=toolbox,
            on_shutdown=lambda: None,
        ),
        serve_tools=lambda commander: toolbox.serve(MysisTools(commander.builtin_backend)),
    )
    await play(commander)
    await commander.close()
    await toolbox.close()
    await provider.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
