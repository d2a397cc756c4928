"""What the writer has done, as plain numbers that metrics can read at any time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Totals since the store was opened. Changed by the writer thread only.

    `ops` were acknowledged, in `commits` transactions; `seconds` is the time spent in
    COMMIT, `longest` the longest one. `failed` ops raised; `lost` counts groups whose
    whole transaction was gone and whose ops were run again one by one.
    """

    commits: int = 0
    ops: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    failed: int = 0
    lost: int = 0

    def committed(self, ops: int, seconds: float) -> None:
        self.commits += 1
        self.ops += ops
        self.seconds += seconds
        self.longest = max(self.longest, seconds)
