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
from functools import cache
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.color import blend_rgb
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.strip import Strip

KEPT = Path(__file__).parent / "snapshots"
FAILED = KEPT / "failed"
CELL_X, CELL_Y, GROUND_Y = 12.2, 24.4, 24.65
ACCEPTS = os.environ.get("ZOEA_SNAPSHOTS") == "write"

_BLANK = "\N{NO-BREAK SPACE}"
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_LINE_CLIPS = re.compile(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_TEXT = re.compile(r'<text class="(r\d+)" x="([\d.]+)" y="([\d.]+)"(?: textLength="([\d.]+)")?>([^<]*)</text>')
_ANY_TEXT = re.compile(r"<text .*?</text>", re.DOTALL)


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
    """Export a screen as `App.export_screenshot` does, without fonts, ids, clips and trailing blanks.

    Rich draws the frame; the lines are drawn here, because Rich takes four times as long for them.
    """
    classes: dict[str, int] = {}
    texts: list[str] = []
    rows: list[list[tuple[str, int, int]]] = []
    for y, line in enumerate(image.lines):
        row: list[tuple[str, int, int]] = []
        rows.append(row)
        x = 0
        for text, style, _ in (segment for strip in line for segment in strip):
            if not text:
                continue
            css, ground = _export_style(style or Style.null())
            number = classes.setdefault(css, len(classes) + 1)
            width = cell_len(text)
            if ground and row and row[-1][0] == ground and row[-1][2] == x:
                row[-1] = (ground, row[-1][1], x + width)
            elif ground:
                row.append((ground, x, x + width))
            if begins := text.lstrip(" "):
                shown = html.escape(begins.rstrip(" ")).replace(" ", _BLANK)
                left, length = x + len(text) - len(begins), len(begins.rstrip(" "))
                stretched = f' textLength="{round(length * CELL_X, 1):g}"' if len(shown) > 1 else ""
                at = f'x="{round(left * CELL_X, 1):g}" y="{y * CELL_Y + 20:g}"'
                texts.append(f'<text class="r{number}" {at}{stretched}>{shown}</text>\n')
            x += width
        classes.setdefault(_export_style(Style.null())[0], len(classes) + 1)  # the end of a line, for Rich
    styles = "\n".join(f".r{number} {{ {css} }}" for css, number in classes.items())
    head, middle, tail = _export_frame(image.width, len(image.lines))
    return f'{head}{styles}{middle}{_export_backgrounds(rows)}<g class="zoea-matrix">\n{"".join(texts)}{tail}'


@cache
def _export_style(style: Style) -> tuple[str, str]:
    """Return the CSS of a style and the colour of its background; empty without one."""
    theme = SVG_EXPORT_THEME
    color, ground = (
        default if own is None or own.is_default else own.get_truecolor(theme)
        for own, default in ((style.color, theme.foreground_color), (style.bgcolor, theme.background_color))
    )
    if style.reverse:
        color, ground = ground, color
    shown = blend_rgb(color, ground, 0.4) if style.dim else color
    css = [f"fill: {shown.hex}"]
    css += ["font-weight: bold"] * bool(style.bold) + ["font-style: italic;"] * bool(style.italic)
    css += ["text-decoration: underline;"] * bool(style.underline)
    css += ["text-decoration: line-through;"] * bool(style.strike)
    has_ground = style.reverse or (style.bgcolor is not None and not style.bgcolor.is_default)
    return ";".join(css), ground.hex if has_ground else ""


@cache
def _export_frame(width: int, height: int) -> tuple[str, str, str]:
    """Return the three parts that Rich draws around the styles and the lines."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, record=True, legacy_windows=False)
    console.print("\n" * (height - 1))
    drawn = console.export_svg(title="zoea", unique_id="terminal-0")
    drawn = _ANY_TEXT.sub("", _FONTS.sub("", drawn)).replace("Fira Code, monospace", "monospace")
    drawn = _LINE_CLIPS.sub("", drawn).replace("terminal-0", "zoea")
    drawn = re.sub(r"/>(?=<)", "/>\n", drawn)
    drawn = re.sub(r"[ \t]*\n\s*", "\n", drawn).strip() + "\n"
    head, _, rest = re.split(r"(\.zoea-r1 \{.*\})", drawn)
    middle, tail = rest.split('<g class="zoea-matrix">\n')
    return head, middle, tail


def _export_backgrounds(rows: list[list[tuple[str, int, int]]]) -> str:
    """Export the backgrounds; those of one colour and width below each other are one rectangle."""
    made: list[tuple[str, int, int, int, int]] = []
    above: dict[tuple[str, int, int], int] = {}
    for y, row in enumerate(rows):
        here: dict[tuple[str, int, int], int] = {}
        for key in row:
            at = here[key] = above.get(key, len(made))
            if at == len(made):
                made.append((*key, y, y))
            else:
                made[at] = (*made[at][:4], y)
        above = here
    drawn = (
        f'<rect fill="{fill}" x="{left * CELL_X:g}" y="{top * CELL_Y + 1.5:g}" width="{(right - left) * CELL_X:.1f}"'
        f' height="{(bottom - top) * CELL_Y + GROUND_Y:.2f}"/>\n'
        for fill, left, right, top, bottom in made
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
