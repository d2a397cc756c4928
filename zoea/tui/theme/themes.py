"""Read themes from TOML files: colours, roles, glyphs.

Shipped files are in `themes/`, a person's own in the configuration directory, where a file of the same name wins.
All errors of a file come in one message. Widgets use roles, never colours. Terminals without UTF-8 get ASCII of the
same width by one filter over all output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

import zoea
from zoea.model.errors import SettingsError
from zoea.settings.small_file import read_small_text
from zoea.text.control_characters import one_line, reveal
from zoea.text.document_bounds import parse_toml
from zoea.text.shorten import head

COLOURS = (
    "background",
    "surface",
    "panel",
    "text",
    "muted",
    "primary",
    "primary-text",
    "secondary",
    "accent",
    "success",
    "warning",
    "error",
)
ROLE_COLOURS = {
    "title": "primary-text",
    "border": "primary",
    "border-focus": "secondary",
    "cursor": "panel",
    "idle": "muted",
    "running": "secondary",
    "stopped": "muted",
    "errored": "error",
    "asking": "accent",
    "waiting": "warning",
    "llm": "primary-text",
    "tool": "secondary",
    "commander": "accent",
    "mysis": "secondary",
    "reasoning": "muted",
    "keyword": "primary-text",
    "string": "warning",
    "comment": "muted",
}
"""The colour of each role that a theme leaves out, so that a theme of an older release goes on."""
ROLES = tuple(ROLE_COLOURS)
STATUS_ROLES = {
    "working": "running",
    "queued": "llm",
    "retrying": "waiting",
    "done": "running",
    "held": "commander",
    "paused": "commander",
}
"""Roles of statuses that a theme may leave out, and the role that then stands for each."""
_SIGNS = {
    "brand": ("⬡", "<>"),
    "brand-full": ("⬢", "<#>"),
    "idle": ("⬡", "o"),
    "running": ("⬢", "*"),
    "stopped": ("◌", "-"),
    "errored": ("✖", "x"),
    "asking": ("⚑", "?"),
    "waiting": ("◔", "~"),
    "working": ("⬢", "*"),
    "queued": ("≡", "="),
    "retrying": ("↻", "@"),
    "done": ("✓", "+"),
    "held": ("◫", "H"),
    "paused": ("‖", "P"),
    "tool": ("⚙", ">"),
    "spark": ("▁▂▃▄▅▆▇█", " .:-=+*#"),
}
"""Each glyph by name, and what stands for it in ASCII."""
GLYPHS = {name: glyph for name, (glyph, _) in _SIGNS.items()}
"""The glyph of each name that a theme leaves out."""
ASCII_GLYPHS = {name: sign for name, (_, sign) in _SIGNS.items()}
MOST_FILES = 200
"""The most theme files of a folder that count: each takes a millisecond to read, and all are looked at often."""
MOST_GLYPH, MOST_PROBLEM = 16, 200
"""The most characters of a glyph, and of a shown problem of a theme file."""
MOST_LINES = 10
"""The most problems of a file that are shown."""

_HEX = re.compile(r"#[0-9A-Fa-f]{6}")
_ANSI = re.compile(r"ansi_(bright_)?(black|red|green|yellow|blue|magenta|cyan|white)|ansi_default")
DEFAULT = "nova"
QUIET_BORDER = 0.45


class ThemeSpec(Struct, frozen=True):
    """One theme; `roles` are resolved to colours."""

    name: str
    title: str
    dark: bool
    colours: Mapping[str, str]
    roles: Mapping[str, str]
    glyphs: Mapping[str, str]

    @property
    def is_ansi(self) -> bool:
        """Return whether it uses the terminal's own palette."""
        return self.colours["background"].startswith("ansi")

    @property
    def has_syntax(self) -> bool:
        """Return whether it has colours for code, and can tint changed lines below them."""
        mixed = (self.colours[name] for name in ("background", "success", "error"))
        return all(map(_HEX.fullmatch, mixed)) and self.roles["keyword"] != self.colours["text"]

    def _border_quiet(self) -> str:
        """Return the border of unfocused widgets: halfway to the background, unless colours are ANSI."""
        border, ground = self.roles["border"], self.colours["background"]
        if not (_HEX.fullmatch(border) and _HEX.fullmatch(ground)):
            return border
        return Color.parse(ground).blend(Color.parse(border), QUIET_BORDER).hex

    def theme(self) -> Theme:
        """Return the Textual theme; each role becomes the variable `$role-NAME`."""
        colours = self.colours
        return Theme(
            name=self.name,
            primary=colours["primary"],
            secondary=colours["secondary"],
            accent=colours["accent"],
            foreground=colours["text"],
            background=colours["background"],
            surface=colours["surface"],
            panel=colours["panel"],
            success=colours["success"],
            warning=colours["warning"],
            error=colours["error"],
            dark=self.dark,
            ansi=self.is_ansi,
            variables={
                "text-quiet": colours["muted"],
                "border-quiet": self._border_quiet(),
                "block-cursor-background": colours["panel"],
                "block-cursor-foreground": colours["text"],
                **self._selection(),
                "footer-key-foreground": colours["secondary"],
                **{f"role-{name}": colour for name, colour in self.roles.items()},
                **(self._of_the_terminal() if self.is_ansi else {}),
            },
        )

    def _selection(self) -> dict[str, str]:
        """Return the colours of selected text: text and background exchanged, which is readable in every theme.

        Textual's own foreground is transparent, so that selected text of a widget that draws lines is invisible.
        """
        back, front = self.colours["text"], self.colours["background"]
        if self.is_ansi:
            back, front = "ansi_bright_cyan", "ansi_black"  # the terminal's default colours cannot be exchanged
        return {
            f"{kind}-selection-{part}": colour
            for kind in ("screen", "input")
            for part, colour in (("background", back), ("foreground", front))
        }

    def _of_the_terminal(self) -> dict[str, str]:
        """Return variables that Textual's styles use but defines only for mixable colours."""
        dark, light = "ansi_black", "ansi_white"
        return {
            "ansi-background": dark if self.dark else light,
            "ansi-foreground": light if self.dark else dark,
            "foreground-disabled": self.colours["muted"],
            "surface-active": self.colours["surface"],
        }


def list_theme_folders(config: Path) -> tuple[Path, ...]:
    """Return the theme folders, shipped first; a wheel has them inside the package."""
    package = Path(zoea.__file__).parent
    shipped = package / "themes" if (package / "themes").is_dir() else package.parent / "themes"
    return (shipped, config / "themes")


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))


def read_file_stamps(config: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, time and size of each theme file, to detect changes."""
    found = []
    for folder in list_theme_folders(config):
        for file in _list_files(folder)[:MOST_FILES]:
            try:
                stat = file.stat()
            except OSError:
                continue  # deleted after it was listed
            found.append((str(file), stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def load_themes(config: Path) -> tuple[dict[str, ThemeSpec], list[SettingsError]]:
    """Load all themes by name, and one error for each invalid file."""
    found: dict[str, ThemeSpec] = {}
    errors: list[SettingsError] = []
    for folder in list_theme_folders(config):
        files = _list_files(folder)
        if len(files) > MOST_FILES:
            text = f"{folder} has {len(files):,} theme files: those after {MOST_FILES} have no effect"
            errors.append(SettingsError(text, title="Theme is wrong"))
        for file in files[:MOST_FILES]:
            try:
                look = read_theme(file)
            except SettingsError as error:
                errors.append(error)
            else:
                found[look.name] = look
    return found, errors


def read_theme(file: Path) -> ThemeSpec:
    """Read one theme file. Raises SettingsError with every problem of it."""
    try:
        table = parse_toml(read_small_text(file))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}", title="Theme is wrong") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: {error}", title="Theme is wrong") from error
    problems = _Problems()
    colours = _colours(table, problems)
    roles = _roles(table, colours, problems)
    given = _strings(table, "glyphs", (), problems, GLYPHS)
    problems.wrong += [
        f"glyphs.{name} is longer than {MOST_GLYPH} characters" for name in given if len(given[name]) > MOST_GLYPH
    ]
    # Glyphs are drawn as they are, and a theme may come from elsewhere.
    glyphs = GLYPHS | {name: reveal(glyph) for name, glyph in given.items()}
    problems.missing += [name for name in ("name", "title") if not isinstance(table.get(name), str)]
    if not isinstance(table.get("dark"), bool):
        problems.wrong.append("dark must be true or false")
    problems.name_unknown(table, _KEYS, "is no key of a theme")
    if lines := problems.lines:
        raise SettingsError(
            "\n  ".join([f"{file}:", *lines]),
            title="Theme is wrong",
            hint=f"A theme is a copy of a whole one, such as {list_theme_folders(Path())[0] / 'nova.toml'}.",
        )
    return ThemeSpec(table["name"], one_line(table["title"]), table["dark"], colours, roles, glyphs)


class _Problems:
    """The faults of a theme file: misspelt names, wrong values, then the missing names in a line."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []
        self.missing: list[str] = []

    def name_unknown(self, given: Mapping[str, Any], known: Iterable[str], what: str, section: str = "") -> None:
        """Note each unknown name with the known one it may stand for. That one is not missing then."""
        names = [name for name in known if name not in given]
        for name in sorted(set(given) - set(known)):
            near = get_close_matches(name, names, n=1) if len(self.unknown) < MOST_LINES else ()  # no others are shown
            self.unknown.append(f"{section}{name} {what}{f'; did you mean {near[0]}?' if near else ''}")
            self.missing = [missing for missing in self.missing if not near or missing != f"{section}{near[0]}"]

    @property
    def lines(self) -> list[str]:
        """One line each, the most useful first."""
        sections: dict[str, list[str]] = {}
        for path in self.missing:
            section, _, name = path.rpartition(".")
            sections.setdefault(section, []).append(name)
        places = {section: f" in [{section}]" if section else "" for section in sections}
        missing = [f"missing{places[section]}: {', '.join(names)}" for section, names in sections.items()]
        lines = [*self.unknown, *self.wrong, *missing]
        more = [f"and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
        return [*(head(line, MOST_PROBLEM) for line in lines[:MOST_LINES]), *more]


def _strings(
    table: Mapping[str, Any],
    section: str,
    names: Iterable[str],
    problems: _Problems,
    optional: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Read a section of texts; `optional` are names that it may leave out."""
    given = table.get(section)
    if given is None and not names:
        return {}
    if not isinstance(given, dict):
        problems.missing.append(f"[{section}]")
        return {}
    known = (*names, *(optional or ()))
    problems.missing += [f"{section}.{name}" for name in names if not isinstance(given.get(name), str)]
    problems.name_unknown(given, known, "is not known", f"{section}.")
    return {name: given[name] for name in known if isinstance(given.get(name), str)}


def _colours(table: Mapping[str, Any], problems: _Problems) -> dict[str, str]:
    colours = _strings(table, "colours", COLOURS, problems)
    for name, value in colours.items():
        if not (_HEX.fullmatch(value) or _ANSI.fullmatch(value)):
            problems.wrong.append(f"colours.{name}: {value!r} is neither #RRGGBB nor an ansi_ colour")
    return colours


def _roles(table: Mapping[str, Any], colours: Mapping[str, str], problems: _Problems) -> dict[str, str]:
    given = _strings(table, "roles", (), problems, ROLE_COLOURS | STATUS_ROLES)
    roles = ROLE_COLOURS | given
    roles = {name: roles[other] for name, other in STATUS_ROLES.items()} | roles
    for name, colour in given.items():
        if colour not in COLOURS:  # a colour that is only missing is named once, as missing
            problems.wrong.append(f"roles.{name}: {colour!r} is no colour of this theme")
    return {name: colours.get(colour, "#FFFFFF") for name, colour in roles.items()}


_KEYS = ("name", "title", "dark", "colours", "roles", "glyphs")
_CORNERS = "╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋"
_LETTERS = {
    **dict.fromkeys(_CORNERS, "+"),
    **dict.fromkeys("─━═╌╍┄┅▔▁", "-"),
    **dict.fromkeys("│┃║╎╏┆┇▏▎▍▕▌▐", "|"),
    **dict.fromkeys("█▇▆▅▓▄▀■", "#"),
    **dict.fromkeys("▃▂▒░", ":"),
    **dict.fromkeys("·•∙", "."),
    **dict.fromkeys("–—−", "-"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’‹›", "'"),
    **dict.fromkeys("→▶▸", ">"),
    **dict.fromkeys("←◀◂", "<"),
    **dict.fromkeys("↑▲▴", "^"),
    **dict.fromkeys("↓▼▾", "v"),
    "…": "~",
    "×": "x",
    "√": "v",
    # Glyphs of states and commits that may occur in text.
    "●": "*",
    "◆": "+",
    "▣": "%",
    "▤": "=",
    "★": "!",
    **{glyph: sign for glyph, sign in _SIGNS.values() if len(glyph) == len(sign) == 1},
}


def has_utf8(env: Mapping[str, str]) -> bool:
    """Return whether the locale allows more than ASCII; an unset locale counts as UTF-8.

    Python sets `LC_CTYPE=C.UTF-8` itself if the locale is C, so that value is ignored.
    """
    if env.get("TERM") == "dumb":
        return False
    coerced = env.get("LC_CTYPE") == "C.UTF-8"
    locale = env.get("LC_ALL") or ("" if coerced else env.get("LC_CTYPE")) or env.get("LANG") or ""
    return not locale or "utf" in locale.lower()


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Return the text in ASCII with the same number of cells."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _LETTERS.get(char, "?" * cell_len(char)) for char in text)


_CLUSTER = re.compile(
    "[#*0-9]\ufe0f?\u20e3|[\xa9\xae\u203c-\u3299\U0001f000-\U0001faff]"
    "(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[\u2190-\u2bff\U0001f000-\U0001faff])+"
)
"""An emoji that is made of several characters: joined, coloured, or chosen instead of a sign."""


class EmojiFilter(LineFilter):
    """Show only the first part of a joined emoji, because terminals disagree on its width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isascii() or _CLUSTER.search(segment.text) is None
            else Segment(_CLUSTER.sub(_keep_first, segment.text), segment.style)
            for segment in segments
        ]


def _keep_first(match: re.Match[str]) -> str:
    first = match[0][0]
    return first + " " * max(0, cell_len(match[0]) - cell_len(first))


class AsciiFilter(LineFilter):
    """Replace characters that the terminal cannot show."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control or segment.text.isascii() else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]
