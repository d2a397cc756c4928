"""A process that tests start to kill it, limit its disk space, or race it.

Usage: `writing_process.py MODE PATH ARGUMENTS`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from zoea.model.errors import StoreFull
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection


def now() -> int:
    return time.time_ns() // 1000


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def pair(key: str, size: int) -> Callable[[WriterConnection], int]:
    """Return an op that stores a row and an event together."""

    def op(connection: WriterConnection) -> int:
        value = f'"{"x" * size}"'
        connection.execute("INSERT INTO setting VALUES (?, ?, ?)", (key, value, connection.now()))
        return connection.emit("pair", None, key=key)

    return op


async def write_for_ever(store: Store, prefix: str, callers: int) -> None:
    """Write from many callers at once, and print each key once acknowledged."""

    async def caller(name: str) -> None:
        number = 0
        while True:
            key = f"{prefix}-{name}-{number}"
            await store.write(pair(key, 1500))
            say(key)
            number += 1

    await asyncio.gather(*(caller(str(name)) for name in range(callers)))


async def write_some(store: Store, prefix: str, count: int) -> None:
    for number in range(count):
        await store.write(pair(f"{prefix}-{number}", 10))


async def fill(store: Store, spare: int) -> None:
    """Write until files cannot grow, then free the space; print the result of each write."""
    await store.write(lambda connection: connection.execute("PRAGMA wal_autocheckpoint = 0"))
    wal = store.path.with_name(store.path.name + "-wal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size + spare, hard))

    async def attempt(key: str) -> None:
        try:
            await store.write(pair(key, 5000))
        except StoreFull:
            say(f"refused {key}")
        else:
            say(f"stored {key}")

    for round_ in range(3):
        await asyncio.gather(*(attempt(f"{round_}-{number}") for number in range(40)))
    try:
        await store.probe()
    except StoreFull as error:
        say(f"full {error.hint}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.probe()
    await attempt("after")


async def main(mode: str, path: Path, *arguments: str) -> None:
    store = await Store.open(path, clock_now=now)
    try:
        match mode:
            case "for-ever":
                await write_for_ever(store, arguments[0], int(arguments[1]))
            case "some":
                await write_some(store, arguments[0], int(arguments[1]))
            case "fill":
                await fill(store, int(arguments[0]))
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
