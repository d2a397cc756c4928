"""SVG snapshots of screens: export, reduce, compare.

pytest-textual-snapshot starts an app for every snapshot, which costs minutes for a hundred of them, and compares
once, which is flaky on a busy machine. Here one cockpit is resized and re-themed, and a screen is compared until it
matches or time is up.

    ZOEA_SNAPSHOTS=write pytest tests/tui/test_snapshots.py      (or: make snapshots)

accepts the present screens. A snapshot that differs is written to `failed/` beside the kept ones, with a page that
shows both.
"""

from __future__ import annotations

import difflib
import html
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip

KEPT = Path(__file__).parent / "snapshots"
FAILED = KEPT / "failed"
CELL_X, CELL_Y, GROUND_Y = 12.2, 24.4, 24.65
ACCEPTS = os.environ.get("ZOEA_SNAPSHOTS") == "write"

_BLANK = "\N{NO-BREAK SPACE}"
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_LINE_CLIPS = re.compile(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_CLIP = re.compile(r' clip-path="url\(#[^)]*-line-\d+\)"')
_TEXT = re.compile(r'<text class="(r\d+)" x="([\d.]+)" y="([\d.]+)"(?: textLength="([\d.]+)")?>([^<]*)</text>')
_RECT = re.compile(
    r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="24.65" shape-rendering="crispEdges"/>\s*'
)
_CHROME = re.compile(r'<text class="[^"]*-title".*?</text>')


@dataclass(frozen=True, slots=True)
class ScreenImage:
    """What a screen shows: its lines of styled text, with those of the screens behind it."""

    width: int
    height: int
    lines: tuple[tuple[Strip, ...], ...]


def capture_screen(app: App[Any]) -> ScreenImage:
    """Read what the top screen shows."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    assert isinstance(update, LayoutUpdate)
    return ScreenImage(*app.size, tuple(map(tuple, update.strips)))


def export_svg(image: ScreenImage) -> str:
    """Export a screen as `App.export_screenshot` does, without fonts, ids, clips and trailing blanks."""
    console = Console(
        width=image.width,
        height=image.height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    console.print(LayoutUpdate(list(image.lines), Region(0, 0, image.width, image.height)))
    # Otherwise rich takes a hash of every segment for the id, which is a third of the time.
    drawn = console.export_svg(title="zoea", unique_id="terminal-0")
    drawn = _CHROME.sub("", _FONTS.sub("", drawn)).replace("Fira Code, monospace", "monospace")
    drawn = _CLIP.sub("", _LINE_CLIPS.sub("", drawn)).replace("&#160;", _BLANK)
    drawn = re.sub(r"terminal-\d+-(r\d+)", r"\1", drawn)
    drawn = re.sub(r"terminal-\d+", "zoea", drawn)
    drawn = _TEXT.sub(_trim_text, drawn)
    first = _RECT.search(drawn)
    at = first.start() if first else 0
    grounds = _merge_backgrounds(_RECT.findall(drawn))
    drawn = drawn[:at] + grounds + _RECT.sub("", drawn[at:])
    drawn = re.sub(r"(</text>|/>)(?=<)", r"\1\n", drawn)
    return re.sub(r"[ \t]*\n\s*", "\n", drawn).strip() + "\n"


def _trim_text(found: re.Match[str]) -> str:
    """Remove the blanks around a text and correct its position."""
    style, x, y, length, text = found.groups()
    begins = text.lstrip(_BLANK)
    kept = begins.rstrip(_BLANK + "\n")
    if not kept:
        return ""
    left = float(x) + (len(text) - len(begins)) * CELL_X
    width = float(length) - (len(text) - len(kept)) * CELL_X
    stretched = f' textLength="{round(width, 1):g}"' if len(kept) > 1 else ""
    return f'<text class="{style}" x="{round(left, 1):g}" y="{y}"{stretched}>{kept}</text>'


def _merge_backgrounds(grounds: list[tuple[str, str, str, str]]) -> str:
    """Merge adjacent backgrounds of one colour into few rectangles."""
    rows: dict[float, list[tuple[str, float, float]]] = {}
    for fill, x, top, width in grounds:
        row = rows.setdefault(float(top), [])
        left, right = float(x), float(x) + float(width)
        if row and row[-1][0] == fill and abs(row[-1][2] - left) < 0.1:
            row[-1] = (fill, row[-1][1], right)
        else:
            row.append((fill, left, right))
    made: list[tuple[str, float, float, float, float]] = []
    above: dict[tuple[str, float, float], int] = {}
    for y in sorted(rows):
        here: dict[tuple[str, float, float], int] = {}
        for fill, left, right in rows[y]:
            key = (fill, round(left, 1), round(right, 1))
            at = here[key] = above.get(key, len(made))
            if at == len(made):
                made.append((fill, left, y, right, y + GROUND_Y))
            else:
                made[at] = (*made[at][:4], y + GROUND_Y)
        above = here
    drawn = (
        f'<rect fill="{fill}" x="{left:g}" y="{top:g}" width="{right - left:.1f}" height="{bottom - top:.2f}"/>\n'
        for fill, left, top, right, bottom in made
    )
    return '<g shape-rendering="crispEdges">\n' + "".join(drawn) + "</g>\n"


def read_lines(svg: str) -> list[str]:
    """Return the text of a snapshot as lines."""
    rows: dict[int, str] = {}
    for _, x, y, _, text in _TEXT.findall(svg):
        row, column = round(float(y) / CELL_Y), round(float(x) / CELL_X)
        rows[row] = rows.get(row, "").ljust(column) + html.unescape(text).replace(_BLANK, " ")
    return [rows.get(row, "") for row in range(max(rows, default=-1) + 1)]


@dataclass
class SnapshotStore:
    """Compare snapshots with the kept ones, or keep them; collect differences."""

    folder: Path = KEPT
    failed: dict[str, str] = field(default_factory=dict)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.svg"

    def kept(self, name: str) -> str:
        """Return the kept snapshot; empty if there is none."""
        file = self.file(name)
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def keep(self, name: str, drawn: str) -> None:
        file = self.file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawn, encoding="utf-8")

    def differs(self, name: str, drawn: str) -> None:
        """Record a difference and write both snapshots and a page."""
        kept = self.kept(name)
        where = FAILED / f"{name.replace('/', '-')}.svg"
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(drawn, encoding="utf-8")
        page = [_figure("kept", kept), _figure("now", drawn)]
        where.with_suffix(".html").write_text(_PAGE.format(name=name, body="\n".join(page)), encoding="utf-8")
        before, now = read_lines(kept), read_lines(drawn)
        changed = list(difflib.unified_diff(before, now, "kept", "now", lineterm="", n=1))
        self.failed[name] = "\n".join(changed) if changed else "the same letters in other colours or styles"

    def complaint(self) -> str:
        """Return a message about all differences; empty if there are none."""
        if not self.failed:
            return ""
        parts = [f"{len(self.failed)} pictures differ from the kept ones: {', '.join(self.failed)}"]
        parts += [f"--- {name}\n{changed}" for name, changed in list(self.failed.items())[:3]]
        parts += [f"Look at {FAILED}/*.html. Where they are as they should be: make snapshots"]
        return "\n".join(parts)

    def strangers(self, names: Iterable[str]) -> list[str]:
        """Return the kept snapshots that no test draws."""
        known = {self.file(name) for name in names}
        found = (file for file in self.folder.rglob("*.svg") if FAILED not in file.parents)
        return sorted(str(file.relative_to(self.folder)) for file in found if file not in known)


def _figure(title: str, svg: str) -> str:
    return f"<h2>{title}</h2>{svg}" if svg else f"<h2>{title}</h2><p>none</p>"


_PAGE = """<!doctype html><meta charset="utf-8"><title>{name}</title>
<style>body {{ background: #222; color: #eee; font-family: sans-serif }} svg {{ width: 100% }}</style>
<h1>{name}</h1>
{body}
"""
