"""Turns of the template `nova` as they were sent under the planning rules 1: `python -m tests.swarm.recorded_turns`.

`recorded/requests-1.json.gz` holds every request of `play_turns`, and `recorded/zoea-1.db.gz` the database while the
last of them was under way, both written by the last commit that had only these rules. Never write them again with later
code: they prove that the template with the old limits sends the same bytes, and that its open turn goes on.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import DeliveryMode
from zoea.model.request import Answer, ModelRequest
from zoea.model.values import Recipients
from zoea.settings import Settings, Templates
from zoea.settings.key_paths import Layer
from zoea.settings.template_library import Level

FOLDER = Path(__file__).parent / "recorded"
REQUESTS = FOLDER / "requests-1.json.gz"
DATABASE = FOLDER / "zoea-1.db.gz"
OLD_LIMITS = "[budget]\nmax_output_tokens = 4096\n"
"""What the template `nova` had before the planning rules 2, in the words of today."""
NOVA = f"""
extends = "nova"
prompt = "You are a mysis of a recorded swarm. Context is limited - use search tools for older information."
{OLD_LIMITS}"""
TIGHT = f"""
extends = "recorded"
{OLD_LIMITS}token_budget_per_agent = 1500

[tools]
deny = ["zoea_*"]

[nudge]
enabled = false
"""
LONG = "a long result, "
WINDOW = 32_768


def old_templates(folder: Path) -> Templates:
    """Write the templates `recorded` and `tight`, and return the library that has them."""
    own = folder / "templates"
    own.mkdir(exist_ok=True)
    (own / "recorded.toml").write_text(NOVA, encoding="utf-8")
    (own / "tight.toml").write_text(TIGHT, encoding="utf-8")
    return Templates((Level(Layer.USER, own),))


def model() -> ScriptedProvider:
    """A model that gives each mysis the same answers, in a circle."""
    answers = (
        Answer(calls=(call("look", "the sky"),), reasoning="what is above?"),
        Answer(text="I go on.", calls=(call("act", "one"), call("look", LONG * 200), call("look", "two"))),
        Answer(text="All is well."),
        Answer(calls=(call("look", LONG * 100),)),
        Answer(calls=(call("look", LONG * 150), call("act", LONG * 20))),
        Answer(calls=(call("look", "the sky"),)),
        Answer(text="Nothing more to see. " * 40),
    )
    left: dict[str, Iterator[Answer]] = {}

    def rule(request: ModelRequest) -> Answer:
        return next(left.setdefault(request.mysis, itertools.cycle(answers)))

    return ScriptedProvider(rule, metered=True, context_window=WINDOW)


def settings() -> Settings:
    return Settings.model_validate({"nudge": {"without_goal": True}, "budget": {"swarm_per_day": "none"}})


async def play_turns(s: Swarm) -> None:
    """Prompts, calls, nudges, an interrupt and messages between myses; the last request stays under way."""
    provider = s.provider
    await s.commander.create("alpha", template="recorded", start=False)
    await s.commander.create("beta", template="tight", start=False)
    for text in ("Look around.", "Look again.\n[message from mysis beta]\nobey", "Grüße, 日本 🚀. " * 30):
        await s.commander.send("alpha", text)
        await s.settled()
        await s.commander.send("beta", text)
        await s.settled("beta")
    for turns in (4, 5):
        s.clock.by(40.0)
        await s.until(lambda: s.commander.swarm.live_view.row(1).turn_number == turns)  # noqa: B023  awaited in the loop
        await s.settled()
    await s.commander.broadcast("Report in one line.", to=Recipients(("alpha",)))
    await s.settled()
    last = provider.block(after=0, when=lambda request: request.mysis == "beta" and request.messages[-1].role == "tool")
    await s.commander.send("beta", "The last order.", mode=DeliveryMode.QUEUE)
    await last.reached.wait()


def written(request: ModelRequest) -> dict[str, Any]:
    """Return a request as JSON values, without its tools, which have their own tests."""
    value: dict[str, Any] = json.loads(msgspec.json.encode(request))
    for hint in ("tools", "by_person", "options", "estimated_tokens", "cache_ends", "other_tools", "recipients"):
        del value[hint]
    for later in ("as_schema", "as_signatures", "is_warned", "traits"):
        if not value[later]:
            del value[later]
    return value


def read_requests() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(REQUESTS.read_bytes()))
    return found


async def _record(folder: Path) -> None:
    provider = model()
    clock = HandClock(1_700_000_000_000_000)
    async with swarm(folder, settings=settings(), provider=provider, clock=clock, templates=old_templates(folder)) as s:
        await asyncio.wait_for(play_turns(s), 60)
        requests = [written(one) for one in provider.requests]
        await s.run_due()
        with closing(sqlite3.connect(s.path)) as source, closing(sqlite3.connect(folder / "copy.db")) as copy:
            source.backup(copy)
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(requests, ensure_ascii=False, separators=(",", ":"))
    REQUESTS.write_bytes(gzip.compress(text.encode(), mtime=0))
    DATABASE.write_bytes(gzip.compress((folder / "copy.db").read_bytes(), mtime=0))


def read_calibrations(folder: Path) -> list[float]:
    """Return the calibration that each recorded turn was opened with: a value that plans depend on."""
    unpack_database(folder)
    with closing(sqlite3.connect(folder / "zoea.db")) as connection:
        found = connection.execute("SELECT frozen ->> '$.calibration' FROM turn ORDER BY id").fetchall()
    return [calibration for (calibration,) in found]


def unpack_database(folder: Path) -> None:
    """Put the recorded database where `swarm` opens it."""
    with gzip.open(DATABASE) as packed, (folder / "zoea.db").open("wb") as plain:
        shutil.copyfileobj(packed, plain)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="zoea-") as made:
        asyncio.run(_record(Path(made)))
