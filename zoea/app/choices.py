"""What a new mysis may be made of: templates, providers, models, and what it would be told first.

Read from the settings as they stand now, so a changed file counts for the next mysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zoea.app.broadcasts import inherited
from zoea.model.errors import SettingsError, StoreError
from zoea.settings import Settings, Templates, load
from zoea.settings.endpoints import ProviderType
from zoea.settings.paths import Places

_HOUR_US = 3600 * 1_000_000
AUTOPILOT_TITLE = "autopilot (no model: plays the sandbox by rule)"


@dataclass(frozen=True, slots=True)
class Choice:
    """A name to choose, and what is said beside it."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen. `models` is the default model of each provider that has one.

    `told` is the commander's newest broadcast to all and its time in µs, which a new
    mysis inherits; None where there is none that is young enough.
    """

    templates: tuple[Choice, ...]
    default_template: str
    providers: tuple[Choice, ...]
    models: dict[str, str]
    told: tuple[str, int] | None


def choices(places: Places | None, database: Path, now: int) -> Choices:
    """Read them all; synchronous. Raises SettingsError, StoreError."""
    settings, templates = Settings(), Templates()
    if places is not None:
        loaded = load(places)
        settings, templates = loaded.settings, loaded.templates
    hours = settings.swarm.inherit_broadcast_hours
    return Choices(
        templates=_templates(templates, settings.swarm.default_template),
        default_template=settings.swarm.default_template,
        providers=_providers(settings),
        models={name: given.model for name, given in settings.provider.items() if given.model},
        told=_told(database, now - round(hours * _HOUR_US)) if hours else None,
    )


def _templates(templates: Templates, default: str) -> tuple[Choice, ...]:
    found = []
    for name in templates.names():
        try:
            title = templates.get(name).title
        except SettingsError as error:
            title = error.title
        found.append(Choice(name, title))
    return tuple(sorted(found, key=lambda one: (one.name != default, one.name)))


def _providers(settings: Settings) -> tuple[Choice, ...]:
    """The template's own first, then the configured ones, then the autopilot, which needs nothing."""
    configured = [Choice(name, f"{name} ({given.type})") for name, given in settings.provider.items()]
    autopilot = ProviderType.AUTOPILOT.value
    found = [Choice("", f"as the template says, else {settings.provider_name()}"), *configured]
    if autopilot not in settings.provider:
        found.append(Choice(autopilot, AUTOPILOT_TITLE))
    return tuple(found)


def _told(database: Path, since: int) -> tuple[str, int] | None:
    try:
        return inherited(database, since)
    except StoreError:
        return None
