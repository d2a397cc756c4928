"""`zoea prices`: list, set and remove the prices of models."""

from __future__ import annotations

from msgspec.structs import asdict

from zoea.cli.output import Output, moment
from zoea.llm.model_table import cache_minimum
from zoea.llm.price_writer import remove_price, set_price
from zoea.llm.prices import MOST_DOLLARS, ModelPrice, find_price, find_published, published_prices, read_price_file
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import REQUIRED, argument, number, option
from zoea.settings.paths import Places

MODEL = argument("MODEL", "Name of a model, or a pattern such as 'gpt-5*'.")


def prices(
    where: Places, model: str = option("--model NAME", "Show the price in effect for this model only.")
) -> Output:
    """List the prices of models: dollars per million tokens, with source and date.

    Your own prices win over those that Zoea knows. They stand in prices.toml beside config.toml, which you can also
    edit; a running swarm reads the file again. Models on this machine cost nothing; an unknown cost is shown as ?.

    Example: zoea prices set gpt-5-pro --input 15 --output 120
    """
    file = where.prices
    own = read_price_file(file)
    listed = [*own, *(one for one in published_prices() if one.name not in {mine.name for mine in own})]
    if model:
        price = find_price(model, own) or find_published(model)
        if price is None:
            raise UsageError(
                f"the price of {model} is not known",
                hint=f"`zoea prices set {model} --input N --output N` sets it, in dollars per million tokens.",
            )
        listed = [price]
    width = max(len(one.name) for one in listed)
    return Output(
        {"file": str(file), "prices": [{**asdict(one), "cache_minimum": cache_minimum(one.name)} for one in listed]},
        [
            f"{'MODEL':<{width}}  {'INPUT':>7}  {'CACHED':>7}  {'OUTPUT':>7}  {'CACHES FROM':>11}  AS OF, SOURCE",
            *(_line(one, width) for one in listed),
            f"\nDollars per million tokens. Your own prices (marked *) are in {file}.",
        ],
    )


def set_(
    where: Places,
    model: str = MODEL,
    per_input: float = option("--input DOLLARS", "Per million input tokens.", REQUIRED, number(0, MOST_DOLLARS)),
    per_output: float = option("--output DOLLARS", "Per million output tokens.", REQUIRED, number(0, MOST_DOLLARS)),
    cached: float | None = option(
        "--cached DOLLARS", "Per million cached input tokens; if not given, as --input.", None, number(0, MOST_DOLLARS)
    ),
    source: str = option("--source TEXT", "Where the price was read, such as a URL."),
) -> str:
    """Set the price of a model, or of all models that a pattern matches.

    Example: zoea prices set 'anthropic/claude-*' --input 3 --cached 0.3 --output 15
    """
    where.make_config()
    today = moment(SystemClock().now())[:10]
    per_cached = per_input if cached is None else cached
    set_price(where.prices, ModelPrice(model, per_input, per_cached, per_output, source, today))
    return f"{model} costs ${per_input:g} and ${per_output:g} per million tokens, in {where.prices}."


def remove(where: Places, model: str = MODEL) -> str:
    """Remove your own price of a model."""
    file = where.prices
    if not remove_price(file, model):
        names = ", ".join(one.name for one in read_price_file(file))
        raise UsageError(f"{file} has no price of {model}", hint=f"It has: {names}." if names else "It has none.")
    return f"Removed the price of {model} from {file}."


def _line(price: ModelPrice, width: int) -> str:
    least = cache_minimum(price.name)
    about = " ".join(part for part in (price.as_of, price.source) if part)
    mark = "* " if price.is_own else ""
    return (
        f"{price.name:<{width}}  {price.input:>7g}  {price.cached:>7g}  {price.output:>7g}"
        f"  {'?' if least is None else f'{least:,}':>11}  {mark}{about}"
    )
