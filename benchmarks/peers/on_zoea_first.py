"""Zoea with the work of its first release alone: like `on_zoea_plain`, and its requests show no earlier turns."""

from __future__ import annotations

import asyncio

from benchmarks.peers import on_zoea
from benchmarks.peers.on_zoea_plain import PLAIN

FIRST = {**PLAIN, "context": {**PLAIN["context"], "keep_turns": 0}}


if __name__ == "__main__":
    asyncio.run(on_zoea.main(FIRST))
