"""Zoea creates, uses and stores accounts. No secret reaches a mysis, a log or a repr."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.toolboxes import Faulty, asked, meta, with_catalogue
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.model.enums import MASK
from zoea.model.errors import SettingsError, ToolError, UpstreamLost
from zoea.model.request import AnswerCall
from zoea.process.clock import read_uptime
from zoea.settings.endpoints import LoginSettings
from zoea.tools import Toolbox, UpstreamConfig, accounts_login
from zoea.tools.accounts_login import Caller, UpstreamAccounts

CANARIES = ("canary-password", "canary-session")


class Keeper:
    """An account store that remembers the order of things."""

    def __init__(self, **kept: dict[str, str]) -> None:
        self.kept: dict[str, dict[str, str]] = dict(kept)
        self.loads = 0
        self.saves = 0

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        self.loads += 1
        return self.kept.get(uid)

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self.saves += 1
        self.kept[uid] = dict(fields)


def _world(faulty: Faulty, login: LoginSettings | None = None, **more: Any) -> UpstreamConfig:
    return faulty.config(inject={"session_id": "account"}, login=login or LoginSettings(), **more)


async def test_the_model_sees_neither_the_argument_nor_the_login_tools(open_box: Opener, faulty: Faulty) -> None:
    session = open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", "")
    catalogue = await session.catalogue()
    balance = catalogue.find("balance")
    assert balance is not None
    assert balance.input_schema["properties"] == {}
    assert "required" not in balance.input_schema
    assert catalogue.find("login") is None
    assert catalogue.find("register") is None
    assert (await session.call(asked("login", account="a", password="b"), meta=meta())).is_error


async def test_the_first_call_makes_an_account_keeps_it_and_logs_in(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    session = await with_catalogue(open_box(_world(faulty), accounts=keeper).session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta())
    assert json.loads(result.content) == {"account": "alpha", "credits": 7, "session_id": MASK}
    assert keeper.kept["alpha"]["account"] == "alpha"
    assert keeper.kept["alpha"]["password"].startswith("canary-password")
    await session.call(asked("balance"), meta=meta())
    assert keeper.saves == 2, "before the registration and after its answer"
    assert len(faulty.seen("call", tool="login")) == 1


async def test_many_first_calls_together_log_in_once(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", ""))
    results = await asyncio.gather(*(session.call(asked("balance"), meta=meta()) for _ in range(8)))
    assert not any(result.is_error for result in results)
    assert len(faulty.seen("call", tool="register")) == 1
    assert len(faulty.seen("call", tool="login")) == 1


async def test_a_caller_cancelled_during_the_login_loses_no_account(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    session = await with_catalogue(open_box(_world(faulty, mode="slow"), accounts=keeper).session(1, "alpha", ""))
    first = asyncio.create_task(session.call(asked("balance"), meta=meta()))
    await until(lambda: bool(faulty.seen("call", tool="register")))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not (await session.call(asked("balance"), meta=meta())).is_error
    assert len(faulty.seen("call", tool="register")) == 1


async def test_an_answer_to_a_registration_is_kept_although_it_comes_after_the_start_timeout(
    open_box: Opener, faulty: Faulty
) -> None:
    keeper = Keeper()
    session = await with_catalogue(
        open_box(_world(faulty, mode="slow", start_timeout=2.0), accounts=keeper).session(1, "alpha", "")
    )
    first = asyncio.create_task(session.call(asked("balance"), meta=meta(deadline_s=2.5)))
    await until(lambda: bool(faulty.seen("call", tool="register")))
    process = faulty.seen("start")[-1]["pid"]
    os.kill(process, signal.SIGSTOP)
    try:
        late = await first
    finally:
        os.kill(process, signal.SIGCONT)
    assert late.content.startswith("balance: the login did not finish within 2.5 s. Zoea waits on for the answer")
    assert json.loads((await session.call(asked("balance"), meta=meta())).content)["account"] == "alpha"
    assert keeper.kept["alpha"]["account"] == "alpha"
    assert len(faulty.seen("call", tool="register")) == 1


class ChosenPasswords:
    """Sends calls to a server whose accounts have a password of the client.

    It loses answers to registrations.
    """

    def __init__(self, lost: int = 0, is_carried_out: bool = True) -> None:
        self.players: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.lost = lost
        self.is_carried_out = is_carried_out
        self.busy: list[str] = []

    def schema(self, tool: str) -> Mapping[str, Any]:
        names = ("name", "password") if tool in ("register", "login") else ("session_id",)
        return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": [*names]}

    async def send(self, tool: str, arguments: dict[str, Any], mysis: str) -> dict[str, Any]:
        name, password = arguments["name"], arguments["password"]
        self.calls.append((tool, name))
        if tool in self.busy:
            self.busy.remove(tool)
            return _wire("the server is starting", error=True)
        if tool == "login":
            is_known = self.players.get(name) == password
            return _wire({"session_id": f"session of {name}"} if is_known else "no such player", error=not is_known)
        self.lost -= 1
        if self.lost < 0 and name in self.players:
            return _wire("name_taken", error=True)
        if self.lost < 0 or self.is_carried_out:
            self.players[name] = password
        if self.lost >= 0:
            raise ToolError("register did not answer")
        return _wire({"player_id": 7})


def _wire(value: Any, *, error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}], "isError": error}


async def _lose_a_registration(faulty: Faulty, server: ChosenPasswords, keeper: Keeper) -> UpstreamAccounts:
    """Lose the answer to a registration. Return the accounts of another process with the same keeper."""
    alpha = Caller("alpha", "alpha")
    first = UpstreamAccounts(_world(faulty), keeper, server.send, server.schema)
    with pytest.raises(ToolError, match="did not answer"):
        await first.fill_arguments(alpha, "balance", {})
    server.calls.clear()
    return UpstreamAccounts(_world(faulty), keeper, server.send, server.schema)


async def test_a_registration_without_an_answer_is_found_by_its_login_after_a_restart(faulty: Faulty) -> None:
    server, keeper = ChosenPasswords(lost=1), Keeper()
    again = await _lose_a_registration(faulty, server, keeper)
    filled, _ = await again.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert filled == {"session_id": "session of alpha"}
    assert server.calls == [("login", "alpha")]
    assert keeper.kept["alpha"] == {"name": "alpha", "password": server.players["alpha"]}


@pytest.mark.parametrize("busy", [["login"], ["login", "register"], ["login", "register", "login"]])
async def test_a_server_that_is_not_ready_yet_loses_no_registration_without_an_answer(
    faulty: Faulty, busy: list[str]
) -> None:
    server, keeper = ChosenPasswords(lost=1), Keeper()
    await _lose_a_registration(faulty, server, keeper)
    server.busy = busy
    filled: dict[str, Any] = {}
    while not filled:
        again = UpstreamAccounts(_world(faulty), keeper, server.send, server.schema)
        with suppress(ToolError):
            filled, _ = await again.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert filled == {"session_id": "session of alpha"}
    assert keeper.kept["alpha"] == {"name": "alpha", "password": server.players["alpha"]}
    assert [*server.players] == ["alpha"]


async def test_a_registration_that_was_not_carried_out_is_made_again_under_its_name(faulty: Faulty) -> None:
    server, keeper = ChosenPasswords(lost=1, is_carried_out=False), Keeper()
    again = await _lose_a_registration(faulty, server, keeper)
    await again.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert server.calls == [("login", "alpha"), ("register", "alpha"), ("login", "alpha")]
    assert keeper.kept["alpha"] == {"name": "alpha", "password": server.players["alpha"], "player_id": "7"}


async def test_a_name_that_may_be_ones_own_and_is_taken_is_said_in_the_log(
    faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    server, keeper = ChosenPasswords(lost=1, is_carried_out=False), Keeper()
    again = await _lose_a_registration(faulty, server, keeper)
    server.players["alpha"] = "another's password"
    await again.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert server.calls[-2:] == [("register", "alpha-2"), ("login", "alpha-2")]
    assert "the name alpha on faulty is taken, maybe by a registration of Zoea that got no answer" in caplog.text
    assert server.players["alpha-2"] not in caplog.text


async def test_a_registration_that_is_refused_leaves_nothing_stored(faulty: Faulty) -> None:
    server, keeper = ChosenPasswords(), Keeper()
    server.players |= dict.fromkeys(("alpha", *(f"alpha-{number}" for number in range(2, 6))), "")
    accounts = UpstreamAccounts(_world(faulty), keeper, server.send, server.schema)
    with pytest.raises(ToolError, match="the names are taken"):
        await accounts.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert keeper.kept == {"alpha": {}}


async def test_an_account_that_a_server_does_not_know_is_kept_until_there_is_another(faulty: Faulty) -> None:
    stored = {"name": "alpha", "password": "from before"}
    world = _world(faulty, LoginSettings(unknown=("no such player",)))
    server, keeper = ChosenPasswords(), Keeper(alpha=stored)
    server.players |= dict.fromkeys(("alpha", *(f"alpha-{number}" for number in range(2, 6))), "another's")
    for _ in range(2):
        accounts = UpstreamAccounts(world, keeper, server.send, server.schema)
        with pytest.raises(ToolError, match="the names are taken"):
            await accounts.fill_arguments(Caller("alpha", "alpha"), "balance", {})
        assert keeper.kept == {"alpha": stored}


@pytest.mark.parametrize("is_known_again", [True, False])
async def test_an_account_is_kept_beside_the_registration_that_was_to_replace_it(
    faulty: Faulty, is_known_again: bool
) -> None:
    stored = {"name": "alpha", "password": "from before"}
    world = _world(faulty, LoginSettings(unknown=("no such player",)))
    server, keeper = ChosenPasswords(lost=1, is_carried_out=False), Keeper(alpha=stored)
    with pytest.raises(ToolError, match="did not answer"):
        await UpstreamAccounts(world, keeper, server.send, server.schema).fill_arguments(
            Caller("alpha", "alpha"), "balance", {}
        )
    server.calls.clear()
    if is_known_again:
        server.players["alpha"] = "from before"
    again = UpstreamAccounts(world, keeper, server.send, server.schema)
    filled, _ = await again.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert filled == {"session_id": "session of alpha"}
    logins = [("login", "alpha"), ("login", "alpha")]
    if is_known_again:
        assert server.calls == logins
        assert keeper.kept["alpha"] == stored
    else:
        assert server.calls == [*logins, ("register", "alpha"), ("login", "alpha")]
        assert keeper.kept["alpha"] == {"name": "alpha", "password": server.players["alpha"], "player_id": "7"}


async def test_an_account_that_is_known_again_and_cannot_be_kept_yet_can_log_in_again(faulty: Faulty) -> None:
    class Full(Keeper):
        async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
            if not self.saves:
                self.saves += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            await super().save(upstream, uid, fields)

    before = {"name": "alpha", "password": "from before"}
    server, alpha = ChosenPasswords(), Caller("alpha", "alpha")
    server.players["alpha"] = "from before"
    sent = {"name": "alpha", "password": "of no account", "zoea/unanswered": "sent"}
    keeper = Full(alpha={**sent, **{f"zoea/before/{key}": value for key, value in before.items()}})
    accounts = UpstreamAccounts(_world(faulty), keeper, server.send, server.schema)
    with pytest.raises(ToolError, match="cannot be stored"):
        await accounts.fill_arguments(alpha, "balance", {})
    filled, generation = await accounts.fill_arguments(alpha, "balance", {})
    assert filled == {"session_id": "session of alpha"}
    assert generation == 1, "0 is a call without an account, which is not repeated where its session is lost"
    assert keeper.kept["alpha"] == before


async def test_after_a_lost_session_it_logs_in_again_and_repeats_the_call(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", ""))
    await session.call(asked("balance"), meta=meta())
    await session.call(asked("lose_sessions"), meta=meta())
    results = await asyncio.gather(*(session.call(asked("balance"), meta=meta()) for _ in range(4)))
    assert not any(result.is_error for result in results)
    assert len(faulty.seen("call", tool="login")) == 2


async def test_an_account_that_the_server_has_forgotten_is_made_again(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper(alpha={"account": "alpha", "password": "canary-password-old"})
    session = await with_catalogue(open_box(_world(faulty), accounts=keeper).session(1, "alpha", ""))
    assert not (await session.call(asked("balance"), meta=meta())).is_error
    assert keeper.kept["alpha"]["password"] != "canary-password-old"


async def test_a_taken_name_is_numbered(open_box: Opener, faulty: Faulty) -> None:
    box = open_box(_world(faulty), accounts=(first := Keeper()))
    session = await with_catalogue(box.session(1, "alpha", ""))
    await session.call(asked("balance"), meta=meta())
    del first.kept["alpha"]
    box.forget("alpha")
    await session.call(asked("balance"), meta=meta())
    assert first.kept["alpha"]["account"] == "alpha-2"


async def test_a_refused_login_is_an_error_result_without_the_password(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    box = open_box(_world(faulty), accounts=keeper)
    session = await with_catalogue(box.session(1, "alpha", ""))
    await session.call(asked("balance"), meta=meta())
    keeper.kept["alpha"]["password"] = "canary-password-wrong"
    box.forget("alpha")
    result = await session.call(asked("balance"), meta=meta())
    assert result.content == f"faulty refused the login of alpha: wrong_password: {MASK}"


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "session lost at once"])
async def test_logins_without_a_session_that_lasts_are_made_ever_less_often(
    open_box: Opener, faulty: Faulty, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    keeper = Keeper(alpha={"account": "alpha", "password": "canary-password-wrong"}) if is_refused else Keeper()
    mode = "stubborn" if is_refused else "forgetful"
    session = await with_catalogue(open_box(_world(faulty, mode=mode), accounts=keeper).session(1, "alpha", ""))

    async def call_often() -> list[str]:
        return [(await session.call(asked("balance"), meta=meta())).content for _ in range(6)]

    texts = await call_often()
    assert len(faulty.seen("call", tool="login")) == 2
    assert "Zoea logs in again in 15 seconds at the earliest" in texts[-1]
    assert ("refused the login of alpha" if is_refused else "ended each session of alpha at once") in texts[-1]
    began = read_uptime()
    monkeypatch.setattr(accounts_login, "read_uptime", lambda: began + 16_000_000)
    assert "in 120 seconds" in (await call_often())[-1]
    assert len(faulty.seen("call", tool="login")) == 3


async def test_an_account_that_a_person_stores_is_used_from_the_next_login_on(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    session = await with_catalogue(open_box(_world(faulty), accounts=keeper).session(1, "alpha", ""))
    await session.call(asked("balance"), meta=meta())
    right = keeper.kept["alpha"]
    keeper.kept["alpha"] = {**right, "password": "canary-password-wrong"}
    await session.call(asked("lose_sessions"), meta=meta())
    refused = await session.call(asked("balance"), meta=meta())
    assert refused.content == f"faulty refused the login of alpha: wrong_password: {MASK}"
    keeper.kept["alpha"] = right
    assert json.loads((await session.call(asked("balance"), meta=meta())).content)["account"] == "alpha"


async def test_a_login_that_was_not_sent_is_tried_again_at_once(faulty: Faulty) -> None:
    sent: list[str] = []

    async def send(tool: str, arguments: dict[str, Any], mysis: str) -> dict[str, Any]:
        sent.append(tool)
        raise UpstreamLost("its session is lost", was_sent=False)

    schema = {"type": "object", "properties": {"account": {"type": "string"}, "session_id": {"type": "string"}}}
    accounts = UpstreamAccounts(_world(faulty), Keeper(alpha={"account": "alpha"}), send, lambda tool: schema)
    for _ in range(5):
        with pytest.raises(UpstreamLost):
            await accounts.fill_arguments(Caller("alpha", "alpha"), "balance", {})
    assert sent == ["login"] * 5


async def test_without_a_login_the_kept_fields_are_filled_in(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper(alpha={"session_id": "canary-session-kept"})
    config = faulty.config(inject={"session_id": "account"})
    box = open_box(config, accounts=keeper)
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta())
    assert result.content == f"session_lost: {MASK} is not known; log in"
    missing = await box.session(2, "beta", "").call(asked("balance"), meta=meta("beta"))
    assert missing.content == "beta has no account on faulty. Store one in the credentials."


async def test_stored_arguments_say_that_an_account_was_used_and_not_which(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", ""))
    await session.call(asked("balance"), meta=meta())
    assert json.loads(session.stored_arguments(asked("balance"))) == {"session_id": MASK}
    assert json.loads(session.stored_arguments(asked("balance", session_id="made up"))) == {"session_id": MASK}
    assert session.stored_arguments(asked("echo", text="as it is")) == '{"text": "as it is"}'
    assert session.stored_arguments(AnswerCall("balance", "{broken")) == "{broken"
    assert session.stored_arguments(AnswerCall("nothing", "{}")) == "{}"


async def test_an_argument_the_model_made_up_is_overwritten(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", ""))
    assert not (await session.call(asked("balance", session_id=MASK), meta=meta())).is_error


async def test_no_canary_reaches_results_logs_reprs_or_stored_arguments(
    open_box: Opener, faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    box: Toolbox = open_box(_world(faulty), accounts=Keeper())
    session = await with_catalogue(box.session(1, "alpha", ""))
    seen = [repr(await session.call(asked("spill"), meta=meta()))]
    await session.call(asked("lose_sessions"), meta=meta())
    seen.append(repr(await session.call(asked("balance"), meta=meta())))
    seen.append(repr(await session.call(asked("spill"), meta=meta())))
    seen.append(repr(await session.call(asked("die"), meta=meta())))
    seen.append(repr(await session.call(asked("balance"), meta=meta())))
    login = faulty.seen("call", tool="balance")[0]["arguments"]["session_id"]
    seen.append(session.stored_arguments(asked("echo", text=f"I heard {login}")))
    seen += [repr(box.status()), repr(session), caplog.text]
    for text in seen:
        assert not any(canary in text for canary in CANARIES), text
    assert MASK in seen[0]


@pytest.mark.parametrize(
    ("login", "message"),
    [
        (LoginSettings(register=""), "alpha has no account on faulty. Store one in the credentials."),
        (LoginSettings(register="refuse"), "faulty refused refuse: out of order (code -32000)"),
        (LoginSettings(register="garbage"), "faulty made an account for alpha but gave no fields"),
        (LoginSettings(register="fail"), 'faulty made no account for alpha: cannot do {"name": "alpha"}'),
        (LoginSettings(login="whoami"), "faulty gave no session_id for the account of alpha"),
        (LoginSettings(register="hang"), "balance: the login did not finish within 1 s"),
    ],
)
async def test_an_account_that_cannot_be_made_says_why(
    open_box: Opener, faulty: Faulty, login: LoginSettings, message: str
) -> None:
    config = faulty.config(inject={"session_id": "account"}, login=login)
    session = await with_catalogue(open_box(config, accounts=Keeper()).session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta(deadline_s=1.0))
    assert result.is_error
    assert result.content.startswith(message)


@pytest.mark.parametrize("tool", ["refuse_aloud", "fail_aloud", "die_aloud"])
@pytest.mark.parametrize("place", ["login", "register"])
async def test_a_login_that_goes_wrong_aloud_leaves_its_secret_nowhere_and_the_next_call_works(
    open_box: Opener, faulty: Faulty, tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str, tool: str
) -> None:
    caplog.set_level(logging.DEBUG)
    box = open_box(
        _world(faulty, LoginSettings(login=tool) if place == "login" else LoginSettings(register=tool), mode="logins"),
        accounts=Keeper(),
    )
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta())
    assert result.is_error
    assert not result.is_unknown, "the call itself was never sent"
    (sent,) = faulty.seen("call", tool=tool)
    secret = sent["arguments"]["password"]
    logs = [file.read_text() for file in (tmp_path / "logs").iterdir()]
    for text in (repr(result), repr(box.status()), caplog.text, *logs):
        assert secret not in text
    shown = result.content + "".join(logs)
    assert MASK in shown or "[REDACTED_PASSWORD]" in shown
    assert (await session.call(asked("echo", text="on"), meta=meta())).content == "on"


async def test_a_secret_of_a_vast_length_that_a_server_asks_for_is_made_shorter(
    open_box: Opener, faulty: Faulty
) -> None:
    box = open_box(_world(faulty, LoginSettings(register="register_vast"), mode="logins"), accounts=Keeper())
    session = await with_catalogue(box.session(1, "alpha", ""))
    assert not (await session.call(asked("balance"), meta=meta())).is_error
    (sent,) = faulty.seen("call", tool="register_vast")
    assert 1_000 < len(sent["arguments"]["password"]) < 2_000


async def test_an_account_of_thousands_of_fields_is_not_kept(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    box = open_box(_world(faulty, LoginSettings(register="swamp"), mode="logins"), accounts=keeper)
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta())
    assert result.content.startswith("faulty made an account of 5,001 fields; at most 100 are kept")
    assert keeper.kept == {"alpha": {}}


async def test_without_a_keeper_accounts_last_as_long_as_the_process(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty)).session(1, "alpha", ""))
    assert not (await session.call(asked("balance"), meta=meta())).is_error


@pytest.mark.parametrize("failing", [1, 2], ids=["before the registration", "after its answer"])
async def test_an_account_that_cannot_be_kept_is_kept_at_the_next_call(
    open_box: Opener, faulty: Faulty, failing: int
) -> None:
    class Full(Keeper):
        async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
            await super().save(upstream, uid, fields)
            if self.saves == failing:
                self.kept.clear()
                raise OSError(28, "No space left on device")

    keeper = Full()
    session = await with_catalogue(open_box(_world(faulty), accounts=keeper).session(1, "alpha", ""))
    first = await session.call(asked("balance"), meta=meta())
    assert first.content.startswith("the account of alpha on faulty cannot be stored: No space left on device")
    assert not (await session.call(asked("balance"), meta=meta())).is_error
    assert keeper.kept["alpha"]["account"] == "alpha"
    assert len(faulty.seen("call", tool="register")) == 1


async def test_a_credentials_store_that_fails_is_an_error_result(open_box: Opener, faulty: Faulty) -> None:
    class Broken(Keeper):
        async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
            raise SettingsError("credentials.toml is no TOML", hint="Mend it")

    session = await with_catalogue(open_box(_world(faulty), accounts=Broken()).session(1, "alpha", ""))
    result = await session.call(asked("balance"), meta=meta())
    assert result.content == "credentials.toml is no TOML. Mend it"


async def test_who_is_named_like_a_deleted_mysis_gets_an_account_of_its_own(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper()
    box = open_box(_world(faulty), accounts=keeper)
    for uid in ("u1", "u2"):
        session = await with_catalogue(box.session(1, "alpha", "", uid=uid))
        assert not (await session.call(asked("balance"), meta=meta())).is_error
        box.forget(uid)
    assert set(keeper.kept) == {"u1", "u2"}
    assert sorted(fields["account"] for fields in keeper.kept.values()) == ["alpha", "alpha-2"]
    before = keeper.loads
    session = box.session(1, "alpha", "", uid="u1")
    assert not (await session.call(asked("balance"), meta=meta())).is_error
    assert keeper.loads > before, "its account was still in memory"


async def test_secrets_in_the_bytes_of_a_blob_are_masked_too(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(_world(faulty), accounts=Keeper()).session(1, "alpha", ""))
    result = await session.call(asked("spill_bytes"), meta=meta())
    assert result.blobs[0].data.decode() == f'session {MASK} of "alpha"'
