"""Keeps the models that each provider listed last, to check names without asking again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from zoea.llm.provider_config import is_loopback
from zoea.model.errors import SettingsError
from zoea.process.clock import SystemClock
from zoea.settings.endpoints import ProviderSettings, ProviderType
from zoea.settings.key_paths import find_nearest
from zoea.settings.layers import load
from zoea.settings.paths import Places, make_private_folder
from zoea.settings.private_file import write_private
from zoea.settings.small_file import read_small_text
from zoea.text.control_characters import one_line

FILE = "model_lists.json"
_LARGEST = 16_000_000
LISTING_TYPES = tuple(kind for kind in ProviderType if kind.address)
"""Types of providers whose servers list their models."""


class ModelList(Struct, frozen=True):
    """The models that a server listed.

    Attributes:
        at: When it did, in µs UTC; 0 for now.
        kept: Names that a person kept although the server does not list them.
        unknown_windows: Models whose context window the server does not tell.
    """

    models: tuple[str, ...] = ()
    at: int = 0
    kept: tuple[str, ...] = ()
    unknown_windows: tuple[str, ...] = ()


class ModelLists:
    """The lists of one workspace, in a file beside its database."""

    def __init__(self, places: Places) -> None:
        self._file = places.data / FILE

    def find(self, given: ProviderSettings) -> ModelList | None:
        """Return the last list of the server at a provider's address. None if it never listed any."""
        model_list = self.get(given)
        return model_list if model_list.models else None

    def get(self, given: ProviderSettings) -> ModelList:
        """Return the stored models of the server at a provider's address, or the kept names."""
        return self._read().get(_key(given), ModelList())

    def record(self, given: ProviderSettings, models: Sequence[str]) -> None:
        """Store a list. A directory that cannot be written leaves the lists as they are."""
        self._change(given, lambda before: replace(before, models=tuple(models), at=SystemClock().now()))

    def record_window(self, given: ProviderSettings, model: str, *, is_known: bool) -> None:
        """Store whether the server tells a model's context window."""
        self._change(
            given,
            lambda before: replace(
                before,
                unknown_windows=(
                    *(name for name in before.unknown_windows if name != model),
                    *(() if is_known else (model,)),
                ),
            ),
        )

    def keep(self, given: ProviderSettings, model: str) -> None:
        """Store that a person keeps a name that the server does not list."""
        self._change(given, lambda before: replace(before, kept=tuple(dict.fromkeys((*before.kept, model)))))

    def _change(self, given: ProviderSettings, change: Callable[[ModelList], ModelList]) -> None:
        lists = self._read()
        lists[_key(given)] = change(lists.get(_key(given), ModelList()))
        try:
            make_private_folder(self._file.parent)
            write_private(self._file, json.dumps({key: asdict(one) for key, one in lists.items()}))
        except (OSError, SettingsError):
            return  # a list is a convenience; without it a name is taken as typed

    def _read(self) -> dict[str, ModelList]:
        return _parse(self._file)


def check_model(given: ProviderSettings, model: str, known: ModelList | None) -> str:
    """Return why a model's name is doubtful. Empty where it is fine, was kept, or no list is known.

    A server with one model, as llama.cpp, needs no name; one of this machine counts as such until it lists its models.
    """
    if given.type not in LISTING_TYPES:
        return ""
    if not model:
        serves_one = len(known.models) == 1 if known is not None else is_loopback(given.base_url)
        if serves_one and given.type is ProviderType.OPENAI:
            return ""
        return "no model is named, so that a mysis whose template names none cannot work"
    if known is None or model in known.kept:
        return ""
    if model in known.models or (given.type is ProviderType.OLLAMA and f"{model}:latest" in known.models):
        return ""
    near = find_nearest(model, known.models)
    listed = f" (list of {datetime.fromtimestamp(known.at / 1_000_000):%Y-%m-%d %H:%M})" if known.at else ""
    nearest = f"; the nearest is {one_line(near)}" if near else ""
    return f"the server lists no model {one_line(model)!r}{nearest}{listed}"


def has_list(places: Places, provider: str) -> bool:
    """Return whether the server of a configured provider has listed its models."""
    settings = load(places).settings.provider_named(provider)
    return settings is not None and ModelLists(places).find(settings) is not None


def check_setting(places: Places, provider: str, model: str) -> str:
    """Return why a name is doubtful as the model of a configured provider. Empty where it is fine."""
    settings = load(places).settings.provider_named(provider)
    return "" if settings is None else check_model(settings, model, ModelLists(places).find(settings))


def keep_setting(places: Places, provider: str, model: str) -> None:
    """Store that a person keeps a name for a configured provider."""
    settings = load(places).settings.provider_named(provider)
    if settings is not None and model:
        ModelLists(places).keep(settings, model)


def _key(given: ProviderSettings) -> str:
    return f"{given.type} {given.base_url.rstrip('/')}"


def _parse(file: Path) -> dict[str, ModelList]:
    """Read the file; a missing or damaged one holds no lists."""
    try:
        stored = json.loads(read_small_text(file, _LARGEST))
        return {
            key: ModelList(
                tuple(map(str, one["models"])),
                int(one["at"]),
                tuple(map(str, one["kept"])),
                tuple(map(str, one["unknown_windows"])),
            )
            for key, one in stored.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
