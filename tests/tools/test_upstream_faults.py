"""What a swarm meets in the wild: servers that die, hang, babble, flood and forget."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.processes import count_descriptors
from tests.fakes.toolboxes import Faulty, asked, meta, with_catalogue
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.model.errors import UpstreamLost
from zoea.model.request import AnswerCall
from zoea.settings.endpoints import Sharing
from zoea.tools import UpstreamConfig
from zoea.tools.catalogue import RemoteTool
from zoea.tools.upstream import session as upstream_session
from zoea.tools.upstream.http_pool import HttpPool
from zoea.tools.upstream.session import CLOSE_S
from zoea.tools.upstream.upstream_client import Upstream

SLACK_S = 4.0
"""What a machine that has much else to do may add to a bound."""


async def test_read_only_calls_overlap(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    results = await asyncio.gather(*(session.call(asked("sleep", seconds=1.0), meta=meta()) for _ in range(5)))
    spans = [json.loads(result.content) for result in results]
    assert max(span["begun"] for span in spans) < min(span["ended"] for span in spans)


async def test_no_more_calls_run_at_once_than_max_parallel(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config(max_parallel=2)).session(1, "alpha", ""))
    results = await asyncio.gather(*(session.call(asked("sleep", seconds=0.1), meta=meta()) for _ in range(6)))
    spans = [json.loads(result.content) for result in results]
    for span in spans:
        assert sum(1 for other in spans if other["begun"] <= span["begun"] < other["ended"]) <= 2
    assert max(span["ended"] for span in spans) - min(span["begun"] for span in spans) >= 0.3


async def test_a_cancelled_caller_cancels_at_the_server(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    call = asyncio.create_task(session.call(asked("hang"), meta=meta()))
    await until(lambda: bool(faulty.seen("call", tool="hang")))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    request = faulty.seen("call", tool="hang")[0]["request"]
    await until(lambda: bool(faulty.seen("cancelled", request=request)))
    assert (await session.call(asked("echo", text="still here"), meta=meta())).content == "still here"


async def test_a_call_past_its_deadline_is_an_error_result_and_is_cancelled_at_the_server(
    open_box: Opener, faulty: Faulty
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    result = await session.call(asked("hang"), meta=meta(deadline_s=0.8))
    assert result.is_error
    assert result.content == "hang did not answer within 0.8 s and was cancelled"
    await until(lambda: bool(faulty.seen("cancelled")))


@pytest.mark.parametrize("tool", ["echo", "fail", "hang", "nothing"])
async def test_calls_leave_no_descriptor_open(open_box: Opener, faulty: Faulty, tool: str) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    counts = []
    for _ in range(3):
        calls = [session.call(asked(tool, text="x"), meta=meta(deadline_s=0.3)) for _ in range(20)]
        await asyncio.gather(*calls)
        counts.append(count_descriptors())
    assert counts[2] < counts[0] + 8


async def test_a_child_killed_with_sigkill_is_re_opened(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    session = await with_catalogue(box.session(1, "alpha", ""))
    first = int((await session.call(asked("pid"), meta=meta())).content)
    os.kill(first, signal.SIGKILL)
    await until(lambda: len(faulty.seen("start")) == 2)
    second = await session.call(asked("pid"), meta=meta())
    assert not second.is_error
    assert int(second.content) != first
    assert box.status()[0].state == "open"


async def test_an_idempotent_call_that_was_lost_is_repeated_once(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    result = await session.call(asked("die"), meta=meta())
    assert result.is_error
    assert not result.is_unknown
    assert len(faulty.seen("call", tool="die")) == 2


async def test_a_lost_call_that_may_have_run_is_unknown_and_not_repeated(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    result = await session.call(asked("die_writing"), meta=meta())
    assert result.is_error
    assert result.is_unknown
    assert "may or may not have been carried out" in result.content
    assert len(faulty.seen("call", tool="die_writing")) == 1


async def test_a_glob_makes_a_tool_repeatable(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config(idempotent=("die_*",))).session(1, "alpha", ""))
    result = await session.call(asked("die_writing"), meta=meta())
    assert result.is_error
    assert not result.is_unknown
    assert len(faulty.seen("call", tool="die_writing")) == 2


async def test_a_call_made_while_the_session_is_being_re_opened_waits_for_it(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    os.kill(int((await session.call(asked("pid"), meta=meta())).content), signal.SIGKILL)
    result = await session.call(asked("note", text="x"), meta=meta())
    # Sent into the dying process it is unknown; else it waited and ran once.
    assert result.is_unknown or result.content == "noted"
    assert len(faulty.seen("call", tool="note")) <= 1


async def test_a_server_that_cannot_start_gives_clear_errors_at_once(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(mode="deny", retries=1), faulty.config("good"))
    session = box.session(1, "alpha", "")
    began = time.monotonic()
    catalogue = await session.catalogue()
    assert time.monotonic() - began < 15  # long before `start_timeout`
    assert "echo" in {tool.name for tool in catalogue.tools}
    status = box.status()[0]
    assert status.state == "down"
    assert "its process ended while it was opening" in status.last_error


async def test_a_missing_command_delays_no_call(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(UpstreamConfig("gone", command="/nowhere/server"), faulty.config())
    began = time.monotonic()
    catalogue = await box.session(1, "alpha", "").catalogue()
    assert time.monotonic() - began < 15
    assert catalogue.tools
    assert box.status()[0].last_error == "cannot run /nowhere/server: not found"


async def test_a_mute_server_delays_the_first_catalogue_by_start_timeout_and_no_later_one(
    open_box: Opener, faulty: Faulty
) -> None:
    box = open_box(faulty.config("mute", mode="mute", start_timeout=1.5), faulty.config())
    began = time.monotonic()
    catalogue = await box.session(1, "alpha", "").catalogue()
    assert 1.4 < time.monotonic() - began < 15
    assert "echo" in {tool.name for tool in catalogue.tools}
    again = time.monotonic()
    await box.session(2, "beta", "").catalogue()
    assert time.monotonic() - again < 1.4


async def test_a_required_upstream_that_stays_lost_is_raised(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(mode="deny", retries=0, required=True))
    with pytest.raises(UpstreamLost, match="required upstream faulty is not available"):
        await box.session(1, "alpha", "").catalogue()


async def test_garbage_on_stdout_does_not_harm_the_session(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    assert (await session.call(asked("garbage"), meta=meta())).content == "after the garbage"


async def test_a_result_that_is_none_is_an_error_result(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    result = await session.call(asked("nonsense"), meta=meta())
    assert result.is_error
    assert "not a tool result" in result.content


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "kept"}]},
         '[content of type hologram] {"x": 1}\nkept'),
        ({"content": [{"type": "text"}, {"type": "text", "text": None}, None, {"type": "text", "text": "kept"}]},
         "[content of type text]\nkept"),
        ({"content": [{"type": "image", "data": 5}, {"type": "text", "text": "kept", "annotations": "no"}]},
         "[image octet-stream, unreadable]\nkept"),
        ({"content": [{"type": "resource_link"}, {"type": "text", "text": "kept"}]}, "[link  <>]\nkept"),
        ({"content": "plain words"}, "plain words"),
        ({"content": {"type": "text", "text": "one part"}}, "one part"),
        ({"content": None, "structuredContent": {"ok": True}}, '{"ok": true}'),
        ({"structuredContent": {"ok": True}}, '{"ok": true}'),
        ({"content": [], "structuredContent": [1, 2]}, "[1, 2]"),
        ({"content": [{"type": "text", "text": "kept"}], "isError": None, "_meta": 3}, "kept"),
        ({"toolResult": "of 2024"}, "of 2024"),
    ],
)  # fmt: skip
async def test_one_bad_part_of_a_result_never_loses_the_others(
    open_box: Opener, faulty: Faulty, result: dict[str, Any], text: str
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).replace('"id": 0', '"id": ID')
    read = await session.call(asked("answer", line=line), meta=meta())
    assert (read.content, read.is_error) == (text, False)


async def test_a_protocol_error_is_an_error_result_with_its_text(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("refuse"), meta=meta())
    assert result.content == "faulty refused refuse: out of order (code -32000)"
    assert len(faulty.seen("start")) == 1


def _sizes_and_modes(folder: Path) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_size, file.stat().st_mode & 0o777) for file in folder.iterdir()}


async def test_a_flood_on_stderr_blocks_nothing_and_is_kept_small(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("flood", count=5_000_000), meta=meta())
    assert result.content == "flooded"
    logs = _sizes_and_modes(Path(box.status()[0].log).parent)
    assert set(logs) == {"upstream-faulty.log", "upstream-faulty.log.1"}
    assert sum(size for size, _ in logs.values()) <= 2_000_000
    assert {mode for _, mode in logs.values()} == {0o600}


async def test_tools_that_change_without_end_are_read_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    read_at: list[float] = []

    @asynccontextmanager
    async def pass_time(pause: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Let a pause end at once, at its time: after a real one that ends late, the next is short again."""
        nonlocal now
        is_pause = pause is not None and pause <= upstream_session.TOOLS_AGAIN_MOST_S
        try:
            async with asyncio.timeout(0 if is_pause else pause) as limit:
                yield limit
        except TimeoutError:
            now += pause or 0.0
            raise

    monkeypatch.setattr(upstream_session, "read_uptime_s", lambda: now)
    monkeypatch.setattr(upstream_session, "asyncio", SimpleNamespace(**vars(asyncio) | {"timeout": pass_time}))

    class ChangingConnection:
        is_over, end_reason, server, in_flight = False, "", "", 0

        def __init__(self, changed: Callable[[], None]) -> None:
            self._changed = changed

        async def tools(self) -> tuple[RemoteTool, ...]:
            read_at.append(now)
            self._changed()
            return ()

        async def listen(self, changed: Callable[[], None]) -> None:
            """Hear nothing."""

    @asynccontextmanager
    async def connect(*_: Any, on_tools_changed: Callable[[], None], **_more: Any) -> AsyncIterator[ChangingConnection]:
        yield ChangingConnection(on_tools_changed)

    async def load() -> Any:
        return connect

    monkeypatch.setattr(upstream_session, "_load_connect", load)
    upstream = Upstream(UpstreamConfig("changing", command="none"), logs=tmp_path, pool=HttpPool)
    upstream.open()
    await until(lambda: len(read_at) >= 6)
    await upstream.close()
    first = upstream_session.TOOLS_AGAIN_S
    pauses = [later - earlier for earlier, later in pairwise(read_at[1:6])]
    assert pauses == pytest.approx([first, 2 * first, 4 * first, 8 * first])


async def test_a_call_that_waited_is_not_sent_to_a_tool_that_has_changed_meanwhile(
    open_box: Opener, faulty: Faulty
) -> None:
    box = open_box(faulty.config(max_parallel=1))
    session = box.session(1, "alpha", "")
    offered = (await session.catalogue()).find("drop")
    assert offered is not None
    assert offered.asks
    changing = asyncio.create_task(session.call(asked("change", hangs=True), meta=meta()))
    await until(lambda: box.status()[0].in_flight == 1)
    approved = asyncio.create_task(session.call(asked("drop", text="x"), meta=replace(meta(), offered=offered)))
    await until(lambda: box.upstream("faulty").version == 2)
    changing.cancel()
    result = await approved
    assert result.is_error
    assert not result.is_unknown
    assert "drop was not called: its server changed it since it was offered" in result.content
    assert faulty.seen("call", tool="drop") == []


async def test_changed_tools_are_read_again(open_box: Opener, faulty: Faulty) -> None:
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    box = open_box(faulty.config())
    box.watch(changed)
    session = box.session(1, "alpha", "")
    before = await session.catalogue()
    told = changes
    await session.call(asked("change"), meta=meta())
    await until(lambda: changes > told)
    after = await session.catalogue()
    assert {tool.name for tool in after.tools} - {tool.name for tool in before.tools} == {"brand_new"}
    assert after.hash != before.hash


@pytest.mark.parametrize("mode", ["deaf", "deaf,noisy", "deaf,mute"])
async def test_a_hanging_server_delays_the_shutdown_by_less_than_5_seconds(
    open_box: Opener, faulty: Faulty, mode: str
) -> None:
    box = open_box(faulty.config(mode=mode, start_timeout=1.0))
    await box.settled()
    await until(lambda: bool(faulty.seen("start")))
    pid = faulty.seen("start")[0]["pid"]
    began = time.monotonic()
    await box.close()
    assert time.monotonic() - began < CLOSE_S + SLACK_S
    await until(lambda: not _is_alive(pid))


async def test_calls_after_the_close_are_error_results(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    session = await with_catalogue(box.session(1, "alpha", ""))
    await box.close()
    result = await session.call(asked("echo", text="x"), meta=meta())
    assert result.is_error
    assert not result.is_unknown
    assert "upstream faulty is not available: it is closed" in result.content


async def test_each_mysis_has_its_own_process_where_asked(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(session=Sharing.PER_MYSIS))
    names = ("alpha", "beta", "gamma")
    sessions = {name: box.session(number, name, "") for number, name in enumerate(names)}
    await sessions["alpha"].catalogue()
    pids = [(await sessions[name].call(asked("pid"), meta=meta(name))).content for name in (*names, *names)]
    assert pids[:3] == pids[3:]
    assert len(set(pids)) == 3
    assert len(faulty.seen("start")) == 3, "the session that read the tools serves the first mysis"
    await sessions["beta"].close()
    await until(lambda: box.status()[0].sessions == 2)


async def test_at_most_max_sessions_are_open_and_the_idlest_gives_way(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(session=Sharing.PER_MYSIS, max_sessions=2))
    session = await with_catalogue(box.session(1, "alpha", ""))
    first = (await session.call(asked("pid"), meta=meta("alpha"))).content
    await session.call(asked("pid"), meta=meta("beta"))
    await session.call(asked("pid"), meta=meta("gamma"))
    assert box.status()[0].sessions == 2
    assert (await session.call(asked("pid"), meta=meta("alpha"))).content != first


async def test_a_mysis_waits_for_a_session_while_all_are_in_use(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(session=Sharing.PER_MYSIS, max_sessions=1))
    session = await with_catalogue(box.session(1, "alpha", ""))
    first, second = await asyncio.gather(
        session.call(asked("sleep", seconds=0.2), meta=meta("alpha")), session.call(asked("whoami"), meta=meta("beta"))
    )
    assert not first.is_error
    assert json.loads(second.content) == {"mysis": "beta"}


async def test_an_idle_session_of_a_mysis_is_closed_and_opened_again(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config(session=Sharing.PER_MYSIS, idle_close=0.2))
    session = await with_catalogue(box.session(1, "alpha", ""))
    first = (await session.call(asked("pid"), meta=meta())).content
    await until(lambda: box.status()[0].sessions == 0)
    assert {tool.name for tool in (await session.catalogue()).tools} >= {"echo"}, "the tools stay known"
    assert (await session.call(asked("pid"), meta=meta())).content != first


async def test_every_page_of_the_tools_is_read(open_box: Opener, faulty: Faulty) -> None:
    whole = await open_box(faulty.config()).session(1, "alpha", "").catalogue()
    paged = await open_box(faulty.config(mode="pages")).session(1, "alpha", "").catalogue()
    assert [tool.name for tool in paged.tools] == [tool.name for tool in whole.tools]


async def test_a_ping_of_a_server_that_is_gone_raises(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(faulty.config())
    await box.settled()
    assert await box.upstream("faulty").ping() > 0
    await box.close()
    with pytest.raises(UpstreamLost, match="no session is open"):
        await box.upstream("faulty").ping()


async def test_every_call_names_its_mysis(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    assert json.loads((await session.call(asked("whoami"), meta=meta("beta"))).content) == {"mysis": "beta"}


async def test_a_lone_surrogate_in_an_argument_breaks_no_session(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    result = await session.call(AnswerCall("echo", '{"text": "a\\ud800b"}'), meta=meta())
    assert result.content == "a\ufffdb"
    assert len(faulty.seen("start")) == 1


async def test_the_environment_and_headers_never_reach_a_repr_or_an_error(open_box: Opener, faulty: Faulty) -> None:
    config = faulty.config(env={"TOKEN": "canary-token-1"}, mode="deny", retries=0)
    box = open_box(config)
    await box.settled()
    assert "canary-token-1" not in repr(config) + repr(box.status())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
