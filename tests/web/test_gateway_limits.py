"""What the gateway does not let through: budgets, holds, tokens, hosts, bodies."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.openai_server import Fail, Say
from tests.web.gateway_rig import MARK, Rig, Vendor, rig
from zoea.llm.prices import PriceList
from zoea.model.enums import ApprovalAnswer, DeliveryMode, MysisState
from zoea.model.errors import StoreError, StoreFull
from zoea.model.status import StatusWord
from zoea.swarm.services import RETRY_DISK_S
from zoea.web import gateway, gateway_requests
from zoea.web.gateway import ROUTES
from zoea.web.gateway_answers import AnswerReader


def ore() -> Vendor:
    return Vendor(otherwise=lambda _: Say("ore"))


def copy_database(folder: Path, to: Path) -> None:
    for file in folder.glob("zoea.db*"):
        (to / file.name).write_bytes(file.read_bytes())


def find_files_with(folder: Path, data: bytes) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and data in file.read_bytes()]


def status_of(r: Rig) -> StatusWord:
    return r.s.commander.swarm.live_view.freeze(r.mysis_id).status


async def test_a_budget_stops_the_agent_in_the_middle(tmp_path: Path) -> None:
    budget = {"max_output_tokens": 100, "mysis": 20_000, "enforcement": "hard"}
    async with rig(tmp_path, server=ore(), settings={"budget": budget}) as r:
        answers = [await r.chat("look " * 4_000, max_tokens=100) for _ in range(5)]
        statuses = [status for status, _ in answers]
        assert statuses[0] == 200
        assert 402 in statuses
        refusal = next(said for status, said in answers if status == 402)["error"]
        assert refusal["message"].startswith("Zoea: Mysis budget exceeded: ")
        assert (refusal["type"], refusal["code"]) == ("insufficient_quota", "over_budget")
        await r.s.until(lambda: r.s.state() is MysisState.STOPPED)
        mysis = r.s.commander.swarm.runner("alpha").mysis
        assert mysis.state_reason == "budget"
        assert mysis.failure is not None
        assert "Mysis budget exceeded" in mysis.failure.title
        assert (await r.chat())[0] == 403
        spent = await r.s.value("SELECT used_tokens + reserved_tokens FROM spend WHERE scope = 'mysis'")
        assert spent <= 20_000


async def test_a_refusal_says_that_the_client_should_not_try_again(tmp_path: Path) -> None:
    budget = {"max_output_tokens": 100, "mysis": 20_000, "enforcement": "hard"}
    async with rig(tmp_path, server=ore(), settings={"budget": budget}) as r:
        body = {"model": "m", "max_tokens": 25_000, "messages": [{"role": "user", "content": MARK}]}
        async with r.http.post(f"{r.access.openai_url}/chat/completions", json=body) as reply:
            assert (reply.status, reply.headers["x-should-retry"]) == (402, "false")


@pytest.mark.parametrize("wish", [25_000, 10**12])
async def test_a_wish_for_a_long_answer_holds_no_swarm(tmp_path: Path, wish: int) -> None:
    budget = {"max_output_tokens": 100, "swarm_per_day": 20_000, "swarm_enforcement": "hard"}
    async with rig(tmp_path, server=ore(), settings={"budget": budget}, has_turn=False) as r:
        asked = asyncio.create_task(r.chat(max_tokens=wish))
        await r.s.until(lambda: asked.done() or r.s.commander.swarm.hold_switch.swarm)
        status, said = await asked
        assert (status, said["error"]["code"]) == (402, "over_budget")
        assert "Swarm budget exceeded" in said["error"]["message"]
        assert said["error"]["message"].endswith("let its agent ask for answers of at most 100 tokens")


async def test_no_more_than_a_model_can_write_is_reserved(tmp_path: Path) -> None:
    server = ore()
    async with rig(tmp_path, server=server, settings={"budget": {"swarm_per_day": "none"}}, has_turn=False) as r:
        assert (await r.chat(max_tokens=10**12))[0] == 200
        [row] = await r.s.rows("SELECT reserved_tokens FROM request")
        assert row["reserved_tokens"] < gateway_requests.MOST_ANSWER + 1_000


async def test_a_request_without_a_limit_counts_with_that_of_the_settings_until_it_is_answered(tmp_path: Path) -> None:
    server = ore()
    budget = {"max_output_tokens": 3_000, "mysis": 20_000, "enforcement": "hard"}
    spend = "SELECT used_tokens, reserved_tokens FROM spend WHERE scope = 'mysis'"
    async with rig(tmp_path, server=server, settings={"budget": budget}, has_turn=False) as r:
        server.gate.clear()
        asking = asyncio.create_task(r.chat())
        await r.s.until(lambda: bool(server.asked))
        [row] = await r.s.rows(spend)
        assert row["reserved_tokens"] > 3_000
        server.gate.set()
        assert (await asking)[0] == 200
        await r.settled()
        [row] = await r.s.rows(spend)
        assert 0 < row["used_tokens"] < 1_000
        assert row["reserved_tokens"] == 0


async def test_requests_at_once_count_together_for_the_budget_of_their_turn(tmp_path: Path) -> None:
    server = ore()
    budget = {"max_output_tokens": 100, "token_budget_per_task": 20_000, "enforcement": "hard"}
    async with rig(tmp_path, server=server, settings={"budget": budget}) as r:
        server.gate.clear()
        both = [asyncio.create_task(r.chat(str(number), max_tokens=12_000)) for number in range(2)]
        done, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        server.gate.set()
        await asyncio.wait(waiting)
        assert [task.result()[0] for task in done] == [402]
        assert "Task budget exceeded" in done.pop().result()[1]["error"]["message"]


async def test_a_model_without_a_price_is_refused_under_a_budget_of_money(tmp_path: Path) -> None:
    budget = {"max_output_tokens": 100, "mysis_money": 1.0, "enforcement": "hard"}
    prices = PriceList(tmp_path / "prices.toml", is_free=lambda _name, model: False)
    async with rig(tmp_path, server=ore(), settings={"budget": budget}, prices=prices, has_turn=False) as r:
        status, said = await r.chat()
        assert status == 402
        assert "the price of reef-1 is not known" in said["error"]["message"]


async def test_the_price_of_an_answer_is_stored(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('[model."reef-1"]\ninput = 10\noutput = 100\n')
    async with rig(tmp_path, server=ore(), prices=PriceList(tmp_path / "prices.toml")) as r:
        assert (await r.chat())[0] == 200
        [row] = await r.requests()
        assert row["cost_micros"] == 10 * row["input_tokens"] + 100 * row["output_tokens"]


async def test_a_person_is_asked_once_for_all_requests_of_a_turn(tmp_path: Path) -> None:
    budget = {"max_output_tokens": 100, "mysis": 20_000, "enforcement": "approve"}
    async with rig(tmp_path, server=ore(), settings={"budget": budget}) as r:
        both = [asyncio.create_task(r.chat(str(number), max_tokens=25_000)) for number in range(2)]
        await r.s.until(lambda: status_of(r) is StatusWord.ASKING)
        await r.s.run_due()
        assert (await r.s.commander.mysis("alpha")).text.startswith("asks: go on? Mysis budget exceeded: ")
        [row] = await r.s.rows("SELECT id FROM approval WHERE answer IS NULL")
        await r.s.commander.answer(row["id"], ApprovalAnswer.ONCE)
        assert [(await task)[0] for task in both] == [200, 200]


async def test_a_raised_budget_answers_the_question_of_all_requests_of_a_turn(tmp_path: Path) -> None:
    settings = {"budget": {"max_output_tokens": 100}}
    async with rig(tmp_path, server=ore(), settings=settings) as r:
        await r.s.commander.configure("alpha", settings={"budget.mysis": 20_000, "budget.enforcement": "approve"})
        both = [asyncio.create_task(r.chat(str(number), max_tokens=25_000)) for number in range(2)]
        await r.s.until(lambda: status_of(r) is StatusWord.ASKING)
        await r.s.run_due()
        await r.s.commander.configure("alpha", settings={"budget.mysis": 900_000})
        assert [(await task)[0] for task in both] == [200, 200]
        assert await r.s.commander.approvals() == ()


async def test_a_held_request_waits_and_goes_when_the_hold_is_lifted(tmp_path: Path) -> None:
    server = ore()
    async with rig(tmp_path, server=server) as r:
        await r.s.commander.hold(True)
        asked = asyncio.create_task(r.chat())
        await r.s.run_due()
        assert server.asked == []
        assert status_of(r) is StatusWord.HELD
        await r.s.commander.hold(False)
        assert (await asked)[0] == 200


async def test_a_budget_raised_during_a_hold_counts_for_the_request_that_waits(tmp_path: Path) -> None:
    async with rig(tmp_path, server=ore(), settings={"budget": {"max_output_tokens": 100}}) as r:
        await r.s.commander.configure("alpha", settings={"budget.mysis": 20_000, "budget.enforcement": "hard"})
        await r.s.commander.hold(True)
        asked = asyncio.create_task(r.chat(max_tokens=25_000))
        await r.s.until(lambda: status_of(r) is StatusWord.HELD)
        await r.s.run_due()
        await r.s.commander.configure("alpha", settings={"budget.mysis": 900_000})
        await r.s.commander.hold(False)
        assert (await asked)[0] == 200


async def test_a_request_counts_for_the_turn_that_is_open_when_it_is_reserved(tmp_path: Path) -> None:
    async with rig(tmp_path, server=ore()) as r:
        assert (await r.chat())[0] == 200
        await r.s.commander.hold(True)
        asked = asyncio.create_task(r.chat())
        await r.s.run_due()
        await r.s.commander.send("alpha", "something else", mode=DeliveryMode.INTERRUPT)
        await r.s.until(lambda: not r.s.commander.swarm.live_view.row(r.mysis_id).in_turn)
        await r.s.commander.hold(False)
        assert (await asked)[0] == 200
        await r.s.until(lambda: r.s.commander.swarm.live_view.row(r.mysis_id).in_turn)
        assert (await r.chat())[0] == 200
        await r.settled()
        found = await r.s.rows("SELECT turn_id FROM request WHERE state = 'settled' ORDER BY id")
        first, waited, last = [row["turn_id"] for row in found]
        assert (first, last) == (1, 2)
        assert waited != 1


async def test_a_request_that_waits_or_is_answered_is_progress_of_its_agent(tmp_path: Path) -> None:
    server = ore()
    async with rig(tmp_path, server=server, concurrency=1, has_turn=False) as r:
        row = r.s.commander.swarm.live_view.row(r.mysis_id)
        server.gate.clear()
        asked = [asyncio.create_task(r.chat(text)) for text in ("one", "two")]
        await r.s.until(lambda: row.queue_place == 1)
        assert row.asks_waiting == 1
        r.s.clock.by(60)
        server.gate.set()
        assert [(await task)[0] for task in asked] == [200, 200]
        await r.settled()
        assert (row.asks_waiting, row.asked_at) == (0, r.s.clock.uptime())


async def test_a_hold_that_lasts_is_told_as_a_limit_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_requests, "PATIENCE_S", 0.05)
    async with rig(tmp_path, server=ore()) as r:
        await r.s.commander.hold(True)
        body = {"model": "m", "messages": [{"role": "user", "content": MARK}]}
        async with r.http.post(f"{r.access.openai_url}/chat/completions", json=body) as reply:
            assert (reply.status, reply.headers["retry-after"]) == (429, "15")
            said = (await reply.json())["error"]
        assert (said["type"], said["code"]) == ("rate_limit_error", "held")
        assert "alpha still waits for the end of a hold" in said["message"]


async def test_a_full_disk_is_told_as_the_hold_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_requests, "PATIENCE_S", 0.05)
    async with rig(tmp_path, server=ore()) as r:

        async def refuse(_: object, **_options: object) -> None:
            raise StoreFull("no space")

        with monkeypatch.context() as patched:
            patched.setattr(r.s.store, "write", refuse)
            status, said = await r.chat()
        assert (status, said["error"]["code"]) == (429, "held")
        assert f"the end of a hold ({StoreFull.reason})" in said["error"]["message"]
        assert status_of(r) is StatusWord.HELD
        r.s.clock.by(RETRY_DISK_S)
        await r.s.until(lambda: not r.s.commander.swarm.hold_switch.swarm)
        monkeypatch.setattr(gateway_requests, "PATIENCE_S", 60.0)
        assert (await r.chat())[0] == 200


@pytest.mark.parametrize("method", ["read", "write"])
async def test_a_database_that_fails_is_told_in_the_form_of_the_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    server = ore()
    async with rig(tmp_path, server=server) as r:

        async def fail(*_: object, **_options: object) -> None:
            raise StoreError("the file is damaged", hint="Restore a copy.")

        with monkeypatch.context() as patched:
            patched.setattr(r.s.store, method, fail)
            status, said = await r.chat()
        assert (status, said["error"]["code"]) == (503, "not_stored")
        assert said["error"]["message"] == "Zoea: the file is damaged. Restore a copy."
        assert server.asked == []
        assert (await r.chat())[0] == 200


INTERNAL = "Zoea: an error of Zoea's own, which zoea.log describes"
FAULTS: list[tuple[str, bool]] = [
    ("/v1/chat/completions", False),
    ("/v1/messages", False),
    ("/v1/messages/count_tokens", False),
    ("/v1/responses", False),
    ("/v1/models", False),
    ("/v1/chat/completions", True),
    ("/v1/responses", True),
]


@pytest.fixture
async def mining(tmp_path: Path) -> AsyncIterator[Rig]:
    """A gateway that is asked for each case of a table."""
    async with rig(tmp_path, server=ore()) as r:
        yield r


@walk_cases(("path", "has_begun"), FAULTS)
async def test_an_error_of_zoeas_own_is_told_in_the_form_of_the_vendor(
    mining: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str, has_begun: bool
) -> None:
    r, before = mining, len(await mining.requests())
    method, body = ROUTES[path], {"model": "m", "stream": has_begun, "messages": [], "input": MARK}

    def fail(*_: object, **_options: object) -> None:
        raise KeyError("a mistake")

    with monkeypatch.context() as patched:
        if has_begun:
            patched.setattr(AnswerReader, "feed", fail)
        else:
            patched.setattr(gateway_requests, "build_profile", fail)
            patched.setattr(gateway, "build_profile", fail)
        async with r.http.request(method, f"{r.access.anthropic_url}{path}", json=body) as reply:
            status, text = reply.status, await reply.text()
    said = json.loads(text.rpartition("data: ")[2]) if has_begun else json.loads(text)
    assert status == (200 if has_begun else 500)
    assert said.get("error", said)["message"] == INTERNAL
    assert said.get("type") == ("error" if "messages" in path or (has_begun and "responses" in path) else None)
    assert [one.levelname for one in caplog.records if "an error of Zoea's own" in one.message] == ["ERROR"]
    caplog.clear()
    assert (await r.chat())[0] == 200
    new = (await r.requests())[before:]
    assert [row["state"] for row in new] == ["estimated"] * has_begun + ["settled"]


async def test_a_body_that_breaks_off_is_refused(tmp_path: Path) -> None:
    async with rig(tmp_path, server=ore(), has_turn=False) as r:
        reader, writer = await asyncio.open_connection("127.0.0.1", r.gateway.port)
        path = r.access.openai_url.partition(f":{r.gateway.port}")[2]
        head = f"POST {path}/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode() + b"zz\r\n")
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 10)
        writer.close()


async def test_the_day_of_the_swarm_holds_it(tmp_path: Path) -> None:
    budget = {"max_output_tokens": 100, "swarm_per_day": 900, "swarm_enforcement": "hard"}
    async with rig(tmp_path, server=ore(), settings={"budget": budget}, has_turn=False) as r:
        asked = asyncio.create_task(r.chat("look " * 2_000))
        await r.s.until(lambda: r.s.commander.swarm.hold_switch.swarm)
        assert r.s.commander.swarm.hold_switch.reason.startswith("Swarm budget: ")
        asked.cancel()


async def test_requests_of_one_model_wait_for_its_place(tmp_path: Path) -> None:
    server = ore()
    async with rig(tmp_path, server=server, concurrency=1, has_turn=False) as r:
        server.gate.clear()
        first = asyncio.create_task(r.chat("one"))
        await r.s.until(lambda: len(server.asked) == 1)
        second = asyncio.create_task(r.chat("two"))
        await r.s.until(lambda: r.s.commander.swarm.live_view.row(r.mysis_id).queue_place == 1)
        assert len(server.asked) == 1
        server.gate.set()
        assert [(await first)[0], (await second)[0]] == [200, 200]


async def test_reservations_of_a_killed_process_are_settled_at_the_next_start(tmp_path: Path) -> None:
    server = ore()
    async with rig(tmp_path, server=server) as r:
        server.gate.clear()
        asked = asyncio.create_task(r.chat())
        await r.s.until(lambda: len(server.asked) == 1)
        copy = tmp_path / "killed"
        copy.mkdir()
        copy_database(tmp_path, copy)
        server.gate.set()
        await asked
    async with rig(copy, server=ore(), has_turn=False, makes=False) as r:
        states = await r.s.rows("SELECT state FROM request ORDER BY id")
        assert {row["state"] for row in states} <= {"estimated", "settled"}
        assert await r.s.value("SELECT sum(reserved_tokens) FROM spend") == 0


async def test_a_settlement_that_a_loss_of_power_takes_is_made_at_the_next_start_by_the_estimate(
    tmp_path: Path,
) -> None:
    server = ore()
    async with rig(tmp_path, server=server) as r:
        server.gate.clear()
        asked = asyncio.create_task(r.chat("look " * 400))
        await r.s.until(lambda: len(server.asked) == 1)
        synced = (tmp_path / "zoea.db-wal").stat().st_size  # the reservation waits for the disk, its settlement not
        server.gate.set()
        await asked
        await r.settled()
        [request] = await r.requests()
        assert request["state"] == "settled"
        copies = [tmp_path / "killed", tmp_path / "without-power"]
        for copy in copies:
            copy.mkdir()
            copy_database(tmp_path, copy)
    with (copies[1] / "zoea.db-wal").open("r+b") as log:
        log.truncate(synced)
    found = []
    for copy in copies:
        async with rig(copy, server=ore(), has_turn=False, makes=False) as r:
            [row] = await r.s.rows("SELECT * FROM request WHERE id = ?", request["id"])
            assert await r.s.value("SELECT sum(reserved_tokens) FROM spend") == 0
            used = await r.s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'")
            own = await r.s.value("SELECT estimated_tokens FROM request WHERE id <> ?", request["id"])
            found.append((row["state"], used - own))
    reported = request["input_tokens"] + request["output_tokens"]
    assert found == [("settled", reported), ("estimated", request["estimated_tokens"])]


async def test_a_closed_access_breaks_its_requests_off(tmp_path: Path) -> None:
    server = Vendor(Say("ore " * 40, stall_after=6))
    async with rig(tmp_path, server=server) as r:
        body = {"model": "m", "messages": [{"role": "user", "content": MARK}], "stream": True}
        async with r.http.post(f"{r.access.openai_url}/chat/completions", json=body) as reply:
            await reply.content.readany()
            await r.gateway.close(r.mysis_id)
        [row] = await r.requests()
        assert row["state"] == "estimated"
        assert (await r.chat())[0] == 401
        assert (await r.gateway.open(r.mysis_id)).token != r.access.token


class TestTokens:
    async def test_the_token_may_stand_in_the_head(self, tmp_path: Path) -> None:
        async with rig(tmp_path, server=ore(), has_turn=False) as r:
            address = f"http://127.0.0.1:{r.gateway.port}/v1/chat/completions"
            body = {"model": "m", "messages": [{"role": "user", "content": MARK}]}
            for headers in ({"authorization": f"Bearer {r.access.token}"}, {"x-api-key": r.access.token}):
                async with r.http.post(address, json=body, headers=headers) as reply:
                    assert reply.status == 200

    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"x-api-key": ""}])
    async def test_none_or_an_unknown_one_opens_nothing(self, tmp_path: Path, headers: dict[str, str]) -> None:
        async with rig(tmp_path, has_turn=False) as r:
            address = f"http://127.0.0.1:{r.gateway.port}/v1/chat/completions"
            async with r.http.post(address, json={}, headers=headers) as reply:
                assert reply.status == 401
            async with r.http.post(f"http://127.0.0.1:{r.gateway.port}/wrong/v1/models", headers=headers) as reply:
                assert reply.status == 401

    async def test_that_of_another_mysis_is_not_taken_beside_its_own(self, tmp_path: Path) -> None:
        async with rig(tmp_path, server=ore(), has_turn=False) as r:
            await r.s.commander.create("beta", start=True)
            other = await r.gateway.open(r.s.commander.swarm.runner("beta").mysis.id)
            status, _ = await r.post("/chat/completions", {}, headers={"x-api-key": other.token})
            assert status == 401
            assert (await r.chat())[0] == 200
            assert await r.s.value("SELECT count(*) FROM request WHERE mysis_id <> ?", r.mysis_id) == 0

    async def test_it_is_in_no_file_of_the_workspace(self, tmp_path: Path) -> None:
        async with rig(tmp_path, server=ore()) as r:
            await r.chat()
            token = r.access.token.encode()
        assert not find_files_with(tmp_path, token)


class TestListener:
    async def test_it_listens_on_loopback_alone(self, tmp_path: Path) -> None:
        async with rig(tmp_path, has_turn=False) as r:
            assert r.gateway._runner is not None
            assert [address[0] for address in r.gateway._runner.addresses] == ["127.0.0.1"]
            with socket.socket() as probe, pytest.raises(OSError, match="refused"):
                probe.connect(("127.0.0.2", r.gateway.port))

    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "evil.example"},
            {"host": "127.0.0.1:x"},
            {"host": "localhost:99999"},
            {"origin": "https://evil.example"},
        ],
    )
    async def test_pages_of_other_names_are_refused(self, tmp_path: Path, headers: dict[str, str]) -> None:
        async with rig(tmp_path, has_turn=False) as r:
            assert (await r.post("/chat/completions", {}, headers=headers))[0] == 403


WHOLE = json.dumps({"choices": [{"index": 0, "message": {"content": "ore"}, "finish_reason": "stop"}]})
BODIES: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"nonsense", 400),
    (b"[]", 400),
    (b"null", 400),
    (b'{"model": 5, "messages": []}', 400),
    (b'{"model": "' + b"m" * 1_001 + b'", "messages": []}', 400),
    (b'{"model": "m"}', 400),
    (b'{"model": "m", "messages": "hi"}', 400),
    (b"[" * 100_000, 400),
    (b'{"model": "m", "messages": [' + b'{"a":' * 3_000 + b"1" + b"}" * 3_000 + b"]}", 400),
    (b'{"model": "m", "messages": [{"role": 7, "content": {"from the agent": [1]}, "tool_calls": "x"}]}', 200),
    (b'{"model": "m", "messages": [null, 3, {"role": "tool", "content": ["from the agent", null, 5]}]}', 200),
    (
        b'{"model": "m", "messages": [{"role": "user", "content": "from the agent \\ud800\\u0000"}], "tools": [1, {}]}',
        200,
    ),
    (b'{"model": "m", "max_tokens": -5, "n": "many", "messages": [{"content": "from the agent"}]}', 200),
    (b'{"model": "a", "model": "b", "messages": [{"content": "from the agent"}]}', 200),
    (b'{"model": "m", "max_tokens": 5, "messages": [{"content": "from the agent"}], "max_tokens": 6}', 200),
    (b'{"mod\\u0065l": "b", "messages": [{"content": "from the agent", "model": "b"}]}', 200),
]


UNSUPPORTED: list[tuple[str, dict[str, Any]]] = [
    ("/responses", {"previous_response_id": "resp_1"}),
    ("/responses", {"background": True}),
    ("/responses", {"prompt": {"id": "pmpt_1"}}),
    ("/responses", {"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": MARK}]}),
    ("/responses", {"tools": [{"type": "image_generation", "model": "gpt-image-1"}]}),
    ("/responses", {"input": [{"content": [{"type": "input_file", "file_id": "file-1"}, {"text": MARK}]}]}),
    ("/responses", {"input": [{"output": [{"type": "input_image", "file_id": "file-1"}]}, {"content": MARK}]}),
    ("/chat/completions", {"messages": [{"content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}),
    ("/messages", {"container": "container_1", "max_tokens": 5}),
    (
        "/messages",
        {
            "max_tokens": 5,
            "messages": [
                {"content": [{"type": "tool_result", "content": [{"source": {"type": "file", "file_id": "file_1"}}]}]}
            ],
        },
    ),
    ("/responses", {"tools": [{"type": "namespace", "tools": [{"type": "image_generation", "model": "gpt-image-1"}]}]}),
    (
        "/responses",
        {"input": [{"type": "additional_tools", "tools": [{"type": "image_generation", "model": "other"}]}]},
    ),
    ("/chat/completions", {"plugins": [{"id": "fusion", "analysis_models": ["other"]}]}),
    ("/chat/completions", {"plugins": [{"id": "auto-router", "allowed_models": ["other"]}]}),
    ("/chat/completions", {"tools": [{"type": "openrouter:advisor", "parameters": {"models": ["other"]}}]}),
    ("/messages", {"max_tokens": 5, "tools": [{"type": "advisor_1", "name": "advisor", "fallback_models": ["other"]}]}),
    ("/chat/completions", {"models": ["other"], "route": "fallback"}),
    ("/chat/completions", {"fallbacks": [{"model": "other"}]}),
    ("/chat/completions", {"preset": "other"}),
    ("/chat/completions", {"extra_body": {"model": "other"}}),
    ("/chat/completions", {"plugins": [{"id": "fusion", "model": "other"}]}),
    ("/chat/completions", {"tools": [{"type": "openrouter:advisor", "parameters": {"model": "other"}}]}),
    ("/chat/completions", {"Model": "other"}),
    ("/chat/completions", {"\u017ftream": True}),
    ("/chat/completions", {"service_tier": "priority"}),
    *(
        ("/chat/completions", {"provider": one})
        for one in (
            *({"order": ["dear"]}, {"only": ["dear"]}, {"ignore": ["cheap"]}, {"sort": "throughput"}, "dear", ["dear"]),
            *(
                {"sort": {"by": "latency"}},
                {"quantizations": ["fp16"]},
                {"max_price": {"prompt": 1}, "order": ["dear"]},
            ),
        )
    ),
    ("/responses", {"provider": {"order": ["dear"]}}),
    ("/messages", {"provider": {"only": ["dear"]}, "max_tokens": 5}),
    ("/chat/completions", {"providerOptions": {"gateway": {"models": ["other"], "order": ["dear"]}}}),
    ("/chat/completions", {"custom_llm_provider": "dear"}),
    ("/chat/completions", {"api_base": "https://dear.example"}),
    ("/chat/completions", {"base_url": "https://dear.example"}),
    ("/chat/completions", {"user_config": {"list": ["dear"]}}),
    ("/chat/completions", {"n": 50}),
    ("/chat/completions", {"n": "50"}),
    ("/chat/completions", {"best_of": 2}),
    ("/chat/completions", {"n_cmpl": 2}),
    ("/chat/completions", {"max_tokens": 5, "n_predict": -1}),
    ("/messages", {"inference_geo": "us", "max_tokens": 5}),
    ("/responses", {"input": [{"id": "msg_1"}, {"role": "user", "content": MARK}]}),
    ("/responses", {"input": [{"id": "msg_1", "type": None}, {"role": "user", "content": MARK}]}),
    ("/responses", {"input": [{"type": "computer_call_output", "output": {"file_id": "file-1"}}, {"content": MARK}]}),
    (
        "/chat/completions",
        {"messages": [{"content": [{"type": "file", "file": {"file_id": "file-1"}}]}], "input": [{"content": MARK}]},
    ),
    ("/chat/completions", {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}, {"content": MARK}]}),
    (
        "/messages",
        {
            "max_tokens": 5,
            "messages": [
                {
                    "content": [
                        {
                            "type": "document",
                            "source": {
                                "type": "content",
                                "content": [{"source": {"type": "file", "file_id": "file_1"}}],
                            },
                        }
                    ]
                }
            ],
        },
    ),
]
"""What an agent may add to a request that makes it another one than Zoea shows and counts."""
FUNCTION = {"type": "function", "function": {"name": "dig", "parameters": {"model": {"type": "string"}}}}
LITTLE = {"budget": {"max_output_tokens": 100, "mysis": 20_000, "enforcement": "hard"}}
RESERVED: list[bytes] = [
    b', "max_tokens": 90000',
    b', "max_tokens": 5, "max_completion_tokens": 90000',
    b', "max_completion_tokens": 5, "max_tokens": 90000',
    b', "max_completion_tokens": null, "max_tokens": 90000',
    b', "max_tokens": "90000"',
    b', "max_tokens": 9e4',
    b', "max_tokens": 90000000000',
]


class TestBodies:
    async def test_a_hostile_one_is_refused_or_goes_to_the_model_of_the_mysis(self, tmp_path: Path) -> None:
        server = Vendor(otherwise=lambda _: Fail(200, WHOLE))
        async with rig(tmp_path, server=server, has_turn=False) as r:
            for body, status in BODIES:
                server.received.clear()
                async with r.http.post(f"{r.access.openai_url}/chat/completions", data=body) as reply:
                    said = await reply.text()
                case = body[:200], said
                assert reply.status == status, case
                for sent in server.asked:
                    assert sent.json["model"] == "reef-1", case
                    assert all(sent.body.count(key) <= 1 for key in (b'"max_tokens"', b'"messages"')), case
                    assert b'"b"' not in sent.body.replace(b'"model": "b"}]', b""), case
                if status == 400:
                    assert json.loads(said)["error"]["message"].startswith("Zoea: "), case
                await r.settled()
                assert await r.s.value("SELECT count(*) FROM request WHERE state = 'reserved'") == 0, case

    async def test_one_that_is_too_large_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gateway, "MAX_BODY", 10_000)
        async with rig(tmp_path, has_turn=False) as r:
            status, said = await r.post("/messages", {"model": "m", "text": "x" * 20_000})
            assert (status, said["error"]["type"]) == (413, "request_too_large")

    async def test_a_packed_one_is_refused(self, tmp_path: Path) -> None:
        async with (
            rig(tmp_path, has_turn=False) as r,
            r.http.post(f"{r.access.openai_url}/responses", data=b"x", headers={"content-encoding": "br"}) as reply,
        ):
            assert reply.status in (400, 415)

    async def test_one_that_cannot_be_shown_and_counted_or_asks_another_model_is_refused(self, tmp_path: Path) -> None:
        server = Vendor(otherwise=lambda _: Say("ore"))
        async with rig(tmp_path, server=server, has_turn=False) as r:
            for path, more in UNSUPPORTED:
                field = {"input": MARK} if path == "/responses" else {"messages": [{"role": "user", "content": MARK}]}
                status, said = await r.post(path, {"model": "m", **field, **more})
                case = path, more, said
                assert status == 400, case
                key = next(iter(more))
                assert str(said["error"]["message"]).startswith(
                    ("Zoea: file_id", "Zoea: item_reference", "Zoea: tools", "Zoea: n_predict", f"Zoea: {key}:")
                ), case
                assert not server.asked, case

    async def test_the_largest_answer_that_a_server_may_read_in_it_is_reserved(self, tmp_path: Path) -> None:
        server = Vendor(otherwise=lambda _: Say("ore"))
        async with rig(tmp_path, server=server, settings=LITTLE, has_turn=False) as r:
            for more in RESERVED:
                content = b'{"model": "m", "messages": [{"role": "user", "content": "from the agent"}]' + more + b"}"
                async with r.http.post(f"{r.access.openai_url}/chat/completions", data=content) as reply:
                    said = await reply.json()
                assert (reply.status, said["error"]["code"]) == (402, "over_budget"), (more, said)
                assert not server.asked, more

    @pytest.mark.parametrize(
        "more",
        [
            {"n": 1, "service_tier": "auto", "models": [], "tools": [FUNCTION]},
            {"provider": {"sort": "price", "data_collection": "deny", "zdr": True, "order": []}},
        ],
    )
    async def test_words_that_ask_no_other_model_pass(self, tmp_path: Path, more: dict[str, Any]) -> None:
        async with rig(tmp_path, server=Vendor(otherwise=lambda _: Say("ore")), has_turn=False) as r:
            assert (await r.chat(**more))[0] == 200

    async def test_the_bytes_of_a_picture_are_not_recorded(self, tmp_path: Path) -> None:
        async with rig(tmp_path, server=ore(), has_turn=False) as r:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 50_000}"}}
            content = [{"type": "text", "text": MARK}, picture]
            body = {"model": "m", "messages": [{"role": "user", "content": content}]}
            assert (await r.post("/chat/completions", body))[0] == 200
            [row] = await r.s.rows("SELECT length(plan) AS size, estimated_tokens FROM request")
            assert row["size"] < 1_000
            assert 1_600 < row["estimated_tokens"] < 1_700

    async def test_too_many_requests_of_one_mysis_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gateway, "MAX_AT_ONCE", 1)
        server = ore()
        async with rig(tmp_path, server=server, has_turn=False) as r:
            server.gate.clear()
            first = asyncio.create_task(r.chat())
            await r.s.until(lambda: len(server.asked) == 1)
            assert (await r.chat())[0] == 429
            server.gate.set()
            assert (await first)[0] == 200
