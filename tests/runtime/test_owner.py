"""The owner process and its services: clock, log file, accounts, shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.fakes.swarm import FakeSwarm
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.model.errors import OwnerError, WorkspaceHeld
from zoea.model.swarm_api import SwarmApi
from zoea.process.clock import SystemClock, SystemIds
from zoea.process.lock import read_holder
from zoea.process.logs import logging_to
from zoea.runtime import owner as owner_module
from zoea.runtime.accounts import CredentialAccounts, account_key, name_key, settle_accounts
from zoea.runtime.owner import close_within, own_workspace
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places


@pytest.fixture
def where(runtime: Path, tmp_path: Path) -> Places:
    return Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)


@asynccontextmanager
async def fake_swarm(_where: Places, on_shutdown: Callable[[], None]) -> AsyncIterator[SwarmApi]:
    yield FakeSwarm(on_shutdown)


class TestClock:
    async def test_a_timer_in_the_past_fires_at_once(self) -> None:
        clock = SystemClock()
        fired = asyncio.Event()
        clock.call_after(-1_000_000, fired.set)
        await asyncio.wait_for(fired.wait(), timeout=20)

    async def test_a_sleep_takes_as_long_as_it_says(self) -> None:
        clock = SystemClock()
        until = clock.now() + 20_000
        await clock.sleep(20_000)
        assert clock.now() >= until - 2_000

    async def test_a_cancelled_timer_does_not_fire(self) -> None:
        clock = SystemClock()
        fired = asyncio.Event()
        clock.call_after(1_000, fired.set).cancel()
        await clock.sleep(20_000)
        assert not fired.is_set()

    def test_uids_are_unique_and_jitter_is_below_one(self) -> None:
        ids = SystemIds()
        assert len({ids.uid() for _ in range(100)}) == 100
        assert 0 <= ids.jitter() < 1


class TestLog:
    def test_the_log_is_private_and_writes_nothing_to_the_screen(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "data" / "zoea.log"
        with logging_to(file, "info"):
            logging.getLogger("zoea.x").info("hello")
            logging.getLogger("zoea.x").debug("not this")
        assert "INFO zoea.x: hello" in file.read_text()
        assert "not this" not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert capfd.readouterr() == ("", "")

    def test_the_log_masks_secrets_in_tracebacks_too(self, tmp_path: Path) -> None:
        file = tmp_path / "zoea.log"
        with logging_to(file, "debug", secrets=("my-own-password", "")):
            try:
                raise RuntimeError("login with my-own-password")
            except RuntimeError:
                logging.getLogger("zoea.x").exception("failed with %s", "sk-proj-abcdefghijklmnopqrstuvwxyz012345")
        assert "my-own-password" not in file.read_text()
        assert "abcdefghijklmnop" not in file.read_text()
        assert "RuntimeError" in file.read_text()

    def test_a_path_with_invalid_utf8_is_logged(self, tmp_path: Path) -> None:
        file = tmp_path / "zoea.log"
        with logging_to(file, "info"):
            logging.getLogger("zoea.x").info("the swarm of %s is open", os.fsdecode(b"/odd\xff"))
        assert r"the swarm of /odd\udcff is open" in file.read_text(encoding="utf-8")

    def test_the_log_holds_hidden_characters_as_escapes_and_no_text_begins_a_record(self, tmp_path: Path) -> None:
        file = tmp_path / "zoea.log"
        with logging_to(file, "info"):
            logging.getLogger("zoea.x").info(
                "it says %s", "\x1b]0;a\x07 \x9d \u202e\r\n2026-11-28 06:18:34,792 INFO zoea: b"
            )
            try:
                raise RuntimeError("\x1b[2J\n2026-11-28")
            except RuntimeError:
                logging.getLogger("zoea.x").exception("failed")
        text = file.read_text(encoding="utf-8")
        assert r"it says \u001b]0;a\u0007 \u009d \u202e" in text
        assert all(char.isprintable() or char == "\n" for char in text)
        assert sum(not line.startswith("  ") for line in text.splitlines()) == 2

    def test_the_log_rotates_at_its_size_limit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("zoea.process.logs.MAX_BYTES", 1_000)
        with logging_to(tmp_path / "zoea.log", "info"):
            for number in range(100):
                logging.getLogger("zoea.x").info("%s%d", "y" * 100, number)
        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("zoea.log*")} == {0o600}
        assert sorted(file.name for file in tmp_path.glob("zoea.log*")) == [
            "zoea.log",
            "zoea.log.1",
            "zoea.log.2",
            "zoea.log.3",
        ]

    def test_old_logs_are_closed_to_others_whatever_made_them(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            for name in ("zoea.log", "zoea.log.1", "zoea.log.3"):
                (tmp_path / name).write_text("what was written before")
            with logging_to(tmp_path / "zoea.log", "info"):
                logging.getLogger("zoea.x").info("now")
        finally:
            os.umask(before)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("zoea.log*")}
        assert modes == {"zoea.log": 0o600, "zoea.log.1": 0o600, "zoea.log.3": 0o600}


class TestAccounts:
    async def test_an_account_is_stored_in_the_credentials_file(self, tmp_path: Path) -> None:
        file = tmp_path / "credentials.toml"
        await CredentialAccounts(Credentials(file)).save("reef", "u1", {"account": "alpha", "password": "p1"})
        again = CredentialAccounts(Credentials(file))
        assert await again.load("reef", "u1", "alpha") == {"account": "alpha", "password": "p1"}
        assert await again.load("reef", "u2", "alpha") is None
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    async def test_accounts_made_together_cost_few_writes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials = Credentials(tmp_path / "credentials.toml")
        writes: list[int] = []
        real = credentials.set_many

        def counted(values: Mapping[str, str | SecretStr]) -> None:
            writes.append(len(values))
            real(values)

        monkeypatch.setattr(credentials, "set_many", counted)
        keeper = CredentialAccounts(credentials)
        await asyncio.gather(*(keeper.save("reef", f"m{number}", {"password": "x"}) for number in range(50)))
        assert sum(writes) == 50
        assert len(writes) <= 3
        assert await keeper.load("reef", "m49", "") == {"password": "x"}

    async def test_a_failed_write_raises_in_every_waiting_save(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        keeper = CredentialAccounts(Credentials(tmp_path / "file" / "credentials.toml"))
        with pytest.raises(Exception, match="file"):
            await keeper.save("reef", "alpha", {"password": "x"})

    def test_every_name_has_its_own_key(self) -> None:
        assert name_key("reef", "alpha 1") == "account/reef/alpha 1"
        assert name_key("reef", "ålpha") == "account/reef/c3a56c706861"
        assert account_key("reef", "u1") == "account/reef/@u1"

    async def test_an_account_stored_under_a_name_moves_to_the_mysis(self, tmp_path: Path) -> None:
        credentials = Credentials(tmp_path / "credentials.toml")
        credentials.set("account/game/ålpha".replace("ålpha", "c3a56c706861"), '{"token": "mine"}')
        keeper = CredentialAccounts(credentials)
        assert await keeper.load("game", "u1", "ålpha") == {"token": "mine"}
        assert await keeper.load("game", "u2", "ålpha") is None
        assert credentials.names() == ("account/game/@u1",)

    def test_accounts_stored_by_name_move_to_the_last_mysis_of_that_name(self, tmp_path: Path) -> None:
        credentials = Credentials(tmp_path / "credentials.toml")
        credentials.set_many(
            {f"account/reef/{name}": f'{{"account": "{name}"}}' for name in ("alpha", "beta", "nobody")}
        )
        credentials.set_many({"account/reef/@u9": '{"account": "gamma"}', "key": "k"})
        settle_accounts(credentials, [("alpha", "u1"), ("alpha", "u3"), ("beta", "u2")])
        assert credentials.names() == (
            "account/reef/@u2",
            "account/reef/@u3",
            "account/reef/@u9",
            "account/reef/nobody",
            "key",
        )
        settle_accounts(Credentials(tmp_path / "none.toml"), [("alpha", "u1")])
        assert not (tmp_path / "none.toml").exists()


class TestOwner:
    async def test_a_workspace_has_one_owner_that_answers_on_its_socket(self, where: Places) -> None:
        async with own_workspace(where, fake_swarm) as owner:
            async with await RemoteSwarm.connect(where.socket) as remote:
                assert (await remote.view()).myses == ()
            with pytest.raises(WorkspaceHeld):
                async with own_workspace(where, fake_swarm):
                    raise AssertionError("owned twice")
            assert not owner.ending.is_set()
        assert owner.ending.is_set()
        assert read_holder(where.data) is None
        assert not where.socket.exists()

    async def test_opened_parts_are_closed_if_a_later_part_fails(self, where: Places) -> None:
        where.make_runtime()
        where.socket.mkdir()
        with pytest.raises(OwnerError):
            async with own_workspace(where, fake_swarm):
                raise AssertionError("opened")
        assert read_holder(where.data) is None

    async def test_a_front_can_request_the_shutdown(self, where: Places) -> None:
        async with own_workspace(where, fake_swarm) as owner:
            async with await RemoteSwarm.connect(where.socket) as remote:
                await remote.shutdown()
            await asyncio.wait_for(owner.ending.wait(), timeout=20)
            owner.end()

    async def test_a_part_that_hangs_at_closing_is_abandoned(self, caplog: pytest.LogCaptureFixture) -> None:
        async def hangs() -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if released:
                        raise

        async def fails() -> None:
            raise RuntimeError("broken")

        released: list[bool] = []
        before = asyncio.all_tasks()
        await close_within(0.05, hangs, "a part")
        await close_within(0.05, fails, "another")
        assert "a part did not close within 0.05 s" in caplog.text
        assert "another did not close: broken" in caplog.text
        released.append(True)
        for task in asyncio.all_tasks() - before:
            task.cancel()

    async def test_a_process_that_cannot_end_is_ended(self, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        forced = asyncio.Event()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(owner_module, "SHUTDOWN_S", 0.01)
        monkeypatch.setattr(owner_module, "force_end", lambda _: loop.call_soon_threadsafe(forced.set))
        async with own_workspace(where, fake_swarm, on_hangup=lambda: None) as owner:
            owner.end()
            await asyncio.wait_for(forced.wait(), timeout=20)

    async def test_a_signal_while_the_swarm_opens_ends_it_in_order(
        self, where: Places, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forced = asyncio.Event()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(owner_module, "SHUTDOWN_S", 0.01)
        monkeypatch.setattr(owner_module, "force_end", lambda _: loop.call_soon_threadsafe(forced.set))

        @asynccontextmanager
        async def opening(places: Places, on_shutdown: Callable[[], None]) -> AsyncIterator[SwarmApi]:
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # it would end this process
            os.kill(os.getpid(), signal.SIGTERM)
            async with fake_swarm(places, on_shutdown) as opened:
                yield opened

        async with own_workspace(where, opening, on_hangup=lambda: None) as owner:
            await asyncio.wait_for(owner.ending.wait(), timeout=20)
            await asyncio.wait_for(forced.wait(), timeout=20)
