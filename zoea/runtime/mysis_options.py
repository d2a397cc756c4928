"""The options of the dialogs that create and configure myses, with the present values."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.agents.agent_launch import installed_agents
from zoea.llm.local.model_files import LocalModels
from zoea.llm.prices import ModelPrice, PriceList
from zoea.model.errors import SettingsError, StoreError, UsageError
from zoea.queries.broadcasts import OfferedBroadcast, read_offered_broadcast
from zoea.queries.stored_swarm import read_configurations
from zoea.runtime.provider_set import costs_nothing
from zoea.settings.endpoints import ProviderType
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.template import AGENT_PREFIX, OVERRIDES, Template, parse_template
from zoea.settings.template_library import Templates
from zoea.text import estimate

AUTOPILOT_TITLE = "autopilot (no model: plays the sandbox by rule)"


class NamedOption(Struct, frozen=True):
    """A name to choose, and its description."""

    name: str
    title: str


class MysisOptions(Struct, frozen=True):
    """The choices for a new mysis.

    Attributes:
        models: The default model of each provider that has one.
        broadcast: The one that a new mysis can get before its task; None without one.
        own_providers: The provider of each template that names one.
        own_models: The model of each template that names one.
        usual_provider: The provider of the other templates.
        usual_why: Why it is that one.
        prompt_tokens: Of the prompt of each template.
        by_name: The templates that can be read.
        most_myses: How many the swarm may have.
    """

    templates: tuple[NamedOption, ...]
    default_template: str
    providers: tuple[NamedOption, ...]
    models: dict[str, str]
    broadcast: OfferedBroadcast | None
    own_providers: dict[str, str]
    own_models: dict[str, str]
    usual_provider: str
    usual_why: str
    prompt_tokens: dict[str, int]
    by_name: dict[str, Template]
    prices: PriceList
    most_myses: int

    def describe_provider(self, template: str) -> str:
        """Say which provider a mysis of this template uses where none is chosen."""
        own = self.own_providers.get(template, "")
        return f"{own} (by the template)" if own else f"{self.usual_provider} ({self.usual_why})"

    def warn_of(self, template: str, before: str) -> tuple[str, ...]:
        """Return what changes for a conversation of another template that one might not expect."""
        new, old = self.by_name.get(template), self.by_name.get(before)
        if new is None or template == before:
            return ()
        goal = f"{template} has a goal: they are nudged until they report that it is reached" if new.goal else ""
        has_others = old is not None and old.tools != new.tools
        tools = f"{template} allows other tools than {before}: earlier calls may name some that it lacks"
        return tuple(text for text in (goal, tools if has_others else "") if text)

    def price_of(self, template: str, provider: str, model: str) -> ModelPrice | None:
        """Return the price of the model that these choices lead to. None where it is not known."""
        used = provider or self.own_providers.get(template, "") or self.usual_provider
        name = model or ("" if provider else self.own_models.get(template, "")) or self.models.get(used, "")
        return self.prices.find(used, name)


def read_options(places: Places | None, database: Path, now: int, chosen: str = "") -> MysisOptions:
    """Read the choices from the settings files and the database. Raises SettingsError, StoreError.

    Templates for the sandbox world are offered where it runs.

    Args:
        chosen: A template that is offered in any case.
    """
    settings, templates, local = Settings(), Templates(), ""
    if places is not None:
        loaded = load(places)
        settings, templates = loaded.settings, loaded.templates
        local = ", ".join(model.name for model in LocalModels(places.data / "models").list())
    readable = _readable(templates)
    has_world = places is not None and places.world.exists()
    wanted = (chosen, settings.swarm.default_template)
    names = [name for name in templates.names() if has_world or name in wanted or not templates.is_for_world(name)]
    return MysisOptions(
        templates=_templates(templates, names, settings.swarm.default_template),
        default_template=settings.swarm.default_template,
        providers=_providers(settings, local),
        models={name: provider.model for name, provider in settings.provider.items() if provider.model},
        broadcast=_broadcast(database, settings.swarm.inherit_broadcast_hours, now),
        own_providers={name: one.provider for name, one in readable.items() if one.provider},
        own_models={name: one.model for name, one in readable.items() if one.model},
        usual_provider=settings.provider_name(),
        usual_why="by your settings"
        if settings.provider or settings.swarm.default_provider
        else "no model is connected",
        by_name=readable,
        prompt_tokens={name: estimate.tokens(one.prompt) for name, one in readable.items()},
        prices=PriceList(None if places is None else places.prices, partial(costs_nothing, settings)),
        most_myses=settings.swarm.max_myses,
    )


def _templates(templates: Templates, names: Sequence[str], default: str) -> tuple[NamedOption, ...]:
    options = []
    for name in names:
        try:
            title = templates.get(name).title
        except SettingsError as error:
            title = error.title
        options.append(NamedOption(name, title))
    return tuple(sorted(options, key=lambda one: (one.name != default, one.name)))


def _readable(templates: Templates) -> dict[str, Template]:
    readable = {}
    for name in templates.names():
        with contextlib.suppress(SettingsError):  # its error is its title in the list
            readable[name] = templates.get(name)
    return readable


def _providers(settings: Settings, local: str) -> tuple[NamedOption, ...]:
    """List the template's provider, the configured, local and autopilot ones, and installed agents."""
    configured = [NamedOption(name, f"{name} ({provider.type})") for name, provider in settings.provider.items()]
    autopilot, embedded = ProviderType.AUTOPILOT.value, ProviderType.EMBEDDED.value
    options = [NamedOption("", f"the template's, else {settings.provider_name()}"), *configured]
    if local and embedded not in settings.provider:
        options.append(NamedOption(embedded, f"{embedded} (on this machine: {local})"))
    if autopilot not in settings.provider:
        options.append(NamedOption(autopilot, AUTOPILOT_TITLE))
    titles = [(f"{AGENT_PREFIX}{one.name}", one.title) for one in installed_agents()]
    options += [NamedOption(name, f"{title} (your own agent)") for name, title in titles]
    return tuple(options)


def _broadcast(database: Path, hours: float, now: int) -> OfferedBroadcast | None:
    try:
        return read_offered_broadcast(database, hours, now)
    except StoreError:
        return None


BUDGETS = ("budget.token_budget_per_agent", "budget.token_budget_per_task", "budget.mysis")


class MysisConfiguration(Struct, frozen=True):
    """The common configuration of several myses. Where they differ a value is empty, or missing in `own`.

    Attributes:
        own: The settings of the template, by dotted key.
        general: The general setting of each budget.
    """

    template: str
    provider: str
    model: str
    tags: str
    own: Mapping[str, Any]
    general: Mapping[str, Any]
    choices: MysisOptions


def read_configuration(places: Places | None, database: Path, mysis_ids: Sequence[int], now: int) -> MysisConfiguration:
    """Read the common configuration. Raises MysisMissing, SettingsError, StoreError, TemplateError."""
    rows = read_configurations(database, mysis_ids)
    settings = load(places).settings if places is not None else Settings()
    owns = [_own(body) for body in dict.fromkeys(row.template_body for row in rows)]
    own = {path: value for path, value in owns[0].items() if all(path in o and o[path] == value for o in owns)}
    general = {path: getattr(settings.budget, path.partition(".")[2]) for path in BUDGETS}
    offered = read_options(places, database, now)
    return MysisConfiguration(
        template=_shared(row.template for row in rows),
        provider=_shared(row.provider for row in rows),
        model=_shared(row.model for row in rows),
        tags=_shared(row.tags for row in rows),
        own=own,
        general=general,
        choices=offered,
    )


def _own(body: str) -> dict[str, Any]:
    overrides = parse_template(body).overrides()
    return {f"{section}.{key}": value for section, values in overrides.items() for key, value in values.items()}


def _shared(words: Iterable[str]) -> str:
    different = set(words)
    return different.pop() if len(different) == 1 else ""


def format_settings(own: Mapping[str, Any]) -> str:
    """Format settings for an input field: `nudge.enabled=false turn.max_iterations=5`."""
    return " ".join(f"{path}={json.dumps(value, separators=(',', ':'))}" for path, value in own.items())


def parse_settings(text: str) -> dict[str, Any]:
    """Parse the text of `format_settings`. Raises UsageError naming the word that is no setting."""
    settings: dict[str, Any] = {}
    for word in text.split():
        path, sign, value = word.partition("=")
        if not sign or path.partition(".")[0] not in OVERRIDES:
            raise UsageError(
                f"{word} is no setting of one mysis", hint=f"Write section.key=value; sections: {', '.join(OVERRIDES)}."
            )
        try:
            settings[path] = json.loads(value)
            json.dumps(settings[path], allow_nan=False)
        except (ValueError, RecursionError):  # not JSON, or NaN or infinity
            settings[path] = value
    return settings


def diff_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys to set to get from `before` to `after`; None removes a key."""
    changed: dict[str, Any] = {path: None for path in before if path not in after}
    return changed | {path: value for path, value in after.items() if path not in before or before[path] != value}
