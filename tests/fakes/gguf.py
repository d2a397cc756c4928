"""A file that begins as a llama.cpp model, in the folder of local models."""

from __future__ import annotations

from zoea.llm.local.model_files import LocalModels

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)


def put_model(local_models: LocalModels, name: str) -> None:
    local_models.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (local_models.folder / f"{name}.gguf").write_bytes(GGUF)
