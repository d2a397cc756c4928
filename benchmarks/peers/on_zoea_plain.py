"""Zoea without what the peers do not do: no search of older memories for each prompt, and no commits of its context."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.peers import on_zoea
from benchmarks.rig import PLENTY

PLAIN: dict[str, Any] = {**PLENTY, "context": {"recall_items": 0}, "chain": {"capture": "off"}}


if __name__ == "__main__":
    asyncio.run(on_zoea.main(PLAIN))
