"""The text of the situation pack, made when a turn opens and frozen with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from zoea.swarm.persistence import swarm_reads
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.services import Services

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
