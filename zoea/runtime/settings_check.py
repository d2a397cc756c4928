"""Checks what settings and templates refer to: templates, providers, models, keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from zoea.llm.discovery import ProbeStatus, probe_all
from zoea.llm.prices import read_price_file
from zoea.model.errors import SettingsError, TemplateError, TrustError
from zoea.runtime.model_discovery import ModelConnection, configured_sources, find_context_window
from zoea.runtime.model_lists import LISTING_TYPES, ModelLists, check_model
from zoea.settings.credentials import Credentials
from zoea.settings.document import read_document
from zoea.settings.endpoints import ProviderType
from zoea.settings.key_paths import DEFAULT, Layer, Origin, Problem, find_nearest, format_key
from zoea.settings.layers import LoadedSettings, check_settings, load
from zoea.settings.paths import Places
from zoea.settings.problems import find_origin
from zoea.settings.template import Template
from zoea.settings.template_advice import advise_template, describe_advice, list_produced
from zoea.settings.template_library import SHIPPED
from zoea.settings.topic_source import use_snake_case


class SettingsReport(Struct):
    """What a check found.

    Attributes:
        problems: What is wrong.
        notes: What may be wrong, or could not be checked.
        untrusted: What a project's files say without effect until they are trusted.
        ignored: Files of projects that do not count, each with the reason.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    untrusted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "problems": [problem.as_dict() for problem in self.problems],
            "notes": [*self.notes, *self.ignored],
            "untrusted": list(self.untrusted),
        }


class ModelUse(Struct, frozen=True):
    """A place that names a model of a provider."""

    key: str
    provider: str
    model: str
    origin: Origin


def check_all(where: Places, *, online: bool = False, keep_models: bool = False) -> SettingsReport:
    """Check settings and templates, then what they refer to.

    Args:
        online: Ask the servers for their models; else the lists that they gave last count.
        keep_models: Accept the models that are not listed, now and later.
    """
    report = SettingsReport(check_settings(where))
    try:
        loaded = load(where)
    except SettingsError:
        return report  # `check_settings` has reported the reason
    report.untrusted, report.ignored = loaded.untrusted, loaded.ignored
    _check_keys(loaded, report)
    # Read the user's price file
    try:
        read_price_file(where.prices)
    except SettingsError as error:
        report.problems.append(Problem("", error.what, Origin(Layer.USER, str(where.prices))))
    _advise_templates(loaded, report)
    uses = [*_provider_models(loaded), *_template_models(loaded, report)]
    if online:
        asyncio.run(_ask_servers(loaded, report))
    _check_models(loaded, uses, report, keep_models=keep_models)
    return report


def _check_keys(loaded: LoadedSettings, report: SettingsReport) -> None:
    """Read the credentials file, and each key of a provider."""
    credentials = Credentials(loaded.places.credentials)
    try:
        credentials.names()
    except SettingsError as error:
        report.problems.append(Problem("", error.what, Origin(Layer.USER, str(loaded.places.credentials))))
        return
    for name, provider in loaded.settings.provider.items():
        if provider.api_key:
            try:
                credentials.resolve(provider.api_key)
            except SettingsError as error:
                report.notes.append(f"provider {name}: {error.what}")


def _provider_models(loaded: LoadedSettings) -> Iterator[ModelUse]:
    for name, provider in loaded.settings.provider.items():
        key = format_key(("provider", name, "model"))
        origin = loaded.origins.get(key, DEFAULT)
        if origin == DEFAULT:
            origin = loaded.origins.get(format_key(("provider", name, "type")), DEFAULT)
        yield ModelUse(key, name, provider.model, origin)


def _template_models(loaded: LoadedSettings, report: SettingsReport) -> Iterator[ModelUse]:
    """Yield the models that templates name. Report providers and a default template that do not exist."""
    settings, names = loaded.settings, loaded.templates.names()
    if (chosen := settings.swarm.default_template) not in names:
        origin = loaded.origins.get("swarm.default_template", DEFAULT)
        report.problems.append(
            Problem("swarm.default_template", f"there is no template {chosen!r}", origin, find_nearest(chosen, names))
        )
    for name in names:
        try:
            template, file = loaded.templates.get(name), loaded.templates.file(name)
        except (TemplateError, TrustError):
            continue
        lines = read_document(file, Layer.TEMPLATE).lines
        provider = settings.provider_name(template.provider)
        if settings.provider_named(provider) is None:
            known = [*settings.provider, *(kind.value for kind in ProviderType)]
            origin = Origin(Layer.TEMPLATE, str(file), lines.get(("provider",), 0))
            near = find_nearest(provider, known)
            report.problems.append(Problem("provider", f"there is no provider {provider!r}", origin, near))
        elif template.model:
            origin = Origin(Layer.TEMPLATE, str(file), lines.get(("model",), 0))
            yield ModelUse("model", provider, template.model, origin)


def _advise_templates(loaded: LoadedSettings, report: SettingsReport) -> None:
    """Note what templates of topics may lack, with file and line."""
    templates: dict[str, Template] = {}
    for name in loaded.templates.names():
        try:
            templates[name] = loaded.templates.get(name)
        except (TemplateError, TrustError):
            continue
    produced = list_produced(templates.values())
    is_default = loaded.settings.context.strategy == "topics"
    for name, template in templates.items():
        file = loaded.templates.file(name)
        if file.parent == SHIPPED:
            continue
        document = read_document(file, Layer.TEMPLATE)
        _, lines = use_snake_case(document.tree, document.lines)
        origins = {path: Origin(Layer.TEMPLATE, str(file), line) for path, line in lines.items()}
        for advice in advise_template(template, produced, is_default_topics=is_default):
            origin = find_origin(advice[0], origins)
            place = Origin(Layer.TEMPLATE, str(file)) if origin == DEFAULT else origin
            report.notes.append(f"{place}: {describe_advice(advice)}")


async def _ask_servers(loaded: LoadedSettings, report: SettingsReport) -> None:
    """Ask each configured server for its models, and for the window of its default model."""
    lists, given = ModelLists(loaded.places), loaded.settings.provider
    sources = [one for one in configured_sources(loaded) if one.name in given and given[one.name].type in LISTING_TYPES]
    for result in await probe_all(sources):
        own = given[result.name]
        if result.status is not ProbeStatus.OK or result.models is None:
            report.notes.append(f"provider {result.name} did not list its models: {result.detail or result.status}")
            continue
        lists.record(own, [model.name for model in result.models])
        if own.model and own.context_window is None:
            asked = ModelConnection(result.name, own.type, own.base_url, own.model, own.api_key)
            window = await find_context_window(loaded.places, asked)
            lists.record_window(own, own.model, is_known=window is not None)


def _check_models(loaded: LoadedSettings, uses: list[ModelUse], report: SettingsReport, *, keep_models: bool) -> None:
    lists = ModelLists(loaded.places)
    unlisted: set[str] = set()
    for use in uses:
        provider = loaded.settings.provider_named(use.provider)
        if provider is None or provider.type not in LISTING_TYPES:
            continue
        model_list = lists.find(provider)
        if model_list is None and use.model and use.provider not in unlisted:
            unlisted.add(use.provider)
            report.notes.append(
                f"provider {use.provider} has not listed its models yet, so that their names are not checked; "
                "`zoea config check --online` asks it"
            )
        if model_list is not None and provider.context_window is None and use.model in model_list.unknown_windows:
            assumed = loaded.settings.context.context_window
            key = format_key(("provider", use.provider, "context_window"))
            report.notes.append(
                f"the context window of {use.model} is not known: {assumed:,} tokens are assumed; set {key}"
            )
        doubt = check_model(provider, use.model, model_list)
        if not doubt:
            continue
        if not use.model:
            report.notes.append(f"{use.key}: {doubt}")
        elif keep_models:
            lists.keep(provider, use.model)
        else:
            report.problems.append(Problem(use.key, doubt, use.origin))
