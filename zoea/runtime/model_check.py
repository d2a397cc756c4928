"""Checks a mysis's model against the models that its server lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from zoea.llm.local.model_files import LocalModels
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ProviderView
from zoea.runtime.model_lists import LISTING_TYPES, ModelList, ModelLists, check_model
from zoea.settings.endpoints import ProviderSettings, ProviderType
from zoea.settings.key_paths import find_nearest
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.text.control_characters import one_line

_NAMED = 8
"""Models that a refusal names."""


class ModelDoubt(Struct, frozen=True):
    """A model's name that its server does not list.

    Attributes:
        provider: The provider that was asked.
        why: What is doubtful, with the nearest name.
        listed: The models of the server.
    """

    provider: str
    why: str
    listed: tuple[str, ...]

    def refuse(self, advice: str) -> UsageError:
        """Return the error that names the models of the server, with the advice after them."""
        more = f" and {len(self.listed) - _NAMED} more" if len(self.listed) > _NAMED else ""
        names = ", ".join(map(one_line, self.listed[:_NAMED]))
        return UsageError(self.why, hint=f"It lists: {names}{more}. {advice}")


async def find_doubt(
    swarm: SwarmApi, places: Places, model: str, *, provider: str = "", template: str = ""
) -> ModelDoubt | None:
    """Ask the server of a mysis whether it lists a model; None where it does.

    A server that lists no models is not doubted.

    Args:
        provider: The provider's name; empty for the template's, else the default one.
        template: The template's name; empty for the default one.

    Raises:
        SettingsError: The settings or the template cannot be read.
    """
    loaded = await asyncio.to_thread(load, places)
    own = provider or loaded.templates.get(template or loaded.settings.swarm.default_template).provider
    found = _find(await swarm.providers(), own)
    if found is None and own == ProviderType.EMBEDDED:  # it needs no settings
        names = await asyncio.to_thread(_local_names, places)
        return _doubt_local(ProviderView(own, own, own, models=names), model)
    if found is not None and found.kind == ProviderType.EMBEDDED:
        return _doubt_local(found, model)
    if found is None or found.kind not in LISTING_TYPES:
        return None
    provider_settings = loaded.settings.provider_named(found.name) or ProviderSettings(type=ProviderType(found.kind))
    model_list = ModelLists(places).get(provider_settings)
    if found.models is not None:
        model_list = ModelList(found.models, kept=model_list.kept)
    why = check_model(provider_settings, model, model_list) if model_list.models else ""
    return ModelDoubt(found.name, why, model_list.models) if why else None


def _local_names(places: Places) -> tuple[str, ...]:
    return tuple(one.name for one in LocalModels(places.data / "models").list() if not one.is_missing)


def _doubt_local(embedded: ProviderView, model: str) -> ModelDoubt | None:
    """Return the doubt in a model's name that no local model has. None where none was added."""
    names = embedded.models or ()
    if not model or not names or model in names:
        return None
    near = find_nearest(model, names)
    nearest = f"; the nearest is {one_line(near)}" if near else ""
    return ModelDoubt(embedded.name, f"there is no local model {one_line(model)!r}{nearest}", names)


def _find(providers: Iterable[ProviderView], name: str) -> ProviderView | None:
    return next((one for one in providers if one.name == name or (not name and one.is_default)), None)
