"""Checked changes of a mysis: template, provider, model, tags, or its own settings.

Own settings make an own template: the same name, another hash. So one stored text describes
a mysis, and every reader of templates can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from zoea.model.values import Mysis
from zoea.settings.schema import Settings
from zoea.settings.template import Template, change_settings, parse_template, work_on
from zoea.settings.template_library import Templates
from zoea.swarm.resolved_template import Providers, resolve_template


class MysisChange(Struct, frozen=True):
    """Requested changes; empty and None leave a value as it is.

    `settings` uses dotted keys of the sections that a template may set; None as a value removes
    the key, so that the workspace settings apply.
    """

    template: str = ""
    provider: str = ""
    model: str = ""
    tags: tuple[str, ...] | None = None
    settings: Mapping[str, Any] | None = None


class CheckedChange(Struct, frozen=True):
    """A checked change: all values as they will be stored."""

    template: Template
    provider: str
    model: str
    tags: tuple[str, ...]
    changed: tuple[str, ...]
    """What is different: parts, and dotted keys of settings."""


def checked(
    mysis: Mysis, body: str, change: MysisChange, settings: Settings, templates: Templates, providers: Providers
) -> CheckedChange:
    """Check a change. Raises TemplateError and ProviderError."""
    template = templates.get(change.template) if change.template else parse_template(body)
    was = parse_template(body) if change.template else template
    if was.workbench and not template.workbench:
        template = work_on(template, was.workbench, worktree=was.worktree)
    if change.settings:
        template = change_settings(template, change.settings)
    resolve_template(template.text, settings)
    asked = change.provider or (template.provider if change.template else "")
    provider = settings.provider_name(asked) if asked else mysis.provider
    providers.get(provider)
    own = settings.provider_named(provider)
    model = change.model or (template.model if change.template else "")
    if not model:
        model = mysis.model if provider == mysis.provider else (own.model if own is not None else "")
    tags = mysis.tags if change.tags is None else change.tags
    parts = {
        "template": template.name != mysis.template,
        "provider": provider != mysis.provider,
        "model": model != mysis.model,
        "tags": set(tags) != set(mysis.tags),
    }
    changed = (*(part for part, is_new in parts.items() if is_new), *_changed_keys(parse_template(body), template))
    return CheckedChange(template, provider, model, tags, changed)


def _changed_keys(before: Template, after: Template) -> tuple[str, ...]:
    """Return the settings that one template sets differently from the other, by dotted key."""
    old, new = _settings_of(before), _settings_of(after)
    return tuple(key for key in sorted({*old, *new}) if old.get(key) != new.get(key))


def _settings_of(template: Template) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in template.overrides().items() for key, value in keys.items()}
