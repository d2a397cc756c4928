"""Connect tool calls to the simulation: sessions, limits, faults, log.

Only this module uses randomness (passwords, session ids) and time.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
from collections import Counter
from typing import Any

from blake3 import blake3

from zoea.text.sentences import count_of
from zoea.world.captain_actions import ACTIONS
from zoea.world.catalog import HELP, REEF_TOOLS, validate_arguments
from zoea.world.faults import CallFaults, FaultInjector
from zoea.world.refusal import ReefRefusal
from zoea.world.ticker import MOVED_S, Ticker
from zoea.world.world_log import WorldLog
from zoea.world.world_queries import WRITES, build_map_json

CALLS_PER_TICK = 60
CHATS_PER_TICK = 5
LOGINS_PER_TICK = 5
SESSIONS = 8
"""Sessions per account; a new one ends the oldest."""


class ReefService:
    """Answer the tool calls of a world.

    Args:
        record: Open world file; its `reef` is played.
        ticker: Runs the ticks; told of every call.
        faults: Faults to inject.
    """

    def __init__(self, record: WorldLog, ticker: Ticker, faults: FaultInjector | None = None) -> None:
        self._record = record
        self._reef = record.reef
        self._ticker = ticker
        self._faults = faults or FaultInjector()
        self._sessions: dict[str, str] = {}
        self._held: dict[str, list[str]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._counted_at = -1
        self._flush: asyncio.Future[None] | None = None
        self._map = build_map_json(self._reef.world_map)

    async def call(self, tool: str, args: dict[str, Any]) -> tuple[str, bool]:
        """Run a tool call. Return its result as JSON text, and whether it is an error."""
        faults = self._faults.draw()
        if faults is not None and faults.delay:
            await asyncio.sleep(faults.delay)
        try:
            text = await self._answer(tool, args, faults)
        except ReefRefusal as refused:
            return _dump({**refused.as_dict(), "current_tick": self._reef.tick_now}), True
        if faults is not None and faults.malformed:
            return text[: len(text) // 2], False
        return text, False

    async def _answer(self, tool: str, args: dict[str, Any], faults: CallFaults | None) -> str:
        clean = validate_arguments(tool, args)
        if why := self._record.why_moved():
            raise ReefRefusal("world_on_hold", f"The world is on hold, and nothing was done. {why}")
        if tool in ("register", "login", "help"):
            return _dump(await self._call_without_session(tool, clean))
        session = clean.pop("session_id")
        if faults is not None:
            self._apply_faults(faults, session)
        name = self._sessions.get(session)
        if name is None:
            raise ReefRefusal("session_lost", "This session is over. Call login for a new session_id.")
        self._limit(name, "calls", CALLS_PER_TICK)
        if tool == "get_map":
            return f'{{"map":{self._map},"current_tick":{self._reef.tick_now}}}'
        if tool == "logout":
            self._forget(session)
            self._ticker.left(name)
            return _dump({"logged_out": True, "current_tick": self._reef.tick_now})
        if tool == "chat":
            self._limit(name, "chat", CHATS_PER_TICK)
        result = self._reef.call(name, tool, clean)
        if tool in ACTIONS or tool in WRITES:
            self._record.call(name, tool, clean)
            await self._durable()
        self._ticker.called(name)
        return _dump(result)

    async def _call_without_session(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a tool that needs no session. Results hold only fields of the account, because clients store them."""
        match tool:
            case "register":
                password = secrets.token_urlsafe(18)
                player = self._reef.register(args["name"], _digest(password))
                self._record.register(player.name, player.secret)
                await self._durable()
                return {"account": player.name, "password": password}
            case "login":
                return await self._login(args["account"], args["password"])
            case _:
                return self._help(args.get("topic"))

    async def _login(self, account: str, password: str) -> dict[str, Any]:
        player = self._reef.find(account)
        self._limit(account.casefold(), "login", LOGINS_PER_TICK)
        if player is None:
            raise ReefRefusal("unknown_account", "There is no such account. Call register for a new one.")
        if not secrets.compare_digest(player.secret, _digest(password)):
            raise ReefRefusal("login_refused", "The password is wrong. Log in with the one that register gave.")
        self._counts.pop((account.casefold(), "login"), None)
        if not player.claimed:
            self._reef.claim(player.name)
            self._record.claim(player.name)
            await self._durable()
        session = secrets.token_urlsafe(18)
        self._sessions[session] = player.name
        held = self._held.setdefault(player.name, [])
        held.append(session)
        if len(held) > SESSIONS:
            self._forget(held[0])
        return {"session_id": session, "account": player.name}

    def _forget(self, session: str) -> None:
        name = self._sessions.pop(session, None)
        if name is not None:
            self._held[name].remove(session)

    def _help(self, topic: str | None) -> dict[str, Any]:
        if topic is None:
            return {"help": HELP, "tools": {spec.name: spec.what for spec in REEF_TOOLS.values()}}
        spec = REEF_TOOLS.get(topic)
        if spec is None:
            raise ReefRefusal("unknown_tool", f"There is no tool {topic!r}. Call help without a topic for all of them.")
        takes = {key: line.get("description", "") for key, line in spec.schema()["properties"].items()}
        return {"tool": spec.name, "help": spec.what, "takes": takes}

    def _apply_faults(self, faults: CallFaults, session: str) -> None:
        if faults.restart:
            os._exit(70)
        if faults.lose_session:
            self._forget(session)
        if faults.error:
            raise ReefRefusal("world_error", "The world stumbled and did nothing. Try again in 1 seconds.")

    def _limit(self, name: str, what: str, most: int) -> None:
        if self._counted_at != self._reef.tick_now:
            self._counts.clear()
            self._counted_at = self._reef.tick_now
        self._counts[name, what] += 1
        if self._counts[name, what] > most:
            seconds = max(1, math.ceil(self._ticker.until_next()))
            raise ReefRefusal(
                "rate_limited", f"Too many calls. Try again in {count_of(seconds, 'second')}.", retry_after_s=seconds
            )

    async def _durable(self) -> None:
        """Wait until the log is committed; concurrent calls share a commit."""
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.create_future()
            loop.call_soon(self._commit, self._flush)
        await asyncio.shield(self._flush)

    def _commit(self, waiting: asyncio.Future[None]) -> None:
        if not self._record.commit():  # moved since the call began: it is acknowledged once it is stored
            asyncio.get_running_loop().call_later(MOVED_S, self._commit, waiting)
            return
        self._flush = None
        waiting.set_result(None)


def _digest(password: str) -> str:
    """Hash a password. It is 144 random bits made here, so a fast hash is enough."""
    return blake3(password.encode("utf-8", "replace")).hexdigest()


def _dump(result: dict[str, Any]) -> str:
    return json.dumps(result, separators=(",", ":"), ensure_ascii=False)
