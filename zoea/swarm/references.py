"""Finds the mysis that a person names."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.model.errors import MysisMissing
from zoea.swarm.runner import MysisRunner

_NAMES_SHOWN = 20


def resolve_reference(ref: str, here: Sequence[MysisRunner]) -> MysisRunner:
    """Find the mysis that `alpha` in any case, `@alpha` or `#3` names.

    Raises MysisMissing, which lists the names.
    """
    ref = ref.strip()
    if ref.startswith("#") and ref[1:].isdecimal():
        found = next((r for r in here if r.mysis.id == int(ref[1:])), None)
    else:
        wanted = ref.removeprefix("@").casefold()
        found = next((r for r in here if r.mysis.name.casefold() == wanted), None)
    if found is None:
        names = ", ".join(r.mysis.name for r in here[:_NAMES_SHOWN])
        raise MysisMissing(
            f"there is no mysis {ref!r}", hint=f"there are: {names}" if names else "create one with 'zoea new'"
        )
    return found
