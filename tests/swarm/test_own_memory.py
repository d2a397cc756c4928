"""A mysis cannot read another's memory with any arguments."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fakes.toolboxes import meta
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Recipients
from zoea.tools import SearchScope, Toolbox, ToolPolicy
from zoea.tools.builtin.arguments import MATCHES, PARTS, ROLES, SOURCES
from zoea.tools.builtin.mysis_tools import MysisTools
from zoea.tools.toolbox import ToolboxSession

MARK = "Ω7Ω"
"""Stands in every text of beta's; no argument ever holds it."""
SAID = ("cinnamon", "order", "think", "act", "did", "all", "you", "{", '"')
ALPHA, BETA = 1, 2
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.integers())
)
IDS = st.one_of(st.integers(1, 10), st.integers(1, 10).map(str), st.integers(1, 10).map(float))
WHO = st.sampled_from((BETA, str(BETA), float(BETA), "beta", "#2", "BETA", ALPHA, "commander", [BETA]))
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "query": st.sampled_from(SAID),
    "limit": st.integers(1, 100),
    "match": st.sampled_from(MATCHES),
    "role": st.sampled_from((None, None, None, *ROLES)),
    "source": st.sampled_from((None, None, None, None, *SOURCES)),
    "since": st.just("2001-01-01"),
    "until": st.just("2999-01-01"),
    "before_id": st.sampled_from((None, 8, 100)),
    "after_id": st.sampled_from((None, ALPHA)),
    "max_chars": st.integers(100, 10_000),
    "id": IDS,
    "offset": st.integers(0, 5),
    "part": st.sampled_from(PARTS),
    "position": st.sampled_from((None, None, 0, 1)),
    "name": WHO,
    "mysis_id": WHO,
    "to": WHO,
    "seconds": st.integers(1, 10),
}
FOREIGN = ("mysis_id", "mysis", "whose", "everyone", "owner", "search", "session_id", "_meta")
"""What might open another's memory, and stands in no schema or in one only."""


def _arguments(properties: dict[str, Any], required: list[str], *, wild: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Draw what the tool takes, so that it is mostly carried out.

    With `wild`, anything at all stands in its place and beside it.
    """

    def of(name: str) -> st.SearchStrategy[Any]:
        likely = LIKELY.get(name, st.sampled_from(SAID))
        return st.one_of(likely, JUNK) if wild else likely

    must, may = ({name: of(name) for name in properties if (name in required) is needed} for needed in (True, False))
    taken = st.fixed_dictionaries(must, optional=may)
    if not wild:
        return taken
    foreign = st.dictionaries(st.sampled_from(FOREIGN), WHO, max_size=2)
    return st.builds(lambda left, right: {**left, **right}, taken, foreign)


async def _told(s: Swarm) -> None:
    """alpha has said something of its own; everything of beta's bears the mark."""
    for name, mark in (("alpha", "mine"), ("beta", MARK)):
        await s.commander.create(name, start=False)
        await s.commander.send(name, f"cinnamon order {mark}")
        await s.settled(name)
    await s.commander.broadcast(f"cinnamon to all of you {MARK}", to=Recipients(names=("beta",)))
    await s.settled("beta")
    await s.commander.hold(True)


def _session(s: Swarm, folder: Path, search: SearchScope) -> tuple[Toolbox, ToolboxSession]:
    toolbox = Toolbox([], policies=lambda _: ToolPolicy(search=search), logs=folder)
    toolbox.open()
    toolbox.serve(MysisTools(s.commander.builtin_backend))
    return toolbox, toolbox.session(ALPHA, "alpha", "")


async def test_no_argument_opens_anothers_memory(tmp_path: Path) -> None:
    answers = script(
        *(
            answer
            for mark in ("mine", MARK)
            for answer in (
                Answer(text=f"cinnamon {mark}", reasoning=f"think {mark}", calls=(call("act", f"cinnamon {mark}"),)),
                Answer(text=f"did {mark}", reasoning=f"think {mark}"),
            )
        )
    )
    async with swarm(tmp_path, answers) as s:
        await _told(s)
        toolbox, session = _session(s, tmp_path, SearchScope.OWN)
        tools = (await session.catalogue()).tools
        loop = asyncio.get_running_loop()

        async def asked(name: str, arguments: dict[str, Any]) -> str:
            return (await session.call(AnswerCall(name, json.dumps(arguments)), meta=meta(mysis_id=ALPHA))).content

        @settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))  # a call is small as it is
        @given(data=st.data())
        def hold(data: st.DataObject) -> None:
            for tool, wild in product(tools, (False, True)):
                properties, required = tool.input_schema["properties"], tool.input_schema.get("required", [])
                arguments = data.draw(_arguments(properties, required, wild=wild), label=tool.name)
                said = asyncio.run_coroutine_threadsafe(asked(tool.name, arguments), loop).result(timeout=30)
                assert MARK not in said, (tool.name, arguments)

        await asyncio.to_thread(hold)
        await _shows(s, session, ALPHA, "mine")
        await toolbox.close()
        toolbox, session = _session(s, tmp_path, SearchScope.SWARM)
        await _shows(s, session, BETA, MARK)
        await toolbox.close()


async def _shows(s: Swarm, session: ToolboxSession, whose: int, mark: str) -> None:
    """What the calls above were kept from is there: for its owner, and for a mysis that may read all."""
    memory = await s.value("SELECT min(id) FROM memory WHERE mysis_id = ?", whose)
    for name, arguments in (
        ("zoea_search_messages", {"query": "cinnamon", "mysis_id": whose}),
        ("zoea_search_reasoning", {"query": "think", "mysis_id": whose}),
        ("zoea_read_memory", {"id": memory}),
    ):
        result = await session.call(AnswerCall(name, json.dumps(arguments)), meta=meta(mysis_id=ALPHA))
        assert mark in result.content
