"""What myses are now, and what the settings say where they say nothing themselves: what a form begins with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoea.app.choices import Choices, choices
from zoea.model.errors import MysisMissing, UsageError
from zoea.settings import Settings, from_text, load
from zoea.settings.paths import Places
from zoea.settings.template import OVERRIDES
from zoea.store.direct import open_reader

BUDGETS = ("budget.token_budget_per_agent", "budget.token_budget_per_task", "budget.mysis")
_WHAT = """
SELECT y.provider, y.model, p.name, p.body,
  (SELECT group_concat(tag, ' ') FROM (SELECT tag FROM mysis_tag WHERE mysis_id = y.id ORDER BY tag)) AS tags
FROM mysis y JOIN template p ON p.hash = y.template_hash WHERE y.id = ?
"""


@dataclass(frozen=True, slots=True)
class Configured:
    """What all of them are: empty, or missing in `own`, where they differ.

    `own` holds what the template sets, by dotted key; `general` what the settings say of each budget.
    """

    template: str
    provider: str
    model: str
    tags: str
    own: Mapping[str, Any]
    general: Mapping[str, Any]
    choices: Choices


def configured(places: Places | None, database: Path, mysis_ids: Sequence[int], now: int) -> Configured:
    """Read it; synchronous. Raises MysisMissing, SettingsError, StoreError, TemplateError."""
    with closing(open_reader(database)) as reader:
        found = [(mysis_id, reader.execute(_WHAT, (mysis_id,)).fetchone()) for mysis_id in mysis_ids]
    missing = [mysis_id for mysis_id, row in found if row is None]
    if missing:
        raise MysisMissing(f"there is no mysis #{missing[0]}")
    rows = [row for _, row in found]
    settings = load(places).settings if places is not None else Settings()
    owns = [_own(body) for body in dict.fromkeys(row["body"] for row in rows)]
    own = {path: value for path, value in owns[0].items() if all(path in o and o[path] == value for o in owns)}
    general = {path: getattr(settings.budget, path.partition(".")[2]) for path in BUDGETS}
    offered = choices(places, database, now)
    name, provider, model, tags = (
        _shared(row[key] or "" for row in rows) for key in ("name", "provider", "model", "tags")
    )
    return Configured(name, provider, model, tags, own, general, offered)


def _own(body: str) -> dict[str, Any]:
    overrides = from_text(body).overrides()
    return {f"{section}.{key}": value for section, values in overrides.items() for key, value in values.items()}


def _shared(words: Iterable[str]) -> str:
    different = set(words)
    return different.pop() if len(different) == 1 else ""


def written(own: Mapping[str, Any]) -> str:
    """Settings as a person writes them: `nudge.enabled=false loop.same_call=5`."""
    return " ".join(f"{path}={json.dumps(value, separators=(',', ':'))}" for path, value in own.items())


def read(text: str) -> dict[str, Any]:
    """`written` back. Raises UsageError naming the word that is no setting."""
    found: dict[str, Any] = {}
    for word in text.split():
        path, sign, value = word.partition("=")
        if not sign or path.partition(".")[0] not in OVERRIDES:
            raise UsageError(
                f"{word} is no setting of one mysis", hint=f"Write section.key=value; sections: {', '.join(OVERRIDES)}."
            )
        try:
            found[path] = json.loads(value)
            json.dumps(found[path], allow_nan=False)
        except (ValueError, RecursionError):  # no JSON, or a number that JSON cannot say again
            found[path] = value
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be set to come from one to the other; None takes a key out."""
    changed: dict[str, Any] = {path: None for path in before if path not in after}
    return changed | {path: value for path, value in after.items() if path not in before or before[path] != value}
