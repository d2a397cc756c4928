"""Walk the cases of a table inside one test.

`pytest.mark.parametrize` gives each case folders, an environment, an event loop and reports of its own. They take five
milliseconds, where a call of a pure function takes a tenth of one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytest

Test = TypeVar("Test", bound=Callable[..., object])
Ids = Sequence[object] | Callable[[Any], object] | None
FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
"""A case that skips fails, because a test that skips would hide the other cases."""


def walk_cases(names: str | Sequence[str], cases: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Call a test with each case, and fail with every case that fails.

    It takes what `pytest.mark.parametrize` takes, and stands on others of its kind as that does. All cases share the
    fixtures of the test, so it is for tests that leave nothing behind.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_read_case(keys, case, place, ids) for place, case in enumerate(cases)]
    assert rows, "a table without a case proves nothing"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        assert signature.parameters.keys() >= set(keys)

        @functools.wraps(test)
        def walk(*args: object, **fixtures: object) -> None:
            with _failures() as failures:
                for name, values in rows:
                    with _kept(name, failures):
                        test(*args, **fixtures, **values)

        @functools.wraps(test)
        async def walk_async(*args: object, **fixtures: object) -> None:
            with _failures() as failures:
                for name, values in rows:
                    with _kept(name, failures):
                        await cast("Callable[..., Any]", test)(*args, **fixtures, **values)

        walker = walk_async if inspect.iscoroutinefunction(test) else walk
        left = [one for name, one in signature.parameters.items() if name not in keys]
        vars(walker)["__signature__"] = signature.replace(parameters=left)
        return cast("Test", walker)

    return decorate


def _read_case(keys: list[str], case: Any, place: int, ids: Ids) -> tuple[str, dict[str, Any]]:
    """Return the name of a case, and its value for each parameter."""
    name: object = None
    if isinstance(case, type(pytest.param())):
        assert not case.marks, "marks are for tests"
        name, values = case.id, case.values
    else:
        values = (case,) if len(keys) == 1 else tuple(case)
    if name is None and ids is not None:
        name = " ".join(str(ids(value)) for value in values) if callable(ids) else ids[place]
    return str(name or f"{place}: {repr(values)[:200]}"), dict(zip(keys, values, strict=True))


@contextmanager
def _kept(name: str, failures: list[BaseException]) -> Iterator[None]:
    """Keep the failure of a case with the name of the case."""
    try:
        yield
    except FAILURES as error:
        error.add_note(f"in the case {name}")
        failures.append(error)


@contextmanager
def _failures() -> Iterator[list[BaseException]]:
    """Raise at the end what cases failed with."""
    failures: list[BaseException] = []
    yield failures
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} cases fail", failures)
