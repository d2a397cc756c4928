"""Runs the turns of a mysis by Zoea's own loop: requests to a model, and calls of its tools."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.enums import Outcome
from zoea.model.ports import ToolSession
from zoea.model.request import Catalogue
from zoea.model.values import Failure
from zoea.settings import parse_template
from zoea.store import WriterConnection
from zoea.swarm.persistence import model_facts, spend_ops, swarm_reads, turn_ops, turn_records
from zoea.swarm.persistence.restore import restore
from zoea.swarm.resolved_template import MISSING_WINDOW, MysisProfile, build_profile, freezer
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.driver import TurnDriver, first_rank
from zoea.swarm.turn.machine import step
from zoea.swarm.turn.tool_budget import fit_tools, offer_tools, withhold_tools
from zoea.swarm.turn.turn_failures import end_of_nothing
from zoea.swarm.turn.turn_runner import DrivenTurn, TurnClosing, TurnOpening, TurnOwner

_log = logging.getLogger(__name__)


class ModelTurns:
    """The `TurnRunner` of a mysis that a model of Zoea's providers plays.

    Attributes:
        driver: Of the turn that runs; None while none does.
    """

    def __init__(self, services: Services, owner: TurnOwner, body: str) -> None:
        self.driver: TurnDriver | None = None
        self._services = services
        self._owner = owner
        self._body = body
        self._live = services.view.row(owner.mysis.id)
        self._session: ToolSession | None = None
        self._is_session_old = False  # of another template than the next turn has
        self._tick_length = 0
        self._window_reported = False
        # While the op that opens a turn runs, it is unknown whether the turn exists, so a cancel waits for the op.
        self._is_opening = False
        self._is_resuming = False
        self._late_cancel: Outcome | None = None

    @property
    def is_open(self) -> bool:
        return self.driver is not None

    async def open(self, opening: TurnOpening) -> TurnClosing:
        """See `TurnRunner.open`."""
        self._begin(is_resuming=False)
        try:
            profile, session, catalogue = await self._prepare()
            has_goal = bool(self._owner.mysis.goal) or profile.settings.nudge.without_goal
            catalogue = fit_tools(catalogue, has_goal=has_goal, is_alone=self._services.view.is_single)
            return self._learn(await self._open(profile, session, catalogue, opening))
        finally:
            self._is_opening = False

    async def resume(self) -> TurnClosing:
        """See `TurnRunner.resume`."""
        self._begin(is_resuming=True)
        return self._learn(await self._resume(*await self._prepare()))

    def steer(self, delivery_id: int) -> None:
        """See `TurnRunner.steer`."""
        if self.driver is not None:
            self.driver.post(t.Steered(self._services.clock.uptime(), (delivery_id,)))

    def cancel(self, outcome: Outcome) -> bool:
        """See `TurnRunner.cancel`."""
        if self.driver is not None:
            self.driver.cancel(outcome)
        elif self._is_opening or (self._is_resuming and outcome is Outcome.INTERRUPTED):
            self._late_cancel = outcome
        else:
            return False
        return True

    def adopt(self, body: str) -> None:
        """See `TurnRunner.adopt`."""
        self._is_session_old = self._is_session_old or body != self._body
        self._body = body

    def close(self) -> None:
        """See `TurnRunner.close`."""
        self.driver = None

    async def end(self) -> None:
        """See `TurnRunner.end`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _begin(self, *, is_resuming: bool) -> None:
        self.driver = self._late_cancel = None
        self._is_resuming = is_resuming

    def _learn(self, closing: TurnClosing) -> TurnClosing:
        """Keep the ticks that a turn's results told."""
        self._tick_length = closing.end.tick_length or self._tick_length
        self._services.ticks.update(closing.end.ticks)
        return closing

    async def _prepare(self) -> tuple[MysisProfile, ToolSession, Catalogue]:
        services, known, mysis = self._services, self._owner.known, self._owner.mysis
        if known.damage is not None:
            raise known.damage
        with services.view.show_preparing(mysis.id):
            profile = await build_profile(mysis, known, services.providers)
        profile = await model_facts.with_facts(services.store, profile)
        self._live.answered_by = "" if mysis.model else profile.model
        self._live.window_assumed = 0 if profile.window_known else profile.window
        if not profile.window_known and not self._window_reported:
            self._window_reported = True
            _log.info(MISSING_WINDOW.format(model=profile.model, window=profile.window))
        if self._session is None or self._is_session_old:
            # The connections to upstreams are kept by the mysis's name, so that the old session is not closed.
            self._session = services.tools.session(mysis.id, mysis.name, self._body, uid=mysis.uid)
            self._is_session_old = False
        catalogue = await self._session.catalogue()
        self._owner.capture.mysis = mysis
        await self._owner.capture.load()
        return profile, self._session, catalogue

    async def _open(
        self, profile: MysisProfile, session: ToolSession, catalogue: Catalogue, opening: TurnOpening
    ) -> TurnClosing:
        services, capture = self._services, self._owner.capture
        delivery_ids = tuple(prompt.delivery_id for prompt in opening.prompts)
        freeze = freezer(
            profile,
            catalogue,
            nudge_level=opening.nudge_level,
            nudged=not opening.prompts,
            situation=await situation_text(services, profile, delivery_ids),
            task=opening.goal,
            now=services.clock.now(),
            inherited=capture.inherited,
        )
        stored_life = opening.stored_life.in_wall_time(services.clock.ahead)

        def op(conn: WriterConnection) -> tuple[turn_ops.OpenedTurn | None, int]:
            opened = turn_ops.open_turn(
                conn,
                mysis_id=profile.mysis_id,
                session_id=opening.session_id,
                delivery_ids=delivery_ids,
                nudge_level=opening.nudge_level,
                stored_life=stored_life,
                freeze=lambda turn_id, number, before: replace(
                    freeze(turn_id, number, before, spend_ops.calibration(conn, profile.provider.name, profile.model)),
                    tool_mode=model_facts.tool_mode(conn, profile.provider.name, profile.model) or "",
                ),
                catalogue=catalogue,
            )
            return opened, services.clock.ahead

        self._is_opening = True
        by_person = any(prompt.from_person for prompt in opening.prompts)
        async with services.gate.place(first_rank(by_person, is_new=True)):
            opened, ahead = await services.write(op, urgent=by_person)
        if opened is None:
            return TurnClosing(end_of_nothing(Failure("Withdrawn", "withdrawn")))
        if opened.left:
            self._owner.left(tuple(prompt for prompt in opening.prompts if prompt.delivery_id in opened.left))
        capture.begin_turn(opened.number, opened.memories, opened.notes, opened.frozen.nudge_text, opened.opened_at)
        about = DrivenTurn(opened.turn_id, opened.number, opened.hop, opened.frozen, 0, by_person, opened.before)
        offered = offer_tools(catalogue, opened.frozen)
        turn = t.TurnState(
            turn_id=opened.turn_id,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            nudged=not opening.prompts,
            at=opened.opened_at - ahead,
            memories=t.with_uptimes(opened.memories, ahead),
            notes=opened.notes,
            read_only=turn_records.read_only_names(offered),
            tick_length=self._tick_length,
            known_ticks=dict(services.ticks),
        )
        return await self._drive(profile, session, offered, about, turn, (t.Fetch(),))

    async def _resume(self, profile: MysisProfile, session: ToolSession, catalogue: Catalogue) -> TurnClosing:
        services = self._services
        stored = await turn_records.open_turn(services.store, profile.mysis_id)
        if stored is None:
            return TurnClosing(end_of_nothing(Failure("Resume", "nothing to resume")))
        turn, effects = restore(
            turn_id=stored.turn_id,
            memories=t.with_uptimes(stored.memories, services.clock.ahead),
            notes=stored.notes,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            read_only=turn_records.read_only_names(catalogue),
            nudged=stored.nudged,
            at=services.clock.uptime(),
            tick_length=self._tick_length,
            limits=stored.limits,
            requests=stored.requests,
            allowed=stored.allowed,
        )
        turn = replace(turn, known_ticks=dict(services.ticks))
        frozen = FrozenTurn.from_json(stored.frozen, system=profile.template.prompt)
        if frozen.template_hash != profile.template.hash.hex():  # the template was changed while the turn was open
            body = (await swarm_reads.template_bodies(services.store)).get(bytes.fromhex(frozen.template_hash))
            frozen = replace(frozen, system=frozen.system if body is None else parse_template(body).prompt)
        self._owner.capture.go_on(stored.number, stored.memories, frozen.nudge_text, services.clock.now())
        catalogue = offer_tools(withhold_tools(catalogue, frozen.withheld_tools), frozen)
        profile = replace(profile, max_output_tokens=frozen.max_output_tokens)  # as its first request had it
        about = DrivenTurn(
            stored.turn_id, stored.number, stored.hop, frozen, stored.used_tokens, by_person=not stored.nudged
        )
        return await self._drive(profile, session, catalogue, about, turn, effects)

    async def _drive(
        self,
        profile: MysisProfile,
        session: ToolSession,
        catalogue: Catalogue,
        about: DrivenTurn,
        turn: t.TurnState,
        effects: tuple[t.TurnEffect, ...],
    ) -> TurnClosing:
        self._live.turn_number = about.number
        if steers := self._owner.waiting_steers():
            # Passed before the first effect, so that they join the next request.
            turn, _ = step(turn, t.Steered(self._services.clock.uptime(), steers))
        self.driver = TurnDriver(self._services, profile, session, catalogue, about, self._owner)
        if self._late_cancel is not None:
            self.driver.cancel(self._late_cancel)
            self._late_cancel = None
        return await self.driver.run(turn, effects)


_SNAPSHOT_CHARS = 2000


async def situation_text(services: Services, profile: MysisProfile, opening: tuple[int, ...]) -> str:
    """Return the parts that the template names, each on its own lines.

    Args:
        opening: The deliveries that the turn is about to be opened with.
    """
    parts = []
    for part in profile.template.situation:
        match part:
            case "time":
                now = datetime.fromtimestamp(services.clock.now() / 1_000_000, UTC)
                parts.append(f"Time: {now:%Y-%m-%d %H:%M} UTC")
            case "swarm":
                others = [row.mysis for row in services.view.rows() if row.mysis.id != profile.mysis_id]
                names = ", ".join(f"{mysis.name} ({mysis.state})" for mysis in others[:50])
                parts.append(f"Other myses: {names or 'none'}")
            case "broadcast":
                parts.append(await _latest_broadcast(services, profile.mysis_id, opening))
            case "snapshot":
                parts.append(await _snapshots(services, profile))
    return "\n".join(part for part in parts if part)


async def _latest_broadcast(services: Services, mysis_id: int, opening: tuple[int, ...]) -> str:
    """Return the commander's latest broadcast.

    Empty where a direct message came after it, or the turn has it as a prompt.
    """
    found = await services.store.read(swarm_reads.LATEST_BROADCAST, (mysis_id, json.dumps(opening)))
    if not found or found[0]["id"] in opening:
        return ""
    return f"Latest broadcast of the commander: {found[0]['content']}"


async def _snapshots(services: Services, profile: MysisProfile) -> str:
    """Return the newest result of each snapshot tool with its age, except long ones."""
    lines: dict[str, str] = {}
    for pattern in profile.settings.context.snapshot_tools:
        for row in await services.store.read(swarm_reads.SNAPSHOTS, {"mysis": profile.mysis_id, "pattern": pattern}):
            age = max(0, services.clock.now() - row["created_at"]) // 1_000_000
            if len(row["content"]) <= _SNAPSHOT_CHARS:
                lines.setdefault(row["name"], f"{row['name']} ({age} s ago): {row['content']}")
    return "\n".join(lines[name] for name in sorted(lines))
