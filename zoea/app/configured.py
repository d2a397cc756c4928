"""What one mysis is now, and what its settings say where it says nothing itself: what a form begins with."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
  (SELECT group_concat(tag, ' ') FROM mysis_tag WHERE mysis_id = y.id) AS tags
FROM mysis y JOIN template p ON p.hash = y.template_hash WHERE y.id = ?
"""


@dataclass(frozen=True, slots=True)
class Configured:
    """`own` holds what its template sets, by dotted key; `general` what the settings say of each budget."""

    template: str
    provider: str
    model: str
    tags: str
    own: Mapping[str, Any]
    general: Mapping[str, Any]
    choices: Choices


def configured(places: Places | None, database: Path, mysis_id: int, now: int) -> Configured:
    """Read it; synchronous. Raises MysisMissing, SettingsError, StoreError, TemplateError."""
    with closing(open_reader(database)) as reader:
        row = reader.execute(_WHAT, (mysis_id,)).fetchone()
    if row is None:
        raise MysisMissing(f"there is no mysis #{mysis_id}")
    settings = load(places).settings if places is not None else Settings()
    overrides = from_text(row["body"]).overrides()
    own = {f"{section}.{key}": value for section, values in overrides.items() for key, value in values.items()}
    general = {path: getattr(settings.budget, path.partition(".")[2]) for path in BUDGETS}
    offered = choices(places, database, now)
    return Configured(row["name"], row["provider"], row["model"], row["tags"] or "", own, general, offered)


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
        except ValueError:
            found[path] = value
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be set to come from one to the other; None takes a key out."""
    changed: dict[str, Any] = {path: None for path in before if path not in after}
    return changed | {path: value for path, value in after.items() if path not in before or before[path] != value}
