"""`zoea local`: manage the models that run inside Zoea."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoea.cli.output import Output
from zoea.llm.local.model_files import LocalModel, LocalModels, readable_size
from zoea.process.command_line import argument, option
from zoea.settings.paths import Places

MODEL_NAME = argument("NAME", "As `zoea local list` shows it.")


def local_models_of(where: Places) -> LocalModels:
    """Return the model files of a workspace."""
    return LocalModels(where.data / "models")


def add(
    where: Places,
    file: Path = argument("FILE", "A model file of llama.cpp, such as model.gguf.", read=Path),
    name: str = option("--name NAME", "Name of the model; the file's name if not given."),
) -> Output:
    """Add a GGUF file by a link. The file stays where it is."""
    where.make_data()
    model = local_models_of(where).add(file, name)
    text = f"{model.name} is linked to {model.path} ({readable_size(model.size)}); keep the file there"
    return Output(_as_dict(model), [text, *_describe_use(model)])


def list_(where: Places) -> Output:
    """List the local models."""
    models = local_models_of(where).list()
    width = max((len(model.name) for model in models), default=0)
    lines = [f"{model.name:<{width}}  {readable_size(model.size):>9}  {_where(model)}" for model in models]
    nothing = "There are no local models. Add one: zoea local add FILE.gguf"
    return Output([_as_dict(model) for model in models], lines or nothing)


def remove(where: Places, name: str = MODEL_NAME) -> Output:
    """Remove a local model. A linked file stays; one in the folder of models is deleted."""
    model = local_models_of(where).remove(name)
    text = f"{model.name} is deleted ({readable_size(model.size)} freed)"
    return Output(_as_dict(model), f"{model.name} is removed; its file stays: {model.path}" if model.is_link else text)


def _as_dict(model: LocalModel) -> dict[str, Any]:
    return {"name": model.name, "path": str(model.path), "size": model.size, "linked": model.is_link}


def _where(model: LocalModel) -> str:
    if model.is_missing:
        return f"missing: {model.path}"
    return f"linked to {model.path}" if model.is_link else str(model.path)


def _describe_use(model: LocalModel) -> Iterator[str]:
    from zoea.llm.local.llama_server import engine_is_installed, missing_extra

    yield (f"Use it: zoea run --provider embedded --model {model.name}")
    if not engine_is_installed():
        yield (f"First install the engine. {missing_extra().hint}")
