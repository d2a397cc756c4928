"""The key reference as Markdown, generated into `documentation/reference/keys.md`."""

from __future__ import annotations

from zoea.tui.commands.action import ActionPlace
from zoea.tui.commands.actions import of
from zoea.tui.commands.keymap import fixed_keys
from zoea.tui.screens.help import PLACE_TITLES
from zoea.tui.widgets.status_bars import key_name

_REMAP = """\
Every action has an id, and its key can be changed by it, in `config.toml` or in the settings (`,`):

```toml
[tui.keys]
"swarm.hold" = "f5"
"mysis.new" = "+"
```

A key is one character, or a name as in `f5`, `enter`, `space`, `ctrl+k`, `pageup`. An unknown id, an unknown
key and two actions on one key in one place are errors that name both; the action then keeps its default.
Help (`?`) shows the keys in force, and why an action is not possible now."""

_COLUMNS = "| Key | Action | What it does | Id | Command |\n|---|---|---|---|---|"


def reference() -> str:
    """Return the whole page."""
    parts = ["# Keys", "Generated from the action registry by `make docs`; change that, not this page.", _REMAP]
    for place in ActionPlace:
        rows = [
            f"| {_code(key_name(action.key))} | {action.title} | {_cell(action.description)} | `{action.id}` "
            f"| {_code(f':{action.command}') if action.command else ''} |"
            for action in of(place)
        ]
        rows += [
            f"| {' '.join(_code(key_name(key)) for key in fixed.keys)} | {fixed.title} "
            f"| {_cell(fixed.description)} | fixed | |"
            for fixed in fixed_keys(place)
        ]
        if rows:
            parts += [f"## {PLACE_TITLES[place].capitalize()}", "\n".join([_COLUMNS, *rows])]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    text = f"ctrl+{text[1:]}" if text.startswith("^") and len(text) > 1 else text
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
