"""What a model call costs: the user's price file, else the published prices.

An unknown price is None, which is not zero. Models that run on this machine cost nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoea.llm.price_table import PUBLISHED
from zoea.model.errors import SettingsError
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.settings.document import Document, read_document
from zoea.settings.key_paths import Layer

log = logging.getLogger(__name__)

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

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
        """Return the price of a call in micros (millionths of a dollar). `input_tokens` includes cached ones."""
        fresh = max(0, input_tokens - cached_tokens)
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
        """Return the answer with its cost, unless the provider reported one or the price is unknown."""
        usage = answer.usage
        if usage.cost_micros is not None or usage.total is None:
            return answer
        price = self.find(provider, model or answer.model)
        return answer if price is None else replace(answer, usage=_priced(usage, price))

    def _read_own(self) -> tuple[ModelPrice, ...]:
        if self._file is None:
            return ()
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size)
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
    cost = price.cost(usage.input_tokens or 0, usage.output_tokens or 0, usage.cached_tokens or 0)
    return replace(usage, cost_micros=cost)


def published_prices() -> tuple[ModelPrice, ...]:
    """Return the prices that Zoea ships."""
    return tuple(
        ModelPrice(name, one.input, one.cached, one.output, one.source, one.as_of) for name, one in PUBLISHED.items()
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
