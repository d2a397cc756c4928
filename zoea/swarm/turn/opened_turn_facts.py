"""What a reader of needs may know of a turn."""

from __future__ import annotations

from msgspec import Struct

from zoea.context import FrozenTurn
from zoea.model.values import Memory
from zoea.swarm.context_capture import ContextCapture
from zoea.swarm.services import Services
from zoea.swarm.turn.summary_stage import SummaryStage


class OpenedTurnFacts(Struct, frozen=True):
    """A turn that is open and not planned yet.

    Attributes:
        prompts: The memories that the turn was opened with.
        summaries: Has a model write the turn's summary.
        capture: Commits a new summary.
    """

    services: Services
    frozen: FrozenTurn
    prompts: tuple[Memory, ...]
    summaries: SummaryStage
    capture: ContextCapture
