"""Screens without a terminal, of which only what Zoea draws is drawn: a quarter of the time of a cockpit.

Once a frame, not after each layout too, each changed line of each widget in sight is drawn. Nobody gets a frame, so
Textual does not cut and join the lines, and adds neither borders nor filters, until a test reads the screen.
"""

from __future__ import annotations

import weakref
from typing import Any

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

_refresh = Screen._compositor_refresh
_update = Screen._on_timer_update
_render_widget = StylesCache.render_widget
_set_dirty = StylesCache.set_dirty
_clear = StylesCache.clear

_unpainted: weakref.WeakKeyDictionary[Screen[Any], set[Region]] = weakref.WeakKeyDictionary()
"""The regions of screens that changed since they were painted."""
_drawn: weakref.WeakKeyDictionary[StylesCache, set[int]] = weakref.WeakKeyDictionary()
"""The lines of widgets that were drawn in a frame, and are not read yet."""
_frames: list[Screen[Any]] = []
"""The screen whose frame is being drawn; empty while a test reads a screen."""


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
    """Lay the screen out and draw what changed, as a frame does."""
    _update(screen)
    if screen.is_current and not screen.app._batch_count and (changed := _unpainted.pop(screen, None)):
        screen._update_timer.pause()
        _frames.append(screen)
        try:
            _draw(screen, changed)
        finally:
            _frames.pop()


def _draw(screen: Screen[Any], changed: set[Region]) -> None:
    """Draw the widgets in the regions; the screen itself is only the ground below them."""
    for widget, (region, clip) in screen._compositor.visible_widgets.items():
        shown = region.intersection(clip)
        if widget is not screen and any(map(shown.overlaps, changed)):
            widget.render_lines(shown.translate((-region.x, -region.y)))


def render_widget(cache: StylesCache, widget: Widget, crop: Region) -> list[Strip]:
    """Draw the changed lines of a widget for a frame, without borders. Render them as Textual does for a reader."""
    if not _frames:
        return _render_widget(cache, widget, crop)
    width, top, height = widget.region.width, widget.gutter.top, widget.content_region.height
    if width != cache._width:
        cache.clear()
        cache._width = width
    drawn = _drawn.setdefault(cache, set())
    for y in crop.line_range:
        if y not in drawn and (y not in cache._cache or cache.is_dirty(y)):
            drawn.add(y)
            if 0 <= y - top < height:
                widget.render_line(y - top)
    return []


def set_dirty(cache: StylesCache, *regions: Region) -> None:
    """Let the lines of the regions be drawn again, or all lines."""
    _set_dirty(cache, *regions)
    if drawn := _drawn.get(cache):
        for region in regions:
            drawn.difference_update(region.line_range)


def clear(cache: StylesCache) -> None:
    """Let all lines be drawn again."""
    _clear(cache)
    _drawn.pop(cache, None)
