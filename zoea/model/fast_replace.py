"""A faster `dataclasses.replace` for values that change often.

A turn makes some thirty changed copies of values with up to thirty fields. The standard function
inspects every field and runs `__init__`; this one copies the slots, or the dictionary of a class
without slots, which is faster from about ten fields on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import replace as replace  # type-checks the changes
else:
    import dataclasses
    from operator import attrgetter

    class _Fields(NamedTuple):
        count: int
        read: Any
        write: tuple[Any, ...]
        by_name: dict[str, Any]

    _known: dict[type, _Fields] = {}
    _set = object.__setattr__  # the class itself is frozen

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a frozen dataclass with these fields changed.

        Raises TypeError where a field is not its own, or where its class computes
        something when it is made (`__post_init__`, fields that `__init__` does not take).
        """
        kind = type(value)
        fields = _known.get(kind) or _fields(kind)
        made = object.__new__(kind)
        if not fields.write:
            values = value.__dict__ | changes
            if len(values) != fields.count:
                raise _unknown_field(kind, fields, changes)
            _set(made, "__dict__", values)
            return made
        for write, one in zip(fields.write, fields.read(value), strict=True):
            write(made, one)
        for name, one in changes.items():
            write = fields.by_name.get(name)
            if write is None:
                raise _unknown_field(kind, fields, changes)
            write(made, one)
        return made

    def _unknown_field(kind: type, fields: _Fields, changes: dict[str, Any]) -> TypeError:
        name = next(name for name in changes if name not in fields.by_name)
        return TypeError(f"{kind.__name__} has no field {name!r}")

    def _fields(kind: type) -> _Fields:
        names = [field.name for field in dataclasses.fields(kind)]
        if hasattr(kind, "__post_init__") or not all(field.init for field in dataclasses.fields(kind)):
            raise TypeError(f"{kind.__name__} computes something when it is made; use dataclasses.replace")
        if len(names) < 2:
            raise TypeError(f"{kind.__name__} is too small to be worth it; use dataclasses.replace")
        if hasattr(kind, "__slots__"):
            by_name = {name: getattr(kind, name).__set__ for name in names}
            found = _Fields(len(names), attrgetter(*names), tuple(by_name.values()), by_name)
        else:
            found = _Fields(len(names), None, (), dict.fromkeys(names))
        _known[kind] = found
        return found
