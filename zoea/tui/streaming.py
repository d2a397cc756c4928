"""What is new in a text of which only the end is ever seen. Pure."""

from __future__ import annotations


def continuation(seen: str, tail: str) -> str | None:
    """What `tail` adds to `seen`, both ends of one growing text; None where it goes on from something else."""
    if not seen or tail.startswith(seen):
        return tail[len(seen) :]
    for dropped in range(1, len(seen)):
        if tail.startswith(seen[dropped:]):
            # A shared letter or two is chance: a window slides by less than its length.
            return tail[len(seen) - dropped :] if len(seen) - dropped >= min(40, len(seen) // 2) else None
    return None
