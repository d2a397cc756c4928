"""The part that both turn runners share: storage and commands of the turn."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.enums import Outcome
from zoea.model.ports import ToolSession
from zoea.model.request import Catalogue
from zoea.model.values import Failure
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import model_facts, spend_ops, swarm_reads, turn_ops, turn_records
from zoea.swarm.resolved_template import MysisProfile, ResolvedTemplate, freezer
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.turn_failures import end_of_nothing
from zoea.swarm.turn.turn_gate import first_rank
from zoea.swarm.turn.turn_runner import DrivenTurn, TurnClosing, TurnOpening, TurnOwner


class RunningTurn(Protocol):
    """An open turn, as its runner commands it."""

    def steer(self, delivery_id: int) -> None: ...

    def cancel(self, outcome: Outcome) -> None: ...


RunningT = TypeVar("RunningT", bound=RunningTurn)


class PreparedTurn(Struct, frozen=True):
    """What a turn needs before it is opened."""

    profile: MysisProfile
    session: ToolSession
    catalogue: Catalogue = Catalogue()


class RunnerBase(ABC, Generic[RunningT]):
    """The part of a `TurnRunner` that does not depend on who carries the turn out.

    Attributes:
        turn: The turn that runs; None while none does.
    """

    def __init__(self, services: Services, owner: TurnOwner, body: str) -> None:
        self.turn: RunningT | None = None
        self._services = services
        self._owner = owner
        self._body = body
        self._live = services.view.row(owner.mysis.id)
        self._session: ToolSession | None = None
        self._is_old = False  # the session is of another template than the next turn has
        # While the op that opens a turn runs, it is unknown whether the turn exists, so a cancel waits for the op.
        self._is_opening = self._is_resuming = False
        self._late_cancel: Outcome | None = None

    # The `TurnRunner`.

    @property
    def is_open(self) -> bool:
        return self.turn is not None

    async def open(self, opening: TurnOpening) -> TurnClosing:
        """See `TurnRunner.open`."""
        self.turn, self._late_cancel, self._is_resuming = None, None, False
        try:
            prepared = await self._prepare()
            opened = await self._store(prepared, opening)
            if opened is None:
                return TurnClosing(end_of_nothing(Failure("Withdrawn", "withdrawn")))
            return await self._begin(prepared, *opened)
        finally:
            self._is_opening = False

    async def resume(self) -> TurnClosing:
        """See `TurnRunner.resume`."""
        self.turn, self._late_cancel, self._is_resuming = None, None, True
        prepared = await self._prepare()
        stored = await turn_records.open_turn(self._services.store, prepared.profile.mysis_id)
        if stored is None:
            return TurnClosing(end_of_nothing(Failure("Resume", "nothing to resume")))
        return await self._go_on(prepared, stored)

    def steer(self, delivery_id: int) -> None:
        """See `TurnRunner.steer`."""
        if self.turn is not None:
            self.turn.steer(delivery_id)

    def cancel(self, outcome: Outcome) -> bool:
        """See `TurnRunner.cancel`."""
        if self.turn is not None:
            self.turn.cancel(outcome)
        elif self._is_opening or (self._is_resuming and outcome is Outcome.INTERRUPTED):
            self._late_cancel = outcome
        else:
            return False
        return True

    def adopt(self, body: str) -> None:
        """See `TurnRunner.adopt`."""
        self._is_old = self._is_old or body != self._body
        self._body = body

    def close(self) -> None:
        """See `TurnRunner.close`."""
        self.turn = None

    async def end(self) -> None:
        """See `TurnRunner.end`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # What each runner does in its own way.

    @abstractmethod
    async def _prepare(self) -> PreparedTurn:
        """Return what a turn needs. Raises ZoeaError."""

    @abstractmethod
    async def _begin(self, prepared: PreparedTurn, about: DrivenTurn, turn: t.TurnState) -> TurnClosing:
        """Run a turn that was just stored."""

    @abstractmethod
    async def _go_on(self, prepared: PreparedTurn, stored: turn_records.OpenTurnRow) -> TurnClosing:
        """Run a turn that broke off."""

    # Shared steps.

    def _read_template(self) -> ResolvedTemplate:
        """Return the template of the mysis. Raises its error if it is damaged."""
        if self._owner.known.damage is not None:
            raise self._owner.known.damage
        return self._owner.known

    def _open_session(self) -> ToolSession:
        """Return the session of the present template. The connections to upstreams outlast a change of it."""
        if self._session is None or self._is_old:
            mysis = self._owner.mysis
            self._session = self._services.tools.session(mysis.id, mysis.name, self._body, uid=mysis.uid)
        return self._session

    async def _load_capture(self) -> None:
        self._owner.capture.mysis = self._owner.mysis
        await self._owner.capture.load()

    async def _store(self, prepared: PreparedTurn, opening: TurnOpening) -> tuple[DrivenTurn, t.TurnState] | None:
        """Open a turn in the database; None where its prompts were withdrawn."""
        services, capture, profile = self._services, self._owner.capture, prepared.profile
        delivery_ids = tuple(prompt.delivery_id for prompt in opening.prompts)
        freeze = freezer(
            profile,
            prepared.catalogue,
            nudge_level=opening.nudge_level,
            nudged=not opening.prompts,
            situation=await _situation_text(services, profile, delivery_ids),
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
                catalogue=prepared.catalogue,
            )
            return opened, services.clock.ahead

        self._is_opening = True
        by_person = any(prompt.from_person for prompt in opening.prompts)
        async with services.gate.place(first_rank(by_person, is_new=True)):
            opened, ahead = await services.write(op, urgent=by_person)
        if opened is None:
            return None
        if opened.left:
            self._owner.left(tuple(prompt for prompt in opening.prompts if prompt.delivery_id in opened.left))
        frozen = opened.frozen
        capture.begin_turn(opened.number, opened.memories, opened.notes, frozen.nudge_text, opened.opened_at)
        turn = t.TurnState(
            turn_id=opened.turn_id,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            nudged=not opening.prompts,
            at=opened.opened_at - ahead,
            memories=t.with_uptimes(opened.memories, ahead),
            notes=opened.notes,
        )
        return DrivenTurn(opened.turn_id, opened.number, opened.hop, frozen, 0, by_person, opened.before), turn

    def _describe(self, stored: turn_records.OpenTurnRow, frozen: FrozenTurn) -> DrivenTurn:
        """Return the turn that broke off, after its commits were taken up again."""
        self._owner.capture.go_on(stored.number, stored.memories, frozen.nudge_text, self._services.clock.now())
        return DrivenTurn(
            stored.turn_id, stored.number, stored.hop, frozen, stored.used_tokens, by_person=not stored.nudged
        )

    def _take(self, turn: RunningT) -> RunningT:
        """Let commands reach the turn, and pass the cancel that came while it was opened."""
        self.turn = turn
        if self._late_cancel is not None:
            turn.cancel(self._late_cancel)
            self._late_cancel = None
        return turn


_SNAPSHOT_CHARS = 2000


async def _situation_text(services: Services, profile: MysisProfile, opening: tuple[int, ...]) -> str:
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
    rows = await services.store.read(swarm_reads.LATEST_BROADCAST, (mysis_id, json.dumps(opening)))
    if not rows or rows[0]["id"] in opening:
        return ""
    return f"Latest broadcast of the commander: {rows[0]['content']}"


async def _snapshots(services: Services, profile: MysisProfile) -> str:
    """Return the newest result of each snapshot tool with its age, except long ones."""
    lines: dict[str, str] = {}
    for pattern in profile.settings.context.snapshot_tools:
        for row in await services.store.read(swarm_reads.SNAPSHOTS, {"mysis": profile.mysis_id, "pattern": pattern}):
            age = max(0, services.clock.now() - row["created_at"]) // 1_000_000
            if len(row["content"]) <= _SNAPSHOT_CHARS:
                lines.setdefault(row["name"], f"{row['name']} ({age} s ago): {row['content']}")
    return "\n".join(lines[name] for name in sorted(lines))
