"""The filter of the swarm list: words for names; `tag:`, `state:`, `template:`, `says:`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Self

from msgspec import Struct

from zoea.model.status import StatusWord
from zoea.model.values import MysisView


def _has_state(view: MysisView, value: str) -> bool:
    """Compare with the shown status. Where no status begins so, as `running`, compare with the state."""
    is_status = any(word.startswith(value) for word in StatusWord)
    return str(view.status if is_status else view.state).startswith(value)


_FIELDS: dict[str, Callable[[MysisView, str], bool]] = {
    "tag": lambda view, value: any(tag.casefold().startswith(value) for tag in view.tags),
    "state": _has_state,
    "template": lambda view, value: view.template.casefold().startswith(value),
    "says": lambda view, value: value in f"{view.text}\n{view.streaming}".casefold(),
}
_PART = re.compile(rf'(?:(?P<field>{"|".join(_FIELDS)}):)?(?:"(?P<quoted>[^"]*)"?|(?P<word>\S+))')


class RowFilter(Struct, frozen=True):
    """What the list shows.

    Attributes:
        text: As it was typed.
        words: Each is a part of the name; where no name has them all, each is a part of any column.
        fields: Pairs of field and value; all must hold.
    """

    text: str = ""
    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a filter; any text is one. A value with blanks is quoted: `says:"iron ore"`."""
        words: list[str] = []
        fields: list[tuple[str, str]] = []
        for found in _PART.finditer(text.casefold()):
            value = found["quoted"] if found["quoted"] is not None else found["word"] or ""
            if found["field"]:
                fields.append((found["field"], value))
            elif value.removesuffix(":") in _FIELDS and value.endswith(":"):
                continue  # its value is still to be typed
            elif value:
                words.append(value)
        return cls(text.strip(), tuple(words), tuple(fields))

    def __bool__(self) -> bool:
        return bool(self.words or self.fields)

    def select(self, views: Iterable[MysisView]) -> list[MysisView]:
        """Return the myses that match, in the given order."""
        found = [view for view in views if all(_FIELDS[name](view, value) for name, value in self.fields)]
        if not self.words:
            return found
        named = [view for view in found if all(word in view.name.casefold() for word in self.words)]
        return named or [view for view in found if self._is_anywhere(view)]

    def _is_anywhere(self, view: MysisView) -> bool:
        parts = (view.name, view.template, view.agent, view.state, view.status, *view.tags, view.text)
        hay = "\n".join(parts).casefold()
        return all(word in hay for word in self.words)
