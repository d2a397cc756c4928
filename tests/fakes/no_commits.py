"""`CommitApi` of a swarm without commits."""

from __future__ import annotations

from zoea.model.errors import RevisionError
from zoea.model.values import COMMANDER, CommitQuestion, MysisView, Sender


class NoCommits:
    """Knows no commit: every revision raises RevisionError."""

    async def name_commit(self, name: str, revision: str) -> str:
        raise RevisionError(f"there is no context {revision!r}")

    async def keep_commit(self, revision: str, policy: str, *, days: float = 0.0, whole: bool = False) -> int:
        raise RevisionError(f"there is no context {revision!r}")

    async def resume(self, ref: str, *, name: str = "", allow_fresh: bool = False) -> MysisView:
        raise RevisionError(f"there is no context {ref!r}")

    async def ask(
        self, revision: str, question: str, *, thread: str = "", ticket: str = "", sender: Sender = COMMANDER
    ) -> CommitQuestion:
        raise RevisionError(f"there is no context {revision!r}")

    async def checkpoint(self, ref: str, *, summary: str = "", timeout_s: float = 20.0) -> str:
        return ""

    async def snapshot(self, revision: str) -> str:
        raise RevisionError(f"there is no context {revision!r}")

    async def pick(self, revision: str, ref: str) -> str:
        raise RevisionError(f"there is no context {revision!r}")

    async def compact(self, revision: str, *, extract: bool = False, payer: str = "", timeout_s: float = 300.0) -> str:
        raise RevisionError(f"there is no context {revision!r}")

    async def annotate(self, revision: str, *, summary: str | None = None, tags: tuple[str, ...] | None = None) -> str:
        raise RevisionError(f"there is no context {revision!r}")

    async def summarise(self, revision: str, *, payer: str = "", timeout_s: float = 300.0) -> str:
        raise RevisionError(f"there is no context {revision!r}")
