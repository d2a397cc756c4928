"""`zoea prices`: list, set and remove the prices of models."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.output import moment
from zoea.llm.model_table import cache_minimum
from zoea.llm.price_writer import remove_price, set_price
from zoea.llm.prices import (
    MOST_DOLLARS,
    ModelPrice,
    find_price,
    find_published,
    published_prices,
    read_price_file,
)
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.settings.paths import places
from zoea.text.control_characters import strip

app = typer.Typer(name="prices", add_completion=False, rich_markup_mode=None)

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of a model, or a pattern such as 'gpt-5*'.", show_default=False)
]


@app.callback(invoke_without_command=True)
def prices(
    context: typer.Context,
    model: Annotated[str, typer.Option(metavar="NAME", help="Show the price in effect for this model only.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """List the prices of models: dollars per million tokens, with source and date.

    Your own prices win over those that Zoea knows. They stand in prices.toml beside config.toml, which you can also
    edit; a running swarm reads the file again. Models on this machine cost nothing; an unknown cost is shown as ?.

    Example: zoea prices set gpt-5-pro --input 15 --output 120
    """
    if context.invoked_subcommand is not None:
        return
    file = places(workspace).prices
    own = read_price_file(file)
    found = [*own, *(one for one in published_prices() if one.name not in {mine.name for mine in own})]
    if model:
        price = find_price(model, own) or find_published(model)
        if price is None:
            raise UsageError(
                f"the price of {model} is not known",
                hint=f"`zoea prices set {model} --input N --output N` sets it, in dollars per million tokens.",
            )
        found = [price]
    if as_json:
        write_json({"file": str(file), "prices": [_as_dict(one) for one in found]})
        return
    width = max(len(one.name) for one in found)
    typer.echo(f"{'MODEL':<{width}}  {'INPUT':>7}  {'CACHED':>7}  {'OUTPUT':>7}  {'CACHES FROM':>11}  AS OF, SOURCE")
    for one in found:
        typer.echo(strip(_line(one, width)))
    typer.echo(f"\nDollars per million tokens. Your own prices (marked *) are in {file}.")


@app.command("set")
def set_(
    model: Model,
    per_input: Annotated[
        float, typer.Option("--input", metavar="DOLLARS", min=0, max=MOST_DOLLARS, help="Per million input tokens.")
    ],
    per_output: Annotated[
        float, typer.Option("--output", metavar="DOLLARS", min=0, max=MOST_DOLLARS, help="Per million output tokens.")
    ],
    cached: Annotated[
        float | None,
        typer.Option(
            metavar="DOLLARS",
            min=0,
            max=MOST_DOLLARS,
            help="Per million cached input tokens; if not given, as --input.",
        ),
    ] = None,
    source: Annotated[str, typer.Option(metavar="TEXT", help="Where the price was read, such as a URL.")] = "",
    workspace: Workspace = "",
) -> None:
    """Set the price of a model, or of all models that a pattern matches.

    Example: zoea prices set 'anthropic/claude-*' --input 3 --cached 0.3 --output 15
    """
    where = places(workspace)
    where.make_config()
    today = moment(SystemClock().now())[:10]
    per_cached = per_input if cached is None else cached
    set_price(where.prices, ModelPrice(model, per_input, per_cached, per_output, source, today))
    typer.echo(strip(f"{model} costs ${per_input:g} and ${per_output:g} per million tokens, in {where.prices}."))


@app.command("remove")
def remove(model: Model, workspace: Workspace = "") -> None:
    """Remove your own price of a model."""
    file = places(workspace).prices
    if not remove_price(file, model):
        names = ", ".join(one.name for one in read_price_file(file))
        raise UsageError(f"{file} has no price of {model}", hint=f"It has: {names}." if names else "It has none.")
    typer.echo(strip(f"Removed the price of {model} from {file}."))


def _as_dict(price: ModelPrice) -> dict[str, object]:
    return {**asdict(price), "cache_minimum": cache_minimum(price.name)}


def _line(price: ModelPrice, width: int) -> str:
    least = cache_minimum(price.name)
    about = " ".join(part for part in (price.as_of, price.source) if part)
    mark = "* " if price.is_own else ""
    return (
        f"{price.name:<{width}}  {price.input:>7g}  {price.cached:>7g}  {price.output:>7g}"
        f"  {'?' if least is None else f'{least:,}':>11}  {mark}{about}"
    )
