"""Strips whose caches are made at their first use: of the seven of each, most strips never use one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.segment import Segment
from textual.cache import FIFOCache
from textual.strip import Strip

_SIZES = {
    "_divide_cache": 4,
    "_crop_cache": 16,
    "_style_cache": 16,
    "_filter_cache": 4,
    "_line_length_cache": 4,
    "_crop_extend_cache": 4,
    "_offsets_cache": 4,
}


def make_caches_late() -> None:
    """Change Textual's class for the rest of the process. Strips outlast the test that made them."""
    for name, function in (
        ("__init__", _init),
        ("__getattr__", _make_cache),
    ):  # the second: for what is not set
        setattr(Strip, name, function)


def _init(strip: Strip, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    strip._segments = list(segments)
    strip._cell_length = cell_length
    strip._render_cache = strip._link_ids = strip._cell_count = None


def _make_cache(strip: Strip, name: str) -> FIFOCache[Any, Any]:
    if name not in _SIZES:
        raise AttributeError(name)
    cache: FIFOCache[Any, Any] = FIFOCache(_SIZES[name])
    setattr(strip, name, cache)
    return cache
