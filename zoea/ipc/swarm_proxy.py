"""`SwarmApi` as one call: a base class made from the protocol's own methods."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from functools import wraps
from types import FunctionType
from typing import Any

from zoea.model.swarm_api import SwarmApi


def api_functions(api: type = SwarmApi) -> dict[str, FunctionType]:
    """The public methods of `SwarmApi`, or of one of its parts, by name."""
    return {
        name: function
        for part in api.__mro__
        for name, function in vars(part).items()
        if isinstance(function, FunctionType) and not name.startswith("_")
    }


class SwarmProxy(SwarmApi):
    """Forwards each method of `SwarmApi` to `call_method` or `open_stream`.

    Arguments are passed by name, with the defaults filled in.
    """

    async def call_method(self, method: str, arguments: dict[str, Any]) -> Any:
        """Carry out a method that has one answer."""
        raise NotImplementedError

    def open_stream(self, method: str, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Open the stream of a method that has many."""
        raise NotImplementedError


def _forward(function: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def bind(proxy: SwarmProxy, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = signature.bind(proxy, *args, **kwargs)
        bound.apply_defaults()
        del bound.arguments["self"]
        return bound.arguments

    @wraps(function)
    async def call(proxy: SwarmProxy, /, *args: Any, **kwargs: Any) -> Any:
        return await proxy.call_method(function.__name__, bind(proxy, args, kwargs))

    @wraps(function)
    def stream(proxy: SwarmProxy, /, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        return proxy.open_stream(function.__name__, bind(proxy, args, kwargs))

    return call if inspect.iscoroutinefunction(function) else stream


for _name, _function in api_functions().items():
    setattr(SwarmProxy, _name, _forward(_function))
