"""Bounds of the connections of a server: in all, per address, and in time."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.waiting import until
from zoea.process.connection_limit import BoundedListener, ConnectionLimit, fit_to_descriptors

PATIENCE_S = 20.0

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answer(limit: ConnectionLimit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Confirm a client that writes a line, and echo its lines."""
    try:
        while line := await reader.readline():
            limit.confirm(writer.get_extra_info("peername")[:2])
            writer.write(line)
            await writer.drain()
    except ConnectionError:
        """The client has gone."""
    finally:
        writer.close()


@asynccontextmanager
async def serve(limit: ConnectionLimit) -> AsyncIterator[int]:
    """Serve `answer` under a limit; yields the port. Every client must be closed in the block."""
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    answers: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.append(asyncio.create_task(answer(limit, reader, writer)))

    server = await asyncio.start_server(accept, sock=BoundedListener(bound, limit))
    async with server:
        yield port
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*answers)


async def ask(client: Client) -> bytes:
    reader, writer = client
    writer.write(b"hello\n")
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readline()


async def test_silent_connections_give_their_places_to_one_that_speaks() -> None:
    limit = ConnectionLimit(total=8, new_per_address=None, deadline_s=60)
    async with serve(limit) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        speaking = await asyncio.open_connection("127.0.0.1", port)
        assert await ask(speaking) == b"hello\n"
        more = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        assert await ask(speaking) == b"hello\n"  # a confirmed one is never closed for another
        assert await ask(more[-1]) == b"hello\n"
        await close(*silent, *more, speaking)


async def test_one_address_has_a_share_of_the_new_connections() -> None:
    limit = ConnectionLimit(total=1_000, new_per_address=4, deadline_s=60)
    async with serve(limit) as port:
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        async with asyncio.timeout(PATIENCE_S):
            assert [await reader.read() for reader, _ in clients[:16]] == [b""] * 16
        assert [await ask(client) for client in clients[16:]] == [b"hello\n"] * 4
        await close(*clients)


async def test_a_connection_that_is_not_confirmed_in_time_is_closed() -> None:
    limit = ConnectionLimit(total=8, new_per_address=4, deadline_s=0.05)
    async with serve(limit) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        await close((reader, writer))


async def test_a_server_full_of_confirmed_connections_closes_further_ones() -> None:
    limit = ConnectionLimit(total=2, new_per_address=2, deadline_s=60)
    async with serve(limit) as port:
        known = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert [await ask(client) for client in known] == [b"hello\n"] * 2
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        await close((reader, writer))
        await close(known[0])
        async with asyncio.timeout(PATIENCE_S):
            while not (again := await _try(port)):
                pass  # until the server has read the end of the first one
        assert again == b"hello\n"
        await close(known[1])


async def test_a_prolonged_connection_has_more_time_and_is_closed_after_the_silent_ones() -> None:
    limit = ConnectionLimit(total=4, new_per_address=3, deadline_s=60)
    async with serve(limit) as port:
        known = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(limit._new))
        limit.prolong(known[1].get_extra_info("sockname")[:2], 60)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(9)]
        async with asyncio.timeout(PATIENCE_S):
            assert [await reader.read() for reader, _ in silent[:6]] == [b""] * 6
        assert await ask(known) == b"hello\n"
        await close(known, *silent)
        late = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(limit._new))
        limit.prolong(late[1].get_extra_info("sockname")[:2], 0.05)
        async with asyncio.timeout(PATIENCE_S):
            assert await late[0].read() == b""
        await close(late)


async def close(*clients: Client) -> None:
    for _, writer in clients:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _try(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await ask((reader, writer))
    except ConnectionError:
        return b""
    finally:
        await close((reader, writer))


@pytest.mark.parametrize(("soft", "places"), [(1024, 256), (256, 16), (20_000, 256), (resource.RLIM_INFINITY, 256)])
def test_connections_leave_descriptors_for_the_rest(soft: int, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, soft))
    assert fit_to_descriptors(256) == places
