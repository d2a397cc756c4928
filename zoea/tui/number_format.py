"""Format numbers, times and ages for the cockpit. Pure."""

from __future__ import annotations

from datetime import datetime

from zoea.text.amounts import short_count

SECOND = 1_000_000
UNKNOWN = "–"


def tokens(count: int | None) -> str:
    """Format a token count: 999, 1k, 1.1k, 6.2k, 50k, 1.2M; `?` if unknown."""
    return "?" if count is None else short_count(count)


def age(since: int, now: int) -> str:
    """Format the time since `since`: 2s, 18s, 1m, 9m, 3h, 2d. `–` if it never was."""
    if since <= 0:
        return UNKNOWN
    seconds = max(0, (now - since) // SECOND)
    return span(seconds)


def span(seconds: float) -> str:
    """Format seconds in their largest unit: 2s, 1m, 3h, 2d."""
    seconds = int(seconds)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def clock(at: int, now: int, *, seconds: bool = False) -> str:
    """Format a local time, with the date if it is not today."""
    moment = datetime.fromtimestamp(at / SECOND)
    time = moment.strftime("%H:%M:%S" if seconds else "%H:%M")
    return time if moment.date() == datetime.fromtimestamp(now / SECOND).date() else f"{moment:%Y-%m-%d} {time}"


def size(chars: int) -> str:
    """Format a number of characters: 312 B, 2.1 kB, 1.2 MB."""
    if chars < 1000:
        return f"{chars} B"
    if chars < 1_000_000:
        return f"{chars / 1000:.1f} kB"
    return f"{chars / 1_000_000:.1f} MB"


def duration(us: int) -> str:
    """Format microseconds: 0.4 s, 14 s, 2 min."""
    seconds = us / SECOND
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def bar(share: float, width: int, glyphs: tuple[str, str] = ("━", "─")) -> tuple[str, str]:
    """Return the filled and the empty part of a bar. Any share above 0 fills one cell."""
    share = min(1.0, max(0.0, share))
    filled = min(width, max(1, round(share * width))) if share > 0 else 0
    return glyphs[0] * filled, glyphs[1] * (width - filled)


def sparkline(values: list[int], glyphs: str, width: int) -> str:
    """Draw the newest `width` values as bars, scaled to the largest."""
    shown = values[-width:]
    top = max(shown, default=0)
    if top <= 0:
        return glyphs[0] * width
    steps = len(glyphs) - 1
    return "".join(glyphs[min(steps, round(value / top * steps))] for value in shown).rjust(width, glyphs[0])
