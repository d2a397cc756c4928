"""Screens without a terminal that are painted once a frame, not after each layout too: a sixth of a cockpit's time."""

from __future__ import annotations

import weakref
from typing import Any

from textual.geometry import Region
from textual.screen import Screen

_refresh = Screen._compositor_refresh
_update = Screen._on_timer_update
_unpainted: weakref.WeakKeyDictionary[Screen[Any], set[Region]] = weakref.WeakKeyDictionary()
"""The regions of screens that changed since they were painted."""


def refresh_later(screen: Screen[Any]) -> None:
    """Keep what changed on the top screen for its next frame."""
    app = screen.app
    if screen is not app.screen or app.is_inline or not app.is_headless:
        _refresh(screen)
        return
    changed = screen._compositor._dirty_regions
    _unpainted.setdefault(screen, set()).update(changed)
    changed.clear()
    screen._dirty_widgets.clear()
    screen._update_timer.resume()
    app._update_mouse_over(screen)


def paint_frame(screen: Screen[Any]) -> None:
    """Lay the screen out and paint what changed, as a frame does."""
    _update(screen)
    if screen.is_current and not screen.app._batch_count and (changed := _unpainted.pop(screen, None)):
        screen._update_timer.pause()
        screen._compositor._dirty_regions.update(changed)
        _refresh(screen)
