"""One thing to read: a template's sections over the settings, budgets by the lowest."""

from __future__ import annotations

from typing import Any

from zoea.model.errors import TemplateError
from zoea.settings.fields import lowest
from zoea.settings.schema import Settings, disagreements
from zoea.settings.sections import BudgetSettings
from zoea.settings.template import Template

CAPS = ("token_budget_per_agent", "token_budget_per_task", "swarm_per_day", "mysis", "max_output_tokens", "background")
"""The budgets that are bounds; `enforcement` is layered like any other key."""


def effective(settings: Settings, template: Template) -> Settings:
    """The settings as they are for the myses of a template.

    What the template says holds over the settings; of a budget that both set, the
    lower. A template's `strategy` is `context.strategy`. Raises TemplateError where
    both together make no sense.
    """
    overrides = template.overrides()
    if template.strategy:
        overrides.setdefault("context", {})["strategy"] = template.strategy
    if "budget" in overrides:
        overrides["budget"] = _budget(settings.budget, overrides["budget"])
    sections = {name: getattr(settings, name).model_copy(update=values) for name, values in overrides.items()}
    result = settings.model_copy(update=sections)
    if template.overrides() and (wrong := disagreements(result)):
        lines = "; ".join(f"{'.'.join(path)}: {message}" for path, message in wrong)
        raise TemplateError(f"template {template.name} does not agree with the settings: {lines}")
    return result


def _budget(settings: BudgetSettings, said: dict[str, Any]) -> dict[str, Any]:
    """A default is no bound that anyone set, so a template may go above it."""
    return {
        key: lowest({"settings": getattr(settings, key), "template": value})[1]
        if key in CAPS and key in settings.model_fields_set
        else value
        for key, value in said.items()
    }
