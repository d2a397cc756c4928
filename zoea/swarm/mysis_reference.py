"""How people and myses name a mysis: `alpha` in any case, `@alpha`, or `#3`."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.model.errors import MysisMissing
from zoea.swarm.runner import MysisRunner

_NAMED = 20


def resolve_reference(ref: str, here: Sequence[MysisRunner]) -> MysisRunner:
    """The one of these that is meant. Raises MysisMissing with the names there are."""
    ref = ref.strip()
    if ref.startswith("#") and ref[1:].isdecimal():
        found = next((r for r in here if r.mysis.id == int(ref[1:])), None)
    else:
        wanted = ref.removeprefix("@").casefold()
        found = next((r for r in here if r.mysis.name.casefold() == wanted), None)
    if found is None:
        names = ", ".join(r.mysis.name for r in here[:_NAMED])
        raise MysisMissing(
            f"there is no mysis {ref!r}", hint=f"there are: {names}" if names else "create one with 'zoea new'"
        )
    return found
