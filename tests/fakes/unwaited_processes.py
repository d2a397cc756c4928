"""Finds child processes that a test started and nobody waited for."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zoea.process.group_guard import guard


class UnwaitedProcesses:
    """Remembers every process object of this worker until its exit code is known.

    Python warns of one without a code when it frees it, which may be during a later test, which then fails.
    """

    def __init__(self) -> None:
        self._started: weakref.WeakSet[subprocess.Popen[Any]] = weakref.WeakSet()
        self._is_shared = False

    def watch(self) -> None:
        """Remember the processes that are started from now on, those of asyncio too."""
        start = subprocess.Popen.__init__

        def remember(process: subprocess.Popen[Any], *args: Any, **options: Any) -> None:
            start(process, *args, **options)
            if not self._is_shared:
                self._started.add(process)

        subprocess.Popen.__init__ = remember  # type: ignore[assignment]  # no other hook has the object

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Leave out what is started meanwhile. Several tests use it, and its fixture ends it."""
        before, self._is_shared = self._is_shared, True
        try:
            yield
        finally:
            self._is_shared = before

    def take(self) -> list[str]:
        """Return once the command of each process without an exit code. End those that still run."""
        left = [one for one in self._started if one.returncode is None and one is not guard._shell]
        self._started.clear()
        for process in left:
            process.kill()
            process.wait()
        return [str(process.args) for process in left]


unwaited = UnwaitedProcesses()
"""Those of this worker."""
