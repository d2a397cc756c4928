"""What a model call costs: the user's price file, else the published prices.

Prices are dollars per million tokens, without discounts for batches. Above the prompt length that a price holds for it
is unknown, and a model whose price depends on the hour is left out, because an unknown price is shown as such and a
wrong one is not. An unknown price is None, which is not zero. Models that run on this machine cost nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoea.model.errors import SettingsError
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.settings.document import Document, read_document
from zoea.settings.key_paths import Layer

log = logging.getLogger(__name__)

ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
OPENAI = "https://platform.openai.com/docs/pricing"
MOONSHOT = "https://platform.kimi.ai/docs/pricing/chat"
AS_OF = "2026-11"


class PublishedPrice(NamedTuple):
    """Dollars per million tokens of input, of cached input, and of output.

    Attributes:
        most_input: The longest prompt that it holds for; longer ones cost more. None where all cost the same.
    """

    input: float
    cached: float
    output: float
    source: str
    as_of: str = AS_OF
    most_input: int | None = None


def _claude(
    per_input: float, per_output: float, cached: float | None = None, most_input: int | None = None
) -> PublishedPrice:
    per_cached = per_input / 10 if cached is None else cached
    return PublishedPrice(per_input, per_cached, per_output, ANTHROPIC, most_input=most_input)


def _openai(per_input: float, cached: float, per_output: float) -> PublishedPrice:
    return PublishedPrice(per_input, cached, per_output, OPENAI)


# A name holds for itself and for its dated releases: `gpt-5` for `gpt-5-2025-08-07`, not for `gpt-5-pro`.
PUBLISHED: dict[str, PublishedPrice] = {
    "claude-fable-5": _claude(10, 50),
    "claude-fable-5-1": _claude(10, 50, 0.25),
    "claude-fable-5-2": _claude(8, 40, 0.2),
    "claude-opus-5-5": _claude(4, 20, 0.2),
    "claude-opus-5": _claude(5, 25),
    "claude-opus-4-8": _claude(5, 25),
    "claude-opus-4-7": _claude(5, 25),
    "claude-opus-4-6": _claude(5, 25),
    "claude-opus-4-5": _claude(5, 25),
    "claude-opus-4-1": _claude(15, 75),
    "claude-opus-4": _claude(15, 75),
    "claude-sonnet-5-5": _claude(2, 10, 0.1),
    "claude-sonnet-5": _claude(2, 10),
    "claude-sonnet-4-6": _claude(3, 15),
    # Longer prompts come with the header `anthropic-beta: context-1m-…`, at another price.
    "claude-sonnet-4-5": _claude(3, 15, most_input=200_000),
    "claude-sonnet-4": _claude(3, 15, most_input=200_000),
    "claude-haiku-4-5": _claude(1, 5),
    "claude-3-5-haiku": _claude(0.8, 4),
    "gpt-5": _openai(1.25, 0.125, 10),
    "gpt-5.1": _openai(1.25, 0.125, 10),
    "gpt-5-mini": _openai(0.25, 0.025, 2),
    "gpt-5-nano": _openai(0.05, 0.005, 0.4),
    "gpt-4.1": _openai(2, 0.5, 8),
    "gpt-4.1-mini": _openai(0.4, 0.1, 1.6),
    "gpt-4.1-nano": _openai(0.1, 0.025, 0.4),
    "gpt-4o": _openai(2.5, 1.25, 10),
    "gpt-4o-mini": _openai(0.15, 0.075, 0.6),
    "o3": _openai(2, 0.5, 8),
    "o4-mini": _openai(1.1, 0.275, 4.4),
    "kimi-k3": PublishedPrice(3, 0.3, 15, MOONSHOT),
}


_RELEASE = re.compile(r"(?:[-@:]?(?:\d{4}-?\d{2}-?\d{2}|\d{4,8}|latest|preview(?:[-0-9]*)))?")
_EXAMPLE = '[model."gpt-5"] with input, output and, if you like, cached, source and as_of'
MOST_DOLLARS = 100_000
Dollars = Annotated[float, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False)]
ModelName = Annotated[str, Field(pattern=r"^\S(.*\S)?$", max_length=200)]


class _FileEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    source: str = ""
    as_of: str = ""


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    model: dict[ModelName, _FileEntry] = {}


class ModelPrice(Struct, frozen=True):
    """The price of a model, in dollars per million tokens.

    Attributes:
        name: The model, or a pattern of names such as `gpt-5*` in the user's file.
        is_own: Whether it stands in the user's file.
    """

    name: str
    input: float
    cached: float
    output: float
    source: str = ""
    as_of: str = ""
    is_own: bool = False
    most_input: int | None = None

    def cost(
        self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, write_surcharge: int = 0
    ) -> int | None:
        """Return the price of a call in micros (millionths of a dollar). None for a longer prompt than it holds for.

        Args:
            input_tokens: With the cached ones.
            write_surcharge: See `Usage`.
        """
        if self.most_input is not None and input_tokens > self.most_input:
            return None
        fresh = max(0, input_tokens - cached_tokens) + write_surcharge
        return round(fresh * self.input + cached_tokens * self.cached + output_tokens * self.output)


FREE = ModelPrice("this machine", 0, 0, 0, "it runs on this machine")


class PriceList:
    """The prices in effect. The user's file is read again when it changes.

    Args:
        file: The user's file, which need not exist.
        is_free: Whether a provider runs a model on this machine.
    """

    def __init__(self, file: Path | None = None, is_free: Callable[[str, str], bool] = lambda _name, _model: False):
        self._file = file
        self._is_free = is_free
        self._stamp: tuple[int, int] | None = None
        self._own: tuple[ModelPrice, ...] = ()

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """Return the price of a provider's model; None if it is unknown."""
        own = self._read_own()
        if own and (price := find_price(model, own)) is not None:
            return price
        if self._is_free(provider, model):
            return FREE
        return find_published(model)

    def add_cost(self, answer: Answer, provider: str, model: str) -> Answer:
        """Return the answer with its cost, unless that is reported or no price is known."""
        usage = answer.usage
        if usage.cost_micros is not None or usage.total is None:
            return answer
        price = self.find(provider, model or answer.model)
        return answer if price is None else replace(answer, usage=_priced(usage, price))

    def _read_own(self) -> tuple[ModelPrice, ...]:
        if self._file is None:
            return ()
        try:
            stat = self._file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            self._stamp, self._own = None, ()
            return ()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._own = read_price_file(self._file)
            except SettingsError as problem:
                # The prices read before go on, because a call that is made now must be counted.
                log.warning("%s", problem.what)
        return self._own


def _priced(usage: Usage, price: ModelPrice) -> Usage:
    used = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.write_surcharge)
    cost = price.cost(*(tokens or 0 for tokens in used))
    return replace(usage, cost_micros=cost)


def published_prices() -> tuple[ModelPrice, ...]:
    """Return the prices that Zoea ships."""
    return tuple(
        ModelPrice(name, one.input, one.cached, one.output, one.source, one.as_of, most_input=one.most_input)
        for name, one in PUBLISHED.items()
    )


@lru_cache(256)
def find_published(model: str) -> ModelPrice | None:
    """Return the price of a model among those that Zoea ships. Looked up at each request."""
    return find_price(model, published_prices())


def find_price(model: str, prices: Iterable[ModelPrice]) -> ModelPrice | None:
    """Return the price of a model by its name, with or without `vendor/`.

    Of several that fit, the longest name or pattern counts.
    """
    names = {model.lower(), model.lower().rpartition("/")[2]}
    fitting = [one for one in prices if any(_fits(name, one) for name in names)]
    return max(fitting, key=lambda one: len(one.name), default=None)


def _fits(name: str, price: ModelPrice) -> bool:
    known = price.name.lower()
    if price.is_own and any(mark in known for mark in "*?["):
        return fnmatchcase(name, known)
    return name.startswith(known) and _RELEASE.fullmatch(name[len(known) :]) is not None


def read_price_file(file: Path) -> tuple[ModelPrice, ...]:
    """Read the user's prices; none if the file does not exist.

    Raises:
        SettingsError: It cannot be read, or an entry is wrong.
    """
    return parse_prices(file, read_document(file, Layer.USER))


def parse_prices(file: Path, document: Document) -> tuple[ModelPrice, ...]:
    """Return the prices of a document. Raises SettingsError as `read_price_file` does."""
    if document.problems:
        broken = document.problems[0]
        line = f":{broken.origin.line}" if broken.origin.line else ""
        raise SettingsError(f"{file}{line} {broken.message}", hint=f"An entry is {_EXAMPLE}.")
    try:
        entries = _PriceFile.model_validate(document.tree).model
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{file}: {where}: {first['msg'].lower()}", hint=f"An entry is {_EXAMPLE}.") from None
    return tuple(
        ModelPrice(
            name=name,
            input=one.input,
            cached=one.input if one.cached is None else one.cached,
            output=one.output,
            source=one.source,
            as_of=one.as_of,
            is_own=True,
        )
        for name, one in entries.items()
    )
