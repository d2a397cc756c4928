"""Runs the turns of a mysis by requests to a model and calls of tools."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.settings.template import parse_template
from zoea.swarm.persistence import model_facts, swarm_reads, turn_records
from zoea.swarm.persistence.restore import restore
from zoea.swarm.resolved_template import MISSING_WINDOW, build_profile
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.driver import TurnDriver
from zoea.swarm.turn.machine import step
from zoea.swarm.turn.runner_base import PreparedTurn, RunnerBase
from zoea.swarm.turn.tool_budget import fit_tools, offer_tools, withhold_tools
from zoea.swarm.turn.turn_runner import DrivenTurn, TurnClosing, TurnOwner

_log = logging.getLogger(__name__)


class ModelTurns(RunnerBase[TurnDriver]):
    """The `TurnRunner` of a mysis that a model of Zoea's providers plays."""

    def __init__(self, services: Services, owner: TurnOwner, body: str) -> None:
        super().__init__(services, owner, body)
        self._tick_length = 0
        self._window_reported = False

    async def _prepare(self) -> PreparedTurn:
        services, resolved, mysis = self._services, self._read_template(), self._owner.mysis
        with services.view.show_preparing(mysis.id):
            profile = await build_profile(mysis, resolved, services.providers)
        profile = await model_facts.with_facts(services.store, profile)
        self._live.answered_by = "" if mysis.model else profile.model
        self._live.window_assumed = 0 if profile.window_known else profile.window
        if not profile.window_known and not self._window_reported:
            self._window_reported = True
            _log.info(MISSING_WINDOW.format(model=profile.model, window=profile.window))
        session = self._open_session()
        self._is_old = False
        with services.view.show_preparing(self._owner.mysis.id, "awaits_tools"):
            catalogue = await session.catalogue()
        await self._load_capture()
        if not self._is_resuming:
            has_goal = bool(self._owner.mysis.goal) or profile.settings.nudge.without_goal
            catalogue = fit_tools(catalogue, has_goal=has_goal, is_alone=services.view.is_single)
        return PreparedTurn(profile, session, catalogue)

    async def _begin(self, prepared: PreparedTurn, about: DrivenTurn, turn: t.TurnState) -> TurnClosing:
        prepared = replace(prepared, catalogue=offer_tools(prepared.catalogue, about.frozen))
        turn = replace(
            turn,
            read_only=turn_records.read_only_names(prepared.catalogue),
            tick_length=self._tick_length,
            known_ticks=dict(self._services.ticks),
        )
        return await self._drive(prepared, about, turn, (t.Fetch(),))

    async def _go_on(self, prepared: PreparedTurn, stored: turn_records.OpenTurnRow) -> TurnClosing:
        services, profile, catalogue = self._services, prepared.profile, prepared.catalogue
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
        about = self._describe(stored, frozen)
        prepared = PreparedTurn(
            replace(profile, max_output_tokens=frozen.max_output_tokens),  # as its first request had it
            prepared.session,
            offer_tools(withhold_tools(catalogue, frozen.withheld_tools), frozen),
        )
        return await self._drive(prepared, about, turn, effects)

    async def _drive(
        self, prepared: PreparedTurn, about: DrivenTurn, turn: t.TurnState, effects: tuple[t.TurnEffect, ...]
    ) -> TurnClosing:
        self._live.turn_number = about.number
        if steers := self._owner.waiting_steers():
            # Passed before the first effect, so that they join the next request.
            turn, _ = step(turn, t.Steered(self._services.clock.uptime(), steers))
        driver = TurnDriver(self._services, prepared.profile, prepared.session, prepared.catalogue, about, self._owner)
        closing = await self._take(driver).run(turn, effects)
        self._tick_length = closing.end.tick_length or self._tick_length
        self._services.ticks.update(closing.end.ticks)
        return closing
