"""A table of cases that one test walks through.

pytest gives each case of `parametrize` a directory, an environment and an entry in every worker: 5 ms for a function
that takes 10 µs. Here all cases of a test share these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., Any]


def walk_cases(
    names: str | Sequence[str], rows: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Call a test with each case, and fail with every case that fails.

    It takes what `pytest.mark.parametrize` takes, and stands on others of its kind as that does. All cases share the
    fixtures of the test, so it is for tests that leave nothing behind. `pytest.fail` and a skip end the walk: so does a
    limit of time, which would not be there for the next case.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    is_single = isinstance(names, str) and len(arguments) == 1
    params = [ParameterSet.extract_from(row, force_tuple=is_single) for row in rows]
    assert params, "a table without a case proves nothing"
    assert not any(param.marks for param in params), "marks are for tests"
    titles = [] if ids is None or callable(ids) else list(ids)

    def name_case(place: int) -> str:
        param = params[place]
        if param.id is not None or titles:
            return str(param.id or titles[place])
        values = [ids(value) if callable(ids) else repr(value) for value in param.values]
        return ", ".join(f"{name}={value}"[:200] for name, value in zip(arguments, values, strict=True))

    cases = [dict(zip(arguments, param.values, strict=True)) for param in params]
    return lambda test: _walk(test, arguments, cases, name_case)


def _walk(test: Test, names: Sequence[str], cases: Sequence[dict[str, Any]], name_case: Callable[[int], str]) -> Test:
    """Return the test that walks, whose fixtures are the arguments that no table gives."""

    @wraps(test)
    def walk(*own: Any, **fixtures: Any) -> None:
        with _Failures(len(cases)) as failures:
            for place, case in enumerate(cases):
                with failures.of(partial(name_case, place)):
                    test(*own, **fixtures, **case)

    @wraps(test)
    async def walk_async(*own: Any, **fixtures: Any) -> None:
        with _Failures(len(cases)) as failures:
            for place, case in enumerate(cases):
                with failures.of(partial(name_case, place)):
                    await test(*own, **fixtures, **case)

    walker: Test = walk_async if inspect.iscoroutinefunction(test) else walk
    signature = inspect.signature(test)
    kept = [one for name, one in signature.parameters.items() if name not in names]
    vars(walker)["__signature__"] = signature.replace(parameters=kept)  # which pytest reads
    return walker


class _Failures:
    """Collects what fails, and raises all of it at the end of its block."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._found: list[BaseException] = []

    def __enter__(self) -> _Failures:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if len(self._found) > 1 and (error is None or error is self._found[-1]):
            raise BaseExceptionGroup(f"{len(self._found)} of {self._number} cases failed", self._found) from None
        if isinstance(error, pytest.skip.Exception):
            raise AssertionError("a case that skips would hide the others") from error
        if self._found and error is None:
            raise self._found[0]

    @contextmanager
    def of(self, name_case: Callable[[], str]) -> Iterator[None]:
        """Keep an error of the block, whose notes then name the case."""
        try:
            yield
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            error.add_note(f"in the case {name_case()}")
            self._found.append(error)
            if not isinstance(error, Exception):
                raise
