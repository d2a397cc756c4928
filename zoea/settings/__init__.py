"""Settings from TOML files, environment and command line; templates, credentials and trust.

Names are imported on first use: `load` costs pydantic, `places` next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoea.settings.credentials import Credentials
    from zoea.settings.key_paths import Layer, Origin
    from zoea.settings.layers import LoadedSettings, load
    from zoea.settings.paths import Places, places
    from zoea.settings.schema import Settings
    from zoea.settings.template import Template, effective_settings, parse_template
    from zoea.settings.template_library import Templates
    from zoea.settings.trust import Trust

__all__ = [
    "Credentials",
    "Layer",
    "LoadedSettings",
    "Origin",
    "Places",
    "Settings",
    "Template",
    "Templates",
    "Trust",
    "effective_settings",
    "load",
    "parse_template",
    "places",
]

_HOMES = {
    "Credentials": "credentials",
    "Layer": "key_paths",
    "LoadedSettings": "layers",
    "Origin": "key_paths",
    "Places": "paths",
    "Settings": "schema",
    "Template": "template",
    "Templates": "template_library",
    "Trust": "trust",
    "effective_settings": "template",
    "parse_template": "template",
    "load": "layers",
    "places": "paths",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
